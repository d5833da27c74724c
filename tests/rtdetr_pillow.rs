// SPDX-License-Identifier: MIT OR Apache-2.0
//! The resize against vectors made by Pillow (`golden/rtdetr/make_pillow.py`), bit by bit.

use std::fs;
use std::path::{Path, PathBuf};

use gstframecast::nn::cpu::pillow;
use serde::Deserialize;

#[derive(Debug, Deserialize)]
struct Case {
    pattern: String,
    size: [usize; 2],
    to: [usize; 2],
    crc32: u32,
    /// Where the expected bytes lie in `pillow.bin`; `None`: only their CRC is kept.
    offset: Option<usize>,
}

#[derive(Debug, Deserialize)]
struct Vectors {
    cases: Vec<Case>,
}

fn golden(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/rtdetr").join(file)
}

fn vectors() -> (Vec<Case>, Vec<u8>) {
    let json = fs::read(golden("pillow.json")).expect("pillow.json");
    let Vectors { cases } = serde_json::from_slice(&json).expect("pillow.json");
    assert_eq!(cases.len(), 18, "cases");
    (cases, fs::read(golden("pillow.bin")).expect("pillow.bin"))
}

/// The hash of the generating script.
fn mix(v: usize) -> u32 {
    let mut v = (v as u32).wrapping_mul(2_654_435_761);
    v ^= v >> 15;
    v = v.wrapping_mul(2_246_822_519);
    v ^ (v >> 13)
}

/// The patterns of the generating script.
fn value(pattern: &str, x: usize, y: usize, c: usize) -> u8 {
    let value = match pattern {
        "noise" => mix((y * 65536 + x) * 3 + c) as usize % 256,
        "checkerboard" => (x + y + c) % 2 * 255,
        "ramp" => (x * (c + 1) + y * 2) % 256,
        "page" => {
            let (column, row, gx, gy) = (x / 8, y / 12, x % 8, y % 12);
            let glyph = row * 4096 + column;
            let inside = gx < 5 && gy < 7 && row % 4 != 3 && !mix(glyph).is_multiple_of(7);
            let ink = inside && mix(glyph * 64 + gy * 8 + gx).is_multiple_of(2);
            if ink { 20 + 10 * c } else { 250 - 5 * c }
        }
        other => panic!("unknown pattern {other}"),
    };
    u8::try_from(value).expect("a byte")
}

impl Case {
    fn source(&self) -> Vec<u8> {
        let [width, height] = self.size;
        (0..width * height * 3).map(|i| value(&self.pattern, i / 3 % width, i / 3 / width, i % 3)).collect()
    }

    fn resized(&self) -> Vec<u8> {
        pillow::resize_bilinear(&self.source(), 3, self.size, self.to)
    }
}

/// Field case 22: checkerboards and text pages shrunk, small pictures grown, slivers, and passes left out.
#[test]
fn equal_to_pillow_bit_by_bit() {
    let (cases, data) = vectors();
    let mut compared = 0;
    for case in &cases {
        let got = case.resized();
        if let Some(offset) = case.offset {
            let want = &data[offset..offset + got.len()];
            let worst = got.iter().zip(want).map(|(g, w)| g.abs_diff(*w)).max();
            assert_eq!(worst, Some(0), "{case:?}");
            compared += got.len();
        }
        assert_eq!(crc32fast::hash(&got), case.crc32, "{case:?}");
    }
    assert_eq!(compared, data.len(), "every kept byte is compared");
}

#[test]
fn weights_of_a_sample_sum_to_one() {
    for (input, output) in [(640, 640), (3508, 640), (100, 640), (20000, 32), (1, 9), (7, 5)] {
        let taps = pillow::taps(input, output);
        assert_eq!(taps.len(), output);
        for taps in &taps {
            assert!(!taps.weights.is_empty() && taps.first + taps.weights.len() <= input, "{input} to {output}");
            let error = (taps.weights.iter().sum::<i32>() - (1 << pillow::PRECISION_BITS)).unsigned_abs() as usize;
            // Each weight is rounded on its own.
            assert!(error <= taps.weights.len(), "{input} to {output}: {error}");
        }
    }
}
