// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every shader variant is valid WGSL and becomes SPIR-V, MSL and HLSL, without a GPU: no machine that tests can run
//! them all. Cooperative matrices become SPIR-V, and MSL at 8×8, the size Metal has; naga writes no HLSL for them.

use std::collections::BTreeMap;

use gstframecast::gpu::Kernel;
use gstframecast::gpu::frame::{Color, FrameLayout, PixelFormat};
use gstframecast::nn::Storage::{self, F16, F32};
use gstframecast::nn::add::Add;
use gstframecast::nn::attention::Attention;
use gstframecast::nn::convolve::{Activation, Convolution, Residual, Tile};
use gstframecast::nn::deconvolve::Deconvolution;
use gstframecast::nn::deform::Deform;
use gstframecast::nn::frames::{Frames, Rounding};
use gstframecast::nn::modulate::Modulation;
use gstframecast::nn::normalize::LayerNorm;
use gstframecast::nn::pick::PickRows;
use gstframecast::nn::place::Place;
use gstframecast::nn::pool::{Pool, PoolKind};
use gstframecast::nn::refine_boxes::{BoxBase, RefineBoxes};
use gstframecast::nn::resize::Resize;
use gstframecast::nn::select::{Rank, SelectCandidates, SelectTokens};
use gstframecast::nn::{Lanes, cpu};
use itertools::iproduct;
use naga::back::{hlsl, msl, spv};
use naga::valid::{Capabilities, ValidationFlags, Validator};
use rayon::prelude::*;

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

/// What a GPU offers in workgroups: more than any tile takes.
fn limits() -> wgpu::Limits {
    wgpu::Limits {
        max_compute_workgroup_storage_size: 48 << 10,
        max_compute_invocations_per_workgroup: 1024,
        ..wgpu::Limits::default()
    }
}

/// The convolutions of the three interpolation graphs, and of the detector.
fn convolutions() -> Vec<Convolution> {
    let mut list = Vec::new();
    let of_ifnet = [(6, 60, 2), (7, 120, 2), (60, 120, 2), (120, 240, 2), (120, 120, 1), (240, 240, 1)];
    for ((cin, cout, stride), residual, storage) in iproduct!(of_ifnet, [Residual::None, Residual::After], [F16, F32]) {
        let activation = Activation::Prelu;
        list.push(Convolution { stride, residual, activation, ..Convolution::new(cin, cout, 3, storage) });
    }
    // The refine head.
    for (cin, cout, activation) in
        [(11, 16, Activation::Prelu), (16, 16, Activation::Prelu), (16, 3, Activation::CentredSigmoid)]
    {
        for storage in [F16, F32] {
            list.push(Convolution { edge: true, activation, output: F32, ..Convolution::new(cin, cout, 3, storage) });
        }
    }
    let shapes = [(3, 32), (64, 64), (256, 80), (4, 6)];
    let activations = [Activation::None, Activation::Relu, Activation::Silu, Activation::Gelu];
    let residuals = [Residual::None, Residual::Before, Residual::After, Residual::HalfBefore];
    let cases = iproduct!([(1, 1), (1, 2), (3, 1), (3, 2)], residuals, [false, true], [F16, F32]);
    for (case, ((kernel, stride), residual, sliced, storage)) in cases.enumerate() {
        let (cin, cout) = shapes[case / 2 % shapes.len()];
        let output = if case % 5 == 0 { F32 } else { storage };
        let activation = activations[case / 3 % activations.len()];
        list.push(Convolution {
            stride,
            residual,
            sliced,
            activation,
            output,
            ..Convolution::new(cin, cout, kernel, storage)
        });
    }
    list
}

fn convolution_kernels() -> Vec<Kernel> {
    let limits = limits();
    let mut kernels = Vec::new();
    for (case, spec) in convolutions().iter().enumerate() {
        let mut tiles = spec.candidates_on(true, &limits, &[(16, 32), (8, 8)]);
        // The tuner's list is long and its members differ by numbers only: every seventh, but never the same ones.
        let mut position = case;
        tiles.retain(|_| {
            position += 1;
            position % 7 == 0
        });
        for size in [(20, 20), (160, 160)] {
            tiles.extend([true, false].map(|is_cpu| spec.plain_tile_on(is_cpu, &limits, size)));
            let matrices = [(16, 32), (8, 8)].map(|(fragment, subgroup)| spec.matrix_tile(fragment, subgroup, size));
            tiles.extend(matrices.iter().filter(|tile| spec.accepts(tile, &limits)));
        }
        kernels.extend(tiles.iter().map(|tile: &Tile| spec.kernel(&format!("{spec:?} {tile:?}"), tile).unwrap()));
    }
    kernels
}

fn frame_kernels() -> Vec<Kernel> {
    let mut kernels = Vec::new();
    for (format, scaled, stretched, left) in iproduct!(FORMATS, [false, true], [false, true], [false, true]) {
        let color = Color { chroma_left: left, ..Color::default() };
        let source = FrameLayout::new(format, 37, 21, color).unwrap();
        let image = if stretched { FrameLayout::new(format, 32, 16, color).unwrap() } else { source.clone() };
        let frames = Frames { source, image, grid: (32, 32), scaled };
        let label = |kernel: &str| format!("{kernel} {format:?} {scaled} {stretched}");
        for storage in [F16, F32] {
            for timestep in [false, true] {
                kernels.push(frames.sample_kernel(&label("sample"), storage, timestep).unwrap());
            }
            kernels.push(frames.gather_kernel(&label("gather"), storage).unwrap());
        }
        for strict in [false, true] {
            kernels.push(frames.guard_kernel(&label("guard"), strict).unwrap());
        }
        for (plane, rounding, residual, guard) in iproduct!(
            0..frames.image.plane_count(),
            [Rounding::Nearest, Rounding::Truncate],
            [false, true],
            [false, true]
        ) {
            kernels.push(frames.warp_kernel(&label("warp"), plane, rounding, residual, guard).unwrap());
        }
    }
    kernels
}

fn resize_kernels(output: Storage) -> Vec<Kernel> {
    let mut kernels = Vec::new();
    for format in FORMATS {
        let resize = Resize {
            layout: FrameLayout::new(format, 20, 20, Color::default()).unwrap(),
            start: [0; 2],
            size: [20; 2],
            resized: [32; 2],
            offset: [0; 2],
            canvas: [32; 2],
            fill: [0.0; 3],
            scale: [1.0; 3],
            shift: [0.0; 3],
            output,
        };
        kernels.push(resize.rows_kernel(&format!("rows {format:?}"), 7).unwrap());
        kernels.push(resize.columns_kernel(&format!("columns {format:?}"), 7).unwrap());
    }
    kernels
}

fn other_kernels() -> Vec<Kernel> {
    let mut kernels = vec![SelectTokens { count: 300, threads: 256 }.kernel("select tokens").unwrap()];
    for s in [F16, F32] {
        kernels.extend(resize_kernels(s));
        for (cin, (pixels, split)) in iproduct!([12, 60, 120, 240], [(8, 8), (32, 2), (64, 1)]) {
            kernels.push(Deconvolution { cin, input: s, pixels, split }.kernel("deconvolve").unwrap());
        }
        for channels in [6, 60, 240] {
            kernels.push(Modulation { channels, storage: s }.kernel("modulate").unwrap());
        }
        for kind in [PoolKind::Max3x3, PoolKind::Mean2x2] {
            kernels.push(Pool { kind, channels: 17, storage: s }.kernel("pool").unwrap());
        }
        for upsample in [false, true] {
            let place = Place { channels: 8, to: Lanes { channels: 16, first: 8 }, upsample, storage: s };
            kernels.push(place.kernel("place").unwrap());
        }
        kernels.push(Add { channels: 8, a: s, b: F32, output: s }.kernel("add").unwrap());
        for (residual, position, masked) in iproduct!([None, Some(s)], [None, Some(F32)], [false, true]) {
            for channels in [18, 256] {
                let norm = LayerNorm { channels, input: s, residual, output: s, position, masked };
                kernels.push(norm.kernel("normalize").unwrap());
            }
        }
        for dim in [6, 32, 48, 128] {
            let lanes = Lanes::all(dim * 4);
            let attention = Attention { heads: 4, dim, q: lanes, k: lanes, v: lanes, input: s, output: s };
            kernels.push(attention.kernel("attend").unwrap());
            for sampling in [cpu::Sampling::Bilinear, cpu::Sampling::Discrete] {
                let deform = Deform {
                    heads: 4,
                    dim,
                    levels: 3,
                    points: 4,
                    sampling,
                    value: lanes,
                    offsets: Lanes::all(96),
                    logits: Lanes::all(48),
                    input: s,
                    mixing: s,
                    output: s,
                };
                kernels.push(deform.kernel("deform").unwrap());
            }
        }
        kernels.push(Rank { classes: 17, input: s }.kernel("rank").unwrap());
        let candidates = SelectCandidates { queries: 300, classes: 17, logits: s, threads: 1024 };
        kernels.push(candidates.kernel("select candidates").unwrap());
        kernels.push(PickRows { channels: 17, input: s, output: F32 }.kernel("pick").unwrap());
        for base in [BoxBase::Boxes, BoxBase::Anchors] {
            kernels.push(RefineBoxes { base, delta: s }.kernel("refine").unwrap());
        }
    }
    kernels
}

fn check(kernel: &Kernel) -> Result<(), String> {
    let Kernel { label, wgsl, bindings, .. } = kernel;
    let failed = |what: &str, error: String| format!("{label}: {what}: {error}");
    let module = naga::front::wgsl::parse_str(wgsl).map_err(|e| failed("parsing", e.emit_to_string(wgsl)))?;
    let info = Validator::new(ValidationFlags::all(), Capabilities::all())
        .validate(&module)
        .map_err(|e| failed("validation", e.emit_to_string(wgsl)))?;
    let bound = module.global_variables.iter().filter(|(_, variable)| variable.binding.is_some()).count();
    if bound != bindings.len() {
        return Err(failed("bindings", format!("{bound} in WGSL, {} declared", bindings.len())));
    }
    let options = spv::Options { lang_version: (1, 4), ..Default::default() };
    spv::write_vec(&module, &info, &options, None).map_err(|e| failed("SPIR-V", e.to_string()))?;
    let matrix = kernel.template == "convolve_matrix.wgsl";
    if !matrix || !wgsl.contains("coop_mat16x16") {
        let options = msl::Options { fake_missing_bindings: true, lang_version: (2, 4), ..Default::default() };
        msl::write_string(&module, &info, &options, &msl::PipelineOptions::default())
            .map_err(|e| failed("MSL", e.to_string()))?;
    }
    if !matrix {
        let shader_model = hlsl::ShaderModel::V6_2;
        let options = hlsl::Options { fake_missing_bindings: true, shader_model, ..Default::default() };
        let (mut text, pipeline) = (String::new(), hlsl::PipelineOptions::default());
        let mut writer = hlsl::Writer::new(&mut text, &options, &pipeline);
        writer.write(&module, &info, None).map_err(|e| failed("HLSL", e.to_string()))?;
    }
    Ok(())
}

#[test]
fn every_variant_is_valid_everywhere() {
    let mut kernels = convolution_kernels();
    kernels.extend(frame_kernels());
    kernels.extend(other_kernels());

    // A shader that is not in the lists above cannot be forgotten.
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("shaders");
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".wgsl") {
            assert!(kernels.iter().any(|kernel| kernel.template == name), "no variant of {name} is checked");
        }
    }
    for coop in ["coop_mat16x16", "coop_mat8x8"] {
        assert!(kernels.iter().any(|kernel| kernel.wgsl.contains(coop)), "no variant with {coop}");
    }

    let distinct: BTreeMap<&str, &Kernel> = kernels.iter().map(|kernel| (kernel.wgsl.as_str(), kernel)).collect();
    let distinct: Vec<&Kernel> = distinct.into_values().collect();
    println!("{} kernels, {} distinct", kernels.len(), distinct.len());
    let failures: Vec<String> = distinct.par_iter().filter_map(|kernel| check(kernel).err()).collect();
    assert!(failures.is_empty(), "{} variants fail, such as {}", failures.len(), failures[0]);
}
