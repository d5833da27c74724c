// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames in CPU memory: planes, comparison, luma.

use gst_video::prelude::*;
use gst_video::{VideoFormatFlags, VideoFrameRef, VideoInfo};

use super::scene::{Component, Luma};
use crate::gpu::frame::{PlaneMut, PlaneRef};

/// A frame mapped for reading.
pub type Mapped<'a> = VideoFrameRef<&'a gst::BufferRef>;

/// Planes of a frame at most.
const MAX_PLANES: usize = 4;

/// Maps a frame for reading; `None` if the buffer does not hold one, or one with rows in backward order.
pub fn map<'a>(buffer: &'a gst::BufferRef, info: &VideoInfo) -> Option<Mapped<'a>> {
    let frame = VideoFrameRef::from_buffer_ref_readable(buffer, info).ok()?;
    frame.plane_stride().iter().take(frame.n_planes() as usize).all(|stride| *stride > 0).then_some(frame)
}

/// The planes of a mapped frame.
pub fn with_planes<R>(frame: &Mapped<'_>, work: impl FnOnce(&[PlaneRef<'_>]) -> R) -> R {
    let data = frame.planes_data();
    let strides = frame.plane_stride();
    let planes: [PlaneRef<'_>; MAX_PLANES] = std::array::from_fn(|i| PlaneRef {
        data: data[i],
        stride: strides.get(i).copied().and_then(|stride| usize::try_from(stride).ok()).unwrap_or(0),
    });
    work(&planes[..frame.n_planes() as usize])
}

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

/// Bytes that a row of plane `plane` uses.
fn row_bytes(frame: &Mapped<'_>, plane: u32) -> usize {
    (0..frame.n_components())
        .filter(|c| frame.comp_plane(*c) == plane)
        .map(|c| frame.comp_width(c) as usize * frame.comp_pstride(c) as usize)
        .max()
        .unwrap_or(0)
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
