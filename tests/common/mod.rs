// SPDX-License-Identifier: MIT OR Apache-2.0
//! The golden vectors of `tests/golden/ifnet`, shared by the test programs.
//!
//! Each folder: `case.json`, the frames `a.rgba` and `b.rgba` (input_width×input_height), `out_t*.rgba` (width×height),
//! made by an older runtime in float32. Weights come from the case's seed; two folders also ship them as a file.
#![allow(dead_code)] // Each test program uses a part of this.

use std::fs;
use std::path::{Path, PathBuf};

use gstframecast::ifnet::synthetic::GeneratorShape;
use gstframecast::ifnet::{Graph, Weights};
use serde::Deserialize;

/// A folder of golden vectors.
#[derive(Debug, Deserialize)]
pub struct Case {
    pub name: String,
    pub kind: String,
    pub c1: usize,
    pub c2: usize,
    #[serde(default)]
    pub film_hidden: usize,
    #[serde(default)]
    pub rc: usize,
    pub seed: u64,
    pub width: u32,
    pub height: u32,
    pub input_width: u32,
    pub input_height: u32,
    pub static_guard: bool,
    pub rounding: String,
    pub outputs: Vec<Output>,
    #[serde(skip)]
    folder: PathBuf,
}

/// One made frame of a case.
#[derive(Debug, Deserialize)]
pub struct Output {
    pub t: f64,
    pub file: String,
}

/// `tests/golden/ifnet`.
pub fn golden_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/ifnet")
}

/// All cases, by name.
pub fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = fs::read_dir(golden_folder())
        .expect("golden folder")
        .map(|entry| {
            let folder = entry.expect("golden folder entry").path();
            let json = fs::read(folder.join("case.json")).expect("case.json");
            Case { folder, ..serde_json::from_slice(&json).expect("case.json") }
        })
        .collect();
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    assert_eq!(cases.len(), 11, "golden folders");
    cases
}

/// The case of that name.
pub fn case(name: &str) -> Case {
    cases().into_iter().find(|case| case.name == name).unwrap_or_else(|| panic!("no golden case {name}"))
}

impl Case {
    /// What the generator makes for this case.
    pub fn shape(&self) -> GeneratorShape {
        let graph = match self.kind.as_str() {
            "classic" => Graph::Classic,
            "tfact" => Graph::Tfact,
            "tfact2" => Graph::Tfact2,
            other => panic!("{}: unknown graph {other}", self.name),
        };
        GeneratorShape { graph, c1: self.c1, c2: self.c2, film_hidden: self.film_hidden, refine_channels: self.rc }
    }

    /// The case's weights, from its seed.
    pub fn weights(&self) -> Weights {
        Weights::synthetic(self.seed, self.shape())
    }

    /// `weights.bin`, where the folder ships it.
    pub fn weights_file(&self) -> Option<PathBuf> {
        let path = self.folder.join("weights.bin");
        path.exists().then_some(path)
    }

    /// The two source frames, RGBA.
    pub fn inputs(&self) -> [Vec<u8>; 2] {
        ["a.rgba", "b.rgba"].map(|file| self.read(file, self.input_width, self.input_height))
    }

    /// The expected made frame, RGBA.
    pub fn expected(&self, output: &Output) -> Vec<u8> {
        self.read(&output.file, self.width, self.height)
    }

    /// Whether the expected codes were truncated instead of rounded.
    pub fn truncated(&self) -> bool {
        match self.rounding.as_str() {
            "truncate" => true,
            "nearest" => false,
            other => panic!("{}: unknown rounding {other}", self.name),
        }
    }

    /// Whether the output has another size than the input.
    pub fn stretched(&self) -> bool {
        (self.width, self.height) != (self.input_width, self.input_height)
    }

    fn read(&self, file: &str, width: u32, height: u32) -> Vec<u8> {
        let bytes = fs::read(self.folder.join(file)).unwrap_or_else(|error| panic!("{}/{file}: {error}", self.name));
        assert_eq!(bytes.len(), (width * height * 4) as usize, "{}/{file}", self.name);
        bytes
    }
}

/// How far two pictures are apart, in code values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Difference {
    pub max: u8,
    pub mean: f64,
}

/// Compares the colour components of two RGBA pictures.
pub fn difference(got: &[u8], want: &[u8]) -> Difference {
    assert_eq!(got.len(), want.len(), "picture sizes");
    let pixels = got.chunks_exact(4).zip(want.chunks_exact(4));
    let codes: Vec<u8> = pixels.flat_map(|(g, w)| [0, 1, 2].map(|c| g[c].abs_diff(w[c]))).collect();
    Difference {
        max: codes.iter().copied().max().unwrap_or(0),
        mean: codes.iter().map(|&d| f64::from(d)).sum::<f64>() / codes.len().max(1) as f64,
    }
}
