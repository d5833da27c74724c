// SPDX-License-Identifier: MIT OR Apache-2.0
//! Transposed 4×4 convolution, stride 2, padding 1: doubles the size.

use super::Tensor;

/// `out[o](x, y) = bias[o] + Σ weight[i, o, ky, kx] · in[i]((x + 1 - kx) / 2, (y + 1 - ky) / 2)` over the taps for
/// which both numerators are even and the input index is in range.
///
/// `weight` is in PyTorch's order (in, out, ky, kx).
pub fn conv_transpose4x4(input: &Tensor, weight: &[f32], bias: &[f32]) -> Tensor {
    let (cin, cout) = (input.channels, bias.len());
    assert_eq!(weight.len(), cin * cout * 16, "conv_transpose4x4 weight does not fit {cin} -> {cout} channels");
    let tap = |position: usize, k: usize, len: usize| -> Option<usize> {
        let numerator = (position + 1).checked_sub(k)?;
        (numerator % 2 == 0 && numerator / 2 < len).then_some(numerator / 2)
    };
    Tensor::from_fn(input.width * 2, input.height * 2, cout, |x, y, out| {
        for (o, (out, &bias)) in out.iter_mut().zip(bias).enumerate() {
            let mut sum = f64::from(bias);
            for ky in 0..4 {
                let Some(sy) = tap(y, ky, input.height) else { continue };
                for kx in 0..4 {
                    let Some(sx) = tap(x, kx, input.width) else { continue };
                    for (i, &value) in input.at(sx, sy).iter().enumerate() {
                        sum += f64::from(value) * f64::from(weight[((i * cout + o) * 4 + ky) * 4 + kx]);
                    }
                }
            }
            *out = sum as f32;
        }
    })
}
