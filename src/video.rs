// SPDX-License-Identifier: MIT OR Apache-2.0
//! Raw video as the elements take it: formats, layouts from caps, frames mapped for reading.

use gst_video::prelude::*;
use gst_video::{VideoFormat, VideoFrameRef, VideoInfo};

use crate::error::{Error, Result};
use crate::gpu::frame::{Color, FrameLayout, Matrix, PixelFormat, PlaneRef};

/// Every format the elements take.
pub const FORMATS: &[(VideoFormat, PixelFormat)] = &[
    (VideoFormat::Rgba, PixelFormat::Rgba),
    (VideoFormat::Bgra, PixelFormat::Bgra),
    (VideoFormat::Argb, PixelFormat::Argb),
    (VideoFormat::Abgr, PixelFormat::Abgr),
    (VideoFormat::Rgbx, PixelFormat::Rgbx),
    (VideoFormat::Bgrx, PixelFormat::Bgrx),
    (VideoFormat::Xrgb, PixelFormat::Xrgb),
    (VideoFormat::Xbgr, PixelFormat::Xbgr),
    (VideoFormat::Rgb, PixelFormat::Rgb),
    (VideoFormat::Bgr, PixelFormat::Bgr),
    (VideoFormat::I420, PixelFormat::I420),
    (VideoFormat::Yv12, PixelFormat::Yv12),
    (VideoFormat::Nv12, PixelFormat::Nv12),
    (VideoFormat::Nv21, PixelFormat::Nv21),
    (VideoFormat::Yuy2, PixelFormat::Yuy2),
    (VideoFormat::Uyvy, PixelFormat::Uyvy),
    (VideoFormat::Y42b, PixelFormat::Y42b),
    (VideoFormat::Y444, PixelFormat::Y444),
    (VideoFormat::Gray8, PixelFormat::Gray8),
    (VideoFormat::I42010le, PixelFormat::I420_10Le),
    (VideoFormat::P01010le, PixelFormat::P010_10Le),
];

/// The longest side of a frame.
const LONGEST_SIDE: i32 = 16384;

/// Every frame rate, also a variable one.
pub fn any_rate() -> gst::FractionRange {
    gst::FractionRange::new(gst::Fraction::new(0, 1), gst::Fraction::new(i32::MAX, 1))
}

/// The caps of the pad templates.
pub fn template() -> gst::Caps {
    gst_video::VideoCapsBuilder::new()
        .format_list(FORMATS.iter().map(|(format, _)| *format))
        .width_range(1..=LONGEST_SIDE)
        .height_range(1..=LONGEST_SIDE)
        .framerate_range(any_rate().min()..=any_rate().max())
        .build()
}

/// The layout of frames of these caps.
///
/// # Errors
/// [`Error::Unsupported`] where the format is not one of [`FORMATS`], or a side too long.
pub fn layout(info: &VideoInfo) -> Result<FrameLayout> {
    let format = FORMATS.iter().find(|(format, _)| *format == info.format());
    let Some((_, format)) = format else {
        return Err(Error::Unsupported(format!("unsupported format {}", info.format())));
    };
    FrameLayout::new(*format, info.width(), info.height(), color(info))
}

/// How the caps say that codes relate to light.
fn color(info: &VideoInfo) -> Color {
    use gst_video::{VideoChromaSite, VideoColorMatrix, VideoColorRange};
    let colorimetry = info.colorimetry();
    let matrix = match colorimetry.matrix() {
        VideoColorMatrix::Bt709 => Matrix::BT709,
        VideoColorMatrix::Bt2020 => Matrix::BT2020,
        VideoColorMatrix::Fcc => Matrix::FCC,
        VideoColorMatrix::Smpte240m => Matrix::SMPTE240M,
        _ => Matrix::BT601,
    };
    let site = info.chroma_site();
    Color {
        matrix,
        full_range: colorimetry.range() == VideoColorRange::Range0_255,
        chroma_left: site.is_empty() || site.contains(VideoChromaSite::H_COSITED),
    }
}

/// A frame mapped for reading.
pub type Mapped<'a> = VideoFrameRef<&'a gst::BufferRef>;

/// Planes of a frame at most.
pub const MAX_PLANES: usize = 4;

/// Maps a frame for reading; `None` if the buffer does not hold one, or one with rows in backward order.
pub fn map<'a>(buffer: &'a gst::BufferRef, info: &VideoInfo) -> Option<Mapped<'a>> {
    let frame = VideoFrameRef::from_buffer_ref_readable(buffer, info).ok()?;
    let holds = frame.format() == info.format()
        && frame.width() >= info.width()
        && frame.height() >= info.height()
        && (0..frame.n_planes()).all(|plane| holds_plane(buffer, &frame, plane));
    holds.then_some(frame)
}

/// Whether a plane's rows lie within the memory that was mapped for it: mapping believes what a GstVideoMeta says.
fn holds_plane(buffer: &gst::BufferRef, frame: &Mapped<'_>, plane: u32) -> bool {
    let stride = usize::try_from(frame.plane_stride()[plane as usize]).unwrap_or(0);
    let (rows, bytes) = (frame.plane_height(plane) as usize, row_bytes(frame, plane));
    if stride < bytes || rows == 0 {
        return false;
    }
    let end = stride.checked_mul(rows - 1).and_then(|all| all.checked_add(bytes));
    let range = end.and_then(|end| {
        let start = frame.plane_offset()[plane as usize];
        Some(start..start.checked_add(end)?)
    });
    let Some(range) = range.filter(|range| range.end <= buffer.size()) else { return false };
    // With a GstVideoMeta each plane is mapped with the one memory it starts in, else all are merged.
    buffer.meta::<gst_video::VideoMeta>().is_none()
        || buffer.find_memory(range).is_some_and(|(memories, _)| memories.len() == 1)
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

/// Bytes that a row of plane `plane` uses.
pub fn row_bytes(frame: &Mapped<'_>, plane: u32) -> usize {
    (0..frame.n_components())
        .filter(|c| frame.comp_plane(*c) == plane)
        .map(|c| frame.comp_width(c) as usize * frame.comp_pstride(c) as usize)
        .max()
        .unwrap_or(0)
}
