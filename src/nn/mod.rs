// SPDX-License-Identifier: MIT OR Apache-2.0
//! Network operations. Each has a file here that describes its kernel and packs its constants, a WGSL template under
//! `shaders/`, and a plain-Rust twin under [`cpu`] that is its oracle in tests.
//!
//! Activations are NHWC with N = 1 and channels padded to a multiple of four (padding lanes hold zero), stored as f16
//! or f32 ([`Storage`]); sums are f32.

pub mod convolve;
pub mod cpu;
pub mod deconvolve;
pub mod frames;
pub mod modulate;
pub mod template;
pub mod verify;

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
