// SPDX-License-Identifier: MIT OR Apache-2.0
//! The start-up test (field case 10, vapoursynth-rife#67, rife-ncnn-vulkan#41: all made frames green or black on some
//! drivers): whichever kernel a driver gets wrong, there is an error instead of a picture.
//!
//! A program of its own, since it breaks and loses the device that the tests of a program share.

use std::sync::Arc;

use gstframecast::Error;
use gstframecast::gpu::Gpu;
use gstframecast::gpu::frame::{Color, FrameLayout, PixelFormat};
use gstframecast::ifnet::synthetic::GeneratorShape;
use gstframecast::ifnet::{Config, Graph, Interpolator, Precision, Weights};

/// A device of its own whose kernels that begin with `templates` do nothing.
fn broken(templates: &str) -> Arc<Gpu> {
    let gpu = Gpu::shared(None).unwrap();
    gpu.break_for_test(templates);
    gpu
}

#[test]
fn a_broken_kernel_is_found_before_the_first_frame() {
    let shape = GeneratorShape { graph: Graph::Tfact2, c1: 8, c2: 16, film_hidden: 4, refine_channels: 8 };
    let weights = Weights::synthetic(3, shape);
    let build = |gpu: &Arc<Gpu>, precision| {
        let layout = FrameLayout::new(PixelFormat::Nv12, 40, 24, Color::default()).unwrap();
        Interpolator::new(gpu.clone(), &weights, Config { precision, ..Config::new(layout) }).map(|_| ())
    };
    for templates in ["sample", "convolve", "modulate", "deconvolve", "gather", "guard", "warp"] {
        for precision in [Precision::F32, Precision::F16, Precision::Auto] {
            let gpu = broken(templates);
            let error = build(&gpu, precision).unwrap_err();
            assert!(matches!(error, Error::WrongResults { .. }), "{templates}: {error}");
            let text = error.to_string();
            assert!(text.contains(gpu.adapter_name()) && text.contains("start-up test"), "{templates}: {text}");
            // The verdict stands as long as the device.
            assert!(matches!(build(&gpu, precision), Err(Error::WrongResults { .. })), "{templates}");
            gpu.lose_for_test();
        }
    }
    // What is not used cannot be wrong.
    let gpu = broken("attend");
    for precision in [Precision::F32, Precision::F16] {
        build(&gpu, precision).unwrap();
    }
}
