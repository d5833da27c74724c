// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one error type of the GPU layer and the models; the elements turn it into GStreamer errors.

use std::path::PathBuf;

/// `Result` with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong below the elements. Every text is a sentence a user can act on.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The machine has no usable GPU driver.
    #[error(
        "no GPU adapter found: install a Vulkan driver (Debian/Ubuntu: mesa-vulkan-drivers, which also brings \
         lavapipe for the CPU, or your vendor's driver) and check it with vulkaninfo"
    )]
    NoAdapter,
    /// The `adapter` setting matches nothing.
    #[error("no adapter matches {wanted:?}; available: {available}")]
    AdapterNotFound { wanted: String, available: String },
    /// A frame does not fit the adapter's limits.
    #[error("frames of {width}x{height} do not fit adapter {adapter:?}: {reason}")]
    FrameTooLarge { width: u32, height: u32, adapter: String, reason: String },
    /// A setting the adapter cannot serve.
    #[error("{0}")]
    Unsupported(String),
    /// A model file could not be opened or read.
    #[error("cannot read model file {}: {reason}", path.display())]
    ModelRead { path: PathBuf, not_found: bool, reason: String },
    /// A model file is not a valid model; `reason` names the tensor and what was expected.
    #[error("bad model {name}: {reason}")]
    ModelInvalid { name: String, reason: String },
    /// The device was lost (driver reset, unplugged, out of memory); it is rebuilt at the next start.
    #[error("GPU device lost: {0}; set the pipeline to NULL and start it again")]
    DeviceLost(String),
    /// A kernel computes something else than its CPU twin: a fault of the driver or its shader compiler.
    #[error(
        "adapter {adapter:?} draws wrong pictures: {reason}; update its driver, or choose another adapter (property \
         adapter)"
    )]
    WrongResults { adapter: String, reason: String },
    /// The driver or wgpu refused an operation.
    #[error("GPU error: {0}")]
    Gpu(String),
    /// A caller broke the contract of this library (wrong plane count, frame not resident...).
    #[error("internal error: {0}")]
    Usage(String),
}
