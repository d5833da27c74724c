// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where `framecastinterp`'s buffers come from, what it offers upstream, and what it keeps.

mod support;

use std::sync::{Arc, Mutex};

use gst::prelude::*;
use gst_video::prelude::*;
use support::*;

/// What downstream answers to an allocation query.
#[derive(Clone, Default)]
struct Downstream {
    pool: Option<gst::BufferPool>,
    size: u32,
    min: u32,
    max: u32,
    video_meta: bool,
}

/// Answers the element's allocation queries; returns how many came.
fn answer(rig: &Rig, downstream: Downstream) -> Arc<Mutex<u32>> {
    let asked = Arc::new(Mutex::new(0));
    let count = asked.clone();
    let pad = rig.element.static_pad("src").unwrap().peer().unwrap();
    pad.add_probe(gst::PadProbeType::QUERY_DOWNSTREAM | gst::PadProbeType::PUSH, move |_, info| {
        if let Some(gst::PadProbeData::Query(query)) = &mut info.data
            && let gst::QueryViewMut::Allocation(query) = query.view_mut()
        {
            *count.lock().unwrap() += 1;
            let Downstream { pool, size, min, max, video_meta } = &downstream;
            query.add_allocation_pool(pool.as_ref(), *size, *min, *max);
            if *video_meta {
                query.add_allocation_meta::<gst_video::VideoMeta>(None);
            }
            return gst::PadProbeReturn::Handled;
        }
        gst::PadProbeReturn::Ok
    });
    asked
}

/// 25 to 50 frames a second, with that downstream.
fn rig(downstream: Downstream) -> (Rig, Arc<Mutex<u32>>) {
    let mut rig = Rig::idle(&[]);
    let asked = answer(&rig, downstream);
    rig.h.set_sink_caps_str("video/x-raw,framerate=50/1");
    rig.h.set_src_caps_str(&caps("25/1", SIZE));
    rig.events();
    (rig, asked)
}

/// A pool as a sink prepares one, rows padded by `right` pixels.
fn sink_pool(right: u32) -> gst::BufferPool {
    init();
    let pool = gst_video::VideoBufferPool::new().upcast::<gst::BufferPool>();
    let mut config = pool.config();
    let caps: gst::Caps = caps("50/1", SIZE).parse().unwrap();
    config.set_params(Some(&caps), SIZE.0 * SIZE.1 * 4, 0, 0);
    config.add_option(gst_video::BUFFER_POOL_OPTION_VIDEO_META);
    if right > 0 {
        config.add_option(gst_video::BUFFER_POOL_OPTION_VIDEO_ALIGNMENT);
        config.set_video_alignment(&gst_video::VideoAlignment::new(1, 2, 3, right, &[0; 4]));
    }
    pool.set_config(config).unwrap();
    pool
}

/// The pool a buffer is of.
fn pool_of(buffer: &gst::Buffer) -> Option<*mut gst::ffi::GstBufferPool> {
    // SAFETY: a field of a valid buffer, only compared.
    let pool = unsafe { (*buffer.as_ptr()).pool };
    (!pool.is_null()).then_some(pool)
}

/// The pixels of a frame of [`SIZE`] wherever its rows lie.
fn tight(buffer: &gst::Buffer) -> Vec<u8> {
    use gst_video::VideoFrameExt;
    let info = gst_video::VideoInfo::builder(gst_video::VideoFormat::Rgba, SIZE.0, SIZE.1).build().unwrap();
    let frame = gst_video::VideoFrameRef::from_buffer_ref_readable(buffer, &info).unwrap();
    let stride = frame.plane_stride()[0] as usize;
    let data = frame.plane_data(0).unwrap();
    (0..SIZE.1 as usize).flat_map(|y| data[y * stride..][..SIZE.0 as usize * 4].to_vec()).collect()
}

/// Four frames; all that comes out.
fn play(rig: &mut Rig) -> Vec<gst::Buffer> {
    let mut out: Vec<_> = (0..4).flat_map(|n| rig.push(at_rate(n, 25))).collect();
    out.extend(rig.eos());
    assert_eq!(rig.counters(), [4, 8, 1, 0, 3]);
    out
}

#[test]
fn made_frames_come_from_downstreams_pool() {
    let plain = {
        let (mut rig, asked) = rig(Downstream::default());
        let out = play(&mut rig);
        assert!(*asked.lock().unwrap() >= 1);
        out
    };
    for (right, video_meta) in [(0, true), (0, false), (5, true)] {
        let pool = sink_pool(right);
        let downstream = Downstream { pool: Some(pool.clone()), size: 2048, min: 2, max: 0, video_meta };
        let (mut rig, _) = rig(downstream);
        let out = play(&mut rig);
        for (n, (buffer, expected)) in out.iter().zip(&plain).enumerate() {
            let made = n % 2 == 1 && n < 7;
            assert_eq!(pool_of(buffer) == Some(pool.as_ptr()), made, "padded by {right}: output {n}");
            assert_eq!(tight(buffer), tight(expected), "padded by {right}: output {n}");
            if made && right > 0 {
                let stride = buffer.meta::<gst_video::VideoMeta>().expect("a GstVideoMeta").stride()[0];
                assert!(stride > SIZE.0 as i32 * 4, "{stride}");
            }
        }
    }
}

#[test]
fn without_a_usable_pool_it_makes_its_own() {
    let foreign = || {
        // Of one buffer only: too few.
        Downstream { pool: Some(sink_pool(0)), size: 2048, min: 1, max: 1, video_meta: true }
    };
    for downstream in [Downstream::default(), foreign()] {
        let offered = downstream.pool.clone();
        let (mut rig, _) = rig(downstream);
        let out = play(&mut rig);
        let pool = pool_of(&out[1]).expect("a pool");
        assert!(offered.is_none_or(|offered| offered.as_ptr() != pool));
    }
}

/// A sink that offers the same pool whenever it is asked.
#[test]
fn the_same_pool_may_be_offered_again() {
    let pool = sink_pool(0);
    let (mut rig, asked) = rig(Downstream { pool: Some(pool.clone()), size: 2048, min: 2, max: 0, video_meta: true });
    for n in 0..6 {
        rig.element.static_pad("src").unwrap().mark_reconfigure();
        let out = rig.push(at_rate(n, 25));
        assert_eq!(out.len(), if n == 0 { 0 } else { 2 });
        assert!(n == 0 || pool_of(&out[1]).is_some(), "frame {n}");
    }
    assert_eq!(*asked.lock().unwrap(), 7);
    assert_eq!(rig.counters()[4], 5);
}

#[test]
fn upstream_is_offered_a_pool_for_all_frames_that_are_kept() {
    for (min, video_meta) in [(0, false), (2, true), (7, true)] {
        let (rig, _) = rig(Downstream { min, size: 2048, video_meta, ..Downstream::default() });
        let caps: gst::Caps = caps("25/1", SIZE).parse().unwrap();
        for need_pool in [true, false] {
            let mut query = gst::query::Allocation::new(Some(&caps), need_pool);
            assert!(rig.element.static_pad("sink").unwrap().query(&mut query));
            assert_eq!(query.find_allocation_meta::<gst_video::VideoMeta>().is_some(), video_meta);
            let (pool, size, offered, max) = query.allocation_pools().next().expect("a proposal");
            // A pair is held, and downstream keeps frames of the input, too.
            assert_eq!((offered, size, max), (min.max(3) + 2, 2048, 0));
            assert_eq!(pool.is_some(), need_pool);
            if let Some(pool) = pool {
                let config = pool.config();
                let has = config.has_option(gst_video::BUFFER_POOL_OPTION_VIDEO_META.as_str());
                assert_eq!(has, video_meta);
                pool.set_active(true).unwrap();
                let buffers: Vec<_> = (0..offered).map(|_| pool.acquire_buffer(None).unwrap()).collect();
                assert_eq!(buffers[0].size(), 2048);
                drop(buffers);
                pool.set_active(false).unwrap();
            }
        }
    }
}

#[test]
fn a_shown_frame_is_not_copied_and_its_last_output_is_writable() {
    let (mut rig, _) = rig(Downstream::default());
    let mut memories = Vec::new();
    let mut shown = Vec::new();
    for n in 0..4u64 {
        let input = at_rate(n, 25);
        memories.push(input.peek_memory(0).as_ptr() as usize);
        let out = rig.push(input);
        // As a sink: whatever came is used up by the next time.
        for buffer in out {
            let memory = buffer.peek_memory(0).as_ptr() as usize;
            if memories.contains(&memory) {
                shown.push(memory);
            } else {
                assert!(pool_of(&buffer).is_some(), "a made frame is in a pool's buffer");
            }
            assert!(buffer.is_writable() && buffer.is_all_memory_writable(), "{buffer:?} is shared");
        }
    }
    assert_eq!(shown, memories[..3]);
    // Repeats share the memory, the last of them has no other reference once the others are gone.
    let out = rig.eos();
    let last = out.last().unwrap().clone();
    assert!(out.iter().all(|buffer| same_memory(buffer, &last)) && out.len() == 2);
    drop(out);
    assert!(last.is_writable() && last.is_all_memory_writable());
}

#[test]
fn a_stopped_element_keeps_no_buffer() {
    let pool = sink_pool(0);
    let (mut rig, _) = rig(Downstream { pool: Some(pool.clone()), size: 2048, min: 2, max: 0, video_meta: true });
    let inputs: Vec<_> = (0..3).map(|n| at_rate(n, 25)).collect();
    for input in &inputs {
        rig.push(input.clone());
    }
    rig.element.set_state(gst::State::Null).unwrap();
    rig.items();
    assert!(!pool.is_active());
    for input in inputs {
        assert!(input.is_writable(), "a reference is left to {input:?}");
    }
}
