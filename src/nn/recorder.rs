// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records the operations of a network first and builds them afterwards: only then is known how long each intermediate
//! tensor is needed, and all kernels can be chosen and all weights packed at once, on several threads.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ops::Index;

use rayon::prelude::*;

use super::convolve::{
    Activation, Convolution, ConvolutionBuffers, ConvolutionWeights, Operand, Residual, Slice, Tile,
};
use super::frames::tensor_bytes;
use super::memory::{self, Lifetime};
use super::{Lanes, Storage, groups_of_four};
use crate::error::{Error, Result};
use crate::gpu::{Context, Plan, PlanBuilder};

/// A buffer to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BufferId(usize);

/// A tensor or a part of one, in a buffer to be.
#[derive(Debug, Clone, Copy)]
pub struct Value {
    pub buffer: BufferId,
    /// Width and height.
    pub size: (u32, u32),
    pub channels: usize,
    pub slice: Slice,
    pub storage: Storage,
}

impl Value {
    /// Width·height.
    pub fn pixels(&self) -> u32 {
        self.size.0 * self.size.1
    }

    /// The pixels as a sequence.
    pub fn tokens(self) -> Self {
        Self { size: (self.pixels(), 1), ..self }
    }

    /// `channels` of its channels, from `first` (a multiple of four) on.
    pub fn part(self, first: usize, channels: usize) -> Self {
        let lanes = Lanes { first: self.slice.lanes.first + first, ..self.slice.lanes };
        Self { channels, slice: Slice { lanes, ..self.slice }, ..self }
    }

    /// A map of `size` that lies in its pixels from `start` on.
    pub fn rows(self, start: u32, size: (u32, u32)) -> Self {
        Self { size, slice: Slice { start: self.slice.start + start, ..self.slice }, ..self }
    }

    fn is_whole(&self) -> bool {
        self.slice == Slice::all(self.channels)
    }
}

/// The weights of a convolution or a linear layer; `weight` is `[cout][cin][kernel][kernel]`.
#[derive(Debug, Clone)]
pub struct Layer<'w> {
    pub cin: usize,
    pub cout: usize,
    pub kernel: u32,
    pub stride: u32,
    pub weight: Cow<'w, [f32]>,
    pub bias: Cow<'w, [f32]>,
}

impl<'w> Layer<'w> {
    /// 1×1 layers of the same input as one: the channels of each begin at a multiple of four (the list returned).
    pub fn stacked(layers: &[Layer<'_>]) -> (Self, Vec<usize>) {
        let cin = layers.first().map_or(0, |layer| layer.cin);
        let (mut weight, mut bias, mut firsts) = (Vec::new(), Vec::new(), Vec::new());
        for layer in layers {
            let first = bias.len().next_multiple_of(4);
            weight.resize(first * cin, 0.0);
            bias.resize(first, 0.0);
            firsts.push(first);
            weight.extend_from_slice(&layer.weight);
            bias.extend_from_slice(&layer.bias);
        }
        let layer = Self { cin, cout: bias.len(), kernel: 1, stride: 1, weight: weight.into(), bias: bias.into() };
        (layer, firsts)
    }

    /// A 1×1 layer on `count` of its inputs, from `first` on.
    pub fn columns(&self, first: usize, count: usize) -> Self {
        let rows = self.weight.chunks_exact(self.cin);
        let weight: Vec<f32> = rows.flat_map(|row| row[first..first + count].iter().copied()).collect();
        Self { cin: count, weight: weight.into(), bias: self.bias.clone().into_owned().into(), ..*self }
    }

    /// A 1×1 layer whose inputs from `at` on come `gap` channels later.
    pub fn spread(&self, at: usize, gap: usize) -> Self {
        let rows = self.weight.chunks_exact(self.cin);
        let zeros = std::iter::repeat_n(0.0, gap);
        let spread = |row: &[f32]| [&row[..at], &zeros.clone().collect::<Vec<_>>(), &row[at..]].concat();
        let weight: Vec<f32> = rows.flat_map(spread).collect();
        Self { cin: self.cin + gap, weight: weight.into(), bias: self.bias.clone().into_owned().into(), ..*self }
    }
}

/// Where the result of an operation goes.
#[derive(Debug, Clone, Copy)]
pub enum Target {
    /// A new tensor.
    New(Storage),
    /// This one.
    Into(Value),
}

/// The buffers of a built network, by what they were recorded as.
#[derive(Debug, Clone)]
pub struct Buffers(Vec<wgpu::Buffer>);

impl Index<BufferId> for Buffers {
    type Output = wgpu::Buffer;

    fn index(&self, id: BufferId) -> &wgpu::Buffer {
        &self.0[id.0]
    }
}

type Emit<'w> = Box<dyn FnOnce(&mut PlanBuilder, &Buffers) -> Result<()> + 'w>;

struct Convolve<'w> {
    spec: Convolution,
    layer: Layer<'w>,
    src: Value,
    dst: Value,
    residual: Option<Value>,
}

enum Operation<'w> {
    Convolution(Box<Convolve<'w>>),
    Other(Emit<'w>),
}

struct Step<'w> {
    label: String,
    operation: Operation<'w>,
}

enum Declared {
    /// Made by the build; its bytes, and the steps it is alive from and to.
    Planned {
        label: String,
        bytes: u64,
        alive: Option<(usize, usize)>,
        kept: bool,
    },
    Given(wgpu::Buffer),
}

/// How much memory a network's intermediate tensors take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryUse {
    pub tensors: usize,
    /// If each had its own buffer.
    pub tensor_bytes: u64,
    pub buffers: usize,
    pub buffer_bytes: u64,
}

/// The operations so far.
pub struct Recorder<'w> {
    context: Context,
    /// Of activations and weights, where nothing else is said.
    pub storage: Storage,
    declared: Vec<Declared>,
    steps: Vec<Step<'w>>,
}

impl<'w> Recorder<'w> {
    pub fn new(context: &Context, storage: Storage) -> Self {
        Self { context: context.clone(), storage, declared: Vec::new(), steps: Vec::new() }
    }

    pub fn context(&self) -> &Context {
        &self.context
    }

    fn declare(&mut self, declared: Declared) -> BufferId {
        self.declared.push(declared);
        BufferId(self.declared.len() - 1)
    }

    /// A buffer of `bytes` that operations write and read.
    pub fn buffer(&mut self, label: &str, bytes: u64) -> BufferId {
        self.declare(Declared::Planned { label: label.into(), bytes, alive: None, kept: false })
    }

    /// A buffer that is there already.
    pub fn given(&mut self, buffer: wgpu::Buffer) -> BufferId {
        self.declare(Declared::Given(buffer))
    }

    /// A new tensor.
    pub fn tensor(&mut self, label: &str, size: (u32, u32), channels: usize, storage: Storage) -> Value {
        let buffer = self.buffer(label, tensor_bytes(size, channels, storage));
        Value { buffer, size, channels, slice: Slice::all(channels), storage }
    }

    /// A tensor of constant values, pixel after pixel.
    pub fn constant(
        &mut self,
        label: &str,
        size: (u32, u32),
        channels: usize,
        storage: Storage,
        values: &[f32],
    ) -> Value {
        let padded = groups_of_four(channels) * 4;
        let mut all = vec![0.0; values.len() / channels * padded];
        for (to, from) in all.chunks_exact_mut(padded).zip(values.chunks_exact(channels)) {
            to[..channels].copy_from_slice(from);
        }
        let buffer = self.context.constant(label, &storage.encode(&all), wgpu::BufferUsages::STORAGE);
        Value { buffer: self.given(buffer), size, channels, slice: Slice::all(channels), storage }
    }

    /// Keeps what is in a buffer until the next run.
    pub fn keep(&mut self, id: BufferId) {
        if let Declared::Planned { kept, .. } = &mut self.declared[id.0] {
            *kept = true;
        }
    }

    fn touch(&mut self, id: BufferId) {
        let step = self.steps.len();
        if let Declared::Planned { alive, .. } = &mut self.declared[id.0] {
            *alive = Some((alive.map_or(step, |(first, _)| first), step));
        }
    }

    /// Records an operation that reads and writes buffers `uses`; `emit` adds its dispatches. Intermediate results of
    /// several dispatches must not lie in `uses`.
    pub fn operation(
        &mut self,
        label: &str,
        uses: &[BufferId],
        emit: impl FnOnce(&mut PlanBuilder, &Buffers) -> Result<()> + 'w,
    ) {
        uses.iter().for_each(|&id| self.touch(id));
        self.steps.push(Step { label: label.into(), operation: Operation::Other(Box::new(emit)) });
    }

    /// Records a convolution whose weights are in the recorder's storage if its input is, else in f32.
    pub fn convolve(
        &mut self,
        label: &str,
        layer: Layer<'w>,
        activation: Activation,
        src: Value,
        residual: Option<(Residual, Value)>,
        target: Target,
    ) -> Value {
        let size = |n: u32| n.div_ceil(layer.stride);
        let size = (size(src.size.0), size(src.size.1));
        let dst = match target {
            Target::New(storage) => self.tensor(label, size, layer.cout, storage),
            Target::Into(value) => value,
        };
        let (kind, residual) = residual.map_or((Residual::None, None), |(kind, value)| (kind, Some(value)));
        let spec = Convolution {
            stride: layer.stride,
            activation,
            residual: kind,
            sliced: [Some(src), Some(dst), residual].iter().flatten().any(|value| !value.is_whole()),
            input: src.storage,
            weights: src.storage,
            output: dst.storage,
            ..Convolution::new(layer.cin, layer.cout, layer.kernel, self.storage)
        };
        [Some(src), Some(dst), residual].into_iter().flatten().for_each(|value| self.touch(value.buffer));
        self.steps.push(Step {
            label: label.into(),
            operation: Operation::Convolution(Box::new(Convolve { spec, layer, src, dst, residual })),
        });
        dst
    }

    /// Chooses kernels, packs weights, plans the memory and builds the plan.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where the adapter cannot hold or run it.
    pub fn build(self) -> Result<(Plan, Buffers, MemoryUse)> {
        let Self { context, declared, steps, .. } = self;
        let chosen = choose_kernels(&context, &steps)?;
        let (buffers, memory) = allocate(&context, declared);
        let mut plan = PlanBuilder::new(&context);
        for (step, chosen) in steps.into_iter().zip(chosen) {
            match (step.operation, chosen) {
                (Operation::Convolution(convolve), Some((tile, constants))) => {
                    let Convolve { spec, src, dst, residual, .. } = *convolve;
                    let operand = |value: Value| Operand { buffer: &buffers[value.buffer], slice: value.slice };
                    let (from, to, residual) = (operand(src), operand(dst), residual.map(operand));
                    spec.sliced_step(&mut plan, &step.label, &tile, &constants, src.size, from, to, residual)?;
                }
                (Operation::Other(emit), _) => emit(&mut plan, &buffers)?,
                (Operation::Convolution(_), None) => {
                    return Err(Error::Usage(format!("{}: no kernel was chosen", step.label)));
                }
            }
        }
        Ok((plan.build()?, buffers, memory))
    }
}

/// For each convolution its tile and packed weights. Runs on several threads.
fn choose_kernels(context: &Context, steps: &[Step<'_>]) -> Result<Vec<Option<(Tile, ConvolutionBuffers)>>> {
    let gpu = &context.gpu;
    let convolutions: Vec<_> = steps
        .iter()
        .map(|step| match &step.operation {
            Operation::Convolution(convolve) => {
                let Convolve { spec, layer, src, .. } = &**convolve;
                Some((&*step.label, layer, (*spec, spec.output_size(src.size))))
            }
            Operation::Other(_) => None,
        })
        .collect();
    let shapes: HashSet<_> = convolutions.iter().flatten().map(|&(.., shape)| shape).collect();
    let choose = |&(spec, size): &(Convolution, (u32, u32))| {
        let tile = spec.default_tile(context, size)?;
        if !spec.accepts(&tile, &gpu.limits()) {
            return Err(Error::Unsupported(format!("no kernel for {spec:?} fits adapter {}", gpu.adapter_name())));
        }
        Ok(((spec, size), tile))
    };
    let tiles: HashMap<_, _> = shapes.par_iter().map(choose).collect::<Result<_>>()?;
    let pack = |convolution: &Option<(&str, &Layer<'_>, _)>| {
        let Some((label, layer, shape)) = convolution else {
            return Ok(None);
        };
        let tile = tiles.get(shape).ok_or_else(|| Error::Usage(format!("{label}: no kernel was chosen")))?;
        let weights = ConvolutionWeights { weight: &layer.weight, bias: &layer.bias, slope: &[] };
        // An error scope covers only the calls of its own thread.
        gpu.scoped(|| Ok(Some((*tile, shape.0.upload(context, label, tile, weights)))))
    };
    convolutions.par_iter().map(pack).collect()
}

fn allocate(context: &Context, declared: Vec<Declared>) -> (Buffers, MemoryUse) {
    let lifetimes: Vec<Lifetime> = declared
        .iter()
        .filter_map(|declared| match declared {
            Declared::Planned { bytes, alive, kept, .. } => {
                let (first, last) = alive.unwrap_or((0, 0));
                Some(Lifetime { bytes: *bytes, first, last: if *kept { usize::MAX } else { last } })
            }
            Declared::Given(_) => None,
        })
        .collect();
    let assignment = memory::assign(&lifetimes);
    let memory = MemoryUse {
        tensors: lifetimes.len(),
        tensor_bytes: lifetimes.iter().map(|l| l.bytes).sum(),
        buffers: assignment.buffers.len(),
        buffer_bytes: assignment.buffers.iter().sum(),
    };
    let mut made: Vec<Option<wgpu::Buffer>> = vec![None; assignment.buffers.len()];
    let mut owners = assignment.of.iter();
    let buffers = declared.into_iter().map(|declared| match declared {
        Declared::Given(buffer) => buffer,
        Declared::Planned { label, bytes, .. } => {
            // One owner for each planned buffer, in their order.
            let owner = owners.next().copied().unwrap_or_default();
            let size = assignment.buffers.get(owner).copied().unwrap_or(bytes);
            match made.get_mut(owner) {
                Some(slot) => slot.get_or_insert_with(|| context.storage(&label, size)).clone(),
                None => context.storage(&label, size),
            }
        }
    });
    (Buffers(buffers.collect()), memory)
}
