// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `framecastinterp` shows: the reference vectors through a whole pipeline, scene cuts. Formats: element_formats.rs.

mod common;
mod support;

use common::{cases, difference};
use support::*;

fn raw(format: &str, (width, height): (u32, u32), rate: i32) -> gst::Caps {
    init();
    gst::Caps::builder("video/x-raw")
        .field("format", format)
        .field("width", width as i32)
        .field("height", height as i32)
        .field("framerate", gst::Fraction::new(rate, 1))
        .build()
}

/// Every reference vector at the frame's own size, at 10 frames a second in and a multiple of it out.
fn reference_vectors(precision: &str, bounds: impl Fn(bool) -> (u8, f64)) {
    let folder = tempfile::tempdir().unwrap();
    let mut checked = 0;
    for case in cases().into_iter().filter(|case| !case.stretched()) {
        let whole = |k: u32| case.outputs.iter().all(|o| (o.t * f64::from(k)).fract() < 1e-9);
        let k = (2..=20).find(|k| whole(*k)).expect("a rate that hits every t");
        let model = case.weights_file().unwrap_or_else(|| {
            let path = folder.path().join(format!("{}.safetensors", case.name));
            std::fs::write(&path, case.weights().to_safetensors().unwrap()).unwrap();
            path
        });
        let guard = if case.static_guard { "soft" } else { "off" };
        let properties = format!(
            "fps={}/1 model=\"{}\" static-guard={guard} scene-threshold=0 precision={precision}",
            10 * k,
            model.display()
        );
        let size = (case.input_width, case.input_height);
        let frames = case.inputs().into_iter().zip([0, 100]).map(|(pixels, at)| timed(pixels, ms(at), ms(100)));
        let (out, counters) = through(&properties, &raw("RGBA", size, 10), frames);
        assert_eq!(counters, [2, u64::from(2 * k), u64::from(k - 1), 0, u64::from(k - 1)], "{}", case.name);
        for expected in &case.outputs {
            let n = (expected.t * f64::from(k)).round() as usize;
            assert_eq!(out[n].pts().unwrap().nseconds(), n as u64 * 100_000_000 / u64::from(k));
            let found = difference(&bytes(&out[n]), &case.expected(expected));
            let (max, mean) = bounds(case.truncated());
            assert!(found.max <= max && found.mean <= mean, "{} t={} {precision}: {found:?}", case.name, expected.t);
            checked += 1;
        }
    }
    assert_eq!(checked, 14, "reference pictures");
}

#[test]
fn reference_vectors_in_f32() {
    reference_vectors("f32", |truncated| if truncated { (2, 0.55) } else { (1, 0.02) });
}

#[test]
fn reference_vectors_in_f16() {
    // What was truncated is half a code lower on average.
    reference_vectors("f16", |truncated| if truncated { (13, 1.0) } else { (12, 0.5) });
}

/// A picture of blocks of random colours that depend on `seed` alone.
fn scene(seed: u32, shift: u32) -> Vec<u8> {
    let mut pixels = Vec::with_capacity(96 * 64 * 4);
    for y in 0..64u32 {
        for x in 0..96u32 {
            let cell = ((x + shift) / 8 + 64 * (y / 8)).wrapping_mul(2_654_435_761).wrapping_add(seed * 40_503);
            let mixed = (cell ^ (cell >> 15)).wrapping_mul(0x2C1B_3C6D);
            pixels.extend([(mixed >> 8) as u8, (mixed >> 16) as u8, (mixed >> 24) as u8, 255]);
        }
    }
    pixels
}

/// 25 to 60 frames a second; returns the outputs and the number of made ones.
fn at_sixty(pictures: &[Vec<u8>]) -> (Vec<gst::Buffer>, u64) {
    let frames = pictures.iter().zip(0..).map(|(pixels, n)| timed(pixels.clone(), ms(40 * n), ms(40)));
    let (out, counters) = through("fps=60/1", &raw("RGBA", (96, 64), 25), frames);
    (out, counters[4])
}

#[test]
fn field_case_01_a_cut_shows_the_nearer_frame() {
    let black: Vec<u8> = [0, 0, 0, 255].repeat(96 * 64);
    for (a, b) in [(scene(1, 0), scene(2, 0)), (black.clone(), scene(3, 0)), (scene(4, 0), black)] {
        let pictures = [a.clone(), a.clone(), a.clone(), b.clone(), b.clone(), b.clone()];
        let (out, made) = at_sixty(&pictures);
        assert_eq!((out.len(), made), (15, 0), "equal frames need nothing made, a cut must not");
        for buffer in out {
            // The cut is between 80 and 120 ms.
            let expected = if buffer.pts().unwrap() <= ms(100) { &a } else { &b };
            assert!(bytes(&buffer) == *expected, "at {:?}", buffer.pts());
        }
    }
}

#[test]
fn field_case_02_a_moving_scene_around_a_cut_is_held_once() {
    let pictures: Vec<_> = (0..3).map(|i| scene(1, 2 * i)).chain((0..3).map(|i| scene(2, 2 * i))).collect();
    let (out, made) = at_sixty(&pictures);
    // 15 outputs: 0 and 200 ms are on frames, 100 (and 83.3, 116.7) at the cut, 216.7 and 233.3 after the last frame.
    assert_eq!((out.len(), made), (15, 8));
    for (n, side) in [(5, &pictures[2]), (6, &pictures[2]), (7, &pictures[3])] {
        assert!(bytes(&out[n]) == *side, "output {n}");
    }
}

#[test]
fn field_case_02_pans_flashes_and_fades_are_no_cuts() {
    let level = |pixels: &[u8], gain: f64, offset: f64| -> Vec<u8> {
        let code = |(i, v): (usize, &u8)| if i % 4 == 3 { *v } else { (f64::from(*v) * gain + offset) as u8 };
        pixels.iter().enumerate().map(code).collect()
    };
    let pan: Vec<_> = (0..6).map(|i| scene(5, 9 * i)).collect();
    let flash: Vec<_> =
        (0..6).map(|i| level(&scene(6, i), if i == 3 { 0.6 } else { 1.0 }, if i == 3 { 100.0 } else { 0.0 })).collect();
    let fade: Vec<_> = (0..6).map(|i| level(&scene(7, 0), 1.0 - f64::from(i) / 25.0, 0.0)).collect();
    for (name, pictures) in [("pan", pan), ("flash", flash), ("fade", fade)] {
        let (out, made) = at_sixty(&pictures);
        // Outputs 0 and 12 are on frames, 13 and 14 after the last one.
        assert_eq!((out.len(), made), (15, 11), "{name}");
    }
}

#[test]
fn field_case_16_between_equal_frames_that_frame_is_shown() {
    // A, B, C, C, D
    let pictures = [scene(1, 0), scene(1, 1), scene(1, 2), scene(1, 2), scene(1, 3)];
    let frames = pictures.iter().zip(0..).map(|(pixels, n)| timed(pixels.clone(), ms(40 * n), ms(40)));
    let (out, counters) = through("fps=50/1 static-guard=off", &raw("RGBA", (96, 64), 25), frames);
    assert_eq!(times(&out), [0, 20, 40, 60, 80, 100, 120, 140, 160, 180]);
    assert_eq!(counters, [5, 10, 2, 0, 3]);
    for n in [4, 5, 6] {
        assert!(bytes(&out[n]) == pictures[2], "output {n}");
    }
}

#[test]
fn field_case_14_seeking_mid_pair_never_mixes_segments() {
    // Bright frames in one segment, dark ones in the next: no output is between them.
    let mut rig = Rig::new(&[("scene-threshold", "0"), ("static-guard", "off")], "25/1", Some("50/1"));
    for seek in 0..50u64 {
        let level = if seek % 2 == 0 { 0 } else { 40 };
        rig.event(gst::event::FlushStart::new());
        rig.event(gst::event::FlushStop::new(true));
        rig.segment(&segment(1000 * seek, None));
        let mut out = Vec::new();
        for n in 0..3u64 {
            out.extend(rig.push(frame(level + n as u8, Some(ms(1000 * seek + 40 * n)), Some(ms(40)))));
        }
        assert_eq!(out.len(), 4);
        for buffer in out {
            // The third byte of each pixel is the frame's level.
            let mean = bytes(&buffer).chunks(4).map(|p| f64::from(p[2])).sum::<f64>() / (32.0 * 16.0);
            assert!((mean - f64::from(level)).abs() < 12.0, "seek {seek}: level {level}, mean {mean}");
        }
    }
}
