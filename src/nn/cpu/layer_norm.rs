// SPDX-License-Identifier: MIT OR Apache-2.0
//! Layer normalisation over the channels.

use super::Tensor;

/// `out[c] = (in[c] - mean) / √(var + eps)·weight[c] + bias[c]` with the mean and the biased variance over the channels
/// of each token.
pub fn layer_norm(input: &Tensor, weight: &[f32], bias: &[f32], eps: f32) -> Tensor {
    let channels = input.channels;
    assert!(weight.len() == channels && bias.len() == channels, "layer norm of other than {channels} channels");
    let mut out = input.clone();
    for token in out.data.chunks_exact_mut(channels) {
        let mean = token.iter().map(|&v| f64::from(v)).sum::<f64>() / channels as f64;
        let var = token.iter().map(|&v| (f64::from(v) - mean).powi(2)).sum::<f64>() / channels as f64;
        let scale = 1.0 / (var + f64::from(eps)).sqrt();
        for ((v, &weight), &bias) in token.iter_mut().zip(weight).zip(bias) {
            *v = ((f64::from(*v) - mean) * scale * f64::from(weight) + f64::from(bias)) as f32;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normalises_each_token() {
        let input = Tensor { width: 2, height: 1, channels: 2, data: vec![1.0, 3.0, 5.0, 5.0] };
        let out = layer_norm(&input, &[2.0, 1.0], &[0.5, 0.0], 0.0);
        assert_eq!(&out.data[..2], [-1.5, 1.0]);
        // Without variance, eps alone keeps the token finite.
        assert_eq!(&layer_norm(&input, &[2.0, 1.0], &[0.5, 0.0], 1e-5).data[2..], [0.5, 0.0]);
    }
}
