// SPDX-License-Identifier: MIT OR Apache-2.0
//! Boxes from what the network adds to anchors or to earlier boxes. Boxes are f32: centre x, centre y, width, height.

use minijinja::context;

use super::Storage;
use super::template;
use crate::error::{Error, Result};
use crate::gpu::{Binding, Kernel, PlanBuilder, Vary};

/// What is refined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BoxBase {
    /// The boxes of the layer before: `sigmoid(delta + inverse_sigmoid(base))`.
    Boxes,
    /// The anchors of chosen tokens, as logits: `sigmoid(delta + base[index])`.
    Anchors,
}

/// One refinement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RefineBoxes {
    pub base: BoxBase,
    pub delta: Storage,
}

impl RefineBoxes {
    /// Renders the kernel.
    pub fn kernel(&self, label: &str) -> Result<Kernel> {
        let anchors = self.base == BoxBase::Anchors;
        let values = context! {
            half => self.delta == Storage::F16,
            in_t => self.delta.name(),
            anchors,
        };
        let mut bindings = vec![Binding::Uniform, Binding::Read, Binding::Read, Binding::Write];
        if anchors {
            bindings.push(Binding::Read);
        }
        template::kernel("refine.wgsl", label, bindings, values)
    }

    /// Adds the dispatch for `queries` boxes: `deltas` is `[queries][4]`, `base` `[queries][4]` or, with `indices`,
    /// `[tokens][4]`.
    ///
    /// # Errors
    /// [`Error::Usage`] where indices are given without anchors, or the reverse.
    #[expect(clippy::too_many_arguments, reason = "what is refined, by what, to where")]
    pub fn step(
        &self,
        plan: &mut PlanBuilder,
        label: &str,
        queries: u32,
        deltas: &wgpu::Buffer,
        base: &wgpu::Buffer,
        indices: Option<&wgpu::Buffer>,
        dst: &wgpu::Buffer,
    ) -> Result<()> {
        if indices.is_some() != (self.base == BoxBase::Anchors) {
            return Err(Error::Usage(format!("{label}: indices belong to anchors")));
        }
        let count = plan.uniform(label, bytemuck::bytes_of(&[queries, 0, 0, 0]));
        let mut buffers = vec![count, deltas.clone(), base.clone(), dst.clone()];
        buffers.extend(indices.cloned());
        plan.step(self.kernel(label)?, [queries.div_ceil(64), 1, 1], Vary::None, |_| buffers.clone());
        Ok(())
    }
}
