// SPDX-License-Identifier: MIT OR Apache-2.0
//! Nearest-neighbour upsampling and concatenation.

use super::Tensor;

/// Twice the size: `out(x, y) = in(x / 2, y / 2)`.
pub fn upsample2x(input: &Tensor) -> Tensor {
    Tensor::from_fn(input.width * 2, input.height * 2, input.channels, |x, y, out| {
        out.copy_from_slice(input.at(x / 2, y / 2));
    })
}

/// The channels of `a`, then those of `b`; both of the same size.
pub fn concat(a: &Tensor, b: &Tensor) -> Tensor {
    assert_eq!((a.width, a.height), (b.width, b.height), "concatenation of maps of different sizes");
    Tensor::from_fn(a.width, a.height, a.channels + b.channels, |x, y, out| {
        let (first, second) = out.split_at_mut(a.channels);
        first.copy_from_slice(a.at(x, y));
        second.copy_from_slice(b.at(x, y));
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_and_appends() {
        let input = Tensor { width: 2, height: 1, channels: 1, data: vec![1.0, 2.0] };
        let up = upsample2x(&input);
        assert_eq!((up.width, up.height, &up.data[..]), (4, 2, &[1.0, 1.0, 2.0, 2.0, 1.0, 1.0, 2.0, 2.0][..]));
        assert_eq!(concat(&input, &input).data, [1.0, 1.0, 2.0, 2.0]);
    }
}
