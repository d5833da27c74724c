// SPDX-License-Identifier: MIT OR Apache-2.0
//! Anchor boxes of the query selection.

use super::Tensor;

/// Width and height of an anchor on level 0, relative to the picture; they double from level to level.
const SIZE: f32 = 0.05;

/// One anchor for each token of the levels (width, height each): four values (centre x, centre y, width, height) as
/// logits, and whether it is valid.
///
/// Relative to the picture an anchor of level `l` is `((x + 0.5) / width, (y + 0.5) / height, 0.05·2^l, 0.05·2^l)`; it
/// is valid where all four lie in (0.01, 0.99). Its logits are `ln(a / (1 - a))`, those of an invalid one `f32::MAX`.
pub fn anchors(levels: &[[usize; 2]]) -> (Tensor, Vec<bool>) {
    let tokens = levels.iter().map(|[w, h]| w * h).sum();
    let mut boxes = Tensor { width: tokens, height: 1, channels: 4, data: Vec::with_capacity(tokens * 4) };
    let mut valid = Vec::with_capacity(tokens);
    for (level, &[width, height]) in levels.iter().enumerate() {
        let side = SIZE * 2f32.powi(level as i32);
        for y in 0..height {
            for x in 0..width {
                let anchor = [(x as f32 + 0.5) / width as f32, (y as f32 + 0.5) / height as f32, side, side];
                let inside = anchor.iter().all(|&a| a > 0.01 && a < 0.99);
                valid.push(inside);
                boxes.data.extend(anchor.map(|a| if inside { (a / (1.0 - a)).ln() } else { f32::MAX }));
            }
        }
    }
    (boxes, valid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_640_the_rim_of_the_finest_level_is_invalid() {
        let (boxes, valid) = anchors(&[[80, 80], [40, 40], [20, 20]]);
        assert_eq!((boxes.width, valid.len()), (8400, 8400));
        assert_eq!(valid.iter().filter(|&&v| !v).count(), 316);
        assert!(valid[6400..].iter().all(|&v| v));
        assert!(!valid[0] && boxes.at(0, 0) == [f32::MAX; 4]);
        assert!(valid[81] && (boxes.at(81, 0)[2] - (0.05f32 / 0.95).ln()).abs() < 1e-6);
    }

    #[test]
    fn x_follows_the_width() {
        let (boxes, _) = anchors(&[[4, 2]]);
        let centre = |token: usize| [0, 1].map(|i| 1.0 / (1.0 + (-boxes.at(token, 0)[i]).exp()));
        for (token, want) in [(0, [0.125, 0.25]), (3, [0.875, 0.25]), (4, [0.125, 0.75])] {
            let got = centre(token);
            assert!((got[0] - want[0]).abs() < 1e-6 && (got[1] - want[1]).abs() < 1e-6, "{token}: {got:?}");
        }
    }
}
