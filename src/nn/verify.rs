// SPDX-License-Identifier: MIT OR Apache-2.0
//! Start-up checks: a kernel whose compiler cannot be trusted blindly (cooperative matrices are young in every driver)
//! computes a small case before it is used, and must agree with the plain kernel on the same device.

use super::Lanes;
use super::convolve::{Convolution, ConvolutionWeights, Operand, Residual, Slice, Tile};
use super::frames::tensor_bytes;
use crate::error::{Error, Result};
use crate::gpu::{Context, PlanBuilder};

/// Largest difference from the plain kernel, relative to the largest value: both sum in f32, so only the order of
/// summation and the rounding of the stored result differ.
const TOLERANCE: f32 = 4e-3;

/// Numbers between −1 and 1 without a pattern that could hide a swapped index.
fn noise(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / 8_388_608.0 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// Whether `tile` computes `convolution` as the plain kernel does. Checked once per device; a failure is logged.
pub fn convolution(context: &Context, convolution: &Convolution, tile: &Tile) -> Result<bool> {
    let Tile::Matrix { fragment, rows, sr, .. } = *tile else {
        return Ok(true);
    };
    context.gpu.verdict(&format!("{convolution:?} {tile:?}"), || {
        // More than one workgroup in every direction, and a remainder in each.
        let size = ((fragment + 3) * convolution.stride, (rows * sr + 1) * convolution.stride);
        let reference = run(context, convolution, &convolution.plain_tile(&context.gpu, size), size)?;
        let got = match run(context, convolution, tile, size) {
            // A driver that refuses the kernel has given its answer.
            Err(Error::Gpu(reason)) => {
                log::warn!("{}: {tile:?} does not compile: {reason}", context.gpu.adapter_name());
                return Ok(false);
            }
            other => other?,
        };
        let largest = reference.iter().fold(0f32, |m, v| m.max(v.abs()));
        let worst = reference.iter().zip(&got).fold(0f32, |m, (a, b)| {
            let difference = (a - b).abs();
            if difference.is_finite() { m.max(difference) } else { f32::INFINITY }
        });
        let agrees = worst <= TOLERANCE * largest;
        if !agrees {
            log::warn!("{}: {tile:?} is off by {worst} of {largest}", context.gpu.adapter_name());
        }
        Ok(agrees)
    })
}

fn run(context: &Context, convolution: &Convolution, tile: &Tile, size: (u32, u32)) -> Result<Vec<f32>> {
    let Convolution { cin, cout, input, output, .. } = *convolution;
    // Parts of wider tensors, where the convolution can take them.
    let slice = |channels: usize| match convolution.sliced {
        true => Slice { lanes: Lanes { channels: channels + 8, first: 4 }, start: 2 },
        false => Slice::all(channels),
    };
    let bytes = |(width, height): (u32, u32), slice: Slice, storage| {
        tensor_bytes((width * height + slice.start, 1), slice.lanes.channels, storage)
    };
    let plan_and_output = context.gpu.scoped(|| {
        let weight = noise(cout * cin * (convolution.kernel * convolution.kernel) as usize, 1);
        let (bias, slope) = (noise(cout, 2), noise(cout, 3));
        let weights = ConvolutionWeights { weight: &weight, bias: &bias, slope: &slope };
        let values = noise((bytes(size, slice(cin), input) / input.bytes()) as usize, 4);
        let out_size = convolution.output_size(size);
        let out_bytes = bytes(out_size, slice(cout), output);
        let src = context.constant("check", &input.encode(&values), wgpu::BufferUsages::STORAGE);
        let residual = noise((out_bytes / output.bytes()) as usize, 5);
        let residual = context.constant("check", &output.encode(&residual), wgpu::BufferUsages::STORAGE);
        let dst = context.storage("check", out_bytes);
        let constants = convolution.upload(context, "check", tile, weights);
        let mut plan = PlanBuilder::new(context);
        let [src, out, residual] = [(&src, cin), (&dst, cout), (&residual, cout)]
            .map(|(buffer, channels)| Operand { buffer, slice: slice(channels) });
        let residual = (convolution.residual != Residual::None).then_some(residual);
        convolution.sliced_step(&mut plan, "check", tile, &constants, size, src, out, residual)?;
        Ok((plan.build()?, dst))
    })?;
    let bytes = plan_and_output.0.run_once(context, 0, &plan_and_output.1)?;
    Ok(output.decode(&bytes))
}
