// SPDX-License-Identifier: MIT OR Apache-2.0
//! The weights of a checkpoint: every tensor found, checked, its batch norm folded in, RepVGG branches fused.
//!
//! A batch norm folds into its convolution as `s = γ / √(var + eps)`, `weight·s`, `bias = β - mean·s`. A RepVGG block,
//! `3×3 + 1×1`, becomes one 3×3: the folded 1×1 is added to the centre tap, the biases are added.

use std::path::Path;

use rayon::prelude::*;

use super::config::{BackboneConfig, BlockKind, Config, LEVELS, PreprocessorConfig};
use super::tensors::{self, Files, Tensors};
use crate::error::{Error, Result};

/// Of the batch norms of the backbone and behind it, which take no eps from the configuration.
const FROZEN_EPS: f32 = 1e-5;

/// A square convolution with its batch norm folded in.
#[derive(Debug, Clone, PartialEq)]
pub struct Conv {
    pub cin: usize,
    pub cout: usize,
    /// 1 or 3.
    pub kernel: usize,
    pub stride: usize,
    /// Zeros on every side, `kernel / 2`.
    pub padding: usize,
    /// OIHW, `[cout, cin, kernel, kernel]`.
    pub weight: Vec<f32>,
    /// `[cout]`.
    pub bias: Vec<f32>,
}

/// A fully connected layer.
#[derive(Debug, Clone, PartialEq)]
pub struct Linear {
    pub inputs: usize,
    pub outputs: usize,
    /// `[outputs, inputs]`.
    pub weight: Vec<f32>,
    /// `[outputs]`.
    pub bias: Vec<f32>,
}

/// A layer norm.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerNorm {
    pub weight: Vec<f32>,
    pub bias: Vec<f32>,
    pub eps: f32,
}

/// What a residual block adds to its convolutions where its shape changes.
#[derive(Debug, Clone, PartialEq)]
pub struct Shortcut {
    /// Whether a 2×2 average pool (stride 2, rounded up) comes first; the convolution then has stride 1.
    pub pool: bool,
    /// 1×1.
    pub conv: Conv,
}

/// A residual block: the convolutions with ReLU between them (whatever the configuration), plus the shortcut, then the
/// backbone's activation.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// Two (basic) or three (bottleneck).
    pub convs: Vec<Conv>,
    /// `None`: the block's input itself.
    pub shortcut: Option<Shortcut>,
}

/// The backbone. Its stem ends with a 3×3 max pool (stride 2, padding 1).
#[derive(Debug, Clone, PartialEq)]
pub struct Backbone {
    /// 3×3, the first with stride 2, an activation after each.
    pub stem: [Conv; 3],
    /// The blocks of the four stages.
    pub stages: Vec<Vec<Block>>,
}

/// The projections of multi-head attention.
#[derive(Debug, Clone, PartialEq)]
pub struct Attention {
    pub query: Linear,
    pub key: Linear,
    pub value: Linear,
    pub output: Linear,
}

/// A transformer layer of the encoder (AIFI).
#[derive(Debug, Clone, PartialEq)]
pub struct EncoderLayer {
    pub attention: Attention,
    pub attention_norm: LayerNorm,
    pub fc1: Linear,
    pub fc2: Linear,
    pub final_norm: LayerNorm,
}

/// A CSP block: `conv3(bottlenecks(conv1(x)) + conv2(x))`, the activation after every convolution.
#[derive(Debug, Clone, PartialEq)]
pub struct Csp {
    /// 1×1, 2E to h.
    pub conv1: Conv,
    /// 1×1, 2E to h.
    pub conv2: Conv,
    /// 3×3, h to h, one after the other, each a fused RepVGG block.
    pub bottlenecks: [Conv; 3],
    /// 1×1, h to E; exists where h is not E.
    pub conv3: Option<Conv>,
}

/// The hybrid encoder.
#[derive(Debug, Clone, PartialEq)]
pub struct Encoder {
    /// 1×1 to E, no activation, one for each map of the backbone.
    pub input_projection: [Conv; LEVELS],
    /// For each of [`super::config::EncoderConfig::levels`], its transformer layers.
    pub transformers: Vec<Vec<EncoderLayer>>,
    /// 1×1, with the activation.
    pub lateral: [Conv; 2],
    /// Top-down.
    pub fpn: [Csp; 2],
    /// 3×3 with stride 2 and the activation.
    pub downsample: [Conv; 2],
    /// Bottom-up.
    pub pan: [Csp; 2],
}

/// The choice of the queries among the memory's tokens.
#[derive(Debug, Clone, PartialEq)]
pub struct Selection {
    pub output: Linear,
    pub norm: LayerNorm,
    /// D to C.
    pub score: Linear,
    /// D to D to D to 4, ReLU between.
    pub bbox: [Linear; 3],
}

/// The projections of deformable attention.
#[derive(Debug, Clone, PartialEq)]
pub struct DeformableAttention {
    /// To `heads·levels·points·2`, see [`crate::nn::cpu::DeformableAttention::offsets`].
    pub sampling_offsets: Linear,
    /// To `heads·levels·points`.
    pub attention_weights: Linear,
    pub value: Linear,
    pub output: Linear,
    /// `levels·points` factors of the offsets.
    pub point_scale: Vec<f32>,
}

/// A layer of the decoder with its heads.
#[derive(Debug, Clone, PartialEq)]
pub struct DecoderLayer {
    pub self_attention: Attention,
    pub self_attention_norm: LayerNorm,
    pub cross_attention: DeformableAttention,
    pub cross_attention_norm: LayerNorm,
    pub fc1: Linear,
    pub fc2: Linear,
    pub final_norm: LayerNorm,
    /// D to D to D to 4, ReLU between.
    pub bbox: [Linear; 3],
    /// D to C; only the last layer's is needed for detections.
    pub class: Linear,
}

/// The decoder.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoder {
    /// 1×1 from E to D, no activation.
    pub input_projection: [Conv; LEVELS],
    /// 4 to 2D to D, ReLU between.
    pub query_position: [Linear; 2],
    pub layers: Vec<DecoderLayer>,
}

/// All weights of a checkpoint, in float32.
#[derive(Debug, Clone, PartialEq)]
pub struct Weights {
    name: String,
    pub config: Config,
    pub preprocessor: PreprocessorConfig,
    pub backbone: Backbone,
    pub encoder: Encoder,
    pub selection: Selection,
    pub decoder: Decoder,
}

impl Weights {
    /// Reads a checkpoint in the format of Hugging Face transformers: a folder with `config.json` and
    /// `model.safetensors` or `model.safetensors.index.json`, or the path of one of the latter two (or of a
    /// `.safetensors` file of any name) with `config.json` beside it. `preprocessor_config.json` is read where it is
    /// there. Tensors may be F32, F16 or BF16.
    ///
    /// # Errors
    /// [`Error::ModelRead`] where a file cannot be read; [`Error::ModelInvalid`] where it is not such a checkpoint,
    /// naming the key or the tensor and what was expected.
    pub fn load(path: &Path) -> Result<Self> {
        let files = Files::read(path)?;
        let config_path = files.folder.join("config.json");
        let json = tensors::read(&config_path, "the geometry that the weights need beside them")?;
        let config = Config::from_json(&config_path.display().to_string(), &json)?;
        let preprocessor_path = files.folder.join("preprocessor_config.json");
        let preprocessor = if preprocessor_path.exists() {
            let json = tensors::read(&preprocessor_path, "how the checkpoint wants its pictures")?;
            config.preprocessor_from_json(&preprocessor_path.display().to_string(), &json)?
        } else {
            config.default_preprocessor()
        };
        let name = path.display().to_string();
        let shards: Vec<(&str, &[u8])> = files.shards.iter().map(|(name, bytes)| (&**name, &**bytes)).collect();
        let tensors = Tensors::new(&name, &shards, files.weight_map.as_ref())?;
        Self::build(&name, config, preprocessor, &tensors)
    }

    /// Takes the weights from the bytes of a safetensors file; `name` stands in errors and in [`Weights::name`].
    pub fn from_safetensors(
        name: &str,
        config: Config,
        preprocessor: PreprocessorConfig,
        bytes: &[u8],
    ) -> Result<Self> {
        let tensors = Tensors::new(name, &[(name, bytes)], None)?;
        Self::build(name, config, preprocessor, &tensors)
    }

    /// The path they were read from, or what they are otherwise.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn build(
        name: &str,
        config: Config,
        preprocessor: PreprocessorConfig,
        tensors: &Tensors<'_>,
    ) -> Result<Self> {
        let reader = Reader { tensors, config: &config };
        // Reading, folding and fusing run on several threads.
        let ((backbone, encoder), (selection, decoder)) = rayon::join(
            || rayon::join(|| reader.backbone(), || reader.encoder()),
            || rayon::join(|| reader.selection(), || reader.decoder()),
        );
        // In the order of the network, so that of several faults the same one is told each time.
        let (backbone, encoder, selection, decoder) = (backbone?, encoder?, selection?, decoder?);
        let ignored = |name: &&str| !name.ends_with(".num_batches_tracked") && !name.contains("denoising_class_embed");
        let unused: Vec<_> = tensors.unused().into_iter().filter(ignored).collect();
        if !unused.is_empty() {
            log::warn!("{name}: tensors that this geometry does not use: {}", unused.join(", "));
        }
        Ok(Self { name: name.into(), preprocessor, backbone, encoder, selection, decoder, config })
    }
}

/// Takes the layers of a geometry out of a checkpoint.
struct Reader<'a> {
    tensors: &'a Tensors<'a>,
    config: &'a Config,
}

/// `make` of 0..N, until the first error.
fn array<T, const N: usize>(make: impl Fn(usize) -> Result<T>) -> Result<[T; N]> {
    let made = (0..N).map(make).collect::<Result<Vec<_>>>()?;
    made.try_into().map_err(|_| Error::Usage("a list of another length".into()))
}

/// `make` of 0..n on several threads; of several errors, the first.
fn parallel<T: Send>(n: usize, make: impl Fn(usize) -> Result<T> + Sync + Send) -> Result<Vec<T>> {
    let made: Vec<Result<T>> = (0..n).into_par_iter().map(make).collect();
    made.into_iter().collect()
}

/// Shape of a convolution.
#[derive(Clone, Copy)]
struct Shape {
    cin: usize,
    cout: usize,
    kernel: usize,
    stride: usize,
}

impl Shape {
    fn new(cin: usize, cout: usize, kernel: usize) -> Self {
        Self { cin, cout, kernel, stride: 1 }
    }

    fn stride(self, stride: usize) -> Self {
        Self { stride, ..self }
    }
}

impl Reader<'_> {
    /// `{conv}.weight` with the batch norm `{norm}.*` folded in.
    fn conv(&self, conv: &str, norm: &str, shape: Shape, eps: f32) -> Result<Conv> {
        let Shape { cin, cout, kernel, stride } = shape;
        let mut weight = self.tensors.take(&format!("{conv}.weight"), &[cout, cin, kernel, kernel])?;
        let parameter = |part: &str| self.tensors.take(&format!("{norm}.{part}"), &[cout]);
        let (gamma, beta) = (parameter("weight")?, parameter("bias")?);
        let (mean, var) = (parameter("running_mean")?, parameter("running_var")?);
        if let Some(i) = var.iter().position(|&v| v < 0.0) {
            let value = var[i];
            return Err(self.tensors.invalid(format!(
                "tensor {norm}.running_var holds {value} at element {i}, expected variances of 0 or more"
            )));
        }
        let mut bias = Vec::with_capacity(cout);
        for (o, taps) in weight.chunks_exact_mut(cin * kernel * kernel).enumerate() {
            let scale = gamma[o] / (var[o] + eps).sqrt();
            taps.iter_mut().for_each(|w| *w *= scale);
            bias.push(beta[o] - mean[o] * scale);
        }
        if !weight.iter().chain(&bias).all(|v| v.is_finite()) {
            return Err(self.tensors.invalid(format!(
                "tensor {conv}.weight with the batch norm {norm} overflows float32, expected finite products"
            )));
        }
        Ok(Conv { cin, cout, kernel, stride, padding: kernel / 2, weight, bias })
    }

    /// A convolution of the backbone.
    fn resnet(&self, prefix: &str, shape: Shape) -> Result<Conv> {
        self.conv(&format!("{prefix}.convolution"), &format!("{prefix}.normalization"), shape, FROZEN_EPS)
    }

    /// A convolution of the hybrid encoder.
    fn conv_norm(&self, prefix: &str, shape: Shape) -> Result<Conv> {
        self.conv(&format!("{prefix}.conv"), &format!("{prefix}.norm"), shape, self.config.batch_norm_eps)
    }

    fn linear(&self, name: &str, inputs: usize, outputs: usize) -> Result<Linear> {
        Ok(Linear {
            inputs,
            outputs,
            weight: self.tensors.take(&format!("{name}.weight"), &[outputs, inputs])?,
            bias: self.tensors.take(&format!("{name}.bias"), &[outputs])?,
        })
    }

    fn norm(&self, name: &str, channels: usize) -> Result<LayerNorm> {
        Ok(LayerNorm {
            weight: self.tensors.take(&format!("{name}.weight"), &[channels])?,
            bias: self.tensors.take(&format!("{name}.bias"), &[channels])?,
            eps: self.config.layer_norm_eps,
        })
    }

    fn attention(&self, prefix: &str, channels: usize) -> Result<Attention> {
        let projection = |part: &str| self.linear(&format!("{prefix}.{part}_proj"), channels, channels);
        Ok(Attention {
            query: projection("q")?,
            key: projection("k")?,
            value: projection("v")?,
            output: projection("out")?,
        })
    }

    /// The three layers that end in a box.
    fn bbox(&self, prefix: &str, channels: usize) -> Result<[Linear; 3]> {
        array(|i| self.linear(&format!("{prefix}.layers.{i}"), channels, if i == 2 { 4 } else { channels }))
    }

    fn backbone(&self) -> Result<Backbone> {
        let BackboneConfig { embedding_size, hidden_sizes, depths, downsample_in_first_stage, .. } =
            self.config.backbone;
        let half = embedding_size / 2;
        let stem = [(3, half, 2), (half, half, 1), (half, embedding_size, 1)];
        let stem = array(|i| {
            let (cin, cout, stride) = stem[i];
            let name = format!("model.backbone.model.embedder.embedder.{i}");
            self.resnet(&name, Shape::new(cin, cout, 3).stride(stride))
        })?;
        let stages = parallel(4, |stage| {
            parallel(depths[stage], |block| {
                let first = block == 0;
                let cin = match (first, stage) {
                    (false, _) => hidden_sizes[stage],
                    (true, 0) => embedding_size,
                    (true, _) => hidden_sizes[stage - 1],
                };
                let halves = first && (stage > 0 || downsample_in_first_stage);
                let name = format!("model.backbone.model.encoder.stages.{stage}.layers.{block}");
                self.block(&name, cin, hidden_sizes[stage], if halves { 2 } else { 1 }, first)
            })
        })?;
        Ok(Backbone { stem, stages })
    }

    fn block(&self, name: &str, cin: usize, cout: usize, stride: usize, first: bool) -> Result<Block> {
        let config = &self.config.backbone;
        let layer = |i: usize, shape: Shape| self.resnet(&format!("{name}.layer.{i}"), shape);
        let (convs, pool, projected) = match config.block {
            BlockKind::Basic => {
                let convs =
                    vec![layer(0, Shape::new(cin, cout, 3).stride(stride))?, layer(1, Shape::new(cout, cout, 3))?];
                // The first block of a stage always projects, and pools where the channels change.
                (convs, cin != cout, first)
            }
            BlockKind::Bottleneck => {
                let inner = cout / 4;
                let (in_first, in_second) = if config.downsample_in_bottleneck { (stride, 1) } else { (1, stride) };
                let convs = vec![
                    layer(0, Shape::new(cin, inner, 1).stride(in_first))?,
                    layer(1, Shape::new(inner, inner, 3).stride(in_second))?,
                    layer(2, Shape::new(inner, cout, 1))?,
                ];
                (convs, stride == 2, cin != cout || stride != 1)
            }
        };
        let shortcut = if projected {
            // Behind the pool, the convolution is the second of a sequence.
            let (path, stride) = if pool { ("shortcut.1", 1) } else { ("shortcut", stride) };
            let conv = self.resnet(&format!("{name}.{path}"), Shape::new(cin, cout, 1).stride(stride))?;
            Some(Shortcut { pool, conv })
        } else {
            None
        };
        Ok(Block { convs, shortcut })
    }

    fn encoder(&self) -> Result<Encoder> {
        let config = &self.config.encoder;
        let e = config.hidden;
        let input_projection = array(|level| {
            let prefix = format!("model.encoder_input_proj.{level}");
            let cin = self.config.backbone.hidden_sizes[level + 1];
            self.conv(&format!("{prefix}.0"), &format!("{prefix}.1"), Shape::new(cin, e, 1), FROZEN_EPS)
        })?;
        let transformers = parallel(config.levels.len(), |i| {
            parallel(config.layers, |layer| {
                let prefix = format!("model.encoder.encoder.{i}.layers.{layer}");
                Ok(EncoderLayer {
                    attention: self.attention(&format!("{prefix}.self_attn"), e)?,
                    attention_norm: self.norm(&format!("{prefix}.self_attn_layer_norm"), e)?,
                    fc1: self.linear(&format!("{prefix}.fc1"), e, config.ffn)?,
                    fc2: self.linear(&format!("{prefix}.fc2"), config.ffn, e)?,
                    final_norm: self.norm(&format!("{prefix}.final_layer_norm"), e)?,
                })
            })
        })?;
        let (fpn, pan) = rayon::join(
            || array(|i| self.csp(&format!("model.encoder.fpn_blocks.{i}"))),
            || array(|i| self.csp(&format!("model.encoder.pan_blocks.{i}"))),
        );
        Ok(Encoder {
            input_projection,
            transformers,
            lateral: array(|i| self.conv_norm(&format!("model.encoder.lateral_convs.{i}"), Shape::new(e, e, 1)))?,
            fpn: fpn?,
            downsample: array(|i| {
                self.conv_norm(&format!("model.encoder.downsample_convs.{i}"), Shape::new(e, e, 3).stride(2))
            })?,
            pan: pan?,
        })
    }

    fn csp(&self, prefix: &str) -> Result<Csp> {
        let (e, h) = (self.config.encoder.hidden, self.config.encoder.csp_hidden);
        let conv3 = format!("{prefix}.conv3");
        let conv3_weight = format!("{conv3}.conv.weight");
        if h == e && self.tensors.contains(&conv3_weight) {
            return Err(self.tensors.invalid(format!(
                "tensor {conv3_weight} exists, expected none since hidden_expansion makes as many channels as \
                 encoder_hidden_dim, {e}"
            )));
        }
        Ok(Csp {
            conv1: self.conv_norm(&format!("{prefix}.conv1"), Shape::new(2 * e, h, 1))?,
            conv2: self.conv_norm(&format!("{prefix}.conv2"), Shape::new(2 * e, h, 1))?,
            bottlenecks: array(|i| self.rep_vgg(&format!("{prefix}.bottlenecks.{i}"), h))?,
            conv3: if h == e { None } else { Some(self.conv_norm(&conv3, Shape::new(h, e, 1))?) },
        })
    }

    fn rep_vgg(&self, prefix: &str, channels: usize) -> Result<Conv> {
        let mut fused = self.conv_norm(&format!("{prefix}.conv1"), Shape::new(channels, channels, 3))?;
        let centre = self.conv_norm(&format!("{prefix}.conv2"), Shape::new(channels, channels, 1))?;
        for (taps, w) in fused.weight.chunks_exact_mut(9).zip(&centre.weight) {
            taps[4] += w;
        }
        for (bias, b) in fused.bias.iter_mut().zip(&centre.bias) {
            *bias += b;
        }
        Ok(fused)
    }

    fn selection(&self) -> Result<Selection> {
        let d = self.config.decoder.hidden;
        Ok(Selection {
            output: self.linear("model.enc_output.0", d, d)?,
            norm: self.norm("model.enc_output.1", d)?,
            score: self.class("model.enc_score_head")?,
            bbox: self.bbox("model.enc_bbox_head", d)?,
        })
    }

    /// A layer to the classes, whose rows are checked against the configuration's names.
    fn class(&self, name: &str) -> Result<Linear> {
        let classes = self.config.classes();
        let weight = format!("{name}.weight");
        if let Some(&[rows, _]) = self.tensors.shape(&weight)
            && rows != classes
        {
            return Err(self.tensors.invalid(format!(
                "tensor {weight} is for {rows} classes, expected {classes}, as many as id2label of config.json names"
            )));
        }
        self.linear(name, self.config.decoder.hidden, classes)
    }

    fn decoder(&self) -> Result<Decoder> {
        let config = &self.config.decoder;
        let (e, d) = (self.config.encoder.hidden, config.hidden);
        let input_projection = array(|level| {
            let prefix = format!("model.decoder_input_proj.{level}");
            let eps = self.config.batch_norm_eps;
            self.conv(&format!("{prefix}.0"), &format!("{prefix}.1"), Shape::new(e, d, 1), eps)
        })?;
        let query_position = array(|i| {
            let (inputs, outputs) = if i == 0 { (4, 2 * d) } else { (2 * d, d) };
            self.linear(&format!("model.decoder.query_pos_head.layers.{i}"), inputs, outputs)
        })?;
        let layers = parallel(config.layers, |n| {
            let prefix = format!("model.decoder.layers.{n}");
            Ok(DecoderLayer {
                self_attention: self.attention(&format!("{prefix}.self_attn"), d)?,
                self_attention_norm: self.norm(&format!("{prefix}.self_attn_layer_norm"), d)?,
                cross_attention: self.deformable(&format!("{prefix}.encoder_attn"))?,
                cross_attention_norm: self.norm(&format!("{prefix}.encoder_attn_layer_norm"), d)?,
                fc1: self.linear(&format!("{prefix}.fc1"), d, config.ffn)?,
                fc2: self.linear(&format!("{prefix}.fc2"), config.ffn, d)?,
                final_norm: self.norm(&format!("{prefix}.final_layer_norm"), d)?,
                bbox: self.bbox(&format!("model.decoder.bbox_embed.{n}"), d)?,
                class: self.class(&format!("model.decoder.class_embed.{n}"))?,
            })
        })?;
        Ok(Decoder { input_projection, query_position, layers })
    }

    fn deformable(&self, prefix: &str) -> Result<DeformableAttention> {
        let config = &self.config.decoder;
        let (d, samples) = (config.hidden, LEVELS * config.points);
        let scale = format!("{prefix}.n_points_scale");
        Ok(DeformableAttention {
            sampling_offsets: self.linear(&format!("{prefix}.sampling_offsets"), d, config.heads * samples * 2)?,
            attention_weights: self.linear(&format!("{prefix}.attention_weights"), d, config.heads * samples)?,
            value: self.linear(&format!("{prefix}.value_proj"), d, d)?,
            output: self.linear(&format!("{prefix}.output_proj"), d, d)?,
            point_scale: if self.tensors.contains(&scale) {
                self.tensors.take(&scale, &[samples])?
            } else {
                vec![1.0 / config.points as f32; samples]
            },
        })
    }
}
