// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fully connected layers.

use super::{Activation, Conv2d, Tensor, conv2d};

/// `out[o] = act(bias[o] + Σ weight[o, i]·in[i])` at every pixel or token; `weight` is `[out, in]`.
pub fn linear(input: &Tensor, weight: &[f32], bias: &[f32], activation: Option<Activation>) -> Tensor {
    conv2d(input, &Conv2d { weight, bias, kernel: 1, stride: 1, padding: 0, residual: None, activation })
}
