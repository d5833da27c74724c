// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interpolator on the GPU: what a frame costs, every pixel format against the CPU, strides, misuse, threads, 16-bit
//! floats, wide frames.

use std::sync::{Mutex, Once};

use gstframecast::Error;
use gstframecast::gpu::frame::{Color, FrameLayout, Matrix, PixelFormat, PlaneMut, PlaneRef};
use gstframecast::gpu::{CountersSnapshot, Gpu};
use gstframecast::ifnet::reference::{Options, Reference};
use gstframecast::ifnet::synthetic::GeneratorShape;
use gstframecast::ifnet::{
    Config, FrameId, Graph, Interpolator, MAX_BATCH, Precision, Rounding, StaticGuard, Ticket, Weights,
};
use gstframecast::nn::cpu::frame::FrameInfo;

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

fn weights(graph: Graph) -> Weights {
    Weights::synthetic(11, GeneratorShape { graph, c1: 6, c2: 12, film_hidden: 8, refine_channels: 8 })
}

fn layout(format: PixelFormat, (width, height): (u32, u32)) -> FrameLayout {
    FrameLayout::new(format, width, height, Color::default()).unwrap()
}

fn build(weights: &Weights, config: Config) -> Interpolator {
    Interpolator::new(Gpu::shared(None).unwrap(), weights, config).unwrap()
}

fn f32_config(layout: FrameLayout) -> Config {
    Config { precision: Precision::F32, ..Config::new(layout) }
}

/// A frame in planes of its own.
#[derive(Debug, Clone, PartialEq)]
struct Frame {
    /// Bytes and stride.
    planes: Vec<(Vec<u8>, usize)>,
}

impl Frame {
    /// Planes of bytes `fill` whose rows are `padding` bytes longer than they need to be.
    fn new(layout: &FrameLayout, padding: usize, fill: u8) -> Self {
        let plane = |i| {
            let (rows, row) = layout.plane_extent(i);
            let stride = row as usize + padding;
            (vec![fill; stride * rows as usize], stride)
        };
        Self { planes: (0..layout.plane_count()).map(plane).collect() }
    }

    /// Waves with some noise that move with `index`; bytes between rows are `fill`.
    fn picture(layout: &FrameLayout, index: u32, padding: usize, fill: u8) -> Self {
        let mut frame = Self::new(layout, padding, fill);
        for texel in layout.texels() {
            let (bytes, stride) = &mut frame.planes[texel.plane];
            let columns = layout.width.div_ceil(1 << texel.shift_x);
            let rows = layout.height.div_ceil(1 << texel.shift_y);
            for (i, component) in texel.components.iter().enumerate() {
                for (x, y) in (0..rows).flat_map(|y| (0..columns).map(move |x| (x, y))) {
                    let noise = (x * 7919 + y * 104_729 + i as u32 * 31) % 17;
                    // The left quarter stands still.
                    let moved = if x * 4 < columns { 0 } else { index };
                    let (u, v) = ((x << texel.shift_x) + 2 * moved, (y << texel.shift_y) + moved);
                    let value = 0.5
                        + 0.35 * (u as f32 * 0.31 + i as f32).sin() * (v as f32 * 0.23 + 0.5).cos()
                        + noise as f32 * 0.005;
                    let code = ((value * texel.max as f32) as u16) << texel.shift;
                    let at = y as usize * *stride + (x * texel.step + component.byte) as usize;
                    let size = texel.bytes as usize;
                    bytes[at..at + size].copy_from_slice(&code.to_le_bytes()[..size]);
                }
            }
        }
        frame
    }

    fn refs(&self) -> Vec<PlaneRef<'_>> {
        self.planes.iter().map(|(data, stride)| PlaneRef { data, stride: *stride }).collect()
    }

    fn muts(&mut self) -> Vec<PlaneMut<'_>> {
        self.planes.iter_mut().map(|(data, stride)| PlaneMut { data, stride: *stride }).collect()
    }

    /// The codes of all samples, in an order that depends on the format only.
    fn codes(&self, layout: &FrameLayout) -> Vec<u16> {
        let mut codes = Vec::new();
        for texel in layout.texels() {
            let (bytes, stride) = &self.planes[texel.plane];
            for (y, x) in (0..layout.height.div_ceil(1 << texel.shift_y))
                .flat_map(|y| (0..layout.width.div_ceil(1 << texel.shift_x)).map(move |x| (y, x)))
            {
                for component in &texel.components {
                    let at = y as usize * *stride + (x * texel.step + component.byte) as usize;
                    let high = if texel.bytes == 2 { bytes[at + 1] } else { 0 };
                    codes.push(u16::from_le_bytes([bytes[at], high]) >> texel.shift);
                }
            }
        }
        codes
    }
}

fn upload(interpolator: &mut Interpolator, frame: &Frame) -> FrameId {
    let id = FrameId::next();
    interpolator.upload(id, &frame.refs()).unwrap();
    id
}

fn read(interpolator: &mut Interpolator, ticket: Ticket) -> Frame {
    let mut frame = Frame::new(&interpolator.config().layout.clone(), 0, 0);
    interpolator.read(ticket, &mut frame.muts()).unwrap();
    frame
}

/// The frames at `ts` between two frames.
fn make(interpolator: &mut Interpolator, a: FrameId, b: FrameId, ts: &[f64]) -> Vec<Frame> {
    interpolator.set_pair(a, b).unwrap();
    let mut tickets = Vec::new();
    for batch in ts.chunks(interpolator.batch_size()) {
        interpolator.submit(batch, &mut tickets).unwrap();
    }
    tickets.into_iter().map(|ticket| read(interpolator, ticket)).collect()
}

/// What `work` cost.
fn cost(interpolator: &mut Interpolator, work: impl FnOnce(&mut Interpolator)) -> CountersSnapshot {
    let before = interpolator.counters();
    work(interpolator);
    let after = interpolator.counters();
    CountersSnapshot {
        submits: after.submits - before.submits,
        objects_created: after.objects_created - before.objects_created,
        bytes_uploaded: after.bytes_uploaded - before.bytes_uploaded,
        bytes_read_back: after.bytes_read_back - before.bytes_read_back,
    }
}

#[test]
fn what_a_frame_costs() {
    for (graph, submits_of_three) in [(Graph::Classic, 1), (Graph::Tfact, 3), (Graph::Tfact2, 3)] {
        let layout = layout(PixelFormat::I420, (33, 17));
        let bytes = layout.byte_size();
        let frames = [0, 1, 2, 3, 4, 5].map(|i| Frame::picture(&layout, i, 3, 0));
        let mut interpolator = build(&weights(graph), Config::new(layout));
        let ts = [0.25, 0.5, 0.75];
        let mut last = upload(&mut interpolator, &frames[0]);
        let expected = |frames: u64, submits: u64, made: u64| CountersSnapshot {
            submits,
            objects_created: 0,
            bytes_uploaded: frames * bytes,
            bytes_read_back: made * bytes,
        };
        let cost_of_pair = |interpolator: &mut Interpolator, last: &mut FrameId, frame: &Frame| {
            cost(interpolator, |interpolator| {
                let next = upload(interpolator, frame);
                make(interpolator, *last, next, &ts);
                *last = next;
            })
        };
        // Nothing is created for the first pair either: everything was there before.
        for frame in &frames[1..4] {
            let cost = cost_of_pair(&mut interpolator, &mut last, frame);
            assert_eq!(cost, expected(1, submits_of_three, 3), "{graph}");
        }
        // The same pair again: neither a frame nor (in the factored graphs) the trunk travels twice.
        let again = cost(&mut interpolator, |interpolator| {
            let mut tickets = Vec::new();
            interpolator.submit(&[0.4], &mut tickets).unwrap();
            read(interpolator, tickets[0]);
        });
        assert_eq!(again, expected(0, 1, 1), "{graph}");
        // After a reset with frames under way, which are never read back.
        let reset = cost(&mut interpolator, |interpolator| {
            let mut tickets = Vec::new();
            interpolator.submit(&[0.3], &mut tickets).unwrap();
            interpolator.reset();
            assert_eq!(interpolator.free_slots(), MAX_BATCH);
        });
        assert_eq!(reset, expected(0, 1, 0), "{graph}");
        let first = cost(&mut interpolator, |interpolator| last = upload(interpolator, &frames[4]));
        assert_eq!(first, expected(1, 0, 0), "{graph}");
        assert_eq!(
            cost_of_pair(&mut interpolator, &mut last, &frames[5]),
            expected(1, submits_of_three, 3),
            "{graph} after a reset"
        );
    }
}

#[test]
fn a_reset_leaves_nothing_behind() {
    for graph in [Graph::Classic, Graph::Tfact, Graph::Tfact2] {
        let layout = layout(PixelFormat::Nv12, (33, 17));
        let [a, b, c, d] = [0, 3, 6, 9].map(|i| Frame::picture(&layout, i, 0, 0));
        let mut fresh = build(&weights(graph), f32_config(layout.clone()));
        let (first, second) = (upload(&mut fresh, &c), upload(&mut fresh, &d));
        let want = make(&mut fresh, first, second, &[0.25, 0.6]);
        let mut used = build(&weights(graph), f32_config(layout));
        let (first, second) = (upload(&mut used, &a), upload(&mut used, &b));
        used.set_pair(first, second).unwrap();
        used.submit(&[0.5], &mut Vec::new()).unwrap();
        used.reset();
        assert!(!used.is_resident(first) && !used.is_resident(second));
        let (first, second) = (upload(&mut used, &c), upload(&mut used, &d));
        assert_eq!(make(&mut used, first, second, &[0.25, 0.6]), want, "{graph}");
        // And the other way round: the order is the pair's, not that of the uploads.
        let back = make(&mut used, second, first, &[0.25]);
        let mut fresh = build(&weights(graph), f32_config(used.config().layout.clone()));
        let (second, first) = (upload(&mut fresh, &d), upload(&mut fresh, &c));
        assert_eq!(back, make(&mut fresh, second, first, &[0.25]), "{graph}");
    }
}

/// Makes one frame on the GPU and on the CPU and compares them.
fn against_the_cpu(weights: &Weights, config: Config) {
    let layout = config.layout.clone();
    let info = FrameInfo {
        format: layout.format,
        width: layout.width as usize,
        height: layout.height as usize,
        color: layout.color,
    };
    let what = format!(
        "{:?} {}x{} {:?}, {} {:?}, flow scale {}",
        layout.format,
        layout.width,
        layout.height,
        layout.color,
        weights.graph(),
        config.static_guard,
        config.flow_scale
    );
    let options = Options {
        static_guard: config.static_guard,
        rounding: Rounding::Nearest,
        flow_scale: config.flow_scale,
        output_size: None,
    };
    let [a, b] = [0, 1].map(|i| Frame::picture(&layout, i, 0, 0));
    let mut want = Frame::new(&layout, 0, 0);
    let reference = Reference::new(weights, info, options, &a.refs(), &b.refs()).unwrap();
    reference.render(0.375, &mut want.muts()).unwrap();
    let mut interpolator = build(weights, config);
    let (first, second) = (upload(&mut interpolator, &a), upload(&mut interpolator, &b));
    let got = make(&mut interpolator, first, second, &[0.375]).remove(0);
    let (got, want) = (got.codes(&layout), want.codes(&layout));
    assert_eq!(got.len(), want.len());
    let differences: Vec<u16> = got.iter().zip(&want).map(|(g, w)| g.abs_diff(*w)).collect();
    let max = differences.iter().copied().max().unwrap();
    let mean = differences.iter().map(|&d| f64::from(d)).sum::<f64>() / differences.len() as f64;
    println!("{what}: max {max} mean {mean:.4}");
    // Of 255 or of 1023 codes.
    assert!(max <= 1 && mean <= 0.02, "{what}: max {max} mean {mean}");
    // The test can fail: the network changes the picture, if it is not the tiniest.
    if layout.width > 16 || layout.height > 16 {
        assert_ne!(want, a.codes(&layout), "{what}");
        assert_ne!(want, b.codes(&layout), "{what}");
    }
}

#[test]
fn every_format_is_as_on_the_cpu() {
    let graphs = [Graph::Tfact2, Graph::Classic, Graph::Tfact].map(weights);
    let matrices = [Matrix::BT601, Matrix::BT709, Matrix::BT2020];
    let guards = [StaticGuard::Soft, StaticGuard::Off, StaticGuard::Strict];
    for (i, format) in FORMATS.into_iter().enumerate() {
        let size = if i % 2 == 0 { (33, 17) } else { (15, 34) };
        let color = Color { matrix: matrices[i % 3], full_range: (i / 3) % 2 == 0, chroma_left: i % 5 != 0 };
        let layout = FrameLayout::new(format, size.0, size.1, color).unwrap();
        let config = Config {
            static_guard: guards[(i / 2) % 3],
            flow_scale: if i % 4 == 3 { 0.5 } else { 1.0 },
            ..f32_config(layout)
        };
        against_the_cpu(&graphs[(i / 4) % 3], config);
    }
}

#[test]
fn every_colour_is_as_on_the_cpu() {
    let weights = weights(Graph::Tfact2);
    let mut guards = [StaticGuard::Off, StaticGuard::Soft, StaticGuard::Strict].into_iter().cycle();
    for format in [PixelFormat::Nv12, PixelFormat::I420_10Le] {
        for matrix in [Matrix::BT601, Matrix::BT709, Matrix::BT2020] {
            for full_range in [false, true] {
                let color = Color { matrix, full_range, chroma_left: full_range };
                let layout = FrameLayout::new(format, 33, 17, color).unwrap();
                let static_guard = guards.next().unwrap();
                against_the_cpu(&weights, Config { static_guard, ..f32_config(layout) });
            }
        }
    }
}

#[test]
fn every_setting_is_as_on_the_cpu() {
    for graph in [Graph::Classic, Graph::Tfact, Graph::Tfact2] {
        let weights = weights(graph);
        for (static_guard, flow_scale) in
            [(StaticGuard::Off, 0.5), (StaticGuard::Soft, 1.0), (StaticGuard::Strict, 0.25), (StaticGuard::Strict, 1.0)]
        {
            let layout = layout(PixelFormat::I420, (47, 33));
            against_the_cpu(&weights, Config { static_guard, flow_scale, ..f32_config(layout) });
        }
    }
    for size in [(1, 1), (2, 31), (16, 16)] {
        let layout = layout(PixelFormat::Rgb, size);
        against_the_cpu(&weights(Graph::Tfact2), f32_config(layout));
    }
}

#[test]
fn strides_do_not_matter() {
    for format in [PixelFormat::Rgb, PixelFormat::I420, PixelFormat::Yuy2, PixelFormat::P010_10Le] {
        let layout = layout(format, (33, 17));
        let mut interpolator = build(&weights(Graph::Tfact), f32_config(layout.clone()));
        let mut run = |padding: usize| {
            let [a, b] = [0, 1].map(|i| Frame::picture(&layout, i, padding, 0x55));
            let (first, second) = (upload(&mut interpolator, &a), upload(&mut interpolator, &b));
            interpolator.set_pair(first, second).unwrap();
            let mut tickets = Vec::new();
            interpolator.submit(&[0.5], &mut tickets).unwrap();
            let mut made = Frame::new(&layout, padding, 0xEE);
            interpolator.read(tickets[0], &mut made.muts()).unwrap();
            made
        };
        let tight = run(0);
        for padding in [1, 6, 31] {
            let padded = run(padding);
            assert_eq!(padded.codes(&layout), tight.codes(&layout), "{format:?} with {padding} bytes more a row");
            // Bytes between rows are not the interpolator's.
            for (i, (bytes, stride)) in padded.planes.iter().enumerate() {
                let row = layout.plane_extent(i).1 as usize;
                assert!(bytes.chunks(*stride).all(|r| r[row..].iter().all(|&b| b == 0xEE)), "{format:?} plane {i}");
            }
        }
    }
}

#[track_caller]
fn is_misuse<T: std::fmt::Debug>(result: Result<T, Error>, word: &str) {
    let error = result.unwrap_err();
    assert!(matches!(error, Error::Usage(_)) && error.to_string().contains(word), "{error}");
}

#[test]
fn misuse_is_an_error_and_harmless() {
    let layout = layout(PixelFormat::I420, (33, 17));
    let mut interpolator = build(&weights(Graph::Classic), f32_config(layout.clone()));
    let [a, b] = [0, 1].map(|i| Frame::picture(&layout, i, 0, 0));
    let mut tickets = Vec::new();
    is_misuse(interpolator.submit(&[0.5], &mut tickets), "no pair");
    let (first, unknown) = (upload(&mut interpolator, &a), FrameId::next());
    is_misuse(interpolator.set_pair(first, unknown), "resident");
    is_misuse(interpolator.set_pair(first, first), "resident");
    // Planes that hold no frame.
    let id = FrameId::next();
    is_misuse(interpolator.upload(id, &b.refs()[..2]), "2 planes");
    let mut short = b.clone();
    short.planes[1].0.pop();
    is_misuse(interpolator.upload(id, &short.refs()), "plane 1");
    let mut narrow = b.clone();
    narrow.planes[0].1 -= 1;
    is_misuse(interpolator.upload(id, &narrow.refs()), "plane 0");
    assert!(!interpolator.is_resident(id) && interpolator.is_resident(first));
    let second = upload(&mut interpolator, &b);
    interpolator.set_pair(first, second).unwrap();
    for ts in [&[][..], &[-0.1], &[1.1], &[f64::NAN], &[0.5; MAX_BATCH + 1]] {
        assert!(matches!(interpolator.submit(ts, &mut tickets), Err(Error::Usage(_))), "{ts:?}");
    }
    assert!(tickets.is_empty());
    assert_eq!(interpolator.counters().submits, 0);
    // Tickets are good once.
    interpolator.submit(&[0.5; MAX_BATCH], &mut tickets).unwrap();
    is_misuse(interpolator.submit(&[0.5], &mut tickets), "0 free slots");
    let mut out = Frame::new(&layout, 0, 0);
    interpolator.read(tickets[0], &mut out.muts()).unwrap();
    is_misuse(interpolator.read(tickets[0], &mut out.muts()), "already");
    let mut reused = Vec::new();
    interpolator.submit(&[0.5], &mut reused).unwrap();
    is_misuse(interpolator.read(tickets[0], &mut out.muts()), "already");
    // Planes too small for a made frame: the frame is lost, not more.
    is_misuse(interpolator.read(tickets[1], &mut short.muts()), "plane 1");
    interpolator.reset();
    is_misuse(interpolator.read(reused[0], &mut out.muts()), "already");
    is_misuse(interpolator.submit(&[0.5], &mut tickets), "no pair");
    // And it still works.
    let (first, second) = (upload(&mut interpolator, &a), upload(&mut interpolator, &b));
    assert_eq!(make(&mut interpolator, first, second, &[0.5])[0], out);
}

#[test]
fn what_cannot_be_built_is_refused() {
    let gpu = Gpu::shared(None).unwrap();
    let weights = weights(Graph::Classic);
    let refused = |config| Interpolator::new(gpu.clone(), &weights, config).map(|_| ()).unwrap_err();
    let small = layout(PixelFormat::Rgba, (16, 16));
    for flow_scale in [0.0, 0.2, 1.5, f64::NAN] {
        let error = refused(Config { flow_scale, ..Config::new(small.clone()) });
        assert!(matches!(error, Error::Unsupported(_)) && error.to_string().contains("flow scale"), "{error}");
    }
    let error = refused(Config { output_size: Some((24, 16)), ..Config::new(small) });
    assert!(matches!(error, Error::Unsupported(_)) && error.to_string().contains("24x16"), "{error}");
    // The largest frame there can be; an adapter that takes it is left alone.
    let huge = layout(PixelFormat::Rgba, (16384, 16384));
    if huge.byte_size() > gpu.limits().max_storage_buffer_binding_size {
        let error = refused(Config::new(huge));
        assert!(matches!(error, Error::FrameTooLarge { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("16384x16384") && text.contains(gpu.adapter_name()), "{text}");
    }
    assert_eq!(gpu.lost(), None);
}

#[test]
fn two_threads_on_one_device() {
    let [tfact, classic] = [Graph::Tfact2, Graph::Classic].map(weights);
    let run = |weights: &Weights, format, step: u32| {
        let layout = layout(format, (33, 17));
        let frames: Vec<_> = (0..6).map(|i| Frame::picture(&layout, i * step, 0, 0)).collect();
        let mut interpolator = build(weights, Config::new(layout));
        let mut last = upload(&mut interpolator, &frames[0]);
        let mut made = Vec::new();
        for frame in &frames[1..] {
            let next = upload(&mut interpolator, frame);
            made.extend(make(&mut interpolator, last, next, &[0.2, 0.4, 0.6, 0.8]));
            last = next;
        }
        made
    };
    let first = || run(&tfact, PixelFormat::Nv12, 1);
    let second = || run(&classic, PixelFormat::Rgba, 2);
    let alone = (first(), second());
    let together = std::thread::scope(|scope| {
        let threads = (scope.spawn(first), scope.spawn(second));
        (threads.0.join().unwrap(), threads.1.join().unwrap())
    });
    assert!(alone == together, "frames made on two threads at once differ from those made alone");
    assert_eq!(alone.0.len(), 20);
}

/// Warnings and errors that were logged.
static LOGGED: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Logger;

impl log::Log for Logger {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.level() <= log::Level::Warn
    }

    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata()) {
            LOGGED.lock().unwrap().push(record.args().to_string());
        }
    }

    fn flush(&self) {}
}

#[test]
fn weights_beyond_f16() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        log::set_logger(&Logger).unwrap();
        log::set_max_level(log::LevelFilter::Warn);
    });
    let gpu = Gpu::shared(None).unwrap();
    let build = |weights: &Weights, precision| {
        let config = Config { precision, ..Config::new(layout(PixelFormat::Rgba, (16, 16))) };
        Interpolator::new(gpu.clone(), weights, config)
    };
    let good = weights(Graph::Tfact2);
    let mut convblock = good.clone();
    convblock.convblock[3].weight[17] = 70_000.0;
    let mut refine = good.clone();
    refine.refine.as_mut().unwrap().convs[1].weight[0] = -1e30;
    for (bad, tensor) in [(&convblock, "block0.convblock.3.0.weight"), (&refine, "refine.c1.weight")] {
        let error = build(bad, Precision::F16).map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::ModelInvalid { .. }), "{error}");
        assert!(error.to_string().contains(tensor) && error.to_string().contains("precision=f32"), "{error}");
        assert!(!LOGGED.lock().unwrap().iter().any(|line| line.contains(tensor)));
        assert_eq!(build(bad, Precision::Auto).unwrap().storage_name(), "f32");
        assert_eq!(
            LOGGED.lock().unwrap().iter().filter(|line| line.contains(tensor)).count(),
            usize::from(gpu.has_f16())
        );
        assert_eq!(build(bad, Precision::F32).unwrap().storage_name(), "f32");
    }
    // What stays in f32 may hold anything, and the largest number of f16 is one.
    let mut fine = good;
    fine.lastconv.weight[0] = 1e6;
    fine.convblock[0].bias[0] = 1e6;
    fine.film.as_mut().unwrap().w2[0] = 1e6;
    fine.convblock[1].weight[0] = 65504.0;
    assert_eq!(fine.beyond_f16(), None);
    assert_eq!(build(&fine, Precision::F16).unwrap().storage_name(), "f16");
}

/// Weights whose answer is the same everywhere: flow in pixels (x and y for both frames) and the mask's logit.
fn constant_answer(flow: [f32; 4], mask: f32) -> Weights {
    let mut weights = weights(Graph::Classic);
    weights.lastconv.weight.fill(0.0);
    // The network's answer is in eighths of a pixel.
    weights.lastconv.bias = flow.iter().map(|f| f / 8.0).chain([mask]).collect();
    weights
}

/// Field case 11 (rife#188, vs-mlrt#38): 16-bit positions tear pictures apart from column 2048 on.
#[test]
fn wide_frames_are_as_good_at_the_right_edge() {
    const WIDTH: u32 = 3840;
    let precision = if Gpu::shared(None).unwrap().has_f16() { Precision::F16 } else { Precision::F32 };
    for format in [PixelFormat::Rgba, PixelFormat::I420] {
        let layout = layout(format, (WIDTH, 16));
        // The same 20 pixels again and again.
        let wave = |x: f64| 128.0 + 100.0 * (x * std::f64::consts::TAU / 20.0).sin();
        let picture = |shift: f64| {
            let mut frame = Frame::new(&layout, 0, 128);
            let step = layout.texels()[0].step as usize;
            for (i, byte) in frame.planes[0].0.iter_mut().enumerate() {
                let x = (i / step) % WIDTH as usize;
                *byte = wave(x as f64 - shift).round() as u8;
            }
            frame
        };
        // From frame to frame by one pixel, half-way by half a one: frame 0 is looked up to the left, frame 1 to the right.
        let weights = constant_answer([-0.5, 0.0, 0.5, 0.0], 0.0);
        let config = Config { precision, static_guard: StaticGuard::Off, ..Config::new(layout.clone()) };
        let mut interpolator = build(&weights, config);
        let (a, b) = (upload(&mut interpolator, &picture(0.0)), upload(&mut interpolator, &picture(1.0)));
        let made = make(&mut interpolator, a, b, &[0.5]).remove(0);
        let step = layout.texels()[0].step as usize;
        let row = &made.planes[0].0[8 * WIDTH as usize * step..][..WIDTH as usize * step];
        let error = |columns: std::ops::Range<usize>| {
            let count = columns.len() as f64;
            let errors = columns.map(|x| (f64::from(row[x * step]) - wave(x as f64 - 0.5)).abs());
            errors.sum::<f64>() / count
        };
        // Without the columns whose neighbours are outside.
        let (left, right) = (error(20..220), error(3600..3800));
        println!("{format:?}: {left:.3} codes left, {right:.3} right");
        assert!((left - right).abs() <= 0.1, "{format:?}: {left} codes left, {right} right");
        // Linear interpolation of this wave is off by 0.8 codes on average; half a pixel is 10 codes.
        assert!(left <= 1.2, "{format:?}: {left}");
    }
}
