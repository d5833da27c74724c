// SPDX-License-Identifier: MIT OR Apache-2.0
//! The refine head's output (graph `tfact2`): a B,G,R residual at a quarter of the grid.

use super::{Tensor, sample, sigmoid};

/// `2·sigmoid(v) - 1` of every element of the head's last convolution.
pub fn residual(c3: &Tensor) -> Tensor {
    Tensor { data: c3.data.iter().map(|&v| 2.0 * sigmoid(v) - 1.0).collect(), ..*c3 }
}

/// The B,G,R residual at a frame position: bilinear at `(position + 0.5) / (4·scale) - 0.5`.
pub fn residual_at(residual: &Tensor, position: [f32; 2], scale: [f32; 2]) -> [f32; 3] {
    let [x, y] = sample::shrink(position, [4.0 * scale[0], 4.0 * scale[1]]);
    let mut out = [0.0; 3];
    sample::bilinear(residual, x, y, &mut out);
    out
}
