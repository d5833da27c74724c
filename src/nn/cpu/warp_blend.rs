// SPDX-License-Identifier: MIT OR Apache-2.0
//! Backward warping of both frames by the predicted flows, and their blend.

use super::{Tensor, sample, sigmoid};

/// Where the samples of a component plane lie.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Placement {
    /// Luma pixels to one sample of the plane, by axis (1 or 2).
    pub subsampling: [f32; 2],
    /// Luma position of the plane's sample 0: `(subsampling - 1) / 2` where samples sit between the luma pixels, 0
    /// where they are co-sited.
    pub offset: [f32; 2],
    /// Frame pixels to one grid pixel, by axis.
    pub scale: [f32; 2],
}

impl Placement {
    /// Luma position of the plane's sample (`x`, `y`): `sample·subsampling + offset`.
    pub fn luma_position(&self, x: usize, y: usize) -> [f32; 2] {
        [x as f32 * self.subsampling[0] + self.offset[0], y as f32 * self.subsampling[1] + self.offset[1]]
    }
}

/// The network's answer at one position of the frame.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Motion {
    /// fx0, fy0, fx1, fy1 in frame (luma) pixels.
    pub flow: [f32; 4],
    /// Weight of frame 0 in the blend, 0..1.
    pub mask: f32,
}

/// Reads the head's output `tmp8` (5 planes at an eighth of the grid: fx0, fy0, fx1, fy1, mask logit) at a frame
/// position.
///
/// `tmp8` is sampled bilinearly at `(position + 0.5) / (8·scale) - 0.5`; flow = 8·scale·plane (the 8 makes grid pixels,
/// the scale frame pixels), mask = sigmoid(plane 4).
pub fn motion_at(tmp8: &Tensor, position: [f32; 2], scale: [f32; 2]) -> Motion {
    let ratio = [8.0 * scale[0], 8.0 * scale[1]];
    let [x, y] = sample::shrink(position, ratio);
    let mut v = [0.0; 5];
    sample::bilinear(tmp8, x, y, &mut v);
    Motion { flow: [v[0] * ratio[0], v[1] * ratio[1], v[2] * ratio[0], v[3] * ratio[1]], mask: sigmoid(v[4]) }
}

/// Warps and blends one component plane (any channel count) of both frames, in the plane itself:
/// `out(p) = m·plane0(p + flow0 / subsampling) + (1 - m)·plane1(p + flow1 / subsampling)`, where flow and mask are
/// those at the sample's luma position; taps are clamped to the plane's edge. Not clamped to 0..1.
pub fn warp_blend(planes: [&Tensor; 2], tmp8: &Tensor, placement: &Placement) -> Tensor {
    let channels = planes[0].channels;
    let mut warped = [vec![0.0; channels], vec![0.0; channels]];
    Tensor::from_fn(planes[0].width, planes[0].height, channels, |x, y, out| {
        let motion = motion_at(tmp8, placement.luma_position(x, y), placement.scale);
        for (i, plane) in planes.into_iter().enumerate() {
            let px = x as f32 + motion.flow[2 * i] / placement.subsampling[0];
            let py = y as f32 + motion.flow[2 * i + 1] / placement.subsampling[1];
            sample::bilinear(plane, px, py, &mut warped[i]);
        }
        for (c, out) in out.iter_mut().enumerate() {
            *out = warped[0][c] * motion.mask + warped[1][c] * (1.0 - motion.mask);
        }
    })
}
