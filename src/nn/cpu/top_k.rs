// SPDX-License-Identifier: MIT OR Apache-2.0
//! Selection of the largest values.

/// Indices of the `k` largest values, from the largest down, equal ones in the order of their indices, NaN after all
/// others; all indices where there are fewer than `k`.
pub fn top_k(values: &[f32], k: usize) -> Vec<usize> {
    let mut indices: Vec<usize> = (0..values.len()).collect();
    let order = |&a: &usize, &b: &usize| {
        let (va, vb) = (values[a], values[b]);
        va.is_nan().cmp(&vb.is_nan()).then(vb.partial_cmp(&va).unwrap_or(std::cmp::Ordering::Equal)).then(a.cmp(&b))
    };
    if k < indices.len() {
        if k > 0 {
            indices.select_nth_unstable_by(k - 1, order);
        }
        indices.truncate(k);
    }
    indices.sort_unstable_by(order);
    indices
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_by_index_and_nan_last() {
        let values = [1.0, f32::NAN, 3.0, 1.0, f32::INFINITY, -0.0, 0.0];
        assert_eq!(top_k(&values, 4), [4, 2, 0, 3]);
        assert_eq!(top_k(&values, 9), [4, 2, 0, 3, 5, 6, 1]);
        assert_eq!(top_k(&values, 0), [0usize; 0]);
        assert_eq!(top_k(&[f32::NAN; 3], 2), [0, 1]);
    }
}
