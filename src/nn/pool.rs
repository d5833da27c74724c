// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pooling, to half the size rounded up.

use minijinja::context;

use super::template;
use super::{Dims, Storage, groups_of_four};
use crate::error::Result;
use crate::gpu::{Binding, Kernel, PlanBuilder, Vary};

/// What becomes of the pixels of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PoolKind {
    /// The maximum of 3×3, stride 2, padding 1.
    Max3x3,
    /// The mean of 2×2, stride 2, over the pixels that exist.
    Mean2x2,
}

/// One pooling, without its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pool {
    pub kind: PoolKind,
    pub channels: usize,
    /// Of input and output.
    pub storage: Storage,
}

impl Pool {
    /// Renders the kernel.
    pub fn kernel(&self, label: &str) -> Result<Kernel> {
        let values = context! {
            half => self.storage == Storage::F16,
            in_t => self.storage.name(),
            c4 => groups_of_four(self.channels),
            kind => match self.kind {
                PoolKind::Max3x3 => "max",
                PoolKind::Mean2x2 => "mean",
            },
        };
        template::kernel("pool.wgsl", label, vec![Binding::Uniform, Binding::Read, Binding::Write], values)
    }

    /// Width and height of the output.
    pub fn output_size(&self, (width, height): (u32, u32)) -> (u32, u32) {
        (width.div_ceil(2), height.div_ceil(2))
    }

    /// Adds the dispatch from `src` of `size` to `dst`.
    pub fn step(
        &self,
        plan: &mut PlanBuilder,
        label: &str,
        size: (u32, u32),
        src: &wgpu::Buffer,
        dst: &wgpu::Buffer,
    ) -> Result<()> {
        let (width, height) = self.output_size(size);
        let dims = plan.uniform(label, bytemuck::bytes_of(&Dims::new(size, (width, height))));
        let row = width * groups_of_four(self.channels) as u32;
        plan.step(self.kernel(label)?, [row.div_ceil(64), height, 1], Vary::None, |_| {
            vec![dims.clone(), src.clone(), dst.clone()]
        });
        Ok(())
    }
}
