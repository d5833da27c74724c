// SPDX-License-Identifier: MIT OR Apache-2.0
//! 3×3 convolution (cross-correlation) with padding 1.

use super::Tensor;

/// What lies outside the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Padding {
    Zero,
    /// The nearest edge pixel.
    Edge,
}

/// Parameters of one layer.
#[derive(Debug, Clone, Copy)]
pub struct Conv3x3<'a> {
    /// OIHW: `weight[((o * cin + i) * 3 + ky) * 3 + kx]`.
    pub weight: &'a [f32],
    /// One for each output channel.
    pub bias: &'a [f32],
    /// PReLU slopes, one for each output channel; `None`: no activation.
    pub slope: Option<&'a [f32]>,
    /// 1 or 2.
    pub stride: usize,
    pub padding: Padding,
    /// Added after the activation; of the output's shape.
    pub residual: Option<&'a Tensor>,
}

/// `out[o](x, y) = prelu(bias[o] + Σ weight[o, i, ky, kx] · in[i](x·stride + kx - 1, y·stride + ky - 1)) + residual`,
/// with `prelu(v) = v if v >= 0 else slope·v`; the output is `ceil(size / stride)` in each axis.
pub fn conv3x3(input: &Tensor, conv: &Conv3x3<'_>) -> Tensor {
    let (cin, cout) = (input.channels, conv.bias.len());
    assert_eq!(conv.weight.len(), cout * cin * 9, "conv3x3 weight does not fit {cin} -> {cout} channels");
    assert!(conv.slope.is_none_or(|slope| slope.len() == cout), "conv3x3 slope does not fit {cout} channels");
    assert!(matches!(conv.stride, 1 | 2), "conv3x3 stride must be 1 or 2");
    let mut out = Tensor::new(input.width.div_ceil(conv.stride), input.height.div_ceil(conv.stride), cout);
    if let Some(residual) = conv.residual {
        assert_eq!(
            (residual.width, residual.height, residual.channels),
            (out.width, out.height, out.channels),
            "conv3x3 residual is not of the output's shape"
        );
    }

    // Tap-major weights, so that the inner loop runs over contiguous output channels.
    let mut packed = vec![0.0f32; 9 * cin * cout];
    for o in 0..cout {
        for i in 0..cin {
            for tap in 0..9 {
                packed[(tap * cin + i) * cout + o] = conv.weight[(o * cin + i) * 9 + tap];
            }
        }
    }

    let mut sums = vec![0.0f64; out.width * cout];
    for y in 0..out.height {
        for pixel in sums.chunks_exact_mut(cout) {
            for (sum, &bias) in pixel.iter_mut().zip(conv.bias) {
                *sum = f64::from(bias);
            }
        }
        for tap in 0..9 {
            let (ky, kx) = (tap / 3, tap % 3);
            let Some(sy) = source(y * conv.stride + ky, input.height, conv.padding) else { continue };
            for i in 0..cin {
                let weight = &packed[(tap * cin + i) * cout..][..cout];
                for (x, pixel) in sums.chunks_exact_mut(cout).enumerate() {
                    let Some(sx) = source(x * conv.stride + kx, input.width, conv.padding) else { continue };
                    let value = f64::from(input.data[(sy * input.width + sx) * cin + i]);
                    for (sum, &w) in pixel.iter_mut().zip(weight) {
                        *sum += value * f64::from(w);
                    }
                }
            }
        }
        for (x, pixel) in sums.chunks_exact(cout).enumerate() {
            for (o, &sum) in pixel.iter().enumerate() {
                let mut v = sum as f32;
                if let Some(slope) = conv.slope
                    && v < 0.0
                {
                    v *= slope[o];
                }
                if let Some(residual) = conv.residual {
                    v += residual.at(x, y)[o];
                }
                out.at_mut(x, y)[o] = v;
            }
        }
    }
    out
}

/// The input index that padded index `p` (one more than the input's) reads; `None`: a zero.
fn source(p: usize, len: usize, padding: Padding) -> Option<usize> {
    match padding {
        Padding::Zero => p.checked_sub(1).filter(|&i| i < len),
        Padding::Edge => Some(p.saturating_sub(1).min(len - 1)),
    }
}
