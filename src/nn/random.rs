// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers from a seed, the same on every machine.

/// The splitmix64 generator (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
#[derive(Debug, Clone)]
pub struct SplitMix64(pub u64);

impl SplitMix64 {
    /// The next value of 0..1: the upper 53 bits.
    pub fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
        (z >> 11) as f64 / (1u64 << 53) as f64
    }

    /// `count` values `centre + uni(amplitude)`, computed in float64 and rounded once.
    pub fn draw(&mut self, count: usize, centre: f64, amplitude: f64) -> Vec<f32> {
        (0..count).map(|_| (centre + (2.0 * self.unit() - 1.0) * amplitude) as f32).collect()
    }
}
