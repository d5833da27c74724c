// SPDX-License-Identifier: MIT OR Apache-2.0
//! GPU time of one submit, read back together with its result.

use std::time::Duration;

use super::plan::Context;
use super::transfer::Readback;

/// Bytes of the two timestamps in a readback buffer.
pub const TIMES: u64 = 16;

/// A beginning and an end, reused by every submit.
pub struct Timer {
    queries: wgpu::QuerySet,
    resolved: wgpu::Buffer,
    nanoseconds_per_tick: f64,
}

impl Timer {
    /// `None` where the adapter has no timestamps.
    pub fn new(context: &Context) -> Option<Self> {
        let gpu = &context.gpu;
        gpu.has_timestamps().then(|| {
            context.created();
            Self {
                queries: gpu.device().create_query_set(&wgpu::QuerySetDescriptor {
                    label: Some("frame times"),
                    ty: wgpu::QueryType::Timestamp,
                    count: 2,
                }),
                resolved: context.buffer(
                    "frame times",
                    TIMES,
                    wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC,
                ),
                nanoseconds_per_tick: f64::from(gpu.queue().get_timestamp_period()),
            }
        })
    }

    /// What a pass writes that begins, ends or is the measured time.
    pub fn writes(&self, begins: bool, ends: bool) -> Option<wgpu::ComputePassTimestampWrites<'_>> {
        (begins || ends).then_some(wgpu::ComputePassTimestampWrites {
            query_set: &self.queries,
            beginning_of_pass_write_index: begins.then_some(0),
            end_of_pass_write_index: ends.then_some(1),
        })
    }

    /// Records the copy of both times to `offset` of `readback`.
    pub fn record(&self, encoder: &mut wgpu::CommandEncoder, readback: &Readback, offset: u64) {
        encoder.resolve_query_set(&self.queries, 0..2, &self.resolved, 0);
        readback.record(encoder, &self.resolved, offset, TIMES);
    }

    /// The time that the first [`TIMES`] of `bytes` say.
    pub fn read(&self, bytes: &[u8]) -> Option<Duration> {
        let bytes = bytes.get(..TIMES as usize)?;
        let [begin, end] = bytemuck::pod_read_unaligned::<[u64; 2]>(bytes);
        let nanoseconds = end.saturating_sub(begin) as f64 * self.nanoseconds_per_tick;
        Some(Duration::from_nanos(nanoseconds as u64))
    }
}
