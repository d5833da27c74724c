// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pooling, to half the size rounded up.

use super::Tensor;

/// Maximum of 3×3, stride 2, padding 1 (of -∞): `out(x, y) = max in(2x - 1..=2x + 1, 2y - 1..=2y + 1)`.
pub fn max_pool3x3(input: &Tensor) -> Tensor {
    Tensor::from_fn(input.width.div_ceil(2), input.height.div_ceil(2), input.channels, |x, y, out| {
        out.fill(f32::NEG_INFINITY);
        for sy in (2 * y).saturating_sub(1)..(2 * y + 2).min(input.height) {
            for sx in (2 * x).saturating_sub(1)..(2 * x + 2).min(input.width) {
                for (out, &v) in out.iter_mut().zip(input.at(sx, sy)) {
                    *out = out.max(v);
                }
            }
        }
    })
}

/// Mean of 2×2, stride 2: `out(x, y) = mean in(2x..=2x + 1, 2y..=2y + 1)` over the pixels that exist (PyTorch's
/// `ceil_mode`).
pub fn avg_pool2x2(input: &Tensor) -> Tensor {
    Tensor::from_fn(input.width.div_ceil(2), input.height.div_ceil(2), input.channels, |x, y, out| {
        let (columns, rows) = (2 * x..(2 * x + 2).min(input.width), 2 * y..(2 * y + 2).min(input.height));
        let count = (columns.len() * rows.len()) as f32;
        for sy in rows {
            for sx in columns.clone() {
                for (out, &v) in out.iter_mut().zip(input.at(sx, sy)) {
                    *out += v / count;
                }
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_count_only_what_exists() {
        let data = vec![-1.0, -2.0, -3.0, -4.0, -5.0, -6.0, -7.0, -8.0, -9.0];
        let input = Tensor { width: 3, height: 3, channels: 1, data };
        assert_eq!(max_pool3x3(&input).data, [-1.0, -2.0, -4.0, -5.0]);
        assert_eq!(avg_pool2x2(&input).data, [-3.0, -4.5, -7.5, -9.0]);
    }
}
