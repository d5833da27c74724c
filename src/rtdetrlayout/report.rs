// SPDX-License-Identifier: MIT OR Apache-2.0
//! Statistics that other threads read while frames flow.

use std::sync::Mutex;
use std::time::Duration;

use crate::element::{Mean, lock};
use crate::gpu::CountersSnapshot;

/// What happened, and what it cost.
#[derive(Debug, Clone, Default)]
pub struct Figures {
    pub frames: u64,
    pub analysed: u64,
    /// Not analysed because of `inference-interval`.
    pub skipped: u64,
    /// Not analysed because they came too late.
    pub late: u64,
    pub detections: u64,
    pub last_inference: Duration,
    pub inference: Mean,
    pub last_gpu: Duration,
    pub gpu: Mean,
    /// Of the detector at work.
    pub counters: Option<CountersSnapshot>,
    pub storage: Option<&'static str>,
}

/// What the `stats` and `adapter-name` properties tell.
#[derive(Debug, Default)]
pub struct Report {
    figures: Mutex<Figures>,
    adapter: Mutex<Option<String>>,
}

impl Report {
    /// Forgets everything but the adapter.
    pub fn reset(&self) {
        *lock(&self.figures) = Figures::default();
    }

    pub fn update<R>(&self, change: impl FnOnce(&mut Figures) -> R) -> R {
        change(&mut lock(&self.figures))
    }

    pub fn set_adapter(&self, name: Option<String>) {
        *lock(&self.adapter) = name;
    }

    pub fn adapter(&self) -> Option<String> {
        lock(&self.adapter).clone()
    }

    pub fn to_structure(&self) -> gst::Structure {
        let figures = lock(&self.figures).clone();
        let (objects, submits) =
            figures.counters.map_or((0, 0), |counters| (counters.objects_created, counters.submits));
        gst::Structure::builder("rtdetrlayout-stats")
            .field("frames", figures.frames)
            .field("analysed", figures.analysed)
            .field("skipped", figures.skipped)
            .field("late", figures.late)
            .field("detections", figures.detections)
            .field("last-inference-time", figures.last_inference.as_nanos() as u64)
            .field("mean-inference-time", figures.inference.nanoseconds())
            .field("last-gpu-time", figures.last_gpu.as_nanos() as u64)
            .field("mean-gpu-time", figures.gpu.nanoseconds())
            .field("gpu-objects", objects)
            .field("gpu-submits", submits)
            .field("adapter", self.adapter().unwrap_or_default())
            .field("storage", figures.storage.unwrap_or_default())
            .build()
    }
}
