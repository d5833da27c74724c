// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two-dimensional sine and cosine position embedding of RT-DETR, as transformers 5 computes it.

use super::Tensor;

/// With `p = channels / 4` and `ω_i = temperature^(-i/p)`, pixel (x, y) holds four blocks of `p` channels:
/// `sin yω | cos yω | sin xω | cos xω`.
///
/// Transformers before 5 took the token `t` apart as (t div height, t mod height), which is the same for square maps
/// only (its issue 41380).
pub fn position_embedding(width: usize, height: usize, channels: usize, temperature: f64) -> Tensor {
    assert!(channels.is_multiple_of(4), "position embedding of {channels} channels, not a multiple of 4");
    let p = channels / 4;
    let frequencies: Vec<f64> = (0..p).map(|i| temperature.powf(-(i as f64) / p as f64)).collect();
    Tensor::from_fn(width, height, channels, |x, y, out| {
        for (i, frequency) in frequencies.iter().enumerate() {
            for (block, position) in [(0, y), (2, x)] {
                let (sin, cos) = (position as f64 * frequency).sin_cos();
                out[block * p + i] = sin as f32;
                out[(block + 1) * p + i] = cos as f32;
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn y_comes_first() {
        let embedding = position_embedding(3, 2, 8, 100.0);
        let (x, y) = (2.0f32, 1.0f32);
        let want = [y, y / 10.0].map(f32::sin).into_iter().chain([y, y / 10.0].map(f32::cos));
        let want: Vec<f32> = want.chain([x, x / 10.0].map(f32::sin)).chain([x, x / 10.0].map(f32::cos)).collect();
        for (got, want) in embedding.at(2, 1).iter().zip(&want) {
            assert!((got - want).abs() < 1e-6, "{got} is not {want}");
        }
    }
}
