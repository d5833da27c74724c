// SPDX-License-Identifier: MIT OR Apache-2.0
//! FiLM: the timestep scales and shifts every channel (Perez et al., "FiLM: Visual Reasoning with a General
//! Conditioning Layer", 2017).

use super::Tensor;

/// The two-layer perceptron that makes the modulation of timestep `t`.
///
/// `hidden = relu(w0·t + b0)` (N values), `out = w2·hidden + b2` (2·C values: C scales, then C shifts), with `w2`
/// row-major `[2·C, N]`.
pub fn film_params(w0: &[f32], b0: &[f32], w2: &[f32], b2: &[f32], t: f32) -> Vec<f32> {
    assert!(w0.len() == b0.len() && !w0.is_empty() && w2.len() == w0.len() * b2.len(), "FiLM shapes disagree");
    let t = f64::from(t);
    let hidden: Vec<f64> = w0.iter().zip(b0).map(|(&w, &b)| (f64::from(w) * t + f64::from(b)).max(0.0)).collect();
    w2.chunks_exact(hidden.len())
        .zip(b2)
        .map(|(row, &b)| (f64::from(b) + row.iter().zip(&hidden).map(|(&w, h)| f64::from(w) * h).sum::<f64>()) as f32)
        .collect()
}

/// `out[c] = in[c]·(1 + params[c]) + params[C + c]`.
pub fn film(input: &Tensor, params: &[f32]) -> Tensor {
    let channels = input.channels;
    assert_eq!(params.len(), 2 * channels, "FiLM needs 2·C parameters");
    let (scale, shift) = params.split_at(channels);
    Tensor::from_fn(input.width, input.height, channels, |x, y, out| {
        for (c, (out, &v)) in out.iter_mut().zip(input.at(x, y)).enumerate() {
            *out = v * (1.0 + scale[c]) + shift[c];
        }
    })
}
