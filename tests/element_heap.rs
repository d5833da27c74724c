// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames leave nothing behind on the heap. Alone in its program: the allocator counts for all of it.

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI64, Ordering};

use support::*;

/// Bytes that are allocated now.
static LIVE: AtomicI64 = AtomicI64::new(0);

struct Counting;

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size() as i64, Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size() as i64, Ordering::Relaxed);
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        LIVE.fetch_add(size as i64 - layout.size() as i64, Ordering::Relaxed);
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn no_heap_grows_with_the_frames() {
    let mut rig = Rig::new(&[("scene-threshold", "0")], "25/1", Some("50/1"));
    let mut after = Vec::new();
    for n in 0..=300u64 {
        rig.push(at_rate(n, 25));
        if n > 0 && n % 100 == 0 {
            after.push(LIVE.load(Ordering::Relaxed));
        }
    }
    assert_eq!(rig.counters()[4], 300);
    // A frame of 32x16 has 2048 bytes: one kept in a hundred would show.
    let grown = after[2] - after[0];
    assert!(grown < 2048, "live bytes after 100, 200 and 300 frames: {after:?}");
}
