// SPDX-License-Identifier: MIT OR Apache-2.0
//! A detector for one stream of frames: from a frame's planes to candidates, on a GPU or on the CPU.

use std::sync::Arc;
use std::time::Duration;

use super::graph::{Input, Network};
use super::postprocess::{Candidate, candidates};
use super::preprocess::{Placement, Preprocessor, Rect, RgbImage};
use super::reference::{Reference, check_size};
use super::weights::Weights;
use crate::error::{Error, Result};
use crate::gpu::frame::{FrameLayout, PlaneRef};
use crate::gpu::profile::{StepTime, profile};
use crate::gpu::timer::{TIMES, Timer};
use crate::gpu::transfer::{Readback, Upload};
use crate::gpu::{Context, Counters, CountersSnapshot, Gpu, PlanBuilder};
use crate::nn::cpu::frame::FrameInfo;
use crate::nn::cpu::{Tensor, sigmoid};
use crate::nn::recorder::{MemoryUse, Value};
use crate::nn::select::Choice;
use crate::nn::{Precision, Storage};

/// Where the network runs.
#[derive(Debug, Clone)]
pub enum Backend {
    /// In plain Rust, in f32: seconds a frame at full size.
    Cpu,
    Gpu(Arc<Gpu>),
}

/// What a [`Detector`] is built for.
#[derive(Debug, Clone)]
pub struct DetectorConfig {
    /// The frames that come in.
    pub layout: FrameLayout,
    /// The part of them that is looked at, such as [`Rect::whole`].
    pub rect: Rect,
    /// The checkpoint's preprocessing under the user's settings.
    pub preprocessor: Preprocessor,
    /// Of activations and weights on a GPU.
    pub precision: Precision,
}

/// What was found in a frame.
#[derive(Debug, Clone, PartialEq)]
pub struct Analysis {
    /// As many as the network has queries, the best first.
    pub candidates: Vec<Candidate>,
    /// Where the looked-at part lies in the network's input; [`Placement::to_frame`] turns boxes into frame pixels.
    pub placement: Placement,
    /// Time on the GPU, where it can tell.
    pub gpu_time: Option<Duration>,
}

/// Everything one stream needs, built once for a model, a format, a size and a part of the frame.
pub struct Detector {
    placement: Placement,
    kind: Kind,
}

enum Kind {
    Cpu(Box<CpuDetector>),
    Gpu(Box<GpuDetector>),
}

impl Detector {
    /// Builds the network: on a GPU compiles kernels, packs and uploads weights, allocates every buffer.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where the input does not fit the network, the network the adapter, or the precision the
    /// adapter; [`Error::FrameTooLarge`] where the frame does not fit the adapter; what the GPU reports.
    pub fn new(weights: Arc<Weights>, backend: &Backend, config: DetectorConfig) -> Result<Self> {
        Self::build(weights, backend, config, false)
    }

    /// As [`Detector::new`], and [`Detector::observe`] works: the tensors it returns then share no memory.
    #[doc(hidden)]
    pub fn observed(weights: Arc<Weights>, backend: &Backend, config: DetectorConfig) -> Result<Self> {
        Self::build(weights, backend, config, true)
    }

    fn build(weights: Arc<Weights>, backend: &Backend, config: DetectorConfig, observed: bool) -> Result<Self> {
        let Rect { x, y, width, height } = config.rect;
        let inside = |start: usize, length: usize, limit: u32| {
            length > 0 && start.checked_add(length).is_some_and(|end| end <= limit as usize)
        };
        if !inside(x, width, config.layout.width) || !inside(y, height, config.layout.height) {
            let (w, h) = (config.layout.width, config.layout.height);
            return Err(Error::Usage(format!("{:?} is no part of a {w}x{h} frame", config.rect)));
        }
        let placement = config.preprocessor.placement(config.rect)?;
        check_size(&weights.config, placement.canvas)?;
        let kind = match backend {
            Backend::Cpu => Kind::Cpu(Box::new(CpuDetector { weights, config })),
            Backend::Gpu(gpu) => {
                Kind::Gpu(Box::new(GpuDetector::new(gpu.clone(), &weights, &config, &placement, observed)?))
            }
        };
        Ok(Self { placement, kind })
    }

    /// Looks at a frame of the layout; waits for the result. After an error of the GPU the detector must be built anew.
    ///
    /// # Errors
    /// [`Error::Usage`] where `planes` are not those of the layout; what the GPU reports.
    pub fn analyse(&mut self, planes: &[PlaneRef<'_>]) -> Result<Analysis> {
        let (candidates, gpu_time) = match &mut self.kind {
            Kind::Cpu(cpu) => (cpu.analyse(planes, &self.placement)?, None),
            Kind::Gpu(gpu) => gpu.analyse(planes)?,
        };
        Ok(Analysis { candidates, placement: self.placement.clone(), gpu_time })
    }

    /// Where the looked-at part lies in the network's input.
    pub fn placement(&self) -> &Placement {
        &self.placement
    }

    /// What was done on the GPU so far; zeros on the CPU.
    pub fn counters(&self) -> CountersSnapshot {
        match &self.kind {
            Kind::Cpu(_) => Counters::default().snapshot(),
            Kind::Gpu(gpu) => gpu.context.counters.snapshot(),
        }
    }

    /// Name of the adapter; `cpu` on the CPU.
    pub fn adapter_name(&self) -> &str {
        match &self.kind {
            Kind::Cpu(_) => "cpu",
            Kind::Gpu(gpu) => gpu.context.gpu.adapter_name(),
        }
    }

    /// `f16` or `f32`.
    pub fn storage_name(&self) -> &'static str {
        match &self.kind {
            Kind::Cpu(_) => Storage::F32.name(),
            Kind::Gpu(gpu) => gpu.storage.name(),
        }
    }

    /// Memory of the intermediate tensors on the GPU; `None` on the CPU.
    pub fn memory(&self) -> Option<MemoryUse> {
        match &self.kind {
            Kind::Cpu(_) => None,
            Kind::Gpu(gpu) => Some(gpu.network.memory),
        }
    }

    /// GPU time of every dispatch; `None` on the CPU and where the adapter has no timestamps. A frame must have been
    /// analysed. For measuring, not for the data path.
    pub fn profile(&mut self, repeats: u32, burst: u32) -> Result<Option<Vec<StepTime>>> {
        match &self.kind {
            Kind::Cpu(_) => Ok(None),
            Kind::Gpu(gpu) => profile(&gpu.context, &gpu.network.plan, 0, repeats, burst),
        }
    }

    /// The intermediate tensors of the latest frame by the names of [`super::Forward`]'s fields, for detectors made by
    /// [`Detector::observed`] on a GPU.
    #[doc(hidden)]
    pub fn observe(&self) -> Result<Vec<(String, Tensor)>> {
        let Kind::Gpu(gpu) = &self.kind else {
            return Ok(Vec::new());
        };
        let nothing = PlanBuilder::new(&gpu.context).build()?;
        let tensors = gpu.network.observed.iter().map(|(name, value, buffer)| {
            let bytes = nothing.run_once(&gpu.context, 0, buffer)?;
            Ok((name.clone(), unpack(value, &bytes)))
        });
        tensors.collect()
    }
}

/// The tensor in the bytes of its buffer.
fn unpack(value: &Value, bytes: &[u8]) -> Tensor {
    let values = value.storage.decode(bytes);
    let (width, height) = (value.size.0 as usize, value.size.1 as usize);
    let (lanes, start) = (value.slice.lanes, value.slice.start as usize);
    Tensor::from_fn(width, height, value.channels, |x, y, out| {
        let at = (start + y * width + x) * lanes.stride() + lanes.first;
        out.copy_from_slice(&values[at..at + value.channels]);
    })
}

struct CpuDetector {
    weights: Arc<Weights>,
    config: DetectorConfig,
}

impl CpuDetector {
    fn analyse(&self, planes: &[PlaneRef<'_>], placement: &Placement) -> Result<Vec<Candidate>> {
        let layout = &self.config.layout;
        let info = FrameInfo {
            format: layout.format,
            width: layout.width as usize,
            height: layout.height as usize,
            color: layout.color,
        };
        let image = RgbImage::from_frame(&info, planes, placement.source)?;
        let pixels = self.config.preprocessor.apply(&image, placement)?;
        let forward = Reference::new(&self.weights).forward(&pixels)?;
        Ok(candidates(forward.final_logits(), forward.final_boxes()))
    }
}

struct GpuDetector {
    context: Context,
    layout: FrameLayout,
    storage: Storage,
    network: Network,
    upload: Upload,
    readback: Readback,
    candidate_bytes: u64,
    timer: Option<Timer>,
}

impl GpuDetector {
    fn new(
        gpu: Arc<Gpu>,
        weights: &Weights,
        config: &DetectorConfig,
        placement: &Placement,
        observed: bool,
    ) -> Result<Self> {
        let storage = config.precision.storage(&gpu)?;
        let layout = &config.layout;
        let limits = gpu.limits();
        let (needed, allowed) =
            (layout.byte_size(), limits.max_storage_buffer_binding_size.min(limits.max_buffer_size));
        if needed > allowed {
            return Err(Error::FrameTooLarge {
                width: layout.width,
                height: layout.height,
                adapter: gpu.adapter_name().into(),
                reason: format!("a buffer of {needed} bytes is needed, {allowed} are allowed"),
            });
        }
        let context = Context::new(gpu.clone());
        gpu.scoped(|| {
            let input = Input { layout, placement, preprocessor: &config.preprocessor, storage, observed };
            let network = Network::new(&context, weights, &input)?;
            let candidate_bytes = weights.config.decoder.queries as u64 * size_of::<Choice>() as u64;
            Ok(Self {
                upload: Upload::new(&context, "frame upload", layout.byte_size()),
                readback: Readback::new(&context, "candidates", candidate_bytes + TIMES),
                timer: Timer::new(&context),
                network,
                layout: layout.clone(),
                storage,
                candidate_bytes,
                context: context.clone(),
            })
        })
    }

    fn analyse(&mut self, planes: &[PlaneRef<'_>]) -> Result<(Vec<Candidate>, Option<Duration>)> {
        let gpu = self.context.gpu.clone();
        let mut packed = Ok(());
        self.upload.write(|view| {
            packed = self.layout.pack(planes, |offset, bytes| {
                view.slice(offset..offset + bytes.len()).copy_from_slice(bytes);
            });
        })?;
        packed?;
        gpu.scoped(|| {
            let mut encoder = gpu.device().create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
            self.upload.record(&mut encoder, &self.network.frame, self.layout.byte_size());
            let timestamp_writes = self.timer.as_ref().and_then(|timer| timer.writes(true, true));
            let pass = wgpu::ComputePassDescriptor { label: Some("detect"), timestamp_writes };
            self.network.plan.record(&mut encoder.begin_compute_pass(&pass), 0);
            self.readback.record(&mut encoder, &self.network.candidates, 0, self.candidate_bytes);
            if let Some(timer) = &self.timer {
                timer.record(&mut encoder, &self.readback, self.candidate_bytes);
            }
            self.readback.map_on_submit(&encoder);
            let submission = gpu.queue().submit([encoder.finish()]);
            let counters = &self.context.counters;
            Counters::add(&counters.submits, 1);
            Counters::add(&counters.bytes_uploaded, self.layout.byte_size());
            let result = self.readback.read(&submission, |bytes| {
                let (choices, times) = bytes.split_at(self.candidate_bytes as usize);
                let choices: Vec<Choice> = bytemuck::pod_collect_to_vec(choices);
                let time = self.timer.as_ref().and_then(|timer| timer.read(times));
                (choices.iter().map(candidate).collect(), time)
            })?;
            Counters::add(&counters.bytes_read_back, self.candidate_bytes);
            Ok(result)
        })
    }
}

fn candidate(choice: &Choice) -> Candidate {
    Candidate {
        query: choice.query as usize,
        label: choice.label as usize,
        score: sigmoid(choice.logit),
        bbox: choice.bbox,
    }
}
