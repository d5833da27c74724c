// SPDX-License-Identifier: MIT OR Apache-2.0
//! Raw video frames as the GPU sees them: which bytes hold which component, without GStreamer types.
//!
//! A frame is one storage buffer holding every plane as it is (no conversion on the CPU), rows padded to 4 bytes.
//! Components sharing a position in memory form a [`Texel`] group: RGBA has one group of four components, NV12 has
//! one group for Y and one for UV, YUY2 has two groups in one plane.

use crate::error::{Error, Result};

/// Raw formats the kernels know. Names are GStreamer's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PixelFormat {
    Rgba,
    Bgra,
    Argb,
    Abgr,
    Rgbx,
    Bgrx,
    Xrgb,
    Xbgr,
    Rgb,
    Bgr,
    I420,
    Yv12,
    Nv12,
    Nv21,
    Yuy2,
    Uyvy,
    Y42b,
    Y444,
    Gray8,
    I420_10Le,
    P010_10Le,
}

/// YUV to RGB coefficients: the weights of red and blue in luma.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Matrix {
    pub kr: f32,
    pub kb: f32,
}

impl Matrix {
    pub const BT601: Self = Self { kr: 0.299, kb: 0.114 };
    pub const BT709: Self = Self { kr: 0.2126, kb: 0.0722 };
    pub const BT2020: Self = Self { kr: 0.2627, kb: 0.0593 };
    pub const FCC: Self = Self { kr: 0.30, kb: 0.11 };
    pub const SMPTE240M: Self = Self { kr: 0.212, kb: 0.087 };
}

/// How component codes relate to light, as the caps say. RGB and GRAY formats ignore `matrix`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Color {
    pub matrix: Matrix,
    /// Full range (0..=255 in 8 bits) instead of 16..=235 / 16..=240.
    pub full_range: bool,
    /// Chroma samples sit on the left luma sample of their pair (MPEG-2) instead of between (JPEG).
    pub chroma_left: bool,
}

impl Default for Color {
    fn default() -> Self {
        Self { matrix: Matrix::BT601, full_range: false, chroma_left: true }
    }
}

/// One plane of a frame in CPU memory; `data` starts at the plane's first byte.
#[derive(Debug, Clone, Copy)]
pub struct PlaneRef<'a> {
    pub data: &'a [u8],
    /// Bytes from one row to the next.
    pub stride: usize,
}

/// A writable plane of a frame in CPU memory.
#[derive(Debug)]
pub struct PlaneMut<'a> {
    pub data: &'a mut [u8],
    /// Bytes from one row to the next.
    pub stride: usize,
}

/// What a component holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    R,
    G,
    B,
    /// Alpha or padding: warped with the colour.
    A,
    Y,
    U,
    V,
}

/// One component of a [`Texel`]: `byte` is its offset within the texel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Component {
    pub role: Role,
    pub byte: u32,
}

/// Components of one plane that share a position: what one fetch reads.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Texel {
    pub plane: usize,
    /// Bytes from one sample to the next.
    pub step: u32,
    /// log2 of the horizontal and vertical subsampling.
    pub shift_x: u32,
    pub shift_y: u32,
    /// Bytes of one component: 1, or 2 (little-endian).
    pub bytes: u32,
    /// Unused low bits of a component (6 for P010).
    pub shift: u32,
    /// The largest code after that shift.
    pub max: u32,
    pub components: Vec<Component>,
}

/// One plane as it lies in the frame's buffer on the GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plane {
    /// Bytes before the first row; a multiple of 16.
    pub offset: u32,
    /// Bytes from one row to the next; a multiple of 4, and of 12 for 24-bit RGB.
    pub stride: u32,
    pub rows: u32,
    /// Bytes of a row that hold samples.
    pub row_bytes: u32,
}

/// Format, size and colour of frames, and where their bytes lie in a GPU buffer.
#[derive(Debug, Clone, PartialEq)]
pub struct FrameLayout {
    pub format: PixelFormat,
    pub width: u32,
    pub height: u32,
    pub color: Color,
    planes: Vec<Plane>,
    texels: Vec<Texel>,
}

impl PixelFormat {
    /// Texel groups: plane, bytes a sample, log2 subsampling, and the components in memory order.
    fn texels(self) -> Vec<Texel> {
        use Role::*;
        let group = |plane, step, (shift_x, shift_y), components: &[(Role, u32)]| Texel {
            plane,
            step,
            shift_x,
            shift_y,
            bytes: 1,
            shift: 0,
            max: 255,
            components: components.iter().map(|&(role, byte)| Component { role, byte }).collect(),
        };
        let packed = |roles: &[Role]| {
            let components: Vec<_> = roles.iter().copied().zip(0..).collect();
            vec![group(0, roles.len() as u32, (0, 0), &components)]
        };
        let planar = |order: [Role; 3], sub| {
            let plane = |i: usize, sub| group(i, 1, sub, &[(order[i], 0)]);
            vec![plane(0, (0, 0)), plane(1, sub), plane(2, sub)]
        };
        let deep = |texels: Vec<Texel>, shift| {
            let wide = |t: Texel| Texel {
                step: t.step * 2,
                bytes: 2,
                shift,
                max: 1023,
                components: t.components.iter().map(|c| Component { byte: c.byte * 2, ..*c }).collect(),
                ..t
            };
            texels.into_iter().map(wide).collect()
        };
        let semi_planar = |a, b| vec![group(0, 1, (0, 0), &[(Y, 0)]), group(1, 2, (1, 1), &[(a, 0), (b, 1)])];
        match self {
            Self::Rgba | Self::Rgbx => packed(&[R, G, B, A]),
            Self::Bgra | Self::Bgrx => packed(&[B, G, R, A]),
            Self::Argb | Self::Xrgb => packed(&[A, R, G, B]),
            Self::Abgr | Self::Xbgr => packed(&[A, B, G, R]),
            Self::Rgb => packed(&[R, G, B]),
            Self::Bgr => packed(&[B, G, R]),
            Self::Gray8 => packed(&[Y]),
            Self::I420 => planar([Y, U, V], (1, 1)),
            Self::Yv12 => planar([Y, V, U], (1, 1)),
            Self::Y42b => planar([Y, U, V], (1, 0)),
            Self::Y444 => planar([Y, U, V], (0, 0)),
            Self::Nv12 => semi_planar(U, V),
            Self::Nv21 => semi_planar(V, U),
            Self::Yuy2 => vec![group(0, 2, (0, 0), &[(Y, 0)]), group(0, 4, (1, 0), &[(U, 1), (V, 3)])],
            Self::Uyvy => vec![group(0, 2, (0, 0), &[(Y, 1)]), group(0, 4, (1, 0), &[(U, 0), (V, 2)])],
            Self::I420_10Le => deep(planar([Y, U, V], (1, 1)), 0),
            Self::P010_10Le => deep(semi_planar(U, V), 6),
        }
    }

    /// Whether the components are red, green and blue.
    pub fn is_rgb(self) -> bool {
        self.texels()[0].components.iter().any(|c| c.role == Role::R)
    }

    /// Whether there is only luma.
    pub fn is_gray(self) -> bool {
        self == Self::Gray8
    }
}

impl FrameLayout {
    /// The layout of `width` × `height` frames; sides of 1 to 16384 pixels.
    pub fn new(format: PixelFormat, width: u32, height: u32, color: Color) -> Result<Self> {
        if !(1..=16384).contains(&width) || !(1..=16384).contains(&height) {
            return Err(Error::Unsupported(format!("frames of {width}x{height}: each side must be 1 to 16384 pixels")));
        }
        let texels = format.texels();
        let count = texels.iter().map(|t| t.plane).max().unwrap_or(0) + 1;
        let mut planes: Vec<Plane> = Vec::with_capacity(count);
        for index in 0..count {
            let mine = || texels.iter().filter(|t| t.plane == index);
            let row_bytes = mine().map(|t| width.div_ceil(1 << t.shift_x) * t.step).max().unwrap_or(0);
            let rows = mine().map(|t| height.div_ceil(1 << t.shift_y)).max().unwrap_or(0);
            let unit = if mine().any(|t| t.step == 3) { 12 } else { 4 };
            let offset = planes.last().map_or(0, |p: &Plane| (p.offset + p.stride * p.rows).next_multiple_of(16));
            planes.push(Plane { offset, stride: row_bytes.next_multiple_of(unit), rows, row_bytes });
        }
        Ok(Self { format, width, height, color, planes, texels })
    }

    /// Number of planes.
    pub fn plane_count(&self) -> usize {
        self.planes.len()
    }

    /// Rows of plane `i`, and the bytes of each that hold samples.
    pub fn plane_extent(&self, i: usize) -> (u32, u32) {
        (self.planes[i].rows, self.planes[i].row_bytes)
    }

    /// The planes in the GPU buffer.
    pub fn planes(&self) -> &[Plane] {
        &self.planes
    }

    /// The texel groups, which the shader templates are rendered from.
    pub fn texels(&self) -> &[Texel] {
        &self.texels
    }

    /// Size of a frame's GPU buffer in bytes.
    pub fn byte_size(&self) -> u64 {
        self.planes
            .last()
            .map_or(0, |p| u64::from(p.offset) + u64::from(p.stride) * u64::from(p.rows))
            .next_multiple_of(16)
    }

    fn check(&self, count: usize, lengths: impl Iterator<Item = (usize, usize)>) -> Result<()> {
        if count != self.planes.len() {
            return Err(Error::Usage(format!(
                "{count} planes given for {:?}, which has {}",
                self.format,
                self.planes.len()
            )));
        }
        for (index, (plane, (length, stride))) in self.planes.iter().zip(lengths).enumerate() {
            let row = plane.row_bytes as usize;
            let needed = stride.checked_mul(plane.rows as usize - 1).and_then(|n| n.checked_add(row));
            if stride < row || needed.is_none_or(|n| n > length) {
                return Err(Error::Usage(format!(
                    "plane {index} of {length} bytes with stride {stride} does not hold {} rows of {row} bytes",
                    plane.rows
                )));
            }
        }
        Ok(())
    }

    /// Copies a frame's planes into the GPU layout. `target(offset, bytes)` receives the pieces.
    pub(crate) fn pack(&self, planes: &[PlaneRef<'_>], mut target: impl FnMut(usize, &[u8])) -> Result<()> {
        self.check(planes.len(), planes.iter().map(|p| (p.data.len(), p.stride)))?;
        for (plane, source) in self.planes.iter().zip(planes) {
            let (stride, row, rows) = (plane.stride as usize, plane.row_bytes as usize, plane.rows as usize);
            let offset = plane.offset as usize;
            if source.stride == stride {
                target(offset, &source.data[..stride * (rows - 1) + row]);
            } else {
                for y in 0..rows {
                    target(offset + y * stride, &source.data[y * source.stride..][..row]);
                }
            }
        }
        Ok(())
    }

    /// Copies a frame in the GPU layout to planes with strides of their own; padding bytes stay untouched.
    pub(crate) fn unpack(&self, bytes: &[u8], planes: &mut [PlaneMut<'_>]) -> Result<()> {
        self.check(planes.len(), planes.iter().map(|p| (p.data.len(), p.stride)))?;
        for (plane, target) in self.planes.iter().zip(planes) {
            let (stride, row, rows) = (plane.stride as usize, plane.row_bytes as usize, plane.rows as usize);
            let source = &bytes[plane.offset as usize..];
            if target.stride == stride && stride == row {
                target.data[..row * rows].copy_from_slice(&source[..row * rows]);
            } else {
                for y in 0..rows {
                    target.data[y * target.stride..][..row].copy_from_slice(&source[y * stride..][..row]);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_sizes() {
        let extents = |format, w, h| {
            let layout = FrameLayout::new(format, w, h, Color::default()).unwrap();
            (0..layout.plane_count()).map(|i| layout.plane_extent(i)).collect::<Vec<_>>()
        };
        assert_eq!(extents(PixelFormat::I420, 33, 17), [(17, 33), (9, 17), (9, 17)]);
        assert_eq!(extents(PixelFormat::Nv12, 33, 17), [(17, 33), (9, 34)]);
        assert_eq!(extents(PixelFormat::Yuy2, 33, 17), [(17, 68)]);
        assert_eq!(extents(PixelFormat::P010_10Le, 1, 1), [(1, 2), (1, 4)]);
        assert_eq!(extents(PixelFormat::Rgb, 5, 2), [(2, 15)]);
        for (w, h) in [(0, 1), (1, 0), (16385, 1), (1, 16385)] {
            assert!(FrameLayout::new(PixelFormat::Rgba, w, h, Color::default()).is_err());
        }
    }

    #[test]
    fn strides_are_undone() {
        let layout = FrameLayout::new(PixelFormat::Nv12, 5, 3, Color::default()).unwrap();
        let y: Vec<u8> = (0..11 * 3).collect();
        let uv: Vec<u8> = (100..100 + 9 * 2).collect();
        let planes = [PlaneRef { data: &y[..11 * 2 + 5], stride: 11 }, PlaneRef { data: &uv, stride: 9 }];
        let mut packed = vec![0; layout.byte_size() as usize];
        layout.pack(&planes, |offset, bytes| packed[offset..offset + bytes.len()].copy_from_slice(bytes)).unwrap();
        let (mut y2, mut uv2) = (vec![0; 7 * 3], vec![0; 6 * 2]);
        let mut out = [PlaneMut { data: &mut y2, stride: 7 }, PlaneMut { data: &mut uv2, stride: 6 }];
        layout.unpack(&packed, &mut out).unwrap();
        for row in 0..3 {
            assert_eq!(y2[row * 7..][..5], y[row * 11..][..5]);
        }
        for row in 0..2 {
            assert_eq!(uv2[row * 6..][..6], uv[row * 9..][..6]);
        }
        let short = [PlaneRef { data: &y[..11 * 2 + 4], stride: 11 }, PlaneRef { data: &uv, stride: 9 }];
        assert!(matches!(layout.pack(&short, |_, _| ()), Err(Error::Usage(_))));
        assert!(matches!(layout.pack(&planes[..1], |_, _| ()), Err(Error::Usage(_))));
    }
}
