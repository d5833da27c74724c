// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interpolation network (an IFNet student of the RIFE family): from two frames and a time between them to the
//! frame at that time.
//!
//! [`Weights`] are read and checked first; an [`Interpolator`] holds everything one stream of frames needs on the GPU;
//! [`reference`](mod@reference) is the same network in plain Rust, the oracle of the tests.

mod graph;
mod interpolator;
pub mod reference;
mod selftest;
pub mod synthetic;
pub mod weights;

pub use crate::nn::Precision;
pub use crate::nn::frames::{Rounding, StaticGuard};
pub use interpolator::{Config, FrameId, Interpolator, MAX_BATCH, Ticket};
pub use weights::{Graph, Weights};
