// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters and statistics that other threads read while frames flow.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::element::{Mean, lock};

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

/// What happened, and what it cost.
#[derive(Debug, Clone, Default)]
pub struct Figures {
    pub scene_cuts: u64,
    pub equal_pairs: u64,
    /// Pairs whose frames were repeated because they came too late.
    pub late_pairs: u64,
    pub last_gpu: Duration,
    pub gpu: Mean,
    pub upload: Mean,
    pub readback: Mean,
    pub graph: Option<&'static str>,
    pub storage: Option<&'static str>,
    pub kernel: Option<String>,
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

    /// Counts from 0 again, after a flush.
    pub fn restart(&self) {
        self.counters.reset();
        let mut figures = lock(&self.figures);
        (figures.scene_cuts, figures.equal_pairs, figures.late_pairs) = (0, 0, 0);
    }

    pub fn late_pairs(&self) -> u64 {
        lock(&self.figures).late_pairs
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
            .field("kernel", figures.kernel.unwrap_or_default())
            .build()
    }
}
