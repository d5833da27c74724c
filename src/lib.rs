// SPDX-License-Identifier: MIT OR Apache-2.0
//! AI frames in media pipelines, on any GPU.
//!
//! * [`gpu`]: one shared wgpu device per adapter, plans (everything a frame needs, built once), frame transfer.
//! * [`nn`]: network operations, each a WGSL kernel with a plain-Rust twin that is its oracle.
//! * [`ifnet`]: the interpolation network on top of them.
//!
//! Data flows downwards only: an element knows its model, a model its operations, operations the GPU layer.

pub mod error;
pub mod gpu;
pub mod ifnet;
pub mod nn;

pub use error::{Error, Result};
