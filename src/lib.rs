// SPDX-License-Identifier: MIT OR Apache-2.0
//! AI frames in media pipelines, on any GPU.
//!
//! * [`gpu`]: one shared wgpu device per adapter, plans (everything a frame needs, built once), frame transfer.
//! * [`nn`]: network operations, each a WGSL kernel with a plain-Rust twin that is its oracle.
//! * [`ifnet`]: the interpolation network on top of them.
//! * [`rtdetr`]: the detection network (RT-DETRv2).
//! * `framecastinterp`, `rtdetrlayout`: the GStreamer elements (feature `gst`, on by default).
//!
//! Data flows downwards only: an element knows its model, a model its operations, operations the GPU layer.

pub mod error;
pub mod gpu;
pub mod ifnet;
pub mod nn;
pub mod rtdetr;

pub use error::{Error, Result};

#[cfg(feature = "gst")]
mod element;
#[cfg(feature = "gst")]
pub mod framecastinterp;
#[cfg(feature = "gst")]
pub mod rtdetrlayout;
#[cfg(feature = "gst")]
mod video;

#[cfg(feature = "gst")]
pub mod plugin {
    use gst::glib;

    fn plugin_init(plugin: &gst::Plugin) -> Result<(), glib::BoolError> {
        crate::framecastinterp::register(plugin)?;
        crate::rtdetrlayout::register(plugin)
    }

    gst::plugin_define!(
        framecast,
        env!("CARGO_PKG_DESCRIPTION"),
        plugin_init,
        concat!(env!("CARGO_PKG_VERSION"), "-", env!("COMMIT_ID")),
        "MIT/X11",
        env!("CARGO_PKG_NAME"),
        env!("CARGO_PKG_NAME"),
        "https://gstreamer.freedesktop.org",
        env!("BUILD_REL_DATE")
    );
}
