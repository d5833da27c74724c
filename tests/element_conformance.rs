// SPDX-License-Identifier: MIT OR Apache-2.0
//! `videorate` and `framecastinterp` side by side on the same buffers and events: PTS, duration, offsets, flags, picture
//! and position of every output, caps and segments, counters. What may differ stands in [`ALLOWED`].

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Once};

use gst::prelude::*;
use gstframecast::framecastinterp::FramecastInterp;

// ---- scenarios ------------------------------------------------------------------------------------------------------

#[derive(Debug, Clone)]
enum Step {
    Frame(Shot),
    Event(gst::Event),
    Caps {
        rate: &'static str,
        size: (u32, u32),
    },
    /// Downstream asks for another rate.
    Downstream(&'static str),
    /// What the element answers to a latency query.
    Latency,
}

#[derive(Debug, Clone, Copy, Default)]
struct Shot {
    pts: Option<u64>,
    duration: Option<u64>,
    flags: u32,
    /// The same picture as the shot before.
    still: bool,
}

/// What both elements get.
struct Script {
    properties: Vec<(&'static str, &'static str)>,
    input: &'static str,
    /// What downstream asks for.
    output: &'static str,
    live: bool,
    steps: Vec<Step>,
}

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;
const SIZE: (u32, u32) = (16, 16);

/// Frame `n` of a grid at `num/den`.
fn edge(n: u64, (num, den): (u64, u64)) -> u64 {
    (u128::from(n) * u128::from(den) * u128::from(SECOND) / u128::from(num)) as u64
}

fn fraction(text: &str) -> (u64, u64) {
    let (num, den) = text.split_once('/').expect("a fraction");
    (num.parse().expect("a number"), den.parse().expect("a number"))
}

fn segment(start: u64, stop: Option<u64>) -> gst::FormattedSegment<gst::ClockTime> {
    let mut segment = gst::FormattedSegment::new();
    segment.set_start(gst::ClockTime::from_nseconds(start));
    segment.set_time(gst::ClockTime::from_nseconds(start));
    segment.set_position(gst::ClockTime::from_nseconds(start));
    segment.set_stop(stop.map(gst::ClockTime::from_nseconds));
    segment
}

impl Script {
    fn new(input: &'static str, output: &'static str) -> Self {
        init();
        Self { properties: Vec::new(), input, output, live: false, steps: Vec::new() }
    }

    fn with(mut self, name: &'static str, value: &'static str) -> Self {
        self.properties.push((name, value));
        self
    }

    fn live(mut self) -> Self {
        self.live = true;
        self
    }

    fn step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    fn shot(self, shot: Shot) -> Self {
        self.step(Step::Frame(shot))
    }

    /// A frame in ms.
    fn at(self, pts: u64, duration: u64) -> Self {
        self.shot(Shot { pts: Some(pts * MS), duration: Some(duration * MS), ..Default::default() })
    }

    /// Frames without duration, in ms.
    fn bare(mut self, times: &[u64]) -> Self {
        for pts in times {
            self = self.shot(Shot { pts: Some(pts * MS), ..Default::default() });
        }
        self
    }

    /// Frames `range` of a grid at `rate` that starts at `offset` ns.
    fn grid(mut self, offset: u64, rate: &str, range: std::ops::Range<u64>) -> Self {
        let rate = fraction(rate);
        for n in range {
            let (begin, end) = (edge(n, rate), edge(n + 1, rate));
            self = self.shot(Shot { pts: Some(offset + begin), duration: Some(end - begin), ..Default::default() });
        }
        self
    }

    fn frames(self, count: u64) -> Self {
        let rate = self.input;
        self.grid(0, rate, 0..count)
    }

    fn event(self, event: gst::Event) -> Self {
        self.step(Step::Event(event))
    }

    fn segment(self, segment: &gst::FormattedSegment<gst::ClockTime>) -> Self {
        self.event(gst::event::Segment::new(segment))
    }

    fn gap(self, pts: u64, duration: u64) -> Self {
        let time = gst::ClockTime::from_mseconds;
        self.event(gst::event::Gap::builder(time(pts)).duration(time(duration)).build())
    }

    fn flush(self) -> Self {
        self.event(gst::event::FlushStart::new()).event(gst::event::FlushStop::new(true))
    }

    fn eos(self) -> Self {
        self.event(gst::event::Eos::new())
    }
}

// ---- running --------------------------------------------------------------------------------------------------------

fn init() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        gst::init().expect("GStreamer");
        gst::Element::register(None, "framecastinterp", gst::Rank::NONE, FramecastInterp::static_type())
            .expect("registration");
    });
}

/// One output buffer.
#[derive(Debug, Clone, PartialEq)]
struct Output {
    /// How many segments and flushes came before; what they drain belongs to the time before them.
    epoch: usize,
    /// How many outputs came before, since the last flush.
    index: u64,
    pts: Option<u64>,
    duration: Option<u64>,
    dts: Option<u64>,
    offsets: (u64, u64),
    gap: bool,
    discont: bool,
    /// The other flags.
    flags: u32,
    /// The input frame that is shown; `None`: one that was made.
    picture: Option<usize>,
    size: usize,
}

#[derive(Debug, Default)]
struct Record {
    outputs: Vec<Output>,
    /// CAPS, SEGMENT, SEGMENT_DONE, GAP and EOS events, latencies, and what was refused.
    marks: Vec<String>,
    /// in, out, duplicate (and interpolated), drop
    counters: [u64; 4],
}

fn picture(level: u8, (width, height): (u32, u32)) -> Vec<u8> {
    let all = (0..width * height).flat_map(|i| {
        let (x, y) = (i % width, i / width);
        [(x * 200 / width) as u8 + level, (y * 200 / height) as u8, level, 255]
    });
    all.collect()
}

fn caps(rate: &str, (width, height): (u32, u32)) -> String {
    format!("video/x-raw,format=RGBA,width={width},height={height},framerate={rate}")
}

fn play(factory: &str, script: &Script) -> Record {
    let element = gst::ElementFactory::make(factory).build().expect(factory);
    for (name, value) in &script.properties {
        element.set_property_from_str(name, value);
    }
    let ours = factory == "framecastinterp";
    let interpolated = move |element: &gst::Element| if ours { element.property::<u64>("interpolated") } else { 0 };

    #[derive(Default)]
    struct Seen {
        epoch: usize,
        index: u64,
        made: u64,
        /// Where the pixels of the input frames lie; the frames are kept so that no two share a place.
        places: Vec<(usize, gst::Buffer)>,
        record: Record,
    }
    let seen = Arc::new(Mutex::new(Seen::default()));
    let place = |buffer: &gst::BufferRef| buffer.peek_memory(0).as_ptr() as usize;
    let probe = seen.clone();
    element.static_pad("src").expect("src pad").add_probe(
        gst::PadProbeType::BUFFER | gst::PadProbeType::EVENT_DOWNSTREAM,
        move |pad, info| {
            let mut guard = probe.lock().unwrap();
            let seen = &mut *guard;
            match &info.data {
                Some(gst::PadProbeData::Buffer(buffer)) => {
                    let element = pad.parent_element().expect("an element");
                    let made = interpolated(&element);
                    let is_made = std::mem::replace(&mut seen.made, made) < made;
                    let at = place(buffer);
                    let shown = seen.places.iter().position(|(place, _)| *place == at);
                    assert_eq!(shown.is_none(), is_made, "a copied frame: {buffer:?}");
                    let (gap, discont) = (gst::BufferFlags::GAP, gst::BufferFlags::DISCONT);
                    let time = |time: Option<gst::ClockTime>| time.map(|time| time.nseconds());
                    seen.record.outputs.push(Output {
                        epoch: seen.epoch,
                        index: seen.index,
                        pts: time(buffer.pts()),
                        duration: time(buffer.duration()),
                        dts: time(buffer.dts()),
                        offsets: (buffer.offset(), buffer.offset_end()),
                        gap: buffer.flags().contains(gap),
                        discont: buffer.flags().contains(discont),
                        // TAG_MEMORY tells how the memory came about, nothing about the frame.
                        flags: (buffer.flags() - gap - discont - gst::BufferFlags::TAG_MEMORY).bits(),
                        picture: shown,
                        size: buffer.size(),
                    });
                    seen.index += 1;
                }
                Some(gst::PadProbeData::Event(event)) => {
                    let mark = match event.view() {
                        gst::EventView::Caps(caps) => Some(format!("caps {}", caps.caps())),
                        gst::EventView::Segment(segment) => Some(format!("{:?}", segment.segment())),
                        gst::EventView::Gap(_) | gst::EventView::Eos(_) | gst::EventView::SegmentDone(_) => {
                            Some(event.type_().name().to_string())
                        }
                        _ => None,
                    };
                    seen.record.marks.extend(mark);
                }
                _ => {}
            }
            gst::PadProbeReturn::Ok
        },
    );
    let mut harness = gst_check::Harness::with_element(&element, Some("sink"), Some("src"));
    harness.set_live(script.live);
    harness.set_sink_caps_str(&downstream(script.output));
    harness.set_src_caps_str(&caps(script.input, SIZE));
    let mut size = SIZE;
    let mut level = 0u8;
    let mut segment = None;
    for step in &script.steps {
        match step {
            Step::Frame(shot) => {
                level = if shot.still { level } else { (level + 1) % 50 };
                let mut buffer = gst::Buffer::from_slice(picture(level, size));
                let writable = buffer.get_mut().expect("the only reference");
                writable.set_pts(shot.pts.map(gst::ClockTime::from_nseconds));
                writable.set_duration(shot.duration.map(gst::ClockTime::from_nseconds));
                writable.set_flags(gst::BufferFlags::from_bits_retain(shot.flags));
                let keep = buffer.copy();
                seen.lock().unwrap().places.push((place(&buffer), keep));
                let flow = harness.push(buffer);
                if flow != Ok(gst::FlowSuccess::Ok) {
                    seen.lock().unwrap().record.marks.push(format!("{flow:?}"));
                }
            }
            Step::Event(event) => {
                let taken = harness.push_event(event.clone());
                let mut seen = seen.lock().unwrap();
                if !taken {
                    seen.record.marks.push(format!("{} refused", event.type_().name()));
                }
                match event.view() {
                    gst::EventView::FlushStop(_) => {
                        segment = None;
                        seen.epoch += 1;
                        seen.index = 0;
                    }
                    // The same one again changes nothing.
                    gst::EventView::Segment(event) if segment.as_ref() != Some(event.segment()) => {
                        segment = Some(event.segment().clone());
                        seen.epoch += 1;
                    }
                    _ => {}
                }
            }
            Step::Caps { rate, size: new } => {
                size = *new;
                let caps: gst::Caps = caps(rate, size).parse().expect("caps");
                if !harness.push_event(gst::event::Caps::new(&caps)) {
                    seen.lock().unwrap().record.marks.push(format!("{caps} refused"));
                }
            }
            Step::Downstream(rate) => harness.set_sink_caps_str(&downstream(rate)),
            Step::Latency => {
                let mut query = gst::query::Latency::new();
                assert!(element.static_pad("src").expect("src pad").query(&mut query));
                let (live, min, _) = query.result();
                seen.lock().unwrap().record.marks.push(format!("latency {live} {}", min.nseconds()));
            }
        }
        while harness.try_pull().is_some() {}
    }
    let count = |name: &str| element.property::<u64>(name);
    let counters = [count("in"), count("out"), count("duplicate") + interpolated(&element), count("drop")];
    let mut record = std::mem::take(&mut seen.lock().unwrap().record);
    record.counters = counters;
    record
}

fn downstream(rate: &str) -> String {
    if rate.is_empty() { "video/x-raw".into() } else { format!("video/x-raw,framerate={rate}") }
}

// ---- the scenarios --------------------------------------------------------------------------------------------------

fn scenarios() -> BTreeMap<&'static str, Script> {
    let flag = |flag: gst::BufferFlags| flag.bits();
    let (discont, corrupted) = (flag(gst::BufferFlags::DISCONT), flag(gst::BufferFlags::CORRUPTED));
    let shot =
        |pts: u64, flags: u32| Shot { pts: Some(pts * MS), duration: Some(40 * MS), flags, ..Default::default() };
    let still = |pts: u64, still: bool| Shot { pts: Some(pts * MS), duration: Some(40 * MS), still, flags: 0 };
    let untimed = |duration: Option<u64>| Shot { duration, ..Default::default() };
    let based = |start: u64, stop: Option<u64>, base: u64| {
        let mut segment = segment(start * MS, stop.map(|stop| stop * MS));
        segment.set_base(gst::ClockTime::from_nseconds(base * MS));
        segment
    };
    let part = |start: u64, stop: Option<u64>| segment(start * MS, stop.map(|stop| stop * MS));
    let backward = |start: u64, stop: u64| {
        let mut segment = segment(start * MS, Some(stop * MS));
        segment.set_rate(-1.0);
        segment
    };
    let all = [
        // Rates.
        ("equal", Script::new("25/1", "25/1").frames(6).eos()),
        ("equal_odd", Script::new("30000/1001", "30000/1001").frames(40).eos()),
        ("double", Script::new("30/1", "60/1").frames(5).eos()),
        ("half", Script::new("50/1", "25/1").frames(9).eos()),
        ("half_odd_count", Script::new("50/1", "25/1").frames(10).eos()),
        ("film_to_sixty", Script::new("24000/1001", "60/1").frames(24).eos()),
        ("pal_to_sixty", Script::new("25/1", "60/1").frames(13).eos()),
        ("fifty_to_ntsc", Script::new("50/1", "60000/1001").frames(20).eos()),
        ("sixty_to_ninety", Script::new("60/1", "90/1").frames(7).eos()),
        ("sixty_to_film", Script::new("60/1", "24000/1001").frames(30).eos()),
        ("thirty_to_pal", Script::new("30000/1001", "25/1").frames(30).eos()),
        ("slideshow", Script::new("1/1", "4/1").frames(3).eos()),
        ("to_one_a_second", Script::new("10/1", "1/1").frames(35).eos()),
        // Timestamps.
        ("vfr", Script::new("0/1", "60/1").bare(&[0, 41, 83, 125, 250, 291]).eos()),
        (
            "vfr_with_durations",
            Script::new("0/1", "30/1").at(0, 41).at(41, 42).at(83, 42).at(125, 125).at(250, 41).eos(),
        ),
        (
            "vfr_faster_than_the_output",
            Script::new("0/1", "25/1").bare(&[0, 9, 22, 31, 38, 51, 62, 70, 79, 90, 121]).eos(),
        ),
        (
            "jitter",
            Script::new("25/1", "25/1").at(0, 40).at(43, 40).at(77, 40).at(124, 40).at(158, 40).at(201, 40).eos(),
        ),
        ("no_duration", Script::new("25/1", "50/1").bare(&[0, 40, 80, 120]).eos()),
        (
            "missing_pts",
            Script::new("25/1", "25/1")
                .at(0, 40)
                .shot(untimed(Some(40 * MS)))
                .shot(untimed(Some(40 * MS)))
                .at(120, 40)
                .eos(),
        ),
        ("missing_pts_at_first", Script::new("25/1", "25/1").shot(untimed(Some(40 * MS))).at(0, 40).at(40, 40).eos()),
        (
            "missing_pts_and_duration",
            Script::new("25/1", "25/1").bare(&[0]).shot(untimed(None)).shot(untimed(None)).bare(&[120]).eos(),
        ),
        (
            "backward_pts",
            Script::new("25/1", "50/1").at(0, 40).at(40, 40).at(20, 40).at(0, 40).at(80, 40).at(120, 40).eos(),
        ),
        ("duplicate_pts", Script::new("25/1", "25/1").at(0, 40).at(40, 40).at(40, 40).at(80, 40).at(120, 40).eos()),
        ("duplicate_pts_upward", Script::new("25/1", "50/1").at(0, 40).at(40, 40).at(40, 40).at(80, 40).eos()),
        ("late_start", Script::new("25/1", "25/1").grid(100 * MS, "25/1", 0..4).eos()),
        ("late_start_off_grid", Script::new("25/1", "50/1").grid(93 * MS, "25/1", 0..4).eos()),
        (
            "ten_seconds_in",
            Script::new("25/1", "50/1").segment(&part(10_000, None)).grid(10 * SECOND, "25/1", 0..3).eos(),
        ),
        ("before_the_segment", Script::new("25/1", "25/1").segment(&part(100, None)).grid(0, "25/1", 0..6).eos()),
        // Holes.
        ("hole", Script::new("25/1", "25/1").frames(2).at(800, 40).at(840, 40).eos()),
        ("hole_upward", Script::new("25/1", "50/1").frames(2).at(800, 40).at(840, 40).eos()),
        ("small_hole", Script::new("25/1", "25/1").frames(2).at(200, 40).at(240, 40).eos()),
        ("small_hole_upward", Script::new("25/1", "50/1").frames(2).at(200, 40).at(240, 40).eos()),
        ("gap_event", Script::new("25/1", "25/1").frames(2).gap(80, 80).at(160, 40).at(200, 40).eos()),
        ("gap_event_upward", Script::new("25/1", "50/1").frames(2).gap(80, 80).at(160, 40).at(200, 40).eos()),
        ("gap_event_at_first", Script::new("25/1", "25/1").gap(0, 80).at(80, 40).at(120, 40).eos()),
        (
            "discont_buffers",
            Script::new("25/1", "50/1")
                .shot(shot(0, discont))
                .shot(shot(40, 0))
                .shot(shot(80, discont))
                .shot(shot(120, 0))
                .eos(),
        ),
        ("other_flags", Script::new("25/1", "25/1").shot(shot(0, 0)).shot(shot(40, corrupted)).shot(shot(80, 0)).eos()),
        (
            "gap_flag_in",
            Script::new("25/1", "25/1")
                .shot(shot(0, 0))
                .shot(shot(40, flag(gst::BufferFlags::GAP)))
                .shot(shot(80, 0))
                .eos(),
        ),
        (
            "still_frames",
            Script::new("25/1", "50/1")
                .shot(still(0, false))
                .shot(still(40, true))
                .shot(still(80, true))
                .shot(still(120, false))
                .shot(still(160, true))
                .eos(),
        ),
        // Segments and flushes.
        (
            "flush",
            Script::new("25/1", "25/1")
                .frames(3)
                .flush()
                .segment(&part(2000, None))
                .grid(2 * SECOND, "25/1", 0..3)
                .eos(),
        ),
        (
            "flush_upward",
            Script::new("25/1", "50/1")
                .frames(3)
                .flush()
                .segment(&part(2000, None))
                .grid(2 * SECOND, "25/1", 0..3)
                .eos(),
        ),
        (
            "flush_twice",
            Script::new("25/1", "25/1")
                .frames(2)
                .flush()
                .segment(&part(500, None))
                .flush()
                .segment(&part(900, None))
                .grid(900 * MS, "25/1", 0..3)
                .eos(),
        ),
        (
            "two_segments",
            Script::new("25/1", "25/1")
                .segment(&part(0, Some(120)))
                .frames(3)
                .segment(&based(1000, Some(1120), 120))
                .grid(SECOND, "25/1", 0..3)
                .eos(),
        ),
        (
            "two_segments_upward",
            Script::new("25/1", "50/1")
                .segment(&part(0, Some(120)))
                .frames(3)
                .segment(&based(1000, Some(1120), 120))
                .grid(SECOND, "25/1", 0..3)
                .eos(),
        ),
        (
            "two_open_segments",
            Script::new("25/1", "50/1")
                .segment(&part(0, None))
                .frames(3)
                .segment(&part(1000, None))
                .grid(SECOND, "25/1", 0..3)
                .eos(),
        ),
        (
            "segment_loop",
            Script::new("25/1", "25/1")
                .segment(&part(0, Some(80)))
                .frames(2)
                .segment(&based(0, Some(80), 80))
                .frames(2)
                .eos(),
        ),
        (
            "identical_segment",
            Script::new("25/1", "25/1")
                .segment(&part(0, None))
                .frames(3)
                .segment(&part(0, None))
                .grid(0, "25/1", 3..6)
                .eos(),
        ),
        (
            "identical_segment_at_first",
            Script::new("25/1", "25/1").segment(&part(0, None)).segment(&part(0, None)).frames(3).eos(),
        ),
        ("segment_stop", Script::new("25/1", "25/1").segment(&part(0, Some(300))).frames(3).eos()),
        ("segment_stop_upward", Script::new("25/1", "60/1").segment(&part(0, Some(300))).frames(3).eos()),
        ("segment_stop_inside_a_frame", Script::new("25/1", "60/1").segment(&part(0, Some(110))).frames(3).eos()),
        ("segment_stop_far", Script::new("25/1", "25/1").segment(&part(0, Some(20_000))).frames(3).eos()),
        (
            "segment_stop_limit",
            Script::new("25/1", "25/1")
                .with("max-closing-segment-duplication-duration", "100000000")
                .segment(&part(0, Some(20_000)))
                .frames(3)
                .eos(),
        ),
        (
            "segment_stop_no_limit",
            Script::new("25/1", "25/1")
                .with("max-closing-segment-duplication-duration", "18446744073709551615")
                .segment(&part(0, Some(3000)))
                .frames(3)
                .eos(),
        ),
        ("segment_start", Script::new("25/1", "25/1").segment(&part(1000, None)).grid(1040 * MS, "25/1", 0..3).eos()),
        (
            "segment_base",
            Script::new("25/1", "50/1").segment(&based(1000, None, 5000)).grid(SECOND, "25/1", 0..3).eos(),
        ),
        (
            "segment_base_skip",
            Script::new("25/1", "25/1")
                .with("skip-to-first", "true")
                .segment(&based(1000, None, 5000))
                .grid(1100 * MS, "25/1", 0..3)
                .eos(),
        ),
        (
            "segment_done",
            Script::new("25/1", "25/1")
                .segment(&part(0, Some(200)))
                .frames(3)
                .event(gst::event::SegmentDone::new(gst::ClockTime::from_mseconds(200))),
        ),
        (
            "reverse",
            Script::new("25/1", "25/1")
                .segment(&backward(800, 1000))
                .at(960, 40)
                .at(920, 40)
                .at(880, 40)
                .at(840, 40)
                .at(800, 40)
                .eos(),
        ),
        (
            "reverse_upward",
            Script::new("25/1", "50/1").segment(&backward(880, 1000)).at(960, 40).at(920, 40).at(880, 40).eos(),
        ),
        (
            "reverse_short",
            Script::new("25/1", "25/1").segment(&backward(700, 1000)).at(960, 40).at(920, 40).at(880, 40).eos(),
        ),
        // Caps.
        (
            "new_size",
            Script::new("25/1", "25/1")
                .frames(3)
                .step(Step::Caps { rate: "25/1", size: (24, 8) })
                .grid(0, "25/1", 3..6)
                .eos(),
        ),
        (
            "new_size_upward",
            Script::new("25/1", "50/1")
                .frames(3)
                .step(Step::Caps { rate: "25/1", size: (24, 8) })
                .grid(0, "25/1", 3..6)
                .eos(),
        ),
        (
            "new_input_rate",
            Script::new("25/1", "50/1")
                .frames(3)
                .step(Step::Caps { rate: "50/1", size: SIZE })
                .grid(0, "50/1", 6..10)
                .eos(),
        ),
        (
            "new_size_then_eos",
            Script::new("25/1", "25/1").frames(3).step(Step::Caps { rate: "25/1", size: (24, 8) }).eos(),
        ),
        (
            "same_caps_again",
            Script::new("25/1", "25/1")
                .frames(3)
                .step(Step::Caps { rate: "25/1", size: SIZE })
                .grid(0, "25/1", 3..6)
                .eos(),
        ),
        (
            "new_output_rate",
            Script::new("25/1", "25/1").frames(3).step(Step::Downstream("50/1")).grid(0, "25/1", 3..6).eos(),
        ),
        // The end.
        ("eos_at_once", Script::new("25/1", "50/1").eos()),
        ("eos_after_a_segment", Script::new("25/1", "50/1").segment(&part(0, Some(1000))).eos()),
        ("single_frame", Script::new("25/1", "25/1").frames(1).eos()),
        ("single_frame_upward", Script::new("25/1", "100/1").frames(1).eos()),
        ("single_bare_frame", Script::new("25/1", "25/1").bare(&[0]).eos()),
        ("single_late_frame", Script::new("25/1", "25/1").at(130, 40).eos()),
        ("long_last_frame", Script::new("25/1", "25/1").frames(2).at(80, 200).eos()),
        // Properties.
        (
            "max_duplication_time",
            Script::new("25/1", "25/1")
                .with("max-duplication-time", "100000000")
                .frames(3)
                .at(400, 40)
                .at(440, 40)
                .eos(),
        ),
        (
            "max_duplication_time_upward",
            Script::new("25/1", "60/1")
                .with("max-duplication-time", "100000000")
                .frames(3)
                .at(400, 40)
                .at(440, 40)
                .eos(),
        ),
        (
            "within_max_duplication_time",
            Script::new("25/1", "25/1")
                .with("max-duplication-time", "500000000")
                .frames(3)
                .at(400, 40)
                .at(440, 40)
                .eos(),
        ),
        ("skip_to_first", Script::new("25/1", "50/1").with("skip-to-first", "true").grid(93 * MS, "25/1", 0..3).eos()),
        ("drop_only", Script::new("50/1", "25/1").with("drop-only", "true").grid(5 * MS, "50/1", 0..7).eos()),
        (
            "drop_only_hole",
            Script::new("50/1", "25/1").with("drop-only", "true").frames(2).at(400, 20).at(420, 20).at(440, 20).eos(),
        ),
        ("drop_only_open", Script::new("25/1", "").with("drop-only", "true").frames(4).eos()),
        ("drop_only_variable", Script::new("0/1", "").with("drop-only", "true").at(0, 41).at(41, 42).at(83, 20).eos()),
        ("average_period", Script::new("50/1", "10/1").with("average-period", "200000000").frames(60).eos()),
        (
            "average_period_burst",
            Script::new("50/1", "25/1")
                .with("average-period", "1000000000")
                .frames(20)
                .at(1000, 20)
                .at(1005, 20)
                .at(1010, 20)
                .at(1015, 20)
                .at(1100, 20)
                .eos(),
        ),
        ("average_period_short", Script::new("50/1", "10/1").with("average-period", "50000000").frames(40).eos()),
        ("average_period_equal", Script::new("25/1", "25/1").with("average-period", "1000000000").frames(20).eos()),
        ("max_rate", Script::new("25/1", "").with("max-rate", "10").frames(10).eos()),
        ("max_rate_above", Script::new("25/1", "25/1").with("max-rate", "60").frames(4).eos()),
        ("rate_double", Script::new("25/1", "25/1").with("rate", "2.0").frames(9).eos()),
        ("rate_half", Script::new("25/1", "25/1").with("rate", "0.5").frames(4).eos()),
        (
            "rate_half_second_segment",
            Script::new("25/1", "25/1")
                .with("rate", "0.5")
                .frames(3)
                .segment(&part(1000, Some(1120)))
                .grid(SECOND, "25/1", 0..3)
                .eos(),
        ),
        (
            "rate_double_stop",
            Script::new("25/1", "25/1").with("rate", "2.0").frames(3).segment(&part(0, Some(400))).frames(6).eos(),
        ),
        ("live", Script::new("25/1", "25/1").live().frames(3).step(Step::Latency).frames(0).eos()),
        ("live_upward", Script::new("25/1", "50/1").live().frames(3).step(Step::Latency).eos()),
        ("live_variable", Script::new("0/1", "50/1").live().bare(&[0, 33, 71, 110]).step(Step::Latency).eos()),
        (
            "live_drop_only",
            Script::new("50/1", "25/1").with("drop-only", "true").live().frames(4).step(Step::Latency).eos(),
        ),
        (
            "live_average",
            Script::new("50/1", "25/1").with("average-period", "1000000000").live().frames(4).step(Step::Latency).eos(),
        ),
        ("open_rate_variable", Script::new("0/1", "").bare(&[0, 40, 80, 120]).eos()),
        ("variable_out", Script::new("25/1", "0/1").frames(4).eos()),
    ];
    let count = all.len();
    let all = BTreeMap::from(all);
    assert_eq!(all.len(), count, "two scenarios of one name");
    all
}

// ---- what differs ---------------------------------------------------------------------------------------------------

/// Every way in which the two elements may differ, where [`ALLOWED`] says so. What fits none of these fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// A repeat of theirs has no GAP flag.
    UnmarkedRepeat,
    /// The same time shows another input frame.
    OtherPicture,
    /// Outputs of ours after the last of theirs, before a segment, a flush or EOS.
    OursAtTheEnd,
    /// Outputs of theirs after the last of ours.
    TheirsAtTheEnd,
    /// Outputs of ours at times between theirs.
    OursInside,
    TheirsInside,
    Duration,
    /// An output of theirs has a DISCONT flag.
    Discont,
    /// Ours less theirs.
    DropCount,
    /// Their count less the number of their outputs with a GAP flag.
    DuplicateCount,
    Latency,
    /// CAPS events that only one of them sends.
    Caps,
    /// SEGMENT events that only one of them sends.
    Segment,
}

/// The differences of two records. Beyond these, always allowed is what the element is for: a made frame in place of a
/// repeated or the nearest one, and that a frame is shown for the first time where `videorate` showed it before.
fn differences(theirs: &Record, ours: &Record) -> Result<BTreeMap<Kind, i64>, String> {
    let mut found = BTreeMap::new();
    let mut add = |kind: Kind, count: i64| {
        if count != 0 {
            *found.entry(kind).or_insert(0) += count;
        }
    };
    let epochs = 1 + theirs.outputs.iter().chain(&ours.outputs).map(|output| output.epoch).max().unwrap_or(0);
    for epoch in 0..epochs {
        let of = |record: &Record| record.outputs.iter().filter(|o| o.epoch == epoch).cloned().collect::<Vec<_>>();
        let (theirs, ours) = (of(theirs), of(ours));
        let mut pairs = Vec::new();
        let mut next = 0;
        for (i, output) in ours.iter().enumerate() {
            // Times are met in order, so that a time that comes twice is met twice.
            if let Some(at) = theirs[next..].iter().position(|their| their.pts == output.pts) {
                pairs.push((next + at, i));
                next += at + 1;
            }
        }
        let (last_theirs, last_ours) = pairs.last().map_or((0, 0), |(theirs, ours)| (theirs + 1, ours + 1));
        let at_end = (theirs.len() - last_theirs, ours.len() - last_ours);
        // Where both go on after the last common time, they went apart before the end.
        let apart = at_end.0 > 0 && at_end.1 > 0;
        let (ours_end, theirs_end) =
            if apart { (Kind::OursInside, Kind::TheirsInside) } else { (Kind::OursAtTheEnd, Kind::TheirsAtTheEnd) };
        add(ours_end, at_end.1 as i64);
        add(theirs_end, at_end.0 as i64);
        add(Kind::OursInside, (last_ours - pairs.len()) as i64);
        add(Kind::TheirsInside, (last_theirs - pairs.len()) as i64);
        for (their, our) in pairs.into_iter().map(|(i, j)| (&theirs[i], &ours[j])) {
            let at = |what: &str| Err(format!("{what}: {their:?} {our:?}"));
            let counted = |o: &Output| o.offsets == (o.index, o.index + 1);
            if their.offsets != our.offsets && !(counted(their) && counted(our)) {
                return at("offset");
            }
            if their.dts != our.dts || their.flags != our.flags {
                return at("DTS or flags");
            }
            add(Kind::Duration, i64::from(their.duration != our.duration));
            match (their.discont, our.discont) {
                (true, false) => add(Kind::Discont, 1),
                (false, true) => return at("DISCONT"),
                _ => {}
            }
            match our.picture {
                None if our.gap => return at("a made frame with a GAP flag"),
                None => {}
                Some(_) if their.picture != our.picture => add(Kind::OtherPicture, 1),
                Some(_) if their.size != our.size => return at("size"),
                Some(_) if our.gap && !their.gap => add(Kind::UnmarkedRepeat, 1),
                Some(picture) if their.gap && !our.gap => {
                    // Only right if we did not show it before.
                    let first = ours.iter().find(|o| o.picture == Some(picture));
                    if first != Some(our) {
                        return at("a repeat without a GAP flag");
                    }
                }
                _ => {}
            }
        }
    }
    // Counters.
    let [input, output, duplicate, drop] = theirs.counters;
    let [our_input, our_output, our_duplicate, our_drop] = ours.counters;
    // Counters start anew at a flush.
    let since_flush = |record: &Record| {
        let start = record.outputs.iter().rposition(|output| output.index == 0).unwrap_or(0);
        record.outputs[start..].to_vec()
    };
    let (their_last, our_last) = (since_flush(theirs), since_flush(ours));
    if input != our_input {
        return Err(format!("in: {input} {our_input}"));
    }
    if (output, our_output) != (their_last.len() as u64, our_last.len() as u64) {
        return Err(format!("out: {output} {our_output}"));
    }
    let repeats = our_last.iter().filter(|o| o.gap || o.picture.is_none()).count() as u64;
    if our_duplicate != repeats {
        return Err(format!("duplicate and interpolated: {our_duplicate}, {repeats} outputs are"));
    }
    let gaps = their_last.iter().filter(|o| o.gap).count();
    add(Kind::DuplicateCount, duplicate as i64 - gaps as i64);
    add(Kind::DropCount, our_drop as i64 - drop as i64);
    // Events and latency.
    let mut left: Vec<&String> = theirs.marks.iter().collect();
    let mut unmatched = Vec::new();
    for mark in &ours.marks {
        match left.iter().position(|their| *their == mark) {
            Some(at) => {
                left.remove(at);
            }
            None => unmatched.push(mark),
        }
    }
    for mark in left.into_iter().chain(unmatched) {
        let kind = match mark.split(' ').next() {
            Some("caps") => Kind::Caps,
            Some("Segment") => Kind::Segment,
            Some("latency") => Kind::Latency,
            _ => return Err(format!("{mark}: {:?} {:?}", theirs.marks, ours.marks)),
        };
        add(kind, 1);
    }
    Ok(found)
}

/// A group of differences that are allowed.
struct Allowed {
    kind: Kind,
    /// Versions of GStreamer: V22, V26, V28 or a sum.
    versions: u8,
    why: &'static str,
    scenarios: &'static [(&'static str, i64)],
}

/// 1.22 and 1.24
const V22: u8 = 1;
/// 1.26
const V26: u8 = 2;
/// 1.28 and later
const V28: u8 = 4;
const OLD: u8 = V22 | V26;
const ALL: u8 = OLD | V28;

/// The version that runs.
fn version() -> u8 {
    match gst::version() {
        (1, ..=25, ..) => V22,
        (1, 26..=27, ..) => V26,
        _ => V28,
    }
}

// Why.
const END: &str = "no time is lost at the end: frames are repeated for as long as the last one lasts (videorate stops after one more \
     frame, 1.28 after two)";
const BEYOND: &str =
    "an output that would begin when the last frame has ended is not made: less than one output is added";
const BEYOND_DROP: &str = "the frame that videorate shows beyond its end is one that is dropped here";
const UNMARKED: &str = "1.28 shows the last frame once more without marking it as a repeat";
const UNCOUNTED: &str = "videorate does not count these drops (drop-only: 1.22 only)";
const NOTHING_HELD: &str = "videorate counts a drop at EOS when it holds no frame";
const DROPPED: &str =
    "videorate's base class marks the frame after a dropped one; nothing is missing from a stream made sparser";
const AVERAGE: &str = "1.22 forgets the average at each frame, 1.26 as well but for the last gap, and an average over less than a frame \
     overflows in 1.28";
const HOLE: &str =
    "nothing is drawn over a hole, and the earlier frame is repeated through all of it (videorate: the nearer one)";
const CAPS: &str = "new caps: the held frame is shown first, with its own caps (before 1.28 videorate loses it)";
const ROLLBACK: &str = "videorate sends the old caps once more to show the frame it holds, and the new ones again";
const DUPLICATE: &str =
    "a frame at the time of the one before is dropped and counted; videorate replaces that one by it";
const MISSING: &str = "a frame without PTS is at the end of the one before, which lasts as long as the caps say (videorate: it is at the \
     same time unless the buffer has a duration)";
const OPEN: &str = "where downstream leaves the rate open it is twice the input's";
const SKIP: &str = "after a gap that is not filled the grid starts at the frame, and the frame before is shown for as long as it lasts \
     (videorate cuts it short and goes on with the old grid one output later)";
const AHEAD: &str = "1.28 decides a frame sooner, so a new output rate takes effect a frame later";
const AHEAD_FLUSH: &str = "1.28 shows the last frame before the flush, and one beyond the end";
const LATENCY: &str =
    "a made frame may take as long as it is shown; of input of variable rate the longest gap seen is held back";
const REVERSE: &str = "1.28 pairs frames in reverse playback one too early, so the earlier one is shown again";
const REVERSE_END: &str = "the segment is covered to its start in reverse playback as to its stop in forward playback";
const IDENTICAL: &str = "the identical segment again: 1.22 loses the place and makes outputs without PTS";
const RATE: &str = "videorate applies its rate to times from the first frame on and mixes scaled and unscaled ones in later segments \
     (1.26 and 1.28)";

const ALLOWED: &[Allowed] = &[
    Allowed { kind: Kind::Duration, versions: V28, why: AHEAD, scenarios: &[("new_output_rate", 1)] },
    Allowed { kind: Kind::OursInside, versions: V28, why: AHEAD, scenarios: &[("new_output_rate", 1)] },
    Allowed {
        kind: Kind::TheirsAtTheEnd,
        versions: V28,
        why: AHEAD_FLUSH,
        scenarios: &[("flush", 2), ("flush_twice", 2), ("flush_upward", 1)],
    },
    Allowed { kind: Kind::OursAtTheEnd, versions: V26, why: AVERAGE, scenarios: &[("live_average", 1)] },
    Allowed {
        kind: Kind::OursInside,
        versions: V26,
        why: AVERAGE,
        scenarios: &[("average_period", 11), ("average_period_burst", 12)],
    },
    Allowed { kind: Kind::TheirsAtTheEnd, versions: V22, why: AVERAGE, scenarios: &[("average_period", 3)] },
    Allowed {
        kind: Kind::TheirsAtTheEnd,
        versions: V22 | V28,
        why: AVERAGE,
        scenarios: &[("average_period_short", 4)],
    },
    Allowed {
        kind: Kind::TheirsInside,
        versions: V22,
        why: AVERAGE,
        scenarios: &[
            ("average_period", 44),
            ("average_period_burst", 9),
            ("average_period_short", 28),
            ("live_average", 1),
        ],
    },
    Allowed {
        kind: Kind::TheirsInside,
        versions: V26,
        why: AVERAGE,
        scenarios: &[("average_period", 10), ("average_period_burst", 8)],
    },
    Allowed { kind: Kind::TheirsInside, versions: V28, why: AVERAGE, scenarios: &[("average_period_short", 24)] },
    Allowed {
        kind: Kind::TheirsAtTheEnd,
        versions: ALL,
        why: BEYOND,
        scenarios: &[("half_odd_count", 1), ("max_rate", 1), ("sixty_to_film", 1), ("to_one_a_second", 1)],
    },
    Allowed {
        kind: Kind::TheirsAtTheEnd,
        versions: V28,
        why: BEYOND,
        scenarios: &[
            ("duplicate_pts", 1),
            ("equal", 1),
            ("equal_odd", 1),
            ("gap_event", 1),
            ("gap_event_at_first", 1),
            ("gap_flag_in", 1),
            ("half", 1),
            ("hole", 1),
            ("identical_segment", 1),
            ("identical_segment_at_first", 1),
            ("live", 1),
            ("max_rate_above", 1),
            ("missing_pts", 1),
            ("missing_pts_and_duration", 1),
            ("missing_pts_at_first", 1),
            ("new_input_rate", 1),
            ("new_size", 1),
            ("new_size_then_eos", 1),
            ("other_flags", 1),
            ("rate_double", 1),
            ("same_caps_again", 1),
            ("segment_base_skip", 1),
            ("segment_start", 1),
            ("small_hole", 1),
            ("vfr_faster_than_the_output", 1),
            ("within_max_duplication_time", 1),
        ],
    },
    Allowed {
        kind: Kind::DropCount,
        versions: ALL,
        why: BEYOND_DROP,
        scenarios: &[("half_odd_count", 1), ("max_rate", 1), ("sixty_to_film", 1), ("to_one_a_second", 1)],
    },
    Allowed {
        kind: Kind::OtherPicture,
        versions: OLD,
        why: CAPS,
        scenarios: &[("new_input_rate", 2), ("new_size", 1), ("new_size_upward", 2)],
    },
    Allowed {
        kind: Kind::Discont,
        versions: V26,
        why: DROPPED,
        scenarios: &[("average_period", 1), ("average_period_burst", 3), ("average_period_short", 7)],
    },
    Allowed { kind: Kind::Discont, versions: V26 | V28, why: DROPPED, scenarios: &[("live_average", 1)] },
    Allowed {
        kind: Kind::Discont,
        versions: V28,
        why: DROPPED,
        scenarios: &[
            ("average_period", 11),
            ("average_period_burst", 9),
            ("average_period_short", 1),
            ("drop_only", 3),
            ("drop_only_hole", 1),
            ("live_drop_only", 1),
        ],
    },
    Allowed { kind: Kind::DropCount, versions: ALL, why: DUPLICATE, scenarios: &[("duplicate_pts_upward", 1)] },
    Allowed { kind: Kind::OursAtTheEnd, versions: V22, why: END, scenarios: &[("rate_half_second_segment", 3)] },
    Allowed {
        kind: Kind::OursAtTheEnd,
        versions: OLD,
        why: END,
        scenarios: &[
            ("backward_pts", 1),
            ("discont_buffers", 1),
            ("double", 1),
            ("duplicate_pts_upward", 1),
            ("film_to_sixty", 3),
            ("flush_upward", 1),
            ("gap_event_upward", 1),
            ("hole_upward", 1),
            ("jitter", 1),
            ("late_start_off_grid", 2),
            ("live_upward", 1),
            ("live_variable", 2),
            ("long_last_frame", 4),
            ("new_output_rate", 1),
            ("new_size_upward", 1),
            ("no_duration", 1),
            ("pal_to_sixty", 3),
            ("rate_half", 1),
            ("segment_base", 1),
            ("sixty_to_ninety", 1),
            ("skip_to_first", 1),
            ("slideshow", 4),
            ("small_hole_upward", 1),
            ("still_frames", 1),
            ("ten_seconds_in", 1),
            ("thirty_to_pal", 1),
            ("two_open_segments", 2),
            ("vfr", 2),
            ("vfr_with_durations", 2),
        ],
    },
    Allowed {
        kind: Kind::OursAtTheEnd,
        versions: ALL,
        why: END,
        scenarios: &[("single_frame_upward", 3), ("single_late_frame", 4)],
    },
    Allowed {
        kind: Kind::OursAtTheEnd,
        versions: V28,
        why: END,
        scenarios: &[
            ("film_to_sixty", 2),
            ("late_start_off_grid", 1),
            ("live_variable", 1),
            ("long_last_frame", 3),
            ("pal_to_sixty", 2),
            ("slideshow", 2),
            ("vfr", 1),
        ],
    },
    Allowed {
        kind: Kind::OtherPicture,
        versions: ALL,
        why: HOLE,
        scenarios: &[("gap_event", 1), ("gap_event_upward", 2), ("hole_upward", 18)],
    },
    Allowed { kind: Kind::TheirsInside, versions: V22, why: IDENTICAL, scenarios: &[("identical_segment", 2)] },
    Allowed {
        kind: Kind::Latency,
        versions: ALL,
        why: LATENCY,
        scenarios: &[("live_upward", 2), ("live_variable", 2)],
    },
    Allowed { kind: Kind::DropCount, versions: ALL, why: MISSING, scenarios: &[("missing_pts_and_duration", -1)] },
    Allowed { kind: Kind::OtherPicture, versions: OLD, why: MISSING, scenarios: &[("missing_pts_and_duration", 1)] },
    Allowed { kind: Kind::OtherPicture, versions: V28, why: MISSING, scenarios: &[("missing_pts_and_duration", 2)] },
    Allowed { kind: Kind::OursAtTheEnd, versions: OLD, why: MISSING, scenarios: &[("missing_pts_and_duration", 1)] },
    Allowed {
        kind: Kind::DropCount,
        versions: ALL,
        why: NOTHING_HELD,
        scenarios: &[("drop_only_open", -1), ("drop_only_variable", -1), ("eos_at_once", -1)],
    },
    Allowed {
        kind: Kind::DropCount,
        versions: V26 | V28,
        why: NOTHING_HELD,
        scenarios: &[("drop_only", -1), ("drop_only_hole", -1), ("live_drop_only", -1)],
    },
    Allowed { kind: Kind::Caps, versions: ALL, why: OPEN, scenarios: &[("open_rate_variable", 3)] },
    Allowed { kind: Kind::Duration, versions: ALL, why: OPEN, scenarios: &[("open_rate_variable", 4)] },
    Allowed { kind: Kind::OursAtTheEnd, versions: OLD, why: OPEN, scenarios: &[("open_rate_variable", 1)] },
    Allowed { kind: Kind::OursInside, versions: OLD, why: OPEN, scenarios: &[("open_rate_variable", 3)] },
    Allowed { kind: Kind::OursInside, versions: V28, why: OPEN, scenarios: &[("open_rate_variable", 4)] },
    Allowed { kind: Kind::TheirsInside, versions: V28, why: OPEN, scenarios: &[("open_rate_variable", 1)] },
    Allowed {
        kind: Kind::DropCount,
        versions: V26,
        why: RATE,
        scenarios: &[("rate_double_stop", -1), ("rate_half_second_segment", -2)],
    },
    Allowed { kind: Kind::DropCount, versions: V28, why: RATE, scenarios: &[("rate_double_stop", -2)] },
    Allowed {
        kind: Kind::OtherPicture,
        versions: V26,
        why: RATE,
        scenarios: &[("rate_double_stop", 2), ("rate_half_second_segment", 1)],
    },
    Allowed { kind: Kind::OtherPicture, versions: V28, why: RATE, scenarios: &[("rate_double_stop", 1)] },
    Allowed { kind: Kind::OursAtTheEnd, versions: V26, why: RATE, scenarios: &[("rate_half_second_segment", 5)] },
    Allowed { kind: Kind::OursInside, versions: V26, why: RATE, scenarios: &[("rate_double_stop", 2)] },
    Allowed { kind: Kind::OursInside, versions: V28, why: RATE, scenarios: &[("rate_double_stop", 3)] },
    Allowed { kind: Kind::TheirsAtTheEnd, versions: V28, why: RATE, scenarios: &[("rate_double_stop", 1)] },
    Allowed { kind: Kind::UnmarkedRepeat, versions: V26 | V28, why: RATE, scenarios: &[("rate_double_stop", 1)] },
    Allowed {
        kind: Kind::OtherPicture,
        versions: V28,
        why: REVERSE,
        scenarios: &[("reverse", 3), ("reverse_short", 1)],
    },
    Allowed { kind: Kind::OursAtTheEnd, versions: ALL, why: REVERSE_END, scenarios: &[("reverse_short", 1)] },
    Allowed { kind: Kind::Caps, versions: ALL, why: ROLLBACK, scenarios: &[("new_size_then_eos", 2)] },
    Allowed { kind: Kind::Caps, versions: V28, why: ROLLBACK, scenarios: &[("new_size", 2), ("new_size_upward", 2)] },
    Allowed {
        kind: Kind::Duration,
        versions: ALL,
        why: SKIP,
        scenarios: &[("max_duplication_time", 1), ("max_duplication_time_upward", 1)],
    },
    Allowed {
        kind: Kind::OursInside,
        versions: ALL,
        why: SKIP,
        scenarios: &[("max_duplication_time", 1), ("max_duplication_time_upward", 7)],
    },
    Allowed { kind: Kind::TheirsInside, versions: OLD, why: SKIP, scenarios: &[("max_duplication_time_upward", 2)] },
    Allowed { kind: Kind::TheirsInside, versions: ALL, why: SKIP, scenarios: &[("max_duplication_time", 1)] },
    Allowed { kind: Kind::TheirsInside, versions: V28, why: SKIP, scenarios: &[("max_duplication_time_upward", 3)] },
    Allowed {
        kind: Kind::DropCount,
        versions: V22,
        why: UNCOUNTED,
        scenarios: &[("drop_only", 2), ("live_drop_only", 1)],
    },
    Allowed {
        kind: Kind::DropCount,
        versions: ALL,
        why: UNCOUNTED,
        scenarios: &[
            ("average_period", 46),
            ("average_period_burst", 8),
            ("average_period_equal", -1),
            ("average_period_short", 31),
        ],
    },
    Allowed {
        kind: Kind::UnmarkedRepeat,
        versions: V28,
        why: UNMARKED,
        scenarios: &[
            ("backward_pts", 1),
            ("discont_buffers", 1),
            ("double", 1),
            ("duplicate_pts_upward", 1),
            ("flush_upward", 1),
            ("gap_event_upward", 1),
            ("hole_upward", 1),
            ("jitter", 1),
            ("live_upward", 1),
            ("long_last_frame", 1),
            ("new_output_rate", 1),
            ("new_size_upward", 1),
            ("no_duration", 1),
            ("rate_half", 1),
            ("rate_half_second_segment", 1),
            ("reverse_short", 2),
            ("segment_base", 1),
            ("segment_done", 1),
            ("segment_stop", 1),
            ("segment_stop_far", 1),
            ("segment_stop_limit", 1),
            ("segment_stop_no_limit", 1),
            ("sixty_to_ninety", 1),
            ("skip_to_first", 1),
            ("slideshow", 1),
            ("small_hole_upward", 1),
            ("still_frames", 1),
            ("ten_seconds_in", 1),
            ("thirty_to_pal", 1),
            ("two_open_segments", 2),
            ("two_segments_upward", 2),
        ],
    },
];

/// Which differences the table allows for a scenario in this version.
fn allowed(scenario: &str) -> BTreeMap<Kind, i64> {
    let mut all = BTreeMap::new();
    for group in ALLOWED.iter().filter(|group| group.versions & version() != 0) {
        for (_, count) in group.scenarios.iter().filter(|(name, _)| *name == scenario) {
            *all.entry(group.kind).or_insert(0) += count;
        }
    }
    all
}

fn side_by_side(theirs: &Record, ours: &Record) -> String {
    let show = |output: Option<&Output>| {
        output.map_or(String::new(), |o| {
            let number = |value: Option<u64>| value.map_or("none".into(), |value| value.to_string());
            let flags = format!("{}{}", if o.gap { "G" } else { "-" }, if o.discont { "D" } else { "-" });
            let picture = o.picture.map_or("made".into(), |picture| format!("#{picture}"));
            format!("{} {}+{} {flags} {picture}", o.epoch, number(o.pts), number(o.duration))
        })
    };
    let mut text = String::new();
    for i in 0..theirs.outputs.len().max(ours.outputs.len()) {
        text += &format!("    {:<45}| {}\n", show(theirs.outputs.get(i)), show(ours.outputs.get(i)));
    }
    format!("{text}    {:?} | {:?}\n", theirs.counters, ours.counters)
}

#[test]
fn every_scenario_is_as_in_videorate_but_for_what_the_table_allows() {
    let scenarios = scenarios();
    assert!(scenarios.len() >= 40);
    let mut failures = String::new();
    for (name, script) in &scenarios {
        let (theirs, ours) = (play("videorate", script), play("framecastinterp", script));
        let found = differences(&theirs, &ours);
        // For whoever writes the rows of a new version.
        if std::env::var_os("FRAMECAST_CONFORMANCE_TABLE").is_some() {
            println!("{name} {found:?}");
        }
        let allowed = allowed(name);
        if found.as_ref() != Ok(&allowed) {
            failures += &format!(
                "{name}: {found:?}, allowed: {allowed:?}; videorate | framecastinterp:\n{}",
                side_by_side(&theirs, &ours)
            );
        }
    }
    assert!(failures.is_empty(), "GStreamer {:?}\n{failures}", gst::version());
}

#[test]
fn the_table_is_about_scenarios_that_there_are() {
    let scenarios = scenarios();
    let mut seen = std::collections::BTreeSet::new();
    for group in ALLOWED {
        assert!(!group.why.is_empty() && group.versions & !ALL == 0 && !group.scenarios.is_empty());
        for (name, count) in group.scenarios {
            assert!(scenarios.contains_key(name) && *count != 0, "{name}");
            for version in [V22, V26, V28].into_iter().filter(|version| group.versions & version != 0) {
                assert!(seen.insert((name, group.kind, version)), "twice: {name} {:?}", group.kind);
            }
        }
    }
}
