// SPDX-License-Identifier: MIT OR Apache-2.0
//! Multi-head scaled dot-product attention, without ever storing the scores (Dao et al., "FlashAttention", 2022).

use minijinja::context;

use super::template;
use super::{Lanes, Storage, groups_of_four};
use crate::error::{Error, Result};
use crate::gpu::{Binding, Kernel, PlanBuilder, Vary};

/// Queries of a workgroup.
const QUERIES: u32 = 16;
/// Invocations that share a query.
const SPLIT: u32 = 8;
/// Keys of an invocation in one tile; fewer where a head is wide, so that a tile fits every adapter's memory.
const fn keys_each(dim: usize) -> u32 {
    match dim {
        ..=48 => 4,
        49..=96 => 2,
        _ => 1,
    }
}

/// `dst = softmax(q·kᵀ / √dim)·v` for each of `heads` blocks of `dim` channels; sums and softmax are f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Attention {
    pub heads: usize,
    /// Channels of a head; a multiple of four is faster.
    pub dim: usize,
    /// Where the `heads·dim` channels lie.
    pub q: Lanes,
    pub k: Lanes,
    pub v: Lanes,
    /// Of q, k and v.
    pub input: Storage,
    pub output: Storage,
}

impl Attention {
    /// Renders the kernel.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where `heads·dim` is no multiple of four.
    pub fn kernel(&self, label: &str) -> Result<Kernel> {
        if !(self.heads * self.dim).is_multiple_of(4) {
            // The padding lanes of the output would stay unwritten.
            return Err(Error::Unsupported(format!("{label}: {} heads of {} channels", self.heads, self.dim)));
        }
        // Heads whose channels are no groups of four are read one by one.
        let width = if self.dim.is_multiple_of(4) { 4 } else { 1 };
        let of = |scalar: &str| if width == 4 { format!("vec4<{scalar}>") } else { scalar.to_owned() };
        let parts = self.dim / width;
        let values = context! {
            half => [self.input, self.output].contains(&Storage::F16),
            q_t => of(self.input.name()),
            dst_t => of(self.output.name()),
            sum_t => of("f32"),
            product => if width == 4 { "dot" } else { "" },
            dim => self.dim,
            parts,
            pitch => parts | 1,
            scale => format!("{:?}", 1.0 / (self.dim as f32).sqrt()),
            queries => QUERIES,
            split => SPLIT,
            each => keys_each(self.dim),
            q_stride => self.q.stride() / width,
            q_first => self.q.first / width,
            k_stride => self.k.stride() / width,
            k_first => self.k.first / width,
            v_stride => self.v.stride() / width,
            v_first => self.v.first / width,
            dst_stride => groups_of_four(self.heads * self.dim) * 4 / width,
        };
        let bindings = vec![Binding::Uniform, Binding::Read, Binding::Read, Binding::Read, Binding::Write];
        template::kernel("attend.wgsl", label, bindings, values)
    }

    /// Adds the dispatch for `queries` and `keys` tokens; `dst` is `[queries][heads·dim]`. The inputs may share a
    /// buffer.
    #[expect(clippy::too_many_arguments, reason = "three inputs, two lengths and an output make an attention")]
    pub fn step(
        &self,
        plan: &mut PlanBuilder,
        label: &str,
        queries: u32,
        keys: u32,
        q: &wgpu::Buffer,
        k: &wgpu::Buffer,
        v: &wgpu::Buffer,
        dst: &wgpu::Buffer,
    ) -> Result<()> {
        let counts = plan.uniform(label, bytemuck::bytes_of(&[queries, keys, 0, 0]));
        plan.step(self.kernel(label)?, [queries.div_ceil(QUERIES), self.heads as u32, 1], Vary::None, |_| {
            vec![counts.clone(), q.clone(), k.clone(), v.clone(), dst.clone()]
        });
        plan.flops(4 * u64::from(queries) * u64::from(keys) * (self.heads * self.dim) as u64);
        Ok(())
    }
}
