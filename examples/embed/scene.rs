// SPDX-License-Identifier: MIT OR Apache-2.0
//! A moving picture made by arithmetic: a balloon drifts over hills that scroll by, far ones slower than near ones.

/// Frame at `seconds`: `width`×`height` pixels of R,G,B,A bytes.
pub fn draw(width: usize, height: usize, seconds: f32) -> Vec<u8> {
    const SAMPLES: usize = 3; // a side, per pixel: smooth edges
    let mut pixels = Vec::with_capacity(width * height * 4);
    for (y, x) in (0..height).flat_map(|y| (0..width).map(move |x| (y, x))) {
        let mut sum = [0.0; 3];
        for (sy, sx) in (0..SAMPLES).flat_map(|sy| (0..SAMPLES).map(move |sx| (sy, sx))) {
            let place = |pixel: usize, sample: usize| pixel as f32 + (sample as f32 + 0.5) / SAMPLES as f32;
            // The picture is one unit high.
            let colour = colour(place(x, sx) / height as f32, place(y, sy) / height as f32, seconds);
            sum = mix(sum, colour, |sum, c| sum + c);
        }
        // Gamma 2.2 of the mean.
        pixels.extend(sum.map(|c| ((c / (SAMPLES * SAMPLES) as f32).powf(1.0 / 2.2) * 255.0).round() as u8));
        pixels.push(255);
    }
    pixels
}

/// Linear light at a point.
fn colour(x: f32, y: f32, seconds: f32) -> [f32; 3] {
    balloon(x - 0.35 - 0.32 * seconds, y - 0.36 - 0.05 * (0.8 * seconds).sin())
        .or_else(|| hill(x + 0.30 * seconds, y - 0.86, 3.1, [0.05, 0.12, 0.03]))
        .or_else(|| hill(x + 0.14 * seconds + 7.0, y - 0.72, 1.9, [0.10, 0.20, 0.11]))
        .or_else(|| hill(x + 0.05 * seconds + 3.0, y - 0.62, 1.2, [0.20, 0.30, 0.36]))
        .unwrap_or_else(|| sky(x + 0.02 * seconds, y))
}

fn sky(x: f32, y: f32) -> [f32; 3] {
    let clear = blend([0.11, 0.27, 0.60], [0.72, 0.74, 0.70], y * 1.4);
    let cloud = (texture(x * 2.0, y * 5.0) - 0.48) * 3.5;
    blend(clear, [0.95, 0.93, 0.90], cloud)
}

/// Ground below a wavy ridge at `y` = 0.
fn hill(x: f32, y: f32, steepness: f32, colour: [f32; 3]) -> Option<[f32; 3]> {
    let ridge = 0.05 * (x * steepness).sin() + 0.06 * (texture(x * steepness * 2.0, steepness) - 0.5);
    (y > ridge).then(|| {
        let patches = 0.55 + 0.9 * texture(x * 9.0, y * 22.0);
        let light = patches * (1.0 + 1.5 * (y - ridge));
        colour.map(|c| c * light)
    })
}

/// A striped envelope with a basket below, around the origin.
fn balloon(x: f32, y: f32) -> Option<[f32; 3]> {
    const RADIUS: f32 = 0.17;
    let (u, v) = (x / RADIUS, y / RADIUS);
    // Round above, tapering towards the basket.
    let half = if v < 0.0 { (1.0 - v * v).max(0.0).sqrt() } else { (1.0 - (v / 1.35).powi(2)).max(0.0).powf(0.7) };
    if u.abs() < half && v < 1.2 {
        let longitude = (u / half).asin();
        let stripe = ((longitude + 0.6) * 1.7).rem_euclid(3.0) as usize;
        let light = 0.25 + 0.75 * ((longitude + 0.6).cos() * 0.8 + 0.2 - 0.25 * v).clamp(0.0, 1.0);
        let cloth = [[0.80, 0.06, 0.03], [0.90, 0.72, 0.30], [0.10, 0.16, 0.42]][stripe];
        return Some(cloth.map(|c| c * light));
    }
    let basket = u.abs() < 0.27 - 0.1 * (v - 1.2) && (1.2..1.6).contains(&v);
    basket.then_some([0.16, 0.08, 0.03])
}

/// Cloudy noise from 0 to 1: four octaves of smoothly joined random values.
fn texture(x: f32, y: f32) -> f32 {
    let octaves = [(1.0, 0.5), (2.0, 0.25), (4.0, 0.15), (8.0, 0.1)];
    octaves.iter().map(|(scale, weight)| weight * noise(x * scale, y * scale)).sum()
}

fn noise(x: f32, y: f32) -> f32 {
    let random = |x: f32, y: f32| {
        let mut bits = (x as i32 as u32).wrapping_mul(0x9E37_79B9) ^ (y as i32 as u32).wrapping_mul(0x85EB_CA6B);
        bits = (bits ^ (bits >> 15)).wrapping_mul(0x2C1B_3C6D);
        bits = (bits ^ (bits >> 12)).wrapping_mul(0x297A_2D39);
        ((bits ^ (bits >> 15)) >> 8) as f32 / (1u32 << 24) as f32
    };
    let (left, top) = (x.floor(), y.floor());
    let smooth = |t: f32| t * t * (3.0 - 2.0 * t);
    let (across, down) = (smooth(x - left), smooth(y - top));
    let row = |y| random(left, y) + (random(left + 1.0, y) - random(left, y)) * across;
    row(top) + (row(top + 1.0) - row(top)) * down
}

fn blend(a: [f32; 3], b: [f32; 3], share: f32) -> [f32; 3] {
    let share = share.clamp(0.0, 1.0);
    mix(a, b, |a, b| a + (b - a) * share)
}

fn mix(a: [f32; 3], b: [f32; 3], of: impl Fn(f32, f32) -> f32) -> [f32; 3] {
    std::array::from_fn(|n| of(a[n], b[n]))
}
