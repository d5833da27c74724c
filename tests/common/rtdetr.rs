// SPDX-License-Identifier: MIT OR Apache-2.0
//! The golden checkpoints of `tests/golden/rtdetr`, shared by the test programs.
//!
//! Each folder is a small checkpoint as transformers saves it, with `golden.safetensors` (the script beside them says
//! how it was made): the picture and what transformers computed from it in float32, stage by stage.
#![allow(dead_code)] // Each test program uses a part of this.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use gstframecast::nn::cpu::Tensor;
use gstframecast::rtdetr::{Candidate, Config, PreprocessorConfig, RgbImage, Weights};
use half::{bf16, f16};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;

/// The golden checkpoints of square pictures, whose reference is the issue's.
pub const FOLDERS: [&str; 4] = ["tiny-basic", "tiny-basic-half-csp", "tiny-bottleneck", "tiny-bottleneck-discrete"];

/// A folder of golden vectors.
pub fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/rtdetr").join(name)
}

/// Float32 values of little-endian bytes.
pub fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|&b| f32::from_le_bytes(b)).collect()
}

/// What transformers computed for a folder's picture.
pub struct Golden {
    name: String,
    tensors: BTreeMap<String, (Vec<usize>, Vec<f32>)>,
    pub image: RgbImage,
}

impl Golden {
    pub fn load(name: &str) -> Self {
        let bytes = fs::read(folder(name).join("golden.safetensors")).expect("golden.safetensors");
        let file = SafeTensors::deserialize(&bytes).expect("golden.safetensors");
        let mut tensors = BTreeMap::new();
        let mut image = None;
        for (key, view) in file.iter() {
            match view.dtype() {
                Dtype::U8 => {
                    let &[height, width, 3] = view.shape() else { panic!("{name}: {key} is {:?}", view.shape()) };
                    image = Some(RgbImage { width, height, data: view.data().to_vec() });
                }
                Dtype::F32 => {
                    tensors.insert(key.to_owned(), (view.shape().to_vec(), floats(view.data())));
                }
                other => panic!("{name}: {key} is {other}"),
            }
        }
        Self { name: name.into(), tensors, image: image.expect("image_u8") }
    }

    fn values(&self, key: &str) -> (&[usize], &[f32]) {
        let (shape, values) = self.tensors.get(key).unwrap_or_else(|| panic!("{}: no {key}", self.name));
        (shape, values)
    }

    /// A map, `[1, C, H, W]` in the file.
    pub fn map(&self, key: &str) -> Tensor {
        let (&[1, channels, height, width], values) = self.values(key) else { panic!("{key} is no map") };
        Tensor::from_fn(width, height, channels, |x, y, out| {
            for (c, out) in out.iter_mut().enumerate() {
                *out = values[(c * height + y) * width + x];
            }
        })
    }

    /// A sequence, `[1, N, C]` in the file.
    pub fn tokens(&self, key: &str) -> Tensor {
        let (&[1, width, channels], values) = self.values(key) else { panic!("{key} is no sequence") };
        Tensor { width, height: 1, channels, data: values.to_vec() }
    }

    /// Sequences of each layer, `[1, L, N, C]` in the file.
    pub fn layers(&self, key: &str) -> Vec<Tensor> {
        let (&[1, _, width, channels], values) = self.values(key) else { panic!("{key} has no layers") };
        let layer = |data: &[f32]| Tensor { width, height: 1, channels, data: data.to_vec() };
        values.chunks_exact(width * channels).map(layer).collect()
    }
}

/// The largest absolute difference of two tensors of one shape; infinite where one holds what is not finite.
pub fn worst(got: &Tensor, want: &Tensor) -> f32 {
    assert_eq!((got.width, got.height, got.channels), (want.width, want.height, want.channels), "shapes");
    let difference = |(g, w): (&f32, &f32)| if g.is_finite() && w.is_finite() { (g - w).abs() } else { f32::INFINITY };
    got.data.iter().zip(&want.data).map(difference).fold(0.0, f32::max)
}

/// For each row of `want` the row of `got` that is nearest and not yet taken: where scores tie, the order of queries is
/// free.
pub fn matching_rows(got: &[&Tensor], want: &[&Tensor]) -> Vec<usize> {
    let queries = want[0].width;
    let distance = |g: usize, w: usize| {
        let pairs = got.iter().zip(want).flat_map(|(got, want)| got.at(g, 0).iter().zip(want.at(w, 0)));
        pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
    };
    let mut free: Vec<usize> = (0..queries).collect();
    (0..queries)
        .map(|w| {
            let nearest = (0..free.len()).min_by(|&a, &b| distance(free[a], w).total_cmp(&distance(free[b], w)));
            free.remove(nearest.expect("a free row"))
        })
        .collect()
}

/// Rows of a sequence, by index.
pub fn rows(source: &Tensor, indices: &[usize]) -> Tensor {
    Tensor::from_fn(indices.len(), 1, source.channels, |i, _, out| out.copy_from_slice(source.at(indices[i], 0)))
}

/// Checks that two lists of candidates are the same detections within `tolerance` (score and each box value), in any
/// order. A candidate whose score is within `tolerance` of the lowest may be in one list only.
#[track_caller]
pub fn assert_same_candidates(got: &[Candidate], want: &[Candidate], tolerance: f32) {
    assert_eq!(got.len(), want.len(), "candidates");
    let lowest = want.iter().map(|c| c.score).fold(f32::INFINITY, f32::min);
    let distance = |a: &Candidate, b: &Candidate| {
        let boxes = a.bbox.iter().zip(b.bbox).map(|(a, b)| (a - b).abs());
        if a.label == b.label { boxes.fold((a.score - b.score).abs(), f32::max) } else { f32::INFINITY }
    };
    let mut free = got.to_vec();
    let mut matched = 0;
    for candidate in want {
        let distances = free.iter().map(|other| distance(other, candidate)).enumerate();
        match distances.min_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, distance)| *distance < tolerance) {
            Some((i, _)) => {
                free.swap_remove(i);
                matched += 1;
            }
            None => assert!(candidate.score - lowest < tolerance, "no match for {candidate:?}"),
        }
    }
    assert!(matched * 10 >= want.len() * 9, "only {matched} of {} match", want.len());
}

/// A tensor of a checkpoint to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    pub dtype: Dtype,
    pub shape: Vec<usize>,
    pub bytes: Vec<u8>,
}

/// A checkpoint in memory, to be changed and written again.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    pub config: Value,
    pub tensors: BTreeMap<String, Entry>,
}

impl Checkpoint {
    pub fn load(name: &str) -> Self {
        let config = fs::read(folder(name).join("config.json")).expect("config.json");
        let bytes = fs::read(folder(name).join("model.safetensors")).expect("model.safetensors");
        let file = SafeTensors::deserialize(&bytes).expect("model.safetensors");
        let entry = |view: TensorView<'_>| Entry {
            dtype: view.dtype(),
            shape: view.shape().to_vec(),
            bytes: view.data().to_vec(),
        };
        Self {
            config: serde_json::from_slice(&config).expect("config.json"),
            tensors: file.iter().map(|(name, view)| (name.to_owned(), entry(view))).collect(),
        }
    }

    /// The bytes of a safetensors file with the tensors that `keep` wants.
    pub fn safetensors(&self, keep: impl Fn(&str) -> bool) -> Vec<u8> {
        let views = self.tensors.iter().filter(|(name, _)| keep(name)).map(|(name, entry)| {
            (name.as_str(), TensorView::new(entry.dtype, entry.shape.clone(), &entry.bytes).expect("a whole tensor"))
        });
        safetensors::serialize(views.collect::<Vec<_>>(), None).expect("a safetensors file")
    }

    pub fn geometry(&self) -> (Config, PreprocessorConfig) {
        let json = serde_json::to_vec(&self.config).expect("JSON");
        let config = Config::from_json("config.json", &json).expect("a good config.json");
        let preprocessor = config.default_preprocessor();
        (config, preprocessor)
    }

    /// The weights, without going through files.
    pub fn weights(&self) -> Result<Weights, gstframecast::Error> {
        let (config, preprocessor) = self.geometry();
        Weights::from_safetensors("test.safetensors", config, preprocessor, &self.safetensors(|_| true))
    }

    /// Writes `config.json` and `model.safetensors`.
    pub fn write(&self, folder: &Path) {
        self.write_config(folder);
        fs::write(folder.join("model.safetensors"), self.safetensors(|_| true)).expect("a written file");
    }

    pub fn write_config(&self, folder: &Path) {
        fs::write(folder.join("config.json"), serde_json::to_vec(&self.config).expect("JSON")).expect("a written file");
    }

    /// Float tensors stored as `dtype` (F16 or BF16).
    pub fn stored_as(&self, dtype: Dtype) -> Self {
        let mut copy = self.clone();
        for entry in copy.tensors.values_mut().filter(|entry| entry.dtype == Dtype::F32) {
            let bytes = floats(&entry.bytes).into_iter().flat_map(|v| match dtype {
                Dtype::F16 => f16::from_f32(v).to_le_bytes(),
                Dtype::BF16 => bf16::from_f32(v).to_le_bytes(),
                other => panic!("not a 16-bit type: {other}"),
            });
            *entry = Entry { dtype, bytes: bytes.collect(), shape: entry.shape.clone() };
        }
        copy
    }

    /// The tensors under other names.
    pub fn renamed(&self, rename: impl Fn(&str) -> String) -> Self {
        let tensors = self.tensors.iter().map(|(name, entry)| (rename(name), entry.clone())).collect();
        Self { config: self.config.clone(), tensors }
    }
}
