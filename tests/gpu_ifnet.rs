// SPDX-License-Identifier: MIT OR Apache-2.0
//! The network on the GPU: the golden vectors, and what a frame may cost.

mod common;

use gstframecast::gpu::Gpu;
use gstframecast::gpu::frame::{Color, FrameLayout, PixelFormat, PlaneMut, PlaneRef};
use gstframecast::ifnet::{Config, FrameId, Interpolator, Precision, Rounding, StaticGuard, Weights};

fn interpolator(case: &common::Case, weights: &Weights, precision: Precision) -> Interpolator {
    let layout = FrameLayout::new(PixelFormat::Rgba, case.input_width, case.input_height, Color::default()).unwrap();
    let config = Config {
        precision,
        static_guard: if case.static_guard { StaticGuard::Soft } else { StaticGuard::Off },
        rounding: if case.truncated() { Rounding::Truncate } else { Rounding::Nearest },
        output_size: case.stretched().then_some((case.width, case.height)),
        ..Config::new(layout)
    };
    Interpolator::new(Gpu::shared(None).unwrap(), weights, config).unwrap()
}

fn made_frames(case: &common::Case, weights: &Weights, precision: Precision) -> Vec<Vec<u8>> {
    let mut interpolator = interpolator(case, weights, precision);
    let ids = case.inputs().map(|rgba| {
        let id = FrameId::next();
        interpolator.upload(id, &[PlaneRef { data: &rgba, stride: case.input_width as usize * 4 }]).unwrap();
        id
    });
    interpolator.set_pair(ids[0], ids[1]).unwrap();
    let mut tickets = Vec::new();
    let ts: Vec<f64> = case.outputs.iter().map(|output| output.t).collect();
    for batch in ts.chunks(interpolator.batch_size()) {
        interpolator.submit(batch, &mut tickets).unwrap();
    }
    let read = |ticket| {
        let mut frame = vec![0; (case.width * case.height * 4) as usize];
        let stride = case.width as usize * 4;
        interpolator.read(ticket, &mut [PlaneMut { data: &mut frame, stride }]).unwrap();
        frame
    };
    tickets.into_iter().map(read).collect()
}

fn check(precision: Precision, max: u8, mean: f64) {
    for case in common::cases() {
        let weights = case.weights();
        for (output, got) in case.outputs.iter().zip(made_frames(&case, &weights, precision)) {
            let difference = common::difference(&got, &case.expected(output));
            println!("{} t={} {difference:?}", case.name, output.t);
            assert!(difference.max <= max && difference.mean <= mean, "{} t={}: {difference:?}", case.name, output.t);
        }
    }
}

#[test]
fn goldens_f32() {
    check(Precision::F32, 1, 0.02);
}

#[test]
fn goldens_f16() {
    assert!(Gpu::shared(None).unwrap().has_f16(), "lavapipe and every current GPU have 16-bit floats");
    check(Precision::F16, 12, 0.5);
}
