// SPDX-License-Identifier: MIT OR Apache-2.0
//! How close made frames come to the truth on real clips: every second frame is taken away, made again by
//! `framecastinterp` in a pipeline, and compared with the one that was taken.
//!
//! The clips are those of Debian's package opencv-doc (see models/README.md for more of them); they are no part of this
//! repository.

mod support;

use gst::prelude::*;
use support::*;

const FOLDER: &str = "/usr/share/doc/opencv-doc/examples/data";
/// Frames drawn per clip.
const MADE: usize = 10;
const SIZE: (u32, u32) = (352, 256);

/// `count` frames of a clip, decoded and scaled to [`SIZE`] as I420, from frame `first` on.
fn decode(name: &str, first: usize, count: usize) -> Vec<Vec<u8>> {
    let path = format!("{FOLDER}/{name}");
    assert!(
        std::path::Path::new(&path).is_file(),
        "the clip {path} is missing: install Debian's package opencv-doc (examples/install-deps.sh --tests does)"
    );
    let description = format!(
        "filesrc location={path} ! decodebin ! videoconvert ! videoscale ! \
         video/x-raw,format=I420,width={},height={} ! appsink name=sink sync=false max-buffers=2",
        SIZE.0, SIZE.1
    );
    init();
    let pipeline = gst::parse::launch(&description).unwrap().downcast::<gst::Pipeline>().unwrap();
    let sink = pipeline.by_name("sink").unwrap().downcast::<gst_app::AppSink>().unwrap();
    pipeline.set_state(gst::State::Playing).unwrap();
    let frames: Vec<_> = std::iter::from_fn(|| sink.pull_sample().ok())
        .skip(first)
        .take(count)
        .map(|sample| bytes(&sample.buffer_owned().unwrap()))
        .collect();
    let error = first_error(&pipeline.bus().unwrap());
    pipeline.set_state(gst::State::Null).unwrap();
    assert_eq!(frames.len(), count, "frames of {name} from {first} on; {error:?}");
    frames
}

/// Peak signal-to-noise ratio in dB over the samples of all planes.
fn psnr(a: &[u8], b: &[u8]) -> f64 {
    assert_eq!(a.len(), b.len());
    let squares: f64 = a.iter().zip(b).map(|(a, b)| f64::from(a.abs_diff(*b)).powi(2)).sum();
    10.0 * (255.0 * 255.0 * a.len() as f64 / squares).log10()
}

/// Draws every second frame of a clip anew and requires the mean PSNR to lie `margin` dB above that of the neighbours'
/// even blend.
fn beats_a_blend(name: &str, first: usize, margin: f64) {
    let frames = decode(name, first, 2 * MADE + 1);
    let kept = frames.iter().step_by(2).zip(0..).map(|(pixels, n)| timed(pixels.clone(), ms(100 * n), ms(100)));
    let caps = gst::Caps::builder("video/x-raw")
        .field("format", "I420")
        .field("width", SIZE.0 as i32)
        .field("height", SIZE.1 as i32)
        .field("framerate", gst::Fraction::new(10, 1))
        .build();
    let (out, counters) = through("fps=20/1", &caps, kept);
    assert_eq!(counters, [MADE as u64 + 1, 2 * MADE as u64 + 2, 1, 0, MADE as u64], "{name}");

    let (mut network, mut blend) = (0.0, 0.0);
    for (n, truth) in frames.iter().enumerate() {
        let shown = bytes(&out[n]);
        if n % 2 == 0 {
            assert!(shown == *truth, "{name}: frame {n} was kept and has to come out as it was");
            continue;
        }
        let blended: Vec<u8> = frames[n - 1]
            .iter()
            .zip(&frames[n + 1])
            .map(|(&a, &b)| (u16::from(a) + u16::from(b)).div_ceil(2) as u8)
            .collect();
        let (made, even) = (psnr(&shown, truth), psnr(&blended, truth));
        println!("{name}, frame {}: made {made:.2} dB, blend {even:.2} dB", first + n);
        network += made / MADE as f64;
        blend += even / MADE as f64;
    }
    println!("{name}: made {network:.2} dB, blend {blend:.2} dB");
    assert!(network > blend + margin, "{name}: made {network:.2} dB, blend {blend:.2} dB, wanted {margin} dB more");
}

#[test]
fn made_frames_of_an_animated_film_are_closer_to_the_truth_than_a_blend() {
    beats_a_blend("Megamind.avi", 60, 3.0);
}

#[test]
fn made_frames_of_a_street_are_closer_to_the_truth_than_a_blend() {
    beats_a_blend("vtest.avi", 100, 1.0);
}
