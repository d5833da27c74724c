// SPDX-License-Identifier: MIT OR Apache-2.0
//! Convolutions on the GPU against their CPU twin: kernels, strides, activations, residuals and parts of wider tensors,
//! at odd shapes.

use gstframecast::gpu::{Context, Gpu, PlanBuilder};
use gstframecast::nn::convolve::{Activation, Convolution, ConvolutionWeights, Operand, Residual, Slice, Tile};
use gstframecast::nn::cpu::upsample::upsample2x;
use gstframecast::nn::cpu::{self, Conv2d, Tensor};
use gstframecast::nn::frames::tensor_bytes;
use gstframecast::nn::{Lanes, Storage, groups_of_four};

/// Numbers between −1 and 1.
fn noise(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / 8_388_608.0 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

fn tensor((width, height): (u32, u32), channels: usize, seed: u32) -> Tensor {
    let (width, height) = (width as usize, height as usize);
    Tensor { width, height, channels, data: noise(width * height * channels, seed) }
}

/// The values of a buffer in which `tensor` is the part `slice`, and 7 stands everywhere else but in padding lanes.
fn embed(tensor: &Tensor, slice: Slice) -> Vec<f32> {
    let pitch = groups_of_four(slice.lanes.channels) * 4;
    let padded = groups_of_four(tensor.channels) * 4;
    let mut values = vec![7.0; (slice.start as usize + tensor.pixels()) * pitch];
    for (pixel, from) in tensor.data.chunks_exact(tensor.channels).enumerate() {
        let to = &mut values[(slice.start as usize + pixel) * pitch + slice.lanes.first..][..padded];
        to.fill(0.0);
        to[..from.len()].copy_from_slice(from);
    }
    values
}

/// Where a test's operands lie: at once whole, or in the middle of wider tensors.
fn place(spec: &Convolution, channels: usize) -> Slice {
    if spec.sliced {
        Slice { lanes: Lanes { channels: channels + 11, first: 4 }, start: 3 }
    } else {
        Slice::all(channels)
    }
}

fn twin(spec: &Convolution, weights: ConvolutionWeights<'_>, src: &Tensor, residual: &Tensor) -> Tensor {
    let activation = match spec.activation {
        Activation::None => None,
        Activation::Relu => Some(cpu::Activation::Relu),
        Activation::Silu => Some(cpu::Activation::Silu),
        Activation::Gelu => Some(cpu::Activation::Gelu),
        other => panic!("{other:?} has its test elsewhere"),
    };
    let upsampled = (spec.residual == Residual::HalfBefore).then(|| {
        // Of an odd size the last row and column of the upsampled map are not needed.
        let map = upsample2x(residual);
        let (width, height) = spec.output_size((src.width as u32, src.height as u32));
        Tensor::from_fn(width as usize, height as usize, map.channels, |x, y, out| out.copy_from_slice(map.at(x, y)))
    });
    let mut out = cpu::conv2d(
        src,
        &Conv2d {
            weight: weights.weight,
            bias: weights.bias,
            kernel: spec.kernel as usize,
            stride: spec.stride as usize,
            padding: spec.kernel as usize / 2,
            residual: match spec.residual {
                Residual::None | Residual::After => None,
                Residual::Before => Some(residual),
                Residual::HalfBefore => upsampled.as_ref(),
            },
            activation,
        },
    );
    if spec.residual == Residual::After {
        out.add(residual);
    }
    out
}

fn check(context: &Context, spec: &Convolution, tile: &Tile, size: (u32, u32), tolerance: f32) {
    let (cin, cout) = (spec.cin, spec.cout);
    let weight = noise(cout * cin * (spec.kernel * spec.kernel) as usize, 1);
    let bias = noise(cout, 2);
    let weights = ConvolutionWeights { weight: &weight, bias: &bias, slope: &[] };
    let out_size = spec.output_size(size);
    let half = (out_size.0.div_ceil(2), out_size.1.div_ceil(2));
    let src = tensor(size, cin, 3);
    let residual = tensor(if spec.residual == Residual::HalfBefore { half } else { out_size }, cout, 4);
    let want = twin(spec, weights, &src, &residual);

    let [from, to] = [cin, cout].map(|channels| place(spec, channels));
    let (plan, dst) = context
        .gpu
        .scoped(|| {
            let usage = wgpu::BufferUsages::STORAGE;
            let src = context.constant("src", &spec.input.encode(&embed(&src, from)), usage);
            let added = context.constant("residual", &spec.output.encode(&embed(&residual, to)), usage);
            let pixels = (out_size.0 * out_size.1 + to.start, 1);
            let bytes = tensor_bytes(pixels, to.lanes.channels, spec.output) as usize;
            let sevens = spec.output.encode(&vec![7.0; bytes / spec.output.bytes() as usize]);
            let dst = context.constant("dst", &sevens, usage | wgpu::BufferUsages::COPY_SRC);
            let constants = spec.upload(context, "weights", tile, weights);
            let mut plan = PlanBuilder::new(context);
            let added = (spec.residual != Residual::None).then_some(Operand { buffer: &added, slice: to });
            let src = Operand { buffer: &src, slice: from };
            let out = Operand { buffer: &dst, slice: to };
            spec.sliced_step(&mut plan, "convolve", tile, &constants, size, src, out, added)?;
            Ok((plan.build()?, dst))
        })
        .unwrap();
    let got = spec.output.decode(&plan.run_once(context, 0, &dst).unwrap());
    // Everything beside the part is as it was, padding lanes are zero.
    let want = embed(&want, to);
    assert!(got.len() >= want.len());
    let largest = want.iter().fold(1f32, |m, v| m.max(v.abs()));
    for (i, (got, want)) in got.iter().zip(&want).enumerate() {
        assert!((got - want).abs() <= tolerance * largest, "{spec:?} {tile:?} {size:?}: {got} is not {want} at {i}");
    }
}

/// Tiles of every kind that this adapter can run, the staged ones as discrete GPUs would choose them.
fn tiles(gpu: &Gpu, spec: &Convolution, size: (u32, u32)) -> Vec<Tile> {
    let limits = gpu.limits();
    let out = spec.output_size(size);
    let mut tiles = vec![
        spec.plain_tile_on(true, &limits, out),
        spec.plain_tile_on(false, &limits, out),
        Tile::Staged { px_x: 4, px_y: 4, oct: 3, px: 2, nv: 1, ck4: 3 },
    ];
    for (fragment, subgroup) in gstframecast::nn::convolve::matrix_shapes(gpu) {
        tiles.push(spec.matrix_tile(fragment, subgroup, out));
        tiles.push(Tile::Matrix { fragment, subgroup, rows: 2, nt: 2, sr: 2, sn: 1, ck: 2 * fragment });
    }
    tiles.retain(|tile| spec.accepts(tile, &limits));
    tiles
}

fn sweep(storage: Storage, tolerance: f32) {
    let context = Context::new(Gpu::shared(None).unwrap());
    let shapes = [(1, 1), (2, 1), (7, 5), (33, 1), (19, 9)];
    let activations = [Activation::None, Activation::Relu, Activation::Silu, Activation::Gelu];
    let residuals = [Residual::None, Residual::Before, Residual::After, Residual::HalfBefore];
    // Every value of every field, and of the fields that meet in a kernel every pair.
    let mut case = 0;
    for (kernel, stride) in [(1, 1), (1, 2), (3, 1), (3, 2)] {
        for residual in residuals {
            for sliced in [false, true] {
                let (cin, cout) = [(3, 17), (20, 8), (37, 4), (8, 40)][case % 4];
                let spec = Convolution {
                    stride,
                    residual,
                    sliced,
                    activation: activations[(case / 2 + case / 8) % 4],
                    ..Convolution::new(cin, cout, kernel, storage)
                };
                let size = shapes[case % shapes.len()];
                for tile in tiles(&context.gpu, &spec, size) {
                    check(&context, &spec, &tile, size, tolerance);
                }
                case += 1;
            }
        }
    }
}

#[test]
fn f32_kernels() {
    sweep(Storage::F32, 2e-5);
}

#[test]
fn f16_kernels() {
    sweep(Storage::F16, 4e-3);
}

/// Each activation at values where it bends, saturates or overflows.
#[test]
fn activations() {
    let context = Context::new(Gpu::shared(None).unwrap());
    let values = [-1e4, -30.0, -5.0, -1.0, -0.3, -1e-3, 0.0, 1e-3, 0.3, 1.0, 2.5, 30.0, 1e4];
    for (activation, twin) in [
        (Activation::Relu, cpu::Activation::Relu),
        (Activation::Silu, cpu::Activation::Silu),
        (Activation::Gelu, cpu::Activation::Gelu),
    ] {
        let spec = Convolution { activation, ..Convolution::new(1, 1, 1, Storage::F32) };
        let tile = spec.plain_tile(&context.gpu, (1, 1));
        let src: Vec<f32> = values.iter().flat_map(|&v| [v, 0.0, 0.0, 0.0]).collect();
        let (plan, dst) = context
            .gpu
            .scoped(|| {
                let size = (values.len() as u32, 1);
                let src = context.constant("src", bytemuck::cast_slice(&src), wgpu::BufferUsages::STORAGE);
                let dst = context.storage("dst", tensor_bytes(size, 1, Storage::F32));
                let weights = ConvolutionWeights { weight: &[1.0], bias: &[0.0], slope: &[] };
                let constants = spec.upload(&context, "weights", &tile, weights);
                let mut plan = PlanBuilder::new(&context);
                spec.step(&mut plan, "convolve", &tile, &constants, size, &src, &dst, None)?;
                Ok((plan.build()?, dst))
            })
            .unwrap();
        let got = Storage::F32.decode(&plan.run_once(&context, 0, &dst).unwrap());
        for (got, v) in got.iter().step_by(4).zip(values) {
            let want = twin.apply(v);
            assert!((got - want).abs() <= 1e-6 * v.abs().max(1.0), "{activation:?}({v}) is {got}, not {want}");
        }
    }
}

#[test]
fn operands_that_do_not_fit_are_refused() {
    let context = Context::new(Gpu::shared(None).unwrap());
    let spec = Convolution::new(4, 4, 1, Storage::F32);
    let tile = spec.plain_tile(&context.gpu, (1, 1));
    let weights = ConvolutionWeights { weight: &[0.0; 16], bias: &[0.0; 4], slope: &[] };
    let constants = spec.upload(&context, "weights", &tile, weights);
    let buffer = context.storage("tensor", 64);
    let mut plan = PlanBuilder::new(&context);
    let whole = Operand { buffer: &buffer, slice: Slice::all(4) };
    let part = Operand { buffer: &buffer, slice: Slice { start: 1, ..Slice::all(4) } };
    let mut add = |spec: &Convolution, src, residual| {
        spec.sliced_step(&mut plan, "x", &tile, &constants, (1, 1), src, whole, residual)
    };
    assert!(add(&spec, whole, None).is_ok());
    assert!(add(&spec, part, None).is_err());
    assert!(add(&spec, whole, Some(whole)).is_err());
    assert!(add(&Convolution { sliced: true, ..spec }, part, None).is_ok());
}
