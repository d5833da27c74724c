// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plain-Rust twins of the GPU operations: the oracles of the tests, and the readable form of every formula.
//!
//! Each file holds one operation on [`Tensor`]s in float32; sums accumulate in float64 so that a twin is the more exact
//! of the two sides of a comparison. Wrong shapes are a programmer's error and panic.
//!
//! # Positions
//! All positions are in pixels with pixel centres at integers, so a picture of `n` pixels covers `-0.5..n - 0.5`.
//! `scale` is the number of frame pixels to one pixel of the network's grid, by axis: 1 where the frame is
//! edge-extended to the grid, `frame / grid` where it is stretched to it. A grid position `g` is the frame position
//! `(g + 0.5) * scale - 0.5`.

pub mod conv3x3;
pub mod conv_transpose4x4;
pub mod film;
pub mod frame;
pub mod quarter_input;
pub mod refine_input;
pub mod refine_output;
pub mod sample;
pub mod static_guard;
pub mod store;
pub mod warp_blend;

pub use conv_transpose4x4::conv_transpose4x4;
pub use conv3x3::{Conv3x3, Padding, conv3x3};
pub use quarter_input::quarter_input;
pub use refine_input::refine_input;
pub use warp_blend::{Placement, warp_blend};

/// An NHWC tensor (N = 1) in float32: `data[(y * width + x) * channels + c]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    pub width: usize,
    pub height: usize,
    pub channels: usize,
    pub data: Vec<f32>,
}

impl Tensor {
    /// A tensor of zeros.
    pub fn new(width: usize, height: usize, channels: usize) -> Self {
        Self { width, height, channels, data: vec![0.0; width * height * channels] }
    }

    /// A tensor whose pixels are written by `pixel(x, y, channels)`.
    pub fn from_fn(
        width: usize,
        height: usize,
        channels: usize,
        mut pixel: impl FnMut(usize, usize, &mut [f32]),
    ) -> Self {
        let mut out = Self::new(width, height, channels);
        for y in 0..height {
            for x in 0..width {
                pixel(x, y, out.at_mut(x, y));
            }
        }
        out
    }

    /// The channels of one pixel.
    pub fn at(&self, x: usize, y: usize) -> &[f32] {
        let start = (y * self.width + x) * self.channels;
        &self.data[start..start + self.channels]
    }

    /// The channels of one pixel, writable.
    pub fn at_mut(&mut self, x: usize, y: usize) -> &mut [f32] {
        let start = (y * self.width + x) * self.channels;
        &mut self.data[start..start + self.channels]
    }
}

/// `1 / (1 + e^-v)`.
pub fn sigmoid(v: f32) -> f32 {
    1.0 / (1.0 + (-v).exp())
}
