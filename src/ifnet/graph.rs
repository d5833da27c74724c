// SPDX-License-Identifier: MIT OR Apache-2.0
//! The network as plans of dispatches: a trunk that runs once per pair of frames, and a head that runs per timestep.
//!
//! `classic` takes the timestep at its input, so that all of it is head.

use super::interpolator::Config;
use super::weights::{Conv, Graph, Weights};
use crate::error::{Error, Result};
use crate::gpu::{Context, Plan, PlanBuilder};
use crate::nn::Storage;
use crate::nn::convolve::{Activation, Convolution, ConvolutionWeights, Residual};
use crate::nn::deconvolve::Deconvolution;
use crate::nn::frames::{FrameBuffers, Frames, REFINE_CHANNELS, StaticGuard, input_channels, tensor_bytes};
use crate::nn::modulate::Modulation;

/// Convblocks of the trunk in the factored graphs.
const TRUNK_BLOCKS: usize = 6;

/// The two plans and the buffers a frame goes through.
pub(super) struct NetworkPlans {
    pub trunk: Plan,
    pub head: Plan,
    pub buffers: FrameBuffers,
    /// t, three floats of padding, then FiLM scales and shifts.
    pub timestep: wgpu::Buffer,
    pub timestep_bytes: u64,
    /// The convolution with the most work, and the kernel and tile that does it.
    pub busiest: String,
}

/// A tensor on the GPU and its width and height.
#[derive(Clone)]
struct Activations {
    buffer: wgpu::Buffer,
    size: (u32, u32),
    /// The size that tiles are chosen for.
    tuned_for: (u32, u32),
}

/// Adds convolutions to a plan; knows the storage and the device.
struct Convolver<'a> {
    context: &'a Context,
    storage: Storage,
    /// The most multiplications of one convolution so far, and what does them.
    busiest: (u64, String),
}

impl Convolver<'_> {
    /// A convolution with PReLU whose input, weights and output are in the network's storage.
    fn prelu(
        &mut self,
        plan: &mut PlanBuilder,
        label: &str,
        conv: &Conv,
        stride: u32,
        src: &Activations,
        residual: Option<&Activations>,
    ) -> Result<Activations> {
        let spec = Convolution {
            stride,
            activation: Activation::Prelu,
            residual: if residual.is_some() { Residual::After } else { Residual::None },
            ..Convolution::new(conv.cin, conv.cout, 3, self.storage)
        };
        self.add(plan, label, &spec, conv, src, residual)
    }

    fn add(
        &mut self,
        plan: &mut PlanBuilder,
        label: &str,
        spec: &Convolution,
        conv: &Conv,
        src: &Activations,
        residual: Option<&Activations>,
    ) -> Result<Activations> {
        let gpu = &self.context.gpu;
        let size = spec.output_size(src.size);
        let tuned_for = spec.output_size(src.tuned_for);
        let tile = spec.default_tile(self.context, tuned_for)?;
        if !spec.accepts(&tile, &gpu.limits()) {
            return Err(Error::Unsupported(format!("{label}: no kernel fits adapter {}", gpu.adapter_name())));
        }
        let work = u64::from(size.0) * u64::from(size.1) * conv.weight.len() as u64;
        if work > self.busiest.0 {
            self.busiest = (work, format!("{label}: {tile}"));
        }
        let weights = ConvolutionWeights {
            weight: &conv.weight,
            bias: &conv.bias,
            slope: conv.slope.as_deref().unwrap_or_default(),
        };
        let constants = spec.upload(self.context, label, &tile, weights);
        let buffer = self.context.storage(label, tensor_bytes(size, conv.cout, spec.output));
        let residual = residual.map(|r| &r.buffer);
        spec.step(plan, label, &tile, &constants, src.size, &src.buffer, &buffer, residual)?;
        Ok(Activations { buffer, size, tuned_for })
    }
}

impl NetworkPlans {
    /// The plans for `frames`, of the kernels that are good for frames like `tuned_for`.
    pub fn new(
        context: &Context,
        weights: &Weights,
        config: &Config,
        frames: &Frames,
        tuned_for: &Frames,
        storage: Storage,
    ) -> Result<Self> {
        let graph = weights.graph();
        let classic = graph == Graph::Classic;
        let quarter = frames.quarter();
        let (eighth, sixteenth) = ((quarter.0 / 2, quarter.1 / 2), (quarter.0 / 4, quarter.1 / 4));
        let activations = |label, size: (u32, u32), channels| {
            // A part of the grid, as `size` is.
            let part = quarter.0 / size.0;
            let tuned_for = (tuned_for.quarter().0 / part, tuned_for.quarter().1 / part);
            Activations { buffer: context.storage(label, tensor_bytes(size, channels, storage)), size, tuned_for }
        };

        let frame_buffer = |label: &str| context.storage(label, frames.source.byte_size());
        let buffers = FrameBuffers {
            geometry: context.constant("geometry", bytemuck::bytes_of(&frames.geometry()), wgpu::BufferUsages::UNIFORM),
            frames: [frame_buffer("frame 0"), frame_buffer("frame 1")],
            answer: context.storage("answer", tensor_bytes(eighth, 8, Storage::F32)),
            made: context.storage("made", frames.image.byte_size()),
        };
        let modulation = Modulation { channels: weights.c2(), storage };
        let timestep_bytes = modulation.timestep_floats() as u64 * 4;
        let timestep = context.storage("timestep", timestep_bytes);

        let mut trunk = PlanBuilder::new(context);
        let mut head = PlanBuilder::new(context);
        let mut convolver = Convolver { context, storage, busiest: Default::default() };

        let guard = match config.static_guard {
            StaticGuard::Off => None,
            StaticGuard::Soft | StaticGuard::Strict => {
                let pixels = u64::from(frames.image.width) * u64::from(frames.image.height);
                let still = context.storage("still", pixels * 4);
                frames.guard_step(&mut trunk, &buffers, config.static_guard == StaticGuard::Strict, &still)?;
                Some(still)
            }
        };

        let first = if classic { &mut head } else { &mut trunk };
        let input = activations("input", quarter, input_channels(classic));
        frames.sample_step(first, &buffers, &timestep, &input.buffer, storage, classic)?;
        let half = convolver.prelu(first, "conv0.0", &weights.conv0[0], 2, &input, None)?;
        let features = convolver.prelu(first, "conv0.1", &weights.conv0[1], 2, &half, None)?;
        let mut x = features.clone();
        let last = weights.convblock.len() - 1;
        for (index, conv) in weights.convblock.iter().enumerate() {
            let plan = if classic || index >= TRUNK_BLOCKS { &mut head } else { &mut trunk };
            if !classic && index == TRUNK_BLOCKS {
                let modulated = activations("film", sixteenth, weights.c2());
                modulation.step(plan, "film", sixteenth, &x.buffer, &timestep, &modulated.buffer)?;
                x = modulated;
            }
            let residual = (index == last).then_some(&features);
            x = convolver.prelu(plan, &format!("convblock.{index}"), conv, 1, &x, residual)?;
        }

        let split = if context.gpu.is_cpu() { 1 } else { 8 };
        let deconvolution = Deconvolution { cin: weights.lastconv.cin, input: storage, pixels: 64 / split, split };
        let constants = deconvolution.upload(context, "lastconv", &weights.lastconv.weight, &weights.lastconv.bias);
        deconvolution.step(&mut head, "lastconv", &constants, sixteenth, &x.buffer, &buffers.answer)?;

        let residual = match &weights.refine {
            None => None,
            Some(refine) => {
                let gathered = activations("gather", quarter, REFINE_CHANNELS);
                frames.gather_step(&mut head, &buffers, storage, &gathered.buffer)?;
                let mut x = gathered;
                for (index, conv) in refine.convs.iter().enumerate() {
                    x = convolver.prelu(&mut head, &format!("refine.c{index}"), conv, 1, &x, None)?;
                }
                let spec = Convolution {
                    edge: true,
                    activation: Activation::CentredSigmoid,
                    weights: Storage::F32,
                    output: Storage::F32,
                    ..Convolution::new(refine.c3.cin, refine.c3.cout, 3, storage)
                };
                Some(convolver.add(&mut head, "refine.c3", &spec, &refine.c3, &x, None)?.buffer)
            }
        };
        frames.warp_steps(&mut head, &buffers, config.rounding, residual.as_ref(), guard.as_ref())?;
        let (_, busiest) = convolver.busiest;
        Ok(Self { trunk: trunk.build()?, head: head.build()?, buffers, timestep, timestep_bytes, busiest })
    }
}
