// SPDX-License-Identifier: MIT OR Apache-2.0
//! Host-visible buffers that live as long as their plan and are mapped again by the submit that uses them, so that a
//! frame needs no staging buffer of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use super::plan::Context;
use crate::error::{Error, Result};

const UNMAPPED: u8 = 0;
const PENDING: u8 = 1;
const MAPPED: u8 = 2;
const FAILED: u8 = 3;

#[derive(Debug)]
struct HostBuffer {
    context: Context,
    buffer: wgpu::Buffer,
    mode: wgpu::MapMode,
    state: Arc<AtomicU8>,
}

/// Turns a mapping whose submit never happened into a failure, so that nobody waits for it.
struct MapRequest(Arc<AtomicU8>);

impl Drop for MapRequest {
    fn drop(&mut self) {
        let _ = self.0.compare_exchange(PENDING, FAILED, Ordering::AcqRel, Ordering::Acquire);
    }
}

impl HostBuffer {
    fn new(context: &Context, label: &str, size: u64, mode: wgpu::MapMode) -> Self {
        let usage = match mode {
            wgpu::MapMode::Write => wgpu::BufferUsages::MAP_WRITE | wgpu::BufferUsages::COPY_SRC,
            wgpu::MapMode::Read => wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
        };
        let buffer = context.buffer(label, size, usage);
        Self { context: context.clone(), buffer, mode, state: Arc::new(AtomicU8::new(UNMAPPED)) }
    }

    fn callback(&self) -> impl FnOnce(Result<(), wgpu::BufferAsyncError>) + Send + 'static {
        self.state.store(PENDING, Ordering::Release);
        let request = MapRequest(self.state.clone());
        move |result| request.0.store(if result.is_ok() { MAPPED } else { FAILED }, Ordering::Release)
    }

    fn map_on_submit(&self, encoder: &wgpu::CommandEncoder) {
        encoder.map_buffer_on_submit(&self.buffer, self.mode, .., self.callback());
    }

    /// Waits until the mapping asked for is there.
    fn wait_mapped(&self) -> Result<()> {
        if self.state.load(Ordering::Acquire) == UNMAPPED {
            self.buffer.map_async(self.mode, .., self.callback());
        }
        loop {
            match self.state.load(Ordering::Acquire) {
                MAPPED => return Ok(()),
                PENDING => {}
                _ => {
                    self.context.gpu.check()?;
                    return Err(Error::Gpu("mapping a transfer buffer failed".into()));
                }
            }
            // Callbacks run on whichever thread polls; another element's poll may be running ours right now.
            let polled = self.context.gpu.device().poll(wgpu::PollType::wait_indefinitely());
            self.context.gpu.check()?;
            polled.map_err(|error| Error::Gpu(format!("waiting for the GPU failed: {error}")))?;
            std::thread::yield_now();
        }
    }

    fn unmap(&self) {
        self.state.store(UNMAPPED, Ordering::Release);
        self.buffer.unmap();
    }
}

/// A buffer the CPU writes and a submit copies to its destination.
#[derive(Debug)]
pub struct Upload(HostBuffer);

impl Upload {
    pub fn new(context: &Context, label: &str, size: u64) -> Self {
        Self(HostBuffer::new(context, label, size, wgpu::MapMode::Write))
    }

    /// Fills the buffer; waits first if an earlier copy from it is still under way.
    pub fn write(&self, fill: impl FnOnce(&mut wgpu::BufferViewMut)) -> Result<()> {
        self.0.wait_mapped()?;
        let view = self.0.buffer.get_mapped_range_mut(..);
        let mut view = view.map_err(|error| Error::Gpu(format!("mapping a transfer buffer failed: {error}")))?;
        fill(&mut view);
        drop(view);
        self.0.unmap();
        Ok(())
    }

    /// Records the copy of what was written last, from `range` to the same place in `target`; the submit maps the
    /// buffer again when the copy is done.
    pub fn record(&self, encoder: &mut wgpu::CommandEncoder, target: &wgpu::Buffer, size: u64) {
        encoder.copy_buffer_to_buffer(&self.0.buffer, 0, target, 0, size.next_multiple_of(4));
        self.0.map_on_submit(encoder);
    }
}

/// A buffer a submit copies to and the CPU reads.
#[derive(Debug)]
pub struct Readback(HostBuffer);

impl Readback {
    pub fn new(context: &Context, label: &str, size: u64) -> Self {
        Self(HostBuffer::new(context, label, size, wgpu::MapMode::Read))
    }

    /// Records the copy of `size` bytes of `source` to `offset`.
    pub fn record(&self, encoder: &mut wgpu::CommandEncoder, source: &wgpu::Buffer, offset: u64, size: u64) {
        encoder.copy_buffer_to_buffer(source, 0, &self.0.buffer, offset, size.next_multiple_of(4));
    }

    /// Asks the submit of `encoder` to map the buffer once everything recorded so far is done.
    pub fn map_on_submit(&self, encoder: &wgpu::CommandEncoder) {
        self.0.map_on_submit(encoder);
    }

    /// Waits for the copies of `submission` and hands out the bytes.
    pub fn read<T>(&self, submission: &wgpu::SubmissionIndex, take: impl FnOnce(&[u8]) -> T) -> Result<T> {
        self.0.context.gpu.wait(submission)?;
        self.0.wait_mapped()?;
        let view = self.0.buffer.get_mapped_range(..);
        let view = view.map_err(|error| Error::Gpu(format!("mapping a transfer buffer failed: {error}")))?;
        let result = take(&view);
        drop(view);
        self.0.unmap();
        Ok(result)
    }

    /// Gives up what was asked for, so that the buffer can be used again.
    pub fn discard(&self, submission: &wgpu::SubmissionIndex) -> Result<()> {
        self.read(submission, |_| ())
    }
}
