// SPDX-License-Identifier: MIT OR Apache-2.0
//! Driving the element: a harness with its order of buffers and events, whole pipelines, test pictures.
#![allow(dead_code)] // Each test program uses a part of this.

pub mod process;

use std::sync::{Arc, Mutex, Once};

use gst::prelude::*;
use gstframecast::framecastinterp::FramecastInterp;

/// Initialises GStreamer and registers the element.
pub fn init() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        gst::init().expect("GStreamer");
        gst::Element::register(None, "framecastinterp", gst::Rank::NONE, FramecastInterp::static_type())
            .expect("registration");
    });
}

pub fn ms(value: u64) -> gst::ClockTime {
    gst::ClockTime::from_mseconds(value)
}

pub fn ns(value: u64) -> gst::ClockTime {
    gst::ClockTime::from_nseconds(value)
}

/// What left the element, in order.
#[derive(Debug, Clone)]
pub enum Item {
    Buffer(gst::Buffer),
    Event(gst::Event),
}

/// The element in a harness; every serialized thing that leaves it is logged.
pub struct Rig {
    pub h: gst_check::Harness,
    pub element: gst::Element,
    pub bus: gst::Bus,
    log: Arc<Mutex<Vec<Item>>>,
}

/// A frame of [`Rig::SIZE`] whose every byte is `level`.
pub const SIZE: (u32, u32) = (32, 16);

impl Rig {
    /// `properties` as in gst-launch, `output` what downstream asks for (`None`: leaves it open), `input` a frame rate.
    pub fn new(properties: &[(&str, &str)], input: &str, output: Option<&str>) -> Self {
        let mut rig = Self::idle(properties);
        match output {
            Some(rate) => rig.h.set_sink_caps_str(&format!("video/x-raw,framerate={rate}")),
            None => rig.h.set_sink_caps_str("video/x-raw"),
        }
        rig.h.set_src_caps_str(&caps(input, SIZE));
        rig.events();
        rig
    }

    /// As `new`, before any caps.
    pub fn idle(properties: &[(&str, &str)]) -> Self {
        init();
        let element = gst::ElementFactory::make("framecastinterp").build().expect("the element");
        for (name, value) in properties {
            element.set_property_from_str(name, value);
        }
        let log = Arc::new(Mutex::new(Vec::new()));
        let seen = log.clone();
        let pad = element.static_pad("src").expect("src pad");
        pad.add_probe(gst::PadProbeType::BUFFER | gst::PadProbeType::EVENT_DOWNSTREAM, move |_, info| {
            let item = match &info.data {
                Some(gst::PadProbeData::Buffer(buffer)) => Some(Item::Buffer(buffer.clone())),
                Some(gst::PadProbeData::Event(event)) => Some(Item::Event(event.clone())),
                _ => None,
            };
            seen.lock().unwrap().extend(item);
            gst::PadProbeReturn::Ok
        });
        let bus = gst::Bus::new();
        element.set_bus(Some(&bus));
        Self { h: gst_check::Harness::with_element(&element, Some("sink"), Some("src")), element, bus, log }
    }

    pub fn push(&mut self, buffer: gst::Buffer) -> Vec<gst::Buffer> {
        let flow = self.h.push(buffer);
        assert_eq!(flow, Ok(gst::FlowSuccess::Ok), "{:?}", self.error());
        self.buffers()
    }

    /// The first error that was posted since the last call.
    pub fn error(&self) -> Option<gst::glib::Error> {
        first_error(&self.bus)
    }

    pub fn event(&mut self, event: gst::Event) -> Vec<gst::Buffer> {
        assert!(self.h.push_event(event));
        self.buffers()
    }

    pub fn eos(&mut self) -> Vec<gst::Buffer> {
        self.event(gst::event::Eos::new())
    }

    /// Everything that came out since the last call.
    pub fn items(&mut self) -> Vec<Item> {
        while self.h.try_pull().is_some() {}
        while self.h.try_pull_event().is_some() {}
        std::mem::take(&mut *self.log.lock().unwrap())
    }

    pub fn buffers(&mut self) -> Vec<gst::Buffer> {
        let buffers = self.items().into_iter().filter_map(|item| match item {
            Item::Buffer(buffer) => Some(buffer),
            Item::Event(_) => None,
        });
        buffers.collect()
    }

    pub fn events(&mut self) -> Vec<gst::Event> {
        let events = self.items().into_iter().filter_map(|item| match item {
            Item::Event(event) => Some(event),
            Item::Buffer(_) => None,
        });
        events.collect()
    }

    pub fn segment(&mut self, segment: &gst::FormattedSegment<gst::ClockTime>) -> Vec<gst::Buffer> {
        self.event(gst::event::Segment::new(segment))
    }

    /// in, out, duplicate, drop, interpolated
    pub fn counters(&self) -> [u64; 5] {
        counters(&self.element)
    }
}

pub fn counters(element: &gst::Element) -> [u64; 5] {
    ["in", "out", "duplicate", "drop", "interpolated"].map(|name| element.property(name))
}

pub fn caps(rate: &str, (width, height): (u32, u32)) -> String {
    format!("video/x-raw,format=RGBA,width={width},height={height},framerate={rate}")
}

pub fn segment(start: u64, stop: Option<u64>) -> gst::FormattedSegment<gst::ClockTime> {
    let mut segment = gst::FormattedSegment::new();
    segment.set_start(ms(start));
    segment.set_time(ms(start));
    segment.set_position(ms(start));
    segment.set_stop(stop.map(ms));
    segment
}

/// An RGBA frame of `SIZE` with a gradient that depends a little on `level`, so that two levels are no scene cut.
pub fn frame(level: u8, pts: Option<gst::ClockTime>, duration: Option<gst::ClockTime>) -> gst::Buffer {
    frame_of(level, SIZE, pts, duration)
}

pub fn frame_of(
    level: u8,
    (width, height): (u32, u32),
    pts: Option<gst::ClockTime>,
    duration: Option<gst::ClockTime>,
) -> gst::Buffer {
    let pixels: Vec<u8> = (0..width * height)
        .flat_map(|i| {
            let (x, y) = (i % width, i / width);
            [(x * 200 / width) as u8 + level, (y * 200 / height) as u8, level, 255]
        })
        .collect();
    let mut buffer = gst::Buffer::from_slice(pixels);
    let writable = buffer.get_mut().unwrap();
    writable.set_pts(pts);
    writable.set_duration(duration);
    buffer
}

/// A buffer of these bytes.
pub fn timed(pixels: Vec<u8>, pts: gst::ClockTime, duration: gst::ClockTime) -> gst::Buffer {
    let mut buffer = gst::Buffer::from_slice(pixels);
    let writable = buffer.get_mut().unwrap();
    writable.set_pts(pts);
    writable.set_duration(duration);
    buffer
}

/// Frame `n` at `num/1` frames per second.
pub fn at_rate(n: u64, num: u64) -> gst::Buffer {
    let at = |n: u64| n * 1_000_000_000 / num;
    frame((n % 50) as u8, Some(ns(at(n))), Some(ns(at(n + 1) - at(n))))
}

pub fn same_memory(a: &gst::Buffer, b: &gst::Buffer) -> bool {
    a.n_memory() == 1 && b.n_memory() == 1 && a.peek_memory(0).as_ptr() == b.peek_memory(0).as_ptr()
}

pub fn bytes(buffer: &gst::Buffer) -> Vec<u8> {
    buffer.map_readable().expect("readable").to_vec()
}

/// Offset, PTS and duration in ns, and the flags of one output.
#[track_caller]
pub fn assert_output(buffer: &gst::Buffer, offset: u64, pts: u64, duration: u64, flags: gst::BufferFlags) {
    assert_eq!(buffer.offset(), offset, "offset of {buffer:?}");
    assert_eq!(buffer.offset_end(), offset + 1, "offset end of {buffer:?}");
    assert_eq!(buffer.pts(), Some(ns(pts)), "PTS of {buffer:?}");
    assert_eq!(buffer.dts(), None, "DTS of {buffer:?}");
    assert_eq!(buffer.duration(), Some(ns(duration)), "duration of {buffer:?}");
    let seen = buffer.flags() & (gst::BufferFlags::GAP | gst::BufferFlags::DISCONT);
    assert_eq!(seen, flags, "flags of {buffer:?}");
}

/// PTS in ms, rounded down.
pub fn times(buffers: &[gst::Buffer]) -> Vec<u64> {
    buffers.iter().map(|b| b.pts().expect("a PTS").mseconds()).collect()
}

pub fn gaps(buffers: &[gst::Buffer]) -> Vec<bool> {
    buffers.iter().map(|b| b.flags().contains(gst::BufferFlags::GAP)).collect()
}

/// The first error on the bus.
pub fn first_error(bus: &gst::Bus) -> Option<gst::glib::Error> {
    bus.pop_filtered(&[gst::MessageType::Error]).and_then(|message| match message.view() {
        gst::MessageView::Error(error) => Some(error.error()),
        _ => None,
    })
}

/// How a pipeline ended.
#[derive(Debug)]
pub enum End {
    Eos,
    Error(gst::glib::Error),
}

impl End {
    #[track_caller]
    pub fn error(self) -> gst::glib::Error {
        match self {
            Self::Error(error) => error,
            Self::Eos => panic!("the pipeline ended without an error"),
        }
    }
}

/// Runs a pipeline to its end and checks that it goes back to NULL. The element is named `f`.
#[track_caller]
pub fn run(description: &str) -> (End, [u64; 5]) {
    init();
    let pipeline = gst::parse::launch(description).expect(description).downcast::<gst::Pipeline>().expect("a pipeline");
    let end = play(&pipeline);
    let element = pipeline.by_name("f").expect("an element named f");
    let counters = counters(&element);
    assert_eq!(pipeline.set_state(gst::State::Null), Ok(gst::StateChangeSuccess::Success));
    assert_eq!(pipeline.current_state(), gst::State::Null);
    assert_eq!(element.current_state(), gst::State::Null);
    (end, counters)
}

/// Plays to EOS or the first error.
pub fn play(pipeline: &gst::Pipeline) -> End {
    let bus = pipeline.bus().expect("a bus");
    // A failed change has posted its error.
    let _ = pipeline.set_state(gst::State::Playing);
    let types = [gst::MessageType::Eos, gst::MessageType::Error];
    let message = bus.timed_pop_filtered(gst::ClockTime::from_seconds(300), &types).expect("an end within 5 minutes");
    match message.view() {
        gst::MessageView::Error(error) => End::Error(error.error()),
        _ => End::Eos,
    }
}

/// Pushes frames through `appsrc ! framecastinterp ! appsink` and returns what comes out.
pub fn through(
    properties: &str,
    caps: &gst::Caps,
    frames: impl IntoIterator<Item = gst::Buffer>,
) -> (Vec<gst::Buffer>, [u64; 5]) {
    init();
    let description =
        format!("appsrc name=src format=time ! framecastinterp name=f {properties} ! appsink name=sink sync=false");
    let pipeline = gst::parse::launch(&description).unwrap().downcast::<gst::Pipeline>().unwrap();
    let source = pipeline.by_name("src").unwrap().downcast::<gst_app::AppSrc>().unwrap();
    let sink = pipeline.by_name("sink").unwrap().downcast::<gst_app::AppSink>().unwrap();
    source.set_caps(Some(caps));
    pipeline.set_state(gst::State::Playing).unwrap();
    for frame in frames {
        source.push_buffer(frame).unwrap();
    }
    source.end_of_stream().unwrap();
    let mut out = Vec::new();
    while let Ok(sample) = sink.pull_sample() {
        out.push(sample.buffer_owned().unwrap());
    }
    let error = first_error(&pipeline.bus().unwrap());
    let counters = counters(&pipeline.by_name("f").unwrap());
    pipeline.set_state(gst::State::Null).unwrap();
    assert!(error.is_none(), "{caps}: {error:?}");
    (out, counters)
}
