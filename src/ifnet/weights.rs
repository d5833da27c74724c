// SPDX-License-Identifier: MIT OR Apache-2.0
//! Weights of the interpolation network: two containers, checked in full before anything else sees them.
//!
//! | tensor | shape |
//! |---|---|
//! | `block0.conv0.0.0.weight`, `.bias`; `block0.conv0.0.1.weight` (PReLU) | `[C1, 7 or 6, 3, 3]`, `[C1]`; `[C1]` |
//! | `block0.conv0.1.0.weight`, `.bias`; `block0.conv0.1.1.weight` | `[C2, C1, 3, 3]`, `[C2]`; `[C2]` |
//! | `block0.convblock.{0..7}.0.weight`, `.bias`; `.1.weight` | `[C2, C2, 3, 3]`, `[C2]`; `[C2]` |
//! | `block0.lastconv.weight`, `.bias` | `[C2, 5, 4, 4]` (in, out, ky, kx), `[5]` |
//! | `film.0.weight`, `.bias`; `film.2.weight`, `.bias` | `[N, 1]` or `[N]`, `[N]`; `[2·C2, N]`, `[2·C2]` |
//! | `refine.c{0..2}.weight`, `.bias`; `refine.a{0..2}.weight` | `[R, 11 or R, 3, 3]`, `[R]`; `[R]` |
//! | `refine.c3.weight`, `.bias` | `[3, R, 3, 3]`, `[3]` |
//!
//! C2 and R must be multiples of 4. A file with 7 input channels is the graph `classic`; with 6 it is `tfact`, which
//! needs the `film` tensors, and with any `refine` tensor `tfact2`, which needs all of both. Other tensors are ignored.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use half::{bf16, f16};
use safetensors::{Dtype, SafeTensors};
use serde::Deserialize;

use crate::error::{Error, Result};

/// Files larger than this are no weights of this network (the full student has 18 MB) and are not read into memory.
const MAX_FILE: u64 = 1 << 30;

/// Number of convblocks.
pub const BLOCKS: usize = 8;

const BUILTIN: &[u8] = include_bytes!("../../models/student_60_120.safetensors");

/// Which of the three graphs a weights file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Graph {
    /// The timestep is a seventh input plane: everything runs for every t.
    Classic,
    /// The trunk runs once per pair; the timestep enters by FiLM before the last two convblocks.
    Tfact,
    /// `Tfact` with a quarter-size residual head.
    Tfact2,
}

impl Graph {
    /// `classic`, `tfact` or `tfact2`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::Tfact => "tfact",
            Self::Tfact2 => "tfact2",
        }
    }
}

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A 3×3 convolution.
#[derive(Debug, Clone, PartialEq)]
pub struct Conv {
    pub cin: usize,
    pub cout: usize,
    /// `[cout, cin, 3, 3]`.
    pub weight: Vec<f32>,
    /// `[cout]`.
    pub bias: Vec<f32>,
    /// PReLU slopes, `[cout]`; `None`: no activation (`refine.c3`).
    pub slope: Option<Vec<f32>>,
}

/// The transposed 4×4 convolution.
#[derive(Debug, Clone, PartialEq)]
pub struct ConvTranspose {
    pub cin: usize,
    pub cout: usize,
    /// `[cin, cout, 4, 4]`.
    pub weight: Vec<f32>,
    /// `[cout]`.
    pub bias: Vec<f32>,
}

/// The perceptron that turns the timestep into scales and shifts.
#[derive(Debug, Clone, PartialEq)]
pub struct Film {
    /// N.
    pub hidden: usize,
    /// `[N]`.
    pub w0: Vec<f32>,
    /// `[N]`.
    pub b0: Vec<f32>,
    /// `[2·C2, N]`.
    pub w2: Vec<f32>,
    /// `[2·C2]`.
    pub b2: Vec<f32>,
}

/// The residual head.
#[derive(Debug, Clone, PartialEq)]
pub struct Refine {
    /// R.
    pub channels: usize,
    /// `c0` 11 → R, `c1` and `c2` R → R, with PReLU.
    pub convs: [Conv; 3],
    /// R → 3, no activation.
    pub c3: Conv,
}

/// All weights of one network, in float32.
#[derive(Debug, Clone, PartialEq)]
pub struct Weights {
    pub(super) name: String,
    /// (7 or 6) → C1 → C2, stride 2 each.
    pub conv0: [Conv; 2],
    /// [`BLOCKS`] layers C2 → C2.
    pub convblock: Vec<Conv>,
    /// C2 → 5.
    pub lastconv: ConvTranspose,
    /// Of the factored graphs.
    pub film: Option<Film>,
    /// Of `tfact2`.
    pub refine: Option<Refine>,
}

/// One tensor of [`Weights::tensors`]: name, shape, values.
pub type NamedTensor<'a> = (String, Vec<usize>, &'a [f32]);

impl Weights {
    /// Reads a weights file: `.safetensors` (F32, F16 or BF16), or the pair `NAME.bin` (little-endian float32) and
    /// `NAME.json` (`{"tensor": {"shape": [...], "offset": elements into the .bin}}`), by either name.
    ///
    /// # Errors
    /// [`Error::ModelRead`] where a file cannot be read, [`Error::ModelInvalid`] naming the tensor where its content is
    /// wrong.
    pub fn load(path: &Path) -> Result<Self> {
        check_file(path, "")?;
        let extension = path.extension().map(|e| e.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
        match extension.as_str() {
            "safetensors" => Self::from_safetensors(&path.display().to_string(), &read(path, "")?),
            "bin" => {
                let json = path.with_extension("json");
                let layout = read(&json, "the tensor layout that a .bin needs beside it")?;
                Self::from_bin_json(&path.display().to_string(), &read(path, "")?, &layout)
            }
            "json" => {
                let bin = path.with_extension("bin");
                let data = read(&bin, "the values that a .json layout needs beside it")?;
                Self::from_bin_json(&bin.display().to_string(), &data, &read(path, "")?)
            }
            _ => Err(Error::ModelInvalid {
                name: path.display().to_string(),
                reason: "unknown file type; .safetensors is read, or .bin beside its .json".into(),
            }),
        }
    }

    /// The built-in model, `models/student_60_120.safetensors`.
    pub fn builtin() -> Result<Self> {
        Self::from_safetensors("built-in student_60_120", BUILTIN)
    }

    /// Reads the bytes of a safetensors file; `name` stands in errors and in [`Weights::name`].
    pub fn from_safetensors(name: &str, bytes: &[u8]) -> Result<Self> {
        let invalid = |reason| Error::ModelInvalid { name: name.into(), reason };
        if bytes.is_empty() {
            return Err(invalid("the file is empty".into()));
        }
        let file = SafeTensors::deserialize(bytes)
            .map_err(|error| invalid(explain(bytes).unwrap_or_else(|| format!("not a safetensors file: {error}"))))?;
        let mut tensors = BTreeMap::new();
        for (tensor, view) in file.iter() {
            let dtype = view.dtype();
            let raw = Raw { shape: view.shape().to_vec(), dtype: dtype.into(), bytes: view.data() };
            tensors.insert(tensor.to_owned(), raw);
        }
        Reader { name, tensors }.weights()
    }

    /// Reads the bytes of a .bin and its .json; `name` stands in errors and in [`Weights::name`].
    pub fn from_bin_json(name: &str, bin: &[u8], json: &[u8]) -> Result<Self> {
        let tensors = bin_tensors(bin, json).map_err(|reason| Error::ModelInvalid { name: name.into(), reason })?;
        Reader { name, tensors }.weights()
    }

    /// The bytes of a float32 safetensors file with these weights.
    pub fn to_safetensors(&self) -> Result<Vec<u8>> {
        let invalid = |reason: String| Error::ModelInvalid { name: self.name.clone(), reason };
        let tensors: Vec<_> = self
            .tensors()
            .into_iter()
            .map(|(name, shape, values)| {
                (name, shape, values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>())
            })
            .collect();
        let views = tensors
            .iter()
            .map(|(name, shape, bytes)| {
                let view = safetensors::tensor::TensorView::new(Dtype::F32, shape.clone(), bytes);
                view.map(|view| (name.as_str(), view)).map_err(|error| invalid(format!("tensor {name}: {error}")))
            })
            .collect::<Result<Vec<_>>>()?;
        safetensors::serialize(views, None).map_err(|error| invalid(error.to_string()))
    }

    /// Which graph these weights are for.
    pub fn graph(&self) -> Graph {
        match (&self.film, &self.refine) {
            (None, _) => Graph::Classic,
            (Some(_), None) => Graph::Tfact,
            (Some(_), Some(_)) => Graph::Tfact2,
        }
    }

    /// The path they were read from, or what they are otherwise.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Channels at an eighth of the size.
    pub fn c1(&self) -> usize {
        self.conv0[0].cout
    }

    /// Channels of the trunk, a multiple of 4.
    pub fn c2(&self) -> usize {
        self.conv0[1].cout
    }

    /// The first tensor that half precision would store with a value it cannot hold, and the value: of the convolutions,
    /// but not of `lastconv`, `film` and `refine.c3`, which are float32 in any case.
    pub fn beyond_f16(&self) -> Option<(String, f32)> {
        let conv0 = self.conv0.iter().enumerate().map(|(i, conv)| (conv0_names(i), conv));
        let convblock = self.convblock.iter().enumerate().map(|(i, conv)| (convblock_names(i), conv));
        let refine = self.refine.iter().flat_map(|refine| refine.convs.iter().enumerate());
        let refine = refine.map(|(i, conv)| (refine_names(i), conv));
        conv0.chain(convblock).chain(refine).find_map(|(names, conv)| {
            let value = conv.weight.iter().find(|v| f16::from_f32(**v).is_infinite())?;
            Some((format!("{}.weight", names.layer), *value))
        })
    }

    /// Every tensor by its name in a file, in the order of the table above.
    pub fn tensors(&self) -> Vec<NamedTensor<'_>> {
        let mut out: Vec<NamedTensor<'_>> = Vec::new();
        for (i, layer) in self.conv0.iter().enumerate() {
            push_conv(&mut out, &conv0_names(i), layer);
        }
        for (i, layer) in self.convblock.iter().enumerate() {
            push_conv(&mut out, &convblock_names(i), layer);
        }
        let last = &self.lastconv;
        out.push(("block0.lastconv.weight".into(), vec![last.cin, last.cout, 4, 4], &last.weight));
        out.push(("block0.lastconv.bias".into(), vec![last.cout], &last.bias));
        if let Some(film) = &self.film {
            out.push(("film.0.weight".into(), vec![film.hidden, 1], &film.w0));
            out.push(("film.0.bias".into(), vec![film.hidden], &film.b0));
            out.push(("film.2.weight".into(), vec![film.b2.len(), film.hidden], &film.w2));
            out.push(("film.2.bias".into(), vec![film.b2.len()], &film.b2));
        }
        if let Some(refine) = &self.refine {
            for (i, layer) in refine.convs.iter().chain([&refine.c3]).enumerate() {
                push_conv(&mut out, &refine_names(i), layer);
            }
        }
        out
    }
}

fn push_conv<'a>(out: &mut Vec<NamedTensor<'a>>, names: &ConvNames, conv: &'a Conv) {
    out.push((format!("{}.weight", names.layer), vec![conv.cout, conv.cin, 3, 3], &conv.weight));
    out.push((format!("{}.bias", names.layer), vec![conv.cout], &conv.bias));
    if let (Some(activation), Some(slope)) = (&names.activation, &conv.slope) {
        out.push((format!("{activation}.weight"), vec![conv.cout], slope));
    }
}

/// Names of a convolution's tensors, without `.weight` and `.bias`.
struct ConvNames {
    layer: String,
    activation: Option<String>,
}

fn conv0_names(i: usize) -> ConvNames {
    ConvNames { layer: format!("block0.conv0.{i}.0"), activation: Some(format!("block0.conv0.{i}.1")) }
}

fn convblock_names(i: usize) -> ConvNames {
    ConvNames { layer: format!("block0.convblock.{i}.0"), activation: Some(format!("block0.convblock.{i}.1")) }
}

fn refine_names(i: usize) -> ConvNames {
    ConvNames { layer: format!("refine.c{i}"), activation: (i < 3).then(|| format!("refine.a{i}")) }
}

/// Refuses what is not a regular file of a sensible size, before opening it (opening a FIFO would wait for ever).
/// `what` says what the file is for, where the user did not name it.
fn check_file(path: &Path, what: &str) -> Result<()> {
    let metadata = fs::metadata(path).map_err(|error| read_error(path, what, &error))?;
    let refuse = |reason: &str| Error::ModelRead { path: path.into(), not_found: false, reason: reason.into() };
    if metadata.is_dir() {
        return Err(refuse("it is a directory; give the file, .safetensors or .bin beside its .json"));
    }
    if !metadata.is_file() {
        return Err(refuse("it is not a regular file"));
    }
    if metadata.len() > MAX_FILE {
        return Err(refuse(&format!("{} bytes are more than any model of this kind has", metadata.len())));
    }
    Ok(())
}

fn read(path: &Path, what: &str) -> Result<Vec<u8>> {
    check_file(path, what)?;
    fs::read(path).map_err(|error| read_error(path, what, &error))
}

fn read_error(path: &Path, what: &str, error: &io::Error) -> Error {
    let not_found = matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory);
    let reason = if not_found { "no such file".to_owned() } else { error.to_string() };
    let reason = if what.is_empty() { reason } else { format!("{reason}; it is {what}") };
    Error::ModelRead { path: path.into(), not_found, reason }
}

/// How elements of a tensor are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Storage {
    F32,
    F16,
    Bf16,
    Other(Dtype),
}

impl From<Dtype> for Storage {
    fn from(dtype: Dtype) -> Self {
        match dtype {
            Dtype::F32 => Self::F32,
            Dtype::F16 => Self::F16,
            Dtype::BF16 => Self::Bf16,
            other => Self::Other(other),
        }
    }
}

/// A tensor of a container whose `bytes` are known to hold `shape`.
struct Raw<'a> {
    shape: Vec<usize>,
    dtype: Storage,
    bytes: &'a [u8],
}

/// Number of elements of a shape; `None` if it does not fit.
fn elements(shape: &[usize]) -> Option<usize> {
    shape.iter().try_fold(1usize, |n, &dim| n.checked_mul(dim))
}

#[derive(Deserialize)]
struct BinEntry {
    shape: Vec<usize>,
    offset: usize,
}

/// The tensors of a .bin by its .json; the error is a sentence that names the tensor.
fn bin_tensors<'a>(bin: &'a [u8], json: &[u8]) -> Result<BTreeMap<String, Raw<'a>>, String> {
    for (bytes, what) in [(bin, ".bin"), (json, ".json")] {
        if bytes.is_empty() {
            return Err(format!("the {what} is empty"));
        }
    }
    if !bin.len().is_multiple_of(4) {
        return Err(format!("the .bin has {} bytes, which are not whole float32 values (truncated?)", bin.len()));
    }
    let layout: serde_json::Map<String, serde_json::Value> =
        serde_json::from_slice(json).map_err(|error| format!("the .json is not an object of tensors: {error}"))?;
    let mut tensors = BTreeMap::new();
    let mut ranges = Vec::with_capacity(layout.len());
    for (name, value) in layout {
        let entry: BinEntry = serde_json::from_value(value).map_err(|error| {
            format!("tensor {name}: expected {{\"shape\": [...], \"offset\": elements}} in the .json: {error}")
        })?;
        let have = bin.len() / 4;
        let range = elements(&entry.shape)
            .and_then(|count| Some(entry.offset..entry.offset.checked_add(count)?))
            .filter(|range| range.end <= have)
            .ok_or_else(|| {
                let (offset, shape) = (entry.offset, &entry.shape);
                format!(
                    "tensor {name}: shape {shape:?} at offset {offset} is not inside the .bin, which has {have} values"
                )
            })?;
        let bytes = &bin[range.start * 4..range.end * 4];
        ranges.push((range, name.clone()));
        tensors.insert(name, Raw { shape: entry.shape, dtype: Storage::F32, bytes });
    }
    ranges.retain(|(range, _)| !range.is_empty());
    ranges.sort_by_key(|(range, _)| (range.start, range.end));
    for pair in ranges.windows(2) {
        let [(first, first_name), (second, second_name)] = pair else { continue };
        if second.start < first.end {
            return Err(format!(
                "tensor {second_name}: its values {}..{} overlap those of {first_name}, {}..{}",
                second.start, second.end, first.start, first.end
            ));
        }
    }
    Ok(tensors)
}

#[derive(Deserialize)]
struct HeaderEntry {
    dtype: Dtype,
    shape: Vec<usize>,
    data_offsets: (usize, usize),
}

/// Why the safetensors crate refused a file, where the reason is one tensor of a readable header (its own errors seldom
/// name it).
fn explain(bytes: &[u8]) -> Option<String> {
    let (length, rest) = bytes.split_first_chunk::<8>()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    let (header, data) = rest.split_at_checked(length)?;
    let header: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(header).ok()?;
    let mut entries = Vec::with_capacity(header.len());
    for (name, value) in header.into_iter().filter(|(name, _)| name != "__metadata__") {
        match serde_json::from_value::<HeaderEntry>(value) {
            Ok(entry) => entries.push((name, entry)),
            Err(error) => return Some(format!("tensor {name}: bad header entry: {error}")),
        }
    }
    entries.sort_by_key(|(_, entry)| entry.data_offsets);
    let mut next = 0;
    for (name, HeaderEntry { dtype, shape, data_offsets: (start, end) }) in entries {
        let size = elements(&shape).and_then(|count| count.checked_mul(dtype.bitsize()));
        let Some(size) = size.filter(|bits| bits % 8 == 0).map(|bits| bits / 8) else {
            return Some(format!("tensor {name}: shape {shape:?} of {dtype} is no possible size"));
        };
        if start != next {
            return Some(format!("tensor {name}: its data starts at byte {start}, expected {next}"));
        }
        if end.checked_sub(start) != Some(size) {
            let given = format!("bytes {start}..{end}");
            return Some(format!(
                "tensor {name}: shape {shape:?} of {dtype} needs {size} bytes, the header gives {given}"
            ));
        }
        if end > data.len() {
            let have = data.len();
            return Some(format!("tensor {name}: needs data up to byte {end}, the file ends at {have} (truncated?)"));
        }
        next = end;
    }
    (next < data.len()).then(|| format!("{} bytes after the last tensor belong to none", data.len() - next))
}

/// Takes named tensors out of a container, checking them.
struct Reader<'a> {
    name: &'a str,
    tensors: BTreeMap<String, Raw<'a>>,
}

impl Reader<'_> {
    fn invalid(&self, reason: String) -> Error {
        Error::ModelInvalid { name: self.name.into(), reason }
    }

    /// The shape of a tensor, which must be there.
    fn shape(&self, tensor: &str) -> Result<&[usize]> {
        match self.tensors.get(tensor) {
            Some(raw) => Ok(&raw.shape),
            None => Err(self.invalid(format!("tensor {tensor} is missing"))),
        }
    }

    fn any(&self, prefix: &str) -> bool {
        self.tensors.range(prefix.to_owned()..).next().is_some_and(|(name, _)| name.starts_with(prefix))
    }

    /// The values of a tensor of one of the shapes `expected`.
    fn take(&mut self, tensor: &str, expected: &[&[usize]]) -> Result<Vec<f32>> {
        let shape = self.shape(tensor)?;
        if !expected.contains(&shape) {
            let expected: Vec<_> = expected.iter().map(|shape| format!("{shape:?}")).collect();
            return Err(
                self.invalid(format!("tensor {tensor} has shape {shape:?}, expected {}", expected.join(" or ")))
            );
        }
        let Some(Raw { dtype, bytes, .. }) = self.tensors.remove(tensor) else {
            return Err(self.invalid(format!("tensor {tensor} is missing")));
        };
        let words = || bytes.chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]]));
        let values: Vec<f32> = match dtype {
            Storage::F32 => bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect(),
            Storage::F16 => words().map(|bits| f16::from_bits(bits).to_f32()).collect(),
            Storage::Bf16 => words().map(|bits| bf16::from_bits(bits).to_f32()).collect(),
            Storage::Other(dtype) => {
                return Err(self.invalid(format!("tensor {tensor} has type {dtype}, expected F32, F16 or BF16")));
            }
        };
        match values.iter().position(|v| !v.is_finite()) {
            Some(i) => {
                Err(self.invalid(format!("tensor {tensor} holds {} at element {i}, expected finite values", values[i])))
            }
            None => Ok(values),
        }
    }

    fn conv(&mut self, names: &ConvNames, cout: usize, cin: usize) -> Result<Conv> {
        Ok(Conv {
            cin,
            cout,
            weight: self.take(&format!("{}.weight", names.layer), &[&[cout, cin, 3, 3]])?,
            bias: self.take(&format!("{}.bias", names.layer), &[&[cout]])?,
            slope: match &names.activation {
                Some(activation) => Some(self.take(&format!("{activation}.weight"), &[&[cout]])?),
                None => None,
            },
        })
    }

    /// Rows of a weight tensor, which no other tensor fixes: its shape is `rows` followed by one of `tails`, with at
    /// least one row, and a multiple of `step` of them. `symbol` names them in errors.
    fn rows(&self, tensor: &str, symbol: &str, step: usize, tails: &[&[usize]]) -> Result<usize> {
        let shape = self.shape(tensor)?;
        match shape.split_first() {
            Some((&rows, tail)) if rows > 0 && tails.contains(&tail) => {
                if rows % step != 0 {
                    let rule = format!("expected {symbol} to be a multiple of {step}");
                    return Err(self.invalid(format!("tensor {tensor} has {symbol} = {rows} rows, {rule}")));
                }
                Ok(rows)
            }
            _ => {
                let pattern = |tail: &&[usize]| {
                    let dims: Vec<_> =
                        [symbol.to_owned()].into_iter().chain(tail.iter().map(usize::to_string)).collect();
                    format!("[{}]", dims.join(", "))
                };
                let expected = tails.iter().map(pattern).collect::<Vec<_>>().join(" or ");
                Err(self.invalid(format!("tensor {tensor} has shape {shape:?}, expected {expected} and {symbol} > 0")))
            }
        }
    }

    fn weights(mut self) -> Result<Weights> {
        const CONV0: &str = "block0.conv0.0.0.weight";
        let inputs = match self.shape(CONV0)? {
            &[_, inputs @ (6 | 7), 3, 3] => inputs,
            shape => {
                return Err(self.invalid(format!(
                    "tensor {CONV0} has shape {shape:?}, expected [C1, 7, 3, 3] (classic) or \
                     [C1, 6, 3, 3] (tfact, tfact2)"
                )));
            }
        };
        let refined = self.any("refine.");
        let factored = inputs == 6;
        if !factored && let Some(extra) = ["film.", "refine."].into_iter().find(|prefix| self.any(prefix)) {
            return Err(self.invalid(format!(
                "tensor {CONV0} takes 7 input channels, expected 6 since there are {extra} tensors"
            )));
        }
        let c1 = self.rows(CONV0, "C1", 1, &[&[inputs, 3, 3]])?;
        let c2 = self.rows("block0.conv0.1.0.weight", "C2", 4, &[&[c1, 3, 3]])?;
        let conv0 = [self.conv(&conv0_names(0), c1, inputs)?, self.conv(&conv0_names(1), c2, c1)?];
        let convblock = (0..BLOCKS).map(|i| self.conv(&convblock_names(i), c2, c2)).collect::<Result<_>>()?;
        let lastconv = ConvTranspose {
            cin: c2,
            cout: 5,
            weight: self.take("block0.lastconv.weight", &[&[c2, 5, 4, 4]])?,
            bias: self.take("block0.lastconv.bias", &[&[5]])?,
        };
        let film = if factored {
            let hidden = self.rows("film.0.weight", "N", 1, &[&[1], &[]])?;
            Some(Film {
                hidden,
                w0: self.take("film.0.weight", &[&[hidden, 1], &[hidden]])?,
                b0: self.take("film.0.bias", &[&[hidden]])?,
                w2: self.take("film.2.weight", &[&[2 * c2, hidden]])?,
                b2: self.take("film.2.bias", &[&[2 * c2]])?,
            })
        } else {
            None
        };
        let refine = if refined {
            let channels = self.rows("refine.c0.weight", "R", 4, &[&[11, 3, 3]])?;
            Some(Refine {
                channels,
                convs: [
                    self.conv(&refine_names(0), channels, 11)?,
                    self.conv(&refine_names(1), channels, channels)?,
                    self.conv(&refine_names(2), channels, channels)?,
                ],
                c3: self.conv(&refine_names(3), 3, channels)?,
            })
        } else {
            None
        };
        if !self.tensors.is_empty() {
            let names: Vec<_> = self.tensors.keys().map(String::as_str).collect();
            log::debug!("{}: ignored tensors: {}", self.name, names.join(", "));
        }
        Ok(Weights { name: self.name.into(), conv0, convblock, lastconv, film, refine })
    }
}
