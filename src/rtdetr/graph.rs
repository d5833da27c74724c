// SPDX-License-Identifier: MIT OR Apache-2.0
//! The network on the GPU, as one plan from a raw frame to candidates. Its steps are those of
//! [`reference`](mod@super::reference); what is computed differently, to the same result:
//!
//! - Layers that read the same input are one layer (the two 1×1 of a CSP block; queries, keys and values; offsets and
//!   weights of the sampling; the value projections of the decoder's layers).
//! - `W·concat(upsampled, map)` is `upsampled(W₁·coarse) + W₂·map`, so neither is upsampled nor concatenated.
//! - Where concatenation remains, its parts are written in place.
//! - In the encoder, `W·(x + position)` is `W·x + W·position`, whose second part is a constant.
//! - The linear layer of the query selection runs on all tokens; the norm behind it puts what it makes of zeros where
//!   tokens count as zero. Box heads run on the chosen tokens only.

use super::config::{Config, LEVELS};
use super::preprocess::{Placement, Preprocessor};
use super::weights::{Attention, Block, Conv, Csp, DecoderLayer, EncoderLayer, LayerNorm, Linear, Weights};
use crate::error::{Error, Result};
use crate::gpu::frame::FrameLayout;
use crate::gpu::{Context, Plan};
use crate::nn::convolve::{Activation, Residual};
use crate::nn::cpu::position_embedding::position_embedding;
use crate::nn::cpu::{self, anchors};
use crate::nn::deform::{Deform, DeformTensors};
use crate::nn::normalize::{self, LayerNormTensors};
use crate::nn::pick::PickRows;
use crate::nn::pool::{Pool, PoolKind};
use crate::nn::recorder::{BufferId, Buffers, Layer, MemoryUse, Recorder, Target, Value};
use crate::nn::refine_boxes::{BoxBase, RefineBoxes};
use crate::nn::resize::Resize;
use crate::nn::select::{Choice, Rank, SelectCandidates, SelectTokens};
use crate::nn::{Lanes, Storage, add, attention, groups_of_four};

impl<'w> From<&'w Conv> for Layer<'w> {
    fn from(conv: &'w Conv) -> Self {
        Self {
            cin: conv.cin,
            cout: conv.cout,
            kernel: conv.kernel as u32,
            stride: conv.stride as u32,
            weight: (&*conv.weight).into(),
            bias: (&*conv.bias).into(),
        }
    }
}

impl<'w> From<&'w Linear> for Layer<'w> {
    fn from(linear: &'w Linear) -> Self {
        let Linear { inputs, outputs, weight, bias } = linear;
        Self { cin: *inputs, cout: *outputs, kernel: 1, stride: 1, weight: (&**weight).into(), bias: (&**bias).into() }
    }
}

/// What the network is built for.
pub(super) struct Input<'a> {
    pub layout: &'a FrameLayout,
    pub placement: &'a Placement,
    pub preprocessor: &'a Preprocessor,
    pub storage: Storage,
    /// Whether the tensors that [`super::reference::Forward`] names can be read after a run.
    pub observed: bool,
}

/// The built network.
pub(super) struct Network {
    pub plan: Plan,
    /// The raw frame.
    pub frame: wgpu::Buffer,
    /// A [`Choice`] for each query.
    pub candidates: wgpu::Buffer,
    pub memory: MemoryUse,
    /// Names, tensors and buffers of what can be observed.
    pub observed: Vec<(String, Value, wgpu::Buffer)>,
}

impl Network {
    pub fn new(context: &Context, weights: &Weights, input: &Input<'_>) -> Result<Self> {
        let mut graph = Graph {
            recorder: Recorder::new(context, input.storage),
            storage: input.storage,
            weights,
            config: &weights.config,
            observed: input.observed.then(Vec::new),
        };
        let pixels = graph.preprocess(input)?;
        let backbone = graph.backbone(pixels.value);
        let projected = graph.project(&backbone);
        let encoder = graph.fuse(projected);
        let levels: Vec<[usize; 2]> = encoder.iter().map(|map| [map.size.0 as usize, map.size.1 as usize]).collect();
        let memory = graph.memory(&encoder);
        let selection = graph.select(memory, &levels)?;
        let candidates = graph.decode(memory, &levels, &selection)?;
        let Graph { recorder, observed, .. } = graph;
        let (plan, buffers, memory) = recorder.build()?;
        let observed = observed.unwrap_or_default().into_iter();
        Ok(Self {
            plan,
            frame: pixels.frame,
            candidates,
            memory,
            observed: observed.map(|(name, value)| (name, value, buffers[value.buffer].clone())).collect(),
        })
    }
}

struct Pixels {
    value: Value,
    frame: wgpu::Buffer,
}

/// The first queries.
struct Selection {
    target: Value,
    boxes: Value,
}

struct Graph<'w> {
    recorder: Recorder<'w>,
    storage: Storage,
    weights: &'w Weights,
    config: &'w Config,
    observed: Option<Vec<(String, Value)>>,
}

impl<'w> Graph<'w> {
    /// Lets a tensor be read after a run.
    fn observe(&mut self, name: impl FnOnce() -> String, value: Value) {
        if let Some(observed) = &mut self.observed {
            self.recorder.keep(value.buffer);
            observed.push((name(), value));
        }
    }

    fn convolve(&mut self, label: &str, layer: Layer<'w>, activation: impl Into<Activation>, src: Value) -> Value {
        self.recorder.convolve(label, layer, activation.into(), src, None, Target::New(self.storage))
    }

    fn linear(&mut self, label: &str, layer: &'w Linear, activation: Option<cpu::Activation>, src: Value) -> Value {
        self.convolve(label, layer.into(), activation, src)
    }

    /// Layers with ReLU between them; the result is f32.
    fn mlp(&mut self, label: &str, layers: &'w [Linear], src: Value) -> Value {
        let mut x = src;
        for (i, layer) in layers.iter().enumerate() {
            let last = i + 1 == layers.len();
            let activation = if last { Activation::None } else { Activation::Relu };
            let target = Target::New(if last { Storage::F32 } else { self.storage });
            x = self.recorder.convolve(&format!("{label}.{i}"), layer.into(), activation, x, None, target);
        }
        x
    }

    fn preprocess(&mut self, input: &Input<'_>) -> Result<Pixels> {
        let Input { layout, placement, preprocessor, storage, .. } = *input;
        let four = |v: usize| v as u32;
        let (scale, shift) = preprocessor.values();
        let resize = Resize {
            layout: layout.clone(),
            start: [placement.source.x, placement.source.y].map(four),
            size: [placement.source.width, placement.source.height].map(four),
            resized: placement.resized.map(four),
            offset: placement.offset.map(four),
            canvas: placement.canvas.map(four),
            fill: placement.fill,
            scale,
            shift,
            output: storage,
        };
        let context = self.recorder.context().clone();
        let frame = context.storage("frame", layout.byte_size());
        let value = self.recorder.tensor("pixels", (resize.canvas[0], resize.canvas[1]), 3, storage);
        let source = frame.clone();
        self.recorder.operation("resize", &[value.buffer], move |plan, buffers| {
            resize.steps(plan, &context, &source, &buffers[value.buffer])
        });
        Ok(Pixels { value, frame })
    }

    fn pool(&mut self, label: &str, kind: PoolKind, src: Value) -> Value {
        let pool = Pool { kind, channels: src.channels, storage: src.storage };
        let dst = self.recorder.tensor(label, pool.output_size(src.size), src.channels, src.storage);
        let name = label.to_owned();
        self.recorder.operation(label, &[src.buffer, dst.buffer], move |plan, buffers| {
            pool.step(plan, &name, src.size, &buffers[src.buffer], &buffers[dst.buffer])
        });
        dst
    }

    /// The maps that leave the backbone.
    fn backbone(&mut self, pixels: Value) -> Vec<Value> {
        let (backbone, activation) = (&self.weights.backbone, self.config.backbone.activation);
        let mut x = pixels;
        for (i, layer) in backbone.stem.iter().enumerate() {
            x = self.convolve(&format!("stem.{i}"), layer.into(), Some(activation), x);
        }
        x = self.pool("stem.pool", PoolKind::Max3x3, x);
        self.observe(|| "stem".into(), x);
        let mut maps = Vec::new();
        for (s, stage) in backbone.stages.iter().enumerate() {
            for (b, block) in stage.iter().enumerate() {
                x = self.block(&format!("stage{}.{b}", s + 1), block, x);
            }
            if s > 0 {
                self.observe(|| format!("backbone.{}", s - 1), x);
                maps.push(x);
            }
        }
        maps
    }

    fn block(&mut self, label: &str, block: &'w Block, input: Value) -> Value {
        let added = match &block.shortcut {
            None => input,
            Some(shortcut) => {
                let pooled = match shortcut.pool {
                    true => self.pool(&format!("{label}.pool"), PoolKind::Mean2x2, input),
                    false => input,
                };
                self.convolve(&format!("{label}.shortcut"), (&shortcut.conv).into(), None, pooled)
            }
        };
        let mut x = input;
        for (i, layer) in block.convs.iter().enumerate() {
            let last = i + 1 == block.convs.len();
            let activation = if last { self.config.backbone.activation } else { cpu::Activation::Relu };
            let residual = last.then_some((Residual::Before, added));
            let (label, target) = (format!("{label}.{i}"), Target::New(self.storage));
            x = self.recorder.convolve(&label, layer.into(), Some(activation).into(), x, residual, target);
        }
        x
    }

    /// The maps at E channels, some of them behind transformer layers.
    fn project(&mut self, backbone: &[Value]) -> Vec<Value> {
        let encoder = &self.weights.encoder;
        let mut maps = Vec::new();
        for (level, (layer, &map)) in encoder.input_projection.iter().zip(backbone).enumerate() {
            maps.push(self.convolve(&format!("project.{level}"), layer.into(), None, map));
        }
        for (&level, layers) in self.config.encoder.levels.iter().zip(&encoder.transformers) {
            let size = maps[level].size;
            let mut x = maps[level].tokens();
            for (i, layer) in layers.iter().enumerate() {
                x = self.encoder_layer(&format!("aifi{level}.{i}"), layer, x, size);
            }
            maps[level] = Value { size, ..x };
        }
        for (level, &map) in maps.iter().enumerate() {
            self.observe(|| format!("projected.{level}"), map);
        }
        maps
    }

    /// One transformer layer on the tokens of a map of `size`.
    fn encoder_layer(&mut self, label: &str, layer: &'w EncoderLayer, input: Value, size: (u32, u32)) -> Value {
        let config = &self.config.encoder;
        let before = config.normalize_before;
        let name = |part: &str| format!("{label}.{part}");
        let x = if before { self.normalize(&name("norm1"), &layer.attention_norm, input, None) } else { input };
        let attended = self.encoder_attention(label, &layer.attention, x, size);
        let output = &layer.attention.output;
        let sum = |graph: &mut Self, part: &str, layer: &'w Linear, x: Value, added: Value| {
            let (residual, target) = (Some((Residual::Before, added)), Target::New(graph.storage));
            graph.recorder.convolve(&name(part), layer.into(), Activation::None, x, residual, target)
        };
        let x = if before {
            // Not the usual pre-norm: the normalised tokens are also what the feed-forward result is added to.
            let x = sum(self, "output", output, attended, input);
            self.normalize(&name("norm2"), &layer.final_norm, x, None)
        } else {
            let x = self.linear(&name("output"), output, None, attended);
            self.normalize(&name("norm1"), &layer.attention_norm, x, Some(input))
        };
        let fed = self.linear(&name("fc1"), &layer.fc1, Some(config.activation), x);
        if before {
            sum(self, "fc2", &layer.fc2, fed, x)
        } else {
            let fed = self.linear(&name("fc2"), &layer.fc2, None, fed);
            self.normalize(&name("norm2"), &layer.final_norm, fed, Some(x))
        }
    }

    /// Self-attention among the tokens of a map of `size`, up to its output layer.
    fn encoder_attention(&mut self, label: &str, layer: &'w Attention, x: Value, size: (u32, u32)) -> Value {
        let config = &self.config.encoder;
        let (channels, heads) = (config.hidden, config.heads);
        let (stacked, firsts) = Layer::stacked(&[&layer.query, &layer.key, &layer.value].map(Layer::from));
        let residual = config.position_temperature.map(|temperature| {
            let position = position_embedding(size.0 as usize, size.1 as usize, channels, temperature).into_tokens();
            let [q, k] = [&layer.query, &layer.key]
                .map(|layer| cpu::linear(&position, &layer.weight, &vec![0.0; layer.outputs], None));
            let values = cpu::Tensor::from_fn(position.width, 1, stacked.cout, |token, _, out| {
                out[firsts[0]..][..channels].copy_from_slice(q.at(token, 0));
                out[firsts[1]..][..channels].copy_from_slice(k.at(token, 0));
            });
            let tokens = (position.width as u32, 1);
            let label = format!("{label}.position");
            (Residual::Before, self.recorder.constant(&label, tokens, stacked.cout, self.storage, &values.data))
        });
        let (target, name) = (Target::New(self.storage), format!("{label}.qkv"));
        let qkv = self.recorder.convolve(&name, stacked, Activation::None, x, residual, target);
        let [q, k, v] = [0, 1, 2].map(|i| qkv.part(firsts[i], channels));
        self.attend(&format!("{label}.attention"), heads, q, k, v)
    }

    fn attend(&mut self, label: &str, heads: usize, q: Value, k: Value, v: Value) -> Value {
        let attention = attention::Attention {
            heads,
            dim: q.channels / heads,
            q: q.slice.lanes,
            k: k.slice.lanes,
            v: v.slice.lanes,
            input: q.storage,
            output: self.storage,
        };
        let dst = self.recorder.tensor(label, q.size, q.channels, self.storage);
        let name = label.to_owned();
        self.recorder.operation(label, &[q.buffer, k.buffer, v.buffer, dst.buffer], move |plan, b| {
            let (queries, keys) = (q.pixels(), k.pixels());
            attention.step(plan, &name, queries, keys, &b[q.buffer], &b[k.buffer], &b[v.buffer], &b[dst.buffer])
        });
        dst
    }

    /// The norm of `src + residual`.
    fn normalize(&mut self, label: &str, layer: &LayerNorm, src: Value, residual: Option<Value>) -> Value {
        self.normalize_all(label, layer, src, residual, None, None).0
    }

    /// The norm of `src + residual`, and that plus `position`; `masked`: where each token has a value (u32), and the row
    /// that the others get.
    fn normalize_all(
        &mut self,
        label: &str,
        layer: &LayerNorm,
        src: Value,
        residual: Option<Value>,
        position: Option<Value>,
        masked: Option<(BufferId, &[f32])>,
    ) -> (Value, Option<Value>) {
        let norm = normalize::LayerNorm {
            channels: src.channels,
            input: src.storage,
            residual: residual.map(|residual| residual.storage),
            output: self.storage,
            position: position.map(|position| position.storage),
            masked: masked.is_some(),
        };
        let substitute = masked.map(|(_, row)| row);
        let context = self.recorder.context();
        let constants = norm.upload(context, label, &layer.weight, &layer.bias, layer.eps, substitute);
        let dst = self.recorder.tensor(label, src.size, src.channels, self.storage);
        let placed = position.map(|position| {
            (position, self.recorder.tensor(&format!("{label} placed"), src.size, src.channels, self.storage))
        });
        let valid = masked.map(|(valid, _)| valid);
        let mut uses = vec![src.buffer, dst.buffer];
        uses.extend(residual.map(|residual| residual.buffer));
        uses.extend(valid);
        uses.extend(placed.iter().flat_map(|(position, placed)| [position.buffer, placed.buffer]));
        let name = label.to_owned();
        self.recorder.operation(label, &uses, move |plan, buffers| {
            let tensors = LayerNormTensors {
                src: &buffers[src.buffer],
                residual: residual.map(|residual| &buffers[residual.buffer]),
                position: placed.map(|(position, placed)| (&buffers[position.buffer], &buffers[placed.buffer])),
                valid: valid.map(|valid| &buffers[valid]),
                dst: &buffers[dst.buffer],
            };
            norm.step(plan, &name, &constants, src.pixels(), tensors)
        });
        (dst, placed.map(|(_, placed)| placed))
    }

    /// Top-down, then bottom-up.
    fn fuse(&mut self, maps: Vec<Value>) -> Vec<Value> {
        let encoder = &self.weights.encoder;
        let activation = Activation::from(Some(self.config.encoder.conv_activation));
        let channels = self.config.encoder.hidden;
        let padded = groups_of_four(channels) * 4;
        // For each of the two coarse maps, the downsampled finer map and the map beside it.
        let joined: Vec<Value> = maps[1..]
            .iter()
            .enumerate()
            .map(|(i, map)| self.recorder.tensor(&format!("pan.{i}.input"), map.size, padded + channels, self.storage))
            .collect();
        let mut maps = maps;
        for (i, (lateral, csp)) in encoder.lateral.iter().zip(&encoder.fpn).enumerate() {
            let coarse = LEVELS - 1 - i;
            let beside = joined[coarse - 1].part(padded, channels);
            let (label, target) = (format!("lateral.{i}"), Target::Into(beside));
            let top = self.recorder.convolve(&label, lateral.into(), activation, maps[coarse], None, target);
            let (layer, firsts) = Layer::stacked(&[&csp.conv1, &csp.conv2].map(Layer::from));
            let from_top = Layer { bias: vec![0.0; layer.cout].into(), ..layer.columns(0, channels) };
            let from_side = layer.columns(channels, channels);
            let label = format!("fpn.{i}");
            let up = self.convolve(&format!("{label}.top"), from_top, None, top);
            let (name, target) = (format!("{label}.side"), Target::New(self.storage));
            let residual = Some((Residual::HalfBefore, up));
            let both = self.recorder.convolve(&name, from_side, activation, maps[coarse - 1], residual, target);
            maps[coarse - 1] = self.csp(&label, csp, both, &firsts);
        }
        for (i, (downsample, csp)) in encoder.downsample.iter().zip(&encoder.pan).enumerate() {
            let label = format!("pan.{i}");
            let (name, target) = (format!("{label}.downsample"), Target::Into(joined[i].part(0, channels)));
            self.recorder.convolve(&name, downsample.into(), activation, maps[i], None, target);
            let (layer, firsts) = Layer::stacked(&[&csp.conv1, &csp.conv2].map(Layer::from));
            let layer = layer.spread(channels, padded - channels);
            let both = self.convolve(&format!("{label}.both"), layer, activation, joined[i]);
            maps[i + 1] = self.csp(&label, csp, both, &firsts);
        }
        for (level, &map) in maps.iter().enumerate() {
            self.observe(|| format!("encoder.{level}"), map);
        }
        maps
    }

    /// A CSP block behind its first two layers, whose results lie in `both` from `firsts` on.
    fn csp(&mut self, label: &str, csp: &'w Csp, both: Value, firsts: &[usize]) -> Value {
        let activation = Activation::from(Some(self.config.encoder.conv_activation));
        let [mut x, other] = [(0, csp.conv1.cout), (1, csp.conv2.cout)].map(|(i, n)| both.part(firsts[i], n));
        for (i, layer) in csp.bottlenecks.iter().enumerate() {
            let last = i + 1 == csp.bottlenecks.len();
            let residual = last.then_some((Residual::After, other));
            let (name, target) = (format!("{label}.{i}"), Target::New(self.storage));
            x = self.recorder.convolve(&name, layer.into(), activation, x, residual, target);
        }
        match &csp.conv3 {
            Some(layer) => self.convolve(&format!("{label}.output"), layer.into(), activation, x),
            None => x,
        }
    }

    fn memory(&mut self, maps: &[Value]) -> Value {
        let tokens = maps.iter().map(Value::pixels).sum();
        let memory = self.recorder.tensor("memory", (tokens, 1), self.config.decoder.hidden, self.storage);
        let mut start = 0;
        for (level, (layer, &map)) in self.weights.decoder.input_projection.iter().zip(maps).enumerate() {
            let target = Target::Into(memory.rows(start, map.size));
            self.recorder.convolve(&format!("memory.{level}"), layer.into(), Activation::None, map, None, target);
            start += map.pixels();
        }
        self.observe(|| "memory".into(), memory);
        memory
    }

    fn pick(&mut self, label: &str, indices: BufferId, src: Value) -> Value {
        let rows = self.config.decoder.queries as u32;
        let dst = self.recorder.tensor(label, (rows, 1), src.channels, src.storage);
        let pick = PickRows { channels: src.channels, input: src.storage, output: dst.storage };
        let name = label.to_owned();
        self.recorder.operation(label, &[indices, src.buffer, dst.buffer], move |plan, b| {
            pick.step(plan, &name, rows, &b[indices], &b[src.buffer], &b[dst.buffer])
        });
        dst
    }

    fn select(&mut self, memory: Value, levels: &[[usize; 2]]) -> Result<Selection> {
        let selection = &self.weights.selection;
        let queries = self.config.decoder.queries as u32;
        let tokens = memory.pixels();
        let limits = self.recorder.context().gpu.limits();
        let context = self.recorder.context().clone();

        let (anchors, valid) = anchors::anchors(levels);
        let valid: Vec<u32> = valid.into_iter().map(u32::from).collect();
        let valid = context.constant("valid", bytemuck::cast_slice(&valid), wgpu::BufferUsages::STORAGE);
        let valid = self.recorder.given(valid);
        let anchors = self.recorder.constant("anchors", (tokens, 1), 4, Storage::F32, &anchors.data);

        let bias = cpu::Tensor {
            width: 1,
            height: 1,
            channels: selection.output.outputs,
            data: selection.output.bias.clone(),
        };
        let norm = &selection.norm;
        let of_nothing = cpu::layer_norm(&bias, &norm.weight, &norm.bias, norm.eps);
        let output = self.linear("select.output", &selection.output, None, memory);
        let masked = Some((valid, &*of_nothing.data));
        let (output, _) = self.normalize_all("select.norm", norm, output, None, None, masked);

        let target = Target::New(Storage::F32);
        let score = Layer::from(&selection.score);
        let logits = self.recorder.convolve("select.score", score, Activation::None, output, None, target);
        let keys = self.recorder.buffer("keys", u64::from(tokens) * 4);
        let rank = Rank { classes: logits.channels, input: logits.storage };
        self.recorder.operation("select.rank", &[logits.buffer, keys], move |plan, b| {
            rank.step(plan, "select.rank", tokens, &b[logits.buffer], &b[keys])
        });
        let indices = self.recorder.buffer("indices", u64::from(queries) * 4);
        let top = SelectTokens::new(queries, &limits)?;
        self.recorder.operation("select.top", &[keys, indices], move |plan, b| {
            top.step(plan, "select.top", tokens, &b[keys], &b[indices])
        });

        let target = self.pick("select.pick", indices, output);
        if self.observed.is_some() {
            let logits = self.pick("select.logits", indices, logits);
            self.observe(|| "selected_logits".into(), logits);
        }
        let deltas = self.mlp("select.bbox", &selection.bbox, target);
        let boxes = self.refine("select.boxes", deltas, anchors, Some(indices));
        self.observe(|| "selected_boxes".into(), boxes);
        Ok(Selection { target, boxes })
    }

    fn refine(&mut self, label: &str, deltas: Value, base: Value, indices: Option<BufferId>) -> Value {
        let kind = if indices.is_some() { BoxBase::Anchors } else { BoxBase::Boxes };
        let refine = RefineBoxes { base: kind, delta: deltas.storage };
        let dst = self.recorder.tensor(label, deltas.size, 4, Storage::F32);
        let mut uses = vec![deltas.buffer, base.buffer, dst.buffer];
        uses.extend(indices);
        let name = label.to_owned();
        self.recorder.operation(label, &uses, move |plan, b| {
            let indices = indices.map(|indices| &b[indices]);
            refine.step(plan, &name, deltas.pixels(), &b[deltas.buffer], &b[base.buffer], indices, &b[dst.buffer])
        });
        dst
    }

    /// The buffer of candidates.
    fn decode(&mut self, memory: Value, levels: &[[usize; 2]], selection: &Selection) -> Result<wgpu::Buffer> {
        let layers = &self.weights.decoder.layers;
        let (mut x, mut boxes, mut logits) = (selection.target, selection.boxes, None);
        let mut values = Vec::new();
        // As many layers' values at once as an adapter's binding can hold.
        let limit = self.recorder.context().gpu.limits().max_storage_buffer_binding_size;
        let each = u64::from(memory.pixels()) * groups_of_four(memory.channels) as u64 * 4 * self.storage.bytes();
        let together = (limit / each.max(1)).clamp(1, layers.len() as u64) as usize;
        for (n, layer) in layers.iter().enumerate() {
            if n.is_multiple_of(together) {
                let chunk: Vec<_> =
                    layers[n..].iter().take(together).map(|l| (&l.cross_attention.value).into()).collect();
                let (stacked, firsts) = Layer::stacked(&chunk);
                let all = self.convolve(&format!("decoder.{n}.values"), stacked, None, memory);
                values = firsts.into_iter().map(|first| all.part(first, memory.channels)).collect();
            }
            let value = values[n % together];
            x = self.decoder_layer(&format!("decoder.{n}"), layer, x, boxes, value, levels)?;
            let label = format!("decoder.{n}.bbox");
            let deltas = self.mlp(&label, &layer.bbox, x);
            boxes = self.refine(&format!("decoder.{n}.boxes"), deltas, boxes, None);
            if n + 1 == layers.len() || self.observed.is_some() {
                let (label, target) = (format!("decoder.{n}.class"), Target::New(Storage::F32));
                let class = Layer::from(&layer.class);
                let found = self.recorder.convolve(&label, class, Activation::None, x, None, target);
                self.observe(|| format!("logits.{n}"), found);
                logits = Some(found);
            }
            self.observe(|| format!("hidden.{n}"), x);
            self.observe(|| format!("boxes.{n}"), boxes);
        }
        let logits = logits.ok_or_else(|| Error::Usage("a decoder without layers".into()))?;
        let queries = self.config.decoder.queries as u32;
        let limits = self.recorder.context().gpu.limits();
        let select = SelectCandidates::new(queries, logits.channels, logits.storage, &limits)?;
        let bytes = u64::from(queries) * size_of::<Choice>() as u64;
        let candidates = self.recorder.context().storage("candidates", bytes);
        let to = candidates.clone();
        self.recorder.operation("candidates", &[logits.buffer, boxes.buffer], move |plan, b| {
            select.step(plan, "candidates", &b[logits.buffer], &b[boxes.buffer], &to)
        });
        Ok(candidates)
    }

    fn decoder_layer(
        &mut self,
        label: &str,
        layer: &'w DecoderLayer,
        input: Value,
        boxes: Value,
        value: Value,
        levels: &[[usize; 2]],
    ) -> Result<Value> {
        let config = &self.config.decoder;
        let name = |part: &str| format!("{label}.{part}");
        let [first, second] = &self.weights.decoder.query_position;
        let position = self.linear(&name("position.0"), first, Some(cpu::Activation::Relu), boxes);
        let position = self.linear(&name("position.1"), second, None, position);

        let placed = self.add(&name("placed"), input, position);
        let attention = &layer.self_attention;
        let (query_key, firsts) = Layer::stacked(&[&attention.query, &attention.key].map(Layer::from));
        let query_key = self.convolve(&name("qk"), query_key, None, placed);
        let v = self.linear(&name("v"), &attention.value, None, input);
        let [q, k] = [0, 1].map(|i| query_key.part(firsts[i], config.hidden));
        let attended = self.attend(&name("attention"), config.heads, q, k, v);
        let attended = self.linear(&name("output"), &attention.output, None, attended);
        let (x, placed) =
            self.normalize_all(&name("norm1"), &layer.self_attention_norm, attended, Some(input), Some(position), None);
        let placed = placed.ok_or_else(|| Error::Usage(format!("{label}: a norm without its second result")))?;

        let sampled = self.deform(label, layer, placed, boxes, value, levels)?;
        let sampled = self.linear(&name("cross.output"), &layer.cross_attention.output, None, sampled);
        let x = self.normalize(&name("norm2"), &layer.cross_attention_norm, sampled, Some(x));

        let fed = self.linear(&name("fc1"), &layer.fc1, Some(config.activation), x);
        let fed = self.linear(&name("fc2"), &layer.fc2, None, fed);
        Ok(self.normalize(&name("norm3"), &layer.final_norm, fed, Some(x)))
    }

    fn add(&mut self, label: &str, a: Value, b: Value) -> Value {
        let add = add::Add { channels: a.channels, a: a.storage, b: b.storage, output: self.storage };
        let dst = self.recorder.tensor(label, a.size, a.channels, self.storage);
        let name = label.to_owned();
        self.recorder.operation(label, &[a.buffer, b.buffer, dst.buffer], move |plan, buffers| {
            add.step(plan, &name, a.pixels(), &buffers[a.buffer], &buffers[b.buffer], &buffers[dst.buffer])
        });
        dst
    }

    /// Deformable attention up to its output layer.
    fn deform(
        &mut self,
        label: &str,
        layer: &'w DecoderLayer,
        placed: Value,
        boxes: Value,
        value: Value,
        levels: &[[usize; 2]],
    ) -> Result<Value> {
        let (config, cross) = (&self.config.decoder, &layer.cross_attention);
        // Offsets are positions: f32.
        let (mixing, firsts) = Layer::stacked(&[&cross.sampling_offsets, &cross.attention_weights].map(Layer::from));
        let total = mixing.cout;
        let (name, target) = (format!("{label}.mixing"), Target::New(Storage::F32));
        let mixing = self.recorder.convolve(&name, mixing, Activation::None, placed, None, target);
        let deform = Deform {
            heads: config.heads,
            dim: config.hidden / config.heads,
            levels: levels.len(),
            points: config.points,
            sampling: config.sampling,
            value: value.slice.lanes,
            offsets: Lanes { channels: total, first: firsts[0] },
            logits: Lanes { channels: total, first: firsts[1] },
            input: value.storage,
            mixing: mixing.storage,
            output: self.storage,
        };
        let label = format!("{label}.deform");
        let context = self.recorder.context();
        let constants = deform.upload(context, &label, levels, &cross.point_scale, config.offset_scale)?;
        let dst = self.recorder.tensor(&label, placed.size, config.hidden, self.storage);
        let uses = [value.buffer, mixing.buffer, boxes.buffer, dst.buffer];
        let name = label.clone();
        self.recorder.operation(&label, &uses, move |plan, b: &Buffers| {
            let tensors = DeformTensors {
                value: &b[value.buffer],
                offsets: &b[mixing.buffer],
                logits: &b[mixing.buffer],
                boxes: &b[boxes.buffer],
                dst: &b[dst.buffer],
            };
            deform.step(plan, &name, &constants, placed.pixels(), tensors)
        });
        Ok(dst)
    }
}
