// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows of a tensor, by index.

use minijinja::context;

use super::template;
use super::{Storage, groups_of_four, spread};
use crate::error::Result;
use crate::gpu::{Binding, Kernel, PlanBuilder, Vary};

/// `dst[i] = src[indices[i]]`, rows of `channels`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PickRows {
    pub channels: usize,
    pub input: Storage,
    pub output: Storage,
}

impl PickRows {
    /// Renders the kernel.
    pub fn kernel(&self, label: &str) -> Result<Kernel> {
        let values = context! {
            half => [self.input, self.output].contains(&Storage::F16),
            in_t => self.input.name(),
            out_t => self.output.name(),
            c4 => groups_of_four(self.channels),
        };
        let bindings = vec![Binding::Uniform, Binding::Read, Binding::Read, Binding::Write];
        template::kernel("pick.wgsl", label, bindings, values)
    }

    /// Adds the dispatch for `rows` indices (u32), each below the number of tokens in `src`.
    pub fn step(
        &self,
        plan: &mut PlanBuilder,
        label: &str,
        rows: u32,
        indices: &wgpu::Buffer,
        src: &wgpu::Buffer,
        dst: &wgpu::Buffer,
    ) -> Result<()> {
        let count = plan.uniform(label, bytemuck::bytes_of(&[rows, 0, 0, 0]));
        let groups = (rows * groups_of_four(self.channels) as u32).div_ceil(64);
        plan.step(self.kernel(label)?, spread(groups), Vary::None, |_| {
            vec![count.clone(), indices.clone(), src.clone(), dst.clone()]
        });
        Ok(())
    }
}
