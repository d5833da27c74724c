// SPDX-License-Identifier: MIT OR Apache-2.0
//! FiLM: a scale and a shift for every channel, from the timestep.

use minijinja::context;

use super::template;
use super::{Dims, Storage, groups_of_four};
use crate::error::Result;
use crate::gpu::{Binding, Kernel, PlanBuilder, Vary};

/// Applies a timestep's scale and shift to `channels` channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Modulation {
    pub channels: usize,
    pub storage: Storage,
}

impl Modulation {
    /// Renders the kernel.
    pub fn kernel(&self, label: &str) -> Result<Kernel> {
        let values = context! {
            half => self.storage == Storage::F16,
            in_t => self.storage.name(),
            c4 => groups_of_four(self.channels),
        };
        let bindings = vec![Binding::Uniform, Binding::Read, Binding::Read, Binding::Write];
        template::kernel("modulate.wgsl", label, bindings, values)
    }

    /// Floats of a timestep's buffer: t and padding, scales, shifts.
    pub fn timestep_floats(&self) -> usize {
        4 + 8 * groups_of_four(self.channels)
    }

    /// Adds the dispatch from `src` to `dst`, both of `size`, with the scales and shifts in `timestep`.
    pub fn step(
        &self,
        plan: &mut PlanBuilder,
        label: &str,
        size: (u32, u32),
        src: &wgpu::Buffer,
        timestep: &wgpu::Buffer,
        dst: &wgpu::Buffer,
    ) -> Result<()> {
        let (width, height) = size;
        let dims = plan.uniform(label, bytemuck::bytes_of(&Dims::new(size, size)));
        let row = width * groups_of_four(self.channels) as u32;
        plan.step(self.kernel(label)?, [row.div_ceil(64), height, 1], Vary::None, |_| {
            vec![dims.clone(), src.clone(), timestep.clone(), dst.clone()]
        });
        Ok(())
    }
}
