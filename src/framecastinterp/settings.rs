// SPDX-License-Identifier: MIT OR Apache-2.0
//! The properties of `framecastinterp` and their values.

use std::sync::LazyLock;

use gst::glib;
use gst::prelude::*;

use super::scene::DEFAULT_THRESHOLD;
use super::timeline::{Limits, SECOND};
use super::{Precision, StaticGuard};

/// What the user can set.
#[derive(Debug, Clone)]
pub struct Settings {
    pub fps: gst::Fraction,
    pub model: Option<String>,
    pub precision: Precision,
    pub flow_scale: f64,
    pub static_guard: StaticGuard,
    pub scene_threshold: f64,
    pub adapter: Option<String>,
    pub skip_to_first: bool,
    pub max_duplication_time: u64,
    pub max_closing: u64,
    pub silent: bool,
    pub drop_only: bool,
    pub max_rate: i32,
    pub average_period: u64,
    pub rate: f64,
    pub qos: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            fps: gst::Fraction::new(0, 1),
            model: None,
            precision: Precision::default(),
            flow_scale: 1.0,
            static_guard: StaticGuard::default(),
            scene_threshold: DEFAULT_THRESHOLD,
            adapter: None,
            skip_to_first: false,
            max_duplication_time: 0,
            max_closing: SECOND,
            silent: true,
            drop_only: false,
            max_rate: i32::MAX,
            average_period: 0,
            rate: 1.0,
            qos: true,
        }
    }
}

impl Settings {
    pub fn limits(&self) -> Limits {
        Limits {
            skip_to_first: self.skip_to_first,
            max_duplication: self.max_duplication_time,
            max_closing: self.max_closing,
        }
    }

    /// Takes a property's new value. Returns whether the output rate must be negotiated anew.
    pub fn set(&mut self, name: &str, value: &glib::Value) -> Result<bool, glib::value::ValueTypeMismatchError> {
        // GObject has checked type and range against the property's specification.
        let text = || value.get::<Option<String>>().ok().flatten().filter(|text| !text.is_empty());
        match name {
            "fps" => self.fps = value.get()?,
            "model" => self.model = text(),
            "precision" => self.precision = value.get()?,
            "flow-scale" => self.flow_scale = value.get()?,
            "static-guard" => self.static_guard = value.get()?,
            "scene-threshold" => self.scene_threshold = value.get()?,
            "adapter" => self.adapter = text(),
            "skip-to-first" => self.skip_to_first = value.get()?,
            "max-duplication-time" => self.max_duplication_time = value.get()?,
            "max-closing-segment-duplication-duration" => self.max_closing = value.get()?,
            "silent" => self.silent = value.get()?,
            "drop-only" => self.drop_only = value.get()?,
            "max-rate" => self.max_rate = value.get()?,
            "average-period" => self.average_period = value.get()?,
            "rate" => self.rate = value.get()?,
            "qos" => self.qos = value.get()?,
            _ => {}
        }
        Ok(matches!(name, "fps" | "drop-only" | "max-rate" | "average-period"))
    }

    /// A writable property's value.
    pub fn value(&self, name: &str) -> Option<glib::Value> {
        Some(match name {
            "fps" => self.fps.to_value(),
            "model" => self.model.to_value(),
            "precision" => self.precision.to_value(),
            "flow-scale" => self.flow_scale.to_value(),
            "static-guard" => self.static_guard.to_value(),
            "scene-threshold" => self.scene_threshold.to_value(),
            "adapter" => self.adapter.to_value(),
            "skip-to-first" => self.skip_to_first.to_value(),
            "max-duplication-time" => self.max_duplication_time.to_value(),
            "max-closing-segment-duplication-duration" => self.max_closing.to_value(),
            "silent" => self.silent.to_value(),
            "drop-only" => self.drop_only.to_value(),
            "max-rate" => self.max_rate.to_value(),
            "average-period" => self.average_period.to_value(),
            "rate" => self.rate.to_value(),
            "qos" => self.qos.to_value(),
            _ => return None,
        })
    }
}

/// The specification of every property.
pub fn properties() -> &'static [glib::ParamSpec] {
    static PROPERTIES: LazyLock<Vec<glib::ParamSpec>> = LazyLock::new(|| {
        let default = Settings::default();
        let counter =
            |name, nick, blurb| glib::ParamSpecUInt64::builder(name).nick(nick).blurb(blurb).read_only().build();
        vec![
            gst::ParamSpecFraction::builder("fps")
                .nick("Output frame rate")
                .blurb(
                    "Output rate in frames per second; 0/1 = what downstream's caps ask for or, where they leave it \
                     open, twice the input rate",
                )
                .minimum(gst::Fraction::new(0, 1))
                .maximum(gst::Fraction::new(i32::MAX, 1))
                .default_value(default.fps)
                .mutable_playing()
                .build(),
            glib::ParamSpecString::builder("model")
                .nick("Model file")
                .blurb(
                    "Path of the network's weights: a .safetensors file, or a .bin file beside its .json; unset = the \
                     built-in model",
                )
                .mutable_ready()
                .build(),
            glib::ParamSpecEnum::builder_with_default("precision", default.precision)
                .nick("Precision")
                .blurb("How the network stores numbers")
                .mutable_ready()
                .build(),
            glib::ParamSpecDouble::builder("flow-scale")
                .nick("Flow scale")
                .blurb(
                    "Size of the network's grid as a fraction of the frame's; smaller is faster and coarser, made \
                     frames keep their full size",
                )
                .minimum(0.25)
                .maximum(1.0)
                .default_value(default.flow_scale)
                .mutable_ready()
                .build(),
            glib::ParamSpecEnum::builder_with_default("static-guard", default.static_guard)
                .nick("Static guard")
                .blurb("What is held still in made frames (subtitles, logos) when it does not change")
                .mutable_ready()
                .build(),
            glib::ParamSpecDouble::builder("scene-threshold")
                .nick("Scene cut threshold")
                .blurb(
                    "Unlikeness of two frames, 0..1, above which they are two scenes: the nearer one is repeated \
                     instead of drawing frames between them; 0 = never",
                )
                .minimum(0.0)
                .maximum(1.0)
                .default_value(default.scene_threshold)
                .mutable_playing()
                .build(),
            glib::ParamSpecString::builder("adapter")
                .nick("GPU adapter")
                .blurb("GPU to run on: its index or a part of its name; unset = the best one")
                .mutable_ready()
                .build(),
            glib::ParamSpecString::builder("adapter-name")
                .nick("GPU adapter in use")
                .blurb("Name of the GPU in use; unset in NULL state")
                .read_only()
                .build(),
            glib::ParamSpecBoolean::builder("skip-to-first")
                .nick("Skip to first")
                .blurb("Start the output at the first frame instead of showing it back to the segment's start")
                .default_value(default.skip_to_first)
                .mutable_playing()
                .build(),
            glib::ParamSpecUInt64::builder("max-duplication-time")
                .nick("Maximum duplication time")
                .blurb("Longest gap between frames that is filled, in ns; 0 = every gap is")
                .default_value(default.max_duplication_time)
                .mutable_playing()
                .build(),
            glib::ParamSpecUInt64::builder("max-closing-segment-duplication-duration")
                .nick("Maximum closing duplication duration")
                .blurb("How long the last frame is repeated at most to reach the segment's stop, in ns")
                .default_value(default.max_closing)
                .mutable_playing()
                .build(),
            glib::ParamSpecBoolean::builder("silent")
                .nick("Silent")
                .blurb("Do not emit notify for the counters")
                .default_value(default.silent)
                .mutable_playing()
                .build(),
            glib::ParamSpecBoolean::builder("drop-only")
                .nick("Drop only")
                .blurb("Only drop frames, none is repeated or made")
                .default_value(default.drop_only)
                .mutable_playing()
                .build(),
            glib::ParamSpecInt::builder("max-rate")
                .nick("Maximum rate")
                .blurb(
                    "Highest output rate in frames per second; where downstream leaves the rate open, the output is \
                     then not faster than the input",
                )
                .minimum(1)
                .maximum(i32::MAX)
                .default_value(default.max_rate)
                .mutable_playing()
                .build(),
            glib::ParamSpecUInt64::builder("average-period")
                .nick("Averaging period")
                .blurb(
                    "Let frames pass untouched and drop only those that exceed the output rate on average over this \
                     time, in ns; 0 = off",
                )
                .maximum(i64::MAX as u64)
                .default_value(default.average_period)
                .mutable_playing()
                .build(),
            glib::ParamSpecDouble::builder("rate")
                .nick("Speed")
                .blurb("Speed of the output as a factor; below 1 is slow motion")
                .minimum(1e-6)
                .maximum(1e6)
                .default_value(default.rate)
                .mutable_ready()
                .build(),
            glib::ParamSpecBoolean::builder("qos")
                .nick("Quality of service")
                .blurb("Repeat frames instead of making them while downstream reports that they come too late")
                .default_value(default.qos)
                .mutable_playing()
                .build(),
            counter("in", "Input frames", "Number of frames that came in"),
            counter("out", "Output frames", "Number of frames that went out"),
            counter("duplicate", "Duplicated frames", "Number of outputs that repeat a frame shown before"),
            counter("drop", "Dropped frames", "Number of input frames neither shown nor used"),
            counter("interpolated", "Interpolated frames", "Number of outputs made by the network"),
            glib::ParamSpecBoxed::builder::<gst::Structure>("stats")
                .nick("Statistics")
                .blurb(
                    "frames, out, interpolated, duplicated, dropped, scene-cuts, equal-pairs, late-pairs (guint64); \
                     last-gpu-time, mean-gpu-time, upload-time, readback-time (guint64, ns, times are means unless \
                     last); adapter, graph, storage, kernel (string; kernel: the \
                     busiest convolution and how it is computed)",
                )
                .read_only()
                .build(),
        ]
    });
    &PROPERTIES
}
