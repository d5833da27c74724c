// SPDX-License-Identifier: MIT OR Apache-2.0
//! Square convolutions (cross-correlations) of any kernel and stride with zero padding, as matrix products.

use rayon::prelude::*;

use super::gemm::{Matrix, gemm};
use super::{Activation, Tensor};

/// Output pixels gathered and multiplied at once; bounds the memory of the gathered rows.
const MAX_CHUNK: usize = 512;

/// Parameters of one layer.
#[derive(Debug, Clone, Copy)]
pub struct Conv2d<'a> {
    /// OIHW: `weight[((o·cin + i)·kernel + ky)·kernel + kx]`.
    pub weight: &'a [f32],
    /// One for each output channel.
    pub bias: &'a [f32],
    pub kernel: usize,
    pub stride: usize,
    /// Zeros around the input, on every side.
    pub padding: usize,
    /// Added before the activation; of the output's shape.
    pub residual: Option<&'a Tensor>,
    pub activation: Option<Activation>,
}

/// `out[o](x, y) = act(bias[o] + Σ weight[o, i, ky, kx]·in[i](x·stride + kx - padding, y·stride + ky - padding) +
/// residual)`; the output is `(size + 2·padding - kernel) / stride + 1` in each axis, rounded down.
pub fn conv2d(input: &Tensor, conv: &Conv2d<'_>) -> Tensor {
    let &Conv2d { kernel, stride, padding, .. } = conv;
    let (cin, cout) = (input.channels, conv.bias.len());
    let taps = kernel * kernel;
    let depth = taps * cin;
    assert_eq!(conv.weight.len(), cout * depth, "conv2d weight does not fit {cin} -> {cout} channels of {taps} taps");
    assert!(kernel > 0 && stride > 0 && cin > 0 && cout > 0, "conv2d of nothing");
    let size = |n: usize| {
        assert!(n + 2 * padding >= kernel, "conv2d of a map smaller than its kernel");
        (n + 2 * padding - kernel) / stride + 1
    };
    let (width, height) = (size(input.width), size(input.height));
    let mut out = Tensor::new(width, height, cout);
    if let Some(residual) = conv.residual {
        assert_eq!(
            (residual.width, residual.height, residual.channels),
            (width, height, cout),
            "conv2d residual is not of the output's shape"
        );
    }

    // The taps' inputs of a pixel are gathered as (ky, kx, i), so that a tap's channels are copied at once.
    let packed: Vec<f32>;
    let weight = if taps == 1 {
        conv.weight
    } else {
        packed = (0..cout * depth)
            .map(|at| {
                let (o, tap, i) = (at / depth, at % depth / cin, at % cin);
                conv.weight[(o * cin + i) * taps + tap]
            })
            .collect();
        &packed
    };
    let weight = Matrix::rows(weight, cout, depth, depth).transposed();

    let pixels = width * height;
    let chunk = pixels.div_ceil(rayon::current_num_threads()).clamp(1, MAX_CHUNK);
    out.data.par_chunks_mut(chunk * cout).enumerate().for_each(|(index, out)| {
        let first = index * chunk;
        let count = out.len() / cout;
        for pixel in out.chunks_exact_mut(cout) {
            pixel.copy_from_slice(conv.bias);
        }
        let gathered: Vec<f32>;
        let rows = if taps == 1 && stride == 1 && padding == 0 {
            &input.data[first * cin..(first + count) * cin]
        } else {
            gathered = gather(input, conv, width, first..first + count);
            &gathered
        };
        gemm(1.0, Matrix::rows(rows, count, depth, depth), weight, 1.0, out, cout);
        if let Some(residual) = conv.residual {
            for (v, r) in out.iter_mut().zip(&residual.data[first * cout..]) {
                *v += r;
            }
        }
        if let Some(activation) = conv.activation {
            for v in out {
                *v = activation.apply(*v);
            }
        }
    });
    out
}

/// A row (ky, kx, i) of inputs for each of the output `pixels` (row-major in rows of `width`).
fn gather(input: &Tensor, conv: &Conv2d<'_>, width: usize, pixels: std::ops::Range<usize>) -> Vec<f32> {
    let &Conv2d { kernel, stride, padding, .. } = conv;
    let cin = input.channels;
    let mut rows = vec![0.0; pixels.len() * kernel * kernel * cin];
    for (pixel, row) in pixels.zip(rows.chunks_exact_mut(kernel * kernel * cin)) {
        let (x, y) = (pixel % width, pixel / width);
        for (tap, values) in row.chunks_exact_mut(cin).enumerate() {
            let source =
                |out: usize, k: usize, len: usize| (out * stride + k).checked_sub(padding).filter(|&i| i < len);
            let at = (source(x, tap % kernel, input.width), source(y, tap / kernel, input.height));
            if let (Some(sx), Some(sy)) = at {
                values.copy_from_slice(input.at(sx, sy));
            }
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::super::{Conv3x3, Padding, conv3x3};
    use super::*;

    fn noise(n: usize, seed: u32) -> Vec<f32> {
        let value = |i: usize| (i as u32 ^ seed).wrapping_mul(2_654_435_761).wrapping_add(seed) >> 8;
        (0..n).map(|i| value(i) as f32 / (1 << 23) as f32 - 1.0).collect()
    }

    #[test]
    fn agrees_with_the_direct_3x3_twin() {
        for (width, height, stride) in [(7, 5, 1), (7, 5, 2), (1, 1, 1), (40, 33, 2)] {
            let input = Tensor { width, height, channels: 3, data: noise(width * height * 3, 1) };
            let (weight, bias) = (noise(4 * 3 * 9, 2), noise(4, 3));
            let direct =
                Conv3x3 { weight: &weight, bias: &bias, slope: None, stride, padding: Padding::Zero, residual: None };
            let mut want = conv3x3(&input, &direct);
            let residual = Tensor { data: noise(want.data.len(), 4), ..want.clone() };
            want.add(&residual);
            want.data.iter_mut().for_each(|v| *v = v.max(0.0));
            let got = conv2d(
                &input,
                &Conv2d {
                    weight: &weight,
                    bias: &bias,
                    kernel: 3,
                    stride,
                    padding: 1,
                    residual: Some(&residual),
                    activation: Some(Activation::Relu),
                },
            );
            assert_eq!((got.width, got.height, got.channels), (want.width, want.height, 4));
            let worst = got.data.iter().zip(&want.data).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(worst < 1e-5, "{width}x{height} stride {stride}: {worst}");
        }
    }

    #[test]
    fn one_tap_with_a_stride() {
        let input = Tensor { width: 3, height: 2, channels: 1, data: vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0] };
        let conv =
            Conv2d { weight: &[2.0], bias: &[0.5], kernel: 1, stride: 2, padding: 0, residual: None, activation: None };
        let out = conv2d(&input, &conv);
        assert_eq!((out.width, out.height, out.data), (2, 1, vec![2.5, 6.5]));
    }
}
