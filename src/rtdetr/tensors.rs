// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files of a checkpoint and the tensors in them, under one spelling.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use half::{bf16, f16};
use safetensors::{Dtype, SafeTensors};
use serde::Deserialize;

use crate::error::{Error, Result};

/// Larger files are no weights of this network (101 layers in float32 have 0.3 GB) and are not read into memory.
const MAX_FILE: u64 = 4 << 30;

pub const SINGLE: &str = "model.safetensors";
pub const INDEX: &str = "model.safetensors.index.json";

/// The files of a checkpoint.
pub struct Files {
    /// The folder that holds them.
    pub folder: PathBuf,
    /// Name and bytes of each safetensors file.
    pub shards: Vec<(String, Vec<u8>)>,
    /// Which tensor the index puts into which shard, where there is an index.
    pub weight_map: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

impl Files {
    /// Reads the weights at `path`: a folder, a safetensors file or the index of several.
    pub fn read(path: &Path) -> Result<Self> {
        let metadata = fs::metadata(path).map_err(|error| read_error(path, "", &error))?;
        let file = if metadata.is_dir() {
            let found = [SINGLE, INDEX].map(|name| path.join(name)).into_iter().find(|file| file.exists());
            found.ok_or_else(|| Error::ModelRead {
                path: path.into(),
                not_found: true,
                reason: format!("the folder has neither {SINGLE} nor {INDEX}"),
            })?
        } else {
            path.to_owned()
        };
        let folder = match file.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if name.ends_with(".safetensors") {
            let bytes = read(&file, "")?;
            return Ok(Self { folder, shards: vec![(name, bytes)], weight_map: None });
        }
        let invalid = |reason: String| Error::ModelInvalid { name: file.display().to_string(), reason };
        if !name.ends_with(".safetensors.index.json") {
            return Err(invalid(format!(
                "unknown file type; a .safetensors file, a folder with {SINGLE}, or {INDEX} is read"
            )));
        }
        let index: Index = serde_json::from_slice(&read(&file, "")?)
            .map_err(|error| invalid(format!("not an index of safetensors files: {error}")))?;
        let mut names: Vec<&String> = index.weight_map.values().collect();
        names.sort_unstable();
        names.dedup();
        let mut shards = Vec::with_capacity(names.len());
        for shard in names {
            // An index must not reach out of its folder.
            let mut parts = Path::new(shard).components();
            if !matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None)) {
                return Err(invalid(format!("the shard {shard:?} is no plain file name")));
            }
            shards.push((shard.clone(), read(&folder.join(shard), "a shard that the index names")?));
        }
        Ok(Self { folder, shards, weight_map: Some(index.weight_map) })
    }
}

/// Reads a regular file of a sensible size; anything else is refused before opening it (opening a FIFO would wait for
/// ever). `what` says what the file is for, where the user did not name it.
pub fn read(path: &Path, what: &str) -> Result<Vec<u8>> {
    let metadata = fs::metadata(path).map_err(|error| read_error(path, what, &error))?;
    let refuse = |reason: String| Error::ModelRead { path: path.into(), not_found: false, reason };
    if !metadata.is_file() {
        return Err(refuse("it is not a regular file".into()));
    }
    if metadata.len() > MAX_FILE {
        return Err(refuse(format!("{} bytes are more than any model of this kind has", metadata.len())));
    }
    fs::read(path).map_err(|error| read_error(path, what, &error))
}

fn read_error(path: &Path, what: &str, error: &io::Error) -> Error {
    let not_found = matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory);
    let reason = if not_found { "no such file".to_owned() } else { error.to_string() };
    let reason = if what.is_empty() { reason } else { format!("{reason}; it is {what}") };
    Error::ModelRead { path: path.into(), not_found, reason }
}

/// A tensor of a file.
struct Entry<'a> {
    /// Its name there.
    spelling: String,
    shape: Vec<usize>,
    dtype: Dtype,
    bytes: &'a [u8],
    used: AtomicBool,
}

/// Makes up a tensor from its name and shape.
type Draw = fn(&str, &[usize]) -> Vec<f32>;

/// All tensors of a checkpoint by their canonical names ([`canonical`]).
pub struct Tensors<'a> {
    /// Stands in errors.
    name: String,
    /// Makes up every tensor; there are no entries then.
    draw: Option<Draw>,
    entries: BTreeMap<String, Entry<'a>>,
}

/// The name under which a tensor is looked for, whatever its spelling in the file: that of transformers 4, with the
/// heads inside the decoder.
///
/// | canonical | also |
/// |---|---|
/// | `model.decoder.class_embed.`, `model.decoder.bbox_embed.` | `class_embed.`, `bbox_embed.` (tied copies) |
/// | `model.encoder.encoder.` | `model.encoder.aifi.` (transformers 5) |
/// | `.self_attn.out_proj.` | `.self_attn.o_proj.` (transformers 5) |
/// | `.fc1.`, `.fc2.` | `.mlp.fc1.`, `.mlp.fc2.` (transformers 5) |
pub fn canonical(name: &str) -> String {
    let name = match name.strip_prefix("model.encoder.aifi.") {
        Some(rest) => format!("model.encoder.encoder.{rest}"),
        None if name.starts_with("class_embed.") || name.starts_with("bbox_embed.") => format!("model.decoder.{name}"),
        None => name.to_owned(),
    };
    name.replace(".self_attn.o_proj.", ".self_attn.out_proj.").replace(".mlp.fc", ".fc")
}

/// The other spellings of a canonical name.
fn aliases(name: &str) -> Vec<String> {
    if let Some(head) = name.strip_prefix("model.decoder.")
        && (head.starts_with("class_embed.") || head.starts_with("bbox_embed."))
    {
        return vec![head.to_owned()];
    }
    let renamed = name
        .replace("model.encoder.encoder.", "model.encoder.aifi.")
        .replace(".self_attn.out_proj.", ".self_attn.o_proj.")
        .replace(".fc", ".mlp.fc");
    if renamed == name { Vec::new() } else { vec![renamed] }
}

impl<'a> Tensors<'a> {
    /// Tensors of any name and shape, as `draw` makes them.
    pub fn drawn(name: &str, draw: Draw) -> Self {
        Self { name: name.into(), draw: Some(draw), entries: BTreeMap::new() }
    }

    /// Lists the tensors of one or more safetensors files, each with the name that stands in errors; `weight_map` says
    /// in which file a tensor is to be, where there is an index.
    pub fn new(name: &str, shards: &[(&str, &'a [u8])], weight_map: Option<&BTreeMap<String, String>>) -> Result<Self> {
        let mut tensors = Self { name: name.into(), draw: None, entries: BTreeMap::new() };
        for &(shard, bytes) in shards {
            let invalid = |reason| Error::ModelInvalid { name: shard.into(), reason };
            if bytes.is_empty() {
                return Err(invalid("the file is empty".into()));
            }
            let file = SafeTensors::deserialize(bytes)
                .map_err(|error| invalid(format!("not a whole safetensors file (truncated?): {error}")))?;
            for (spelling, view) in file.iter() {
                // With an index, a tensor counts only where the index puts it.
                if weight_map.is_some_and(|map| map.get(spelling).is_none_or(|owner| owner != shard)) {
                    continue;
                }
                tensors.insert(spelling, view.shape(), view.dtype(), view.data())?;
            }
        }
        for (spelling, shard) in weight_map.into_iter().flatten() {
            if !tensors.contains(&canonical(spelling)) {
                return Err(tensors.invalid(format!("tensor {spelling} is not in {shard}, where the index puts it")));
            }
        }
        Ok(tensors)
    }

    fn insert(&mut self, spelling: &str, shape: &[usize], dtype: Dtype, bytes: &'a [u8]) -> Result<()> {
        let entry =
            Entry { spelling: spelling.into(), shape: shape.into(), dtype, bytes, used: AtomicBool::new(false) };
        match self.entries.insert(canonical(spelling), entry) {
            Some(twin) if (&*twin.shape, twin.dtype, twin.bytes) != (shape, dtype, bytes) => {
                Err(self.invalid(format!(
                    "tensors {} and {spelling} are the same weight under two names but differ, expected equal copies",
                    twin.spelling
                )))
            }
            _ => Ok(()),
        }
    }

    pub fn invalid(&self, reason: String) -> Error {
        Error::ModelInvalid { name: self.name.clone(), reason }
    }

    pub fn contains(&self, name: &str) -> bool {
        self.entries.contains_key(name)
    }

    /// The shape of a tensor, where it is there.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        self.entries.get(name).map(|entry| &*entry.shape)
    }

    /// The values of a tensor, which must be there, of that shape and finite.
    pub fn take(&self, name: &str, expected: &[usize]) -> Result<Vec<f32>> {
        if let Some(draw) = self.draw {
            return Ok(draw(name, expected));
        }
        let Some(entry) = self.entries.get(name) else {
            let others = aliases(name);
            let others = if others.is_empty() { String::new() } else { format!(" (also as {})", others.join(", ")) };
            return Err(self.invalid(format!("tensor {name} is missing{others}, expected shape {expected:?}")));
        };
        let Entry { spelling, shape, dtype, bytes, used } = entry;
        used.store(true, Ordering::Relaxed);
        if shape != expected {
            return Err(self.invalid(format!("tensor {spelling} has shape {shape:?}, expected {expected:?}")));
        }
        let words = || bytes.as_chunks::<2>().0.iter().map(|&b| u16::from_le_bytes(b));
        let values: Vec<f32> = match dtype {
            Dtype::F32 => bytes.as_chunks::<4>().0.iter().map(|&b| f32::from_le_bytes(b)).collect(),
            Dtype::F16 => words().map(|bits| f16::from_bits(bits).to_f32()).collect(),
            Dtype::BF16 => words().map(|bits| bf16::from_bits(bits).to_f32()).collect(),
            other => {
                return Err(self.invalid(format!("tensor {spelling} has type {other}, expected F32, F16 or BF16")));
            }
        };
        match values.iter().position(|v| !v.is_finite()) {
            Some(i) => {
                let value = values[i];
                Err(self.invalid(format!("tensor {spelling} holds {value} at element {i}, expected finite values")))
            }
            None => Ok(values),
        }
    }

    /// Names of the tensors that nobody took, by their spelling in the file.
    pub fn unused(&self) -> Vec<&str> {
        let unused = self.entries.values().filter(|entry| !entry.used.load(Ordering::Relaxed));
        unused.map(|entry| entry.spelling.as_str()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings() {
        for (name, want) in [
            ("class_embed.3.bias", "model.decoder.class_embed.3.bias"),
            ("bbox_embed.0.layers.2.weight", "model.decoder.bbox_embed.0.layers.2.weight"),
            (
                "model.encoder.aifi.0.layers.1.self_attn.o_proj.bias",
                "model.encoder.encoder.0.layers.1.self_attn.out_proj.bias",
            ),
            ("model.encoder.aifi.0.layers.1.mlp.fc2.bias", "model.encoder.encoder.0.layers.1.fc2.bias"),
            ("model.decoder.layers.4.mlp.fc1.weight", "model.decoder.layers.4.fc1.weight"),
            ("model.encoder_input_proj.0.0.weight", "model.encoder_input_proj.0.0.weight"),
        ] {
            assert_eq!(canonical(name), want);
            assert_eq!(canonical(want), want);
            assert_eq!(aliases(want), if name == want { Vec::new() } else { vec![name.to_owned()] });
        }
    }
}
