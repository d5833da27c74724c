// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sums of two tensors, such as tokens and their positions.

use minijinja::context;

use super::template;
use super::{Storage, groups_of_four, spread};
use crate::error::Result;
use crate::gpu::{Binding, Kernel, PlanBuilder, Vary};

/// `dst = a + b`, summed in f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Add {
    pub channels: usize,
    pub a: Storage,
    pub b: Storage,
    pub output: Storage,
}

impl Add {
    /// Renders the kernel.
    pub fn kernel(&self, label: &str) -> Result<Kernel> {
        let values = context! {
            half => [self.a, self.b, self.output].contains(&Storage::F16),
            a_t => self.a.name(),
            b_t => self.b.name(),
            out_t => self.output.name(),
        };
        let bindings = vec![Binding::Uniform, Binding::Read, Binding::Read, Binding::Write];
        template::kernel("add.wgsl", label, bindings, values)
    }

    /// Adds the dispatch for `tokens` tokens (or pixels).
    pub fn step(
        &self,
        plan: &mut PlanBuilder,
        label: &str,
        tokens: u32,
        a: &wgpu::Buffer,
        b: &wgpu::Buffer,
        dst: &wgpu::Buffer,
    ) -> Result<()> {
        let count = tokens * groups_of_four(self.channels) as u32;
        let uniform = plan.uniform(label, bytemuck::bytes_of(&[count, 0, 0, 0]));
        plan.step(self.kernel(label)?, spread(count.div_ceil(64)), Vary::None, |_| {
            vec![uniform.clone(), a.clone(), b.clone(), dst.clone()]
        });
        Ok(())
    }
}
