// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `framecastinterp` tells while it works: statistics, notifications, messages. Whoever listens may ask back.

mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use gst::prelude::*;
use support::*;

#[test]
fn statistics_name_what_was_done_and_how() {
    let mut rig = Rig::new(&[], "25/1", Some("50/1"));
    let stats: gst::Structure = rig.element.property("stats");
    assert_eq!(stats.get::<u64>("frames"), Ok(0));
    // A pair to draw, an equal one, a cut.
    let scene = |seed: u8, n: u64| {
        let pixels = (0..SIZE.0 * SIZE.1).flat_map(|i| {
            let cell = (i % 32 / 4 + 8 * (i / 128)).wrapping_mul(2_654_435_761).wrapping_add(u32::from(seed) * 77_777);
            [(cell >> 8) as u8, (cell >> 13) as u8, (cell >> 19) as u8, 255]
        });
        timed(pixels.collect(), ms(40 * n), ms(40))
    };
    rig.push(at_rate(0, 25));
    rig.push(at_rate(1, 25));
    rig.push(frame(1, Some(ms(80)), Some(ms(40))));
    rig.push(scene(1, 3));
    rig.push(frame(9, Some(ms(10)), None));
    rig.eos();
    let stats: gst::Structure = rig.element.property("stats");
    let count = |name: &str| stats.get::<u64>(name).unwrap_or_else(|error| panic!("{name}: {error}"));
    for (name, value) in
        [("frames", 5), ("out", 8), ("interpolated", 1), ("dropped", 1), ("scene-cuts", 1), ("equal-pairs", 1)]
    {
        assert_eq!(count(name), value, "{name}");
    }
    assert_eq!(count("duplicated"), rig.counters()[2]);
    assert!(count("upload-time") > 0 && count("readback-time") > 0);
    // An adapter with timestamps tells both times, one without neither.
    assert_eq!(count("last-gpu-time") > 0, count("mean-gpu-time") > 0);
    let text = |name: &str| stats.get::<String>(name).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(text("adapter"), rig.element.property::<String>("adapter-name"));
    assert_eq!(text("graph"), "tfact2");
    assert!(["f16", "f32"].contains(&text("storage").as_str()));
    let (convolution, tile) = text("kernel").split_once(": ").map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    assert!(convolution.contains('.'), "{convolution}");
    assert!(["direct", "staged", "matrix"].iter().any(|kind| tile.starts_with(kind)), "{tile}");
}

/// Reads and asks everything an application may while the element waits for it.
fn ask_back(element: &gst::Element) {
    for spec in element.list_properties() {
        element.property_value(spec.name());
    }
    element.set_property("scene-threshold", element.property::<f64>("scene-threshold"));
    element.set_property("fps", element.property::<gst::Fraction>("fps"));
    let (source, sink) = (element.static_pad("src").unwrap(), element.static_pad("sink").unwrap());
    source.query(&mut gst::query::Latency::new());
    source.query(&mut gst::query::Caps::new(None));
    source.query(&mut gst::query::Position::new(gst::Format::Time));
    sink.query(&mut gst::query::Caps::new(None));
    source.send_event(gst::event::Reconfigure::new());
    element.current_state();
}

/// From every callback the element can call, everything can be asked: no lock is held meanwhile.
#[test]
fn no_lock_is_held_while_others_are_called() {
    let calls = Arc::new(Mutex::new(Vec::<&'static str>::new()));
    let (done, finished) = std::sync::mpsc::channel();
    let seen = calls.clone();
    let worker = std::thread::spawn(move || {
        let mut rig = Rig::idle(&[("silent", "false")]);
        let log = move |what| {
            let mut calls = seen.lock().unwrap();
            if !calls.contains(&what) {
                calls.push(what);
            }
        };
        let (element, note) = (rig.element.downgrade(), log.clone());
        rig.bus.set_sync_handler(move |_, message| {
            note(match message.type_() {
                gst::MessageType::Error => "error",
                gst::MessageType::Qos => "qos",
                gst::MessageType::Latency => "latency",
                _ => return gst::BusSyncReply::Pass,
            });
            if let Some(element) = element.upgrade() {
                ask_back(&element);
            }
            gst::BusSyncReply::Pass
        });
        for counter in ["in", "out", "duplicate", "drop", "interpolated"] {
            let note = log.clone();
            rig.element.connect_notify(Some(counter), move |element, _| {
                note("notify");
                ask_back(element);
            });
        }
        let peer = rig.element.static_pad("src").unwrap().peer().unwrap();
        let kinds = gst::PadProbeType::BUFFER
            | gst::PadProbeType::EVENT_DOWNSTREAM
            | gst::PadProbeType::QUERY_DOWNSTREAM
            | gst::PadProbeType::PUSH;
        let (element, note, inside) = (rig.element.downgrade(), log, AtomicUsize::new(0));
        peer.add_probe(kinds, move |_, info| {
            // Asking for the caps asks downstream, and so comes here again.
            if inside.fetch_add(1, Ordering::SeqCst) == 0 {
                note(match &info.data {
                    Some(gst::PadProbeData::Buffer(_)) => "buffer",
                    Some(gst::PadProbeData::Event(_)) => "event",
                    _ => "query",
                });
                if let Some(element) = element.upgrade() {
                    ask_back(&element);
                }
            }
            inside.fetch_sub(1, Ordering::SeqCst);
            gst::PadProbeReturn::Ok
        });
        rig.h.set_sink_caps_str("video/x-raw,framerate=50/1");
        rig.h.set_src_caps_str(&caps("25/1", SIZE));
        for n in 0..3 {
            rig.push(at_rate(n, 25));
        }
        rig.push(frame(0, Some(ms(10)), None));
        // Late.
        let event = gst::event::Qos::new(gst::QOSType::Underflow, 1.5, 1_000_000_000, gst::ClockTime::ZERO);
        rig.element.static_pad("src").unwrap().send_event(event);
        let _ = rig.h.push(at_rate(3, 25));
        // No frame.
        let mut short = gst::Buffer::with_size(100).unwrap();
        short.get_mut().unwrap().set_pts(ms(2000));
        short.get_mut().unwrap().set_duration(ms(40));
        let _ = rig.h.push(short);
        let mut interlaced: gst::Caps = caps("25/1", SIZE).parse().unwrap();
        interlaced.make_mut().set("interlace-mode", "interleaved");
        rig.h.push_event(gst::event::Caps::new(&interlaced));
        done.send(()).unwrap();
    });
    // A lock that is held would wait for itself for ever.
    let ended = finished.recv_timeout(std::time::Duration::from_secs(120));
    let calls = calls.lock().unwrap().clone();
    assert!(ended.is_ok(), "stuck, or it panicked; seen: {calls:?}");
    worker.join().unwrap();
    for what in ["error", "qos", "latency", "notify", "buffer", "event", "query"] {
        assert!(calls.contains(&what), "nothing was called for {what}: {calls:?}");
    }
}

/// Two elements on one device give what each gives alone.
#[test]
fn two_elements_at_once_equal_single_runs() {
    let work = |kind: usize| -> Vec<Vec<u8>> {
        let (properties, size) = [("fps=75", (48, 32)), ("fps=60 precision=f32 static-guard=off", (33, 17))][kind];
        let caps: gst::Caps = caps("25/1", size).parse().unwrap();
        let frames = (0..6u8).map(|n| frame_of(6 * n, size, Some(ms(40 * u64::from(n))), Some(ms(40))));
        let (out, counters) = through(properties, &caps, frames);
        assert!(counters[4] >= 6, "{counters:?}");
        out.iter().map(bytes).collect()
    };
    init();
    let alone = [work(0), work(1)];
    let together: Vec<_> = [0, 1, 0].map(|kind| std::thread::spawn(move || (kind, work(kind)))).into_iter().collect();
    for thread in together {
        let (kind, found) = thread.join().unwrap();
        assert!(found == alone[kind], "element {kind} differs beside others");
    }
}

#[test]
fn a_model_that_cannot_be_read() {
    init();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("folder.safetensors");
    std::fs::create_dir(&path).unwrap();
    let element = gst::ElementFactory::make("framecastinterp").property("model", path.to_str()).build().unwrap();
    let bus = gst::Bus::new();
    element.set_bus(Some(&bus));
    assert!(element.set_state(gst::State::Ready).is_err());
    let error = first_error(&bus).expect("an error");
    assert!(error.matches(gst::ResourceError::Read), "{error:?}");
    assert!(error.message().contains("folder.safetensors"), "{error}");
}
