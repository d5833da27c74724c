// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the elements do alike: locks, error messages, lateness, mean times.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::Error;

/// Locks; a panic elsewhere leaves plain data behind every lock here.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The element error for a failure of a lower layer.
pub(crate) fn error_message(error: &Error) -> gst::ErrorMessage {
    let text = error.to_string();
    macro_rules! message {
        ($code:expr) => {
            gst::error_msg!($code, ("{text}"))
        };
    }
    match error {
        Error::NoAdapter | Error::AdapterNotFound { .. } => message!(gst::ResourceError::NotFound),
        Error::ModelRead { not_found: true, .. } => message!(gst::ResourceError::NotFound),
        Error::ModelRead { .. } => message!(gst::ResourceError::Read),
        Error::ModelInvalid { .. } | Error::FrameTooLarge { .. } => message!(gst::StreamError::Format),
        Error::Unsupported(_) => message!(gst::ResourceError::Settings),
        Error::DeviceLost(_) | Error::Gpu(_) | Error::WrongResults { .. } => message!(gst::ResourceError::Failed),
        Error::Usage(_) => message!(gst::LibraryError::Failed),
    }
}

/// What downstream's last QOS event says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Lateness {
    /// Frames up to this running time come too late.
    pub earliest: gst::ClockTime,
    /// How much slower than real time downstream gets its frames.
    pub proportion: f64,
}

impl Lateness {
    pub fn of(event: &gst::event::Qos) -> Option<Self> {
        let (_, proportion, diff, timestamp) = event.get();
        timestamp.map(|timestamp| {
            // As far behind again by the time the next frame arrives.
            let diff = if diff > 0 { diff.saturating_mul(2) } else { diff };
            let earliest = timestamp.nseconds().saturating_add_signed(diff).min(u64::MAX - 1);
            Self { earliest: gst::ClockTime::from_nseconds(earliest), proportion }
        })
    }
}

/// A mean of durations.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Mean {
    sum: Duration,
    count: u32,
}

impl Mean {
    pub fn add(&mut self, value: Duration) {
        self.sum += value;
        self.count += 1;
    }

    pub fn nanoseconds(self) -> u64 {
        self.sum.checked_div(self.count).map_or(0, |mean| mean.as_nanos() as u64)
    }
}
