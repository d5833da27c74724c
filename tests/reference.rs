// SPDX-License-Identifier: MIT OR Apache-2.0
//! The CPU reference against the golden vectors, and what it promises beyond them.

mod common;

use gstframecast::error::Error;
use gstframecast::gpu::frame::{Color, Matrix, PixelFormat, PlaneMut, PlaneRef};
use gstframecast::ifnet::reference::{Grid, Options, Reference};
use gstframecast::ifnet::synthetic::GeneratorShape;
use gstframecast::ifnet::{Graph, Rounding, StaticGuard, Weights};
use gstframecast::nn::cpu::frame::{self, BgrFrame, FrameInfo, Role};

const FORMATS: [PixelFormat; 21] = [
    PixelFormat::Rgba,
    PixelFormat::Bgra,
    PixelFormat::Argb,
    PixelFormat::Abgr,
    PixelFormat::Rgbx,
    PixelFormat::Bgrx,
    PixelFormat::Xrgb,
    PixelFormat::Xbgr,
    PixelFormat::Rgb,
    PixelFormat::Bgr,
    PixelFormat::I420,
    PixelFormat::Yv12,
    PixelFormat::Nv12,
    PixelFormat::Nv21,
    PixelFormat::Yuy2,
    PixelFormat::Uyvy,
    PixelFormat::Y42b,
    PixelFormat::Y444,
    PixelFormat::Gray8,
    PixelFormat::I420_10Le,
    PixelFormat::P010_10Le,
];

fn info(format: PixelFormat, width: usize, height: usize) -> FrameInfo {
    FrameInfo { format, width, height, color: Color::default() }
}

/// Planes of a frame, with `pad` bytes of 0xEE after each row.
struct Planes {
    data: Vec<Vec<u8>>,
    strides: Vec<usize>,
}

impl Planes {
    /// Filled by `byte(plane, x, y)`.
    fn new(info: &FrameInfo, pad: usize, byte: impl Fn(usize, usize, usize) -> u8) -> Self {
        let (mut data, mut strides) = (Vec::new(), Vec::new());
        for plane in 0..info.plane_count() {
            let (rows, used) = info.plane_extent(plane);
            let stride = used + pad;
            strides.push(stride);
            let at = |i: usize| if i % stride < used { byte(plane, i % stride, i / stride) } else { 0xEE };
            data.push((0..stride * rows).map(at).collect());
        }
        Self { data, strides }
    }

    fn refs(&self) -> Vec<PlaneRef<'_>> {
        self.data.iter().zip(&self.strides).map(|(data, &stride)| PlaneRef { data, stride }).collect()
    }

    fn muts(&mut self) -> Vec<PlaneMut<'_>> {
        self.data.iter_mut().zip(&self.strides).map(|(data, &stride)| PlaneMut { data, stride }).collect()
    }
}

/// Legal codes of some texture: bytes for 8 bits, words of at most 1023 (shifted for P010) for 10 bits.
fn texture(info: &FrameInfo, seed: usize) -> Planes {
    let code = |plane: usize, x: usize, y: usize| (x * 37 + y * 61 + plane * 17 + seed * 101 + (x * y) % 7 * 11) % 1024;
    Planes::new(info, 5, |plane, x, y| match info.format {
        PixelFormat::I420_10Le => (code(plane, x / 2, y) >> (x % 2 * 8)) as u8,
        PixelFormat::P010_10Le => ((code(plane, x / 2, y) << 6) >> (x % 2 * 8)) as u8,
        _ => (code(plane, x, y) % 256) as u8,
    })
}

fn render(weights: &Weights, info: FrameInfo, options: Options, a: &Planes, b: &Planes, t: f64) -> Planes {
    let reference = Reference::new(weights, info, options, &a.refs(), &b.refs()).unwrap();
    let mut out = Planes::new(reference.info(), 3, |_, _, _| 0xEE);
    reference.render(t, &mut out.muts()).unwrap();
    out
}

fn tiny(graph: Graph, seed: u64) -> Weights {
    Weights::synthetic(seed, GeneratorShape { graph, c1: 6, c2: 8, film_hidden: 4, refine_channels: 4 })
}

/// A network whose answer is everywhere `flow` (grid pixels: fx0, fy0, fx1, fy1) and mask logit `logit`.
fn constant(flow: [f32; 4], logit: f32) -> Weights {
    let mut weights = tiny(Graph::Classic, 1);
    weights.lastconv.weight.fill(0.0);
    for (bias, flow) in weights.lastconv.bias.iter_mut().zip(flow) {
        *bias = flow / 8.0;
    }
    weights.lastconv.bias[4] = logit;
    weights
}

#[test]
fn golden_vectors() {
    let mut frames = 0;
    for case in common::cases() {
        let weights = case.weights();
        let [a, b] = case.inputs();
        let planes = |bytes| [PlaneRef { data: bytes, stride: case.input_width as usize * 4 }];
        let options = Options {
            static_guard: if case.static_guard { StaticGuard::Soft } else { StaticGuard::Off },
            rounding: if case.truncated() { Rounding::Truncate } else { Rounding::Nearest },
            output_size: case.stretched().then_some((case.width, case.height)),
            ..Options::default()
        };
        let info = info(PixelFormat::Rgba, case.input_width as usize, case.input_height as usize);
        let reference = Reference::new(&weights, info, options, &planes(&a), &planes(&b)).unwrap();
        for output in &case.outputs {
            let mut made = vec![0; (case.width * case.height * 4) as usize];
            let mut out = [PlaneMut { data: &mut made, stride: case.width as usize * 4 }];
            reference.render(output.t, &mut out).unwrap();
            let d = common::difference(&made, &case.expected(output));
            println!("{} t={}: {d:?}", case.name, output.t);
            assert!(d.max <= 1 && d.mean <= 0.02, "{} t={}: {d:?}", case.name, output.t);
            frames += 1;
        }
    }
    assert_eq!(frames, 15);
}

#[test]
fn every_format_survives_decode_and_encode() {
    for format in FORMATS {
        for (width, height) in [(1, 1), (2, 3), (33, 17), (16, 16)] {
            let info = info(format, width, height);
            let source = texture(&info, 1);
            let mut copy = texture(&info, 1);
            for data in &mut copy.data {
                data.fill(0xEE);
            }
            frame::encode(&info, &frame::decode(&info, &source.refs()).unwrap(), false, &mut copy.muts()).unwrap();
            let odd_pair = matches!(format, PixelFormat::Yuy2 | PixelFormat::Uyvy) && width % 2 == 1;
            for (plane, (source, copy)) in source.data.iter().zip(&copy.data).enumerate() {
                let (_, used) = info.plane_extent(plane);
                for (i, (s, c)) in source.iter().zip(copy).enumerate() {
                    // The second pixel of an odd row's last pair is nobody's.
                    let unused = odd_pair && i % (used + 5) == used - if format == PixelFormat::Yuy2 { 2 } else { 1 };
                    assert_eq!(
                        *c,
                        if unused { 0xEE } else { *s },
                        "{format:?} {width}x{height} plane {plane} byte {i}"
                    );
                }
            }
        }
    }
}

#[test]
fn wrong_planes_are_refused() {
    let info = info(PixelFormat::Nv12, 5, 3);
    let y = [0u8; 5 * 3];
    let uv = [0u8; 6 * 2];
    let good = [PlaneRef { data: &y, stride: 5 }, PlaneRef { data: &uv, stride: 6 }];
    assert!(frame::decode(&info, &good).is_ok());
    for bad in [
        vec![good[0]],
        vec![PlaneRef { data: &y[1..], stride: 5 }, good[1]],
        vec![PlaneRef { data: &y, stride: 4 }, good[1]],
        vec![good[0], PlaneRef { data: &uv, stride: usize::MAX }],
    ] {
        assert!(matches!(frame::decode(&info, &bad), Err(Error::Usage(_))), "{bad:?}");
    }
}

/// One pixel of Y444 or I420_10LE as B,G,R.
fn one_pixel(format: PixelFormat, color: Color, codes: [u16; 3]) -> [f32; 3] {
    let info = FrameInfo { format, width: 1, height: 1, color };
    let bytes = codes.map(u16::to_le_bytes);
    let size = if format == PixelFormat::I420_10Le { 2 } else { 1 };
    let planes: Vec<_> = bytes.iter().map(|b| PlaneRef { data: &b[..size], stride: size }).collect();
    let values = frame::decode(&info, &planes).unwrap();
    let bgr = BgrFrame::new(&info, &values).to_tensor();
    [bgr.data[0], bgr.data[1], bgr.data[2]]
}

#[test]
fn yuv_to_bgr_known_values() {
    let color = |matrix, full_range| Color { matrix, full_range, chroma_left: true };
    let y444 = PixelFormat::Y444;
    let close = |got: [f32; 3], want: [f32; 3], bound: f32| {
        assert!(got.iter().zip(want).all(|(g, w)| (g - w).abs() <= bound), "{got:?} is not {want:?}");
    };
    for matrix in [Matrix::BT601, Matrix::BT709, Matrix::BT2020, Matrix::FCC, Matrix::SMPTE240M] {
        close(one_pixel(y444, color(matrix, false), [235, 128, 128]), [1.0; 3], 1e-6);
        close(one_pixel(y444, color(matrix, false), [16, 128, 128]), [0.0; 3], 1e-6);
        close(one_pixel(y444, color(matrix, true), [255, 128, 128]), [1.0; 3], 1e-6);
        close(one_pixel(PixelFormat::I420_10Le, color(matrix, false), [940, 512, 512]), [1.0; 3], 1e-6);
        close(one_pixel(PixelFormat::I420_10Le, color(matrix, true), [1023, 512, 512]), [1.0; 3], 1e-6);
    }
    // Saturated bars as every broadcast tool writes them; rounding of the codes costs up to a code value.
    let bound = 2.0 / 219.0;
    close(one_pixel(y444, color(Matrix::BT601, false), [81, 90, 240]), [0.0, 0.0, 1.0], bound);
    close(one_pixel(y444, color(Matrix::BT601, false), [145, 54, 34]), [0.0, 1.0, 0.0], bound);
    close(one_pixel(y444, color(Matrix::BT709, false), [63, 102, 240]), [0.0, 0.0, 1.0], bound);
    close(one_pixel(y444, color(Matrix::BT709, false), [32, 240, 118]), [1.0, 0.0, 0.0], bound);
    close(one_pixel(y444, color(Matrix::BT601, true), [76, 85, 255]), [0.0, 0.0, 1.0], bound);
    // Not clamped: brighter than white.
    assert!(one_pixel(y444, color(Matrix::BT601, false), [255, 128, 128])[0] > 1.05);
}

#[test]
fn chroma_is_sampled_at_its_siting() {
    // Chroma 100 then 200 in a 4×1 frame; cb at the four luma pixels, in codes.
    let cb = |chroma_left| -> Vec<f32> {
        let color = Color { matrix: Matrix::BT601, full_range: true, chroma_left };
        let info = FrameInfo { format: PixelFormat::Y42b, width: 4, height: 1, color };
        let planes = [&[0u8; 4][..], &[100, 200], &[128, 128]].map(|data| PlaneRef { data, stride: data.len() });
        let values = frame::decode(&info, &planes).unwrap();
        let bgr = BgrFrame::new(&info, &values).to_tensor();
        bgr.data.chunks_exact(3).map(|p| p[0] / (2.0 * (1.0 - 0.114)) * 255.0 + 128.0).collect()
    };
    let close = |got: Vec<f32>, want: [f32; 4]| {
        assert!(got.iter().zip(want).all(|(g, w)| (g - w).abs() < 1e-3), "{got:?} is not {want:?}");
    };
    close(cb(true), [100.0, 150.0, 200.0, 200.0]);
    close(cb(false), [100.0, 125.0, 175.0, 200.0]);
}

#[test]
fn residual_conversion_inverts_to_bgr() {
    let residual = [0.1, -0.05, 0.2];
    for full_range in [false, true] {
        for matrix in [Matrix::BT601, Matrix::BT709, Matrix::BT2020] {
            let color = Color { matrix, full_range, chroma_left: true };
            let info = FrameInfo { format: PixelFormat::I420_10Le, width: 1, height: 1, color };
            let planes = [[200u8, 1], [40, 2], [10, 2]];
            let planes: Vec<_> = planes.iter().map(|data| PlaneRef { data, stride: 2 }).collect();
            let mut values = frame::decode(&info, &planes).unwrap();
            let before = BgrFrame::new(&info, &values).to_tensor();
            for (value, role) in values.iter_mut().zip([Role::Y, Role::U, Role::V]) {
                value.data[0] += frame::linear_from_bgr(&info, role, residual);
            }
            let after = BgrFrame::new(&info, &values).to_tensor();
            for ((after, before), residual) in after.data.iter().zip(&before.data).zip(residual) {
                assert!((after - before - residual).abs() < 1e-5, "{color:?}: {before} + {residual} = {after}");
            }
        }
    }
}

#[test]
fn equal_frames_stay_bit_exact_under_the_guard() {
    let weights = tiny(Graph::Tfact2, 3);
    for format in FORMATS {
        for static_guard in [StaticGuard::Soft, StaticGuard::Strict] {
            for flow_scale in [1.0, 0.5] {
                let info = info(format, 33, 17);
                let frame = texture(&info, 2);
                let options = Options { static_guard, flow_scale, ..Options::default() };
                let made = render(&weights, info, options, &frame, &frame, 0.3);
                let values = |planes: &Planes| frame::decode(&info, &planes.refs()).unwrap();
                assert!(values(&made) == values(&frame), "{format:?} {static_guard:?} flow-scale {flow_scale}");
            }
        }
    }
    // The guard did it: without it the network moves things.
    let info = info(PixelFormat::Rgba, 33, 17);
    let frame = texture(&info, 2);
    let made = render(&weights, info, Options::default(), &frame, &frame, 0.3);
    assert!(frame::decode(&info, &made.refs()).unwrap() != frame::decode(&info, &frame.refs()).unwrap());
}

#[test]
fn strict_guard_holds_single_unchanged_pixels() {
    // Everything changes by 100 codes but one pixel, which sits too lonely for the 3×3 rule.
    let info = info(PixelFormat::Gray8, 16, 16);
    let a = Planes::new(&info, 0, |_, x, y| if (x, y) == (5, 6) { 77 } else { 20 });
    let b = Planes::new(&info, 0, |_, x, y| if (x, y) == (5, 6) { 77 } else { 120 });
    let weights = constant([0.0; 4], 0.0);
    for (static_guard, held) in [(StaticGuard::Soft, false), (StaticGuard::Strict, true)] {
        let moved = constant([4.0, 0.0, 4.0, 0.0], 0.0);
        let made = render(&moved, info, Options { static_guard, ..Options::default() }, &a, &b, 0.5);
        assert_eq!(made.data[0][6 * made.strides[0] + 5] == 77, held, "{static_guard:?}");
        // Blended, 4 to the left of where it was: elsewhere nothing is held.
        assert_eq!(made.data[0][6 * made.strides[0] + 1], 77, "{static_guard:?}");
        let made = render(&weights, info, Options { static_guard, ..Options::default() }, &a, &b, 0.5);
        assert_eq!(made.data[0][0], 70, "{static_guard:?}");
    }
}

#[test]
fn odd_sizes_equal_the_edge_extended_frame_cropped() {
    for graph in [Graph::Classic, Graph::Tfact2] {
        let weights = tiny(graph, 5);
        let small = info(PixelFormat::Rgba, 33, 17);
        let large = info(PixelFormat::Rgba, 48, 32);
        let [a, b] = [texture(&small, 1), texture(&small, 2)];
        let extend = |planes: &Planes| {
            let byte =
                |_, x: usize, y: usize| planes.data[0][y.min(16) * planes.strides[0] + (x / 4).min(32) * 4 + x % 4];
            Planes::new(&large, 0, byte)
        };
        let made = render(&weights, small, Options::default(), &a, &b, 0.5);
        let made_large = render(&weights, large, Options::default(), &extend(&a), &extend(&b), 0.5);
        for y in 0..17 {
            let [row, row_large] = [&made, &made_large].map(|p| &p.data[0][y * p.strides[0]..][..33 * 4]);
            assert_eq!(row, row_large, "{graph} row {y}");
        }
    }
}

#[test]
fn grids() {
    let grid = |width, height, flow_scale| Grid::new([width, height], flow_scale);
    assert_eq!(grid(1, 1, 1.0), Grid { size: [16, 16], scale: [1.0, 1.0] });
    assert_eq!(grid(33, 47, 1.0), Grid { size: [48, 48], scale: [1.0, 1.0] });
    assert_eq!(grid(64, 48, 0.5), Grid { size: [32, 32], scale: [2.0, 1.5] });
    assert_eq!(grid(1920, 1080, 0.5).size, [960, 544]);
    assert_eq!(grid(160, 1, 0.7).size, [112, 16]);
}

#[test]
fn flow_is_scaled_back_to_frame_pixels_by_axis() {
    // Grid 32×32 of a 64×48 frame: 2 and 1.5 frame pixels to a grid pixel. Flow (2, 2) is then (4, 3) frame pixels.
    let weights = constant([2.0, 2.0, 2.0, 2.0], 0.0);
    let info = info(PixelFormat::Gray8, 64, 48);
    let [a, b] = [texture(&info, 1), texture(&info, 1)];
    let made = render(&weights, info, Options { flow_scale: 0.5, ..Options::default() }, &a, &b, 0.5);
    for y in 0..48 {
        for x in 0..64 {
            let want = a.data[0][(y + 3).min(47) * a.strides[0] + (x + 4).min(63)];
            assert_eq!(made.data[0][y * made.strides[0] + x], want, "{x},{y}");
        }
    }
}

#[test]
fn chroma_moves_by_its_subsampling() {
    // Flow (4, 2) luma pixels is (2, 1) samples of 4:2:0 chroma, (2, 2) of 4:2:2, (4, 2) of 4:4:4.
    let weights = constant([4.0, 2.0, 4.0, 2.0], 0.0);
    for (format, sub) in [(PixelFormat::I420, [2, 2]), (PixelFormat::Y42b, [2, 1]), (PixelFormat::Y444, [1, 1])] {
        let info = info(format, 40, 24);
        let a = texture(&info, 1);
        let made = render(&weights, info, Options::default(), &a, &a, 0.5);
        for plane in 0..3 {
            let sub = if plane == 0 { [1, 1] } else { sub };
            let (width, height) = (40 / sub[0], 24 / sub[1]);
            for y in 0..height {
                for x in 0..width {
                    let source = (y + 2 / sub[1]).min(height - 1) * a.strides[plane] + (x + 4 / sub[0]).min(width - 1);
                    let want = a.data[plane][source];
                    assert_eq!(made.data[plane][y * made.strides[plane] + x], want, "{format:?} plane {plane} {x},{y}");
                }
            }
        }
    }
}

#[test]
fn alpha_is_warped_and_takes_no_residual() {
    let mut weights = tiny(Graph::Tfact2, 7);
    weights.lastconv.weight.fill(0.0);
    weights.lastconv.bias.copy_from_slice(&[0.25, 0.0, 0.25, 0.0, 0.0]);
    let refine = weights.refine.as_mut().unwrap();
    refine.c3.weight.fill(0.0);
    refine.c3.bias.fill(0.5);
    let info = info(PixelFormat::Argb, 20, 16);
    let a = Planes::new(&info, 0, |_, x, _| if x % 4 == 0 { (x / 4 * 10) as u8 } else { 50 });
    let made = render(&weights, info, Options::default(), &a, &a, 0.5);
    // 2·sigmoid(0.5) - 1 = 0.24492, 62.45 codes.
    assert_eq!(made.data[0][..8], [20, 112, 112, 112, 30, 112, 112, 112]);
}

#[test]
fn unfit_settings_are_refused() {
    let weights = tiny(Graph::Classic, 1);
    let refuse = |format, options| {
        let info = info(format, 32, 32);
        let a = texture(&info, 1);
        let error = Reference::new(&weights, info, options, &a.refs(), &a.refs()).err().unwrap();
        assert!(matches!(error, Error::Unsupported(_)), "{error}");
    };
    let base = Options::default();
    refuse(PixelFormat::Rgba, Options { flow_scale: 0.2, ..base });
    refuse(PixelFormat::Rgba, Options { flow_scale: f64::NAN, ..base });
    refuse(PixelFormat::Rgba, Options { output_size: Some((30, 32)), ..base });
    refuse(PixelFormat::Rgba, Options { output_size: Some((0, 32)), ..base });
    refuse(PixelFormat::I420, Options { output_size: Some((32, 32)), ..base });
    refuse(PixelFormat::Rgba, Options { output_size: Some((32, 32)), flow_scale: 0.5, ..base });
}
