// SPDX-License-Identifier: MIT OR Apache-2.0
//! From a frame to the network's input, and from the network's boxes back to the frame's pixels.
//!
//! The frame, or a part of it, becomes RGB of 8 bits, is resized as Pillow does ([`crate::nn::cpu::pillow`]), placed on
//! the **canvas** (the network's input) and turned into values, `code·scale + offset`. A [`Placement`] says where.

use rayon::prelude::*;

use super::config::{Config, MAX_SIDE, PreprocessorConfig, Size};
use crate::error::{Error, Result};
use crate::gpu::frame::PlaneRef;
use crate::nn::cpu::frame::{self, BgrFrame, FrameInfo, Role};
use crate::nn::cpu::store::to_code;
use crate::nn::cpu::{Tensor, pillow};

/// How pictures whose aspect ratio is not the canvas's are brought to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Fit {
    /// As the checkpoint's preprocessor says; stretched where only a size is given.
    #[default]
    Auto,
    /// Each axis on its own.
    Stretch,
    /// Both axes alike, in the middle, white around.
    Letterbox,
}

/// A rectangle of whole pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rect {
    pub x: usize,
    pub y: usize,
    pub width: usize,
    pub height: usize,
}

impl Rect {
    /// A whole frame.
    pub fn whole(width: usize, height: usize) -> Self {
        Self { x: 0, y: 0, width, height }
    }

    /// Reads `x,y,width,height`, in pixels.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where these are not four finite numbers, or the size is not above 0.
    pub fn parse_roi(text: &str) -> Result<[f64; 4]> {
        let wrong =
            || Error::Unsupported(format!("roi {text:?}: expected x,y,width,height in pixels, the last two above 0"));
        let numbers = text.split(',').map(|part| part.trim().parse::<f64>()).collect::<Result<Vec<_>, _>>();
        let roi: [f64; 4] = numbers.ok().and_then(|numbers| numbers.try_into().ok()).ok_or_else(wrong)?;
        if roi.iter().all(|v| v.is_finite()) && roi[2] > 0.0 && roi[3] > 0.0 { Ok(roi) } else { Err(wrong()) }
    }

    /// The pixels of a `width`×`height` frame that the region `roi` (x, y, width, height) touches; `None` where it
    /// touches none, or is not finite.
    pub fn of_roi(roi: [f64; 4], width: usize, height: usize) -> Option<Self> {
        if roi.iter().any(|v| !v.is_finite()) {
            return None;
        }
        let span = |start: f64, length: f64, limit: usize| -> Option<(usize, usize)> {
            let first = start.floor().clamp(0.0, limit as f64) as usize;
            let end = (start + length).ceil().clamp(0.0, limit as f64) as usize;
            (length > 0.0 && end > first).then(|| (first, end - first))
        };
        let ((x, width), (y, height)) = (span(roi[0], roi[2], width)?, span(roi[1], roi[3], height)?);
        Some(Self { x, y, width, height })
    }
}

/// A picture of 8-bit R, G, B without padding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RgbImage {
    pub width: usize,
    pub height: usize,
    /// `data[(y·width + x)·3..][..3]`.
    pub data: Vec<u8>,
}

impl RgbImage {
    /// The part `rect` of a frame of any format. Alpha is left out; 10 bits are rounded to 8.
    pub fn from_frame(info: &FrameInfo, planes: &[PlaneRef<'_>], rect: Rect) -> Result<Self> {
        let Rect { x: left, y: top, width, height } = rect;
        let inside = |start: usize, length: usize, limit: usize| {
            length > 0 && start.checked_add(length).is_some_and(|end| end <= limit)
        };
        if !inside(left, width, info.width) || !inside(top, height, info.height) {
            return Err(Error::Usage(format!("{rect:?} is no part of a {}x{} frame", info.width, info.height)));
        }
        let values = frame::decode(info, planes)?;
        let frame = BgrFrame::new(info, &values);
        let first = frame::components(info.format)[0].role;
        let mut data = vec![0; width * height * 3];
        data.par_chunks_exact_mut(width * 3).enumerate().for_each(|(row, out)| {
            let y = top + row;
            for (column, rgb) in out.chunks_exact_mut(3).enumerate() {
                let x = left + column;
                let bgr = match first {
                    Role::B => [0, 1, 2].map(|i| values[i].at(x, y)[0]),
                    Role::Gray => [values[0].at(x, y)[0]; 3],
                    _ => frame.sample([x as f32, y as f32]),
                };
                for (out, v) in rgb.iter_mut().zip(bgr.iter().rev()) {
                    *out = to_code(*v, 255, false) as u8;
                }
            }
        });
        Ok(Self { width, height, data })
    }
}

/// Where a part of a frame lies on the canvas.
#[derive(Debug, Clone, PartialEq)]
pub struct Placement {
    /// The part of the frame, in its pixels.
    pub source: Rect,
    /// Width, height to which it is resized.
    pub resized: [usize; 2],
    /// Canvas pixel of its top left corner.
    pub offset: [usize; 2],
    /// Width, height of the canvas.
    pub canvas: [usize; 2],
    /// R, G, B of the canvas around it, as values of the network's input.
    pub fill: [f32; 3],
}

impl Placement {
    /// A box of the network (centre x, centre y, width, height, relative to the canvas) as left, top, right, bottom in
    /// the frame's pixels, cut to the source: `((v·canvas - offset)·source / resized) + source start`, by axis. `None`
    /// where nothing is left, or a number is not finite.
    pub fn to_frame(&self, bbox: [f32; 4]) -> Option<[f64; 4]> {
        if bbox.iter().any(|v| !v.is_finite()) {
            return None;
        }
        let start = [self.source.x, self.source.y];
        let length = [self.source.width, self.source.height];
        let edges = |axis: usize| {
            let (centre, size) = (f64::from(bbox[axis]), f64::from(bbox[axis + 2]));
            [centre - size / 2.0, centre + size / 2.0].map(|edge| {
                let on_source = edge * self.canvas[axis] as f64 - self.offset[axis] as f64;
                let pixel = on_source * length[axis] as f64 / self.resized[axis] as f64;
                start[axis] as f64 + pixel.clamp(0.0, length[axis] as f64)
            })
        };
        let ([left, right], [top, bottom]) = (edges(0), edges(1));
        (right > left && bottom > top).then_some([left, top, right, bottom])
    }

    /// Pixels of the source.
    pub fn area(&self) -> f64 {
        self.source.width as f64 * self.source.height as f64
    }
}

/// The preprocessing of a checkpoint under the settings of a user.
#[derive(Debug, Clone, PartialEq)]
pub struct Preprocessor {
    config: PreprocessorConfig,
    multiple: usize,
    canvas: Option<[usize; 2]>,
    fit: Fit,
}

impl Preprocessor {
    /// `input_size` (width, height) is used instead of the checkpoint's size.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where the network cannot run at `input_size`.
    pub fn new(
        config: &Config,
        preprocessor: &PreprocessorConfig,
        input_size: Option<[usize; 2]>,
        fit: Fit,
    ) -> Result<Self> {
        let multiple = config.input_multiple();
        if let Some([width, height]) = input_size
            && [width, height].iter().any(|&n| n == 0 || n > MAX_SIDE || n % multiple != 0)
        {
            return Err(Error::Unsupported(format!(
                "input-size {width}x{height}: both sides must be multiples of {multiple}, at most {MAX_SIDE}"
            )));
        }
        Ok(Self { config: preprocessor.clone(), multiple, canvas: input_size, fit })
    }

    /// Where the part `source` of a frame is placed.
    ///
    /// Where the checkpoint keeps the aspect ratio and pads to no fixed size, the canvas is the resized picture's size
    /// rounded up to [`Config::input_multiple`] (transformers would fail on other sizes).
    ///
    /// # Errors
    /// [`Error::Unsupported`] where the resized picture is larger than the checkpoint's `pad_size`.
    pub fn placement(&self, source: Rect) -> Result<Placement> {
        if source.width == 0 || source.height == 0 {
            return Err(Error::Usage("a part of a frame without pixels".into()));
        }
        let PreprocessorConfig { size, pad_size, scale, offset } = &self.config;
        let round_up = |size: [usize; 2]| size.map(|n| n.next_multiple_of(self.multiple));
        let fixed = || {
            self.canvas.or(*pad_size).unwrap_or_else(|| match *size {
                Size::Exact(size) | Size::Within(size) => round_up(size),
                Size::Edges { longest, .. } => round_up([longest; 2]),
            })
        };
        let (resized, canvas, place, fill) = match (self.fit, self.canvas) {
            (Fit::Letterbox, _) => {
                let canvas = fixed();
                let resized = within(source, canvas, f64::round);
                let white = [0, 1, 2].map(|i| 255.0 * scale[i] + offset[i]);
                (resized, canvas, [0, 1].map(|i| (canvas[i] - resized[i]) / 2), white)
            }
            (Fit::Stretch, _) => (fixed(), fixed(), [0; 2], [0.0; 3]),
            (Fit::Auto, Some(canvas)) => (canvas, canvas, [0; 2], [0.0; 3]),
            (Fit::Auto, None) => {
                let resized = match *size {
                    Size::Exact(size) => size,
                    Size::Edges { shortest, longest } => edges(source, shortest, longest),
                    Size::Within(size) => within(source, size, f64::trunc),
                };
                let canvas = pad_size.unwrap_or_else(|| round_up(resized));
                if (0..2).any(|i| resized[i] > canvas[i]) {
                    return Err(Error::Unsupported(format!(
                        "a picture of {}x{} becomes {}x{}, more than the model's pad_size, {}x{}",
                        source.width, source.height, resized[0], resized[1], canvas[0], canvas[1]
                    )));
                }
                (resized, canvas, [0; 2], [0.0; 3])
            }
        };
        Ok(Placement { source, resized, offset: place, canvas, fill })
    }

    /// `value = code·scale + offset`, for R, G, B: the scales and the offsets.
    pub fn values(&self) -> ([f32; 3], [f32; 3]) {
        (self.config.scale, self.config.offset)
    }

    /// The network's input from `image`, which must be the source of `placement`.
    pub fn apply(&self, image: &RgbImage, placement: &Placement) -> Result<Tensor> {
        let Placement { source, resized, offset, canvas, fill } = placement;
        let (width, height) = (source.width, source.height);
        if (image.width, image.height, image.data.len()) != (width, height, width * height * 3) {
            return Err(Error::Usage(format!(
                "a picture of {}x{}, expected {width}x{height}",
                image.width, image.height
            )));
        }
        let pixels = pillow::resize_bilinear(&image.data, 3, [width, height], *resized);
        let PreprocessorConfig { scale, offset: shift, .. } = &self.config;
        Ok(Tensor::from_fn(canvas[0], canvas[1], 3, |x, y, out| {
            let at = (x.wrapping_sub(offset[0]), y.wrapping_sub(offset[1]));
            if at.0 < resized[0] && at.1 < resized[1] {
                let rgb = &pixels[(at.1 * resized[0] + at.0) * 3..][..3];
                for i in 0..3 {
                    out[i] = f32::from(rgb[i]) * scale[i] + shift[i];
                }
            } else {
                out.copy_from_slice(fill);
            }
        }))
    }
}

/// The largest size of the source's aspect ratio within `limits`, rounded by `round`, at least one pixel.
fn within(source: Rect, limits: [usize; 2], round: fn(f64) -> f64) -> [usize; 2] {
    let size = [source.width, source.height];
    let scale = (0..2).map(|i| limits[i] as f64 / size[i] as f64).fold(f64::INFINITY, f64::min);
    [0, 1].map(|i| (round(size[i] as f64 * scale) as usize).clamp(1, limits[i]))
}

/// The size whose shorter side is `shortest` unless the longer would exceed `longest`, rounded as transformers do, at
/// least one pixel.
fn edges(source: Rect, shortest: usize, longest: usize) -> [usize; 2] {
    let (width, height) = (source.width as f64, source.height as f64);
    let (short, long) = (width.min(height), width.max(height));
    let mut side = shortest as f64;
    let mut exact = side;
    if long / short * side > longest as f64 {
        exact = longest as f64 * short / long;
        side = exact.round_ties_even();
    }
    if side == short {
        return [source.width, source.height];
    }
    let other = (exact * long / short).trunc();
    let [side, other] = [side, other].map(|n| (n as usize).max(1));
    match width.total_cmp(&height) {
        std::cmp::Ordering::Less => [side, other],
        std::cmp::Ordering::Equal => [side, side],
        std::cmp::Ordering::Greater => [other, side],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::frame::{Color, Matrix, PixelFormat};

    fn config() -> Config {
        Config::from_json("config.json", br#"{"model_type": "rt_detr_v2"}"#).unwrap()
    }

    fn preprocessor(json: &str, input_size: Option<[usize; 2]>, fit: Fit) -> Preprocessor {
        let parsed = config().preprocessor_from_json("preprocessor_config.json", json.as_bytes()).unwrap();
        Preprocessor::new(&config(), &parsed, input_size, fit).unwrap()
    }

    fn placed(json: &str, width: usize, height: usize) -> Placement {
        preprocessor(json, None, Fit::Auto).placement(Rect::whole(width, height)).unwrap()
    }

    #[track_caller]
    fn assert_box(got: Option<[f64; 4]>, want: [f64; 4]) {
        let got = got.expect("a box");
        assert!(got.iter().zip(want).all(|(g, w)| (g - w).abs() < 1e-4), "{got:?} is not {want:?}");
    }

    /// Field case 19: each axis is scaled by its own ratio.
    #[test]
    fn boxes_come_back_by_axis() {
        let (bbox, whole) = ([0.5, 0.25, 0.5, 0.5], [0.5, 0.5, 1.0, 1.0]);
        for (width, height) in [(1920, 400), (400, 1920)] {
            let placement = placed("{}", width, height);
            assert_eq!((placement.resized, placement.canvas), ([640, 640], [640, 640]));
            let (w, h) = (width as f64, height as f64);
            assert_eq!(placement.to_frame(bbox), Some([0.25 * w, 0.0, 0.75 * w, 0.5 * h]));
            assert_eq!(placement.to_frame(whole), Some([0.0, 0.0, w, h]));
        }
    }

    #[test]
    fn sizes_as_transformers_choose_them() {
        let edges = r#"{"size": {"shortest_edge": 800, "longest_edge": 1333}}"#;
        // (width, height) of the picture, and what transformers' get_size_with_aspect_ratio makes of it.
        for (size, want) in [
            ((640, 480), [1066, 800]),
            ((480, 640), [800, 1066]),
            ((1000, 3000), [444, 1333]),
            ((512, 512), [800, 800]),
            ((800, 900), [800, 900]),
            ((20000, 1), [1333, 1]),
        ] {
            let placement = placed(edges, size.0, size.1);
            assert_eq!(placement.resized, want, "{size:?}");
            assert_eq!(placement.canvas, want.map(|n: usize| n.next_multiple_of(32)));
            assert_eq!(placement.offset, [0, 0]);
        }
        let within = r#"{"size": {"max_height": 512, "max_width": 640}}"#;
        assert_eq!(placed(within, 1000, 1000).resized, [512, 512]);
        assert_eq!(placed(within, 3000, 1000).resized, [640, 213]);
        let padded = r#"{"size": {"max_height": 512, "max_width": 640}, "do_pad": true,
            "pad_size": {"height": 672, "width": 704}}"#;
        let placement = placed(padded, 1000, 1000);
        assert_eq!((placement.resized, placement.canvas), ([512, 512], [704, 672]));
        assert_box(
            placement.to_frame([256.0 / 704.0, 256.0 / 672.0, 512.0 / 704.0, 512.0 / 672.0]),
            [0.0, 0.0, 1000.0, 1000.0],
        );
        // What lies in the padding alone is nothing.
        assert_eq!(placement.to_frame([0.95, 0.5, 0.05, 0.1]), None);
        let small = r#"{"size": {"max_height": 512, "max_width": 640}, "do_pad": true,
            "pad_size": {"height": 256, "width": 256}}"#;
        let error = preprocessor(small, None, Fit::Auto).placement(Rect::whole(1000, 1000)).unwrap_err();
        assert!(error.to_string().contains("pad_size"), "{error}");
    }

    #[test]
    fn letterbox_keeps_the_aspect_ratio() {
        let letterbox = preprocessor("{}", Some([1024, 1024]), Fit::Letterbox);
        let placement = letterbox.placement(Rect { x: 10, y: 20, width: 500, height: 1000 }).unwrap();
        assert_eq!(placement.canvas, [1024, 1024]);
        assert_eq!((placement.resized, placement.offset, placement.fill), ([512, 1024], [256, 0], [1.0; 3]));
        assert_box(placement.to_frame([0.5, 0.5, 0.25, 0.5]), [135.0, 270.0, 385.0, 770.0]);
        let image = RgbImage { width: 500, height: 1000, data: vec![0; 1_500_000] };
        let tensor = letterbox.apply(&image, &placement).unwrap();
        assert_eq!(
            [tensor.at(255, 0), tensor.at(256, 0), tensor.at(767, 1023), tensor.at(768, 1023)],
            [&[1.0; 3], &[0.0; 3], &[0.0; 3], &[1.0; 3]]
        );
    }

    #[test]
    fn values_follow_the_preprocessor() {
        let image = RgbImage { width: 640, height: 640, data: [51, 102, 255].repeat(640 * 640) };
        let values = |json: &str| {
            let preprocessor = preprocessor(json, None, Fit::Auto);
            let placement = preprocessor.placement(Rect::whole(640, 640)).unwrap();
            preprocessor.apply(&image, &placement).unwrap().at(7, 9).to_vec()
        };
        let close = |got: Vec<f32>, want: [f32; 3]| {
            assert!(got.iter().zip(want).all(|(g, w)| (g - w).abs() < 1e-6), "{got:?} is not {want:?}");
        };
        close(values("{}"), [0.2, 0.4, 1.0]);
        // Mean and deviation stand in the file but count only with do_normalize.
        close(values(r#"{"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}"#), [0.2, 0.4, 1.0]);
        close(
            values(r#"{"do_normalize": true, "image_mean": [0.5, 0.4, 0], "image_std": [0.5, 0.25, 2]}"#),
            [-0.6, 0.0, 0.5],
        );
        close(values(r#"{"do_rescale": false}"#), [51.0, 102.0, 255.0]);
    }

    #[test]
    fn wrong_preprocessors_are_refused() {
        for (json, want) in [
            (r#"{"do_resize": false}"#, "do_resize"),
            (r#"{"resample": 3}"#, "resample is 3"),
            (r#"{"size": {"height": 650, "width": 640}}"#, "640x650 is no multiple of 32"),
            (r#"{"size": {"shortest_edge": 640}}"#, "size has the keys shortest_edge"),
            (r#"{"size": {"height": 0, "width": 640}}"#, "size.height is 0"),
            (r#"{"size": 640}"#, "size is 640"),
            (r#"{"do_normalize": true, "image_std": [1, 0, 1]}"#, "image_std"),
            (r#"{"do_pad": true, "pad_size": {"height": 100, "width": 640}}"#, "pad_size"),
            (r#"{"rescale_factor": "much"}"#, "rescale_factor is \"much\""),
            ("[]", "not a JSON object"),
        ] {
            let error = config().preprocessor_from_json("preprocessor_config.json", json.as_bytes()).unwrap_err();
            assert!(error.to_string().contains(want), "{json}: {error}");
        }
        let parsed = config().default_preprocessor();
        for size in [[640, 100], [0, 640], [640, 1 << 20]] {
            assert!(Preprocessor::new(&config(), &parsed, Some(size), Fit::Auto).is_err(), "{size:?}");
        }
    }

    /// Field case 21: one red picture, whatever the format.
    #[test]
    fn red_is_red_in_every_format() {
        use PixelFormat as P;
        let packed: [(P, &[u8]); 9] = [
            (P::Rgb, &[200, 30, 20]),
            (P::Bgr, &[20, 30, 200]),
            (P::Rgba, &[200, 30, 20, 7]),
            (P::Bgra, &[20, 30, 200, 7]),
            (P::Argb, &[7, 200, 30, 20]),
            (P::Abgr, &[7, 20, 30, 200]),
            (P::Bgrx, &[20, 30, 200, 7]),
            (P::Xrgb, &[7, 200, 30, 20]),
            (P::Xbgr, &[7, 20, 30, 200]),
        ];
        let color = Color { matrix: Matrix::BT601, full_range: true, chroma_left: false };
        for (format, pixel) in packed {
            let data = pixel.repeat(4 * 2);
            let info = FrameInfo { format, width: 4, height: 2, color };
            let plane = PlaneRef { data: &data, stride: pixel.len() * 4 };
            let rect = Rect { x: 1, y: 0, width: 2, height: 2 };
            let image = RgbImage::from_frame(&info, &[plane], rect).unwrap();
            assert_eq!(image.data, [200, 30, 20].repeat(4), "{format:?}");
        }
        for matrix in [Matrix::BT601, Matrix::BT709, Matrix::BT2020] {
            for full_range in [false, true] {
                let [r, g, b] = [200.0, 30.0, 20.0f32];
                let luma = matrix.kr * r + (1.0 - matrix.kr - matrix.kb) * g + matrix.kb * b;
                let (cb, cr) = ((b - luma) / (2.0 * (1.0 - matrix.kb)), (r - luma) / (2.0 * (1.0 - matrix.kr)));
                let (base, of_luma, of_chroma) =
                    if full_range { (0.0, 1.0, 1.0) } else { (16.0, 219.0 / 255.0, 224.0 / 255.0) };
                let code = |v: f32| v.round() as u8;
                let (y, u, v) = (base + of_luma * luma, 128.0 + of_chroma * cb, 128.0 + of_chroma * cr);
                let (luma, chroma) = (vec![code(y); 16], [code(u), code(v)].repeat(4));
                let color = Color { matrix, full_range, chroma_left: true };
                let info = FrameInfo { format: P::Nv12, width: 4, height: 4, color };
                let planes = [PlaneRef { data: &luma, stride: 4 }, PlaneRef { data: &chroma, stride: 4 }];
                let image = RgbImage::from_frame(&info, &planes, Rect::whole(4, 4)).unwrap();
                for rgb in image.data.chunks_exact(3) {
                    assert!(rgb.iter().zip([200, 30, 20]).all(|(&g, w): (&u8, u8)| g.abs_diff(w) <= 2), "{rgb:?}");
                }
            }
        }
        let info = FrameInfo { format: P::Rgb, width: 4, height: 2, color };
        let outside = Rect { x: 3, y: 0, width: 2, height: 2 };
        assert!(RgbImage::from_frame(&info, &[PlaneRef { data: &[0; 24], stride: 12 }], outside).is_err());
    }

    /// Field case 30: regions of no size, outside or not a number; frames one pixel thin.
    #[test]
    fn extreme_regions_and_shapes() {
        let of = |roi| Rect::of_roi(roi, 100, 50);
        assert_eq!(of([10.2, 5.0, 20.0, 10.5]), Some(Rect { x: 10, y: 5, width: 21, height: 11 }));
        assert_eq!(of([-50.0, -50.0, 1000.0, 1000.0]), Some(Rect::whole(100, 50)));
        assert_eq!(of([90.0, 40.0, 1e300, 1e300]), Some(Rect { x: 90, y: 40, width: 10, height: 10 }));
        for none in [
            [0.0, 0.0, 0.0, 10.0],
            [0.0, 0.0, 10.0, -1.0],
            [100.0, 0.0, 10.0, 10.0],
            [-20.0, 0.0, 20.0, 10.0],
            [f64::NAN, 0.0, 10.0, 10.0],
            [0.0, 0.0, f64::INFINITY, 10.0],
            [1e300, 0.0, 10.0, 10.0],
        ] {
            assert_eq!(of(none), None, "{none:?}");
        }
        assert_eq!(Rect::parse_roi(" 1, 2.5,3,4 ").unwrap(), [1.0, 2.5, 3.0, 4.0]);
        for wrong in ["", "1,2,3", "1,2,3,4,5", "1,2,nan,4", "1,2,inf,4", "1,2,0,4", "a,2,3,4"] {
            assert!(Rect::parse_roi(wrong).is_err(), "{wrong}");
        }
        for (width, height) in [(1, 20000), (20000, 1), (16384, 64), (1, 1)] {
            let image = RgbImage { width, height, data: vec![128; width * height * 3] };
            for (json, fit) in [
                ("{}", Fit::Auto),
                ("{}", Fit::Letterbox),
                (r#"{"size": {"max_height": 640, "max_width": 640}}"#, Fit::Auto),
                (r#"{"size": {"shortest_edge": 480, "longest_edge": 640}}"#, Fit::Auto),
            ] {
                let preprocessor = preprocessor(json, None, fit);
                let placement = preprocessor.placement(Rect::whole(width, height)).unwrap();
                let tensor = preprocessor.apply(&image, &placement).unwrap();
                assert_eq!([tensor.width, tensor.height], placement.canvas);
                let [x, y] = [0, 1].map(|i| placement.offset[i] + placement.resized[i] - 1);
                assert_eq!(tensor.at(x, y), [128.0 / 255.0; 3], "{width}x{height} {json}");
                let [cw, ch] = placement.canvas.map(|n| n as f32);
                let whole = [x as f32 + 0.5, y as f32 + 0.5, 1.0, 1.0];
                let whole = [whole[0] / cw, whole[1] / ch, whole[2] / cw, whole[3] / ch];
                let bbox = placement.to_frame(whole).expect("the last pixel is a part of the frame");
                assert!((bbox[2] - width as f64).abs() < 0.1 && (bbox[3] - height as f64).abs() < 0.1, "{bbox:?}");
            }
        }
        for value in [f32::NAN, f32::INFINITY] {
            assert_eq!(placed("{}", 64, 64).to_frame([0.5, value, 0.5, 0.5]), None);
        }
    }
}
