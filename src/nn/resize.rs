// SPDX-License-Identifier: MIT OR Apache-2.0
//! From a raw frame to a network's input: 8-bit R,G,B, Pillow's antialiased bilinear resize ([`super::cpu::pillow`]),
//! the canvas around it, and values.

use minijinja::context;

use super::Storage;
use super::cpu::pillow::{self, PRECISION_BITS};
use super::frames::Frames;
use super::template;
use crate::error::{Error, Result};
use crate::gpu::frame::FrameLayout;
use crate::gpu::{Binding, Context, Kernel, PlanBuilder, Vary};

/// What becomes of a frame. Sizes and places are (x, y) in pixels.
#[derive(Debug, Clone, PartialEq)]
pub struct Resize {
    /// The frames that come in.
    pub layout: FrameLayout,
    /// The part of the frame that is resized.
    pub start: [u32; 2],
    pub size: [u32; 2],
    /// To which size.
    pub resized: [u32; 2],
    /// Where its top left corner is put on the canvas, the network's input.
    pub offset: [u32; 2],
    pub canvas: [u32; 2],
    /// R, G, B of the canvas around it, as values.
    pub fill: [f32; 3],
    /// `value = code·scale + shift`, for R, G, B.
    pub scale: [f32; 3],
    pub shift: [f32; 3],
    pub output: Storage,
}

#[repr(C)]
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
struct Part {
    start: [u32; 2],
    size: [u32; 2],
    width: u32,
    padding: [u32; 3],
}

#[repr(C)]
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
struct Canvas {
    scale: [f32; 4],
    shift: [f32; 4],
    fill: [f32; 4],
    size: [u32; 2],
    start: [u32; 2],
    picture: [u32; 2],
    rows: u32,
    padding: u32,
}

/// The taps of a pass from `input` to `output` samples as the shaders read them, and how many each sample has.
fn taps(input: u32, output: u32) -> (Vec<i32>, usize) {
    let taps = pillow::taps(input as usize, output as usize);
    let most = taps.iter().map(|t| t.weights.len()).max().unwrap_or(0);
    let packed = taps.iter().flat_map(|t| {
        let weights = t.weights.iter().copied().chain(std::iter::repeat(0));
        std::iter::once(t.first as i32).chain(weights.take(most))
    });
    (packed.collect(), most)
}

impl Resize {
    fn frames(&self) -> Frames {
        let (source, image) = (self.layout.clone(), self.layout.clone());
        Frames { source, image, grid: (self.canvas[0], self.canvas[1]), scaled: false }
    }

    /// Renders the kernel of the first pass, of `taps` pixels to one.
    pub fn rows_kernel(&self, label: &str, taps: usize) -> Result<Kernel> {
        let values = context! {
            taps,
            half_unit => 1 << (PRECISION_BITS - 1),
            precision => PRECISION_BITS,
            ..self.frames().single_context()
        };
        let bindings = vec![Binding::Uniform, Binding::Uniform, Binding::Read, Binding::Read, Binding::Write];
        template::kernel("resize_rows.wgsl", label, bindings, values)
    }

    /// Renders the kernel of the second pass, of `taps` pixels to one.
    pub fn columns_kernel(&self, label: &str, taps: usize) -> Result<Kernel> {
        let values = context! {
            taps,
            half_unit => 1 << (PRECISION_BITS - 1),
            precision => PRECISION_BITS,
            half => self.output == Storage::F16,
            out_t => self.output.name(),
        };
        let bindings = vec![Binding::Uniform, Binding::Read, Binding::Read, Binding::Write];
        template::kernel("resize_columns.wgsl", label, bindings, values)
    }

    /// Adds the dispatches from `frame`, a frame of the layout, to `dst`, `[canvas]` of R, G, B, 0.
    ///
    /// # Errors
    /// [`Error::Usage`] where the part is none of the frame's, or the resized picture none of the canvas.
    pub fn steps(
        &self,
        plan: &mut PlanBuilder,
        context: &Context,
        frame: &wgpu::Buffer,
        dst: &wgpu::Buffer,
    ) -> Result<()> {
        let inside = |start: [u32; 2], size: [u32; 2], limit: [u32; 2]| {
            (0..2).all(|i| size[i] > 0 && start[i].checked_add(size[i]).is_some_and(|end| end <= limit[i]))
        };
        let Self { start, size, resized, offset, canvas, .. } = *self;
        if !inside(start, size, [self.layout.width, self.layout.height]) || !inside(offset, resized, canvas) {
            return Err(Error::Usage(format!(
                "{size:?} at {start:?} of {}x{} does not go to {resized:?} at {offset:?} of {canvas:?}",
                self.layout.width, self.layout.height
            )));
        }
        let geometry = plan.uniform("geometry", bytemuck::bytes_of(&self.frames().geometry()));
        let storage = wgpu::BufferUsages::STORAGE;

        let (weights, count) = taps(size[0], resized[0]);
        let weights = context.constant("row taps", bytemuck::cast_slice(&weights), storage);
        let part = Part { start, size, width: resized[0], padding: [0; 3] };
        let part = plan.uniform("resize rows", bytemuck::bytes_of(&part));
        let rows = context.storage("resized rows", u64::from(resized[0]) * u64::from(size[1]) * 4);
        let kernel = self.rows_kernel("resize rows", count)?;
        plan.step(kernel, [resized[0].div_ceil(64), size[1], 1], Vary::None, |_| {
            vec![geometry.clone(), part.clone(), frame.clone(), weights.clone(), rows.clone()]
        });

        let (weights, count) = taps(size[1], resized[1]);
        let weights = context.constant("column taps", bytemuck::cast_slice(&weights), storage);
        let four = |[r, g, b]: [f32; 3]| [r, g, b, 0.0];
        let uniform = Canvas {
            scale: four(self.scale),
            shift: four(self.shift),
            fill: four(self.fill),
            size: canvas,
            start: offset,
            picture: resized,
            rows: size[1],
            padding: 0,
        };
        let uniform = plan.uniform("resize columns", bytemuck::bytes_of(&uniform));
        let kernel = self.columns_kernel("resize columns", count)?;
        plan.step(kernel, [canvas[0].div_ceil(64), canvas[1], 1], Vary::None, |_| {
            vec![uniform.clone(), rows.clone(), weights.clone(), dst.clone()]
        });
        Ok(())
    }
}
