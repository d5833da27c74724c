// SPDX-License-Identifier: MIT OR Apache-2.0
//! Late frames, latency, and playback at other speeds and directions.

mod support;

use gst::prelude::*;
use support::*;

fn pop(rig: &Rig, kind: gst::MessageType) -> Option<gst::Message> {
    rig.bus.pop_filtered(&[kind])
}

/// 25 to 50 frames a second in a segment from 1 s whose stream time is 5 s, downstream 100 ms late at its beginning.
fn late_rig(qos: &str) -> Rig {
    let mut rig = Rig::new(&[("qos", qos)], "25/1", Some("50/1"));
    let mut segment = segment(1000, None);
    segment.set_time(ms(5000));
    rig.segment(&segment);
    rig.push(frame(0, Some(ms(1000)), Some(ms(40))));
    let event = gst::event::Qos::new(gst::QOSType::Underflow, 1.5, 100_000_000, gst::ClockTime::ZERO);
    assert!(rig.h.push_upstream_event(event));
    rig
}

#[test]
fn a_qos_message_tells_what_was_late() {
    let mut rig = late_rig("true");
    let mut out = Vec::new();
    for n in 1..4u64 {
        out.extend(rig.push(frame(n as u8, Some(ms(1000 + 40 * n)), Some(ms(40)))));
        let message = pop(&rig, gst::MessageType::Qos).expect("a message for each late pair");
        assert!(message.src().is_some_and(|source| source == rig.element.upcast_ref::<gst::Object>()));
        let gst::MessageView::Qos(qos) = message.view() else { unreachable!() };
        let at = 40 * (n - 1);
        let times = (false, Some(ms(at)), Some(ms(5000 + at)), Some(ms(1000 + at)), Some(ms(20)));
        assert_eq!(qos.get(), times, "live, running, stream time, PTS, duration");
        // The deadline is the QOS event's time plus twice the lateness.
        assert_eq!(qos.values(), (200_000_000 - 1_000_000 * at as i64, 1.5, 1_000_000));
        let (processed, dropped) = qos.stats();
        let buffers = |value: gst::GenericFormattedValue| match value {
            gst::GenericFormattedValue::Buffers(Some(count)) => u64::from(count),
            other => panic!("{other:?}"),
        };
        assert_eq!((buffers(processed), buffers(dropped)), (2 * (n - 1), n));
        assert!(pop(&rig, gst::MessageType::Qos).is_none(), "one message a pair");
    }
    // Late frames are repeated, none is dropped.
    assert_eq!(times(&out), [1000, 1020, 1040, 1060, 1080, 1100]);
    let stats: gst::Structure = rig.element.property("stats");
    assert_eq!(stats.get::<u64>("late-pairs"), Ok(3));
    assert_eq!(rig.counters(), [4, 6, 3, 0, 0]);
    // Once downstream is in time again, frames are made.
    let event = gst::event::Qos::new(gst::QOSType::Underflow, 0.8, -10_000_000, ms(100));
    assert!(rig.h.push_upstream_event(event));
    rig.push(frame(4, Some(ms(1160)), Some(ms(40))));
    assert!(pop(&rig, gst::MessageType::Qos).is_none());
    assert_eq!(rig.counters()[4], 1);
}

#[test]
fn without_qos_nothing_is_late() {
    let mut rig = late_rig("false");
    for n in 1..4u64 {
        rig.push(frame(n as u8, Some(ms(1000 + 40 * n)), Some(ms(40))));
    }
    assert!(pop(&rig, gst::MessageType::Qos).is_none());
    assert_eq!(rig.counters(), [4, 6, 0, 0, 3]);
}

#[test]
fn a_flush_forgets_the_lateness() {
    let mut rig = late_rig("true");
    rig.event(gst::event::FlushStart::new());
    rig.event(gst::event::FlushStop::new(true));
    rig.segment(&segment(0, None));
    rig.push(at_rate(0, 25));
    rig.push(at_rate(1, 25));
    assert!(pop(&rig, gst::MessageType::Qos).is_none());
    assert_eq!(rig.counters()[4], 1);
}

#[test]
fn lateness_goes_upstream_in_input_time() {
    for (rate, timestamp, diff) in [("1", 100, 40), ("0.5", 50, 20), ("2", 200, 80)] {
        let mut rig = Rig::new(&[("rate", rate)], "25/1", Some("50/1"));
        let event = gst::event::Qos::new(gst::QOSType::Underflow, 1.25, 40_000_000, ms(100));
        let seqnum = event.seqnum();
        assert!(rig.h.push_upstream_event(event));
        let event = std::iter::from_fn(|| rig.h.try_pull_upstream_event()).last().expect("an event");
        assert_eq!(event.seqnum(), seqnum);
        let gst::EventView::Qos(qos) = event.view() else { panic!("{event:?}") };
        assert_eq!(qos.get(), (gst::QOSType::Underflow, 1.25, diff * 1_000_000, Some(ms(timestamp))));
    }
}

fn latency(rig: &Rig) -> gst::ClockTime {
    let mut query = gst::query::Latency::new();
    assert!(rig.element.static_pad("src").unwrap().query(&mut query));
    query.result().1
}

#[test]
fn a_latency_message_comes_when_it_changes() {
    let mut rig = Rig::new(&[("fps", "50/1")], "25/1", None);
    rig.push(at_rate(0, 25));
    assert!(pop(&rig, gst::MessageType::Latency).is_some(), "from nothing");
    assert_eq!(latency(&rig), ms(60));
    rig.push(at_rate(1, 25));
    assert!(pop(&rig, gst::MessageType::Latency).is_none(), "nothing changed");
    // Another output rate: another budget.
    rig.element.set_property("fps", gst::Fraction::new(100, 1));
    rig.push(at_rate(2, 25));
    assert!(pop(&rig, gst::MessageType::Latency).is_some());
    assert_eq!(latency(&rig), ms(50));
    // Another input rate: a frame is held for another time.
    rig.h.set_src_caps_str(&caps("50/1", SIZE));
    assert!(pop(&rig, gst::MessageType::Latency).is_some());
    assert_eq!(latency(&rig), ms(30));
    // The same rates in another size.
    rig.h.set_src_caps_str(&caps("50/1", (16, 16)));
    assert!(pop(&rig, gst::MessageType::Latency).is_none());
    // Frames that pass are not held.
    let mut rig = Rig::new(&[("drop-only", "true")], "50/1", Some("25/1"));
    rig.push(at_rate(0, 50));
    assert_eq!(latency(&rig), ms(0));
}

#[test]
fn the_latency_of_a_variable_rate_follows_the_frames() {
    let mut rig = Rig::new(&[("fps", "50/1")], "0/1", None);
    rig.push(frame(0, Some(ms(0)), None));
    rig.push(frame(1, Some(ms(30)), None));
    assert_eq!(latency(&rig), ms(60));
    while pop(&rig, gst::MessageType::Latency).is_some() {}
    rig.push(frame(2, Some(ms(125)), None));
    assert_eq!(latency(&rig), ms(100 + 20), "the longest gap, in steps of 10 ms");
    assert!(pop(&rig, gst::MessageType::Latency).is_some());
    rig.push(frame(3, Some(ms(150)), None));
    // A hole is not waited for.
    rig.push(frame(4, Some(ms(5000)), None));
    assert_eq!(latency(&rig), ms(120));
    assert!(pop(&rig, gst::MessageType::Latency).is_none());
}

/// Outputs of reverse playback follow each other without gap.
#[track_caller]
fn assert_reverse(out: &[gst::Buffer]) {
    for pair in out.windows(2) {
        let end = pair[1].pts().unwrap() + pair[1].duration().unwrap();
        assert_eq!(Some(end), pair[0].pts(), "{:?}", times(out));
    }
}

fn reverse_rig(properties: &[(&str, &str)], rate: &str) -> Rig {
    let mut rig = Rig::new(properties, rate, None);
    let mut segment = segment(0, Some(1000));
    segment.set_rate(-1.0);
    rig.segment(&segment);
    rig
}

#[test]
fn reverse_playback_at_a_variable_rate() {
    let mut rig = reverse_rig(&[("fps", "50/1")], "0/1");
    let mut out = Vec::new();
    for (n, pts) in [970, 915, 880, 790, 770, 700].into_iter().enumerate() {
        out.extend(rig.push(frame(40 - n as u8, Some(ms(pts)), None)));
    }
    assert_reverse(&out);
    assert!(rig.counters()[4] >= 8, "{:?}", rig.counters());
    // Levels fall from output to output: what is made lies between its two frames.
    let levels: Vec<f64> =
        out.iter().map(|b| bytes(b).chunks(4).map(|p| f64::from(p[2])).sum::<f64>() / 512.0).collect();
    assert!(levels.windows(2).all(|pair| pair[1] <= pair[0] + 0.25), "{levels:?}");
}

#[test]
fn reverse_playback_in_groups_of_frames() {
    // As decoders mark each group they have turned around.
    let mut rig = reverse_rig(&[("fps", "50/1")], "25/1");
    let mut out = Vec::new();
    for n in (0..25u64).rev() {
        let mut buffer = at_rate(n, 25);
        if n % 5 == 4 {
            buffer.get_mut().unwrap().set_flags(gst::BufferFlags::DISCONT);
        }
        out.extend(rig.push(buffer));
    }
    out.extend(rig.eos());
    assert_reverse(&out);
    assert_eq!((out.len(), out[0].pts(), out[49].pts()), (50, Some(ms(980)), Some(ms(0))));
    // 24 pairs, of which 4 have a break between them.
    assert_eq!(rig.counters()[4], 20);
}

#[test]
fn reverse_playback_of_frames_in_the_wrong_order() {
    // Each group still forward: what is not earlier than the frame before is dropped.
    let mut rig = reverse_rig(&[("fps", "50/1")], "25/1");
    let mut out = Vec::new();
    for pts in [840, 880, 920, 960, 680, 720, 760, 800] {
        out.extend(rig.push(frame((pts / 40) as u8, Some(ms(pts)), Some(ms(40)))));
    }
    out.extend(rig.eos());
    assert_reverse(&out);
    assert_eq!(rig.counters()[3], 6);
}

#[test]
fn slow_and_fast_motion_end_where_the_input_does() {
    for (rate, seconds, made) in [("0.25", 4.0, 72), ("0.4", 2.5, 48), ("2", 0.5, 0), ("1.5", 1.0 / 1.5, 0)] {
        let mut rig = Rig::new(&[("rate", rate)], "25/1", Some("25/1"));
        let mut out: Vec<_> = (0..25).flat_map(|n| rig.push(at_rate(n, 25))).collect();
        out.extend(rig.eos());
        let last = out.last().unwrap();
        let end = (last.pts().unwrap() + last.duration().unwrap()).nseconds() as f64 / 1e9;
        assert!((seconds..seconds + 0.04).contains(&(end + 1e-6)), "{rate}: {end} s");
        assert!(out.windows(2).all(|w| w[0].pts().unwrap() + w[0].duration().unwrap() == w[1].pts().unwrap()));
        // Every 4th (5th) output is on an input frame, and none is made after the last one.
        assert_eq!(rig.counters()[4], made, "{rate}");
    }
}

#[test]
fn a_live_source_of_variable_rate_flows_into_a_synchronised_sink() {
    let (end, counters) = run("videotestsrc is-live=true pattern=ball num-buffers=15 ! \
         video/x-raw,format=I420,width=32,height=16,framerate=15/1 ! capssetter caps=video/x-raw,framerate=0/1 ! \
         framecastinterp name=f fps=30 ! fakesink sync=true qos=true");
    assert!(matches!(end, End::Eos), "{end:?}");
    assert_eq!((counters[0], counters[3]), (15, 0));
    assert!(counters[1] >= 29, "{counters:?}");
}
