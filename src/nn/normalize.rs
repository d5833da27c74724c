// SPDX-License-Identifier: MIT OR Apache-2.0
//! Layer norm, with what stands around it in a transformer: the residual before it, the position added after it.

use minijinja::context;

use super::template;
use super::{Storage, groups_of_four, spread};
use crate::error::{Error, Result};
use crate::gpu::{Binding, Context, Kernel, PlanBuilder, Vary};

/// Invocations of a workgroup.
const THREADS: usize = 64;

/// `dst = norm(src + residual)`, and `placed = dst + position`; statistics are f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LayerNorm {
    pub channels: usize,
    pub input: Storage,
    /// The residual's storage, where there is one.
    pub residual: Option<Storage>,
    /// Of `dst` and `placed`.
    pub output: Storage,
    /// The positions' storage, where there is the second output.
    pub position: Option<Storage>,
    /// Whether tokens without a value take a row given at [`LayerNorm::upload`].
    pub masked: bool,
}

/// Constants on the GPU.
#[derive(Debug, Clone)]
pub struct LayerNormBuffers {
    affine: wgpu::Buffer,
    eps: f32,
}

/// The tensors of one call, `[tokens][channels]`.
#[derive(Debug, Clone, Copy)]
pub struct LayerNormTensors<'a> {
    pub src: &'a wgpu::Buffer,
    pub residual: Option<&'a wgpu::Buffer>,
    /// The positions and the second output.
    pub position: Option<(&'a wgpu::Buffer, &'a wgpu::Buffer)>,
    /// One u32 a token, 0 where it has no value.
    pub valid: Option<&'a wgpu::Buffer>,
    pub dst: &'a wgpu::Buffer,
}

impl LayerNorm {
    /// Renders the kernel.
    pub fn kernel(&self, label: &str) -> Result<Kernel> {
        let c4 = groups_of_four(self.channels);
        let split = self.split();
        let mut bindings = vec![Binding::Uniform, Binding::Read, Binding::Read, Binding::Write];
        // Optional tensors take the next free binding; 0 = absent.
        let mut optional = |present: bool, kinds: &[Binding]| {
            let at = bindings.len();
            if present {
                bindings.extend(kinds);
                at
            } else {
                0
            }
        };
        let residual = optional(self.residual.is_some(), &[Binding::Read]);
        let masked = optional(self.masked, &[Binding::Read]);
        let position = optional(self.position.is_some(), &[Binding::Read, Binding::Write]);
        let storages = [Some(self.input), self.residual, Some(self.output), self.position];
        let name = |storage: Option<Storage>| storage.unwrap_or(Storage::F32).name();
        let tail = [0, 1, 2, 3].map(|i| if i < self.channels % 4 { "1.0" } else { "0.0" });
        let values = context! {
            half => storages.contains(&Some(Storage::F16)),
            in_t => self.input.name(),
            out_t => self.output.name(),
            residual_t => name(self.residual),
            position_t => name(self.position),
            channels => self.channels,
            c4,
            split,
            per => c4.div_ceil(split),
            tail => tail.join(", "),
            residual,
            masked,
            position,
        };
        template::kernel("normalize.wgsl", label, bindings, values)
    }

    /// Invocations that share a token: two groups of four channels each keep its work short and still fill a subgroup.
    fn split(&self) -> usize {
        groups_of_four(self.channels).div_ceil(2).next_power_of_two().clamp(2, THREADS)
    }

    /// Uploads `weight` and `bias` of each channel, `eps`, and for a masked norm the row that tokens without a value
    /// get (norm of what the layers before make of zeros).
    pub fn upload(
        &self,
        context: &Context,
        label: &str,
        weight: &[f32],
        bias: &[f32],
        eps: f32,
        substitute: Option<&[f32]>,
    ) -> LayerNormBuffers {
        let padded = groups_of_four(self.channels) * 4;
        let mut affine = vec![0.0; padded * 3];
        for (to, from) in affine.chunks_exact_mut(padded).zip([weight, bias, substitute.unwrap_or_default()]) {
            to[..from.len()].copy_from_slice(from);
        }
        let affine = context.constant(label, bytemuck::cast_slice(&affine), wgpu::BufferUsages::STORAGE);
        LayerNormBuffers { affine, eps }
    }

    /// Adds the dispatch for `tokens` tokens.
    ///
    /// # Errors
    /// [`Error::Usage`] where `tensors` are not those of the norm.
    pub fn step(
        &self,
        plan: &mut PlanBuilder,
        label: &str,
        constants: &LayerNormBuffers,
        tokens: u32,
        tensors: LayerNormTensors<'_>,
    ) -> Result<()> {
        let LayerNormTensors { src, residual, position, valid, dst } = tensors;
        let given = (residual.is_some(), position.is_some(), valid.is_some());
        if given != (self.residual.is_some(), self.position.is_some(), self.masked) {
            return Err(Error::Usage(format!("{label}: the tensors do not fit {self:?}")));
        }
        let uniform = plan.uniform(label, bytemuck::bytes_of(&[tokens, constants.eps.to_bits(), 0, 0]));
        let mut buffers = vec![uniform, src.clone(), constants.affine.clone(), dst.clone()];
        buffers.extend(residual.into_iter().chain(valid).cloned());
        buffers.extend(position.into_iter().flat_map(|(position, placed)| [position.clone(), placed.clone()]));
        let groups = tokens.div_ceil((THREADS / self.split()) as u32);
        plan.step(self.kernel(label)?, spread(groups), Vary::None, |_| buffers.clone());
        Ok(())
    }
}
