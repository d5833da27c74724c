// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bilinear sampling with taps clamped to the edge.

use super::Tensor;

/// Two neighbouring indices and the weight of the second.
fn taps(position: f32, len: usize) -> (usize, usize, f32) {
    // Clamping the position is the same as clamping the taps, and keeps any flow, even a NaN, inside the picture.
    let position = position.max(0.0).min((len - 1) as f32);
    let first = position.floor();
    (first as usize, (first as usize + 1).min(len - 1), position - first)
}

/// Samples all channels at pixel position (`x`, `y`) into `out`.
pub fn bilinear(tensor: &Tensor, x: f32, y: f32, out: &mut [f32]) {
    let (x0, x1, fx) = taps(x, tensor.width);
    let (y0, y1, fy) = taps(y, tensor.height);
    let (a, b, c, d) = (tensor.at(x0, y0), tensor.at(x1, y0), tensor.at(x0, y1), tensor.at(x1, y1));
    for (channel, out) in out.iter_mut().enumerate() {
        let top = a[channel] * (1.0 - fx) + b[channel] * fx;
        let bottom = c[channel] * (1.0 - fx) + d[channel] * fx;
        *out = top * (1.0 - fy) + bottom * fy;
    }
}

/// `bilinear` of a one-channel tensor.
pub fn bilinear1(tensor: &Tensor, x: f32, y: f32) -> f32 {
    assert_eq!(tensor.channels, 1, "bilinear1 samples one channel");
    let mut out = [0.0];
    bilinear(tensor, x, y, &mut out);
    out[0]
}

/// The position in a picture `ratio` times smaller (by axis) that covers position `position` of the larger one:
/// `(position + 0.5) / ratio - 0.5`.
pub fn shrink(position: [f32; 2], ratio: [f32; 2]) -> [f32; 2] {
    [(position[0] + 0.5) / ratio[0] - 0.5, (position[1] + 0.5) / ratio[1] - 0.5]
}

/// The inverse of [`shrink`]: `(position + 0.5)·ratio - 0.5`.
pub fn grow(position: [f32; 2], ratio: [f32; 2]) -> [f32; 2] {
    [(position[0] + 0.5) * ratio[0] - 0.5, (position[1] + 0.5) * ratio[1] - 0.5]
}

/// The picture stretched to `width` × `height`: sampled at `(dst + 0.5)·(size / new size) - 0.5`.
pub fn resize(tensor: &Tensor, width: usize, height: usize) -> Tensor {
    let ratio = [tensor.width as f32 / width as f32, tensor.height as f32 / height as f32];
    Tensor::from_fn(width, height, tensor.channels, |x, y, out| {
        let [sx, sy] = grow([x as f32, y as f32], ratio);
        bilinear(tensor, sx, sy, out);
    })
}
