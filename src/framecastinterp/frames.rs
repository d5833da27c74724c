// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames in CPU memory: planes, comparison, luma.

use gst_video::prelude::*;
use gst_video::{VideoFormatFlags, VideoFrameRef, VideoInfo};

use super::scene::{Component, Luma};
use crate::gpu::frame::PlaneMut;
use crate::video::{MAX_PLANES, row_bytes};
pub use crate::video::{Mapped, map, with_planes};

/// The planes of a frame mapped for writing.
pub fn with_planes_mut<R>(
    frame: &mut VideoFrameRef<&mut gst::BufferRef>,
    work: impl FnOnce(&mut [PlaneMut<'_>]) -> R,
) -> R {
    let count = frame.n_planes() as usize;
    let mut strides = [0; MAX_PLANES];
    for (to, stride) in strides.iter_mut().zip(frame.plane_stride()) {
        *to = usize::try_from(*stride).unwrap_or(0);
    }
    let mut stride = strides.into_iter();
    let mut planes = frame.planes_data_mut().map(|data| PlaneMut { data, stride: stride.next().unwrap_or(0) });
    work(&mut planes[..count])
}

/// Copies the pixels; `false` where the frames do not match. `gst_video_frame_copy` would leave out the last chroma
/// sample of rows of YUY2 and UYVY with an odd width.
pub fn copy(from: &Mapped<'_>, to: &mut VideoFrameRef<&mut gst::BufferRef>) -> bool {
    (0..from.n_planes()).all(|plane| {
        let (bytes, rows) = (row_bytes(from, plane), from.plane_height(plane) as usize);
        let strides = [from.plane_stride(), to.plane_stride()].map(|strides| strides[plane as usize] as usize);
        let (Ok(source), Ok(target)) = (from.plane_data(plane), to.plane_data_mut(plane)) else { return false };
        (0..rows).all(|row| {
            let source = source.get(row * strides[0]..).and_then(|rest| rest.get(..bytes));
            let target = target.get_mut(row * strides[1]..).and_then(|rest| rest.get_mut(..bytes));
            source.zip(target).map(|(source, target)| target.copy_from_slice(source)).is_some()
        })
    })
}

/// Whether two frames of one format hold the same pixels.
pub fn equal(a: &Mapped<'_>, b: &Mapped<'_>) -> bool {
    let same_memory = |a: &gst::BufferRef, b: &gst::BufferRef| {
        a.n_memory() == 1 && b.n_memory() == 1 && a.peek_memory(0).as_ptr() == b.peek_memory(0).as_ptr()
    };
    if same_memory(a.buffer(), b.buffer()) && a.plane_offset() == b.plane_offset() {
        return true;
    }
    (0..a.n_planes()).all(|plane| {
        let (i, bytes) = (plane as usize, row_bytes(a, plane));
        let (Ok(first), Ok(second)) = (a.plane_data(plane), b.plane_data(plane)) else { return false };
        let (stride_a, stride_b) = (a.plane_stride()[i] as usize, b.plane_stride()[i] as usize);
        (0..a.plane_height(plane) as usize).all(|row| {
            let rows = (
                first.get(row * stride_a..).and_then(|rest| rest.get(..bytes)),
                second.get(row * stride_b..).and_then(|rest| rest.get(..bytes)),
            );
            matches!(rows, (Some(a), Some(b)) if a == b)
        })
    })
}

/// Where the luma of a mapped frame is.
pub fn luma<'a>(frame: &'a Mapped<'_>) -> Option<Luma<'a>> {
    let info = frame.format_info();
    let component = |i: u32| {
        let plane = frame.comp_plane(i);
        let data = frame.plane_data(plane).ok()?.get(frame.comp_poffset(i) as usize..)?;
        Some(Component {
            data,
            stride: frame.comp_stride(i) as usize,
            step: frame.comp_pstride(i) as usize,
            depth: frame.comp_depth(i),
            shift: info.shift().get(i as usize).copied().unwrap_or(0),
        })
    };
    if info.flags().contains(VideoFormatFlags::RGB) {
        Some(Luma::Rgb([component(0)?, component(1)?, component(2)?]))
    } else {
        Some(Luma::Y(component(0)?))
    }
}

/// Whether a buffer's planes lie elsewhere than plain caps say, so that only a GstVideoMeta tells where.
pub fn is_moved(buffer: &gst::BufferRef, info: &VideoInfo) -> bool {
    buffer.meta::<gst_video::VideoMeta>().is_some_and(|meta| {
        let planes = info.n_planes() as usize;
        meta.offset().get(..planes) != info.offset().get(..planes)
            || meta.stride().get(..planes) != info.stride().get(..planes)
    })
}
