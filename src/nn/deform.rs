// SPDX-License-Identifier: MIT OR Apache-2.0
//! Multi-scale deformable attention (the formulas stand in [`super::cpu::deformable_attention`](mod@super::cpu::deformable_attention)).

use minijinja::context;

use super::cpu::Sampling;
use super::template;
use super::{Lanes, Storage, groups_of_four};
use crate::error::{Error, Result};
use crate::gpu::{Binding, Context, Kernel, PlanBuilder, Vary};

/// One deformable attention, without its sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Deform {
    pub heads: usize,
    /// Channels of a head; a multiple of four is faster.
    pub dim: usize,
    pub levels: usize,
    /// Positions on each level.
    pub points: usize,
    pub sampling: Sampling,
    /// Where the `heads·dim` channels of a token lie.
    pub value: Lanes,
    /// Where the `heads·levels·points` pairs of a query lie; any first channel.
    pub offsets: Lanes,
    /// Where the `heads·levels·points` logits of a query lie; any first channel.
    pub logits: Lanes,
    /// Of the values.
    pub input: Storage,
    /// Of offsets and logits.
    pub mixing: Storage,
    pub output: Storage,
}

/// Constants on the GPU.
#[derive(Debug, Clone)]
pub struct DeformBuffers {
    levels: wgpu::Buffer,
}

/// The tensors of one call.
#[derive(Debug, Clone, Copy)]
pub struct DeformTensors<'a> {
    /// The tokens of all levels.
    pub value: &'a wgpu::Buffer,
    pub offsets: &'a wgpu::Buffer,
    /// May be the buffer of the offsets.
    pub logits: &'a wgpu::Buffer,
    /// `[queries][4]` f32.
    pub boxes: &'a wgpu::Buffer,
    /// `[queries][heads·dim]`.
    pub dst: &'a wgpu::Buffer,
}

impl Deform {
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
        let wide = self.dim.is_multiple_of(4);
        let width = if wide { 4 } else { 1 };
        let of = |scalar: &str| if wide { format!("vec4<{scalar}>") } else { scalar.to_owned() };
        let values = context! {
            half => [self.input, self.mixing, self.output].contains(&Storage::F16),
            wide,
            value_t => of(self.input.name()),
            mix_t => self.mixing.name(),
            dst_t => of(self.output.name()),
            sum_t => of("f32"),
            dim => self.dim,
            parts => self.dim / width,
            heads => self.heads,
            levels => self.levels,
            points => self.points,
            samples => self.levels * self.points,
            discrete => self.sampling == Sampling::Discrete,
            value_stride => self.value.stride() / width,
            value_first => self.value.first / width,
            offsets_stride => self.offsets.stride(),
            offsets_first => self.offsets.first,
            logits_stride => self.logits.stride(),
            logits_first => self.logits.first,
            dst_stride => groups_of_four(self.heads * self.dim) * 4 / width,
        };
        let read = Binding::Read;
        let bindings = vec![Binding::Uniform, read, read, read, read, Binding::Write];
        template::kernel("deform.wgsl", label, bindings, values)
    }

    /// Uploads the levels' sizes (width, height) and the `levels·points` factors of the offsets, `point_scale` times
    /// `offset_scale`.
    ///
    /// # Errors
    /// [`Error::Usage`] where these are not as many as the operation has.
    pub fn upload(
        &self,
        context: &Context,
        label: &str,
        levels: &[[usize; 2]],
        point_scale: &[f32],
        offset_scale: f32,
    ) -> Result<DeformBuffers> {
        if levels.len() != self.levels || point_scale.len() != self.levels * self.points {
            let (found, scales) = (levels.len(), point_scale.len());
            return Err(Error::Usage(format!("{label}: {found} levels and {scales} scales for {self:?}")));
        }
        let mut words: Vec<u32> = Vec::new();
        let mut start = 0;
        for &[width, height] in levels {
            words.extend([width as u32, height as u32, start, 0]);
            start += (width * height) as u32;
        }
        words.extend(point_scale.iter().map(|scale| (scale * offset_scale).to_bits()));
        words.resize(words.len().next_multiple_of(4), 0);
        let levels = context.constant(label, bytemuck::cast_slice(&words), wgpu::BufferUsages::UNIFORM);
        Ok(DeformBuffers { levels })
    }

    /// Adds the dispatch for `queries` queries.
    pub fn step(
        &self,
        plan: &mut PlanBuilder,
        label: &str,
        constants: &DeformBuffers,
        queries: u32,
        tensors: DeformTensors<'_>,
    ) -> Result<()> {
        let DeformTensors { value, offsets, logits, boxes, dst } = tensors;
        plan.step(self.kernel(label)?, [queries, 1, 1], Vary::None, |_| {
            let mut list = vec![constants.levels.clone()];
            list.extend([value, offsets, logits, boxes, dst].map(Clone::clone));
            list
        });
        let corners = if self.sampling == Sampling::Bilinear { 4 } else { 1 };
        plan.flops(2 * u64::from(queries) * (self.heads * self.dim * self.levels * self.points * corners) as u64);
        Ok(())
    }
}
