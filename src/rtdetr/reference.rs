// SPDX-License-Identifier: MIT OR Apache-2.0
//! The whole network on the CPU, from the plain-Rust operations of [`crate::nn::cpu`]: the oracle of the GPU graph, and
//! what runs where there is no GPU.
//!
//! # Steps
//! Maps are NHWC; E, D, C, Q as in [`super::config`].
//! 1. **Backbone**: stem, max pool, four stages of residual blocks; the maps of the last three (strides 8, 16, 32).
//! 2. **Encoder**: each map to E channels; transformer layers on the coarsest (position embedding added to queries and
//!    keys); top-down and bottom-up fusion by CSP blocks.
//! 3. **Selection**: the maps to D channels, their tokens one after the other (finest map first); tokens whose anchor
//!    is invalid set to zero; linear layer and norm; the Q tokens of the largest class logit are the first queries,
//!    their anchors, moved by the box head, the first boxes.
//! 4. **Decoder**: layers of self-attention, deformable attention on all tokens (none set to zero here) and a
//!    feed-forward network, each followed by a norm of its sum with its input; after each layer the boxes are refined.
//!    The last layer's logits and boxes are the result.

use super::config::{Config, LEVELS};
use super::weights::{Attention, Block, Conv, Csp, DecoderLayer, EncoderLayer, LayerNorm, Linear, Weights};
use crate::error::{Error, Result};
use crate::nn::cpu::box_refine::refine;
use crate::nn::cpu::position_embedding::position_embedding;
use crate::nn::cpu::upsample::{concat, upsample2x};
use crate::nn::cpu::{self, Activation, Conv2d, DeformableAttention, Tensor, anchors, attention, pool, sigmoid, top_k};

/// The result with its intermediates, for comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Forward {
    /// After the stem's max pool.
    pub stem: Tensor,
    /// The maps that leave the backbone, strides 8, 16, 32.
    pub backbone: Vec<Tensor>,
    /// The maps as the fusion gets them: E channels, behind the transformer layers.
    pub projected: Vec<Tensor>,
    /// The maps that leave the encoder.
    pub encoder: Vec<Tensor>,
    /// The tokens of all levels, D channels.
    pub memory: Tensor,
    /// The chosen tokens, the best first.
    pub selected: Vec<usize>,
    /// Class logits of the chosen tokens, Q×C.
    pub selected_logits: Tensor,
    /// Their boxes, Q×4: centre x, centre y, width, height relative to the input.
    pub selected_boxes: Tensor,
    /// After each decoder layer, Q×D.
    pub hidden: Vec<Tensor>,
    /// By each decoder layer's head, Q×C.
    pub logits: Vec<Tensor>,
    /// After each decoder layer, Q×4, as `selected_boxes`.
    pub boxes: Vec<Tensor>,
}

impl Forward {
    /// Class logits of the last layer, Q×C.
    pub fn final_logits(&self) -> &Tensor {
        self.logits.last().unwrap_or(&self.selected_logits)
    }

    /// Boxes of the last layer, Q×4.
    pub fn final_boxes(&self) -> &Tensor {
        self.boxes.last().unwrap_or(&self.selected_boxes)
    }
}

/// The network of a checkpoint.
#[derive(Debug, Clone, Copy)]
pub struct Reference<'w> {
    weights: &'w Weights,
}

fn conv(layer: &Conv, input: &Tensor, activation: Option<Activation>, residual: Option<&Tensor>) -> Tensor {
    let Conv { weight, bias, kernel, stride, padding, .. } = layer;
    let (kernel, stride, padding) = (*kernel, *stride, *padding);
    cpu::conv2d(input, &Conv2d { weight, bias, kernel, stride, padding, residual, activation })
}

fn linear(layer: &Linear, input: &Tensor, activation: Option<Activation>) -> Tensor {
    cpu::linear(input, &layer.weight, &layer.bias, activation)
}

/// Layers with ReLU between them.
fn mlp(layers: &[Linear], input: &Tensor) -> Tensor {
    let mut x = input.clone();
    for (i, layer) in layers.iter().enumerate() {
        x = linear(layer, &x, (i + 1 < layers.len()).then_some(Activation::Relu));
    }
    x
}

fn norm(layer: &LayerNorm, input: &Tensor) -> Tensor {
    cpu::layer_norm(input, &layer.weight, &layer.bias, layer.eps)
}

fn sum(mut a: Tensor, b: &Tensor) -> Tensor {
    a.add(b);
    a
}

/// Queries and keys from `x + position`, values from `x`.
fn self_attention(layer: &Attention, x: &Tensor, position: Option<&Tensor>, heads: usize) -> Tensor {
    let placed = match position {
        Some(position) => sum(x.clone(), position),
        None => x.clone(),
    };
    let (q, k) = (linear(&layer.query, &placed, None), linear(&layer.key, &placed, None));
    let v = linear(&layer.value, x, None);
    linear(&layer.output, &attention::attention(&q, &k, &v, heads), None)
}

/// Rows of `source`, by index.
fn rows(source: &Tensor, indices: &[usize]) -> Tensor {
    Tensor::from_fn(indices.len(), 1, source.channels, |i, _, out| out.copy_from_slice(source.at(indices[i], 0)))
}

/// Fails where the network cannot run on pictures of that width and height.
///
/// # Errors
/// [`Error::Unsupported`] with what is wrong with the size.
pub(super) fn check_size(config: &Config, [width, height]: [usize; 2]) -> Result<()> {
    let multiple = config.input_multiple();
    if [width, height].iter().any(|&n| n == 0 || n % multiple != 0) {
        return Err(Error::Unsupported(format!(
            "a network input of {width}x{height}: both sides must be multiples of {multiple}"
        )));
    }
    // The coarsest map has a pixel for each `multiple` of the input, the others two and four.
    let coarsest = (width / multiple) * (height / multiple);
    let (tokens, queries) = (coarsest * (1 + 4 + 16), config.decoder.queries);
    if tokens < queries {
        return Err(Error::Unsupported(format!(
            "a network input of {width}x{height}: it has {tokens} places for {queries} queries, choose a larger one"
        )));
    }
    Ok(())
}

impl<'w> Reference<'w> {
    pub fn new(weights: &'w Weights) -> Self {
        Self { weights }
    }

    /// Runs the network on `pixels`: R, G, B as the preprocessor makes them, both sides multiples of
    /// [`super::Config::input_multiple`].
    ///
    /// # Errors
    /// [`Error::Unsupported`] where the network cannot run on pictures of that size.
    pub fn forward(&self, pixels: &Tensor) -> Result<Forward> {
        let weights = self.weights;
        if pixels.channels != 3 {
            return Err(Error::Usage(format!("a picture of {} channels, expected 3", pixels.channels)));
        }
        check_size(&weights.config, [pixels.width, pixels.height])?;
        let (stem, backbone) = self.backbone(pixels);
        let levels: Vec<[usize; 2]> = backbone.iter().map(|map| [map.width, map.height]).collect();
        let projected = self.project(&backbone);
        let encoder = self.fuse(projected.clone());
        let memory = self.memory(&encoder);
        let (selected, selected_logits, selected_boxes, mut x) = self.select(&memory, &levels);
        let mut reference = selected_boxes.clone();
        let (mut hidden, mut logits, mut boxes) = (Vec::new(), Vec::new(), Vec::new());
        for layer in &weights.decoder.layers {
            x = self.decode(layer, &x, &reference, &memory, &levels);
            reference = refine(&reference, &mlp(&layer.bbox, &x));
            logits.push(linear(&layer.class, &x, None));
            boxes.push(reference.clone());
            hidden.push(x.clone());
        }
        Ok(Forward {
            stem,
            backbone,
            projected,
            encoder,
            memory,
            selected,
            selected_logits,
            selected_boxes,
            hidden,
            logits,
            boxes,
        })
    }

    fn backbone(&self, pixels: &Tensor) -> (Tensor, Vec<Tensor>) {
        let activation = Some(self.weights.config.backbone.activation);
        let mut x = pixels.clone();
        for layer in &self.weights.backbone.stem {
            x = conv(layer, &x, activation, None);
        }
        let stem = pool::max_pool3x3(&x);
        let mut maps = Vec::with_capacity(4);
        for stage in &self.weights.backbone.stages {
            x = maps.last().unwrap_or(&stem).clone();
            for block in stage {
                x = self.block(block, &x);
            }
            maps.push(x);
        }
        maps.remove(0);
        (stem, maps)
    }

    fn block(&self, block: &Block, input: &Tensor) -> Tensor {
        let activation = Some(self.weights.config.backbone.activation);
        let shortcut = block.shortcut.as_ref().map(|shortcut| {
            let pooled = shortcut.pool.then(|| pool::avg_pool2x2(input));
            conv(&shortcut.conv, pooled.as_ref().unwrap_or(input), None, None)
        });
        let mut x = input.clone();
        for (i, layer) in block.convs.iter().enumerate() {
            x = if i + 1 < block.convs.len() {
                conv(layer, &x, Some(Activation::Relu), None)
            } else {
                conv(layer, &x, activation, Some(shortcut.as_ref().unwrap_or(input)))
            };
        }
        x
    }

    /// The maps at E channels, some of them behind transformer layers.
    fn project(&self, backbone: &[Tensor]) -> Vec<Tensor> {
        let (encoder, config) = (&self.weights.encoder, &self.weights.config.encoder);
        let layers = encoder.input_projection.iter().zip(backbone);
        let mut maps: Vec<Tensor> = layers.map(|(layer, map)| conv(layer, map, None, None)).collect();
        for (&level, layers) in config.levels.iter().zip(&encoder.transformers) {
            let map = &mut maps[level];
            let (width, height) = (map.width, map.height);
            let position = config
                .position_temperature
                .map(|temperature| position_embedding(width, height, config.hidden, temperature).into_tokens());
            let mut x = map.clone().into_tokens();
            for layer in layers {
                x = self.encoder_layer(layer, &x, position.as_ref());
            }
            *map = Tensor { width, height, ..x };
        }
        maps
    }

    fn encoder_layer(&self, layer: &EncoderLayer, input: &Tensor, position: Option<&Tensor>) -> Tensor {
        let config = &self.weights.config.encoder;
        let before = config.normalize_before;
        let x = if before { norm(&layer.attention_norm, input) } else { input.clone() };
        let mut x = sum(self_attention(&layer.attention, &x, position, config.heads), input);
        if !before {
            x = norm(&layer.attention_norm, &x);
        }
        if before {
            // Not the usual pre-norm: the normalised tokens are also what the feed-forward result is added to.
            x = norm(&layer.final_norm, &x);
        }
        let fed = linear(&layer.fc2, &linear(&layer.fc1, &x, Some(config.activation)), None);
        x = sum(fed, &x);
        if before { x } else { norm(&layer.final_norm, &x) }
    }

    /// Top-down, then bottom-up.
    fn fuse(&self, maps: Vec<Tensor>) -> Vec<Tensor> {
        let encoder = &self.weights.encoder;
        let activation = Some(self.weights.config.encoder.conv_activation);
        let mut maps = maps;
        for (i, (lateral, csp)) in encoder.lateral.iter().zip(&encoder.fpn).enumerate() {
            let coarse = LEVELS - 1 - i;
            maps[coarse] = conv(lateral, &maps[coarse], activation, None);
            maps[coarse - 1] = self.csp(csp, &concat(&upsample2x(&maps[coarse]), &maps[coarse - 1]));
        }
        for (fine, (downsample, csp)) in encoder.downsample.iter().zip(&encoder.pan).enumerate() {
            let down = conv(downsample, &maps[fine], activation, None);
            maps[fine + 1] = self.csp(csp, &concat(&down, &maps[fine + 1]));
        }
        maps
    }

    fn csp(&self, csp: &Csp, input: &Tensor) -> Tensor {
        let activation = Some(self.weights.config.encoder.conv_activation);
        let mut x = conv(&csp.conv1, input, activation, None);
        for layer in &csp.bottlenecks {
            x = conv(layer, &x, activation, None);
        }
        x.add(&conv(&csp.conv2, input, activation, None));
        match &csp.conv3 {
            Some(layer) => conv(layer, &x, activation, None),
            None => x,
        }
    }

    fn memory(&self, maps: &[Tensor]) -> Tensor {
        let mut memory = Tensor { width: 0, height: 1, channels: self.weights.config.decoder.hidden, data: Vec::new() };
        for (layer, map) in self.weights.decoder.input_projection.iter().zip(maps) {
            let map = conv(layer, map, None, None);
            memory.width += map.pixels();
            memory.data.extend(map.data);
        }
        memory
    }

    /// The chosen tokens, their logits, their boxes and the first queries.
    fn select(&self, memory: &Tensor, levels: &[[usize; 2]]) -> (Vec<usize>, Tensor, Tensor, Tensor) {
        let (selection, queries) = (&self.weights.selection, self.weights.config.decoder.queries);
        let (anchors, valid) = anchors::anchors(levels);
        let mut masked = memory.clone();
        for (token, _) in masked.data.chunks_exact_mut(memory.channels).zip(valid).filter(|(_, valid)| !valid) {
            token.fill(0.0);
        }
        let output = norm(&selection.norm, &linear(&selection.output, &masked, None));
        let logits = linear(&selection.score, &output, None);
        let best = |token: &[f32]| token.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let scores: Vec<f32> = logits.data.chunks_exact(logits.channels).map(best).collect();
        let selected = top_k::top_k(&scores, queries);
        let target = rows(&output, &selected);
        let mut boxes = sum(mlp(&selection.bbox, &target), &rows(&anchors, &selected));
        boxes.data.iter_mut().for_each(|v| *v = sigmoid(*v));
        let logits = rows(&logits, &selected);
        (selected, logits, boxes, target)
    }

    fn decode(
        &self,
        layer: &DecoderLayer,
        input: &Tensor,
        boxes: &Tensor,
        memory: &Tensor,
        levels: &[[usize; 2]],
    ) -> Tensor {
        let config = &self.weights.config.decoder;
        let position = mlp(&self.weights.decoder.query_position, boxes);
        let x = sum(self_attention(&layer.self_attention, input, Some(&position), config.heads), input);
        let x = norm(&layer.self_attention_norm, &x);
        let cross = &layer.cross_attention;
        let placed = sum(x.clone(), &position);
        let sampled = cpu::deformable_attention(&DeformableAttention {
            value: &linear(&cross.value, memory, None),
            levels,
            offsets: &linear(&cross.sampling_offsets, &placed, None),
            logits: &linear(&cross.attention_weights, &placed, None),
            boxes,
            heads: config.heads,
            points: config.points,
            point_scale: &cross.point_scale,
            offset_scale: config.offset_scale,
            sampling: config.sampling,
        });
        let x = norm(&layer.cross_attention_norm, &sum(linear(&cross.output, &sampled, None), &x));
        let fed = linear(&layer.fc2, &linear(&layer.fc1, &x, Some(config.activation)), None);
        norm(&layer.final_norm, &sum(fed, &x))
    }
}
