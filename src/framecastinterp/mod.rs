// SPDX-License-Identifier: MIT OR Apache-2.0
//! `framecastinterp`: a `videorate` that draws the missing frames.
//!
//! ```text
//! gst-launch-1.0 filesrc location=in.mp4 ! decodebin ! videoconvert ! framecastinterp fps=60 ! autovideosink
//! ```
//!
//! # Contract
//!
//! - Output `n` has the PTS `base + floor(n * den * 10^9 / num)` for an output rate of `num/den`: counted, never summed.
//!   Its duration is the distance to the next one, its offset `n`, its DTS none. The grid starts at the segment's start
//!   and shows the first frame back to it; `skip-to-first` starts it at the first frame.
//! - An output whose time is that of an input frame (within 1/512 of the gap) *is* that frame: the same memory, never
//!   mapped. In between, the network draws it. A lower or equal rate never runs the network: the nearest frame is shown.
//! - At the end the last frame is repeated for as long as it lasts (or to the segment's stop), so no time is lost and
//!   less than one output frame is added.
//! - Across a scene cut, between equal frames and when late (`qos`) the nearer frame is repeated; across a hole longer
//!   than 0.5 s and 1.5 frames, a DISCONT or a GAP event the earlier one. Repeats carry the GAP flag.
//! - Late frames are repeated, not dropped: a repeat costs nothing, and what still comes too late the sink drops. A QOS
//!   message tells of each late pair.
//! - Frames of which neighbours are for different eyes (multiview modes frame-by-frame, separated, interleaved ones) are
//!   repeated: nothing is drawn between two views.
//! - Before new caps, a new segment, a new stream and EOS the held frame is drained. Other serialized events pass in
//!   order.
//! - A repeat or an input frame keeps its metas; a made frame is new content and has none.
//! - The GPU is first touched from NULL to READY; errors say what to do about them.
//!
//! The element is a plain [`gst::Element`] driven by its chain function: a pair's made frames are under way on the GPU
//! while the frames before them are pushed.

use gst::glib;
use gst::prelude::*;

mod allocation;
mod caps;
mod frames;
mod imp;
mod report;
mod scene;
mod settings;
mod stream;
pub mod timeline;

glib::wrapper! {
    /// The element.
    pub struct FramecastInterp(ObjectSubclass<imp::FramecastInterp>) @extends gst::Element, gst::Object;
}

/// How the network stores activations (property `precision`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, glib::Enum)]
#[enum_type(name = "GstFramecastInterpPrecision")]
#[repr(i32)]
pub enum Precision {
    #[default]
    #[enum_value(name = "f16 where the adapter has it, else f32", nick = "auto")]
    Auto,
    #[enum_value(name = "Half precision storage, sums in single precision", nick = "f16")]
    F16,
    #[enum_value(name = "Single precision storage", nick = "f32")]
    F32,
}

/// How still areas are held still (property `static-guard`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, glib::Enum)]
#[enum_type(name = "GstFramecastInterpStaticGuard")]
#[repr(i32)]
pub enum StaticGuard {
    #[enum_value(name = "Whatever the network draws", nick = "off")]
    Off,
    #[default]
    #[enum_value(name = "Areas of 3x3 pixels that hardly change", nick = "soft")]
    Soft,
    #[enum_value(name = "As soft, and single unchanged pixels", nick = "strict")]
    Strict,
}

/// Registers the element with `plugin`.
pub fn register(plugin: &gst::Plugin) -> Result<(), glib::BoolError> {
    gst::Element::register(Some(plugin), "framecastinterp", gst::Rank::NONE, FramecastInterp::static_type())
}
