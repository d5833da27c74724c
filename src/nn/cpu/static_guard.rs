// SPDX-License-Identifier: MIT OR Apache-2.0
//! The static guard: what does not change between the two frames (subtitles, logos, still areas) is held still.

use super::Tensor;

/// Below this mean difference an area is still, ...
pub const SOFT_LOW: f32 = 0.03;
/// ... above this one it moves.
pub const SOFT_HIGH: f32 = 0.09;
/// Below this difference a single pixel is unchanged (`strict`), ...
pub const STRICT_LOW: f32 = 1.0 / 255.0;
/// ... above this one it changes.
pub const STRICT_HIGH: f32 = 3.0 / 255.0;

/// `z²·(3 - 2z)` with `z = clamp((v - low) / (high - low), 0, 1)`.
pub fn smoothstep(low: f32, high: f32, v: f32) -> f32 {
    let z = ((v - low) / (high - low)).clamp(0.0, 1.0);
    z * z * (3.0 - 2.0 * z)
}

/// How still each pixel is, 0 (moves) to 1 (still), from the two B,G,R frames; one channel.
///
/// `e` = max over B,G,R of |frame0 - frame1|; `d` = mean of `e` over the 3×3 neighbourhood, indices clamped to the
/// frame; `s = 1 - smoothstep(0.03, 0.09, d)`; with `strict` also `s = max(s, 1 - smoothstep(1/255, 3/255, e))`.
pub fn stillness(frames: [&Tensor; 2], strict: bool) -> Tensor {
    let [a, b] = frames;
    let (width, height) = (a.width, a.height);
    let difference = Tensor::from_fn(width, height, 1, |x, y, out| {
        out[0] = a.at(x, y).iter().zip(b.at(x, y)).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    });
    Tensor::from_fn(width, height, 1, |x, y, out| {
        let mut sum = 0.0;
        for ny in [y.saturating_sub(1), y, (y + 1).min(height - 1)] {
            for nx in [x.saturating_sub(1), x, (x + 1).min(width - 1)] {
                sum += difference.at(nx, ny)[0];
            }
        }
        let mut s = 1.0 - smoothstep(SOFT_LOW, SOFT_HIGH, sum / 9.0);
        if strict {
            s = s.max(1.0 - smoothstep(STRICT_LOW, STRICT_HIGH, difference.at(x, y)[0]));
        }
        out[0] = s;
    })
}

/// Stillness of a subsampled plane's samples: the mean over each sample's block of luma pixels, the block clipped to
/// the frame (`subsampling` by axis, 1 or 2).
pub fn block_mean(stillness: &Tensor, subsampling: [usize; 2]) -> Tensor {
    let [sub_x, sub_y] = subsampling;
    let (width, height) = (stillness.width, stillness.height);
    Tensor::from_fn(width.div_ceil(sub_x), height.div_ceil(sub_y), 1, |x, y, out| {
        let (mut sum, mut count) = (0.0, 0.0);
        for ly in y * sub_y..(y * sub_y + sub_y).min(height) {
            for lx in x * sub_x..(x * sub_x + sub_x).min(width) {
                sum += stillness.at(lx, ly)[0];
                count += 1.0;
            }
        }
        out[0] = sum / count;
    })
}

/// `made·(1 - s) + s·(frame0 + frame1) / 2`, for one value.
pub fn hold(made: f32, frames: [f32; 2], s: f32) -> f32 {
    made * (1.0 - s) + (frames[0] + frames[1]) * 0.5 * s
}
