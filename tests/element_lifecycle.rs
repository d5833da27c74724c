// SPDX-License-Identifier: MIT OR Apache-2.0
//! Starts, stops, seeks and failures of `framecastinterp`: nothing leaks, nothing hangs, and what befalls one pipeline is
//! no matter for the others.

mod support;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use gst::prelude::*;
use gstframecast::gpu::{Gpu, Memory};
use gstframecast::ifnet::synthetic::GeneratorShape;
use gstframecast::ifnet::{Graph, Weights};
use support::*;

fn pipeline(description: &str) -> gst::Pipeline {
    init();
    gst::parse::launch(description).unwrap().downcast().unwrap()
}

fn element(pipeline: &gst::Pipeline) -> gst::Element {
    pipeline.by_name("f").unwrap()
}

/// Frames without end.
fn endless(properties: &str) -> gst::Pipeline {
    pipeline(&format!(
        "videotestsrc pattern=ball ! video/x-raw,width=32,height=32,framerate=25/1 ! \
         framecastinterp name=f {properties} ! fakesink"
    ))
}

/// Waits, not for ever, until `condition` holds.
#[track_caller]
fn wait_for(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..60_000 {
        if condition() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("waited five minutes for {what}");
}

#[track_caller]
fn null(pipeline: &gst::Pipeline) {
    assert_eq!(pipeline.set_state(gst::State::Null), Ok(gst::StateChangeSuccess::Success));
    assert_eq!(element(pipeline).current_state(), gst::State::Null);
}

#[track_caller]
fn no_error(pipeline: &gst::Pipeline) {
    let error = first_error(&pipeline.bus().unwrap());
    assert!(error.is_none(), "{error:?}");
}

/// Weights whose frames are mixtures of the two they lie between.
fn tiny_model() -> tempfile::NamedTempFile {
    let shape = GeneratorShape { graph: Graph::Tfact, c1: 8, c2: 16, film_hidden: 8, refine_channels: 0 };
    let file = tempfile::Builder::new().suffix(".safetensors").tempfile().unwrap();
    std::fs::write(file.path(), Weights::synthetic(5, shape).to_safetensors().unwrap()).unwrap();
    file
}

// ---- starts and stops ------------------------------------------------------------------------------------------------

/// That the memory in use is the one seen first.
#[track_caller]
fn same(first: &mut Option<Memory>, now: Option<Memory>, when: &str) {
    let Some(now) = now else { return };
    let first = first.get_or_insert(now);
    // Where an allocation lies decides on a few bytes of padding.
    let close = first.bytes.abs_diff(now.bytes) < 4096;
    assert!(first.allocations == now.allocations && close, "{when}: {now:?}, at first {first:?}");
}

#[test]
#[ignore = "run by fifty_starts_and_stops"]
fn child_fifty_starts_and_stops() {
    if !process::is_child("child_fifty_starts_and_stops") {
        return;
    }
    let pipeline = pipeline(
        "videotestsrc pattern=ball num-buffers=4 ! video/x-raw,width=32,height=32,framerate=25/1 ! \
         framecastinterp name=f fps=50 ! fakesink",
    );
    let element = element(&pipeline);
    let gpu = Gpu::shared(None).unwrap();
    let mut idle = None;
    let mut playing = None;
    let mut resident = 0;
    for cycle in 1..=50 {
        if cycle % 2 == 1 {
            assert!(matches!(play(&pipeline), End::Eos));
            assert_eq!(counters(&element), [4, 8, 1, 0, 3]);
            same(&mut playing, gpu.memory(), &format!("cycle {cycle}, at the end of the stream"));
        } else {
            // Stopped while frames flow, at another moment each time.
            pipeline.set_state(gst::State::Playing).unwrap();
            std::thread::sleep(Duration::from_millis(cycle % 16 * 5));
        }
        null(&pipeline);
        same(&mut idle, gpu.memory(), &format!("cycle {cycle}, stopped"));
        if cycle == 10 {
            resident = process::resident();
        }
    }
    no_error(&pipeline);
    let growth = process::resident().saturating_sub(resident);
    println!("idle {idle:?}, playing {playing:?}, {growth} bytes more in memory after 40 cycles");
    if let (Some(idle), Some(playing)) = (idle, playing) {
        assert!(playing.allocations > idle.allocations + 20, "the counter counts: {playing:?} {idle:?}");
    }
    assert!(growth < 8 << 20, "{growth} bytes more in memory after 40 cycles");
}

#[test]
fn fifty_starts_and_stops() {
    process::in_child("child_fifty_starts_and_stops");
}

#[test]
fn stopped_while_the_network_works() {
    let pipeline = endless("fps=200");
    let element = element(&pipeline);
    let working = Arc::new(Mutex::new(None::<mpsc::Sender<()>>));
    // The second frame's outputs begin with frames made between; they are under way by the time the first output leaves.
    let told = working.clone();
    let count = AtomicU64::new(0);
    element.static_pad("src").unwrap().add_probe(gst::PadProbeType::BUFFER, move |_, _| {
        if count.fetch_add(1, Ordering::Relaxed) % 4 == 3 {
            let _ = told.lock().unwrap().as_ref().map(|sender| sender.send(()));
        }
        gst::PadProbeReturn::Ok
    });
    for target in [gst::State::Null, gst::State::Ready, gst::State::Paused].into_iter().cycle().take(30) {
        pipeline.set_state(gst::State::Playing).unwrap();
        // A pipeline (with videorate, too) may wait for ever if it is paused before it has come to play.
        let (result, state, _) = pipeline.state(gst::ClockTime::from_seconds(300));
        assert!(result.is_ok() && state == gst::State::Playing, "{result:?} {state:?}");
        let (sender, receiver) = mpsc::channel();
        *working.lock().unwrap() = Some(sender);
        receiver.recv_timeout(Duration::from_secs(300)).expect("frames flow");
        pipeline.set_state(target).unwrap();
        let (result, state, _) = pipeline.state(gst::ClockTime::from_seconds(300));
        assert!(result.is_ok() && state == target, "{result:?} {state:?}");
        no_error(&pipeline);
    }
    null(&pipeline);
}

// ---- seeks -----------------------------------------------------------------------------------------------------------

/// Ten seconds in which all pixels are in a range that no other ten seconds have.
const BLOCK: u64 = 10_000;
const BLOCKS: u64 = 5;

fn lowest(block: u64) -> u8 {
    20 + 45 * block as u8
}

/// Frame `n` of 25 a second: stripes that move, 16 levels from the lowest of its block.
fn frame_in_block(n: u64) -> gst::Buffer {
    let low = lowest(n * 40 / BLOCK);
    let pixels = (0..SIZE.0 * SIZE.1).flat_map(|i| {
        let level = low + ((u64::from(i) + n) % 16) as u8;
        [level, level, level, 255]
    });
    timed(pixels.collect(), ms(n * 40), ms(40))
}

/// Field case 14 (mpv#14974): seeks while frames are made between two others.
#[test]
fn fifty_seeks_between_two_frames() {
    init();
    let model = tiny_model();
    let pipeline = pipeline(&format!(
        "appsrc name=src format=time stream-type=seekable ! \
         framecastinterp name=f fps=125 scene-threshold=0 static-guard=off model={} ! \
         appsink name=sink sync=false max-buffers=2",
        model.path().display()
    ));
    let source = pipeline.by_name("src").unwrap().downcast::<gst_app::AppSrc>().unwrap();
    let sink = pipeline.by_name("sink").unwrap().downcast::<gst_app::AppSink>().unwrap();
    source.set_caps(Some(&caps("25/1", SIZE).parse().unwrap()));
    let next = Arc::new(AtomicU64::new(0));
    let sought = next.clone();
    let callbacks = gst_app::AppSrcCallbacks::builder()
        .seek_data(move |_, position| {
            sought.store(position / ms(40).nseconds(), Ordering::SeqCst);
            true
        })
        .need_data(move |source, _| {
            // A push that a flush refuses is followed by the seek that flushes.
            let _ = source.push_buffer(frame_in_block(next.fetch_add(1, Ordering::SeqCst)));
        });
    source.set_callbacks(callbacks.build());
    pipeline.set_state(gst::State::Playing).unwrap();
    pipeline.state(gst::ClockTime::from_seconds(300)).0.unwrap();
    let mut made = 0;
    for i in 0..50 {
        let block = (i * 3 + 1) % BLOCKS;
        pipeline.seek_simple(gst::SeekFlags::FLUSH, ms(block * BLOCK)).unwrap();
        // From none to two input frames' outputs, so that each seek comes at another place between two frames.
        let mut last = None;
        for _ in 0..i % 11 {
            let sample = sink.try_pull_sample(gst::ClockTime::from_seconds(300)).expect("a frame after the seek");
            let start = sample.segment().unwrap().downcast_ref::<gst::ClockTime>().unwrap().start();
            assert_eq!(start, Some(ms(block * BLOCK)), "seek {i}");
            let buffer = sample.buffer().unwrap();
            let pts = buffer.pts().unwrap();
            // Nothing is lost and nothing comes twice.
            assert_eq!(pts, last.map_or(ms(block * BLOCK), |last| last + ms(8)), "seek {i}");
            last = Some(pts);
            made += u64::from(!pts.mseconds().is_multiple_of(40));
            let pixels = buffer.map_readable().unwrap();
            let range = lowest(block) - 1..=lowest(block) + 16;
            let inside = pixels.chunks_exact(4).all(|p| p[..3].iter().all(|level| range.contains(level)));
            assert!(inside, "seek {i}: the frame at {pts} mixes in another segment");
        }
    }
    assert!(made > 100, "{made} frames were made");
    no_error(&pipeline);
    null(&pipeline);
}

// ---- failures --------------------------------------------------------------------------------------------------------

/// A frame pair through the element; what must work whatever befell others.
#[track_caller]
fn works() {
    let mut rig = Rig::new(&[("fps", "50/1")], "25/1", None);
    rig.push(at_rate(0, 25));
    assert_eq!(rig.push(at_rate(1, 25)).len(), 2);
    assert_eq!(rig.counters(), [2, 2, 0, 0, 1]);
}

/// An error that a lost device caused.
#[track_caller]
fn is_loss(error: &gst::glib::Error) {
    assert!(error.matches(gst::ResourceError::Failed), "{error:?}");
    assert!(error.message().contains("lost") && error.message().contains("start it again"), "{error}");
}

#[test]
#[ignore = "run by a_lost_device"]
fn child_a_lost_device() {
    if !process::is_child("child_a_lost_device") {
        return;
    }
    let mut rig = Rig::new(&[("fps", "50/1")], "25/1", None);
    rig.push(at_rate(0, 25));
    assert_eq!(rig.push(at_rate(1, 25)).len(), 2);
    Gpu::shared(None).unwrap().lose_for_test();
    assert_eq!(rig.h.push(at_rate(2, 25)), Err(gst::FlowError::Error));
    is_loss(&rig.error().unwrap());
    // Said once; nothing flows any more.
    assert_eq!(rig.h.push(at_rate(3, 25)), Err(gst::FlowError::Error));
    assert!(rig.error().is_none());
    // The next start opens a new device.
    works();
}

#[test]
fn a_lost_device() {
    process::in_child("child_a_lost_device");
}

#[test]
#[ignore = "run by a_lost_device_of_several_pipelines"]
fn child_a_lost_device_of_several_pipelines() {
    if !process::is_child("child_a_lost_device_of_several_pipelines") {
        return;
    }
    let drawing = [endless("fps=50"), endless("fps=100")];
    // One that has the device open, but nothing to draw.
    let copying = endless("fps=25");
    // And one that will start later.
    let ready = endless("fps=50");
    for round in 0..3 {
        ready.set_state(gst::State::Ready).unwrap();
        for pipeline in &drawing {
            pipeline.set_state(gst::State::Playing).unwrap();
        }
        copying.set_state(gst::State::Playing).unwrap();
        for pipeline in &drawing {
            wait_for("made frames", || counters(&element(pipeline))[4] > 3);
        }
        let gpu = Gpu::shared(None).unwrap();
        gpu.lose_for_test();
        for pipeline in &drawing {
            let bus = pipeline.bus().unwrap();
            let message = bus.timed_pop_filtered(gst::ClockTime::from_seconds(300), &[gst::MessageType::Error]);
            let Some(gst::MessageView::Error(error)) = message.as_ref().map(|message| message.view()) else {
                panic!("no error in round {round}");
            };
            assert_eq!(error.src(), Some(element(pipeline).upcast_ref::<gst::Object>()));
            is_loss(&error.error());
        }
        let before = counters(&element(&copying))[1];
        wait_for("copied frames", || counters(&element(&copying))[1] > before + 10);
        no_error(&copying);
        // The element in READY takes a new device when it starts.
        ready.set_state(gst::State::Playing).unwrap();
        wait_for("made frames", || counters(&element(&ready))[4] > 3);
        no_error(&ready);
        assert!(gpu.lost().is_some() && Gpu::shared(None).unwrap().lost().is_none());
        for pipeline in drawing.iter().chain([&copying, &ready]) {
            null(pipeline);
        }
    }
    works();
}

#[test]
fn a_lost_device_of_several_pipelines() {
    process::in_child("child_a_lost_device_of_several_pipelines");
}

#[test]
#[ignore = "run by a_driver_that_draws_nothing"]
fn child_a_driver_that_draws_nothing() {
    if !process::is_child("child_a_driver_that_draws_nothing") {
        return;
    }
    init();
    let gpu = Gpu::shared(None).unwrap();
    gpu.break_for_test("warp");
    for precision in ["auto", "f32"] {
        let (end, counters) = run(&format!(
            "videotestsrc pattern=ball num-buffers=5 ! video/x-raw,width=32,height=32,framerate=25/1 ! \
             framecastinterp name=f fps=50 precision={precision} ! fakesink"
        ));
        let error = end.error();
        assert!(error.matches(gst::ResourceError::Failed), "{error:?}");
        assert!(error.message().contains("draws wrong pictures"), "{error}");
        assert!(error.message().contains(gpu.adapter_name()), "{error}");
        assert_eq!(counters[1], 0);
    }
}

/// Field case 10, in the element: an error, not a green frame.
#[test]
fn a_driver_that_draws_nothing() {
    process::in_child("child_a_driver_that_draws_nothing");
}

#[test]
fn frames_beyond_the_adapter_harm_nobody() {
    let mut other = Rig::new(&[("fps", "50/1")], "25/1", None);
    other.push(at_rate(0, 25));
    let limit = Gpu::shared(None).unwrap().limits().max_storage_buffer_binding_size;
    for (format, bytes) in [("RGBA", 4), ("GRAY8", 1), ("NV12", 1), ("P010_10LE", 3)] {
        let caps = format!("video/x-raw,format={format},width=16384,height=16384,framerate=25/1");
        let mut rig = Rig::idle(&[("fps", "50/1")]);
        rig.h.set_sink_caps_str("video/x-raw");
        assert!(rig.h.push_event(gst::event::StreamStart::new("test")));
        // A pad keeps its caps, whatever the element makes of them.
        rig.h.push_event(gst::event::Caps::new(&caps.parse::<gst::Caps>().unwrap()));
        rig.h.push_event(gst::event::Segment::new(&segment(0, None)));
        // Whether that fits is up to the adapter.
        let error = rig.error();
        let accepted = error.is_none();
        if bytes * 16384 * 16384 > limit {
            let error = error.expect("frames that cannot be bound are refused");
            assert!(error.matches(gst::StreamError::Format), "{format}: {error:?}");
            assert!(error.message().contains("16384x16384"), "{format}: {error}");
        } else if let Some(error) = error {
            assert!(error.matches(gst::ResourceError::Failed), "{format}: {error:?}");
        }
        if !accepted {
            let frame = gst::Buffer::with_size(64).unwrap();
            assert!(rig.h.push(frame).is_err(), "{format}");
            assert!(rig.error().is_none(), "{format}: said once");
        }
    }
    // A pipeline that ran all the while goes on, and a new one starts.
    assert_eq!(other.push(at_rate(1, 25)).len(), 2);
    assert_eq!(other.counters(), [2, 2, 0, 0, 1]);
    works();
}
