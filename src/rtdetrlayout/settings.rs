// SPDX-License-Identifier: MIT OR Apache-2.0
//! The properties of `rtdetrlayout` and their values.

use std::sync::LazyLock;

use gst::glib;
use gst::prelude::*;

use super::{Cleanup, Fit, Metadata, Precision};
use crate::error::{Error, Result};
use crate::rtdetr::Postprocessor;

/// What the user can set.
#[derive(Debug, Clone)]
pub struct Settings {
    pub model: Option<String>,
    pub filter: Filter,
    pub inference_interval: u32,
    pub roi: Option<String>,
    pub metadata: Metadata,
    pub post_messages: bool,
    pub input_size: Option<String>,
    pub fit: Fit,
    pub precision: Precision,
    pub adapter: Option<String>,
    pub qos: bool,
}

/// Which candidates become detections.
#[derive(Debug, Clone, PartialEq)]
pub struct Filter {
    pub threshold: f64,
    pub class_thresholds: Option<String>,
    pub labels: Option<String>,
    /// `None`: as fits the model's labels.
    pub cleanup: Option<Cleanup>,
    pub max_detections: u32,
}

impl Default for Settings {
    fn default() -> Self {
        let filter =
            Filter { threshold: 0.3, class_thresholds: None, labels: None, cleanup: None, max_detections: 300 };
        Self {
            model: None,
            filter,
            inference_interval: 1,
            roi: None,
            metadata: Metadata::default(),
            post_messages: false,
            input_size: None,
            fit: Fit::default(),
            precision: Precision::default(),
            adapter: None,
            qos: true,
        }
    }
}

impl Filter {
    /// The post-processing for a model with these labels.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where a label is none of the model's, or a score is none.
    pub fn postprocessor(&self, labels: &[String]) -> Result<Postprocessor> {
        let mut post = Postprocessor::new(labels)
            .threshold(self.threshold as f32)
            .max_detections(self.max_detections as usize)
            .class_thresholds(self.class_thresholds.as_deref().unwrap_or_default())?
            .wanted_labels(self.labels.as_deref().unwrap_or_default())?;
        if let Some(cleanup) = self.cleanup {
            post = post.cleanup(cleanup.into());
        }
        Ok(post)
    }
}

impl Settings {
    /// Width and height of the network's input, where set.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where the text is neither one number nor two.
    pub fn network_size(&self) -> Result<Option<[usize; 2]>> {
        let Some(text) = &self.input_size else { return Ok(None) };
        let (width, height) = text.split_once('x').unwrap_or((text, text));
        match (width.trim().parse(), height.trim().parse()) {
            (Ok(width), Ok(height)) => Ok(Some([width, height])),
            _ => Err(Error::Unsupported(format!("input-size {text:?}: expected WIDTHxHEIGHT, such as 640x640"))),
        }
    }

    /// Takes a property's new value.
    pub fn set(&mut self, name: &str, value: &glib::Value) -> Result<(), glib::value::ValueTypeMismatchError> {
        // GObject has checked type and range against the property's specification.
        let text = || value.get::<Option<String>>().ok().flatten().filter(|text| !text.trim().is_empty());
        match name {
            "model" => self.model = text(),
            "threshold" => self.filter.threshold = value.get()?,
            "class-thresholds" => self.filter.class_thresholds = text(),
            "labels" => self.filter.labels = text(),
            "cleanup" => self.filter.cleanup = Some(value.get()?),
            "max-detections" => self.filter.max_detections = value.get()?,
            "inference-interval" => self.inference_interval = value.get()?,
            "roi" => self.roi = text(),
            "metadata" => self.metadata = value.get()?,
            "post-messages" => self.post_messages = value.get()?,
            "input-size" => self.input_size = text(),
            "fit" => self.fit = value.get()?,
            "precision" => self.precision = value.get()?,
            "adapter" => self.adapter = text(),
            "qos" => self.qos = value.get()?,
            _ => {}
        }
        Ok(())
    }

    /// A writable property's value.
    pub fn value(&self, name: &str) -> Option<glib::Value> {
        Some(match name {
            "model" => self.model.to_value(),
            "threshold" => self.filter.threshold.to_value(),
            "class-thresholds" => self.filter.class_thresholds.to_value(),
            "labels" => self.filter.labels.to_value(),
            "cleanup" => self.filter.cleanup.unwrap_or(Cleanup::Layout).to_value(),
            "max-detections" => self.filter.max_detections.to_value(),
            "inference-interval" => self.inference_interval.to_value(),
            "roi" => self.roi.to_value(),
            "metadata" => self.metadata.to_value(),
            "post-messages" => self.post_messages.to_value(),
            "input-size" => self.input_size.to_value(),
            "fit" => self.fit.to_value(),
            "precision" => self.precision.to_value(),
            "adapter" => self.adapter.to_value(),
            "qos" => self.qos.to_value(),
            _ => return None,
        })
    }
}

/// The specification of every property.
pub fn properties() -> &'static [glib::ParamSpec] {
    static PROPERTIES: LazyLock<Vec<glib::ParamSpec>> = LazyLock::new(|| {
        let Settings { filter, inference_interval, metadata, post_messages, fit, precision, qos, .. } =
            Settings::default();
        vec![
            glib::ParamSpecString::builder("model")
                .nick("Model")
                .blurb(
                    "A Hugging Face RT-DETRv2 checkpoint: its folder, or its .safetensors file with config.json \
                     beside it",
                )
                .mutable_ready()
                .build(),
            glib::ParamSpecDouble::builder("threshold")
                .nick("Threshold")
                .blurb("Score that detections must exceed")
                .minimum(0.0)
                .maximum(1.0)
                .default_value(filter.threshold)
                .mutable_playing()
                .build(),
            glib::ParamSpecString::builder("class-thresholds")
                .nick("Thresholds by class")
                .blurb(
                    "Scores that detections of single classes must reach instead, as \
                     \"Table=0.6,Document Index=0.4\"",
                )
                .mutable_playing()
                .build(),
            glib::ParamSpecString::builder("labels")
                .nick("Labels")
                .blurb(
                    "Keep only detections with these labels, separated by commas, words joined by hyphens, spaces or \
                     underscores; unset = all",
                )
                .mutable_playing()
                .build(),
            glib::ParamSpecEnum::builder_with_default("cleanup", Cleanup::Layout)
                .nick("Clean-up")
                .blurb(
                    "How overlapping detections are resolved; unless set, nms for models whose labels are not \
                     docling's",
                )
                .mutable_playing()
                .build(),
            glib::ParamSpecUInt::builder("max-detections")
                .nick("Maximum of detections")
                .blurb("Keep at most so many detections of a frame, the best ones")
                .default_value(filter.max_detections)
                .mutable_playing()
                .build(),
            glib::ParamSpecUInt::builder("inference-interval")
                .nick("Inference interval")
                .blurb("Analyse one frame in so many; the others carry no meta and give no message")
                .minimum(1)
                .default_value(inference_interval)
                .mutable_playing()
                .build(),
            glib::ParamSpecString::builder("roi")
                .nick("Region of interest")
                .blurb("Analyse only this part of the frame: x,y,width,height in pixels; unset = all of it")
                .mutable_playing()
                .build(),
            glib::ParamSpecEnum::builder_with_default("metadata", metadata)
                .nick("Metadata")
                .blurb("Which metas detections are attached as")
                .mutable_ready()
                .build(),
            glib::ParamSpecBoolean::builder("post-messages")
                .nick("Post messages")
                .blurb("Post an element message rtdetrlayout for each analysed frame")
                .default_value(post_messages)
                .mutable_playing()
                .build(),
            glib::ParamSpecString::builder("input-size")
                .nick("Input size")
                .blurb("Size of the network's input, as 640x640; unset = as the checkpoint says, else 640x640")
                .mutable_ready()
                .build(),
            glib::ParamSpecEnum::builder_with_default("fit", fit)
                .nick("Fit")
                .blurb("How frames are brought to the network's size")
                .mutable_ready()
                .build(),
            glib::ParamSpecEnum::builder_with_default("precision", precision)
                .nick("Precision")
                .blurb("How the network stores numbers")
                .mutable_ready()
                .build(),
            glib::ParamSpecString::builder("adapter")
                .nick("GPU adapter")
                .blurb(
                    "GPU to run on: its index or a part of its name; cpu = none, which takes seconds a frame; unset = \
                     the best GPU",
                )
                .mutable_ready()
                .build(),
            glib::ParamSpecString::builder("adapter-name")
                .nick("GPU adapter in use")
                .blurb("Name of the GPU in use, or cpu; unset in NULL state")
                .read_only()
                .build(),
            glib::ParamSpecBoolean::builder("qos")
                .nick("Quality of service")
                .blurb("Let frames pass without analysis while downstream reports that they come too late")
                .default_value(qos)
                .mutable_playing()
                .build(),
            glib::ParamSpecBoxed::builder::<gst::Structure>("stats")
                .nick("Statistics")
                .blurb(
                    "frames, analysed, skipped, late, detections, gpu-objects, gpu-submits (guint64); \
                     last-inference-time, mean-inference-time, last-gpu-time, mean-gpu-time (guint64, ns); adapter, \
                     storage (string)",
                )
                .read_only()
                .build(),
        ]
    });
    &PROPERTIES
}
