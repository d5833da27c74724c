// SPDX-License-Identifier: MIT OR Apache-2.0
//! Copies into a part of a larger buffer: concatenation of channels or of tokens, with nearest-neighbour upsampling.

use minijinja::context;

use super::template;
use super::{Dims, Lanes, Storage, groups_of_four};
use crate::error::Result;
use crate::gpu::{Binding, Kernel, PlanBuilder, Vary};

/// Copies a map of `channels` channels into the channels `to` of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place {
    pub channels: usize,
    pub to: Lanes,
    /// Whether the map is placed at twice its size.
    pub upsample: bool,
    /// Of input and output.
    pub storage: Storage,
}

#[repr(C)]
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
struct PlaceDims {
    dims: Dims,
    start: u32,
    padding: [u32; 3],
}

impl Place {
    /// Renders the kernel.
    pub fn kernel(&self, label: &str) -> Result<Kernel> {
        let values = context! {
            half => self.storage == Storage::F16,
            in_t => self.storage.name(),
            c4 => groups_of_four(self.channels),
            to_c4 => groups_of_four(self.to.channels),
            first => self.to.first / 4,
            upsample => self.upsample,
        };
        template::kernel("place.wgsl", label, vec![Binding::Uniform, Binding::Read, Binding::Write], values)
    }

    /// Adds the dispatch that copies `src` of `size` to the pixels of `dst` from `start` on.
    pub fn step(
        &self,
        plan: &mut PlanBuilder,
        label: &str,
        size: (u32, u32),
        start: u32,
        src: &wgpu::Buffer,
        dst: &wgpu::Buffer,
    ) -> Result<()> {
        let (width, height) = if self.upsample { (size.0 * 2, size.1 * 2) } else { size };
        let dims = PlaceDims { dims: Dims::new(size, (width, height)), start, padding: [0; 3] };
        let dims = plan.uniform(label, bytemuck::bytes_of(&dims));
        let row = width * groups_of_four(self.channels) as u32;
        plan.step(self.kernel(label)?, [row.div_ceil(64), height, 1], Vary::None, |_| {
            vec![dims.clone(), src.clone(), dst.clone()]
        });
        Ok(())
    }
}
