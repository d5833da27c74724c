// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plans: a list of dispatches whose pipelines, buffers and bind groups are made once and replayed for every frame.

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::device::{Gpu, Pipeline};
use super::transfer::Readback;
use crate::error::{Error, Result};

/// What was done on behalf of one user of the GPU. All counts only grow.
#[derive(Debug, Default)]
pub struct Counters {
    pub(crate) submits: AtomicU64,
    pub(crate) objects_created: AtomicU64,
    pub(crate) bytes_uploaded: AtomicU64,
    pub(crate) bytes_read_back: AtomicU64,
}

/// [`Counters`] at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountersSnapshot {
    /// Queue submissions.
    pub submits: u64,
    /// Buffers, bind groups, pipelines and query sets.
    pub objects_created: u64,
    /// Bytes of frames copied to the GPU.
    pub bytes_uploaded: u64,
    /// Bytes of frames copied from the GPU.
    pub bytes_read_back: u64,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64, amount: u64) {
        counter.fetch_add(amount, Ordering::Relaxed);
    }

    /// The counts now.
    pub fn snapshot(&self) -> CountersSnapshot {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        CountersSnapshot {
            submits: get(&self.submits),
            objects_created: get(&self.objects_created),
            bytes_uploaded: get(&self.bytes_uploaded),
            bytes_read_back: get(&self.bytes_read_back),
        }
    }
}

/// A device and the counters of the one who uses it; every GPU object is created through it.
#[derive(Debug, Clone)]
pub struct Context {
    pub gpu: Arc<Gpu>,
    pub counters: Arc<Counters>,
}

impl Context {
    pub fn new(gpu: Arc<Gpu>) -> Self {
        Self { gpu, counters: Arc::default() }
    }

    pub(crate) fn created(&self) {
        Counters::add(&self.counters.objects_created, 1);
    }

    /// A buffer of `size` bytes (rounded up to 4; at least 16, so that an empty tensor can be bound).
    pub fn buffer(&self, label: &str, size: u64, usage: wgpu::BufferUsages) -> wgpu::Buffer {
        self.created();
        let size = size.next_multiple_of(4).max(16);
        self.gpu.device().create_buffer(&wgpu::BufferDescriptor {
            label: Some(label),
            size,
            usage,
            mapped_at_creation: false,
        })
    }

    /// A storage buffer kernels read and write.
    pub fn storage(&self, label: &str, size: u64) -> wgpu::Buffer {
        use wgpu::BufferUsages as Usage;
        self.buffer(label, size, Usage::STORAGE | Usage::COPY_SRC | Usage::COPY_DST)
    }

    /// A storage or uniform buffer holding `contents`.
    pub fn constant(&self, label: &str, contents: &[u8], usage: wgpu::BufferUsages) -> wgpu::Buffer {
        self.created();
        let size = (contents.len() as u64).next_multiple_of(4).max(16);
        let buffer = self.gpu.device().create_buffer(&wgpu::BufferDescriptor {
            label: Some(label),
            size,
            usage,
            mapped_at_creation: true,
        });
        // Mapping at creation fails only where the allocation did; the error scope around every build reports that.
        if let Ok(mut view) = buffer.get_mapped_range_mut(..) {
            view.slice(..contents.len()).copy_from_slice(contents);
        }
        buffer.unmap();
        buffer
    }
}

/// How a kernel uses one binding of group 0; the position in the list is the binding's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binding {
    Uniform,
    Read,
    Write,
}

/// A rendered shader: complete WGSL whose entry point is `main`.
#[derive(Debug, Clone)]
pub struct Kernel {
    pub label: String,
    /// Name of the template under `shaders/` it was rendered from.
    pub template: String,
    pub wgsl: String,
    pub bindings: Vec<Binding>,
}

/// What a step's bind group depends on, beside the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vary {
    /// Nothing.
    None,
    /// Which of the two resident frames comes first.
    Pair,
}

/// Number of frame orders a plan can be replayed for.
pub const PAIRS: usize = 2;

struct Step {
    label: String,
    flops: u64,
    pipeline: Arc<Pipeline>,
    groups: Vec<wgpu::BindGroup>,
    vary: Vary,
    workgroups: [u32; 3],
}

/// Steps to replay per frame.
pub struct Plan {
    steps: Vec<Step>,
    digest: u64,
}

impl Plan {
    /// Number of steps.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// A number that plans of the same kernels in the same order share.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// The label of step `index`.
    pub fn label(&self, index: usize) -> &str {
        &self.steps[index].label
    }

    /// Multiplications and additions of step `index`, where its operation counts them.
    pub fn flops(&self, index: usize) -> u64 {
        self.steps[index].flops
    }

    /// Records every step into `pass`; wgpu orders dependent dispatches.
    pub fn record(&self, pass: &mut wgpu::ComputePass<'_>, pair: usize) {
        for index in 0..self.steps.len() {
            self.record_step(pass, index, pair);
        }
    }

    /// Runs every step once, waits, and returns the bytes of `buffer`: for checks and tests, not for the data path.
    pub fn run_once(&self, context: &Context, pair: usize, buffer: &wgpu::Buffer) -> Result<Vec<u8>> {
        let gpu = &context.gpu;
        gpu.scoped(|| {
            let readback = Readback::new(context, "check", buffer.size());
            let mut encoder = gpu.device().create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
            self.record(&mut encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default()), pair);
            readback.record(&mut encoder, buffer, 0, buffer.size());
            readback.map_on_submit(&encoder);
            let submission = gpu.queue().submit([encoder.finish()]);
            readback.read(&submission, <[u8]>::to_vec)
        })
    }

    /// Records one step.
    pub fn record_step(&self, pass: &mut wgpu::ComputePass<'_>, index: usize, pair: usize) {
        let step = &self.steps[index];
        let group = match step.vary {
            Vary::None => 0,
            Vary::Pair => pair,
        };
        let [x, y, z] = step.workgroups;
        pass.set_pipeline(&step.pipeline.pipeline);
        pass.set_bind_group(0, &step.groups[group], &[]);
        pass.dispatch_workgroups(x, y, z);
    }
}

struct Pending {
    kernel: Kernel,
    flops: u64,
    buffers: Vec<Vec<wgpu::Buffer>>,
    vary: Vary,
    workgroups: [u32; 3],
}

/// Collects steps; [`PlanBuilder::build`] compiles all their kernels at once, in parallel.
pub struct PlanBuilder {
    context: Context,
    pending: Vec<Pending>,
}

impl PlanBuilder {
    pub fn new(context: &Context) -> Self {
        Self { context: context.clone(), pending: Vec::new() }
    }

    /// A uniform buffer for a step of this plan.
    pub fn uniform(&self, label: &str, contents: &[u8]) -> wgpu::Buffer {
        self.context.constant(label, contents, wgpu::BufferUsages::UNIFORM)
    }

    /// Adds a dispatch of `workgroups`; `buffers(pair)` lists the bindings.
    pub fn step(
        &mut self,
        kernel: Kernel,
        workgroups: [u32; 3],
        vary: Vary,
        buffers: impl Fn(usize) -> Vec<wgpu::Buffer>,
    ) {
        let buffers = match vary {
            Vary::None => vec![buffers(0)],
            Vary::Pair => (0..PAIRS).map(buffers).collect(),
        };
        self.pending.push(Pending { kernel, flops: 0, buffers, vary, workgroups });
    }

    /// Says how many multiplications and additions the step added last does.
    pub fn flops(&mut self, flops: u64) {
        if let Some(step) = self.pending.last_mut() {
            step.flops = flops;
        }
    }

    /// Compiles and binds everything. Fails where a dispatch or a binding exceeds the adapter's limits.
    pub fn build(self) -> Result<Plan> {
        let Self { context, pending } = self;
        let limits = context.gpu.limits();
        for step in &pending {
            let label = &step.kernel.label;
            if step.workgroups.iter().any(|&n| n > limits.max_compute_workgroups_per_dimension) {
                return Err(Error::Unsupported(format!(
                    "{label} needs {:?} workgroups, the adapter allows {} a dimension",
                    step.workgroups, limits.max_compute_workgroups_per_dimension
                )));
            }
            for group in &step.buffers {
                for (buffer, binding) in group.iter().zip(&step.kernel.bindings) {
                    let limit = match binding {
                        Binding::Uniform => limits.max_uniform_buffer_binding_size,
                        Binding::Read | Binding::Write => limits.max_storage_buffer_binding_size,
                    };
                    if buffer.size() > limit {
                        return Err(Error::Unsupported(format!(
                            "{label} needs a buffer of {} bytes, the adapter allows {limit}",
                            buffer.size()
                        )));
                    }
                }
            }
        }
        let kernels: Vec<_> = pending.iter().map(|step| step.kernel.clone()).collect();
        let mut hasher = std::hash::DefaultHasher::new();
        kernels.iter().for_each(|kernel| kernel.wgsl.hash(&mut hasher));
        let digest = hasher.finish();
        let pipelines = context.gpu.compile(&kernels)?;
        let steps = pending.into_iter().zip(pipelines).map(|(step, pipeline)| {
            context.created();
            let groups = step.buffers.iter().map(|buffers| {
                context.created();
                let entries: Vec<_> = buffers
                    .iter()
                    .zip(0..)
                    .map(|(buffer, binding)| wgpu::BindGroupEntry { binding, resource: buffer.as_entire_binding() })
                    .collect();
                context.gpu.device().create_bind_group(&wgpu::BindGroupDescriptor {
                    label: Some(&step.kernel.label),
                    layout: &pipeline.layout,
                    entries: &entries,
                })
            });
            let groups = groups.collect();
            Step {
                label: step.kernel.label,
                flops: step.flops,
                pipeline,
                groups,
                vary: step.vary,
                workgroups: step.workgroups,
            }
        });
        let steps = steps.collect();
        // What constants were made with is written by the next submit, and held until then: if the plan is dropped
        // before its first frame, that must not wait for somebody else's.
        context.gpu.queue().submit([]);
        Ok(Plan { steps, digest })
    }
}
