// SPDX-License-Identifier: MIT OR Apache-2.0
//! The refine head's input (graph `tfact2`): what the warp made of both frames, at a quarter of the grid.

use super::frame::BgrFrame;
use super::warp_blend::motion_at;
use super::{Tensor, sample};

/// The flow planes are in quarter-size pixels (0.25 of a grid pixel) over 20.
pub const FLOW_FACTOR: f32 = 0.25 / 20.0;

/// 11 planes at `grid / 4`: warped0 B,G,R, warped1 B,G,R, mask, fx0, fy0, fx1, fy1; each the mean over the centre 2×2
/// grid pixels (4x + 1, 4x + 2; 4y + 1, 4y + 2) of its 4×4 block.
///
/// At grid pixel `g` the motion is that of frame position `p = (g + 0.5)·scale - 0.5`, and warped i is frame i's B,G,R
/// sampled at `p + flow_i` (in frame pixels): the warp is evaluated at that very position, also past the frame's edge.
/// The flow planes stay in **grid** pixels, times [`FLOW_FACTOR`], as the head was trained.
pub fn refine_input(frames: [BgrFrame<'_>; 2], tmp8: &Tensor, grid: [usize; 2], scale: [f32; 2]) -> Tensor {
    Tensor::from_fn(grid[0] / 4, grid[1] / 4, 11, |x, y, out| {
        for (gx, gy) in [(1, 1), (2, 1), (1, 2), (2, 2)] {
            let position = sample::grow([(4 * x + gx) as f32, (4 * y + gy) as f32], scale);
            let motion = motion_at(tmp8, position, scale);
            let mut value = [0.0; 11];
            for (i, frame) in frames.into_iter().enumerate() {
                let moved = [position[0] + motion.flow[2 * i], position[1] + motion.flow[2 * i + 1]];
                value[3 * i..3 * i + 3].copy_from_slice(&frame.sample(moved));
            }
            value[6] = motion.mask;
            for i in 0..4 {
                value[7 + i] = motion.flow[i] / scale[i % 2] * FLOW_FACTOR;
            }
            for (out, value) in out.iter_mut().zip(value) {
                *out += 0.25 * value;
            }
        }
    })
}
