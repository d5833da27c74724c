// SPDX-License-Identifier: MIT OR Apache-2.0
//! The GPU layer: devices shared by every element of a process, plans of dispatches recorded once and replayed per
//! frame, and the transfer of raw frames.

pub mod cache;
pub mod device;
pub mod frame;
pub mod plan;
pub mod profile;
pub mod timer;
pub mod transfer;

pub use device::{AdapterDescription, Gpu, Memory, adapters};
pub use plan::{Binding, Context, Counters, CountersSnapshot, Kernel, Plan, PlanBuilder, Vary};
