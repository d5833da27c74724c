// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bilinear resize with antialiasing, bit-exact to Pillow's `Image.resize(size, BILINEAR)` for 8-bit channels.
//!
//! Pillow 13 exchanges the two passes where the height shrinks and the width does not, and is then up to one level away
//! from earlier versions, whose order is kept here in every case.
//!
//! # Steps
//! Two passes, first along the rows, then along the columns, each rounding to 8 bits; a pass that would not change the
//! size is left out. Output sample `i` of a pass from `n` to `m` samples, with `scale = n / m`, `stretch =
//! max(scale, 1)` and `centre = (i + 0.5)·scale`:
//! - reads the samples `trunc(centre - stretch + 0.5)..trunc(centre + stretch + 0.5)`, cut to `0..n`;
//! - with the weights `max(0, 1 - |sample - centre + 0.5| / stretch)`, divided by their sum (all in float64), times
//!   2^22 and rounded to integers, halves away from zero;
//! - and is `(Σ weight·sample + 2^21) >> 22`, clamped to 0..=255.

use rayon::prelude::*;

/// Fraction bits of the integer weights.
pub const PRECISION_BITS: u32 = 22;

/// What one output sample reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taps {
    /// Index of the first input sample.
    pub first: usize,
    /// A weight for each input sample from there on, in units of 2^-[`PRECISION_BITS`].
    pub weights: Vec<i32>,
}

/// The taps of every output sample of a pass from `input` to `output` samples (neither of them 0).
pub fn taps(input: usize, output: usize) -> Vec<Taps> {
    let scale = input as f64 / output as f64;
    let stretch = scale.max(1.0);
    (0..output)
        .map(|i| {
            let centre = (i as f64 + 0.5) * scale;
            // Float-to-int casts truncate, as in C, and take what is negative to 0.
            let first = (centre - stretch + 0.5) as usize;
            let end = ((centre + stretch + 0.5) as usize).min(input);
            let weights = (first..end).map(|sample| {
                let distance = (sample as f64 - centre + 0.5) * (1.0 / stretch);
                (1.0 - distance.abs()).max(0.0)
            });
            let weights: Vec<f64> = weights.collect();
            let sum: f64 = weights.iter().sum();
            let fixed = |w: f64| (0.5 + w / sum * f64::from(1u32 << PRECISION_BITS)) as i32;
            Taps { first, weights: weights.into_iter().map(fixed).collect() }
        })
        .collect()
}

fn to_u8(sum: i32) -> u8 {
    (sum >> PRECISION_BITS).clamp(0, 255) as u8
}

const HALF: i32 = 1 << (PRECISION_BITS - 1);

/// Resizes interleaved 8-bit samples (`channels` to a pixel, rows without padding) from `size` to `to` (width, height
/// each).
pub fn resize_bilinear(pixels: &[u8], channels: usize, size: [usize; 2], to: [usize; 2]) -> Vec<u8> {
    assert!(channels > 0 && size.iter().chain(&to).all(|&n| n > 0), "resize of nothing");
    assert_eq!(pixels.len(), size[0] * size[1] * channels, "resize of a picture of another size");
    let narrowed = if size[0] == to[0] { pixels.to_vec() } else { resize_rows(pixels, channels, size[0], to[0]) };
    if size[1] == to[1] { narrowed } else { resize_columns(&narrowed, to[0] * channels, size[1], to[1]) }
}

/// Every row from `width` to `to` pixels.
fn resize_rows(pixels: &[u8], channels: usize, width: usize, to: usize) -> Vec<u8> {
    let taps = taps(width, to);
    let mut out = vec![0; pixels.len() / width * to];
    let rows = out.par_chunks_exact_mut(to * channels).zip(pixels.par_chunks_exact(width * channels));
    rows.for_each(|(out, row)| {
        for (out, taps) in out.chunks_exact_mut(channels).zip(&taps) {
            for (channel, out) in out.iter_mut().enumerate() {
                let samples = row[taps.first * channels + channel..].iter().step_by(channels);
                let sum: i32 = taps.weights.iter().zip(samples).map(|(w, &v)| w * i32::from(v)).sum();
                *out = to_u8(sum + HALF);
            }
        }
    });
    out
}

/// `height` rows of `stride` samples to `to` rows.
fn resize_columns(pixels: &[u8], stride: usize, height: usize, to: usize) -> Vec<u8> {
    let taps = taps(height, to);
    let mut out = vec![0; to * stride];
    out.par_chunks_exact_mut(stride).zip(&taps).for_each(|(out, taps)| {
        let mut sums = vec![HALF; stride];
        for (&weight, row) in taps.weights.iter().zip(pixels[taps.first * stride..].chunks_exact(stride)) {
            for (sum, &v) in sums.iter_mut().zip(row) {
                *sum += weight * i32::from(v);
            }
        }
        for (out, sum) in out.iter_mut().zip(sums) {
            *out = to_u8(sum);
        }
    });
    out
}
