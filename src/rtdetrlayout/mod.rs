// SPDX-License-Identifier: MIT OR Apache-2.0
//! `rtdetrlayout`: finds the parts of a document page in video.
//!
//! ```text
//! gst-launch-1.0 filesrc location=scan.mp4 ! decodebin ! videoconvert ! rtdetrlayout model=heron/ ! \
//!     objectdetectionoverlay ! autovideosink
//! ```
//!
//! # Contract
//!
//! - Frames pass in order, each with its own times and flags; pixels are only read, and neither copied nor changed.
//! - Every `inference-interval`th frame is analysed. Its detections go into metas (`metadata`) and, with
//!   `post-messages`, into one element message, also where nothing was found. A frame that was not analysed carries
//!   neither.
//! - A `GstVideoRegionOfInterestMeta` per detection: `roi_type` the label; whole pixels; a parameter `detection` with
//!   `label_id` (int), `confidence`, `x_min`, `x_max`, `y_min`, `y_max` (double, relative to the frame).
//! - A `GstAnalyticsRelationMeta` per analysed frame from GStreamer 1.24 on: for each detection an object detection and a
//!   classification that relate to each other. A region of interest's id is that of the object detection beside it.
//! - The message is a structure `rtdetrlayout` with `timestamp` (guint64, the frame's PTS in ns or the largest value),
//!   `frame` (guint64, frames before it since the start), `inference-time` (guint64, ns) and `detections`
//!   (GstValueArray of structures `detection` with `label` string, `label-id` int, `confidence`, `x`, `y`, `width`,
//!   `height` double, in pixels).
//! - Frames that come too late (`qos`) pass without analysis; the next one that does not is analysed. A QOS message
//!   tells of each.
//! - A `roi` without any pixel of the frame, or that is no rectangle, gives a warning; frames then pass without analysis.
//! - The model and the GPU are first touched from NULL to READY; errors say what to do about them.

use gst::glib;
use gst::prelude::*;

mod analytics;
mod imp;
mod meta;
mod report;
mod settings;
mod stream;

use crate::{nn, rtdetr};

glib::wrapper! {
    /// The element.
    pub struct RtDetrLayout(ObjectSubclass<imp::RtDetrLayout>)
        @extends gst_base::BaseTransform, gst::Element, gst::Object;
}

/// How the network stores activations (property `precision`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, glib::Enum)]
#[enum_type(name = "GstRtDetrLayoutPrecision")]
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

impl From<Precision> for nn::Precision {
    fn from(precision: Precision) -> Self {
        match precision {
            Precision::Auto => Self::Auto,
            Precision::F16 => Self::F16,
            Precision::F32 => Self::F32,
        }
    }
}

/// How overlapping detections are resolved (property `cleanup`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, glib::Enum)]
#[enum_type(name = "GstRtDetrLayoutCleanup")]
#[repr(i32)]
pub enum Cleanup {
    #[enum_value(name = "Not at all", nick = "none")]
    None,
    #[enum_value(name = "The best of overlapping boxes of a class", nick = "nms")]
    Nms,
    #[enum_value(name = "Docling's rules for the parts of a page", nick = "layout")]
    Layout,
}

impl From<Cleanup> for rtdetr::Cleanup {
    fn from(cleanup: Cleanup) -> Self {
        match cleanup {
            Cleanup::None => Self::None,
            Cleanup::Nms => Self::Nms,
            Cleanup::Layout => Self::Layout,
        }
    }
}

/// How frames are brought to the network's size (property `fit`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, glib::Enum)]
#[enum_type(name = "GstRtDetrLayoutFit")]
#[repr(i32)]
pub enum Fit {
    #[default]
    #[enum_value(name = "As the checkpoint says, else stretched", nick = "auto")]
    Auto,
    #[enum_value(name = "Each axis on its own", nick = "stretch")]
    Stretch,
    #[enum_value(name = "Both axes alike, white around", nick = "letterbox")]
    Letterbox,
}

impl From<Fit> for rtdetr::Fit {
    fn from(fit: Fit) -> Self {
        match fit {
            Fit::Auto => Self::Auto,
            Fit::Stretch => Self::Stretch,
            Fit::Letterbox => Self::Letterbox,
        }
    }
}

/// Which metas detections go into (property `metadata`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, glib::Enum)]
#[enum_type(name = "GstRtDetrLayoutMetadata")]
#[repr(i32)]
pub enum Metadata {
    #[default]
    #[enum_value(name = "Both where GStreamer has both, else regions of interest", nick = "auto")]
    Auto,
    #[enum_value(name = "GstVideoRegionOfInterestMeta", nick = "roi")]
    Roi,
    #[enum_value(name = "GstAnalyticsRelationMeta (GStreamer 1.24)", nick = "analytics")]
    Analytics,
    #[enum_value(name = "Both, with the same ids", nick = "both")]
    Both,
}

/// Registers the element with `plugin`.
pub fn register(plugin: &gst::Plugin) -> Result<(), glib::BoolError> {
    gst::Element::register(Some(plugin), "rtdetrlayout", gst::Rank::NONE, RtDetrLayout::static_type())
}
