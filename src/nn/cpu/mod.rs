// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plain-Rust twins of the GPU operations: the oracles of the tests, and the readable form of every formula.
//!
//! Each file holds one operation on [`Tensor`]s in float32; sums accumulate in float64 so that a twin is the more exact
//! of the two sides of a comparison, but for the matrix products of [`gemm`](mod@gemm) (float32, for speed: they also
//! serve as the fallback without a GPU). Wrong shapes are a programmer's error and panic.
//!
//! A sequence of `n` tokens is a tensor of width `n` and height 1; a map's tokens are its pixels in row-major order, so
//! that [`Tensor::into_tokens`] moves no data.
//!
//! # Positions
//! All positions are in pixels with pixel centres at integers, so a picture of `n` pixels covers `-0.5..n - 0.5`.
//! `scale` is the number of frame pixels to one pixel of the network's grid, by axis: 1 where the frame is
//! edge-extended to the grid, `frame / grid` where it is stretched to it. A grid position `g` is the frame position
//! `(g + 0.5) * scale - 0.5`.

pub mod activation;
pub mod anchors;
pub mod attention;
pub mod box_refine;
pub mod conv2d;
pub mod conv3x3;
pub mod conv_transpose4x4;
pub mod deformable_attention;
pub mod film;
pub mod frame;
pub mod gemm;
pub mod layer_norm;
pub mod linear;
pub mod pillow;
pub mod pool;
pub mod position_embedding;
pub mod quarter_input;
pub mod refine_input;
pub mod refine_output;
pub mod sample;
pub mod static_guard;
pub mod store;
pub mod top_k;
pub mod upsample;
pub mod warp_blend;

pub use activation::Activation;
pub use conv_transpose4x4::conv_transpose4x4;
pub use conv2d::{Conv2d, conv2d};
pub use conv3x3::{Conv3x3, Padding, conv3x3};
pub use deformable_attention::{DeformableAttention, Sampling, deformable_attention};
pub use layer_norm::layer_norm;
pub use linear::linear;
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

    /// The pixels in row-major order as a sequence: width·height tokens.
    pub fn into_tokens(self) -> Self {
        Self { width: self.width * self.height, height: 1, ..self }
    }

    /// Width·height.
    pub fn pixels(&self) -> usize {
        self.width * self.height
    }

    /// Adds `other`, of the same shape, element by element.
    pub fn add(&mut self, other: &Tensor) {
        assert_eq!(
            (self.width, self.height, self.channels),
            (other.width, other.height, other.channels),
            "sum of tensors of different shapes"
        );
        for (a, b) in self.data.iter_mut().zip(&other.data) {
            *a += b;
        }
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
