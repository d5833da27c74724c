// SPDX-License-Identifier: MIT OR Apache-2.0
//! `config.json` and `preprocessor_config.json` of a checkpoint: read, completed with the defaults of transformers and
//! checked, so that everything behind them only sees geometries it can run.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::RangeInclusive;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::nn::cpu::{Activation, Sampling};

/// Feature maps that leave the backbone, and levels of the decoder's memory.
pub const LEVELS: usize = 3;

/// Residual blocks of the backbone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BlockKind {
    /// Two 3×3 convolutions (ResNet 18 and 34).
    Basic,
    /// 1×1 to a quarter of the channels, 3×3, 1×1 (ResNet 50 and 101).
    Bottleneck,
}

/// The ResNet-D backbone.
#[derive(Debug, Clone, PartialEq)]
pub struct BackboneConfig {
    /// Channels of the stem, even.
    pub embedding_size: usize,
    /// Channels of each stage.
    pub hidden_sizes: [usize; 4],
    /// Blocks of each stage.
    pub depths: [usize; 4],
    pub block: BlockKind,
    /// Of the stem, and of each block's sum; within the blocks it is ReLU.
    pub activation: Activation,
    /// Whether the first stage halves the size too.
    pub downsample_in_first_stage: bool,
    /// Whether a bottleneck's stride lies in its first 1×1 instead of its 3×3.
    pub downsample_in_bottleneck: bool,
}

/// The hybrid encoder.
#[derive(Debug, Clone, PartialEq)]
pub struct EncoderConfig {
    /// E, channels of all three maps.
    pub hidden: usize,
    /// Width of the feed-forward layers.
    pub ffn: usize,
    pub heads: usize,
    /// Transformer layers on each of `levels`.
    pub layers: usize,
    /// The maps that go through transformer layers (`encode_proj_layers`).
    pub levels: Vec<usize>,
    /// Of the feed-forward layers.
    pub activation: Activation,
    /// Of the convolutions between the levels.
    pub conv_activation: Activation,
    pub normalize_before: bool,
    /// The temperature T of the position embedding; `None` where the checkpoint's `eval_size` is set: transformers 5
    /// then adds no embedding (4 fails).
    pub position_temperature: Option<f64>,
    /// Channels inside the CSP blocks, `trunc(E·hidden_expansion)`; blocks whose channels are not E end with a 1×1
    /// convolution back to E.
    pub csp_hidden: usize,
}

/// The decoder.
#[derive(Debug, Clone, PartialEq)]
pub struct DecoderConfig {
    /// D.
    pub hidden: usize,
    pub ffn: usize,
    pub heads: usize,
    /// L.
    pub layers: usize,
    /// Q.
    pub queries: usize,
    /// Sampling points on each level.
    pub points: usize,
    /// A factor of the sampling offsets.
    pub offset_scale: f32,
    pub sampling: Sampling,
    /// Of the feed-forward layers.
    pub activation: Activation,
}

/// The geometry of a checkpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Class names, by class.
    pub labels: Vec<String>,
    pub backbone: BackboneConfig,
    pub encoder: EncoderConfig,
    pub decoder: DecoderConfig,
    pub layer_norm_eps: f32,
    /// Of the batch norms outside the backbone.
    pub batch_norm_eps: f32,
    /// `anchor_image_size`, width and height: the network's input where no preprocessor says otherwise.
    pub anchor_image_size: Option<[usize; 2]>,
}

/// A size to which pictures are brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// Width, height; the aspect ratio is not kept.
    Exact([usize; 2]),
    /// The shorter side becomes `shortest`, but the longer at most `longest`.
    Edges { shortest: usize, longest: usize },
    /// As large as fits into this width and height.
    Within([usize; 2]),
}

/// How pictures become the network's input, as `preprocessor_config.json` says.
#[derive(Debug, Clone, PartialEq)]
pub struct PreprocessorConfig {
    pub size: Size,
    /// Width, height to which pictures are padded at the right and the bottom (`do_pad` with `pad_size`).
    pub pad_size: Option<[usize; 2]>,
    /// For R, G, B: `value = code·scale + offset`.
    pub scale: [f32; 3],
    pub offset: [f32; 3],
}

/// Largest value taken seriously for any number of channels, classes or queries.
const MANY: usize = 1 << 16;

/// Longest side of the network's input.
pub const MAX_SIDE: usize = 4096;

impl Config {
    /// Reads `config.json`; `name` stands in errors.
    ///
    /// # Errors
    /// [`Error::ModelInvalid`] with a sentence on the key that is wrong, or on what this model is instead.
    pub fn from_json(name: &str, json: &[u8]) -> Result<Self> {
        let map = parse(name, json)?;
        let root = Object { name, prefix: String::new(), map: &map };
        root.check_model()?;
        let hidden = root.count("encoder_hidden_dim", 256, 1..=MANY)?;
        let encoder = root.encoder(hidden)?;
        Ok(Self {
            labels: root.labels()?,
            backbone: root.backbone()?,
            decoder: root.decoder(hidden)?,
            encoder,
            layer_norm_eps: root.epsilon("layer_norm_eps")?,
            batch_norm_eps: root.epsilon("batch_norm_eps")?,
            anchor_image_size: root.anchor_image_size()?,
        })
    }

    /// C, the number of classes.
    pub fn classes(&self) -> usize {
        self.labels.len()
    }

    /// Both sides of the network's input must be multiples of this.
    pub fn input_multiple(&self) -> usize {
        if self.backbone.downsample_in_first_stage { 64 } else { 32 }
    }

    /// The preprocessing of a checkpoint without `preprocessor_config.json`: stretched to `anchor_image_size`, else to
    /// 640×640; code / 255.
    pub fn default_preprocessor(&self) -> PreprocessorConfig {
        PreprocessorConfig {
            size: Size::Exact(self.anchor_image_size.unwrap_or([640, 640])),
            pad_size: None,
            scale: [1.0 / 255.0; 3],
            offset: [0.0; 3],
        }
    }

    /// Reads `preprocessor_config.json`; `name` stands in errors.
    ///
    /// # Errors
    /// [`Error::ModelInvalid`] with a sentence on the key that is wrong.
    pub fn preprocessor_from_json(&self, name: &str, json: &[u8]) -> Result<PreprocessorConfig> {
        let map = parse(name, json)?;
        let root = Object { name, prefix: String::new(), map: &map };
        if !root.get("do_resize", true)? {
            return Err(root.invalid("do_resize", "is false: pictures of any size are not supported"));
        }
        // Pillow's number of the filter.
        let resample: u32 = root.get("resample", 2)?;
        if resample != 2 {
            return Err(root.invalid("resample", format!("is {resample}, only 2 (bilinear) is supported")));
        }
        let size = match root.object("size")? {
            None => self.default_preprocessor().size,
            Some(size) => size.size(self.input_multiple())?,
        };
        let pad_size = match root.object("pad_size")? {
            Some(pad) if root.get("do_pad", false)? => {
                let pad_size = pad.width_height("width", "height")?;
                let multiple = self.input_multiple();
                if pad_size.iter().any(|n| n % multiple != 0) {
                    return Err(root.invalid("pad_size", format!("{pad_size:?} is no multiple of {multiple}")));
                }
                if let Size::Exact(size) = size
                    && (0..2).any(|i| size[i] > pad_size[i])
                {
                    return Err(root.invalid("pad_size", format!("{pad_size:?} is smaller than the size, {size:?}")));
                }
                Some(pad_size)
            }
            _ => None,
        };
        if pad_size.is_none()
            && let Size::Exact(size) = size
        {
            let multiple = self.input_multiple();
            if size.iter().any(|&n| n % multiple != 0) {
                return Err(root.invalid("size", format!("{}x{} is no multiple of {multiple}", size[0], size[1])));
            }
        }
        let factor: f32 = if root.get("do_rescale", true)? { root.get("rescale_factor", 1.0 / 255.0)? } else { 1.0 };
        let (mut scale, mut offset) = ([factor; 3], [0.0; 3]);
        if root.get("do_normalize", false)? {
            let mean: [f32; 3] = root.get("image_mean", [0.485, 0.456, 0.406])?;
            let std: [f32; 3] = root.get("image_std", [0.229, 0.224, 0.225])?;
            if std.contains(&0.0) {
                return Err(root.invalid("image_std", "holds 0"));
            }
            scale = std.map(|std| factor / std);
            offset = [0, 1, 2].map(|i| -mean[i] / std[i]);
        }
        if !scale.iter().chain(&offset).all(|v| v.is_finite()) {
            return Err(root.invalid("rescale_factor", "with image_mean and image_std makes no finite values"));
        }
        Ok(PreprocessorConfig { size, pad_size, scale, offset })
    }
}

fn parse(name: &str, json: &[u8]) -> Result<Map<String, Value>> {
    serde_json::from_slice(json)
        .map_err(|error| Error::ModelInvalid { name: name.into(), reason: format!("not a JSON object: {error}") })
}

/// A JSON object whose keys are named in errors. A key that is `null` counts as absent.
struct Object<'a> {
    name: &'a str,
    /// What stands before the keys in errors.
    prefix: String,
    map: &'a Map<String, Value>,
}

impl<'a> Object<'a> {
    fn invalid(&self, key: &str, reason: impl Display) -> Error {
        Error::ModelInvalid { name: self.name.into(), reason: format!("{}{key} {reason}", self.prefix) }
    }

    /// A whole sentence, where no single key is at fault.
    fn refuse(&self, reason: &str) -> Error {
        Error::ModelInvalid { name: self.name.into(), reason: reason.into() }
    }

    fn value(&self, key: &str) -> Option<&'a Value> {
        self.map.get(key).filter(|value| !value.is_null())
    }

    fn optional<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>> {
        let read = |value| T::deserialize(value).map_err(|error| self.invalid(key, format!("is {value}: {error}")));
        self.value(key).map(read).transpose()
    }

    fn get<T: DeserializeOwned>(&self, key: &str, default: T) -> Result<T> {
        Ok(self.optional(key)?.unwrap_or(default))
    }

    fn object(&self, key: &str) -> Result<Option<Object<'a>>> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::Object(map)) => {
                Ok(Some(Object { name: self.name, prefix: format!("{}{key}.", self.prefix), map }))
            }
            Some(value) => Err(self.invalid(key, format!("is {value}, expected an object"))),
        }
    }

    fn count(&self, key: &str, default: usize, range: RangeInclusive<usize>) -> Result<usize> {
        let value = self.get(key, default)?;
        if range.contains(&value) {
            return Ok(value);
        }
        Err(self.invalid(key, format!("is {value}, expected {} to {}", range.start(), range.end())))
    }

    fn epsilon(&self, key: &str) -> Result<f32> {
        let value: f32 = self.get(key, 1e-5)?;
        if value > 0.0 && value < 1.0 {
            Ok(value)
        } else {
            Err(self.invalid(key, format!("is {value}, expected (0, 1)")))
        }
    }

    fn activation(&self, key: &str, default: &str) -> Result<Activation> {
        if self.map.get(key).is_some_and(Value::is_null) {
            // Not the default: transformers then leave the activation out.
            return Err(self.invalid(key, "is null, supported are relu, silu and gelu"));
        }
        match self.get(key, default.to_owned())?.as_str() {
            "relu" => Ok(Activation::Relu),
            "silu" | "swish" => Ok(Activation::Silu),
            "gelu" => Ok(Activation::Gelu),
            other => Err(self.invalid(key, format!("is {other:?}, supported are relu, silu and gelu"))),
        }
    }

    /// Channels that are shared among heads.
    fn check_heads(&self, key: &str, channels: usize, heads: usize) -> Result<()> {
        if channels.is_multiple_of(heads) {
            return Ok(());
        }
        Err(self.invalid(key, format!("is {heads}, which does not divide the {channels} channels")))
    }

    /// Refuses what is not RT-DETRv2, or a kind of it that no released checkpoint uses.
    fn check_model(&self) -> Result<()> {
        let architectures: Vec<String> = self.get("architectures", Vec::new())?;
        let model = match self.optional::<String>("model_type")? {
            Some(model) => model,
            None => match architectures.first().map(String::as_str) {
                Some(name) if name.starts_with("RTDetrV2") => "rt_detr_v2".to_owned(),
                Some(name) if name.starts_with("RTDetr") => "rt_detr".to_owned(),
                Some(name) if name.starts_with("DFine") => "d_fine".to_owned(),
                Some(name) => name.to_owned(),
                None => return Err(self.refuse("model_type is missing, expected \"rt_detr_v2\"")),
            },
        };
        match model.as_str() {
            "rt_detr_v2" => {}
            "rt_detr" => {
                return Err(self.refuse(
                    "this is an RT-DETR version 1 checkpoint (rt_detr), whose classes and attention differ; \
                     an RT-DETRv2 checkpoint (rt_detr_v2) is needed, such as docling-layout-heron",
                ));
            }
            "d_fine" => {
                return Err(self.refuse(
                    "this is a D-FINE checkpoint (d_fine, such as docling-layout-egret), another network; \
                     an RT-DETRv2 checkpoint (rt_detr_v2) is needed, such as docling-layout-heron",
                ));
            }
            other => return Err(self.invalid("model_type", format!("is {other:?}, expected \"rt_detr_v2\""))),
        }
        for (key, reason) in [
            ("learn_initial_query", "is true: learned initial queries are not supported"),
            ("use_timm_backbone", "is true: timm backbones are not supported"),
        ] {
            if self.get(key, false)? {
                return Err(self.invalid(key, reason));
            }
        }
        if !self.get("with_box_refine", true)? {
            return Err(self.invalid("with_box_refine", "is false: a decoder without box refinement is not supported"));
        }
        if self.value("backbone_config").is_none()
            && let Some(backbone) = self.value("backbone")
        {
            return Err(self
                .invalid("backbone", format!("is {backbone}: only a backbone_config of rt_detr_resnet is supported")));
        }
        if let Some(quantization) = self.value("quantization_config") {
            let method = quantization.get("quant_method").unwrap_or(quantization);
            return Err(
                self.invalid("quantization_config", format!("is {method}: quantised weights are not supported"))
            );
        }
        for key in ["num_feature_levels", "decoder_n_levels"] {
            let levels: usize = self.get(key, LEVELS)?;
            if levels != LEVELS {
                return Err(self.invalid(key, format!("is {levels}, only {LEVELS} levels are supported")));
            }
        }
        for key in ["encoder_in_channels", "feat_strides", "decoder_in_channels"] {
            let list: Option<Vec<usize>> = self.optional(key)?;
            if let Some(list) = list.filter(|list| list.len() != LEVELS) {
                return Err(self.invalid(key, format!("is {list:?}, expected one value for each of {LEVELS} levels")));
            }
        }
        Ok(())
    }

    fn labels(&self) -> Result<Vec<String>> {
        let declared: Option<usize> = self.optional("num_labels")?;
        let Some(names) = self.optional::<BTreeMap<String, String>>("id2label")? else {
            // Transformers assumes two classes where nothing is said; the weights then tell whether that holds.
            let count = declared.unwrap_or(2);
            if count == 0 || count > MANY {
                return Err(self.invalid("num_labels", format!("is {count}, expected 1 to {MANY}")));
            }
            return Ok((0..count).map(|i| format!("LABEL_{i}")).collect());
        };
        // The keys are numbers in strings: "10" comes after "2".
        let mut numbered = BTreeMap::new();
        for (key, label) in names {
            let Ok(id) = key.trim().parse::<usize>() else {
                return Err(self.invalid("id2label", format!("has the key {key:?}, expected the number of a class")));
            };
            if let Some(other) = numbered.insert(id, label.clone()) {
                return Err(self.invalid("id2label", format!("names class {id} twice, {other:?} and {label:?}")));
            }
        }
        let count = numbered.len();
        if let Some(missing) = (0..count).find(|id| !numbered.contains_key(id)) {
            return Err(self.invalid("id2label", format!("has {count} names but none for class {missing}")));
        }
        if count == 0 || count > MANY {
            return Err(self.invalid("id2label", format!("has {count} names, expected 1 to {MANY}")));
        }
        if let Some(declared) = declared.filter(|&n| n != count) {
            return Err(self.invalid("id2label", format!("has {count} names, num_labels says {declared}")));
        }
        Ok(numbered.into_values().collect())
    }

    fn backbone(&self) -> Result<BackboneConfig> {
        let empty = Map::new();
        let section = self.object("backbone_config")?;
        let section = section.unwrap_or(Object { name: self.name, prefix: "backbone_config.".into(), map: &empty });
        let model: String = section.get("model_type", "rt_detr_resnet".to_owned())?;
        if model != "rt_detr_resnet" {
            return Err(section.invalid("model_type", format!("is {model:?}, only rt_detr_resnet is supported")));
        }
        let channels: usize = section.get("num_channels", 3)?;
        if channels != 3 {
            return Err(section.invalid("num_channels", format!("is {channels}, expected 3 (RGB)")));
        }
        let out_features: Vec<String> = section.get("out_features", Vec::new())?;
        let out_indices: Vec<i64> = section.get("out_indices", vec![2, 3, 4])?;
        let named = out_features.is_empty() || out_features == ["stage2", "stage3", "stage4"];
        if !named || out_indices != [2, 3, 4] {
            return Err(section.invalid("out_features", "must be stage2, stage3 and stage4"));
        }
        let embedding_size = section.count("embedding_size", 64, 2..=MANY)?;
        if !embedding_size.is_multiple_of(2) {
            return Err(section.invalid("embedding_size", format!("is {embedding_size}, expected an even number")));
        }
        let block = match section.get("layer_type", "bottleneck".to_owned())?.as_str() {
            "basic" => BlockKind::Basic,
            "bottleneck" => BlockKind::Bottleneck,
            other => return Err(section.invalid("layer_type", format!("is {other:?}, expected basic or bottleneck"))),
        };
        let hidden_sizes: [usize; 4] = section.get("hidden_sizes", [256, 512, 1024, 2048])?;
        // A bottleneck's inner channels are a quarter.
        if hidden_sizes.iter().any(|n| !(4..=MANY).contains(n)) {
            return Err(section.invalid("hidden_sizes", format!("are {hidden_sizes:?}, expected 4 to {MANY} each")));
        }
        let depths: [usize; 4] = section.get("depths", [3, 4, 6, 3])?;
        if depths.iter().any(|n| !(1..=1024).contains(n)) {
            return Err(section.invalid("depths", format!("are {depths:?}, expected 1 to 1024 each")));
        }
        let downsample_in_first_stage = section.get("downsample_in_first_stage", false)?;
        if block == BlockKind::Basic && !downsample_in_first_stage && hidden_sizes[0] != embedding_size {
            // Transformers pools the shortcut there without a stride to match, and fails.
            return Err(section.invalid(
                "hidden_sizes",
                format!("start with {}, expected embedding_size, {embedding_size}, for basic blocks", hidden_sizes[0]),
            ));
        }
        Ok(BackboneConfig {
            embedding_size,
            hidden_sizes,
            depths,
            block,
            activation: section.activation("hidden_act", "relu")?,
            downsample_in_first_stage,
            downsample_in_bottleneck: section.get("downsample_in_bottleneck", false)?,
        })
    }

    fn encoder(&self, hidden: usize) -> Result<EncoderConfig> {
        let heads = self.count("encoder_attention_heads", 8, 1..=MANY)?;
        self.check_heads("encoder_attention_heads", hidden, heads)?;
        let layers = self.count("encoder_layers", 1, 0..=1024)?;
        let mut levels: Vec<usize> = self.get("encode_proj_layers", vec![2])?;
        let distinct = levels.iter().enumerate().all(|(i, level)| *level < LEVELS && !levels[..i].contains(level));
        if !distinct {
            return Err(self.invalid("encode_proj_layers", format!("are {levels:?}, expected distinct levels 0 to 2")));
        }
        if layers == 0 {
            levels.clear();
        }
        let temperature: f64 = self.get("positional_encoding_temperature", 10000.0)?;
        if !(temperature > 0.0 && temperature.is_finite()) {
            return Err(self.invalid("positional_encoding_temperature", format!("is {temperature}, expected above 0")));
        }
        let position_temperature = self.value("eval_size").is_none().then_some(temperature);
        if position_temperature.is_some() && !levels.is_empty() && !hidden.is_multiple_of(4) {
            return Err(self.invalid(
                "encoder_hidden_dim",
                format!("is {hidden}, expected a multiple of 4 for the position embedding"),
            ));
        }
        let expansion: f64 = self.get("hidden_expansion", 1.0)?;
        let csp_hidden = (hidden as f64 * expansion) as usize;
        if !(1..=MANY).contains(&csp_hidden) {
            return Err(self.invalid("hidden_expansion", format!("of {expansion} makes {csp_hidden} channels")));
        }
        Ok(EncoderConfig {
            hidden,
            ffn: self.count("encoder_ffn_dim", 1024, 1..=MANY)?,
            heads,
            layers,
            levels,
            activation: self.activation("encoder_activation_function", "gelu")?,
            conv_activation: self.activation("activation_function", "silu")?,
            normalize_before: self.get("normalize_before", false)?,
            position_temperature,
            csp_hidden,
        })
    }

    fn decoder(&self, encoder_hidden: usize) -> Result<DecoderConfig> {
        let inputs: [usize; LEVELS] = self.get("decoder_in_channels", [256; LEVELS])?;
        if inputs.iter().any(|&n| n != encoder_hidden) {
            return Err(self.invalid(
                "decoder_in_channels",
                format!("are {inputs:?}, expected encoder_hidden_dim, {encoder_hidden}, for each level"),
            ));
        }
        let hidden = self.count("d_model", 256, 1..=MANY)?;
        let heads = self.count("decoder_attention_heads", 8, 1..=MANY)?;
        self.check_heads("decoder_attention_heads", hidden, heads)?;
        let offset_scale: f32 = self.get("decoder_offset_scale", 0.5)?;
        if !offset_scale.is_finite() {
            return Err(self.invalid("decoder_offset_scale", format!("is {offset_scale}, expected a finite number")));
        }
        let sampling = match self.get("decoder_method", "default".to_owned())?.as_str() {
            "default" => Sampling::Bilinear,
            "discrete" => Sampling::Discrete,
            other => return Err(self.invalid("decoder_method", format!("is {other:?}, expected default or discrete"))),
        };
        Ok(DecoderConfig {
            hidden,
            ffn: self.count("decoder_ffn_dim", 1024, 1..=MANY)?,
            heads,
            layers: self.count("decoder_layers", 6, 1..=1024)?,
            queries: self.count("num_queries", 300, 1..=MANY)?,
            points: self.count("decoder_n_points", 4, 1..=1024)?,
            offset_scale,
            sampling,
            activation: self.activation("decoder_activation_function", "relu")?,
        })
    }

    fn anchor_image_size(&self) -> Result<Option<[usize; 2]>> {
        let Some([height, width]) = self.optional::<[usize; 2]>("anchor_image_size")? else { return Ok(None) };
        if [height, width].iter().any(|n| !(1..=MAX_SIDE).contains(n)) {
            return Err(
                self.invalid("anchor_image_size", format!("is [{height}, {width}], expected 1 to {MAX_SIDE} each"))
            );
        }
        Ok(Some([width, height]))
    }

    fn width_height(&self, width: &str, height: &str) -> Result<[usize; 2]> {
        let side = |key: &str| match self.value(key) {
            Some(_) => self.count(key, 0, 1..=MAX_SIDE),
            None => Err(self.invalid(key, "is missing")),
        };
        Ok([side(width)?, side(height)?])
    }

    /// The `size` of a preprocessor.
    fn size(&self, multiple: usize) -> Result<Size> {
        let has = |key: &str| self.value(key).is_some();
        if has("shortest_edge") && has("longest_edge") {
            let [shortest, longest] = self.width_height("shortest_edge", "longest_edge")?;
            return Ok(Size::Edges { shortest, longest });
        }
        if has("max_height") && has("max_width") {
            return Ok(Size::Within(self.width_height("max_width", "max_height")?));
        }
        if has("height") && has("width") {
            return Ok(Size::Exact(self.width_height("width", "height")?));
        }
        let keys: Vec<_> = self.map.keys().map(String::as_str).collect();
        Err(self.refuse(&format!(
            "size has the keys {}, expected height and width (multiples of {multiple}), shortest_edge and \
             longest_edge, or max_height and max_width",
            if keys.is_empty() { "none".to_owned() } else { keys.join(", ") }
        )))
    }
}
