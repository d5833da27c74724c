// SPDX-License-Identifier: MIT OR Apache-2.0
//! The whole network on the CPU, from the plain-Rust twins of [`crate::nn::cpu`]: the oracle of the GPU graph.
//!
//! # Sizes
//! - The **frame** has W×H luma pixels, the **grid** (both sides multiples of 16) is what the network sees.
//! - By default the grid is the frame's size rounded up to 16 and grid pixel = frame pixel: the frame is edge-extended,
//!   the output has exactly the frame's size. `scale` = 1.
//! - With `flow_scale` below 1 the grid is `ceil(size·flow_scale / 16)·16` by axis and the frame is stretched to it:
//!   `scale` = frame / grid frame pixels to a grid pixel, by axis. The network runs on the grid; flow is multiplied by
//!   `scale` back to frame pixels; warp and guard run at the frame's size; the refine head runs on the grid.
//! - With `output_size` (no part of the product: the goldens' stretch) the output has that size, which is also the
//!   grid: the network's input is sampled from the frame itself, everything after it from the frame stretched to the
//!   output.
//!
//! # Steps, for one t
//! 1. B,G,R of both frames ([`BgrFrame`]); network input ([`cpu::quarter_input()`]).
//! 2. conv0 twice (stride 2), eight convblocks, the first features added after the last; FiLM before the seventh in the
//!    factored graphs; transposed convolution to `tmp8`.
//! 3. Every component plane is warped and blended in itself ([`cpu::warp_blend()`]), alpha and unused bytes too.
//! 4. `tfact2`: the residual ([`cpu::refine_input()`], four convolutions, [`refine_output`]) is sampled at each
//!    sample's luma position and added by the linear part of the conversion ([`frame::linear_from_bgr`]).
//! 5. Clamp to 0..1 of the code range.
//! 6. Static guard: `s` at each luma pixel from the B,G,R frames ([`static_guard::stillness`]), for a subsampled plane
//!    its mean over the sample's luma block ([`static_guard::block_mean`]); `out = mix(out, (plane0 + plane1) / 2, s)`.
//! 7. Rounding to codes ([`crate::nn::cpu::store::to_code`]).

use super::weights::{BLOCKS, Conv, Graph, Weights};
use super::{Rounding, StaticGuard};
use crate::error::{Error, Result};
use crate::gpu::frame::{PlaneMut, PlaneRef};
use crate::nn::cpu::frame::{self, BgrFrame, FrameInfo};
use crate::nn::cpu::{self, Conv3x3, Padding, Tensor, film, refine_output, sample, static_guard};

/// Settings of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    pub static_guard: StaticGuard,
    pub rounding: Rounding,
    /// 0.25..=1.
    pub flow_scale: f64,
    /// Stretch to this size (multiples of 16; formats without subsampling; `flow_scale` 1).
    pub output_size: Option<(u32, u32)>,
}

impl Default for Options {
    fn default() -> Self {
        Self { static_guard: StaticGuard::Off, rounding: Rounding::Nearest, flow_scale: 1.0, output_size: None }
    }
}

/// The network's grid over a frame.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Grid {
    /// Width, height; multiples of 16.
    pub size: [usize; 2],
    /// Frame pixels to one grid pixel, by axis; 1 where the frame is edge-extended.
    pub scale: [f32; 2],
}

impl Grid {
    /// The grid over a frame of `size` = [width, height].
    pub fn new(size: [usize; 2], flow_scale: f64) -> Self {
        if flow_scale >= 1.0 {
            return Self { size: size.map(|n| n.next_multiple_of(16)), scale: [1.0, 1.0] };
        }
        let grid = size.map(|n| ((n as f64 * flow_scale).ceil() as usize).next_multiple_of(16));
        Self { size: grid, scale: [size[0] as f32 / grid[0] as f32, size[1] as f32 / grid[1] as f32] }
    }
}

/// Every intermediate of one made frame, for comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Forward {
    /// Network input, grid / 4, 6 or 7 channels.
    pub quarter: Tensor,
    /// Grid / 8, C1 channels.
    pub f8: Tensor,
    /// Grid / 16, C2 channels.
    pub feat0: Tensor,
    /// What enters convblock 6 (after FiLM in the factored graphs), grid / 16, C2 channels.
    pub trunk: Tensor,
    /// Convblock 7 plus `feat0`.
    pub features: Tensor,
    /// fx0, fy0, fx1, fy1, mask logit; grid / 8.
    pub tmp8: Tensor,
    /// 11 channels at grid / 4 (`tfact2`).
    pub refine_input: Option<Tensor>,
    /// B,G,R at grid / 4 (`tfact2`).
    pub residual: Option<Tensor>,
    /// The made frame's component planes in 0..1, in the order of [`frame::components`], before rounding.
    pub components: Vec<Tensor>,
}

/// Frames before the stretch to another output size.
struct Source {
    info: FrameInfo,
    planes: [Vec<Tensor>; 2],
    /// Frame pixels to one grid pixel, by axis.
    scale: [f32; 2],
}

fn bgr<'a>(info: &'a FrameInfo, planes: &'a [Vec<Tensor>; 2]) -> [BgrFrame<'a>; 2] {
    [BgrFrame::new(info, &planes[0]), BgrFrame::new(info, &planes[1])]
}

/// Two frames and a network.
pub struct Reference<'w> {
    weights: &'w Weights,
    options: Options,
    /// The output's; differs from the input's by `output_size` only.
    info: FrameInfo,
    grid: Grid,
    /// Component planes of both frames at the output's size.
    planes: [Vec<Tensor>; 2],
    /// The frames as they came, where they were stretched: what the network's input is made of.
    source: Option<Source>,
}

impl<'w> Reference<'w> {
    /// Takes two frames of `info` apart; `a` is the earlier.
    pub fn new(
        weights: &'w Weights,
        info: FrameInfo,
        options: Options,
        a: &[PlaneRef<'_>],
        b: &[PlaneRef<'_>],
    ) -> Result<Self> {
        if !(0.25..=1.0).contains(&options.flow_scale) {
            return Err(Error::Unsupported(format!("flow-scale {} is not in 0.25..=1", options.flow_scale)));
        }
        let planes = [frame::decode(&info, a)?, frame::decode(&info, b)?];
        let Some((width, height)) = options.output_size else {
            let grid = Grid::new([info.width, info.height], options.flow_scale);
            return Ok(Self { weights, options, info, grid, planes, source: None });
        };
        let size = [width as usize, height as usize];
        let subsampled = frame::components(info.format).iter().any(|c| c.subsampling != [1, 1]);
        if subsampled || options.flow_scale < 1.0 || size.iter().any(|&n| n == 0 || n % 16 != 0) {
            return Err(Error::Unsupported(format!(
                "output size {width}x{height}: needs multiples of 16, a format without subsampling and flow-scale 1"
            )));
        }
        let stretched = planes
            .each_ref()
            .map(|frame| frame.iter().map(|plane| sample::resize(plane, size[0], size[1])).collect::<Vec<_>>());
        let scale = [info.width as f32 / size[0] as f32, info.height as f32 / size[1] as f32];
        let source = Some(Source { info, planes, scale });
        let info = FrameInfo { width: size[0], height: size[1], ..info };
        let grid = Grid { size, scale: [1.0, 1.0] };
        Ok(Self { weights, options, info, grid, planes: stretched, source })
    }

    /// The output frame's.
    pub fn info(&self) -> &FrameInfo {
        &self.info
    }

    /// The network's grid.
    pub fn grid(&self) -> Grid {
        self.grid
    }

    /// Makes the frame at `t` (0: frame a, 1: frame b) with all its intermediates.
    pub fn forward(&self, t: f64) -> Forward {
        let (weights, t) = (self.weights, t as f32);
        let plane_t = (weights.graph() == Graph::Classic).then_some(t);
        let (frames, scale) = match &self.source {
            Some(source) => (bgr(&source.info, &source.planes), source.scale),
            None => (bgr(&self.info, &self.planes), self.grid.scale),
        };
        let quarter = cpu::quarter_input(frames, self.grid.size, scale, plane_t);
        let f8 = conv(&weights.conv0[0], &quarter, 2, Padding::Zero, None);
        let feat0 = conv(&weights.conv0[1], &f8, 2, Padding::Zero, None);
        let (trunk_layers, head_layers) = weights.convblock.split_at(BLOCKS - 2);
        let mut trunk = feat0.clone();
        for layer in trunk_layers {
            trunk = conv(layer, &trunk, 1, Padding::Zero, None);
        }
        if let Some(f) = &weights.film {
            trunk = film::film(&trunk, &film::film_params(&f.w0, &f.b0, &f.w2, &f.b2, t));
        }
        let mut features = trunk.clone();
        for (i, layer) in head_layers.iter().enumerate() {
            let residual = (i + 1 == head_layers.len()).then_some(&feat0);
            features = conv(layer, &features, 1, Padding::Zero, residual);
        }
        let tmp8 = cpu::conv_transpose4x4(&features, &weights.lastconv.weight, &weights.lastconv.bias);
        let refine_input = weights
            .refine
            .as_ref()
            .map(|_| cpu::refine_input(bgr(&self.info, &self.planes), &tmp8, self.grid.size, self.grid.scale));
        let residual = weights.refine.as_ref().zip(refine_input.as_ref()).map(|(refine, input)| {
            let mut x = input.clone();
            for layer in &refine.convs {
                x = conv(layer, &x, 1, Padding::Zero, None);
            }
            refine_output::residual(&conv(&refine.c3, &x, 1, Padding::Edge, None))
        });
        let components = self.compose(&tmp8, residual.as_ref());
        Forward { quarter, f8, feat0, trunk, features, tmp8, refine_input, residual, components }
    }

    /// Steps 3 to 6.
    fn compose(&self, tmp8: &Tensor, residual: Option<&Tensor>) -> Vec<Tensor> {
        let stillness = (self.options.static_guard != StaticGuard::Off).then(|| {
            let [a, b] = bgr(&self.info, &self.planes).map(|frame| frame.to_tensor());
            static_guard::stillness([&a, &b], self.options.static_guard == StaticGuard::Strict)
        });
        frame::components(self.info.format)
            .iter()
            .enumerate()
            .map(|(i, component)| {
                let planes = [&self.planes[0][i], &self.planes[1][i]];
                let placement = self.info.placement(component, self.grid.scale);
                let mut made = cpu::warp_blend(planes, tmp8, &placement);
                let still = stillness.as_ref().map(|s| static_guard::block_mean(s, component.subsampling));
                for y in 0..made.height {
                    for x in 0..made.width {
                        let v = &mut made.at_mut(x, y)[0];
                        if let Some(residual) = residual {
                            let position = placement.luma_position(x, y);
                            let bgr = refine_output::residual_at(residual, position, self.grid.scale);
                            *v += frame::linear_from_bgr(&self.info, component.role, bgr);
                        }
                        *v = v.clamp(0.0, 1.0);
                        if let Some(still) = &still {
                            let frames = [planes[0].at(x, y)[0], planes[1].at(x, y)[0]];
                            *v = static_guard::hold(*v, frames, still.at(x, y)[0]);
                        }
                    }
                }
                made
            })
            .collect()
    }

    /// Makes the frame at `t` into `out`, planes of [`Reference::info`].
    pub fn render(&self, t: f64, out: &mut [PlaneMut<'_>]) -> Result<()> {
        let truncate = self.options.rounding == Rounding::Truncate;
        frame::encode(&self.info, &self.forward(t).components, truncate, out)
    }
}

fn conv(layer: &Conv, input: &Tensor, stride: usize, padding: Padding, residual: Option<&Tensor>) -> Tensor {
    let Conv { weight, bias, slope, .. } = layer;
    cpu::conv3x3(input, &Conv3x3 { weight, bias, slope: slope.as_deref(), stride, padding, residual })
}
