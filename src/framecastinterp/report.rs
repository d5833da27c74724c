// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters and statistics that other threads read while frames flow.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::imp::lock;

/// The counter properties.
#[derive(Debug, Default)]
pub struct Counters {
    pub input: AtomicU64,
    pub output: AtomicU64,
    pub duplicate: AtomicU64,
    pub drop: AtomicU64,
    pub interpolated: AtomicU64,
}

impl Counters {
    fn all(&self) -> [&AtomicU64; 5] {
        [&self.input, &self.output, &self.duplicate, &self.drop, &self.interpolated]
    }

    pub fn reset(&self) {
        for counter in self.all() {
            counter.store(0, Ordering::Relaxed);
        }
    }

    pub fn get(&self, name: &str) -> Option<u64> {
        let [input, output, duplicate, drop, interpolated] = self.all();
        let counter = match name {
            "in" => input,
            "out" => output,
            "duplicate" => duplicate,
            "drop" => drop,
            "interpolated" => interpolated,
            _ => return None,
        };
        Some(counter.load(Ordering::Relaxed))
    }
}

/// A mean of durations.
#[derive(Debug, Clone, Copy, Default)]
pub struct Mean {
    sum: Duration,
    count: u32,
}

impl Mean {
    pub fn add(&mut self, value: Duration) {
        self.sum += value;
        self.count += 1;
    }

    fn nanoseconds(self) -> u64 {
        self.sum.checked_div(self.count).map_or(0, |mean| mean.as_nanos() as u64)
    }
}

#[derive(Debug, Clone, Default)]
pub struct Figures {
    pub scene_cuts: u64,
    pub equal_pairs: u64,
    pub late_pairs: u64,
    pub last_gpu: Duration,
    pub gpu: Mean,
    pub upload: Mean,
    pub readback: Mean,
    pub graph: Option<&'static str>,
    pub storage: Option<&'static str>,
}

/// What the `stats` and `adapter-name` properties tell.
#[derive(Debug, Default)]
pub struct Report {
    pub counters: Counters,
    figures: Mutex<Figures>,
    adapter: Mutex<Option<String>>,
}

impl Report {
    /// Forgets everything but the adapter.
    pub fn reset(&self) {
        self.counters.reset();
        *lock(&self.figures) = Figures::default();
    }

    pub fn update(&self, change: impl FnOnce(&mut Figures)) {
        change(&mut lock(&self.figures));
    }

    pub fn set_adapter(&self, name: Option<String>) {
        *lock(&self.adapter) = name;
    }

    pub fn adapter(&self) -> Option<String> {
        lock(&self.adapter).clone()
    }

    pub fn to_structure(&self) -> gst::Structure {
        let figures = lock(&self.figures).clone();
        let count = |name| self.counters.get(name).unwrap_or(0);
        gst::Structure::builder("framecastinterp-stats")
            .field("frames", count("in"))
            .field("out", count("out"))
            .field("interpolated", count("interpolated"))
            .field("duplicated", count("duplicate"))
            .field("dropped", count("drop"))
            .field("scene-cuts", figures.scene_cuts)
            .field("equal-pairs", figures.equal_pairs)
            .field("late-pairs", figures.late_pairs)
            .field("last-gpu-time", figures.last_gpu.as_nanos() as u64)
            .field("mean-gpu-time", figures.gpu.nanoseconds())
            .field("upload-time", figures.upload.nanoseconds())
            .field("readback-time", figures.readback.nanoseconds())
            .field("adapter", self.adapter().unwrap_or_default())
            .field("graph", figures.graph.unwrap_or_default())
            .field("storage", figures.storage.unwrap_or_default())
            .build()
    }
}
