// SPDX-License-Identifier: MIT OR Apache-2.0
//! Multi-head scaled dot-product attention (Vaswani et al., "Attention Is All You Need", 2017).

use rayon::prelude::*;

use super::Tensor;
use super::gemm::{Matrix, gemm};

/// `e^v` of the values, divided by their sum.
pub fn softmax(values: &mut [f32]) {
    let max = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    for v in values.iter_mut() {
        let e = f64::from(*v - max).exp();
        sum += e;
        *v = e as f32;
    }
    for v in values {
        *v = (f64::from(*v) / sum) as f32;
    }
}

/// `out = softmax(q·kᵀ/√d)·v` for each of `heads` blocks of `d = channels / heads` channels; `q`, `k` and `v` are
/// projected sequences of the same channels, `k` and `v` of the same length.
pub fn attention(q: &Tensor, k: &Tensor, v: &Tensor, heads: usize) -> Tensor {
    let channels = q.channels;
    assert!(heads > 0 && channels.is_multiple_of(heads), "attention of {channels} channels in {heads} heads");
    assert!(k.channels == channels && v.channels == channels && k.pixels() == v.pixels(), "attention shapes disagree");
    let (queries, keys, dim) = (q.pixels(), k.pixels(), channels / heads);
    let head_outputs: Vec<Vec<f32>> = (0..heads)
        .into_par_iter()
        .map(|head| {
            let [q, k, v] = [q, k, v].map(|t| Matrix::rows(&t.data[head * dim..], t.pixels(), dim, channels));
            let mut scores = vec![0.0; queries * keys];
            gemm(1.0 / (dim as f32).sqrt(), q, k.transposed(), 0.0, &mut scores, keys);
            scores.chunks_exact_mut(keys).for_each(softmax);
            let mut out = vec![0.0; queries * dim];
            gemm(1.0, Matrix::rows(&scores, queries, keys, keys), v, 0.0, &mut out, dim);
            out
        })
        .collect();
    Tensor::from_fn(queries, 1, channels, |token, _, out| {
        for (out, head) in out.chunks_exact_mut(dim).zip(&head_outputs) {
            out.copy_from_slice(&head[token * dim..][..dim]);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_attend_on_their_own() {
        let tokens = |data: &[f32]| Tensor { width: data.len() / 2, height: 1, channels: 2, data: data.to_vec() };
        // Head 0 scores both keys alike; head 1 is certain of the second.
        let out = attention(&tokens(&[0.0, 100.0]), &tokens(&[3.0, 0.0, 5.0, 9.0]), &tokens(&[1.0, 2.0, 3.0, 4.0]), 2);
        assert_eq!(out.data, [2.0, 4.0]);
    }

    #[test]
    fn softmax_survives_large_scores() {
        let mut values = [1e30, 1e30, -1e30];
        softmax(&mut values);
        assert_eq!(values, [0.5, 0.5, 0.0]);
    }
}
