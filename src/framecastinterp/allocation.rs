// SPDX-License-Identifier: MIT OR Apache-2.0
//! Buffers: the pool made frames come from, and what upstream is offered.

use gst::prelude::*;

/// Made frames are written one at a time; the others are with downstream.
const MIN_BUFFERS: u32 = 3;

/// Frames the element holds of upstream's pool: a pair.
const HELD_BUFFERS: u32 = 2;

/// What was agreed with downstream.
#[derive(Debug)]
pub struct Allocation {
    pool: gst::BufferPool,
    /// Downstream takes frames whose planes lie anywhere, as a GstVideoMeta tells.
    pub video_meta: bool,
    /// Buffers downstream keeps; input frames reach it without a copy.
    kept: u32,
    allocator: Option<gst::Allocator>,
    params: gst::AllocationParams,
}

impl Allocation {
    /// Asks downstream and prepares a pool for frames of `caps`.
    pub fn decide(pad: &gst::Pad, caps: &gst::Caps, size: usize) -> Result<Self, gst::glib::BoolError> {
        let mut query = gst::query::Allocation::new(Some(caps), true);
        // Downstream need not answer.
        let answered = pad.peer_query(&mut query);
        let video_meta = answered && query.find_allocation_meta::<gst_video::VideoMeta>().is_some();
        let (allocator, params) =
            query.allocation_params().next().filter(|_| answered).unwrap_or((None, gst::AllocationParams::default()));
        let offers: Vec<_> = query.allocation_pools().filter(|_| answered).collect();
        let size = u32::try_from(size).map_err(|_| gst::glib::bool_error!("a frame of {size} bytes is too large"))?;
        let kept = offers.iter().map(|(_, _, min, _)| *min).max().unwrap_or(0);
        let mut decided = None;
        for (pool, offered_size, min, max) in offers {
            let Some(pool) = pool else { continue };
            let min = min.max(MIN_BUFFERS);
            if max != 0 && max < min {
                continue;
            }
            match configure(&pool, caps, size.max(offered_size), (min, max), video_meta, (&allocator, &params)) {
                Ok(()) => {
                    decided = Some(pool);
                    break;
                }
                Err(error) => gst::debug!(gst::CAT_RUST, obj = pad, "downstream's pool cannot be used: {error}"),
            }
        }
        let pool = match decided {
            Some(pool) => pool,
            None => {
                let pool = gst_video::VideoBufferPool::new().upcast();
                configure(&pool, caps, size, (MIN_BUFFERS, 0), video_meta, (&allocator, &params))?;
                pool
            }
        };
        pool.set_active(true)?;
        Ok(Self { pool, video_meta, kept, allocator, params })
    }

    /// A buffer for a made frame.
    pub fn acquire(&self) -> Result<gst::Buffer, gst::FlowError> {
        self.pool.acquire_buffer(None)
    }

    /// Answers upstream's allocation query.
    pub fn propose(&self, query: &mut gst::query::Allocation, info: &gst_video::VideoInfo) -> bool {
        let (caps, need_pool) = query.get_owned();
        let Some(caps) = caps else { return false };
        // Upstream may ask for other caps than the current ones.
        let size = match gst_video::VideoInfo::from_caps(&caps) {
            Ok(other) => other.size(),
            Err(_) => info.size(),
        };
        let Ok(size) = u32::try_from(size) else { return false };
        let min = self.kept.max(MIN_BUFFERS).saturating_add(HELD_BUFFERS);
        let pool = need_pool.then(|| gst_video::VideoBufferPool::new().upcast::<gst::BufferPool>()).filter(|pool| {
            configure(pool, &caps, size, (min, 0), self.video_meta, (&self.allocator, &self.params)).is_ok()
        });
        query.add_allocation_pool(pool.as_ref(), size, min, 0);
        query.add_allocation_param(self.allocator.as_ref(), self.params);
        if self.video_meta {
            query.add_allocation_meta::<gst_video::VideoMeta>(None);
        }
        true
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // Buffers downstream still has return to the pool and are freed then.
        if let Err(error) = self.pool.set_active(false) {
            gst::warning!(gst::CAT_RUST, obj = self.pool, "{error}");
        }
    }
}

fn configure(
    pool: &gst::BufferPool,
    caps: &gst::Caps,
    size: u32,
    (min, max): (u32, u32),
    video_meta: bool,
    (allocator, params): (&Option<gst::Allocator>, &gst::AllocationParams),
) -> Result<(), gst::glib::BoolError> {
    let mut config = pool.config();
    config.set_params(Some(caps), size, min, max);
    config.set_allocator(allocator.as_ref(), Some(params));
    if video_meta && pool.options().iter().any(|option| option == gst_video::BUFFER_POOL_OPTION_VIDEO_META.as_str()) {
        config.add_option(gst_video::BUFFER_POOL_OPTION_VIDEO_META);
    }
    if pool.set_config(config).is_err() {
        // The pool may have changed the configuration to what it can do.
        let config = pool.config();
        config.validate_params(Some(caps), size, min, max)?;
        pool.set_config(config)?;
    }
    Ok(())
}
