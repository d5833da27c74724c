// SPDX-License-Identifier: MIT OR Apache-2.0
//! The network in plain Rust against transformers, stage by stage.

#[path = "common/rtdetr.rs"]
mod golden;

use std::collections::BTreeMap;
use std::fs;

use golden::{Golden, assert_same_candidates, floats, folder, matching_rows, rows, worst};
use gstframecast::nn::cpu::Tensor;
use gstframecast::rtdetr::postprocess::candidates;
use gstframecast::rtdetr::{
    Cleanup, Fit, Forward, Placement, Postprocessor, Preprocessor, Rect, Reference, RgbImage, Weights,
};
use safetensors::SafeTensors;

const TOLERANCE: f32 = 2e-3;

struct Run {
    weights: Weights,
    golden: Golden,
    placement: Placement,
    forward: Forward,
}

/// A golden picture through preprocessor and network, at its own size.
fn run(name: &str) -> Run {
    let weights = Weights::load(&folder(name)).unwrap();
    let golden = Golden::load(name);
    let size = [golden.image.width, golden.image.height];
    let preprocessor = Preprocessor::new(&weights.config, &weights.preprocessor, Some(size), Fit::Auto).unwrap();
    let placement = preprocessor.placement(Rect::whole(size[0], size[1])).unwrap();
    let pixels = preprocessor.apply(&golden.image, &placement).unwrap();
    let forward = Reference::new(&weights).forward(&pixels).unwrap();
    Run { weights, golden, placement, forward }
}

fn stages(name: &str) {
    let Run { golden, forward, .. } = run(name);
    let check = |stage: String, got: &Tensor, want: &Tensor| {
        let difference = worst(got, want);
        assert!(difference < TOLERANCE, "{name}: {stage} differs by {difference}");
    };
    assert_eq!((forward.backbone.len(), forward.encoder.len()), (3, 3));
    for level in 0..3 {
        check(format!("backbone {level}"), &forward.backbone[level], &golden.map(&format!("backbone.{level}")));
        check(format!("encoder {level}"), &forward.encoder[level], &golden.map(&format!("encoder.{level}")));
    }
    let (logits, boxes) = (golden.tokens("enc_topk_logits"), golden.tokens("enc_topk_bboxes"));
    let order = matching_rows(&[&forward.selected_logits, &forward.selected_boxes], &[&logits, &boxes]);
    check("selected logits".into(), &rows(&forward.selected_logits, &order), &logits);
    check("selected boxes".into(), &rows(&forward.selected_boxes, &order), &boxes);
    let (logits, boxes) = (golden.layers("intermediate_logits"), golden.layers("intermediate_reference_points"));
    assert_eq!((forward.logits.len(), forward.boxes.len()), (logits.len(), boxes.len()), "{name}: layers");
    for (layer, (logits, boxes)) in logits.iter().zip(&boxes).enumerate() {
        check(format!("logits of layer {layer}"), &rows(&forward.logits[layer], &order), logits);
        check(format!("boxes of layer {layer}"), &rows(&forward.boxes[layer], &order), boxes);
    }
    check("logits".into(), &rows(forward.final_logits(), &order), &golden.tokens("logits"));
    check("boxes".into(), &rows(forward.final_boxes(), &order), &golden.tokens("pred_boxes"));
}

fn detections(name: &str) {
    let Run { weights, golden, placement, forward } = run(name);
    let got = candidates(forward.final_logits(), forward.final_boxes());
    let want = candidates(&golden.tokens("logits"), &golden.tokens("pred_boxes"));
    assert_eq!(want.len(), weights.config.decoder.queries);
    assert_same_candidates(&got, &want, TOLERANCE);
    // In pixels of the frame, nothing filtered: as many as there are queries, each where its box says.
    let post = Postprocessor::new(&weights.config.labels).threshold(0.0).cleanup(Cleanup::None);
    let found = post.run(&got, &placement);
    assert_eq!(found.len(), got.len());
    let (width, height) = (golden.image.width as f64, golden.image.height as f64);
    for (detection, candidate) in found.iter().zip(&got) {
        assert_eq!((detection.label, detection.score), (candidate.label, candidate.score));
        let [cx, cy, w, h] = candidate.bbox.map(f64::from);
        let [left, top, right, bottom] = detection.bbox;
        let want = [cx - w / 2.0, cy - h / 2.0, cx + w / 2.0, cy + h / 2.0].map(|v| v.clamp(0.0, 1.0));
        for (got, want) in [left / width, top / height, right / width, bottom / height].iter().zip(want) {
            assert!((got - want).abs() < 1e-9, "{name}: {detection:?} of {candidate:?}");
        }
    }
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
    // Field case 20: inputs that are not square, and E that is not D.
    wide: "wide",
    tall: "tall",
    strided: "strided",
}

#[test]
fn sizes_that_the_network_cannot_take_are_refused() {
    let weights = Weights::load(&folder("tiny-bottleneck")).unwrap();
    let refused = |width, height| {
        let error = Reference::new(&weights).forward(&Tensor::new(width, height, 3)).unwrap_err();
        error.to_string()
    };
    assert!(refused(100, 128).contains("100x128: both sides must be multiples of 32"));
    assert!(refused(0, 32).contains("multiples of 32"));
    // 4×4 + 2×2 + 1 tokens.
    assert!(refused(32, 32).contains("21 places for 30 queries"));
    assert!(Reference::new(&weights).forward(&Tensor::new(64, 32, 3)).is_ok());
}

#[test]
fn not_a_number_in_gives_no_panic() {
    let weights = Weights::load(&folder("tiny-bottleneck-discrete")).unwrap();
    let pixels = Tensor { data: vec![f32::NAN; 64 * 64 * 3], ..Tensor::new(64, 64, 3) };
    let forward = Reference::new(&weights).forward(&pixels).unwrap();
    let found = candidates(forward.final_logits(), forward.final_boxes());
    let post = Postprocessor::new(&weights.config.labels).threshold(0.0);
    let preprocessor = Preprocessor::new(&weights.config, &weights.preprocessor, None, Fit::Auto).unwrap();
    assert_eq!(post.run(&found, &preprocessor.placement(Rect::whole(64, 64)).unwrap()), []);
}

/// What transformers' image processor makes of two pictures under each kind of preprocessor_config.json.
#[test]
fn preprocessing_as_transformers_do() {
    let bytes = fs::read(folder("preprocess.safetensors")).unwrap();
    let vectors = SafeTensors::deserialize(&bytes).unwrap();
    let json = fs::read(folder("preprocess.json")).unwrap();
    let cases: BTreeMap<String, serde_json::Value> = serde_json::from_slice(&json).unwrap();
    assert_eq!(cases.len(), 7);
    let config = Weights::load(&folder("tiny-basic")).unwrap().config;
    for (case, settings) in &cases {
        let settings = serde_json::to_vec(settings).unwrap();
        let settings = config.preprocessor_from_json("preprocessor_config.json", &settings).unwrap();
        let preprocessor = Preprocessor::new(&config, &settings, None, Fit::Auto).unwrap();
        for name in ["landscape", "portrait"] {
            let picture = vectors.tensor(&format!("{name}.image_u8")).unwrap();
            let &[height, width, 3] = picture.shape() else { panic!("{name} is {:?}", picture.shape()) };
            let image = RgbImage { width, height, data: picture.data().to_vec() };
            let placement = preprocessor.placement(Rect::whole(width, height)).unwrap();
            let got = preprocessor.apply(&image, &placement).unwrap();
            let want = vectors.tensor(&format!("{name}.{case}")).unwrap();
            let &[3, height, width] = want.shape() else { panic!("{case} is {:?}", want.shape()) };
            let values = floats(want.data());
            // Where the size is the picture's own, ours is rounded up to what the network can take, with zeros.
            assert_eq!([got.width, got.height], [width, height].map(|n| n.next_multiple_of(32)), "{name}.{case}");
            for y in 0..got.height {
                for x in 0..got.width {
                    for c in 0..3 {
                        let inside = x < width && y < height;
                        let want = if inside { values[(c * height + y) * width + x] } else { 0.0 };
                        let got = got.at(x, y)[c];
                        assert!(
                            (got - want).abs() < 1e-5 * want.abs().max(1.0),
                            "{name}.{case} {x},{y},{c}: {got}, {want}"
                        );
                    }
                }
            }
        }
    }
}
