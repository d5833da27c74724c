// SPDX-License-Identifier: MIT OR Apache-2.0
//! Transposed 4×4 convolution, stride 2, padding 1, to the five planes of the network's answer.

use minijinja::context;

use super::template;
use super::{Dims, Storage, groups_of_four};
use crate::error::Result;
use crate::gpu::{Binding, Context, Kernel, PlanBuilder, Vary};

/// Planes of the answer: two flows and the mask logit.
pub const PLANES: usize = 5;

/// One transposed convolution, without its size. Weights and output are f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Deconvolution {
    pub cin: usize,
    pub input: Storage,
    /// Pixels of a workgroup.
    pub pixels: u32,
    /// Invocations that share a pixel's sum.
    pub split: u32,
}

/// Constants on the GPU.
#[derive(Debug, Clone)]
pub struct DeconvolutionBuffers {
    weights: wgpu::Buffer,
    bias: wgpu::Buffer,
}

impl Deconvolution {
    /// Renders the kernel.
    pub fn kernel(&self, label: &str) -> Result<Kernel> {
        let values = context! {
            half => self.input == Storage::F16,
            in_t => self.input.name(),
            cin4 => groups_of_four(self.cin),
            pixels => self.pixels,
            split => self.split,
        };
        let bindings = vec![Binding::Uniform, Binding::Read, Binding::Read, Binding::Read, Binding::Write];
        template::kernel("deconvolve.wgsl", label, bindings, values)
    }

    /// Packs `weight` (`[cin][5][4][4]`) as `[parity y, x][tap y, x][cin / 4][5]` vec4 of input channels.
    pub fn upload(&self, context: &Context, label: &str, weight: &[f32], bias: &[f32]) -> DeconvolutionBuffers {
        let cin4 = groups_of_four(self.cin);
        let mut packed = vec![0.0; 16 * cin4 * PLANES * 4];
        for parity in 0..4 {
            for tap in 0..4 {
                // An even output row takes kernel rows 1 and 3, an odd one 0 and 2.
                let ky = 1 - (parity >> 1) + 2 * (tap >> 1);
                let kx = 1 - (parity & 1) + 2 * (tap & 1);
                for ci in 0..self.cin {
                    for co in 0..PLANES {
                        let at = (((parity * 4 + tap) * cin4 + ci / 4) * PLANES + co) * 4 + ci % 4;
                        packed[at] = weight[(ci * PLANES + co) * 16 + ky * 4 + kx];
                    }
                }
            }
        }
        let mut padded = [0.0; 8];
        padded[..PLANES].copy_from_slice(bias);
        let usage = wgpu::BufferUsages::STORAGE;
        DeconvolutionBuffers {
            weights: context.constant(label, bytemuck::cast_slice(&packed), usage),
            bias: context.constant(label, bytemuck::cast_slice(&padded), usage),
        }
    }

    /// Adds the dispatch that turns `src` of `size` into `dst`, `[2·height][2·width][8]` f32 of which five are used.
    pub fn step(
        &self,
        plan: &mut PlanBuilder,
        label: &str,
        constants: &DeconvolutionBuffers,
        size: (u32, u32),
        src: &wgpu::Buffer,
        dst: &wgpu::Buffer,
    ) -> Result<()> {
        let (width, height) = size;
        let dims = plan.uniform(label, bytemuck::bytes_of(&Dims::new(size, (width * 2, height * 2))));
        plan.step(self.kernel(label)?, [width.div_ceil(self.pixels), height, 4], Vary::None, |_| {
            vec![dims.clone(), src.clone(), constants.weights.clone(), constants.bias.clone(), dst.clone()]
        });
        plan.flops(2 * 16 * (self.cin * PLANES) as u64 * u64::from(width) * u64::from(height));
        Ok(())
    }
}
