// SPDX-License-Identifier: MIT OR Apache-2.0
//! Network operations. Each has a file here that describes its kernel and packs its constants, a WGSL template under
//! `shaders/`, and a plain-Rust twin under [`cpu`] that is its oracle in tests.
//!
//! Activations are NHWC with N = 1 and channels padded to a multiple of four (padding lanes hold zero), stored as f16
//! or f32 ([`Storage`]); sums are f32.

pub mod add;
pub mod attention;
pub mod convolve;
pub mod cpu;
pub mod deconvolve;
pub mod deform;
pub mod frames;
pub mod memory;
pub mod modulate;
pub mod normalize;
pub mod pick;
pub mod place;
pub mod pool;
pub mod random;
pub mod recorder;
pub mod refine_boxes;
pub mod resize;
pub mod select;
pub mod template;
pub mod verify;

use crate::error::{Error, Result};
use crate::gpu::Gpu;

/// How activations and weights are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Storage {
    F16,
    F32,
}

impl Storage {
    /// The WGSL scalar type, which is also how people call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::F16 => "f16",
            Self::F32 => "f32",
        }
    }

    /// Bytes of one value.
    pub fn bytes(self) -> u64 {
        match self {
            Self::F16 => 2,
            Self::F32 => 4,
        }
    }

    /// `values` in this storage.
    pub fn encode(self, values: &[f32]) -> Vec<u8> {
        match self {
            Self::F16 => {
                use half::slice::HalfFloatSliceExt;
                let mut halves = vec![half::f16::ZERO; values.len()];
                halves.convert_from_f32_slice(values);
                bytemuck::cast_slice(&halves).to_vec()
            }
            Self::F32 => bytemuck::cast_slice(values).to_vec(),
        }
    }

    /// The values in `bytes`.
    pub fn decode(self, bytes: &[u8]) -> Vec<f32> {
        match self {
            Self::F16 => bytes.as_chunks().0.iter().map(|&b| half::f16::from_le_bytes(b).to_f32()).collect(),
            Self::F32 => bytes.as_chunks().0.iter().map(|&b| f32::from_le_bytes(b)).collect(),
        }
    }
}

/// How a network stores activations, as users choose it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Precision {
    /// f16 where the adapter has it, else f32.
    #[default]
    Auto,
    F16,
    F32,
}

impl Precision {
    /// The storage on an adapter.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where f16 is asked for and the adapter lacks it.
    pub fn storage(self, gpu: &Gpu) -> Result<Storage> {
        match self {
            Self::F16 if !gpu.has_f16() => {
                let name = gpu.adapter_name();
                Err(Error::Unsupported(format!("adapter {name:?} has no 16-bit floats; use precision=f32")))
            }
            Self::F16 => Ok(Storage::F16),
            Self::F32 => Ok(Storage::F32),
            Self::Auto if gpu.has_f16() => Ok(Storage::F16),
            Self::Auto => Ok(Storage::F32),
        }
    }
}

/// Channels in groups of four.
pub fn groups_of_four(channels: usize) -> usize {
    channels.div_ceil(4)
}

/// Input and output size of an operation, as the kernels' `Dims` uniform.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Dims {
    pub in_size: [i32; 2],
    pub out_size: [i32; 2],
}

impl Dims {
    pub fn new(input: (u32, u32), output: (u32, u32)) -> Self {
        let size = |(w, h): (u32, u32)| [w as i32, h as i32];
        Self { in_size: size(input), out_size: size(output) }
    }
}

/// Some channels of every token or pixel: those from `first` on (a multiple of four) of the `channels` it has. So one
/// layer's output can hold what several operations read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Lanes {
    pub channels: usize,
    pub first: usize,
}

impl Lanes {
    /// All of `channels` channels.
    pub fn all(channels: usize) -> Self {
        Self { channels, first: 0 }
    }

    /// Values from one token to the next.
    pub fn stride(self) -> usize {
        groups_of_four(self.channels) * 4
    }
}

/// `groups` workgroups over two dimensions, none larger than every adapter allows. The last row may hold more than are
/// needed; kernels number them `y·num_workgroups.x + x`.
pub(crate) fn spread(groups: u32) -> [u32; 3] {
    let rows = groups.div_ceil(32768).max(1);
    [groups.div_ceil(rows), rows, 1]
}
