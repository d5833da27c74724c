// SPDX-License-Identifier: MIT OR Apache-2.0
//! The GPU operations of the detector against their plain-Rust twins, at odd shapes and in both storages.

use gstframecast::gpu::frame::{Color, FrameLayout, Matrix, PixelFormat, PlaneRef};
use gstframecast::gpu::{Context, Gpu, PlanBuilder};
use gstframecast::nn::Storage::{F16, F32};
use gstframecast::nn::add::Add;
use gstframecast::nn::attention::Attention;
use gstframecast::nn::cpu::frame::FrameInfo;
use gstframecast::nn::cpu::{
    DeformableAttention, Sampling, Tensor, anchors, attention, box_refine, deformable_attention, layer_norm, pool,
    position_embedding, top_k, upsample,
};
use gstframecast::nn::deform::{Deform, DeformTensors};
use gstframecast::nn::normalize::{LayerNorm, LayerNormTensors};
use gstframecast::nn::pick::PickRows;
use gstframecast::nn::place::Place;
use gstframecast::nn::pool::{Pool, PoolKind};
use gstframecast::nn::refine_boxes::{BoxBase, RefineBoxes};
use gstframecast::nn::resize::Resize;
use gstframecast::nn::select::{Choice, Rank, SelectCandidates, SelectTokens};
use gstframecast::nn::{Lanes, Storage, cpu};
use gstframecast::rtdetr::postprocess;
use gstframecast::rtdetr::{Config, Fit, Preprocessor, Rect, RgbImage};

const STORAGES: [Storage; 2] = [F32, F16];

fn context() -> Context {
    Context::new(Gpu::shared(None).expect("a Vulkan adapter, such as lavapipe"))
}

/// Reproducible numbers between -1 and 1.
struct Noise(u32);

impl Noise {
    fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 8) as f32 / 8_388_608.0 - 1.0
    }

    fn values(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.next()).collect()
    }

    /// A tensor of values that `storage` holds exactly.
    fn tensor(&mut self, width: usize, height: usize, channels: usize, storage: Storage) -> Tensor {
        let data = self.values(width * height * channels);
        Tensor { width, height, channels, data: storage.decode(&storage.encode(&data)) }
    }
}

/// What a test puts on the GPU, runs and reads back.
struct Bench {
    context: Context,
    plan: PlanBuilder,
}

impl Bench {
    fn new() -> Self {
        let context = context();
        Self { plan: PlanBuilder::new(&context), context }
    }

    fn bytes(&self, bytes: &[u8]) -> wgpu::Buffer {
        self.context.constant("test", bytes, wgpu::BufferUsages::STORAGE)
    }

    /// The tensor with its channels padded; padding lanes hold zero, as every operation leaves them.
    fn tensor(&self, tensor: &Tensor, storage: Storage) -> wgpu::Buffer {
        self.bytes(&storage.encode(&padded(tensor, tensor.channels, 0)))
    }

    /// The tensor in the lanes `lanes` of a buffer whose other lanes hold something else.
    fn lanes(&self, tensor: &Tensor, lanes: Lanes, storage: Storage) -> wgpu::Buffer {
        self.bytes(&storage.encode(&padded(tensor, lanes.channels, lanes.first)))
    }

    /// An output of `pixels` pixels, full of NaN, so that what is not written shows.
    fn output(&self, pixels: usize, channels: usize, storage: Storage) -> wgpu::Buffer {
        let nan = vec![f32::NAN; pixels * channels.next_multiple_of(4)];
        let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC;
        self.context.constant("test", &storage.encode(&nan), usage)
    }

    fn run(self, output: &wgpu::Buffer) -> Vec<u8> {
        let plan = self.context.gpu.scoped(|| self.plan.build()).unwrap();
        plan.run_once(&self.context, 0, output).unwrap()
    }
}

fn padded(tensor: &Tensor, channels: usize, first: usize) -> Vec<f32> {
    let stride = channels.next_multiple_of(4);
    let whole = stride == tensor.channels.next_multiple_of(4);
    let mut data = vec![if whole { 0.0 } else { 7.5 }; tensor.pixels() * stride];
    for (to, from) in data.chunks_exact_mut(stride).zip(tensor.data.chunks_exact(tensor.channels)) {
        to[first..][..from.len()].copy_from_slice(from);
    }
    data
}

/// Without the padding lanes, which must hold zero.
fn unpadded(bytes: &[u8], pixels: usize, channels: usize, storage: Storage) -> Vec<f32> {
    let values = storage.decode(bytes);
    let stride = channels.next_multiple_of(4);
    let rows = || values.chunks_exact(stride).take(pixels);
    assert!(rows().all(|row| row[channels..].iter().all(|&v| v == 0.0)), "padding lanes are not zero");
    rows().flat_map(|row| row[..channels].to_vec()).collect()
}

/// Differences are relative to the largest value.
#[track_caller]
fn assert_close(got: &[f32], want: &[f32], storage: Storage, what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    let largest = want.iter().fold(0f32, |m, v| m.max(v.abs()));
    let tolerance = largest * if storage == F16 { 1e-2 } else { 1e-4 };
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        assert!((g - w).abs() <= tolerance, "{what}, {storage:?}: value {i} is {g}, not {w}, of {largest} at most");
    }
}

#[test]
fn pools() {
    let mut noise = Noise(1);
    for storage in STORAGES {
        for (width, height, channels) in [(1, 1, 3), (2, 1, 4), (7, 5, 6), (15, 8, 17), (70, 4, 8)] {
            for kind in [PoolKind::Max3x3, PoolKind::Mean2x2] {
                let input = noise.tensor(width, height, channels, storage);
                let want = match kind {
                    PoolKind::Max3x3 => pool::max_pool3x3(&input),
                    PoolKind::Mean2x2 => pool::avg_pool2x2(&input),
                };
                let mut bench = Bench::new();
                let pool = Pool { kind, channels, storage };
                let size = (width as u32, height as u32);
                assert_eq!(pool.output_size(size), (want.width as u32, want.height as u32));
                let (src, dst) = (bench.tensor(&input, storage), bench.output(want.pixels(), channels, storage));
                pool.step(&mut bench.plan, "pool", size, &src, &dst).unwrap();
                let got = unpadded(&bench.run(&dst), want.pixels(), channels, storage);
                assert_close(&got, &want.data, storage, &format!("{kind:?} of {width}x{height}x{channels}"));
            }
        }
    }
}

#[test]
fn places_beside_each_other_and_behind_each_other() {
    let mut noise = Noise(2);
    for storage in STORAGES {
        for (width, height, a, b) in [(1, 1, 4, 4), (3, 5, 8, 12), (9, 2, 4, 20)] {
            let (coarse, fine) =
                (noise.tensor(width, height, a, storage), noise.tensor(2 * width, 2 * height, b, storage));
            let want = upsample::concat(&upsample::upsample2x(&coarse), &fine);
            let mut bench = Bench::new();
            let dst = bench.output(want.pixels(), a + b, storage);
            let place = |channels, first, upsample| {
                let to = Lanes { channels: a + b, first };
                Place { channels, to, upsample, storage }
            };
            let size = (width as u32, height as u32);
            let (src, beside) = (bench.tensor(&coarse, storage), bench.tensor(&fine, storage));
            place(a, 0, true).step(&mut bench.plan, "up", size, 0, &src, &dst).unwrap();
            place(b, a, false).step(&mut bench.plan, "copy", (2 * size.0, 2 * size.1), 0, &beside, &dst).unwrap();
            assert_eq!(unpadded(&bench.run(&dst), want.pixels(), a + b, storage), want.data);
        }
        let maps = [noise.tensor(3, 2, 5, storage), noise.tensor(70, 1, 5, storage)];
        let mut bench = Bench::new();
        let dst = bench.output(76, 5, storage);
        let place = Place { channels: 5, to: Lanes::all(5), upsample: false, storage };
        for (map, start) in maps.iter().zip([0, 6]) {
            let (size, src) = ((map.width as u32, map.height as u32), bench.tensor(map, storage));
            place.step(&mut bench.plan, "copy", size, start, &src, &dst).unwrap();
        }
        let want: Vec<f32> = maps.iter().flat_map(|m| m.data.clone()).collect();
        assert_eq!(unpadded(&bench.run(&dst), 76, 5, storage), want);
    }
}

#[test]
fn adds_tokens_and_positions() {
    let mut noise = Noise(3);
    for storage in STORAGES {
        for (width, height, channels) in [(1, 1, 4), (3, 7, 20), (20, 20, 32)] {
            let tokens = noise.tensor(width, height, channels, storage);
            let position = position_embedding::position_embedding(width, height, channels, 10_000.0);
            let mut want = tokens.clone();
            want.add(&position);
            let mut bench = Bench::new();
            let dst = bench.output(want.pixels(), channels, storage);
            let (a, b) = (bench.tensor(&tokens, storage), bench.tensor(&position, F32));
            Add { channels, a: storage, b: F32, output: storage }
                .step(&mut bench.plan, "add", want.pixels() as u32, &a, &b, &dst)
                .unwrap();
            let got = unpadded(&bench.run(&dst), want.pixels(), channels, storage);
            assert_close(&got, &want.data, storage, "sum");
        }
    }
}

#[test]
fn normalises_sums_and_adds_positions() {
    let mut noise = Noise(4);
    for storage in STORAGES {
        for (tokens, channels) in [(1, 4), (37, 6), (5, 17), (9, 100), (3, 256), (2, 388), (2, 1030)] {
            for (residual, position, masked) in [
                (false, false, false),
                (true, false, false),
                (true, true, false),
                (false, false, true),
                (true, true, true),
            ] {
                let mut input = noise.tensor(tokens, 1, channels, storage);
                // A mean far from zero beside a small deviation.
                input.data.iter_mut().for_each(|v| *v += 4.0);
                input.data = storage.decode(&storage.encode(&input.data));
                let (beside, at) = (noise.tensor(tokens, 1, channels, storage), noise.tensor(tokens, 1, channels, F32));
                let (weight, bias) = (noise.values(channels), noise.values(channels));
                let substitute = noise.values(channels);
                let valid: Vec<u32> = (0..tokens as u32).map(|t| u32::from(t % 3 != 1)).collect();

                let mut sum = input.clone();
                if residual {
                    sum.add(&beside);
                }
                let mut want = layer_norm(&sum, &weight, &bias, 1e-5);
                if masked {
                    for (row, _) in want.data.chunks_exact_mut(channels).zip(&valid).filter(|(_, v)| **v == 0) {
                        row.copy_from_slice(&substitute);
                    }
                }
                let mut want_placed = want.clone();
                want_placed.add(&at);

                let norm = LayerNorm {
                    channels,
                    input: storage,
                    residual: residual.then_some(storage),
                    output: storage,
                    position: position.then_some(F32),
                    masked,
                };
                for second in [false, true] {
                    if second && !position {
                        continue;
                    }
                    let mut bench = Bench::new();
                    let given = masked.then_some(substitute.as_slice());
                    let constants = norm.upload(&bench.context, "norm", &weight, &bias, 1e-5, given);
                    let (src, added) = (bench.tensor(&input, storage), bench.tensor(&beside, storage));
                    let (positions, valid) = (bench.tensor(&at, F32), bench.bytes(bytemuck::cast_slice(&valid)));
                    let [dst, placed] = [0, 1].map(|_| bench.output(tokens, channels, storage));
                    let tensors = LayerNormTensors {
                        src: &src,
                        residual: residual.then_some(&added),
                        position: position.then_some((&positions, &placed)),
                        valid: masked.then_some(&valid),
                        dst: &dst,
                    };
                    norm.step(&mut bench.plan, "norm", &constants, tokens as u32, tensors).unwrap();
                    let (output, want) = if second { (&placed, &want_placed) } else { (&dst, &want) };
                    let got = unpadded(&bench.run(output), tokens, channels, storage);
                    assert_close(&got, &want.data, storage, &format!("{norm:?}"));
                }
            }
        }
    }
}

#[test]
fn a_norm_without_its_tensors_is_refused() {
    let mut bench = Bench::new();
    let norm = LayerNorm { channels: 4, input: F32, residual: Some(F32), output: F32, position: None, masked: false };
    let constants = norm.upload(&bench.context, "norm", &[1.0; 4], &[0.0; 4], 1e-5, None);
    let (src, dst) = (bench.output(1, 4, F32), bench.output(1, 4, F32));
    let tensors = LayerNormTensors { src: &src, residual: None, position: None, valid: None, dst: &dst };
    assert!(norm.step(&mut bench.plan, "norm", &constants, 1, tensors).is_err());
}

#[test]
fn attends() {
    let mut noise = Noise(5);
    for storage in STORAGES {
        // Heads of one group, of the checkpoints' sizes, wide ones, and ones that are no groups of four.
        let shapes = [
            (1, 1, 1, 4),
            (3, 70, 2, 8),
            (50, 33, 4, 6),
            (17, 129, 2, 32),
            (20, 31, 1, 48),
            (5, 40, 2, 64),
            (3, 9, 1, 128),
        ];
        for (queries, keys, heads, dim) in shapes {
            let channels = heads * dim;
            let (mut q, k) = (noise.tensor(queries, 1, channels, storage), noise.tensor(keys, 1, channels, storage));
            let v = noise.tensor(keys, 1, channels, storage);
            // Scores between flat and certain.
            q.data.iter_mut().enumerate().for_each(|(i, v)| *v *= (i / channels % 5) as f32 * 4.0);
            q.data = storage.decode(&storage.encode(&q.data));
            let want = attention::attention(&q, &k, &v, heads);
            let mut bench = Bench::new();
            let wide = Lanes { channels: 2 * channels + 4, first: channels.next_multiple_of(4) };
            let op = Attention {
                heads,
                dim,
                q: wide,
                k: Lanes::all(channels),
                v: Lanes { channels: channels + 4, first: 4 },
                input: storage,
                output: storage,
            };
            let (q, k) = (bench.lanes(&q, op.q, storage), bench.lanes(&k, op.k, storage));
            let (v, dst) = (bench.lanes(&v, op.v, storage), bench.output(queries, channels, storage));
            op.step(&mut bench.plan, "attend", queries as u32, keys as u32, &q, &k, &v, &dst).unwrap();
            let got = unpadded(&bench.run(&dst), queries, channels, storage);
            assert_close(&got, &want.data, storage, &format!("{queries} of {keys}, {heads} heads of {dim}"));
        }
    }
}

/// Field case 23: scores far beyond what 16-bit floats hold are no scores beyond f32.
#[test]
fn large_activations_stay_finite() {
    let (tokens, heads, dim) = (40, 2, 32);
    let channels = heads * dim;
    let mut noise = Noise(6);
    let mut large = |scale: f32| {
        let mut tensor = noise.tensor(tokens, 1, channels, F32);
        tensor.data.iter_mut().for_each(|v| *v *= scale);
        tensor.data = F16.decode(&F16.encode(&tensor.data));
        tensor
    };
    let (q, k, v) = (large(1e4), large(1e4), large(6e4));
    let want = attention::attention(&q, &k, &v, heads);
    let mut bench = Bench::new();
    let lanes = Lanes::all(channels);
    let op = Attention { heads, dim, q: lanes, k: lanes, v: lanes, input: F16, output: F16 };
    let [qb, kb, vb] = [&q, &k, &v].map(|t| bench.tensor(t, F16));
    let dst = bench.output(tokens, channels, F16);
    op.step(&mut bench.plan, "attend", tokens as u32, tokens as u32, &qb, &kb, &vb, &dst).unwrap();
    let got = unpadded(&bench.run(&dst), tokens, channels, F16);
    assert_close(&got, &want.data, F16, "attention of large values");

    // The sum with the residual leaves the range of 16 bits; its norm does not.
    let mut sum = v.clone();
    sum.add(&v);
    assert!(sum.data.iter().any(|v| v.abs() > 65504.0));
    let (weight, bias) = (vec![1.0; channels], vec![0.0; channels]);
    let want = layer_norm(&sum, &weight, &bias, 1e-5);
    let norm = LayerNorm { channels, input: F16, residual: Some(F16), output: F16, position: None, masked: false };
    let mut bench = Bench::new();
    let constants = norm.upload(&bench.context, "norm", &weight, &bias, 1e-5, None);
    let (src, dst) = (bench.tensor(&v, F16), bench.output(tokens, channels, F16));
    let tensors = LayerNormTensors { src: &src, residual: Some(&src), position: None, valid: None, dst: &dst };
    norm.step(&mut bench.plan, "norm", &constants, tokens as u32, tensors).unwrap();
    let got = unpadded(&bench.run(&dst), tokens, channels, F16);
    assert_close(&got, &want.data, F16, "norm of large values");

    // A stored sum stops at the end of the range, and a NaN is not hidden.
    let mut bench = Bench::new();
    let (a, dst) = (bench.bytes(&F16.encode(&[6e4, -6e4, f32::NAN, 1.0])), bench.output(1, 4, F16));
    Add { channels: 4, a: F16, b: F16, output: F16 }.step(&mut bench.plan, "add", 1, &a, &a, &dst).unwrap();
    let got = F16.decode(&bench.run(&dst));
    assert_eq!([got[0], got[1], got[3]], [65504.0, -65504.0, 2.0]);
    assert!(got[2].is_nan());
}

/// Scores with ties, both zeros, infinities and NaN.
fn awkward(noise: &mut Noise, count: usize, kind: usize) -> Vec<f32> {
    (0..count)
        .map(|i| {
            let v = noise.next();
            match (kind, i % 11) {
                (0, _) => v,
                // Few different values.
                (1, _) => (v * 3.0).round() / 2.0,
                (2, 0) => f32::NAN,
                (2, 3) => f32::INFINITY,
                (2, 4) => f32::NEG_INFINITY,
                (2, 7) => -0.0,
                (2, 8) => 0.0,
                (2, _) => v,
                (3, _) => f32::NAN,
                (4, _) => -1.5,
                // All in one narrow band, as the logits of a network that is not trained.
                (_, _) => -4.6 + v * 1e-3,
            }
        })
        .collect()
}

const KINDS: usize = 6;

#[test]
fn selects_tokens_as_the_twin_does() {
    let mut noise = Noise(7);
    let limits = Gpu::shared(None).unwrap().limits();
    for storage in STORAGES {
        for (tokens, classes, count) in
            [(1, 1, 1), (7, 3, 7), (300, 17, 300), (1111, 5, 300), (2600, 80, 64), (5000, 4, 1000)]
        {
            for kind in 0..KINDS {
                let values = awkward(&mut noise, tokens * classes, kind);
                let logits = storage.decode(&storage.encode(&values));
                let logits = Tensor { width: tokens, height: 1, channels: classes, data: logits };
                let best = |token: &[f32]| token.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                let scores: Vec<f32> = logits.data.chunks_exact(classes).map(best).collect();
                let want = top_k::top_k(&scores, count);
                let mut bench = Bench::new();
                // The padding lanes hold what would win.
                let mut padding = padded(&logits, classes, 0);
                for row in padding.chunks_exact_mut(classes.next_multiple_of(4)) {
                    row[classes..].fill(1000.0);
                }
                let src = bench.bytes(&storage.encode(&padding));
                let (keys, indices) = (bench.output(tokens, 1, F32), bench.output(count, 1, F32));
                Rank { classes, input: storage }.step(&mut bench.plan, "rank", tokens as u32, &src, &keys).unwrap();
                let select = SelectTokens::new(count as u32, &limits).unwrap();
                // Few invocations walk more often than the tokens need.
                let select = SelectTokens { threads: if kind % 2 == 0 { 256 } else { select.threads }, ..select };
                select.step(&mut bench.plan, "select", tokens as u32, &keys, &indices).unwrap();
                let bytes = bench.run(&indices);
                let got: Vec<u32> = bytemuck::pod_collect_to_vec(&bytes[..count * 4]);
                let got: Vec<usize> = got.into_iter().map(|i| i as usize).collect();
                assert_eq!(got, want, "{count} of {tokens} with {classes} classes, kind {kind}, {storage:?}");
            }
        }
    }
}

#[test]
fn impossible_selections_are_refused() {
    let mut bench = Bench::new();
    let limits = bench.context.gpu.limits();
    assert!(SelectTokens::new(1 << 20, &limits).is_err());
    assert!(SelectCandidates::new(1 << 20, 4, F32, &limits).is_err());
    let (keys, indices) = (bench.output(8, 1, F32), bench.output(9, 1, F32));
    let select = SelectTokens::new(9, &limits).unwrap();
    assert!(select.step(&mut bench.plan, "select", 8, &keys, &indices).is_err());
}

#[test]
fn selects_candidates_as_the_twin_does() {
    let mut noise = Noise(8);
    let limits = Gpu::shared(None).unwrap().limits();
    for storage in STORAGES {
        for (queries, classes) in [(1, 1), (5, 2), (33, 17), (300, 11)] {
            for kind in 0..KINDS {
                let values = awkward(&mut noise, queries * classes, kind);
                let data = storage.decode(&storage.encode(&values));
                let logits = Tensor { width: queries, height: 1, channels: classes, data };
                let boxes = noise.tensor(queries, 1, 4, F32);
                let want = postprocess::candidates(&logits, &boxes);
                let mut bench = Bench::new();
                let (src, places) = (bench.tensor(&logits, storage), bench.tensor(&boxes, F32));
                let dst = bench.output(queries, 8, F32);
                let select = SelectCandidates::new(queries as u32, classes, storage, &limits).unwrap();
                select.step(&mut bench.plan, "select", &src, &places, &dst).unwrap();
                let choices: Vec<Choice> = bytemuck::pod_collect_to_vec(&bench.run(&dst));
                assert_eq!(choices.len(), want.len());
                for (got, want) in choices.iter().zip(&want) {
                    let what = format!("{got:?} is not {want:?}, kind {kind}, {storage:?}");
                    assert_eq!((got.query as usize, got.label as usize), (want.query, want.label), "{what}");
                    assert_eq!(cpu::sigmoid(got.logit).to_bits(), want.score.to_bits(), "{what}");
                    assert_eq!(got.bbox, want.bbox, "{what}");
                }
            }
        }
    }
}

#[test]
fn picks_rows() {
    let mut noise = Noise(9);
    for storage in STORAGES {
        for (tokens, channels, rows) in [(1, 1, 1), (50, 17, 33), (9, 64, 20)] {
            let src = noise.tensor(tokens, 1, channels, storage);
            let indices: Vec<u32> = (0..rows as u32).map(|i| (i * 7 + 3) % tokens as u32).collect();
            let want: Vec<f32> = indices.iter().flat_map(|&i| src.at(i as usize, 0).to_vec()).collect();
            let mut bench = Bench::new();
            let (buffer, list) = (bench.tensor(&src, storage), bench.bytes(bytemuck::cast_slice(&indices)));
            let dst = bench.output(rows, channels, F32);
            PickRows { channels, input: storage, output: F32 }
                .step(&mut bench.plan, "pick", rows as u32, &list, &buffer, &dst)
                .unwrap();
            assert_eq!(unpadded(&bench.run(&dst), rows, channels, F32), want);
        }
    }
}

#[test]
fn refines_boxes_and_anchors() {
    let mut noise = Noise(10);
    for storage in STORAGES {
        let queries = 75;
        let mut deltas = noise.tensor(queries, 1, 4, storage);
        deltas.data.iter_mut().for_each(|v| *v *= 8.0);
        let mut boxes = noise.tensor(queries, 1, 4, F32);
        // Also beyond 0 and 1.
        boxes.data.iter_mut().for_each(|v| *v = *v * 0.7 + 0.5);
        boxes.data[..4].copy_from_slice(&[0.0, 1.0, 1e-7, 1.0 - 1e-7]);
        let want = box_refine::refine(&boxes, &deltas);
        let mut bench = Bench::new();
        let (delta, base) = (bench.tensor(&deltas, storage), bench.tensor(&boxes, F32));
        let dst = bench.output(queries, 4, F32);
        let op = RefineBoxes { base: BoxBase::Boxes, delta: storage };
        op.step(&mut bench.plan, "refine", queries as u32, &delta, &base, None, &dst).unwrap();
        assert_close(&unpadded(&bench.run(&dst), queries, 4, F32), &want.data, F32, "refined boxes");

        // The rim of the finest level is invalid: its boxes are all ones.
        let (places, valid) = anchors::anchors(&[[60, 50], [30, 25]]);
        let indices: Vec<u32> = (0..queries as u32).map(|i| i * 49).collect();
        assert!(indices.iter().any(|&i| !valid[i as usize]) && indices.iter().any(|&i| valid[i as usize]));
        let chosen = indices.iter().flat_map(|&i| places.at(i as usize, 0).to_vec());
        let want: Vec<f32> = chosen.zip(&deltas.data).map(|(a, d)| cpu::sigmoid(a + d)).collect();
        let mut bench = Bench::new();
        let (delta, base) = (bench.tensor(&deltas, storage), bench.tensor(&places, F32));
        let list = bench.bytes(bytemuck::cast_slice(&indices));
        let dst = bench.output(queries, 4, F32);
        let op = RefineBoxes { base: BoxBase::Anchors, delta: storage };
        assert!(op.step(&mut bench.plan, "refine", queries as u32, &delta, &base, None, &dst).is_err());
        op.step(&mut bench.plan, "refine", queries as u32, &delta, &base, Some(&list), &dst).unwrap();
        assert_close(&unpadded(&bench.run(&dst), queries, 4, F32), &want, F32, "first boxes");
    }
}

#[test]
fn attends_deformably() {
    let mut noise = Noise(11);
    // Queries, heads, channels of a head, points, and the levels.
    type Shape = (usize, usize, usize, usize, &'static [[usize; 2]]);
    let shapes: [Shape; 6] = [
        (1, 1, 4, 1, &[[1, 1]]),
        (5, 4, 4, 4, &[[8, 6], [4, 3], [2, 2]]),
        (9, 2, 6, 3, &[[5, 7], [3, 2]]),
        (7, 8, 32, 4, &[[12, 8], [6, 4], [3, 2]]),
        (3, 3, 48, 2, &[[9, 1], [1, 9]]),
        (4, 1, 128, 5, &[[3, 3]]),
    ];
    for storage in STORAGES {
        for sampling in [Sampling::Bilinear, Sampling::Discrete] {
            for (queries, heads, dim, points, levels) in shapes {
                let (channels, samples) = (heads * dim, levels.len() * points);
                let value = noise.tensor(levels.iter().map(|[w, h]| w * h).sum(), 1, channels, storage);
                let mut offsets = noise.tensor(queries, 1, heads * samples * 2, storage);
                offsets.data.iter_mut().for_each(|v| *v *= 8.0);
                let mut logits = noise.tensor(queries, 1, heads * samples, storage);
                logits.data.iter_mut().for_each(|v| *v *= 4.0);
                let mut boxes = noise.tensor(queries, 1, 4, F32);
                boxes.data.iter_mut().for_each(|v| *v = *v * 0.55 + 0.5);
                // Far outside, and nowhere.
                offsets.data[0] = 3e4;
                if storage == F32 && queries > 4 {
                    offsets.data[heads * samples * 2] = -1e30;
                    if sampling == Sampling::Discrete {
                        offsets.data[heads * samples * 4] = f32::NAN;
                    }
                }
                let scales: Vec<f32> = noise.values(samples).iter().map(|v| v * 0.1 + 0.25).collect();
                let want = deformable_attention(&DeformableAttention {
                    value: &value,
                    levels,
                    offsets: &offsets,
                    logits: &logits,
                    boxes: &boxes,
                    heads,
                    points,
                    point_scale: &scales,
                    offset_scale: 0.5,
                    sampling,
                });
                // Offsets and logits of one layer's output, values of several layers' at once.
                let mixing = heads * samples * 3;
                let op = Deform {
                    heads,
                    dim,
                    levels: levels.len(),
                    points,
                    sampling,
                    value: Lanes { channels: channels * 2, first: channels },
                    offsets: Lanes { channels: mixing, first: 0 },
                    logits: Lanes { channels: mixing, first: heads * samples * 2 },
                    input: storage,
                    mixing: storage,
                    output: storage,
                };
                let mut bench = Bench::new();
                let both = upsample::concat(&offsets, &logits);
                let (both, values) = (bench.tensor(&both, storage), bench.lanes(&value, op.value, storage));
                let (places, dst) = (bench.tensor(&boxes, F32), bench.output(queries, channels, storage));
                let constants = op.upload(&bench.context, "deform", levels, &scales, 0.5).unwrap();
                let tensors =
                    DeformTensors { value: &values, offsets: &both, logits: &both, boxes: &places, dst: &dst };
                op.step(&mut bench.plan, "deform", &constants, queries as u32, tensors).unwrap();
                let got = unpadded(&bench.run(&dst), queries, channels, storage);
                assert_close(&got, &want.data, storage, &format!("{op:?}"));
            }
        }
    }
}

const FORMATS: [PixelFormat; 21] = {
    use PixelFormat as P;
    [
        P::Rgba,
        P::Bgra,
        P::Argb,
        P::Abgr,
        P::Rgbx,
        P::Bgrx,
        P::Xrgb,
        P::Xbgr,
        P::Rgb,
        P::Bgr,
        P::I420,
        P::Yv12,
        P::Nv12,
        P::Nv21,
        P::Yuy2,
        P::Uyvy,
        P::Y42b,
        P::Y444,
        P::Gray8,
        P::I420_10Le,
        P::P010_10Le,
    ]
};

/// A frame in memory, its rows without padding.
struct Frame {
    layout: FrameLayout,
    planes: Vec<Vec<u8>>,
}

impl Frame {
    /// `byte(plane, x, y)` gives the bytes of the planes.
    fn new(
        format: PixelFormat,
        (width, height): (u32, u32),
        color: Color,
        mut byte: impl FnMut(usize, usize, usize) -> u8,
    ) -> Self {
        let layout = FrameLayout::new(format, width, height, color).unwrap();
        let plane = |index: usize| {
            let (rows, row) = layout.plane_extent(index);
            let (rows, row) = (rows as usize, row as usize);
            (0..rows * row).map(|i| byte(index, i % row, i / row)).collect()
        };
        let planes = (0..layout.plane_count()).map(plane).collect();
        Self { layout, planes }
    }

    /// As it lies in a buffer of the GPU.
    fn packed(&self) -> Vec<u8> {
        let mut bytes = vec![0xa5; self.layout.byte_size() as usize];
        for (plane, data) in self.layout.planes().iter().zip(&self.planes) {
            for (y, row) in data.chunks_exact(plane.row_bytes as usize).enumerate() {
                bytes[(plane.offset + plane.stride * y as u32) as usize..][..row.len()].copy_from_slice(row);
            }
        }
        bytes
    }

    fn rgb(&self, rect: Rect) -> RgbImage {
        let FrameLayout { format, width, height, color, .. } = self.layout;
        let info = FrameInfo { format, width: width as usize, height: height as usize, color };
        let stride = |i: usize| self.layout.plane_extent(i).1 as usize;
        let planes: Vec<_> =
            self.planes.iter().enumerate().map(|(i, data)| PlaneRef { data, stride: stride(i) }).collect();
        RgbImage::from_frame(&info, &planes, rect).unwrap()
    }
}

/// The settings of a preprocessor, its canvas and how pictures fit it.
struct Preprocessing {
    json: &'static str,
    canvas: Option<[usize; 2]>,
    fit: Fit,
}

/// Largest difference in levels and the share of values that differ, of the GPU's input from the twin's. Values of
/// `output` are as exact as it stores them.
fn compare(frame: &Frame, rect: Rect, how: &Preprocessing, output: Storage) -> (f32, f64) {
    let config = Config::from_json("config.json", br#"{"model_type": "rt_detr_v2"}"#).unwrap();
    let settings = config.preprocessor_from_json("preprocessor_config.json", how.json.as_bytes()).unwrap();
    let preprocessor = Preprocessor::new(&config, &settings, how.canvas, how.fit).unwrap();
    let placement = preprocessor.placement(rect).unwrap();
    let want = preprocessor.apply(&frame.rgb(rect), &placement).unwrap();

    let small = |pair: [usize; 2]| pair.map(|n| n as u32);
    let op = Resize {
        layout: frame.layout.clone(),
        start: small([rect.x, rect.y]),
        size: small([rect.width, rect.height]),
        resized: small(placement.resized),
        offset: small(placement.offset),
        canvas: small(placement.canvas),
        fill: placement.fill,
        scale: settings.scale,
        shift: settings.offset,
        output,
    };
    let mut bench = Bench::new();
    let (src, dst) = (bench.bytes(&frame.packed()), bench.output(want.pixels(), 3, output));
    let context = bench.context.clone();
    op.steps(&mut bench.plan, &context, &src, &dst).unwrap();
    let got = unpadded(&bench.run(&dst), want.pixels(), 3, output);
    let mut worst = 0f32;
    let mut different = 0;
    for (i, (g, w)) in got.iter().zip(&want.data).enumerate() {
        let levels = (g - w).abs() / settings.scale[i % 3];
        assert!(levels.is_finite());
        worst = worst.max(levels);
        different += usize::from(levels > 0.3);
    }
    (worst, different as f64 / got.len() as f64)
}

const STRETCH: Preprocessing = Preprocessing { json: "{}", canvas: Some([64, 64]), fit: Fit::Stretch };

/// Field case 22: what Pillow makes of checkerboards and text, shrunk and grown. RGB is exact.
#[test]
fn resizes_as_pillow_does() {
    let color = Color::default();
    for (size, canvas) in [((248, 350), [64, 64]), ((100, 100), [128, 160]), ((64, 64), [64, 64]), ((64, 90), [64, 64])]
    {
        let checkerboard = Frame::new(PixelFormat::Rgb, size, color, |_, x, y| ((x / 3 + y + x % 3) % 2 * 255) as u8);
        let text = Frame::new(PixelFormat::Bgrx, size, color, |_, x, y| {
            let (gx, gy) = (x / 4 % 8, y % 12);
            let glyph = (x / 32).wrapping_mul(2_654_435_761) ^ (y / 12).wrapping_mul(40_503);
            let ink = gx < 5 && gy < 7 && (glyph >> (gy * 4 + gx)) & 1 == 1;
            if ink { 20 + x as u8 % 4 * 10 } else { 250 }
        });
        for frame in [checkerboard, text] {
            let rect = Rect::whole(size.0 as usize, size.1 as usize);
            for output in STORAGES {
                let how = Preprocessing { canvas: Some(canvas), ..STRETCH };
                let (worst, _) = compare(&frame, rect, &how, output);
                assert!(worst < if output == F16 { 0.1 } else { 1e-3 }, "{size:?} to {canvas:?}: {worst} levels");
            }
        }
    }
}

#[test]
fn resizes_regions_and_letterboxes() {
    let mut noise = Noise(12);
    let color = Color::default();
    let frame = Frame::new(PixelFormat::Rgba, (83, 61), color, |_, _, _| (noise.next() * 127.0 + 128.0) as u8);
    let normalised = r#"{"do_normalize": true, "image_mean": [0.5, 0.4, 0.1], "image_std": [0.5, 0.25, 2]}"#;
    let padded = r#"{"size": {"max_height": 40, "max_width": 50}, "do_pad": true,
        "pad_size": {"height": 64, "width": 96}}"#;
    for rect in
        [Rect::whole(83, 61), Rect { x: 5, y: 9, width: 1, height: 50 }, Rect { x: 40, y: 60, width: 43, height: 1 }]
    {
        for (json, canvas, fit) in [
            (normalised, Some([96, 32]), Fit::Letterbox),
            ("{}", Some([32, 64]), Fit::Letterbox),
            (normalised, Some([32, 96]), Fit::Stretch),
            (padded, None, Fit::Auto),
        ] {
            for output in STORAGES {
                let (worst, _) = compare(&frame, rect, &Preprocessing { json, canvas, fit }, output);
                // 16 bits hold values up to 4 (the normalised ones) less finely.
                assert!(worst < if output == F16 { 0.5 } else { 1e-3 }, "{rect:?}, {json}: {worst} levels");
            }
        }
    }
    let op = Resize {
        layout: frame.layout,
        start: [80, 0],
        size: [4, 4],
        resized: [32, 32],
        offset: [0, 0],
        canvas: [32, 32],
        fill: [0.0; 3],
        scale: [1.0; 3],
        shift: [0.0; 3],
        output: F32,
    };
    let mut bench = Bench::new();
    let (context, buffer) = (bench.context.clone(), bench.output(1, 4, F32));
    for wrong in [op.clone(), Resize { start: [0, 0], offset: [1, 0], ..op.clone() }] {
        assert!(wrong.steps(&mut bench.plan, &context, &buffer, &buffer).is_err());
    }
}

/// Every format, matrix and range, at odd sizes: within one level of the twin.
#[test]
fn resizes_every_format() {
    let mut noise = Noise(13);
    let colors = [
        Color { matrix: Matrix::BT601, full_range: false, chroma_left: true },
        Color { matrix: Matrix::BT709, full_range: true, chroma_left: false },
        Color { matrix: Matrix::BT2020, full_range: false, chroma_left: false },
        Color { matrix: Matrix::FCC, full_range: true, chroma_left: true },
        Color { matrix: Matrix::SMPTE240M, full_range: false, chroma_left: true },
    ];
    for format in FORMATS {
        let packed = format.is_rgb() || format.is_gray();
        for color in &colors[..if packed { 1 } else { colors.len() }] {
            let frame = Frame::new(format, (37, 23), *color, |_, x, _| match format {
                // The upper byte of a little-endian word of ten bits.
                PixelFormat::I420_10Le if x % 2 == 1 => (noise.next() * 2.0 + 2.0) as u8,
                _ => (noise.next() * 127.0 + 128.0) as u8,
            });
            for rect in [Rect::whole(37, 23), Rect { x: 3, y: 5, width: 20, height: 11 }] {
                let how = Preprocessing { canvas: Some([32, 32]), ..STRETCH };
                let (worst, different) = compare(&frame, rect, &how, F32);
                let (levels, share) = if packed { (1e-3, 0.0) } else { (1.001, 0.01) };
                assert!(worst < levels && different <= share, "{format:?} {color:?}: {worst} levels, {different}");
            }
        }
    }
}

/// Field case 21: one red page, whatever the format, is the same input.
#[test]
fn a_red_page_is_red_in_every_format() {
    let [r, g, b] = [200.0, 30.0, 20.0f32];
    for matrix in [Matrix::BT601, Matrix::BT709, Matrix::BT2020, Matrix::FCC, Matrix::SMPTE240M] {
        for full_range in [false, true] {
            let color = Color { matrix, full_range, chroma_left: true };
            let luma = matrix.kr * r + (1.0 - matrix.kr - matrix.kb) * g + matrix.kb * b;
            let (cb, cr) = ((b - luma) / (2.0 * (1.0 - matrix.kb)), (r - luma) / (2.0 * (1.0 - matrix.kr)));
            let (base, of_luma, of_chroma) =
                if full_range { (0.0, 1.0, 1.0) } else { (16.0, 219.0 / 255.0, 224.0 / 255.0) };
            let code = |v: f32| v.round() as u8;
            let yuv = [code(base + of_luma * luma), code(128.0 + of_chroma * cb), code(128.0 + of_chroma * cr)];
            use PixelFormat as P;
            let formats =
                [P::Rgb, P::Bgr, P::Rgba, P::Bgrx, P::Argb, P::Xbgr, P::Nv12, P::Nv21, P::I420, P::Yv12, P::Yuy2];
            for format in formats {
                let pixel: &[u8] = match format {
                    P::Rgb | P::Rgba => &[200, 30, 20, 7],
                    P::Bgr | P::Bgrx => &[20, 30, 200, 7],
                    P::Argb => &[7, 200, 30, 20],
                    P::Xbgr => &[7, 20, 30, 200],
                    P::Yuy2 => &[yuv[0], yuv[1], yuv[0], yuv[2]],
                    _ => &[],
                };
                let step = if matches!(format, P::Rgb | P::Bgr) { 3 } else { 4 };
                let frame = Frame::new(format, (20, 12), color, |plane, x, _| match (format, plane) {
                    (P::Nv12 | P::Nv21 | P::I420 | P::Yv12, 0) => yuv[0],
                    (P::Nv12, _) => yuv[1 + x % 2],
                    (P::Nv21, _) => yuv[2 - x % 2],
                    (P::I420, _) => yuv[plane],
                    (P::Yv12, _) => yuv[3 - plane],
                    _ => pixel[x % step],
                });
                let layout = frame.layout.clone();
                let mut bench = Bench::new();
                let (src, dst) = (bench.bytes(&frame.packed()), bench.output(32 * 32, 3, F32));
                let context = bench.context.clone();
                Resize {
                    layout,
                    start: [0, 0],
                    size: [20, 12],
                    resized: [32, 32],
                    offset: [0, 0],
                    canvas: [32, 32],
                    fill: [0.0; 3],
                    scale: [1.0; 3],
                    shift: [0.0; 3],
                    output: F32,
                }
                .steps(&mut bench.plan, &context, &src, &dst)
                .unwrap();
                let got = unpadded(&bench.run(&dst), 32 * 32, 3, F32);
                let tolerance = if format.is_rgb() { 0.0 } else { 2.0 };
                for pixel in got.chunks_exact(3) {
                    let close = pixel.iter().zip([r, g, b]).all(|(v, w)| (v - w).abs() <= tolerance);
                    assert!(close, "{format:?} {color:?}: {pixel:?}");
                }
            }
        }
    }
}
