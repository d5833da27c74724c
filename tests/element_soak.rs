// SPDX-License-Identifier: MIT OR Apache-2.0
//! Long runs of `framecastinterp`: counts and times stay exact, memory stays where it was.
//!
//! They take minutes, so that they are run apart: `cargo test --release --test element_soak -- --ignored`.

mod support;

use gstframecast::gpu::{Gpu, Memory};
use gstframecast::ifnet::synthetic::GeneratorShape;
use gstframecast::ifnet::{Graph, Weights};
use support::*;

const MIB: u64 = 1 << 20;

/// A model as small as they come.
fn tiny_model() -> tempfile::NamedTempFile {
    let shape = GeneratorShape { graph: Graph::Tfact, c1: 4, c2: 4, film_hidden: 4, refine_channels: 0 };
    let file = tempfile::Builder::new().suffix(".safetensors").tempfile().unwrap();
    std::fs::write(file.path(), Weights::synthetic(2, shape).to_safetensors().unwrap()).unwrap();
    file
}

/// The element with the tiny model, which doubles 25 frames a second and takes moving stripes for no scene cut.
fn doubler(model: &tempfile::NamedTempFile) -> Rig {
    let model = model.path().display().to_string();
    let mut rig = Rig::idle(&[("fps", "50/1"), ("scene-threshold", "0"), ("model", &model)]);
    rig.h.set_sink_caps_str("video/x-raw");
    rig
}

fn memory() -> Option<Memory> {
    Gpu::shared(None).unwrap().memory()
}

#[track_caller]
fn same_objects(first: Option<Memory>, when: &str) {
    let now = memory();
    assert_eq!(now.map(|m| m.allocations), first.map(|m| m.allocations), "{when}: {now:?}, at first {first:?}");
}

/// Stripes; those of another `n` lie elsewhere.
fn stripes(n: u64, bytes: usize) -> Vec<u8> {
    (0..bytes as u64).map(|i| ((i + n * 5) % 61 * 4) as u8).collect()
}

#[test]
#[ignore = "a minute or more: 10,000 frames"]
fn ten_thousand_frames() {
    process::in_child("child_ten_thousand_frames");
}

#[test]
#[ignore = "run by ten_thousand_frames"]
fn child_ten_thousand_frames() {
    if !process::is_child("child_ten_thousand_frames") {
        return;
    }
    const FRAMES: u64 = 10_000;
    let model = tiny_model();
    let mut rig = doubler(&model);
    rig.h.set_src_caps_str(&caps("25/1", (64, 64)));
    rig.events();
    let mut resident = 0;
    let mut objects = None;
    let mut outputs = 0;
    let mut check = |buffers: Vec<gst::Buffer>| {
        for buffer in buffers {
            // Exact, so increasing, without a gap and without an overlap.
            let flags = buffer.flags() & (gst::BufferFlags::GAP | gst::BufferFlags::DISCONT);
            assert_output(&buffer, outputs, outputs * 20_000_000, 20_000_000, flags);
            assert_eq!(buffer.size(), 64 * 64 * 4);
            outputs += 1;
        }
    };
    for n in 0..FRAMES {
        // Every fifth picture is the one before once more.
        let picture = n - n / 5;
        check(rig.push(timed(stripes(picture, 64 * 64 * 4), ms(n * 40), ms(40))));
        match n {
            1_000 => (resident, objects) = (process::resident(), memory()),
            _ if n % 1_000 == 999 && n > 1_000 => same_objects(objects, &format!("after frame {n}")),
            _ => {}
        }
    }
    let growth = process::resident().saturating_sub(resident);
    check(rig.eos());
    // Between two different pictures one is made; equal ones and the last are repeated.
    let made = FRAMES - 1 - (FRAMES - 1) / 5;
    println!("{:?}, {growth} bytes more in memory after 9,000 frames, {objects:?}", rig.counters());
    assert_eq!(outputs, 2 * FRAMES);
    assert_eq!(rig.counters(), [FRAMES, 2 * FRAMES, FRAMES - made, 0, made]);
    assert!(growth < 2 * MIB, "{growth} bytes more in memory after 9,000 frames");
}

#[test]
#[ignore = "a minute or more: 100 changes of caps"]
fn a_hundred_caps_changes() {
    process::in_child("child_a_hundred_caps_changes");
}

#[test]
#[ignore = "run by a_hundred_caps_changes"]
fn child_a_hundred_caps_changes() {
    if !process::is_child("child_a_hundred_caps_changes") {
        return;
    }
    // Bytes of a frame last: sizes of one format, other formats, and odd sides.
    let kinds = [("RGBA", 64, 64, 16384), ("RGBA", 32, 40, 5120), ("I420", 64, 64, 6144), ("GRAY8", 36, 23, 828)];
    let model = tiny_model();
    let mut rig = doubler(&model);
    let mut resident = 0;
    let mut objects = [None; 4];
    let mut last = None;
    for round in 0..100 {
        let kind = round % kinds.len();
        let (format, width, height, bytes) = kinds[kind];
        let caps = format!("video/x-raw,format={format},width={width},height={height},framerate=25/1");
        if round == 0 {
            rig.h.set_src_caps_str(&caps);
        } else {
            rig.h.push_event(gst::event::Caps::new(&caps.parse::<gst::Caps>().unwrap()));
        }
        let mut sizes = Vec::new();
        for i in 0..3 {
            let n = round as u64 * 3 + i;
            for buffer in rig.push(timed(stripes(n, bytes), ms(n * 40), ms(40))) {
                let pts = buffer.pts().unwrap();
                assert!(last.is_none_or(|last| pts == last + ms(20)), "{pts} after {last:?}");
                last = Some(pts);
                sizes.push(buffer.size());
            }
        }
        // The drained frames of the caps before went out with their caps, before these.
        assert_eq!(sizes.iter().filter(|size| **size == bytes).count(), 4, "round {round}: {sizes:?}");
        let now = memory();
        match objects[kind] {
            None => objects[kind] = now,
            first => same_objects(first, &format!("round {round}")),
        }
        if round == 19 {
            resident = process::resident();
        }
    }
    let growth = process::resident().saturating_sub(resident);
    rig.eos();
    println!("{:?}, {growth} bytes more in memory after 80 changes, {objects:?}", rig.counters());
    assert_eq!(rig.counters(), [300, 600, 100, 0, 200]);
    assert!(rig.error().is_none());
    assert!(growth < 8 * MIB, "{growth} bytes more in memory after 80 changes");
}
