// SPDX-License-Identifier: MIT OR Apache-2.0
//! The start-up test: the very kernels that a stream is about to use draw a tiny frame, which must be the one that the
//! CPU draws. A driver that miscompiles one of them, or skips a dispatch, is found out before the first frame is shown.

use std::f32::consts::TAU;
use std::sync::Arc;

use super::graph::NetworkPlans;
use super::interpolator::Config;
use super::reference::{Options, Reference};
use super::synthetic::GeneratorShape;
use super::weights::Weights;
use crate::error::{Error, Result};
use crate::gpu::frame::{FrameLayout, PlaneMut, PlaneRef};
use crate::gpu::{Context, Gpu};
use crate::nn::Storage;
use crate::nn::cpu::film::film_params;
use crate::nn::cpu::frame::{FrameInfo, decode, encode};
use crate::nn::frames::{Frames, Rounding};

/// Remainders at every grid the kernels work on: 3 × 2 cells of the coarsest.
const SIZE: (u32, u32) = (39, 23);
/// Where the output is stretched its sides must be multiples of 16.
const STRETCHED: (u32, u32) = (48, 32);
const TIMESTEP: f32 = 0.375;

/// Fails unless the kernels of `plans`, built for `frames`, draw what the CPU draws. Done once per device.
pub(super) fn check(
    gpu: &Arc<Gpu>,
    plans: &NetworkPlans,
    weights: &Weights,
    config: &Config,
    frames: &Frames,
    storage: Storage,
) -> Result<()> {
    let name = format!("network {:x} {:x} {:?}", plans.trunk.digest(), plans.head.digest(), storage);
    let mut reason = String::new();
    let right = gpu.verdict(&name, || {
        let wrong = compare(gpu, weights, config, frames, storage)?;
        reason = wrong.unwrap_or_default();
        Ok(reason.is_empty())
    })?;
    if right {
        return Ok(());
    }
    let reason = if reason.is_empty() { "its kernels failed the start-up test".into() } else { reason };
    Err(Error::WrongResults { adapter: gpu.adapter_name().into(), reason })
}

/// What is wrong with the tiny frame, if anything is.
fn compare(
    gpu: &Arc<Gpu>,
    weights: &Weights,
    config: &Config,
    frames: &Frames,
    storage: Storage,
) -> Result<Option<String>> {
    // Numbers of a known size, whatever the model's are: only the kernels are tested.
    let shape = GeneratorShape {
        graph: weights.graph(),
        c1: weights.c1(),
        c2: weights.c2(),
        film_hidden: 16,
        refine_channels: weights.refine.as_ref().map_or(0, |refine| refine.channels),
    };
    let model = Weights::synthetic(1, shape);
    let layout = FrameLayout::new(frames.source.format, SIZE.0, SIZE.1, frames.source.color)?;
    let tiny_config =
        Config { layout: layout.clone(), output_size: config.output_size.map(|_| STRETCHED), ..config.clone() };
    let tiny = tiny_config.frames()?;
    let sources = [picture(&layout, 0), picture(&layout, 1)];

    let context = Context::new(gpu.clone());
    let plans = gpu.scoped(|| {
        let plans = NetworkPlans::new(&context, &model, &tiny_config, &tiny, frames, storage)?;
        for (buffer, bytes) in plans.buffers.frames.iter().zip(&sources) {
            gpu.queue().write_buffer(buffer, 0, bytes);
        }
        let mut timestep = vec![TIMESTEP, 0.0, 0.0, 0.0];
        timestep.extend(model.film.iter().flat_map(|f| film_params(&f.w0, &f.b0, &f.w2, &f.b2, TIMESTEP)));
        gpu.queue().write_buffer(&plans.timestep, 0, bytemuck::cast_slice(&timestep));
        Ok(plans)
    })?;
    plans.trunk.run_once(&context, 0, &plans.buffers.answer)?;
    let answer = plans.head.run_once(&context, 0, &plans.buffers.answer)?;
    let made = plans.head.run_once(&context, 0, &plans.buffers.made)?;

    let info = |layout: &FrameLayout| FrameInfo {
        format: layout.format,
        width: layout.width as usize,
        height: layout.height as usize,
        color: layout.color,
    };
    let options = Options {
        static_guard: config.static_guard,
        rounding: config.rounding,
        flow_scale: config.flow_scale,
        output_size: tiny_config.output_size,
    };
    let [a, b] = sources.each_ref().map(|bytes| planes(&layout, bytes));
    let forward = Reference::new(&model, info(&layout), options, &a, &b)?.forward(f64::from(TIMESTEP));

    // Both sum in f32; the order of summation differs, and what f16 rounds on the way. In codes, of 8 bits with f16.
    let max_code = f32::from(info(&layout).max_code());
    let (flow_bound, code_bound, mean_bound) = match storage {
        Storage::F32 => (1e-4, 2.0 / max_code, 0.1 / max_code),
        Storage::F16 => (1e-2, 8.0 / 255.0, 0.3 / 255.0),
    };
    let answer = Storage::F32.decode(&answer);
    let got = answer.chunks_exact(8).flat_map(|lanes| &lanes[..5]);
    let flow = Deviation::new(got.copied(), forward.tmp8.data.iter().copied());
    if flow.largest > flow_bound * flow.scale {
        return Ok(Some(format!("the flow of the start-up test is off by {} of {}", flow.largest, flow.scale)));
    }
    let image = info(&tiny.image);
    let mut drawn = vec![0; made.len()];
    encode(
        &image,
        &forward.components,
        config.rounding == Rounding::Truncate,
        &mut planes_mut(&tiny.image, &mut drawn),
    )?;
    let values = |bytes: &[u8]| -> Result<Vec<f32>> {
        Ok(decode(&image, &planes(&tiny.image, bytes))?.into_iter().flat_map(|plane| plane.data).collect())
    };
    let picture = Deviation::new(values(&made)?.into_iter(), values(&drawn)?.into_iter());
    if picture.largest > code_bound || picture.mean > mean_bound {
        let Deviation { largest, mean, .. } = picture;
        let codes = (largest * 255.0, mean * 255.0);
        return Ok(Some(format!("the start-up test is off by {:.1} codes, {:.2} on average", codes.0, codes.1)));
    }
    log::debug!("{}: start-up test passed: flow {flow:?}, picture {picture:?}", gpu.adapter_name());
    Ok(None)
}

#[derive(Debug)]
struct Deviation {
    /// The largest difference; infinite where a value is no number.
    largest: f32,
    mean: f32,
    /// The largest expected value.
    scale: f32,
}

impl Deviation {
    fn new(got: impl Iterator<Item = f32>, want: impl Iterator<Item = f32>) -> Self {
        let (mut largest, mut sum, mut scale, mut count) = (0f32, 0f32, 0f32, 0usize);
        for (got, want) in got.zip(want) {
            let difference = (got - want).abs();
            largest = if difference.is_nan() { f32::INFINITY } else { largest.max(difference) };
            sum += difference;
            scale = scale.max(want.abs());
            count += 1;
        }
        Self { largest, mean: sum / count.max(1) as f32, scale }
    }
}

/// Soft waves that move between frame 0 and frame 1, but for the left third, which stands still: in the layout of the
/// GPU's buffers.
fn picture(layout: &FrameLayout, index: u32) -> Vec<u8> {
    let mut bytes = vec![0; layout.byte_size() as usize];
    for (group, texel) in layout.texels().iter().enumerate() {
        let plane = layout.planes()[texel.plane];
        let size = [(layout.width, texel.shift_x), (layout.height, texel.shift_y)];
        let [columns, rows] = size.map(|(side, shift)| side.div_ceil(1 << shift));
        for (x, y) in itertools::iproduct!(0..columns, 0..rows) {
            let at = plane.offset + y * plane.stride + x * texel.step;
            for component in &texel.components {
                let moved = if x * 3 < columns { 0.0 } else { index as f32 * 0.06 };
                let (u, v) = (x as f32 / columns as f32 + moved, y as f32 / rows as f32 + moved);
                let phase = (group as u32 + component.byte) as f32 * 0.2;
                let value = 0.5 + 0.4 * (TAU * (1.5 * u + phase)).sin() * (TAU * (0.9 * v - phase)).cos();
                let code = ((value * texel.max as f32) as u16) << texel.shift;
                let place = (at + component.byte) as usize;
                bytes[place..place + texel.bytes as usize].copy_from_slice(&code.to_le_bytes()[..texel.bytes as usize]);
            }
        }
    }
    bytes
}

/// The planes in a buffer of the GPU's layout.
fn planes<'a>(layout: &FrameLayout, bytes: &'a [u8]) -> Vec<PlaneRef<'a>> {
    let places = layout.planes().iter();
    places.map(|p| PlaneRef { data: &bytes[p.offset as usize..], stride: p.stride as usize }).collect()
}

fn planes_mut<'a>(layout: &FrameLayout, mut bytes: &'a mut [u8]) -> Vec<PlaneMut<'a>> {
    let mut planes = Vec::new();
    // From the last to the first, each is split off the rest.
    for place in layout.planes().iter().rev() {
        let (rest, data) = bytes.split_at_mut(place.offset as usize);
        planes.push(PlaneMut { data, stride: place.stride as usize });
        bytes = rest;
    }
    planes.reverse();
    planes
}
