// SPDX-License-Identifier: MIT OR Apache-2.0
//! Iterative refinement of boxes in logit space.

use super::{Tensor, sigmoid};

/// `ln(max(v, 1e-5) / max(1 - v, 1e-5))` of `v` clamped to 0..1.
pub fn inverse_sigmoid(v: f32) -> f32 {
    let v = v.clamp(0.0, 1.0);
    (v.max(1e-5) / (1.0 - v).max(1e-5)).ln()
}

/// `sigmoid(delta + inverse_sigmoid(box))`, element by element.
pub fn refine(boxes: &Tensor, delta: &Tensor) -> Tensor {
    assert_eq!(boxes.data.len(), delta.data.len(), "box refinement of different shapes");
    let refined = boxes.data.iter().zip(&delta.data).map(|(&v, &d)| sigmoid(d + inverse_sigmoid(v)));
    Tensor { data: refined.collect(), ..*boxes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_are_finite() {
        let end = 1e-5f32.ln().abs();
        assert!((inverse_sigmoid(0.0) + end).abs() < 1e-4 && (inverse_sigmoid(1.0) - end).abs() < 1e-4);
        assert!((inverse_sigmoid(-3.0) + end).abs() < 1e-4);
        assert!((inverse_sigmoid(0.75) - 3f32.ln()).abs() < 1e-6);
        let boxes = Tensor { width: 1, height: 1, channels: 2, data: vec![0.5, 0.25] };
        let delta = Tensor { data: vec![0.0, 0.0], ..boxes.clone() };
        assert_eq!(refine(&boxes, &delta).data, boxes.data);
    }
}
