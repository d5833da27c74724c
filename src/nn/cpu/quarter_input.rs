// SPDX-License-Identifier: MIT OR Apache-2.0
//! The network's input: both frames at a quarter of the grid's size.

use super::frame::BgrFrame;
use super::{Tensor, sample};

/// Samples both frames' B,G,R at `(dst + 0.5)·4·scale - 0.5` into a tensor of `grid / 4` pixels.
///
/// Channels: B0 G0 R0 B1 G1 R1, then `t` as a constant plane where it is given (graph `classic`). `grid` is (width,
/// height) in grid pixels; `scale` as in [`super`]. At `scale` 1 the taps are the centre 2×2 of each 4×4 block, and
/// pixels past the frame's edge repeat the edge.
pub fn quarter_input(frames: [BgrFrame<'_>; 2], grid: [usize; 2], scale: [f32; 2], t: Option<f32>) -> Tensor {
    let ratio = [4.0 * scale[0], 4.0 * scale[1]];
    Tensor::from_fn(grid[0] / 4, grid[1] / 4, 6 + usize::from(t.is_some()), |x, y, out| {
        let position = sample::grow([x as f32, y as f32], ratio);
        out[0..3].copy_from_slice(&frames[0].sample(position));
        out[3..6].copy_from_slice(&frames[1].sample(position));
        if let Some(t) = t {
            out[6] = t;
        }
    })
}
