// SPDX-License-Identifier: MIT OR Apache-2.0
//! The operations that touch raw frames: sampling the network's input, the static guard, gathering the refine head's
//! input, and warping, blending and packing the made frame.

use minijinja::{Value, context};

use super::template;
use super::{Storage, groups_of_four};
use crate::error::Result;
use crate::gpu::frame::{FrameLayout, Role, Texel};
use crate::gpu::{Binding, Kernel, PlanBuilder, Vary};

/// How codes become bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Rounding {
    /// To the nearest code: what the product does.
    #[default]
    Nearest,
    /// Down, as the runtime that made some reference vectors did.
    Truncate,
}

/// How still areas are held still.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum StaticGuard {
    /// The network's answer stands.
    Off,
    /// Where the mean difference over 3×3 pixels is small, the mean of both frames.
    #[default]
    Soft,
    /// As `Soft`, and also single unchanged pixels.
    Strict,
}

/// Sizes, plane positions and colour of a plan's frames: the kernels' `Geometry` uniform (shaders/shared/geometry.wgsl).
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Geometry {
    frame: [i32; 2],
    image: [i32; 2],
    grid: [i32; 2],
    grid_scale: [f32; 2],
    sample_ratio: [f32; 2],
    stretch: [f32; 2],
    planes: [[u32; 4]; 3],
    range: [f32; 4],
    weights: [f32; 4],
}

/// What the frame operations of one plan have in common.
#[derive(Debug, Clone)]
pub struct Frames {
    /// The frames that come in.
    pub source: FrameLayout,
    /// The frames that are made; of another size only where the reference vectors ask for it.
    pub image: FrameLayout,
    /// The network's grid; both sides are multiples of 16.
    pub grid: (u32, u32),
    /// Whether the frame is stretched to the grid instead of being extended at its edge.
    pub scaled: bool,
}

impl Frames {
    fn stretched(&self) -> bool {
        (self.source.width, self.source.height) != (self.image.width, self.image.height)
    }

    /// The uniform the kernels read.
    pub fn geometry(&self) -> Geometry {
        let Self { source, image, grid, .. } = self;
        let ratio = |a: (u32, u32), b: (u32, u32)| [a.0 as f32 / b.0 as f32, a.1 as f32 / b.1 as f32];
        let frame_size = (source.width, source.height);
        let image_size = (image.width, image.height);
        let mut planes = [[0; 4]; 3];
        for (plane, (from, to)) in planes.iter_mut().zip(source.planes().iter().zip(image.planes())) {
            *plane = [from.offset, from.stride, to.offset, to.stride];
        }
        // ITU-R BT.601/709/2020: 8-bit luma codes 16..235, chroma 16..240 around 128, in steps of four at 10 bits.
        let max = source.texels()[0].max as f32;
        let unit = (max + 1.0) / 256.0;
        let centre = 128.0 * unit / max;
        let gray = source.format.is_gray();
        let range = if source.color.full_range || gray {
            [0.0, 1.0, centre, 1.0]
        } else {
            [16.0 * unit / max, max / (219.0 * unit), centre, max / (224.0 * unit)]
        };
        let (kr, kb) = if gray { (0.299, 0.114) } else { (source.color.matrix.kr, source.color.matrix.kb) };
        let signed = |(w, h): (u32, u32)| [w as i32, h as i32];
        Geometry {
            frame: signed(frame_size),
            image: signed(image_size),
            grid: signed(*grid),
            grid_scale: if self.scaled { ratio(*grid, image_size) } else { [1.0; 2] },
            sample_ratio: if self.scaled { ratio(frame_size, (grid.0 / 4, grid.1 / 4)) } else { [4.0; 2] },
            stretch: ratio(frame_size, image_size),
            planes,
            range,
            weights: [kb, 1.0 - kr - kb, kr, 0.0],
        }
    }

    fn texels(&self) -> Vec<Value> {
        let color = &self.source.color;
        let texel = |t: &Texel| {
            let axis = |name: &str, shift: u32, left: bool| match (shift, left) {
                (0, _) => (format!("at.{name}"), format!("at.{name}")),
                (_, true) => (format!("at.{name} * 0.5"), format!("at.{name} * 2.0")),
                (_, false) => (format!("(at.{name} + 0.5) * 0.5 - 0.5"), format!("(at.{name} + 0.5) * 2.0 - 0.5")),
            };
            let (to_group_x, to_luma_x) = axis("x", t.shift_x, color.chroma_left);
            let (to_group_y, to_luma_y) = axis("y", t.shift_y, false);
            context! { to_group_x, to_group_y, to_luma_x, to_luma_y, ..Value::from_serialize(t) }
        };
        self.source.texels().iter().map(texel).collect()
    }

    /// What shared/frames.wgsl needs. `kinds` says which sampling functions to render.
    fn context(&self, kinds: &[&str]) -> Value {
        let find =
            |role: Role| {
                self.source.texels().iter().enumerate().find_map(|(g, t)| {
                    t.components.iter().position(|c| c.role == role).map(|component| vec![g, component])
                })
            };
        let format = self.source.format;
        let color = match () {
            () if format.is_rgb() => "rgb",
            () if format.is_gray() => "gray",
            () => "yuv",
        };
        let mut kinds = kinds.to_vec();
        if self.stretched() && !kinds.contains(&"source") {
            kinds.insert(0, "source");
        }
        context! {
            frames => [0, 1],
            texels => self.texels(),
            kinds => kinds,
            stretched => self.stretched(),
            color => color,
            pick => context! {
                b => find(Role::B), g => find(Role::G), r => find(Role::R), u => find(Role::U), v => find(Role::V),
            },
        }
    }

    /// What shared/frames.wgsl needs where a kernel reads one frame, `frame0`, as it is.
    pub(super) fn single_context(&self) -> Value {
        context! { frames => [0], ..self.context(&["source"]) }
    }

    /// shaders/sample.wgsl; `with_timestep` adds t as a plane.
    pub fn sample_kernel(&self, label: &str, output: Storage, with_timestep: bool) -> Result<Kernel> {
        let values = context! {
            half => output == Storage::F16,
            out_t => output.name(),
            with_timestep,
            ..self.context(&["source"])
        };
        let bindings = vec![Binding::Uniform, Binding::Read, Binding::Read, Binding::Read, Binding::Write];
        template::kernel("sample.wgsl", label, bindings, values)
    }

    /// shaders/guard.wgsl.
    pub fn guard_kernel(&self, label: &str, strict: bool) -> Result<Kernel> {
        let values = context! { strict, ..self.context(&["image"]) };
        let bindings = vec![Binding::Uniform, Binding::Read, Binding::Read, Binding::Write];
        template::kernel("guard.wgsl", label, bindings, values)
    }

    /// shaders/gather.wgsl.
    pub fn gather_kernel(&self, label: &str, output: Storage) -> Result<Kernel> {
        let values = context! {
            half => output == Storage::F16,
            out_t => output.name(),
            ..self.context(&["image"])
        };
        let bindings = vec![Binding::Uniform, Binding::Read, Binding::Read, Binding::Read, Binding::Write];
        template::kernel("gather.wgsl", label, bindings, values)
    }

    /// shaders/warp.wgsl for one plane.
    pub fn warp_kernel(
        &self,
        label: &str,
        plane: usize,
        rounding: Rounding,
        residual: bool,
        guard: bool,
    ) -> Result<Kernel> {
        let texels = self.source.texels();
        let group = texels.iter().position(|t| t.plane == plane).unwrap_or(0);
        let mut bindings = vec![Binding::Uniform, Binding::Read, Binding::Read, Binding::Read, Binding::Write];
        // Optional inputs take the next free binding; 0 = absent.
        let mut optional = |present: bool| {
            if present {
                bindings.push(Binding::Read);
                bindings.len() - 1
            } else {
                0
            }
        };
        let (residual, guard) = (optional(residual), optional(guard));
        let values = context! {
            plane,
            plane_group => group,
            period => self.period(plane),
            max => texels[0].max,
            rounding => match rounding {
                Rounding::Nearest => "0.5",
                Rounding::Truncate => "0.0",
            },
            residual,
            guard,
            ..self.context(&["image"])
        };
        template::kernel("warp.wgsl", label, bindings, values)
    }

    /// Bytes one invocation of the warp kernel writes: whole words and whole texels.
    fn period(&self, plane: usize) -> u32 {
        if self.source.texels().iter().any(|t| t.plane == plane && t.step == 3) { 12 } else { 4 }
    }

    /// Size of the network's input and of the refine head.
    pub fn quarter(&self) -> (u32, u32) {
        (self.grid.0 / 4, self.grid.1 / 4)
    }
}

/// The buffers the frame operations share.
#[derive(Debug, Clone)]
pub struct FrameBuffers {
    /// A [`Geometry`] uniform.
    pub geometry: wgpu::Buffer,
    /// The two resident frames.
    pub frames: [wgpu::Buffer; 2],
    /// The network's answer: `[grid/8][8]` f32.
    pub answer: wgpu::Buffer,
    /// The made frame in its raw format.
    pub made: wgpu::Buffer,
}

impl FrameBuffers {
    fn ordered(&self, pair: usize) -> [wgpu::Buffer; 3] {
        [self.geometry.clone(), self.frames[pair].clone(), self.frames[1 - pair].clone()]
    }
}

impl Frames {
    /// Adds the dispatch that samples the network's input into `dst`.
    pub fn sample_step(
        &self,
        plan: &mut PlanBuilder,
        buffers: &FrameBuffers,
        timestep: &wgpu::Buffer,
        dst: &wgpu::Buffer,
        output: Storage,
        with_timestep: bool,
    ) -> Result<()> {
        let kernel = self.sample_kernel("sample", output, with_timestep)?;
        let (width, height) = self.quarter();
        plan.step(kernel, [width.div_ceil(8), height.div_ceil(8), 1], Vary::Pair, |pair| {
            let mut list = buffers.ordered(pair).to_vec();
            list.extend([timestep.clone(), dst.clone()]);
            list
        });
        Ok(())
    }

    /// Adds the dispatch that fills `dst`, one f32 a pixel of the image.
    pub fn guard_step(
        &self,
        plan: &mut PlanBuilder,
        buffers: &FrameBuffers,
        strict: bool,
        dst: &wgpu::Buffer,
    ) -> Result<()> {
        let kernel = self.guard_kernel("guard", strict)?;
        let (width, height) = (self.image.width, self.image.height);
        plan.step(kernel, [width.div_ceil(16), height.div_ceil(16), 1], Vary::Pair, |pair| {
            let mut list = buffers.ordered(pair).to_vec();
            list.push(dst.clone());
            list
        });
        Ok(())
    }

    /// Adds the dispatch that fills the refine head's input, `[grid/4][12]`.
    pub fn gather_step(
        &self,
        plan: &mut PlanBuilder,
        buffers: &FrameBuffers,
        output: Storage,
        dst: &wgpu::Buffer,
    ) -> Result<()> {
        let kernel = self.gather_kernel("gather", output)?;
        let (width, height) = self.quarter();
        plan.step(kernel, [width.div_ceil(8), height.div_ceil(8), 1], Vary::Pair, |pair| {
            let mut list = buffers.ordered(pair).to_vec();
            list.extend([buffers.answer.clone(), dst.clone()]);
            list
        });
        Ok(())
    }

    /// Adds the dispatches that make the frame, one a plane. `residual` is `[grid/4][4]` f32, `guard` what
    /// [`Frames::guard_step`] fills.
    pub fn warp_steps(
        &self,
        plan: &mut PlanBuilder,
        buffers: &FrameBuffers,
        rounding: Rounding,
        residual: Option<&wgpu::Buffer>,
        guard: Option<&wgpu::Buffer>,
    ) -> Result<()> {
        for (index, plane) in self.image.planes().iter().enumerate() {
            let label = format!("warp plane {index}");
            let kernel = self.warp_kernel(&label, index, rounding, residual.is_some(), guard.is_some())?;
            let periods = plane.stride / self.period(index);
            plan.step(kernel, [periods.div_ceil(32), plane.rows.div_ceil(4), 1], Vary::Pair, |pair| {
                let mut list = buffers.ordered(pair).to_vec();
                list.extend([buffers.answer.clone(), buffers.made.clone()]);
                list.extend([residual, guard].into_iter().flatten().cloned());
                list
            });
        }
        Ok(())
    }
}

/// Channels of the network's input: both frames' B,G,R, and t where the graph takes it there.
pub const fn input_channels(with_timestep: bool) -> usize {
    if with_timestep { 7 } else { 6 }
}

/// Channels of the refine head's input.
pub const REFINE_CHANNELS: usize = 11;

/// Bytes of a tensor of `size` with `channels` channels.
pub fn tensor_bytes((width, height): (u32, u32), channels: usize, storage: Storage) -> u64 {
    u64::from(width) * u64::from(height) * (groups_of_four(channels) as u64 * 4) * storage.bytes()
}
