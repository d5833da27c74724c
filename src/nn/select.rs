// SPDX-License-Identifier: MIT OR Apache-2.0
//! Selection of the largest values: the tokens that become queries, and the candidates that leave the network. Order
//! and ties are those of [`super::cpu::top_k`], NaN included.

use minijinja::context;

use super::template;
use super::{Storage, groups_of_four, spread};
use crate::error::{Error, Result};
use crate::gpu::{Binding, Kernel, PlanBuilder, Vary};

/// The largest logit of each token, NaN aside, as a sortable key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rank {
    pub classes: usize,
    pub input: Storage,
}

impl Rank {
    /// Renders the kernel.
    pub fn kernel(&self, label: &str) -> Result<Kernel> {
        let values = context! {
            half => self.input == Storage::F16,
            in_t => self.input.name(),
            classes => self.classes,
            c4 => groups_of_four(self.classes),
        };
        template::kernel("rank.wgsl", label, vec![Binding::Uniform, Binding::Read, Binding::Write], values)
    }

    /// Adds the dispatch from `logits`, `[tokens][classes]`, to `keys`, `[tokens]` u32.
    pub fn step(
        &self,
        plan: &mut PlanBuilder,
        label: &str,
        tokens: u32,
        logits: &wgpu::Buffer,
        keys: &wgpu::Buffer,
    ) -> Result<()> {
        let count = plan.uniform(label, bytemuck::bytes_of(&[tokens, 0, 0, 0]));
        plan.step(self.kernel(label)?, spread(tokens.div_ceil(64)), Vary::None, |_| {
            vec![count.clone(), logits.clone(), keys.clone()]
        });
        Ok(())
    }
}

/// Invocations of the one workgroup: as many as the adapter has, up to 1024. A power of two.
fn threads(limits: &wgpu::Limits) -> u32 {
    let most = limits.max_compute_invocations_per_workgroup.min(limits.max_compute_workgroup_size_x);
    1 << most.clamp(1, 1024).ilog2()
}

/// Fails where `count` items are more than a workgroup of the adapter can hold.
fn check(count: u32, threads: u32, limits: &wgpu::Limits) -> Result<()> {
    // Bins, scan, three counters, and a key and an index for each.
    let bytes = u64::from(count) * 8 + u64::from(threads) * 4 + 256 * 4 + 16;
    if threads < 256 || bytes > u64::from(limits.max_compute_workgroup_storage_size) {
        return Err(Error::Unsupported(format!(
            "selecting {count} queries takes {bytes} bytes of workgroup memory and 256 invocations, the adapter has {} \
             and {threads}",
            limits.max_compute_workgroup_storage_size
        )));
    }
    Ok(())
}

/// The indices of the `count` largest keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SelectTokens {
    pub count: u32,
    /// A power of two, at least 256.
    pub threads: u32,
}

impl SelectTokens {
    /// For an adapter of `limits`.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where `count` is more than its workgroups can hold.
    pub fn new(count: u32, limits: &wgpu::Limits) -> Result<Self> {
        let threads = threads(limits);
        check(count, threads, limits)?;
        Ok(Self { count, threads })
    }

    /// Renders the kernel.
    pub fn kernel(&self, label: &str) -> Result<Kernel> {
        let values = context! { candidates => false, half => false, count => self.count, threads => self.threads };
        template::kernel("select.wgsl", label, vec![Binding::Uniform, Binding::Read, Binding::Write], values)
    }

    /// Adds the dispatch from `keys`, `[tokens]` u32 of [`Rank`], to `indices`, `[count]` u32, the best first.
    ///
    /// # Errors
    /// [`Error::Usage`] where there are fewer tokens than are to be chosen.
    pub fn step(
        &self,
        plan: &mut PlanBuilder,
        label: &str,
        tokens: u32,
        keys: &wgpu::Buffer,
        indices: &wgpu::Buffer,
    ) -> Result<()> {
        if tokens < self.count {
            return Err(Error::Usage(format!("{label}: {} of {tokens} tokens", self.count)));
        }
        let count = plan.uniform(label, bytemuck::bytes_of(&[tokens, 0, 0, 0]));
        plan.step(self.kernel(label)?, [1; 3], Vary::None, |_| vec![count.clone(), keys.clone(), indices.clone()]);
        Ok(())
    }
}

/// What [`SelectCandidates`] writes for each candidate.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Choice {
    pub query: u32,
    pub label: u32,
    pub logit: f32,
    pub unused: u32,
    /// The query's box.
    pub bbox: [f32; 4],
}

/// The `queries` largest of all `queries·classes` logits, with their boxes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SelectCandidates {
    pub queries: u32,
    pub classes: usize,
    pub logits: Storage,
    /// A power of two, at least 256.
    pub threads: u32,
}

impl SelectCandidates {
    /// For an adapter of `limits`.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where `queries` are more than its workgroups can hold.
    pub fn new(queries: u32, classes: usize, logits: Storage, limits: &wgpu::Limits) -> Result<Self> {
        let threads = threads(limits);
        check(queries, threads, limits)?;
        Ok(Self { queries, classes, logits, threads })
    }

    /// Renders the kernel.
    pub fn kernel(&self, label: &str) -> Result<Kernel> {
        let values = context! {
            candidates => true,
            half => self.logits == Storage::F16,
            in_t => self.logits.name(),
            count => self.queries,
            threads => self.threads,
            classes => self.classes,
            stride => groups_of_four(self.classes) * 4,
        };
        let bindings = vec![Binding::Uniform, Binding::Read, Binding::Read, Binding::Write];
        template::kernel("select.wgsl", label, bindings, values)
    }

    /// Adds the dispatch from `logits`, `[queries][classes]`, and `boxes`, `[queries][4]` f32, to `dst`, a [`Choice`]
    /// for each query's worth, the best first.
    pub fn step(
        &self,
        plan: &mut PlanBuilder,
        label: &str,
        logits: &wgpu::Buffer,
        boxes: &wgpu::Buffer,
        dst: &wgpu::Buffer,
    ) -> Result<()> {
        let count = plan.uniform(label, bytemuck::bytes_of(&[self.queries * self.classes as u32, 0, 0, 0]));
        plan.step(self.kernel(label)?, [1; 3], Vary::None, |_| {
            vec![count.clone(), logits.clone(), boxes.clone(), dst.clone()]
        });
        Ok(())
    }
}
