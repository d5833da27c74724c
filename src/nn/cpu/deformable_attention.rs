// SPDX-License-Identifier: MIT OR Apache-2.0
//! Multi-scale deformable attention as in RT-DETRv2 (Lv et al., "RT-DETRv2: Improved Baseline with Bag-of-Freebies",
//! 2024; the sampling is Zhu et al., "Deformable DETR", 2021).

use rayon::prelude::*;

use super::Tensor;
use super::attention::softmax;

/// How a value is read at a position of a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sampling {
    /// Bilinear at pixel `location·size - 0.5`, each corner outside the map counting as zero.
    Bilinear,
    /// The pixel `clamp(trunc(location·size + 0.5), 0, size - 1)`: half a pixel from the nearest, as trained.
    Discrete,
}

/// What one call attends to.
#[derive(Debug, Clone, Copy)]
pub struct DeformableAttention<'a> {
    /// Projected memory: the tokens of all levels, one level after the other, each in row-major order.
    pub value: &'a Tensor,
    /// Width and height of each level.
    pub levels: &'a [[usize; 2]],
    /// For each query, `heads·levels·points` pairs (x, y), the points of a level together, the levels of a head
    /// together.
    pub offsets: &'a Tensor,
    /// For each query, `heads·levels·points` logits; the softmax is over the `levels·points` of a head.
    pub logits: &'a Tensor,
    /// For each query, its box (centre x, centre y, width, height), relative to the picture.
    pub boxes: &'a Tensor,
    pub heads: usize,
    pub points: usize,
    /// `levels·points` factors of the offsets (1 / points, as trained).
    pub point_scale: &'a [f32],
    /// A factor of every offset.
    pub offset_scale: f32,
    pub sampling: Sampling,
}

/// For each query and head, `Σ softmax(logits)·value(location)` over `levels·points` positions, with `location = centre
/// + offset·point_scale·offset_scale·(width, height)`, 0..1 across each level.
pub fn deformable_attention(call: &DeformableAttention<'_>) -> Tensor {
    let &DeformableAttention { value, levels, offsets, logits, boxes, heads, points, point_scale, .. } = call;
    let (queries, channels, samples) = (boxes.pixels(), value.channels, levels.len() * points);
    assert!(
        heads > 0 && channels.is_multiple_of(heads),
        "deformable attention of {channels} channels in {heads} heads"
    );
    assert_eq!(value.pixels(), levels.iter().map(|[w, h]| w * h).sum::<usize>(), "memory of other levels");
    assert_eq!(point_scale.len(), samples, "deformable attention needs a scale for each level and point");
    assert_eq!((offsets.pixels(), offsets.channels), (queries, heads * samples * 2), "offsets of another shape");
    assert_eq!((logits.pixels(), logits.channels), (queries, heads * samples), "attention logits of another shape");
    assert_eq!(boxes.channels, 4, "boxes of other than four values");
    let dim = channels / heads;
    let mut out = Tensor::new(queries, 1, channels);
    out.data.par_chunks_exact_mut(channels).enumerate().for_each(|(query, out)| {
        let [cx, cy, width, height] = [0, 1, 2, 3].map(|i| boxes.at(query, 0)[i]);
        for (head, out) in out.chunks_exact_mut(dim).enumerate() {
            let mut weights = logits.at(query, 0)[head * samples..][..samples].to_vec();
            softmax(&mut weights);
            let mut level_start = 0;
            for (level, &size) in levels.iter().enumerate() {
                let map = Map { value, start: level_start, size, channel: head * dim };
                for k in level * points..(level + 1) * points {
                    let offset = &offsets.at(query, 0)[(head * samples + k) * 2..][..2];
                    let scale = point_scale[k] * call.offset_scale;
                    let location = [cx + offset[0] * scale * width, cy + offset[1] * scale * height];
                    match call.sampling {
                        Sampling::Bilinear => map.add_bilinear(location, weights[k], out),
                        Sampling::Discrete => map.add_discrete(location, weights[k], out),
                    }
                }
                level_start += size[0] * size[1];
            }
        }
    });
    out
}

/// The channels of one head on one level.
struct Map<'a> {
    value: &'a Tensor,
    start: usize,
    size: [usize; 2],
    channel: usize,
}

impl Map<'_> {
    fn add(&self, x: usize, y: usize, weight: f32, out: &mut [f32]) {
        let token = self.value.at(self.start + y * self.size[0] + x, 0);
        for (out, v) in out.iter_mut().zip(&token[self.channel..]) {
            *out += weight * v;
        }
    }

    fn add_bilinear(&self, location: [f32; 2], weight: f32, out: &mut [f32]) {
        let position = [0, 1].map(|i| location[i] * self.size[i] as f32 - 0.5);
        let first = position.map(f32::floor);
        for (dx, dy) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
            let corner = [first[0] + dx as f32, first[1] + dy as f32];
            // Compared as floats: no position, however far, becomes an index that wraps.
            if (0..2).all(|i| corner[i] >= 0.0 && corner[i] < self.size[i] as f32) {
                let share = (0..2).map(|i| 1.0 - (position[i] - corner[i]).abs()).product::<f32>();
                self.add(corner[0] as usize, corner[1] as usize, weight * share, out);
            }
        }
    }

    fn add_discrete(&self, location: [f32; 2], weight: f32, out: &mut [f32]) {
        // A float-to-int cast truncates, saturates and takes NaN to 0.
        let [x, y] = [0, 1].map(|i| {
            let index = (location[i] * self.size[i] as f32 + 0.5) as i64;
            index.clamp(0, self.size[i] as i64 - 1) as usize
        });
        self.add(x, y, weight, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One head, one point, a level of 2×1 pixels of value 1 and 3.
    fn sampled(x: f32, sampling: Sampling) -> f32 {
        let tensor = |width, channels, data: &[f32]| Tensor { width, height: 1, channels, data: data.to_vec() };
        let call = DeformableAttention {
            value: &tensor(2, 1, &[1.0, 3.0]),
            levels: &[[2, 1]],
            offsets: &tensor(1, 2, &[x, 0.0]),
            logits: &tensor(1, 1, &[0.3]),
            boxes: &tensor(1, 4, &[0.0, 0.5, 1.0, 1.0]),
            heads: 1,
            points: 1,
            point_scale: &[1.0],
            offset_scale: 1.0,
            sampling,
        };
        deformable_attention(&call).data[0]
    }

    #[test]
    fn bilinear_fades_to_zero_outside() {
        let at = |x| sampled(x, Sampling::Bilinear);
        assert_eq!([at(0.25), at(0.75), at(0.5)], [1.0, 3.0, 2.0]);
        assert_eq!([at(0.0), at(1.0)], [0.5, 1.5]);
        assert_eq!([at(-0.25), at(1.25), at(1e30), at(-1e30), at(f32::NAN)], [0.0; 5]);
    }

    #[test]
    fn discrete_is_half_a_pixel_off_and_clamped() {
        let at = |x| sampled(x, Sampling::Discrete);
        assert_eq!([at(0.0), at(0.2), at(0.25), at(0.75)], [1.0, 1.0, 3.0, 3.0]);
        assert_eq!([at(-9.0), at(9.0), at(1e30), at(-1e30)], [1.0, 3.0, 3.0, 1.0]);
    }
}
