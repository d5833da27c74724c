// SPDX-License-Identifier: MIT OR Apache-2.0
//! From 0..1 to code values.

/// `v` clamped to 0..1 as a code of 0..=`max`: to nearest (`floor(v·max + 0.5)`), or truncated (`floor(v·max)`).
pub fn to_code(v: f32, max: u16, truncate: bool) -> u16 {
    let scaled = v.clamp(0.0, 1.0) * f32::from(max);
    // A float-to-int cast saturates and takes NaN to 0.
    (if truncate { scaled } else { scaled + 0.5 }) as u16
}
