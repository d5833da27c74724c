// SPDX-License-Identifier: MIT OR Apache-2.0
//! The detection network on the GPU: every stage against the plain-Rust network, detections against the golden ones,
//! and what a frame may cost.

#[path = "common/rtdetr.rs"]
mod golden;

use std::collections::BTreeMap;
use std::sync::Arc;

use golden::{Golden, assert_same_candidates, folder, matching_rows, rows, worst};
use gstframecast::Error;
use gstframecast::gpu::Gpu;
use gstframecast::gpu::frame::{Color, FrameLayout, PixelFormat, PlaneRef};
use gstframecast::nn::Precision;
use gstframecast::nn::cpu::Tensor;
use gstframecast::rtdetr::postprocess::candidates;
use gstframecast::rtdetr::{
    Analysis, Backend, Candidate, Detector, DetectorConfig, Fit, Forward, Preprocessor, Rect, Reference, RgbImage,
    Weights,
};

/// Of every value, absolute.
const TOLERANCE: f32 = 2e-3;

fn load(name: &str) -> (Arc<Weights>, Golden) {
    (Arc::new(Weights::load(&folder(name)).unwrap()), Golden::load(name))
}

/// For frames of the golden picture's size, at which the network runs.
fn config(weights: &Weights, image: &RgbImage, precision: Precision) -> DetectorConfig {
    let (width, height) = (image.width, image.height);
    let size = Some([width, height]);
    DetectorConfig {
        layout: FrameLayout::new(PixelFormat::Rgb, width as u32, height as u32, Color::default()).unwrap(),
        rect: Rect::whole(width, height),
        preprocessor: Preprocessor::new(&weights.config, &weights.preprocessor, size, Fit::Auto).unwrap(),
        precision,
    }
}

fn backend() -> Backend {
    Backend::Gpu(Gpu::shared(None).unwrap())
}

fn analyse(detector: &mut Detector, image: &RgbImage) -> Analysis {
    detector.analyse(&[PlaneRef { data: &image.data, stride: image.width * 3 }]).unwrap()
}

fn reference(weights: &Weights, image: &RgbImage, config: &DetectorConfig) -> Forward {
    let placement = config.preprocessor.placement(config.rect).unwrap();
    let pixels = config.preprocessor.apply(image, &placement).unwrap();
    Reference::new(weights).forward(&pixels).unwrap()
}

/// Every stage in f32.
fn stages(name: &str) {
    let (weights, golden) = load(name);
    let config = config(&weights, &golden.image, Precision::F32);
    let forward = reference(&weights, &golden.image, &config);
    let mut detector = Detector::observed(weights, &backend(), config).unwrap();
    analyse(&mut detector, &golden.image);
    let mut seen: BTreeMap<String, Tensor> = detector.observe().unwrap().into_iter().collect();
    let mut take = |stage: &str| seen.remove(stage).unwrap_or_else(|| panic!("{name}: {stage} cannot be seen"));

    let check = |stage: &str, got: &Tensor, want: &Tensor| {
        let difference = worst(got, want);
        println!("{name} {stage}: {difference}");
        assert!(difference < TOLERANCE, "{name}: {stage} differs by {difference}");
    };
    check("stem", &take("stem"), &forward.stem);
    for (prefix, maps) in
        [("backbone", &forward.backbone), ("projected", &forward.projected), ("encoder", &forward.encoder)]
    {
        for (level, map) in maps.iter().enumerate() {
            let stage = format!("{prefix}.{level}");
            check(&stage, &take(&stage), map);
        }
    }
    check("memory", &take("memory"), &forward.memory);
    // Where scores tie, the order of queries is free.
    let (logits, boxes) = (take("selected_logits"), take("selected_boxes"));
    let order = matching_rows(&[&logits, &boxes], &[&forward.selected_logits, &forward.selected_boxes]);
    check("selected logits", &rows(&logits, &order), &forward.selected_logits);
    check("selected boxes", &rows(&boxes, &order), &forward.selected_boxes);
    for layer in 0..forward.logits.len() {
        for (prefix, layers) in [("hidden", &forward.hidden), ("logits", &forward.logits), ("boxes", &forward.boxes)] {
            let stage = format!("{prefix}.{layer}");
            check(&stage, &rows(&take(&stage), &order), &layers[layer]);
        }
    }
    assert!(seen.is_empty(), "{name}: not compared: {:?}", seen.keys());
}

/// Intersection over union of boxes given by centre and size.
fn iou(a: [f32; 4], b: [f32; 4]) -> f32 {
    let overlap = |i: usize| {
        let low = (a[i] - a[i + 2] / 2.0).max(b[i] - b[i + 2] / 2.0);
        let high = (a[i] + a[i + 2] / 2.0).min(b[i] + b[i + 2] / 2.0);
        (high - low).max(0.0)
    };
    let both = overlap(0) * overlap(1);
    both / (a[2] * a[3] + b[2] * b[3] - both)
}

/// Checks that each of `want` has a partner of its own in `got`: the same label, scores within 0.02, IoU above 0.95 or,
/// for the boxes thinner than a pixel that untrained networks make, each number within a tenth of a pixel of the
/// network's input (of `side` pixels). Where the scores at the cut tie, the others of them may be in the list.
fn assert_matched(name: &str, got: &[Candidate], want: &[Candidate], side: usize) {
    let mut free = got.to_vec();
    let lowest = want.iter().map(|candidate| candidate.score).fold(f32::INFINITY, f32::min);
    let mut matched = 0;
    for candidate in want {
        let fits = |other: &Candidate| {
            let same = |(a, b): (f32, f32)| (a - b).abs() * (side as f32) < 0.1;
            let near = iou(other.bbox, candidate.bbox) > 0.95 || other.bbox.into_iter().zip(candidate.bbox).all(same);
            other.label == candidate.label && (other.score - candidate.score).abs() < 0.02 && near
        };
        match free.iter().position(fits) {
            Some(i) => {
                free.swap_remove(i);
                matched += 1;
            }
            None => assert!(candidate.score - lowest < 2e-3, "{name}: no match for {candidate:?}"),
        }
    }
    println!("{name}: {matched} of {} match", want.len());
    assert!(matched * 100 >= want.len() * 85, "{name}: only {matched} of {} match", want.len());
}

/// The product's graph (memory shared among tensors), f32 and f16, against what transformers found.
fn detections(name: &str) {
    let (weights, golden) = load(name);
    let want = candidates(&golden.tokens("logits"), &golden.tokens("pred_boxes"));
    assert_eq!(want.len(), weights.config.decoder.queries);

    let single = config(&weights, &golden.image, Precision::F32);
    let mut detector = Detector::new(weights.clone(), &backend(), single).unwrap();
    let found = analyse(&mut detector, &golden.image);
    assert_same_candidates(&found.candidates, &want, TOLERANCE);
    let memory = detector.memory().unwrap();
    assert!(memory.buffer_bytes * 3 < memory.tensor_bytes * 2, "{name}: {memory:?}");

    let half = config(&weights, &golden.image, Precision::F16);
    let mut detector = Detector::new(weights, &backend(), half).unwrap();
    assert_eq!(detector.storage_name(), "f16");
    let found = analyse(&mut detector, &golden.image);
    assert_matched(name, &found.candidates, &want, golden.image.width.max(golden.image.height));
}

macro_rules! folders {
    ($($module:ident: $name:literal),+ $(,)?) => {
        $(mod $module {
            #[test]
            fn stages() {
                super::stages($name);
            }

            #[test]
            fn detections() {
                super::detections($name);
            }
        })+
    };
}

folders! {
    basic: "tiny-basic",
    basic_half_csp: "tiny-basic-half-csp",
    bottleneck: "tiny-bottleneck",
    bottleneck_discrete: "tiny-bottleneck-discrete",
    wide: "wide",
    tall: "tall",
    strided: "strided",
}

/// A frame costs one submit and creates nothing, and leaves nothing behind for the next.
#[test]
fn frames_in_a_row() {
    let (weights, golden) = load("tiny-bottleneck");
    let config = config(&weights, &golden.image, Precision::F32);
    let mut detector = Detector::new(weights, &backend(), config.clone()).unwrap();
    let other = RgbImage { data: golden.image.data.iter().rev().map(|v| v ^ 0x5a).collect(), ..golden.image.clone() };

    let first = analyse(&mut detector, &golden.image);
    let before = detector.counters();
    let second = analyse(&mut detector, &other);
    let third = analyse(&mut detector, &golden.image);
    let after = detector.counters();
    assert_eq!(first.candidates, third.candidates);
    assert_ne!(first.candidates, second.candidates);
    assert_eq!(after.objects_created, before.objects_created);
    assert_eq!(after.submits - before.submits, 2);
    let frame = u64::from(config.layout.width) * u64::from(config.layout.height) * 3;
    assert!(after.bytes_uploaded - before.bytes_uploaded >= 2 * frame);
    // 32 bytes a candidate, and nothing else.
    assert_eq!(after.bytes_read_back - before.bytes_read_back, 2 * 32 * first.candidates.len() as u64);
    assert_eq!(first.gpu_time.is_some(), Gpu::shared(None).unwrap().has_timestamps());
    assert_eq!(first.placement, *detector.placement());
}

/// A part of an NV12 frame, resized and letterboxed: the GPU finds what the CPU finds.
#[test]
fn a_part_of_a_frame() {
    let (weights, _) = load("tiny-basic");
    let (width, height) = (96usize, 70usize);
    let luma: Vec<u8> = (0..width * height).map(|i| ((i * 7) ^ (i / width * 13)) as u8).collect();
    let chroma: Vec<u8> = (0..width * height / 2).map(|i| ((i * 5) ^ (i / width * 29)) as u8).collect();
    let planes = [PlaneRef { data: &luma, stride: width }, PlaneRef { data: &chroma, stride: width }];
    let config = DetectorConfig {
        layout: FrameLayout::new(PixelFormat::Nv12, width as u32, height as u32, Color::default()).unwrap(),
        rect: Rect { x: 5, y: 3, width: 81, height: 50 },
        preprocessor: Preprocessor::new(&weights.config, &weights.preprocessor, Some([64, 96]), Fit::Letterbox)
            .unwrap(),
        precision: Precision::F32,
    };
    let mut gpu = Detector::new(weights.clone(), &backend(), config.clone()).unwrap();
    let mut cpu = Detector::new(weights, &Backend::Cpu, config).unwrap();
    assert_eq!((cpu.adapter_name(), cpu.storage_name()), ("cpu", "f32"));
    let (got, want) = (gpu.analyse(&planes).unwrap(), cpu.analyse(&planes).unwrap());
    assert_eq!(got.placement, want.placement);
    assert!(want.gpu_time.is_none());
    // Pixels may differ by one level of 255.
    assert_same_candidates(&got.candidates, &want.candidates, 2e-2);
    assert_eq!(cpu.counters().objects_created, 0);
}

#[test]
fn what_cannot_run_is_refused() {
    let (weights, golden) = load("tiny-bottleneck");
    let good = config(&weights, &golden.image, Precision::F32);
    let refused = |config: DetectorConfig| Detector::new(weights.clone(), &backend(), config).err().unwrap();
    // 4×4 + 2×2 + 1 places for 30 queries.
    let preprocessor = Preprocessor::new(&weights.config, &weights.preprocessor, Some([32, 32]), Fit::Stretch).unwrap();
    let error = refused(DetectorConfig { preprocessor, ..good.clone() });
    assert!(error.to_string().contains("21 places for 30 queries"), "{error}");
    let error = refused(DetectorConfig { rect: Rect { x: 1, ..good.rect }, ..good.clone() });
    assert!(matches!(error, Error::Usage(_)), "{error}");
    let mut detector = Detector::new(weights.clone(), &backend(), good).unwrap();
    assert!(detector.analyse(&[]).is_err());
    // And goes on.
    assert_eq!(analyse(&mut detector, &golden.image).candidates.len(), weights.config.decoder.queries);
}
