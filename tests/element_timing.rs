// SPDX-License-Identifier: MIT OR Apache-2.0
//! When `framecastinterp` shows what: counts, PTS, durations, offsets, flags, events and queries.

mod support;

use gst::prelude::*;
use support::*;

const NONE: gst::BufferFlags = gst::BufferFlags::empty();
const GAP: gst::BufferFlags = gst::BufferFlags::GAP;
const DISCONT: gst::BufferFlags = gst::BufferFlags::DISCONT;

#[test]
fn doubling_is_exact() {
    let mut rig = Rig::new(&[], "30/1", Some("60/1"));
    let inputs: Vec<_> = (0..3).map(|n| at_rate(n, 30)).collect();
    assert!(rig.push(inputs[0].clone()).is_empty());
    let mut out = rig.push(inputs[1].clone());
    out.extend(rig.push(inputs[2].clone()));
    out.extend(rig.eos());
    assert_eq!(out.len(), 6);
    assert_output(&out[0], 0, 0, 16_666_666, DISCONT);
    assert_output(&out[1], 1, 16_666_666, 16_666_667, NONE);
    assert_output(&out[2], 2, 33_333_333, 16_666_667, NONE);
    assert_output(&out[3], 3, 50_000_000, 16_666_666, NONE);
    assert_output(&out[4], 4, 66_666_666, 16_666_667, NONE);
    assert_output(&out[5], 5, 83_333_333, 16_666_667, GAP);
    for (output, input) in [(0, 0), (2, 1), (4, 2), (5, 2)] {
        assert!(same_memory(&out[output], &inputs[input]), "output {output} is input {input}, uncopied");
    }
    for made in [1, 3] {
        assert!(inputs.iter().all(|input| !same_memory(&out[made], input)));
    }
    assert_eq!(rig.counters(), [3, 6, 1, 0, 2]);
}

#[test]
fn ball_25_to_60() {
    // 2 s: 120 outputs. Every 12th is on an input frame (10), outputs 118 and 119 repeat the last input.
    let (end, counters) =
        run("videotestsrc pattern=ball num-buffers=50 ! video/x-raw,width=64,height=48,framerate=25/1 \
         ! framecastinterp name=f fps=60 ! fakesink");
    assert!(matches!(end, End::Eos), "{end:?}");
    // The last input is shown by 118 for the first time.
    assert_eq!(counters, [50, 120, 1, 0, 108]);
}

#[test]
fn film_loses_no_time_at_the_end() {
    for (frames, expected) in [(24, 61), (96, 241)] {
        let (end, counters) = run(&format!(
            "videotestsrc pattern=ball num-buffers={frames} ! video/x-raw,width=16,height=16,framerate=24000/1001 \
             ! framecastinterp name=f fps=60 ! fakesink"
        ));
        assert!(matches!(end, End::Eos), "{end:?}");
        assert_eq!(counters[1], expected);
    }
}

#[test]
fn field_case_05_few_frames_then_eos() {
    for count in [1, 2, 3, 10] {
        let mut rig = Rig::new(&[("fps", "60/1")], "25/1", None);
        let mut out = Vec::new();
        for n in 0..count {
            out.extend(rig.push(at_rate(n, 25)));
        }
        out.extend(rig.eos());
        let last = out.last().unwrap();
        let end = (last.pts().unwrap() + last.duration().unwrap()).nseconds();
        assert!((40_000_000 * count..40_000_000 * count + 16_666_667).contains(&end), "{count} frames end at {end}");
        assert_eq!(bytes(last), bytes(&at_rate(count - 1, 25)));
    }
}

#[test]
fn field_case_04_still_frames_are_kept() {
    let mut rig = Rig::new(&[], "25/1", Some("60/1"));
    let mut out = Vec::new();
    // 2 s of one picture, then 5 others.
    for n in 0..55u64 {
        let level = n.saturating_sub(49) as u8;
        out.extend(rig.push(frame(level, Some(ms(40 * n)), Some(ms(40)))));
    }
    out.extend(rig.eos());
    // 2.2 s; the last output begins at 131/60 s.
    assert_eq!(out.len(), 132);
    assert_eq!(out[131].pts(), Some(ns(2_183_333_333)));
    assert!(out.windows(2).all(|w| w[0].pts().unwrap() + w[0].duration().unwrap() == w[1].pts().unwrap()));
    let still = bytes(&out[0]);
    // The last still frame is at 1.96 s.
    assert!(out.iter().take_while(|b| b.pts() <= Some(ms(1960))).all(|b| bytes(b) == still));
    assert_eq!(bytes(&out[131]), bytes(&frame(5, None, None)));
    // Of the 12 outputs from 1.96 to 2.16 s only that at 2 s is on a frame.
    assert_eq!(rig.counters()[4], 11);
}

#[test]
fn lower_and_equal_rates_never_build_the_network() {
    for (output, expected) in [("25/1", [6, 3, 0, 3, 0]), ("50/1", [6, 6, 0, 0, 0])] {
        let mut rig = Rig::new(&[], "50/1", Some(output));
        let mut out = Vec::new();
        for n in 0..6 {
            out.extend(rig.push(at_rate(n, 50)));
        }
        out.extend(rig.eos());
        assert_eq!(rig.counters(), expected);
        assert!(gaps(&out).iter().all(|gap| !gap));
        let stats: gst::Structure = rig.element.property("stats");
        assert_eq!(stats.get::<&str>("graph"), Ok(""), "a network was built");
    }
}

#[test]
fn the_first_frame_is_shown_back_to_the_segment_start() {
    let mut rig = Rig::new(&[], "25/1", Some("25/1"));
    rig.push(frame(0, Some(ms(100)), Some(ms(40))));
    let out = rig.push(frame(1, Some(ms(140)), Some(ms(40))));
    assert_eq!(times(&out), [0, 40, 80, 120]);
    assert_eq!(gaps(&out), [false, true, true, true]);
    let mut rig = Rig::new(&[("skip-to-first", "true")], "25/1", Some("50/1"));
    rig.push(frame(0, Some(ms(100)), Some(ms(40))));
    let out = rig.push(frame(1, Some(ms(140)), Some(ms(40))));
    assert_output(&out[0], 0, 100_000_000, 20_000_000, DISCONT);
    assert_output(&out[1], 1, 120_000_000, 20_000_000, NONE);
    assert_eq!(out.len(), 2);
}

#[test]
fn a_segment_is_filled_to_its_stop() {
    let mut rig = Rig::new(&[], "25/1", Some("25/1"));
    rig.segment(&segment(1000, Some(1200)));
    rig.push(frame(0, Some(ms(1000)), Some(ms(40))));
    rig.push(frame(1, Some(ms(1040)), Some(ms(40))));
    let out = rig.eos();
    assert_eq!(times(&out), [1040, 1080, 1120, 1160]);
    assert_eq!(gaps(&out), [false, true, true, true]);
    // At most 1 s of repeats, or what the property says.
    for (limit, expected) in [("1000000000", 25), ("100000000", 3)] {
        let properties = [("max-closing-segment-duplication-duration", limit)];
        let mut rig = Rig::new(&properties, "25/1", Some("25/1"));
        rig.segment(&segment(0, Some(10_000)));
        rig.push(frame(0, Some(ms(0)), Some(ms(40))));
        assert_eq!(rig.eos().len(), expected);
    }
}

#[test]
fn a_new_segment_drains_and_restarts_the_grid() {
    let mut rig = Rig::new(&[], "25/1", Some("50/1"));
    rig.segment(&segment(0, Some(80)));
    rig.push(frame(0, Some(ms(0)), Some(ms(40))));
    let mut out = rig.push(frame(1, Some(ms(40)), Some(ms(40))));
    assert!(rig.h.push_event(gst::event::Segment::new(&segment(5000, None))));
    let items = rig.items();
    let Some(Item::Event(last)) = items.last() else { panic!("the segment comes after the drained frame: {items:?}") };
    assert_eq!(last.type_(), gst::EventType::Segment);
    out.extend(items.into_iter().filter_map(|item| if let Item::Buffer(b) = item { Some(b) } else { None }));
    assert_eq!(times(&out), [0, 20, 40, 60]);
    rig.push(frame(0, Some(ms(5000)), Some(ms(40))));
    let out = rig.push(frame(9, Some(ms(5040)), Some(ms(40))));
    assert_output(&out[0], 4, 5_000_000_000, 20_000_000, NONE);
    assert_output(&out[1], 5, 5_020_000_000, 20_000_000, NONE);
}

#[test]
fn field_case_17_an_identical_segment_changes_nothing() {
    let mut rig = Rig::new(&[], "25/1", Some("50/1"));
    rig.segment(&segment(0, None));
    let mut out = rig.push(at_rate(0, 25));
    out.extend(rig.push(at_rate(1, 25)));
    out.extend(rig.segment(&segment(0, None)));
    out.extend(rig.push(at_rate(2, 25)));
    assert_eq!(times(&out), [0, 20, 40, 60]);
    assert_eq!(rig.counters(), [3, 4, 0, 0, 2]);
}

#[test]
fn flushing_resets_everything() {
    let mut rig = Rig::new(&[], "25/1", Some("50/1"));
    rig.push(at_rate(0, 25));
    assert_eq!(rig.push(at_rate(1, 25)).len(), 2);
    rig.event(gst::event::FlushStart::new());
    rig.event(gst::event::FlushStop::new(true));
    assert_eq!(rig.counters(), [0; 5]);
    rig.segment(&segment(2000, None));
    assert!(rig.push(frame(40, Some(ms(2000)), Some(ms(40)))).is_empty(), "nothing of the old segment is left");
    let out = rig.push(frame(41, Some(ms(2040)), Some(ms(40))));
    assert_output(&out[0], 0, 2_000_000_000, 20_000_000, DISCONT);
    assert_eq!(rig.counters(), [2, 2, 0, 0, 1]);
}

#[test]
fn field_case_15_new_caps_drain_with_the_old_ones() {
    let mut rig = Rig::new(&[], "25/1", Some("50/1"));
    rig.push(at_rate(0, 25));
    rig.push(at_rate(1, 25));
    rig.h.set_src_caps_str(&caps("25/1", (48, 32)));
    let items = rig.items();
    let drained: Vec<_> =
        items.iter().map_while(|item| if let Item::Buffer(b) = item { Some(b.clone()) } else { None }).collect();
    assert_eq!(times(&drained), [40, 60], "the held frame, before the new caps: {items:?}");
    assert!(drained.iter().all(|b| b.size() == 32 * 16 * 4));
    let large = |n: u64| frame_of(9, (48, 32), Some(ms(40 * n)), Some(ms(40)));
    assert!(matches!(&items[2], Item::Event(event) if event.type_() == gst::EventType::Caps));
    rig.push(large(2));
    let mut out = rig.push(large(3));
    out.extend(rig.eos());
    assert_eq!(times(&out), [80, 100, 120, 140]);
    assert!(out.iter().all(|b| b.size() == 48 * 32 * 4));
    assert_eq!(out[0].offset(), 4);
}

#[test]
fn frames_out_of_order_are_dropped_and_counted() {
    let mut rig = Rig::new(&[], "25/1", Some("50/1"));
    let mut out = rig.push(at_rate(0, 25));
    out.extend(rig.push(at_rate(1, 25)));
    for late in [40, 20, 0] {
        assert!(rig.push(frame(7, Some(ms(late)), Some(ms(40)))).is_empty());
    }
    out.extend(rig.push(at_rate(2, 25)));
    assert_eq!(times(&out), [0, 20, 40, 60]);
    assert_eq!(rig.counters(), [6, 4, 0, 3, 2]);
}

#[test]
fn a_missing_pts_is_the_end_of_the_frame_before() {
    let mut rig = Rig::new(&[], "25/1", Some("25/1"));
    assert!(rig.push(frame(0, None, Some(ms(40)))).is_empty());
    assert_eq!(rig.counters()[0], 0, "before the first timestamp nothing tells when a frame is due");
    let mut out = Vec::new();
    for pts in [Some(ms(0)), None, None, Some(ms(120))] {
        out.extend(rig.push(frame(0, pts, None)));
    }
    out.extend(rig.eos());
    assert_eq!(times(&out), [0, 40, 80, 120]);
    assert!(gaps(&out).iter().all(|gap| !gap));
}

#[test]
fn field_case_17_timestamps_may_start_anywhere() {
    let mut rig = Rig::new(&[("fps", "60/1")], "25/1", None);
    rig.segment(&segment(10_000, None));
    let mut out = rig.push(frame(0, Some(ms(10_000)), None));
    out.extend(rig.push(frame(1, Some(ms(10_040)), None)));
    out.extend(rig.eos());
    assert_eq!(out[0].pts(), Some(ms(10_000)));
    assert!(out.windows(2).all(|w| w[0].pts().unwrap() + w[0].duration().unwrap() == w[1].pts().unwrap()));
    assert_eq!(out.len(), 5);
}

#[test]
fn field_case_17_frames_without_duration_from_ten_seconds_on() {
    let mut rig = Rig::new(&[("fps", "60/1")], "0/1", None);
    // As sources send it: no segment of its own, the same one twice.
    let mut out = rig.segment(&segment(0, None));
    out.extend(rig.segment(&segment(0, None)));
    for n in 0..3 {
        out.extend(rig.push(frame(n as u8, Some(ms(10_000 + 40 * n)), None)));
    }
    out.extend(rig.segment(&segment(0, None)));
    out.extend(rig.push(frame(3, Some(ms(10_120)), None)));
    out.extend(rig.eos());
    // From the segment's start to the end of the last frame, 10.16 s, in frames of 1/60 s.
    assert_eq!(out.len(), 610);
    assert!(out.windows(2).all(|w| w[0].pts().unwrap() + w[0].duration().unwrap() == w[1].pts().unwrap()));
    assert!(out.windows(2).all(|w| w[0].pts() < w[1].pts()));
}

#[test]
fn field_case_17_eos_without_frames_and_after_one() {
    let mut rig = Rig::new(&[("fps", "60/1")], "25/1", None);
    assert!(rig.eos().is_empty());
    let mut rig = Rig::new(&[], "0/1", None);
    assert!(rig.eos().is_empty());
    // A single frame of unknown rate passes with caps of variable rate.
    let mut rig = Rig::new(&[], "0/1", None);
    rig.push(frame(0, Some(ms(0)), None));
    assert!(rig.h.push_event(gst::event::Eos::new()));
    let items = rig.items();
    let caps = items.iter().find_map(|item| match item {
        Item::Event(event) => match event.view() {
            gst::EventView::Caps(caps) => Some(caps.caps_owned()),
            _ => None,
        },
        Item::Buffer(_) => None,
    });
    assert_eq!(caps.unwrap().structure(0).unwrap().get::<gst::Fraction>("framerate"), Ok(gst::Fraction::new(0, 1)));
    assert_eq!(items.iter().filter(|item| matches!(item, Item::Buffer(_))).count(), 1);
    assert!(matches!(items.last(), Some(Item::Event(event)) if event.type_() == gst::EventType::Eos));
}

#[test]
fn holes_gap_events_and_discontinuities_are_not_bridged() {
    let mut rig = Rig::new(&[], "25/1", Some("50/1"));
    rig.push(at_rate(0, 25));
    // A hole of more than half a second.
    let out = rig.push(frame(1, Some(ms(600)), Some(ms(40))));
    assert_eq!(out.len(), 30);
    assert_eq!(rig.counters()[4], 0);
    assert!(gaps(&out)[1..].iter().all(|gap| *gap));
    // A GAP event does not pass, and its time is filled at once.
    assert!(rig.h.push_event(gst::event::Gap::builder(ms(640)).duration(ms(80)).build()));
    let items = rig.items();
    assert!(items.iter().all(|item| matches!(item, Item::Buffer(_))), "{items:?}");
    assert_eq!(items.len(), 6);
    assert!(rig.push(frame(2, Some(ms(720)), Some(ms(40)))).is_empty());
    let mut broken = frame(3, Some(ms(760)), Some(ms(40)));
    broken.get_mut().unwrap().set_flags(DISCONT);
    let out = rig.push(broken);
    assert_eq!(gaps(&out), [false, true]);
    assert!(out.iter().all(|b| !b.flags().contains(DISCONT)), "the output has no break");
    assert_eq!(rig.counters()[4], 0);
    assert_eq!(gaps(&rig.push(frame(4, Some(ms(800)), Some(ms(40))))), [false, false]);
    assert_eq!(rig.counters()[4], 1);
}

#[test]
fn gaps_beyond_max_duplication_time_stay() {
    let mut rig = Rig::new(&[("max-duplication-time", "100000000")], "25/1", Some("50/1"));
    let mut out = rig.push(at_rate(0, 25));
    out.extend(rig.push(frame(1, Some(ms(300)), Some(ms(40)))));
    out.extend(rig.push(frame(2, Some(ms(340)), Some(ms(40)))));
    assert_eq!(times(&out), [0, 20, 300, 320]);
    let discont: Vec<bool> = out.iter().map(|b| b.flags().contains(DISCONT)).collect();
    assert_eq!(discont, [true, false, true, false]);
}

#[test]
fn field_case_07_variable_rate_uses_real_times() {
    let mut rig = Rig::new(&[("fps", "60/1")], "0/1", None);
    let mut out = Vec::new();
    for (level, pts) in [0, 41, 83, 125, 250, 291].into_iter().enumerate() {
        out.extend(rig.push(frame(level as u8, Some(ms(pts)), None)));
    }
    out.extend(rig.eos());
    assert!(out.windows(2).all(|w| w[0].pts().unwrap() + w[0].duration().unwrap() == w[1].pts().unwrap()));
    // Only 0 and 250 ms are on the grid; the last frame lasts as long as the gap before it, to 332 ms.
    assert_eq!(rig.counters(), [6, 20, 1, 0, 16]);
}

#[test]
fn field_case_08_a_rate_that_nothing_tells_is_twice_that_of_the_frames() {
    let mut rig = Rig::new(&[], "0/1", None);
    assert!(rig.push(frame(0, Some(ms(0)), None)).is_empty());
    // One more frame and the output starts.
    assert_eq!(times(&rig.push(frame(1, Some(ms(40)), None))), [0, 20]);
    let caps = rig.element.static_pad("src").unwrap().current_caps().unwrap();
    assert_eq!(caps.structure(0).unwrap().get::<gst::Fraction>("framerate"), Ok(gst::Fraction::new(50, 1)));
}

#[test]
fn an_open_rate_is_twice_the_input_rate() {
    let mut rig = Rig::new(&[], "25/1", None);
    rig.push(at_rate(0, 25));
    assert_eq!(times(&rig.push(at_rate(1, 25))), [0, 20]);
}

#[test]
fn downstream_changes_the_rate() {
    let mut rig = Rig::new(&[], "25/1", Some("25/1"));
    rig.push(at_rate(0, 25));
    assert_eq!(times(&rig.push(at_rate(1, 25))), [0]);
    rig.h.set_sink_caps_str("video/x-raw,framerate=50/1");
    let items = {
        assert!(rig.h.push(at_rate(2, 25)).is_ok());
        rig.items()
    };
    assert!(matches!(&items[0], Item::Event(event) if event.type_() == gst::EventType::Caps), "{items:?}");
    let out: Vec<_> = items.into_iter().filter_map(|i| if let Item::Buffer(b) = i { Some(b) } else { None }).collect();
    assert_output(&out[0], 1, 40_000_000, 20_000_000, NONE);
    assert_output(&out[1], 2, 60_000_000, 20_000_000, NONE);
    assert_eq!(rig.counters()[4], 1);
    // The property does the same.
    let mut rig = Rig::new(&[("fps", "25/1")], "25/1", None);
    rig.push(at_rate(0, 25));
    rig.push(at_rate(1, 25));
    rig.element.set_property("fps", gst::Fraction::new(100, 1));
    assert_eq!(times(&rig.push(at_rate(2, 25))), [40, 50, 60, 70]);
}

#[test]
fn events_keep_their_place() {
    let mut rig = Rig::new(&[], "25/1", Some("50/1"));
    let custom = |name: &str| gst::event::CustomDownstream::new(gst::Structure::new_empty(name));
    assert!(rig.h.push_event(custom("before")));
    rig.h.push(at_rate(0, 25)).unwrap();
    assert!(rig.h.push_event(custom("after-first")));
    rig.h.push(at_rate(1, 25)).unwrap();
    assert!(rig.h.push_event(custom("after-second")));
    rig.h.push_event(gst::event::Eos::new());
    let order: Vec<String> = rig
        .items()
        .into_iter()
        .map(|item| match item {
            Item::Buffer(buffer) => buffer.pts().unwrap().mseconds().to_string(),
            Item::Event(event) => {
                event.structure().map_or_else(|| "eos".to_owned(), |structure| structure.name().to_string())
            }
        })
        .collect();
    assert_eq!(order, ["before", "0", "20", "after-first", "40", "60", "after-second", "eos"]);
}

#[test]
fn segment_done_drains() {
    let mut rig = Rig::new(&[], "25/1", Some("50/1"));
    rig.segment(&segment(0, Some(80)));
    rig.push(at_rate(0, 25));
    rig.push(at_rate(1, 25));
    assert!(rig.h.push_event(gst::event::SegmentDone::new(ms(80))));
    let items = rig.items();
    assert_eq!(items.len(), 3, "{items:?}");
    assert!(matches!(&items[2], Item::Event(event) if event.type_() == gst::EventType::SegmentDone));
}

#[test]
fn slow_motion_in_one_element() {
    let mut rig = Rig::new(&[("rate", "0.5")], "25/1", Some("25/1"));
    rig.h.push_event(gst::event::Segment::new(&segment(1000, Some(3000))));
    let events = rig.events();
    let gst::EventView::Segment(scaled) = events.last().unwrap().view() else { panic!("{events:?}") };
    let scaled = scaled.segment().downcast_ref::<gst::ClockTime>().unwrap();
    assert_eq!((scaled.start(), scaled.stop()), (Some(ms(2000)), Some(ms(6000))));
    rig.push(frame(0, Some(ms(1000)), Some(ms(40))));
    let out = rig.push(frame(1, Some(ms(1040)), Some(ms(40))));
    assert_eq!(times(&out), [2000, 2040]);
    assert_eq!(rig.counters()[4], 1);
}

#[test]
fn drop_only_and_average_pass_frames_at_their_own_time() {
    let mut rig = Rig::new(&[("drop-only", "true")], "50/1", Some("25/1"));
    let mut out = Vec::new();
    for pts in [5, 25, 45, 65, 85, 105] {
        out.extend(rig.push(frame(0, Some(ms(pts)), Some(ms(20)))));
    }
    out.extend(rig.eos());
    assert_eq!(times(&out), [5, 45, 85]);
    assert_eq!(rig.counters(), [6, 3, 0, 3, 0]);
    let mut rig = Rig::new(&[("average-period", "200000000")], "50/1", Some("10/1"));
    let mut out = Vec::new();
    for n in 0..100 {
        out.extend(rig.push(at_rate(n, 50)));
    }
    // 2 s at 10 a second, and what the period lets through at first.
    assert!((20..=23).contains(&out.len()), "{}", out.len());
    assert!(out.iter().all(|b| b.duration() == Some(ms(20)) && b.pts().unwrap().mseconds() % 20 == 0));
    assert_eq!(rig.counters()[3], 100 - out.len() as u64);
}

#[test]
fn max_rate_limits_an_open_rate() {
    let mut rig = Rig::new(&[("max-rate", "10")], "25/1", None);
    let mut out = Vec::new();
    for n in 0..10 {
        out.extend(rig.push(at_rate(n, 25)));
    }
    assert_eq!(times(&out), [0, 100, 200, 300]);
}

#[test]
fn reverse_playback_counts_down() {
    let mut rig = Rig::new(&[], "25/1", Some("50/1"));
    let mut segment = segment(880, Some(1000));
    segment.set_rate(-1.0);
    rig.segment(&segment);
    let mut out = Vec::new();
    for pts in [960, 920, 880] {
        out.extend(rig.push(frame((pts / 40) as u8, Some(ms(pts)), Some(ms(40)))));
    }
    out.extend(rig.eos());
    assert_eq!(times(&out), [980, 960, 940, 920, 900, 880]);
    assert_eq!(rig.counters(), [3, 6, 1, 0, 2]);
    // The same picture as in forward playback, between the same frames.
    let mut forward = Rig::new(&[], "25/1", Some("50/1"));
    forward.push(frame(23, Some(ms(0)), Some(ms(40))));
    let made = forward.push(frame(24, Some(ms(40)), Some(ms(40))))[1].clone();
    assert_eq!(bytes(&out[2]), bytes(&made));
}

#[test]
fn latency_is_one_input_frame_and_the_budget() {
    let mut rig = Rig::new(&[], "25/1", Some("50/1"));
    rig.h.set_upstream_latency(ms(5));
    rig.push(at_rate(0, 25));
    let mut query = gst::query::Latency::new();
    assert!(rig.element.static_pad("src").unwrap().query(&mut query));
    assert_eq!(query.result(), (true, ms(5 + 40 + 20), None));
    // A lower rate draws nothing.
    let rig = Rig::new(&[], "50/1", Some("25/1"));
    let mut query = gst::query::Latency::new();
    assert!(rig.element.static_pad("src").unwrap().query(&mut query));
    assert_eq!(query.result().1, ms(20));
}

#[test]
fn late_frames_are_repeated_instead_of_made() {
    for (qos, made) in [("true", 0), ("false", 1)] {
        let mut rig = Rig::new(&[("qos", qos)], "25/1", Some("50/1"));
        rig.push(at_rate(0, 25));
        // The output at 0 came 100 ms late: what is due before 200 ms will, too.
        let event = gst::event::Qos::new(gst::QOSType::Underflow, 1.5, 100_000_000, gst::ClockTime::ZERO);
        assert!(rig.h.push_upstream_event(event));
        let upstream = std::iter::from_fn(|| rig.h.try_pull_upstream_event()).last();
        assert_eq!(upstream.map(|event| event.type_()), Some(gst::EventType::Qos), "it goes on upstream");
        let out = rig.push(at_rate(1, 25));
        assert_eq!(times(&out), [0, 20]);
        assert_eq!(rig.counters()[4], made, "qos={qos}");
        let message = rig.bus.pop_filtered(&[gst::MessageType::Qos]);
        assert_eq!(message.is_some(), qos == "true");
        for n in 2..8 {
            rig.push(at_rate(n, 25));
        }
        // After 200 ms they are in time.
        assert!(rig.counters()[4] > made);
    }
}

#[test]
fn counters_are_notified_unless_silent() {
    for silent in [true, false] {
        let mut rig = Rig::new(&[("silent", if silent { "true" } else { "false" })], "25/1", Some("50/1"));
        let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        for name in ["in", "out", "duplicate", "drop", "interpolated"] {
            let seen = seen.clone();
            rig.element.connect_notify(Some(name), move |element, spec| {
                // The getters must not wait for the streaming thread.
                let value: u64 = element.property(spec.name());
                let _: gst::Structure = element.property("stats");
                seen.lock().unwrap().push((spec.name().to_owned(), value));
            });
        }
        rig.push(at_rate(0, 25));
        rig.push(at_rate(1, 25));
        rig.push(frame(0, Some(ms(40)), None));
        rig.eos();
        let seen = seen.lock().unwrap().clone();
        if silent {
            assert!(seen.is_empty());
        } else {
            for (name, last) in [("in", 3), ("out", 4), ("duplicate", 1), ("drop", 1), ("interpolated", 1)] {
                assert_eq!(seen.iter().rev().find(|(n, _)| n == name).map(|(_, v)| *v), Some(last), "{name}");
            }
        }
        let stats: gst::Structure = rig.element.property("stats");
        for (name, value) in [("frames", 3u64), ("out", 4), ("interpolated", 1), ("duplicated", 1), ("dropped", 1)] {
            assert_eq!(stats.get::<u64>(name), Ok(value), "{name}");
        }
        assert_eq!(stats.get::<&str>("adapter").unwrap(), rig.element.property::<String>("adapter-name"));
    }
}

#[test]
fn metas_stay_with_their_frame() {
    let mut rig = Rig::new(&[], "25/1", Some("50/1"));
    let with_meta = |n: u64| {
        let mut buffer = at_rate(n, 25);
        let writable = buffer.get_mut().unwrap();
        gst_video::VideoRegionOfInterestMeta::add(writable, "face", (1, 2, 3, 4));
        gst_video::VideoCaptionMeta::add(writable, gst_video::VideoCaptionType::Cea608Raw, &[1, 2]);
        buffer
    };
    let mut out = rig.push(with_meta(0));
    out.extend(rig.push(with_meta(1)));
    out.extend(rig.eos());
    let metas: Vec<bool> = out
        .iter()
        .map(|b| {
            let roi = b.meta::<gst_video::VideoRegionOfInterestMeta>().is_some();
            assert_eq!(roi, b.meta::<gst_video::VideoCaptionMeta>().is_some());
            roi
        })
        .collect();
    assert_eq!(metas, [true, false, true, true]);
    assert_eq!(gaps(&out), [false, false, false, true]);
}

#[test]
fn the_last_output_of_a_frame_holds_no_other_reference() {
    let mut rig = Rig::new(&[], "25/1", Some("25/1"));
    rig.push(at_rate(0, 25));
    let out = rig.push(at_rate(1, 25));
    let [buffer] = <[gst::Buffer; 1]>::try_from(out).unwrap();
    assert!(buffer.is_writable(), "another reference to the buffer");
    assert!(buffer.is_all_memory_writable(), "another reference to its memory");
}

#[test]
fn field_case_18_live_sources_of_variable_rate_start_within_two_frames() {
    let mut rig = Rig::new(&[("fps", "60/1")], "0/1", None);
    rig.push(frame(0, Some(ms(0)), None));
    let out = rig.push(frame(1, Some(ms(33)), None));
    assert!(!out.is_empty());
    let (end, counters) = run("videotestsrc is-live=true pattern=ball num-buffers=12 ! \
         video/x-raw,format=RGBA,width=32,height=16,framerate=30/1 ! capssetter caps=video/x-raw,framerate=0/1 ! \
         framecastinterp name=f fps=60 ! fakesink sync=true");
    assert!(matches!(end, End::Eos), "{end:?}");
    // When the source starts, and so how far the first frame is shown back, is up to the clock.
    assert_eq!(counters[0], 12);
    assert!(counters[1] >= 24 && counters[4] >= 12, "{counters:?}");
}
