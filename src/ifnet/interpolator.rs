// SPDX-License-Identifier: MIT OR Apache-2.0
//! One stream of frames through the network: frames are uploaded, a pair is chosen, made frames are submitted and read
//! back later.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::graph::NetworkPlans;
use super::selftest;
use super::weights::{Film, Graph, Weights};
use crate::error::{Error, Result};
use crate::gpu::frame::{FrameLayout, PlaneMut, PlaneRef};
use crate::gpu::profile::{StepTime, profile};
use crate::gpu::timer::{TIMES, Timer};
use crate::gpu::transfer::{Readback, Upload};
use crate::gpu::{Context, Counters, CountersSnapshot, Gpu, Plan};
use crate::nn::cpu::film::film_params;
use crate::nn::frames::{Frames, Rounding, StaticGuard};
use crate::nn::{Precision, Storage};

/// How many made frames can be under way (submitted and not yet read).
pub const MAX_BATCH: usize = 5;

/// Frames that can wait in host memory for their copy to the GPU.
const STAGING: usize = 3;

/// What an [`Interpolator`] is built for.
#[derive(Debug, Clone)]
pub struct Config {
    pub layout: FrameLayout,
    pub precision: Precision,
    /// Size of the network's grid relative to the frame, 0.25 to 1.
    pub flow_scale: f64,
    pub static_guard: StaticGuard,
    pub rounding: Rounding,
    /// Makes frames of this size, the source stretched to it; sides must be multiples of 16. Only some reference
    /// vectors need it.
    pub output_size: Option<(u32, u32)>,
}

impl Config {
    /// The defaults for frames of `layout`.
    pub fn new(layout: FrameLayout) -> Self {
        Self {
            layout,
            precision: Precision::default(),
            flow_scale: 1.0,
            static_guard: StaticGuard::default(),
            rounding: Rounding::default(),
            output_size: None,
        }
    }

    pub(super) fn frames(&self) -> Result<Frames> {
        let source = self.layout.clone();
        let round_up = |(w, h): (u32, u32)| (w.next_multiple_of(16), h.next_multiple_of(16));
        if let Some((width, height)) = self.output_size {
            if !width.is_multiple_of(16) || !height.is_multiple_of(16) {
                return Err(Error::Unsupported(format!("output size {width}x{height}: sides must be multiples of 16")));
            }
            let image = FrameLayout::new(source.format, width, height, source.color)?;
            return Ok(Frames { source, image, grid: (width, height), scaled: true });
        }
        if !(0.25..=1.0).contains(&self.flow_scale) {
            return Err(Error::Unsupported(format!("flow scale {}: must be 0.25 to 1", self.flow_scale)));
        }
        let scale = |side: u32| (f64::from(side) * self.flow_scale).ceil() as u32;
        let grid = round_up((scale(source.width), scale(source.height)));
        let scaled = self.flow_scale < 1.0;
        Ok(Frames { image: source.clone(), source, grid, scaled })
    }
}

/// Identity of a frame, unique in the process and never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FrameId(u64);

impl FrameId {
    /// A new identity.
    pub fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// A made frame under way; redeemed once by [`Interpolator::read`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    slot: usize,
    serial: u64,
}

#[derive(Debug)]
enum SlotState {
    Free,
    /// Part of a submit being recorded.
    Reserved,
    /// Made for `serial`, ready once the submission is done.
    Busy {
        serial: u64,
        submission: wgpu::SubmissionIndex,
        timed: bool,
    },
    /// Given up, its buffer still mapped by the submission.
    Stale(wgpu::SubmissionIndex),
}

struct Slot {
    timestep: Upload,
    readback: Readback,
    state: SlotState,
}

/// Everything one stream needs on the GPU, built once for a model, a format and a size.
///
/// Two frames are resident at a time. A frame costs one submit (`classic` graphs: one for several timesteps) and
/// creates no GPU object.
pub struct Interpolator {
    context: Context,
    config: Config,
    graph: Graph,
    storage: Storage,
    film: Option<Film>,
    plans: NetworkPlans,
    frames: Frames,
    staging: Vec<Upload>,
    next_staging: usize,
    /// Per resident frame: its identity, and the staging buffer its bytes still wait in.
    resident: [Option<(FrameId, Option<usize>)>; 2],
    newest: usize,
    /// The order of the resident frames, and whether the trunk has run for it.
    pair: Option<(usize, bool)>,
    slots: Vec<Slot>,
    serial: u64,
    timer: Option<Timer>,
    last_gpu_time: Option<Duration>,
}

impl Interpolator {
    /// Builds the network for `config` on `gpu`: compiles kernels, uploads weights, allocates every buffer.
    ///
    /// # Errors
    /// - [`Error::FrameTooLarge`] where the frame does not fit the adapter;
    /// - [`Error::Unsupported`] where `precision` asks for f16 that the adapter lacks, [`Error::ModelInvalid`] where f16
    ///   cannot hold the weights;
    /// - [`Error::WrongResults`] where the adapter does not draw the start-up test as the CPU does.
    ///
    /// With [`Precision::Auto`] the last two make it use f32 instead.
    pub fn new(gpu: Arc<Gpu>, weights: &Weights, config: Config) -> Result<Self> {
        let storage = Self::storage(&gpu, weights, config.precision)?;
        if config.precision == Precision::Auto && storage == Storage::F16 {
            return match Self::with_storage(gpu.clone(), weights, config.clone(), storage) {
                Err(error @ Error::WrongResults { .. }) => {
                    log::warn!("{error}; trying f32");
                    Self::with_storage(gpu, weights, config, Storage::F32)
                }
                result => result,
            };
        }
        Self::with_storage(gpu, weights, config, storage)
    }

    fn storage(gpu: &Gpu, weights: &Weights, precision: Precision) -> Result<Storage> {
        let storage = precision.storage(gpu)?;
        let beyond = if storage == Storage::F16 { weights.beyond_f16() } else { None };
        let Some((tensor, value)) = beyond else { return Ok(storage) };
        if precision == Precision::Auto {
            log::warn!("{}: tensor {tensor} holds {value}, beyond 16-bit floats; using f32", weights.name());
            return Ok(Storage::F32);
        }
        let reason = format!("tensor {tensor} holds {value}, which 16-bit floats cannot; use precision=f32");
        Err(Error::ModelInvalid { name: weights.name().into(), reason })
    }

    fn with_storage(gpu: Arc<Gpu>, weights: &Weights, config: Config, storage: Storage) -> Result<Self> {
        let frames = config.frames()?;
        Self::check_size(&gpu, &frames)?;
        let context = Context::new(gpu.clone());
        gpu.scoped(|| {
            let plans = NetworkPlans::new(&context, weights, &config, &frames, &frames, storage)?;
            selftest::check(&gpu, &plans, weights, &config, &frames, storage)?;
            let frame_bytes = frames.source.byte_size();
            let made_bytes = frames.image.byte_size();
            let staging = (0..STAGING).map(|_| Upload::new(&context, "frame upload", frame_bytes)).collect();
            let slot = |_| Slot {
                timestep: Upload::new(&context, "timestep upload", plans.timestep_bytes),
                readback: Readback::new(&context, "made frame", made_bytes + TIMES),
                state: SlotState::Free,
            };
            let slots = (0..MAX_BATCH).map(slot).collect();
            let timer = Timer::new(&context);
            Ok(Self {
                graph: weights.graph(),
                film: weights.film.clone(),
                storage,
                config: config.clone(),
                plans,
                frames: frames.clone(),
                staging,
                next_staging: 0,
                resident: [None; 2],
                newest: 0,
                pair: None,
                slots,
                serial: 0,
                timer,
                last_gpu_time: None,
                context: context.clone(),
            })
        })
    }

    fn check_size(gpu: &Gpu, frames: &Frames) -> Result<()> {
        let limits = gpu.limits();
        let (width, height) = (frames.source.width, frames.source.height);
        let allowed = limits.max_storage_buffer_binding_size.min(limits.max_buffer_size);
        let bytes = frames.source.byte_size().max(frames.image.byte_size());
        let guard = u64::from(frames.image.width) * u64::from(frames.image.height) * 4;
        let needed = bytes.max(guard);
        if needed > allowed {
            let reason = format!("a buffer of {needed} bytes is needed, {allowed} are allowed");
            return Err(Error::FrameTooLarge { width, height, adapter: gpu.adapter_name().into(), reason });
        }
        Ok(())
    }

    /// Whether the frame is on the GPU (or on its way).
    pub fn is_resident(&self, id: FrameId) -> bool {
        self.find(id).is_some()
    }

    fn find(&self, id: FrameId) -> Option<usize> {
        self.resident.iter().position(|r| r.is_some_and(|(i, _)| i == id))
    }

    /// Takes a copy of the frame's planes for the GPU, in place of the resident frame that came earlier. The copy
    /// travels with the next submit.
    pub fn upload(&mut self, id: FrameId, planes: &[PlaneRef<'_>]) -> Result<()> {
        if self.is_resident(id) {
            return Ok(());
        }
        let target = 1 - self.newest;
        let staging = self.next_staging;
        let layout = &self.frames.source;
        let mut packed = Ok(());
        self.staging[staging].write(|view| {
            packed = layout.pack(planes, |offset, bytes| {
                view.slice(offset..offset + bytes.len()).copy_from_slice(bytes);
            });
        })?;
        packed?;
        self.next_staging = (staging + 1) % STAGING;
        self.resident[target] = Some((id, Some(staging)));
        self.newest = target;
        self.pair = None;
        Counters::add(&self.context.counters.bytes_uploaded, layout.byte_size());
        Ok(())
    }

    /// Chooses the pair of resident frames to make frames between; `a` is the earlier one.
    pub fn set_pair(&mut self, a: FrameId, b: FrameId) -> Result<()> {
        match (self.find(a), self.find(b)) {
            (Some(first), Some(second)) if first != second => {
                if self.pair.is_none_or(|(order, _)| order != first) {
                    self.pair = Some((first, false));
                }
                Ok(())
            }
            _ => Err(Error::Usage("the frames of a pair must be two resident frames".into())),
        }
    }

    /// How many timesteps belong in one submit: all for `classic`, whose graph runs anew for each anyway; one for the
    /// factored graphs, so that the first made frame is ready early.
    pub fn batch_size(&self) -> usize {
        if self.graph == Graph::Classic { MAX_BATCH } else { 1 }
    }

    /// How many more frames can be put under way.
    pub fn free_slots(&self) -> usize {
        self.slots.iter().filter(|slot| !matches!(slot.state, SlotState::Busy { .. })).count()
    }

    /// Starts one made frame for each of `ts` (each between 0 and 1) in one submit, without waiting, and appends
    /// their tickets. After an error of the GPU the interpolator must be built anew.
    pub fn submit(&mut self, ts: &[f64], tickets: &mut Vec<Ticket>) -> Result<()> {
        let Some((pair, trunk_done)) = self.pair else {
            return Err(Error::Usage("no pair was chosen".into()));
        };
        if ts.is_empty() || ts.len() > self.free_slots() {
            return Err(Error::Usage(format!("{} timesteps for {} free slots", ts.len(), self.free_slots())));
        }
        if let Some(t) = ts.iter().find(|t| !(0.0..=1.0).contains(*t)) {
            return Err(Error::Usage(format!("timestep {t} is not between 0 and 1")));
        }
        let first = tickets.len();
        let gpu = self.context.gpu.clone();
        let submitted = gpu.scoped(|| self.record_and_submit(pair, !trunk_done, ts, tickets));
        if submitted.is_err() {
            tickets.truncate(first);
        }
        submitted
    }

    fn record_and_submit(&mut self, pair: usize, trunk: bool, ts: &[f64], tickets: &mut Vec<Ticket>) -> Result<()> {
        let gpu = self.context.gpu.clone();
        let mut encoder = gpu.device().create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        self.record_uploads(&mut encoder);
        let trunk = trunk && !self.plans.trunk.is_empty();
        if trunk {
            self.record_plan(&mut encoder, &self.plans.trunk, pair, true, false);
        }
        let frame_bytes = self.frames.image.byte_size();
        let first = tickets.len();
        for (index, &t) in ts.iter().enumerate() {
            let is_last = index + 1 == ts.len();
            let slot = self.take_slot()?;
            self.write_timestep(slot, t)?;
            self.slots[slot].timestep.record(&mut encoder, &self.plans.timestep, self.plans.timestep_bytes);
            self.record_plan(&mut encoder, &self.plans.head, pair, index == 0 && !trunk, is_last);
            let readback = &self.slots[slot].readback;
            readback.record(&mut encoder, &self.plans.buffers.made, 0, frame_bytes);
            if let (true, Some(timer)) = (is_last, &self.timer) {
                timer.record(&mut encoder, readback, frame_bytes);
            }
            readback.map_on_submit(&encoder);
            self.serial += 1;
            tickets.push(Ticket { slot, serial: self.serial });
        }
        let submission = gpu.queue().submit([encoder.finish()]);
        Counters::add(&self.context.counters.submits, 1);
        let last = tickets.len() - 1;
        for (index, ticket) in tickets.iter().enumerate().skip(first) {
            self.slots[ticket.slot].state = SlotState::Busy {
                serial: ticket.serial,
                submission: submission.clone(),
                timed: index == last && self.timer.is_some(),
            };
        }
        self.pair = Some((pair, true));
        Ok(())
    }

    fn record_uploads(&mut self, encoder: &mut wgpu::CommandEncoder) {
        for (target, resident) in self.plans.buffers.frames.iter().zip(&mut self.resident) {
            if let Some((_, waiting)) = resident
                && let Some(staging) = waiting.take()
            {
                self.staging[staging].record(encoder, target, self.frames.source.byte_size());
            }
        }
    }

    /// Records a plan as one pass, with which the measured time begins or ends.
    fn record_plan(&self, encoder: &mut wgpu::CommandEncoder, plan: &Plan, pair: usize, begins: bool, ends: bool) {
        let timestamp_writes = self.timer.as_ref().and_then(|timer| timer.writes(begins, ends));
        let mut pass =
            encoder.begin_compute_pass(&wgpu::ComputePassDescriptor { label: Some("interpolate"), timestamp_writes });
        plan.record(&mut pass, pair);
    }

    fn take_slot(&mut self) -> Result<usize> {
        let free = |slot: &Slot| matches!(slot.state, SlotState::Free | SlotState::Stale(_));
        let index = self.slots.iter().position(free).ok_or_else(|| Error::Usage("no free slot".into()))?;
        let slot = &mut self.slots[index];
        if let SlotState::Stale(submission) = std::mem::replace(&mut slot.state, SlotState::Reserved) {
            slot.readback.discard(&submission)?;
        }
        Ok(index)
    }

    fn write_timestep(&self, slot: usize, t: f64) -> Result<()> {
        let t = t as f32;
        let film = self.film.as_ref().map(|f| film_params(&f.w0, &f.b0, &f.w2, &f.b2, t));
        self.slots[slot].timestep.write(|view| {
            view.slice(..16).copy_from_slice(bytemuck::bytes_of(&[t, 0.0, 0.0, 0.0]));
            if let Some(params) = &film {
                let bytes: &[u8] = bytemuck::cast_slice(params);
                view.slice(16..16 + bytes.len()).copy_from_slice(bytes);
            }
        })
    }

    /// Waits for a made frame and copies it into `planes`; bytes between rows stay as they are.
    pub fn read(&mut self, ticket: Ticket, planes: &mut [PlaneMut<'_>]) -> Result<()> {
        let slot = &mut self.slots[ticket.slot];
        let (submission, timed) = match &slot.state {
            SlotState::Busy { serial, submission, timed } if *serial == ticket.serial => (submission.clone(), *timed),
            _ => return Err(Error::Usage("the made frame was read or given up already".into())),
        };
        let layout = &self.frames.image;
        let frame_bytes = layout.byte_size() as usize;
        let (copied, time) = slot.readback.read(&submission, |bytes| {
            let timer = self.timer.as_ref().filter(|_| timed);
            (layout.unpack(bytes, planes), timer.and_then(|timer| timer.read(&bytes[frame_bytes..])))
        })?;
        slot.state = SlotState::Free;
        self.last_gpu_time = time.or(self.last_gpu_time);
        Counters::add(&self.context.counters.bytes_read_back, layout.byte_size());
        copied
    }

    /// Forgets the resident frames and gives up made frames under way.
    pub fn reset(&mut self) {
        self.resident = [None; 2];
        self.pair = None;
        for slot in &mut self.slots {
            if let SlotState::Busy { submission, .. } = &slot.state {
                slot.state = SlotState::Stale(submission.clone());
            }
        }
    }

    /// What was done so far.
    pub fn counters(&self) -> CountersSnapshot {
        self.context.counters.snapshot()
    }

    /// GPU time of the latest submit whose last frame was read; `None` where the adapter cannot tell.
    pub fn last_gpu_time(&self) -> Option<Duration> {
        self.last_gpu_time
    }

    /// Name of the adapter.
    pub fn adapter_name(&self) -> &str {
        self.context.gpu.adapter_name()
    }

    /// The device it runs on.
    pub fn gpu(&self) -> &Arc<Gpu> {
        &self.context.gpu
    }

    /// Which graph the model is.
    pub fn graph(&self) -> Graph {
        self.graph
    }

    /// `f16` or `f32`.
    pub fn storage_name(&self) -> &'static str {
        self.storage.name()
    }

    /// The convolution with the most work, and the kernel and tile chosen for it.
    pub fn kernel_name(&self) -> &str {
        &self.plans.busiest
    }

    /// What it was built for.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// GPU time of every dispatch, once-per-pair ones and once-per-frame ones; `None` where the adapter has no
    /// timestamps. A pair must have been chosen and a frame submitted. For measuring, not for the data path.
    pub fn profile(&mut self, repeats: u32, burst: u32) -> Result<Option<[Vec<StepTime>; 2]>> {
        let Some((pair, true)) = self.pair else {
            return Err(Error::Usage("no frame was submitted for a pair".into()));
        };
        let trunk = profile(&self.context, &self.plans.trunk, pair, repeats, burst)?;
        let head = profile(&self.context, &self.plans.head, pair, repeats, burst)?;
        Ok(trunk.zip(head).map(|(trunk, head)| [trunk, head]))
    }
}
