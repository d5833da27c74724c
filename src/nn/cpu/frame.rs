// SPDX-License-Identifier: MIT OR Apache-2.0
//! Raw frames taken apart into component planes of 0..1, put together again, and seen as B,G,R.
//!
//! A component value is `code / 255` in 8 bits, `code / 1023` in 10 bits (P010's code is the upper 10 bits of its
//! word); "code range" below means this 0..1.
//!
//! # YUV and B,G,R
//! With `kr`, `kb` from the caps' matrix, `kg = 1 - kr - kb`:
//! - `y = kr·r + kg·g + kb·b`, `cb = (b - y) / (2(1 - kb))`, `cr = (r - y) / (2(1 - kr))`;
//! - codes of `n` bits with `u = 2^(n - 8)`: limited range `Y = 16u + 219u·y`, `U = 128u + 224u·cb`; full range
//!   `Y = (2^n - 1)·y`, `U = 128u + (2^n - 1)·cb`; V as U with `cr`. All divided by `2^n - 1` to make the code range.
//!
//! B,G,R at a luma position `p` ([`BgrFrame::sample`]): `p` is clamped to the frame, luma is sampled bilinearly at `p`,
//! chroma at `(p + 0.5) / sub - 0.5` in each axis, but at `x / sub` horizontally where chroma is co-sited on the left
//! (`chroma_left`, and the format subsamples horizontally); then they are converted, and not clamped. Grey is full
//! range with r = g = b = Y.

use super::store::to_code;
use super::warp_blend::Placement;
use super::{Tensor, sample};
use crate::error::{Error, Result};
use crate::gpu::frame::{Color, PixelFormat, PlaneMut, PlaneRef};

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FrameInfo {
    pub format: PixelFormat,
    /// In luma pixels.
    pub width: usize,
    pub height: usize,
    pub color: Color,
}

/// What a component means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    R,
    G,
    B,
    /// Alpha, or the unused byte of RGBx and its kin: carried along, never seen by the network.
    A,
    Y,
    U,
    V,
    Gray,
}

/// Where a component's samples lie in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Component {
    pub role: Role,
    /// Index of the plane.
    pub plane: usize,
    /// Bytes from a row's start to its first sample.
    pub offset: usize,
    /// Bytes from one sample to the next.
    pub step: usize,
    /// Luma pixels to one sample, by axis.
    pub subsampling: [usize; 2],
}

/// How samples of a format are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Depth {
    bytes: usize,
    shift: u32,
    max: u16,
}

fn depth(format: PixelFormat) -> Depth {
    match format {
        PixelFormat::I420_10Le => Depth { bytes: 2, shift: 0, max: 1023 },
        PixelFormat::P010_10Le => Depth { bytes: 2, shift: 6, max: 1023 },
        _ => Depth { bytes: 1, shift: 0, max: 255 },
    }
}

/// The components of a format, in the order in which [`decode`] returns them: colour as B,G,R or Y,U,V, then alpha.
pub fn components(format: PixelFormat) -> Vec<Component> {
    let packed = |order: &[(Role, usize)], step: usize| -> Vec<Component> {
        order.iter().map(|&(role, offset)| Component { role, plane: 0, offset, step, subsampling: [1, 1] }).collect()
    };
    // (plane, offset, step) of Y, U, V and the chroma subsampling.
    let yuv = |y: [usize; 3], u: [usize; 3], v: [usize; 3], subsampling: [usize; 2]| -> Vec<Component> {
        [(Role::Y, y, [1, 1]), (Role::U, u, subsampling), (Role::V, v, subsampling)]
            .map(|(role, [plane, offset, step], subsampling)| Component { role, plane, offset, step, subsampling })
            .to_vec()
    };
    use PixelFormat as P;
    use Role::{A, B, G, R};
    match format {
        P::Rgba | P::Rgbx => packed(&[(B, 2), (G, 1), (R, 0), (A, 3)], 4),
        P::Bgra | P::Bgrx => packed(&[(B, 0), (G, 1), (R, 2), (A, 3)], 4),
        P::Argb | P::Xrgb => packed(&[(B, 3), (G, 2), (R, 1), (A, 0)], 4),
        P::Abgr | P::Xbgr => packed(&[(B, 1), (G, 2), (R, 3), (A, 0)], 4),
        P::Rgb => packed(&[(B, 2), (G, 1), (R, 0)], 3),
        P::Bgr => packed(&[(B, 0), (G, 1), (R, 2)], 3),
        P::I420 => yuv([0, 0, 1], [1, 0, 1], [2, 0, 1], [2, 2]),
        P::Yv12 => yuv([0, 0, 1], [2, 0, 1], [1, 0, 1], [2, 2]),
        P::Nv12 => yuv([0, 0, 1], [1, 0, 2], [1, 1, 2], [2, 2]),
        P::Nv21 => yuv([0, 0, 1], [1, 1, 2], [1, 0, 2], [2, 2]),
        P::Yuy2 => yuv([0, 0, 2], [0, 1, 4], [0, 3, 4], [2, 1]),
        P::Uyvy => yuv([0, 1, 2], [0, 0, 4], [0, 2, 4], [2, 1]),
        P::Y42b => yuv([0, 0, 1], [1, 0, 1], [2, 0, 1], [2, 1]),
        P::Y444 => yuv([0, 0, 1], [1, 0, 1], [2, 0, 1], [1, 1]),
        P::I420_10Le => yuv([0, 0, 2], [1, 0, 2], [2, 0, 2], [2, 2]),
        P::P010_10Le => yuv([0, 0, 2], [1, 0, 4], [1, 2, 4], [2, 2]),
        P::Gray8 => vec![Component { role: Role::Gray, plane: 0, offset: 0, step: 1, subsampling: [1, 1] }],
    }
}

impl FrameInfo {
    /// Largest code value of a component.
    pub fn max_code(&self) -> u16 {
        depth(self.format).max
    }

    /// How many planes a frame has.
    pub fn plane_count(&self) -> usize {
        components(self.format).iter().map(|c| c.plane + 1).max().unwrap_or(0)
    }

    /// (rows, bytes used in a row) of plane `plane`. A row of YUY2 or UYVY ends with a whole group of two pixels.
    pub fn plane_extent(&self, plane: usize) -> (usize, usize) {
        let bytes = depth(self.format).bytes;
        let group = match self.format {
            PixelFormat::Yuy2 | PixelFormat::Uyvy => 4,
            _ => 1,
        };
        let mut extent = (0, 0);
        for c in components(self.format).iter().filter(|c| c.plane == plane) {
            let [width, height] = self.component_size(c);
            let end = if width == 0 { 0 } else { (width - 1) * c.step + c.offset + bytes };
            extent = (extent.0.max(height), extent.1.max(end.next_multiple_of(group)));
        }
        extent
    }

    /// Samples of a component, by axis.
    pub fn component_size(&self, component: &Component) -> [usize; 2] {
        [self.width.div_ceil(component.subsampling[0]), self.height.div_ceil(component.subsampling[1])]
    }

    /// Where a component's samples lie on the luma grid; `scale` as in [`super`].
    pub fn placement(&self, component: &Component, scale: [f32; 2]) -> Placement {
        let subsampling = component.subsampling.map(|s| s as f32);
        let mut offset = subsampling.map(|s| (s - 1.0) * 0.5);
        if self.color.chroma_left {
            offset[0] = 0.0;
        }
        Placement { subsampling, offset, scale }
    }

    fn check(&self, planes: impl ExactSizeIterator<Item = (usize, usize)>) -> Result<()> {
        if self.width == 0 || self.height == 0 {
            return Err(Error::Usage("a frame of no pixels".into()));
        }
        if planes.len() != self.plane_count() {
            let (found, wanted) = (planes.len(), self.plane_count());
            return Err(Error::Usage(format!("{found} planes for {:?}, which has {wanted}", self.format)));
        }
        for (i, (len, stride)) in planes.enumerate() {
            let (rows, bytes) = self.plane_extent(i);
            let needed = stride.checked_mul(rows - 1).and_then(|n| n.checked_add(bytes));
            if (rows > 1 && stride < bytes) || needed.is_none_or(|needed| len < needed) {
                return Err(Error::Usage(format!(
                    "plane {i} of {:?} has {len} bytes of stride {stride}, needs {rows} rows of {bytes}",
                    self.format
                )));
            }
        }
        Ok(())
    }
}

/// The component planes of a frame in 0..1, one-channel tensors in the order of [`components`].
pub fn decode(info: &FrameInfo, planes: &[PlaneRef<'_>]) -> Result<Vec<Tensor>> {
    info.check(planes.iter().map(|p| (p.data.len(), p.stride)))?;
    let Depth { bytes, shift, max } = depth(info.format);
    Ok(components(info.format)
        .iter()
        .map(|c| {
            let plane = &planes[c.plane];
            let [width, height] = info.component_size(c);
            Tensor::from_fn(width, height, 1, |x, y, out| {
                let at = y * plane.stride + c.offset + x * c.step;
                let code = match bytes {
                    1 => u16::from(plane.data[at]),
                    _ => u16::from_le_bytes([plane.data[at], plane.data[at + 1]]) >> shift,
                };
                out[0] = f32::from(code.min(max)) / f32::from(max);
            })
        })
        .collect())
}

/// Writes component planes back, clamped and rounded by [`to_code`]. Bytes that belong to no component (row padding,
/// the second pixel of the last pair of an odd YUY2 row) are left alone.
pub fn encode(info: &FrameInfo, values: &[Tensor], truncate: bool, planes: &mut [PlaneMut<'_>]) -> Result<()> {
    info.check(planes.iter().map(|p| (p.data.len(), p.stride)))?;
    let parts = components(info.format);
    if values.len() != parts.len() {
        return Err(Error::Usage(format!(
            "{} components for {:?}, which has {}",
            values.len(),
            info.format,
            parts.len()
        )));
    }
    let Depth { bytes, shift, max } = depth(info.format);
    for (c, values) in parts.iter().zip(values) {
        let plane = &mut planes[c.plane];
        let [width, height] = info.component_size(c);
        assert_eq!([values.width, values.height, values.channels], [width, height, 1], "component of the wrong size");
        for y in 0..height {
            for x in 0..width {
                let at = y * plane.stride + c.offset + x * c.step;
                let code = to_code(values.at(x, y)[0], max, truncate) << shift;
                plane.data[at..at + bytes].copy_from_slice(&code.to_le_bytes()[..bytes]);
            }
        }
    }
    Ok(())
}

/// Offset and factor of luma, then of chroma, in the code range: `code = offset + factor·value`.
fn code_range(info: &FrameInfo) -> [[f32; 2]; 2] {
    let max = f32::from(info.max_code());
    let unit = (max + 1.0) / 256.0;
    let (luma, chroma) = if info.color.full_range {
        ([0.0, max], [128.0 * unit, max])
    } else {
        ([16.0 * unit, 219.0 * unit], [128.0 * unit, 224.0 * unit])
    };
    [luma.map(|v| v / max), chroma.map(|v| v / max)]
}

/// A frame seen as B,G,R.
#[derive(Debug, Clone, Copy)]
pub struct BgrFrame<'a> {
    info: &'a FrameInfo,
    values: &'a [Tensor],
}

impl<'a> BgrFrame<'a> {
    /// `values` are the frame's component planes, as [`decode`] returns them.
    pub fn new(info: &'a FrameInfo, values: &'a [Tensor]) -> Self {
        assert_eq!(values.len(), components(info.format).len(), "component planes of another format");
        Self { info, values }
    }

    /// B,G,R at a luma position, clamped to the frame: the components are sampled there, then converted.
    pub fn sample(&self, position: [f32; 2]) -> [f32; 3] {
        let Self { info, values } = *self;
        let parts = components(info.format);
        let last = [info.width, info.height].map(|n| (n - 1) as f32);
        let [x, y] = [position[0].max(0.0).min(last[0]), position[1].max(0.0).min(last[1])];
        let first = sample::bilinear1(&values[0], x, y);
        match parts[0].role {
            Role::Gray => [first; 3],
            Role::Y => {
                let (kr, kb) = (info.color.matrix.kr, info.color.matrix.kb);
                let [[luma_offset, luma_factor], [chroma_offset, chroma_factor]] = code_range(info);
                // The inverse of `Placement::luma_position`.
                let Placement { offset, subsampling, .. } = info.placement(&parts[1], [1.0, 1.0]);
                let (cx, cy) = ((x - offset[0]) / subsampling[0], (y - offset[1]) / subsampling[1]);
                let luma = (first - luma_offset) / luma_factor;
                let cb = (sample::bilinear1(&values[1], cx, cy) - chroma_offset) / chroma_factor;
                let cr = (sample::bilinear1(&values[2], cx, cy) - chroma_offset) / chroma_factor;
                let r = luma + 2.0 * (1.0 - kr) * cr;
                let b = luma + 2.0 * (1.0 - kb) * cb;
                [b, (luma - kr * r - kb * b) / (1.0 - kr - kb), r]
            }
            _ => [first, sample::bilinear1(&values[1], x, y), sample::bilinear1(&values[2], x, y)],
        }
    }

    /// B,G,R at every luma pixel.
    pub fn to_tensor(&self) -> Tensor {
        Tensor::from_fn(self.info.width, self.info.height, 3, |x, y, out| {
            out.copy_from_slice(&self.sample([x as f32, y as f32]));
        })
    }
}

/// What adding `bgr` to a pixel adds to a component in the code range: the linear part of the conversion. Grey takes
/// the BT.601 luma of it, alpha nothing.
pub fn linear_from_bgr(info: &FrameInfo, role: Role, bgr: [f32; 3]) -> f32 {
    let [b, g, r] = bgr;
    let (kr, kb) = (info.color.matrix.kr, info.color.matrix.kb);
    let luma = kr * r + (1.0 - kr - kb) * g + kb * b;
    let [[_, luma_factor], [_, chroma_factor]] = code_range(info);
    match role {
        Role::R => r,
        Role::G => g,
        Role::B => b,
        Role::A => 0.0,
        Role::Y => luma_factor * luma,
        Role::U => chroma_factor * (b - luma) / (2.0 * (1.0 - kb)),
        Role::V => chroma_factor * (r - luma) / (2.0 * (1.0 - kr)),
        Role::Gray => 0.299 * r + 0.587 * g + 0.114 * b,
    }
}
