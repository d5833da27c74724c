// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scene cuts, found on a small luma thumbnail of each frame.
//!
//! The [`score`] of two frames is `1 - r`: `r` is the mean, weighted by contrast, of what the best match nearby
//! correlates (Pearson) with each of 4x3 blocks of the thumbnail. A flash or fade changes brightness and contrast, which
//! a correlation does not see. Where the whole picture correlates well under one shift of up to a quarter of it, that is
//! a pan, and its blocks are looked for around that shift, too. Frames that hardly differ score 0 whatever their
//! correlation says. A flat frame (noise counts as flat) beside one that is not scores 1, two flat ones by their
//! brightness.
//!
//! What the default threshold of 0.35 rests on: six real clips (2,017 frames: trees, a street camera, a film trailer, a
//! race, a talking head, an animation; 144 to 720 lines). Their nine true cuts score 0.64 and more. Of all their other
//! pairs of neighbours, the highest score is 0.26, where a blurred car fills the picture in front of a camera. Frames of
//! different clips joined at random (4,991 pairs): 0.42 at least, 0.57 at the first percentile. Pans of up to a fifth and
//! tilts of up to a quarter of the picture a frame: 0.08 at most.

/// The default of `scene-threshold`.
pub const DEFAULT_THRESHOLD: f64 = 0.35;

/// Thumbnail size in cells.
const WIDTH: usize = 64;
const HEIGHT: usize = 36;
/// Samples averaged in each direction of a cell.
const SAMPLES: usize = 4;
/// The coarse search runs on averages of 2x2 cells.
const COARSE_WIDTH: usize = WIDTH / 2;
const COARSE_HEIGHT: usize = HEIGHT / 2;
/// Blocks, in coarse cells.
const BLOCK_WIDTH: usize = COARSE_WIDTH / 4;
const BLOCK_HEIGHT: usize = COARSE_HEIGHT / 3;
/// How far a block is looked for, in coarse cells.
const REACH: isize = 2;
/// How far the whole picture may have moved, in coarse cells: a quarter.
const PAN_X: isize = COARSE_WIDTH as isize / 4;
const PAN_Y: isize = COARSE_HEIGHT as isize / 4;
/// What the whole picture must correlate at one shift to be a pan.
const PAN: f32 = 0.8;

/// Frames whose mean absolute difference is below this (of full scale) are one scene.
const LEAST_CHANGE: f32 = 0.04;
/// A picture whose standard deviation, less what noise explains, is below this is flat.
const FLAT: f32 = 0.02;
/// Flat pictures whose brightness differs by more than this are two scenes.
const FLAT_CHANGE: f32 = 0.1;
/// Blocks of this standard deviation and more count in full.
const CONTRAST: f32 = 0.05;

/// The samples of one colour component in memory.
#[derive(Debug, Clone, Copy)]
pub struct Component<'a> {
    /// Starts at the first sample.
    pub data: &'a [u8],
    /// Bytes from one row to the next.
    pub stride: usize,
    /// Bytes from one sample to the next.
    pub step: usize,
    /// Bits of a sample; above 8 it is little-endian in two bytes.
    pub depth: u32,
    /// Bits to shift a sample right by.
    pub shift: u32,
}

impl Component<'_> {
    /// The sample in 0..=1; 0 beyond the data.
    fn sample(&self, at: usize) -> f32 {
        let byte = |i: usize| self.data.get(i).copied().unwrap_or(0);
        let value =
            if self.depth > 8 { u16::from_le_bytes([byte(at), byte(at + 1)]) >> self.shift } else { byte(at).into() };
        f32::from(value) / ((1u32 << self.depth) - 1) as f32
    }
}

/// Where a picture's luma comes from.
#[derive(Debug, Clone, Copy)]
pub enum Luma<'a> {
    Y(Component<'a>),
    /// R, G and B.
    Rgb([Component<'a>; 3]),
}

impl Luma<'_> {
    fn at(&self, x: usize, y: usize) -> f32 {
        let sample = |c: &Component<'_>| c.sample(y * c.stride + x * c.step);
        match self {
            Self::Y(luma) => sample(luma),
            Self::Rgb([r, g, b]) => 0.25 * sample(r) + 0.625 * sample(g) + 0.125 * sample(b),
        }
    }
}

/// A small luma picture.
#[derive(Debug, Clone)]
pub struct Thumbnail {
    cells: [f32; WIDTH * HEIGHT],
    coarse: [f32; COARSE_WIDTH * COARSE_HEIGHT],
    mean: f32,
    flat: bool,
}

impl Default for Thumbnail {
    fn default() -> Self {
        Self { cells: [0.0; WIDTH * HEIGHT], coarse: [0.0; COARSE_WIDTH * COARSE_HEIGHT], mean: 0.0, flat: true }
    }
}

impl Thumbnail {
    /// Makes it the thumbnail of a picture of `width` x `height`, neither 0.
    pub fn set(&mut self, width: usize, height: usize, luma: Luma<'_>) {
        let place = |i: usize, size: usize, count: usize| (2 * i + 1) * size / (2 * count * SAMPLES);
        let columns: [usize; WIDTH * SAMPLES] = std::array::from_fn(|i| place(i, width, WIDTH));
        let mut squares = [0.0; WIDTH * HEIGHT];
        self.cells.fill(0.0);
        for line in 0..HEIGHT * SAMPLES {
            let y = place(line, height, HEIGHT);
            let row = line / SAMPLES * WIDTH;
            for (cell, columns) in columns.chunks_exact(SAMPLES).enumerate() {
                for &x in columns {
                    let value = luma.at(x, y);
                    self.cells[row + cell] += value;
                    squares[row + cell] += value * value;
                }
            }
        }
        let samples = (SAMPLES * SAMPLES) as f32;
        let count = self.cells.len() as f32;
        let mut within = 0.0;
        for (cell, square) in self.cells.iter_mut().zip(squares) {
            *cell /= samples;
            within += (square / samples - *cell * *cell).max(0.0) / count;
        }
        self.mean = self.cells.iter().sum::<f32>() / count;
        let variance = self.cells.iter().map(|v| (v - self.mean) * (v - self.mean)).sum::<f32>() / count;
        // Noise alone makes the means of cells differ by this much; small frames have fewer different samples.
        let different = |size: usize, count: usize| (size as f32 / count as f32).clamp(1.0, SAMPLES as f32);
        let independent = different(width, WIDTH) * different(height, HEIGHT);
        let noise = if independent > 1.5 { 1.5 * within / (independent - 1.0) } else { 0.0 };
        self.flat = variance - noise < FLAT * FLAT;
        for (y, row) in self.coarse.chunks_exact_mut(COARSE_WIDTH).enumerate() {
            for (x, cell) in row.iter_mut().enumerate() {
                let at = 2 * y * WIDTH + 2 * x;
                let c = &self.cells;
                *cell = (c[at] + c[at + 1] + c[at + WIDTH] + c[at + WIDTH + 1]) / 4.0;
            }
        }
    }
}

/// How unlike two frames are: 0 (the same scene) to 1 (nothing in common).
pub fn score(a: &Thumbnail, b: &Thumbnail) -> f32 {
    let change = a.cells.iter().zip(&b.cells).map(|(a, b)| (a - b).abs()).sum::<f32>() / a.cells.len() as f32;
    if change < LEAST_CHANGE {
        return 0.0;
    }
    match (a.flat, b.flat) {
        (true, true) => return if (a.mean - b.mean).abs() > FLAT_CHANGE { 1.0 } else { 0.0 },
        (true, false) | (false, true) => return 1.0,
        (false, false) => {}
    }
    let pan = pan(a, b);
    let (mut sum, mut weights) = (0.0, 0.0);
    for y in (0..COARSE_HEIGHT).step_by(BLOCK_HEIGHT) {
        for x in (0..COARSE_WIDTH).step_by(BLOCK_WIDTH) {
            let mut best = block(a, b, x, y, (0, 0));
            if let Some(pan) = pan {
                best = match (best, block(a, b, x, y, pan)) {
                    (Some(best), Some(found)) => Some(best.max(found)),
                    (best, found) => best.or(found),
                };
                let inside = |at: usize, by: isize, size: usize, end: usize| {
                    at.checked_add_signed(by).is_some_and(|at| at + size <= end)
                };
                let stays =
                    inside(x, pan.0, BLOCK_WIDTH, COARSE_WIDTH) && inside(y, pan.1, BLOCK_HEIGHT, COARSE_HEIGHT);
                // A block that leaves the picture and is not found nearby tells nothing.
                best = best.filter(|found| stays || *found > PAN);
            }
            if let Some(found) = best {
                let contrast = deviation(&a.cells, x, y).max(deviation(&b.cells, x, y));
                let weight = (contrast / CONTRAST).min(1.0);
                sum += weight * found.max(0.0);
                weights += weight;
            }
        }
    }
    // Less than half a block with contrast in two pictures that are not flat cannot be told apart from a fade.
    if weights < 0.5 { 0.0 } else { (1.0 - sum / weights).clamp(0.0, 1.0) }
}

/// The shift at which the whole picture correlates best, if that is a pan.
fn pan(a: &Thumbnail, b: &Thumbnail) -> Option<(isize, isize)> {
    let mut best = (PAN, None);
    for dy in -PAN_Y..=PAN_Y {
        for dx in -PAN_X..=PAN_X {
            let size = (COARSE_WIDTH - dx.unsigned_abs(), COARSE_HEIGHT - dy.unsigned_abs());
            let from = ((-dx).max(0) as usize, (-dy).max(0) as usize);
            let found = correlation(&a.coarse, &b.coarse, COARSE_WIDTH, from, size, (dx, dy));
            if let Some(found) = found.filter(|found| *found > best.0) {
                best = (found, Some((dx, dy)));
            }
        }
    }
    best.1.filter(|shift| *shift != (0, 0))
}

/// What the block of `a` at coarse cell `(x, y)` correlates with its best match in `b` around a coarse shift.
fn block(a: &Thumbnail, b: &Thumbnail, x: usize, y: usize, (cx, cy): (isize, isize)) -> Option<f32> {
    let size = (BLOCK_WIDTH, BLOCK_HEIGHT);
    let mut best: Option<(f32, isize, isize)> = None;
    for dy in cy - REACH..=cy + REACH {
        for dx in cx - REACH..=cx + REACH {
            let found = correlation(&a.coarse, &b.coarse, COARSE_WIDTH, (x, y), size, (dx, dy));
            if let Some(found) = found.filter(|found| best.is_none_or(|best| *found > best.0)) {
                best = Some((found, dx, dy));
            }
        }
    }
    let (_, dx, dy) = best?;
    let mut fine: Option<f32> = None;
    for sy in -1..=1 {
        for sx in -1..=1 {
            let shift = (2 * dx + sx, 2 * dy + sy);
            let found =
                correlation(&a.cells, &b.cells, WIDTH, (2 * x, 2 * y), (2 * BLOCK_WIDTH, 2 * BLOCK_HEIGHT), shift);
            fine = match (fine, found) {
                (Some(fine), Some(found)) => Some(fine.max(found)),
                (fine, found) => fine.or(found),
            };
        }
    }
    fine
}

/// The standard deviation of the block at coarse cell `(x, y)`.
fn deviation(cells: &[f32], x: usize, y: usize) -> f32 {
    let (mut sum, mut squares) = (0.0, 0.0);
    for row in cells.chunks_exact(WIDTH).skip(2 * y).take(2 * BLOCK_HEIGHT) {
        for v in &row[2 * x..2 * (x + BLOCK_WIDTH)] {
            sum += v;
            squares += v * v;
        }
    }
    let n = (4 * BLOCK_WIDTH * BLOCK_HEIGHT) as f32;
    ((squares - sum * sum / n) / n).max(0.0).sqrt()
}

/// Pearson's correlation of the `size` part of `a` at `from` with the part of `b` that lies `shift` further; `None` if
/// that is not wholly in the picture, 0 where one of the two has no contrast.
fn correlation(
    a: &[f32],
    b: &[f32],
    width: usize,
    from: (usize, usize),
    size: (usize, usize),
    shift: (isize, isize),
) -> Option<f32> {
    let to = (from.0.checked_add_signed(shift.0)?, from.1.checked_add_signed(shift.1)?);
    if to.0 + size.0 > width || to.1 + size.1 > b.len() / width {
        return None;
    }
    let [mut sa, mut sb, mut saa, mut sbb, mut sab] = [0.0f32; 5];
    for y in 0..size.1 {
        let (ra, rb) = ((from.1 + y) * width + from.0, (to.1 + y) * width + to.0);
        for (&p, &q) in a[ra..ra + size.0].iter().zip(&b[rb..rb + size.0]) {
            sa += p;
            sb += q;
            saa += p * p;
            sbb += q * q;
            sab += p * q;
        }
    }
    let n = (size.0 * size.1) as f32;
    let (va, vb) = (saa - sa * sa / n, sbb - sb * sb / n);
    // Below this it is the rounding of the sums.
    if va < 1e-4 * n || vb < 1e-4 * n {
        return Some(0.0);
    }
    Some((sab - sa * sb / n) / (va * vb).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    const W: usize = 160;
    const H: usize = 90;

    fn hash(x: i64, y: i64, seed: u64) -> f32 {
        let mut z = (x as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (y as u64).wrapping_mul(0xC2B2_AE3D_27D4_EB4F);
        z = (z ^ seed.wrapping_mul(0x1656_67B1_9E37_79F9)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z ^= z >> 29;
        z = z.wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 32)) & 0xFFFF) as f32 / 65535.0
    }

    /// A picture of blobs of several sizes, seen from `(x, y)`.
    fn world(seed: u64, x0: i64, y0: i64) -> Vec<f32> {
        let smooth = |x: i64, y: i64, size: i64, seed: u64| {
            let (cx, cy) = (x.div_euclid(size), y.div_euclid(size));
            let (fx, fy) = (x.rem_euclid(size) as f32 / size as f32, y.rem_euclid(size) as f32 / size as f32);
            let mix = |a: f32, b: f32, f: f32| a + (b - a) * f;
            let row = |y| mix(hash(cx, y, seed), hash(cx + 1, y, seed), fx);
            mix(row(cy), row(cy + 1), fy)
        };
        let mut all = Vec::with_capacity(W * H);
        for y in 0..H as i64 {
            for x in 0..W as i64 {
                let (x, y) = (x + x0, y + y0);
                all.push(
                    200.0
                        * (0.5 * smooth(x, y, 40, seed)
                            + 0.3 * smooth(x, y, 13, seed + 1)
                            + 0.2 * smooth(x, y, 5, seed + 2))
                        + 20.0,
                );
            }
        }
        all
    }

    fn thumb(values: &[f32]) -> Thumbnail {
        let data: Vec<u8> = values.iter().map(|v| v.round().clamp(0.0, 255.0) as u8).collect();
        let mut t = Thumbnail::default();
        t.set(W, H, Luma::Y(Component { data: &data, stride: W, step: 1, depth: 8, shift: 0 }));
        t
    }

    fn cut(a: &[f32], b: &[f32]) -> bool {
        f64::from(score(&thumb(a), &thumb(b))) > DEFAULT_THRESHOLD
    }

    #[test]
    fn different_scenes_are_cuts() {
        for seed in 0..30 {
            let (a, b) = (world(10 * seed, 0, 0), world(10 * seed + 5, 300, 70));
            assert!(cut(&a, &b), "seed {seed}: {}", score(&thumb(&a), &thumb(&b)));
        }
    }

    #[test]
    fn black_or_white_and_a_picture_are_cuts() {
        let picture = world(3, 0, 0);
        for level in [0.0, 16.0, 235.0, 255.0] {
            let flat = vec![level; W * H];
            assert!(cut(&flat, &picture) && cut(&picture, &flat), "{level}");
        }
        assert!(cut(&[0.0; W * H], &[255.0; W * H]));
    }

    #[test]
    fn pans_are_not() {
        for speed in [1, 3, 6, 10, 16, 24, 32] {
            for step in 0..6 {
                let (a, b) = (world(7, speed * step, 0), world(7, speed * (step + 1), speed * step / 8));
                assert!(!cut(&a, &b), "{speed} px a frame: {}", score(&thumb(&a), &thumb(&b)));
            }
        }
    }

    #[test]
    fn a_flash_is_not() {
        let a = world(11, 0, 0);
        for (gain, offset) in [(1.5, 0.0), (1.0, 60.0), (1.6, 30.0), (0.4, 0.0), (0.5, 120.0)] {
            let b: Vec<f32> = world(11, 2, 0).iter().map(|v| v * gain + offset).collect();
            assert!(!cut(&a, &b) && !cut(&b, &a), "{gain} {offset}: {}", score(&thumb(&a), &thumb(&b)));
        }
    }

    #[test]
    fn a_slow_fade_is_not() {
        let a = world(13, 0, 0);
        for (from, to) in [(1.0f32, 0.0f32), (0.0, 1.0)] {
            for i in 0..25 {
                let level = |i: i32| from + (to - from) * i as f32 / 25.0;
                let at = |i: i32| a.iter().map(|v| v * level(i)).collect::<Vec<_>>();
                assert!(!cut(&at(i), &at(i + 1)), "step {i}");
            }
        }
        // A dissolve into another scene.
        let b = world(14, 0, 0);
        for i in 0..25 {
            let at = |i: i32| {
                let f = i as f32 / 25.0;
                a.iter().zip(&b).map(|(a, b)| a * (1.0 - f) + b * f).collect::<Vec<_>>()
            };
            assert!(!cut(&at(i), &at(i + 1)), "dissolve step {i}");
        }
    }

    #[test]
    fn noise_is_not() {
        let noisy = |values: &[f32], amount: f32, seed: u64| -> Vec<f32> {
            values.iter().enumerate().map(|(i, v)| v + amount * (hash(i as i64, 0, seed) - 0.5)).collect()
        };
        let a = world(17, 0, 0);
        assert!(!cut(&noisy(&a, 60.0, 1), &noisy(&a, 60.0, 2)));
        let grey = vec![128.0; W * H];
        assert!(!cut(&noisy(&grey, 255.0, 1), &noisy(&grey, 255.0, 2)));
    }

    #[test]
    fn a_frame_equals_itself() {
        let t = thumb(&world(19, 0, 0));
        assert_eq!(score(&t, &t), 0.0);
    }

    #[test]
    fn depth_layout_and_size_do_not_matter() {
        let values = world(23, 0, 0);
        let plain = thumb(&values);
        let codes: Vec<u32> = values.iter().map(|v| v.round() as u32).collect();
        let close = |t: &Thumbnail| {
            for (a, b) in t.cells.iter().zip(&plain.cells) {
                assert!((a - b).abs() < 0.003, "{a} {b}");
            }
            assert_eq!(t.flat, plain.flat);
        };
        // 10 bits in the high bits of 16, with a padded stride.
        let stride = 2 * W + 6;
        let mut data = vec![0xAAu8; stride * H];
        for (i, v) in codes.iter().enumerate() {
            let at = i / W * stride + i % W * 2;
            data[at..at + 2].copy_from_slice(&((v * 1023 / 255) << 6).to_le_bytes()[..2]);
        }
        let mut t = Thumbnail::default();
        t.set(W, H, Luma::Y(Component { data: &data, stride, step: 2, depth: 10, shift: 6 }));
        close(&t);
        // Grey RGBA.
        let data: Vec<u8> = codes.iter().flat_map(|v| [*v as u8, *v as u8, *v as u8, 255]).collect();
        let rgb = [0, 1, 2].map(|i| Component { data: &data[i..], stride: 4 * W, step: 4, depth: 8, shift: 0 });
        t.set(W, H, Luma::Rgb(rgb));
        close(&t);
        // Smaller than the thumbnail.
        for (w, h) in [(1, 1), (33, 17), (64, 1)] {
            let data: Vec<u8> = (0..w * h).map(|i| (i % 251) as u8).collect();
            t.set(w, h, Luma::Y(Component { data: &data, stride: w, step: 1, depth: 8, shift: 0 }));
            assert!(t.cells.iter().all(|v| (0.0..=1.0).contains(v)));
        }
    }
}
