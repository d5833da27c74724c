// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checkpoints: every spelling and container, every tensor missing in turn, and every way in which one can be wrong.

#[path = "common/rtdetr.rs"]
mod golden;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use golden::{Checkpoint, FOLDERS, floats, folder};
use gstframecast::error::Error;
use gstframecast::nn::cpu::{Activation, Sampling, Tensor};
use gstframecast::rtdetr::config::BlockKind;
use gstframecast::rtdetr::{Config, Forward, Reference, Size, Weights};
use half::{bf16, f16};
use safetensors::Dtype;
use serde_json::{Value, json};

const SMALLEST: &str = "wide";

/// The names are those of the file's, the rest must be equal.
#[track_caller]
fn assert_same(got: &Weights, want: &Weights) {
    assert!(got.config == want.config, "config");
    assert!(got.preprocessor == want.preprocessor, "preprocessor");
    assert!(got.backbone == want.backbone, "backbone");
    assert!(got.encoder == want.encoder, "encoder");
    assert!(got.selection == want.selection, "selection");
    assert!(got.decoder == want.decoder, "decoder");
}

/// The reason of `ModelInvalid`.
#[track_caller]
fn invalid<T>(result: Result<T, Error>) -> String {
    match result {
        Err(Error::ModelInvalid { reason, .. }) => reason,
        Err(other) => panic!("not ModelInvalid: {other}"),
        Ok(_) => panic!("no error"),
    }
}

/// `not_found` and the text of `ModelRead`.
#[track_caller]
fn unreadable(path: &Path) -> (bool, String) {
    match Weights::load(path) {
        Err(error @ Error::ModelRead { not_found, .. }) => (not_found, error.to_string()),
        Err(other) => panic!("not ModelRead: {other}"),
        Ok(_) => panic!("no error"),
    }
}

fn forward(weights: &Weights) -> Forward {
    let pixels = Tensor::from_fn(64, 64, 3, |x, y, out| {
        for (c, out) in out.iter_mut().enumerate() {
            *out = ((x * 7 + y * 13 + c * 29) % 97) as f32 / 96.0;
        }
    });
    Reference::new(weights).forward(&pixels).unwrap()
}

/// Every tensor that counts, of a checkpoint.
fn needed(name: &str) -> bool {
    !name.ends_with("num_batches_tracked") && !name.ends_with("n_points_scale") && !name.contains("denoising")
}

#[test]
fn the_golden_checkpoints_have_the_geometry_they_say() {
    let load = |name| Weights::load(&folder(name)).unwrap();
    let bottleneck = load("tiny-bottleneck");
    assert_eq!(bottleneck.name(), folder("tiny-bottleneck").display().to_string());
    assert_eq!(bottleneck.config.classes(), 17);
    assert_eq!(bottleneck.config.labels[10], "LABEL_10");
    assert_eq!(bottleneck.config.backbone.block, BlockKind::Bottleneck);
    assert_eq!(bottleneck.config.anchor_image_size, Some([160, 160]));
    assert_eq!(bottleneck.preprocessor.size, Size::Exact([160, 160]));
    assert_eq!(bottleneck.backbone.stages.iter().map(Vec::len).collect::<Vec<_>>(), [1, 2, 1, 1]);
    let first = &bottleneck.backbone.stages[0][0];
    assert_eq!(
        first.convs.iter().map(|c| (c.cin, c.cout, c.kernel, c.stride)).collect::<Vec<_>>(),
        [(16, 8, 1, 1), (8, 8, 3, 1), (8, 32, 1, 1),]
    );
    assert!(first.shortcut.as_ref().is_some_and(|s| !s.pool && s.conv.stride == 1));
    assert!(bottleneck.backbone.stages[1][0].shortcut.as_ref().is_some_and(|s| s.pool && s.conv.stride == 1));
    assert!(bottleneck.backbone.stages[1][1].shortcut.is_none());
    assert!(bottleneck.encoder.fpn[0].conv3.is_none());
    assert_eq!(bottleneck.decoder.layers[0].cross_attention.point_scale, [0.25; 12]);

    let basic = load("tiny-basic-half-csp");
    assert_eq!(basic.config.backbone.block, BlockKind::Basic);
    assert_eq!(basic.backbone.stages[0][0].convs.len(), 2);
    assert!(basic.backbone.stages[0][0].shortcut.as_ref().is_some_and(|s| !s.pool));
    assert_eq!(basic.config.encoder.csp_hidden, 32);
    assert!(basic.encoder.pan.iter().all(|csp| csp.conv3.as_ref().is_some_and(|c| (c.cin, c.cout) == (32, 64))));

    assert_eq!(load("tiny-bottleneck-discrete").config.decoder.sampling, Sampling::Discrete);
    let wide = load("wide");
    assert_eq!((wide.config.encoder.hidden, wide.config.decoder.hidden, wide.config.decoder.points), (24, 16, 2));
    assert_eq!(wide.decoder.layers[0].cross_attention.point_scale, [0.5; 6]);
    let tall = load("tall");
    assert_eq!(tall.config.encoder.levels, [2, 1]);
    assert_eq!(tall.config.encoder.activation, Activation::Silu);
    assert!(tall.config.encoder.normalize_before);
    let strides =
        |block: &gstframecast::rtdetr::weights::Block| block.convs.iter().map(|c| c.stride).collect::<Vec<_>>();
    assert_eq!(strides(&tall.backbone.stages[1][0]), [2, 1, 1]);
    assert_eq!(strides(&wide.backbone.stages[1][0]), [1, 2, 1]);
    let strided = load("strided");
    assert_eq!(strided.config.input_multiple(), 64);
    assert_eq!(strided.config.encoder.position_temperature, None);
    // Basic blocks of equal channels project without a pool.
    assert!(strided.backbone.stages[1][0].shortcut.as_ref().is_some_and(|s| !s.pool && s.conv.stride == 2));
}

/// Field case 24: each tensor missing in turn is an error that names it.
#[test]
fn each_tensor_missing_in_turn_is_named() {
    for name in ["wide", "strided", "tiny-bottleneck"] {
        let checkpoint = Checkpoint::load(name);
        let (config, preprocessor) = checkpoint.geometry();
        let load = |bytes: &[u8]| Weights::from_safetensors("model", config.clone(), preprocessor.clone(), bytes);
        let complete = load(&checkpoint.safetensors(|_| true)).unwrap();
        let mut dropped = 0;
        for (missing, entry) in &checkpoint.tensors {
            let result = load(&checkpoint.safetensors(|other| other != missing));
            if needed(missing) {
                let reason = invalid(result);
                assert!(reason.starts_with(&format!("tensor {missing} is missing")), "{name}: {reason}");
                assert!(reason.ends_with(&format!("expected shape {:?}", entry.shape)), "{name}: {reason}");
                dropped += 1;
            } else {
                assert_same(&result.unwrap(), &complete);
            }
        }
        assert!(dropped > 300, "{name}: {dropped}");
    }
}

#[test]
fn each_tensor_of_another_shape_or_not_finite_is_named() {
    let checkpoint = Checkpoint::load(SMALLEST);
    for name in checkpoint.tensors.keys().filter(|name| needed(name)) {
        let entry = &checkpoint.tensors[name];
        let mut wrong = checkpoint.clone();
        // One more row of a tensor, by all its other axes.
        let row = entry.bytes.len() / entry.shape[0];
        let longer = wrong.tensors.get_mut(name).unwrap();
        longer.shape[0] += 1;
        longer.bytes.extend(&entry.bytes[..row]);
        let reason = invalid(wrong.weights());
        let shape = &wrong.tensors[name].shape;
        if name.contains("class_embed.") || name.contains("enc_score_head") {
            assert!(reason.starts_with(&format!("tensor {name} ")) && reason.contains("expected "), "{reason}");
        } else {
            assert_eq!(reason, format!("tensor {name} has shape {shape:?}, expected {:?}", entry.shape));
        }

        let mut wrong = checkpoint.clone();
        let at = (entry.bytes.len() / 4 - 1) * 4;
        wrong.tensors.get_mut(name).unwrap().bytes[at..].copy_from_slice(&f32::NAN.to_le_bytes());
        let reason = invalid(wrong.weights());
        assert_eq!(reason, format!("tensor {name} holds NaN at element {}, expected finite values", at / 4));
    }
    let mut wrong = checkpoint.clone();
    let infinite = wrong.tensors.get_mut("model.enc_score_head.bias").unwrap();
    infinite.bytes[..4].copy_from_slice(&f32::NEG_INFINITY.to_le_bytes());
    assert!(invalid(wrong.weights()).contains("holds -inf at element 0"));
    // The buffer is checked where it is there.
    let scale = "model.decoder.layers.1.encoder_attn.n_points_scale";
    let mut wrong = checkpoint.clone();
    let buffer = wrong.tensors.get_mut(scale).unwrap();
    buffer.shape = vec![2, 3];
    assert!(invalid(wrong.weights()).contains(&format!("tensor {scale} has shape [2, 3], expected [6]")));
}

#[test]
fn unusable_numbers_and_types_are_named() {
    let checkpoint = Checkpoint::load(SMALLEST);
    let norm = "model.encoder_input_proj.1.1";
    let with = |changes: &[(&str, f32)]| {
        let mut wrong = checkpoint.clone();
        for (part, value) in changes {
            let entry = wrong.tensors.get_mut(&format!("{norm}.{part}")).unwrap();
            entry.bytes[..4].copy_from_slice(&value.to_le_bytes());
        }
        invalid(wrong.weights())
    };
    let reason = with(&[("running_var", -1.0)]);
    assert!(reason.contains(&format!("tensor {norm}.running_var holds -1 at element 0")), "{reason}");
    let reason = with(&[("running_var", 0.0), ("weight", f32::MAX)]);
    assert!(reason.contains("tensor model.encoder_input_proj.1.0.weight") && reason.contains("overflows"), "{reason}");
    let mut wrong = checkpoint.clone();
    let entry = wrong.tensors.get_mut("model.enc_output.0.bias").unwrap();
    entry.dtype = Dtype::I32;
    assert_eq!(invalid(wrong.weights()), "tensor model.enc_output.0.bias has type I32, expected F32, F16 or BF16");
    // hidden_expansion and the tensors must agree.
    let mut wrong = checkpoint.clone();
    wrong.config["hidden_expansion"] = json!(1.0);
    let reason = invalid(wrong.weights());
    assert!(reason.contains("tensor model.encoder.fpn_blocks.0.conv3.conv.weight exists"), "{reason}");
    // As many classes as names (field case 25).
    let mut wrong = checkpoint.clone();
    wrong.config["id2label"] = json!({"0": "a", "1": "b"});
    let reason = invalid(wrong.weights());
    assert!(reason.contains("enc_score_head.weight is for 3 classes, expected 2"), "{reason}");
}

/// Field case 24: every alias spelling of the heads gives the same output.
#[test]
fn the_heads_under_each_of_their_names() {
    let checkpoint = Checkpoint::load("tiny-bottleneck-discrete");
    let want = checkpoint.weights().unwrap();
    let output = forward(&want);
    let head =
        |name: &str| name.strip_prefix("model.decoder.").filter(|head| head.contains("_embed.")).map(str::to_owned);
    assert_eq!(checkpoint.tensors.keys().filter(|name| head(name).is_some()).count(), 2 * (2 + 6));
    let outside = checkpoint.renamed(|name| head(name).unwrap_or(name.into()));
    let only =
        |kind: &str| checkpoint.renamed(|name| head(name).filter(|h| h.starts_with(kind)).unwrap_or(name.into()));
    // A different alias for each index, as a save that drops tied copies leaves them.
    let mixed = checkpoint.renamed(|name| head(name).filter(|h| h.contains("_embed.1.")).unwrap_or(name.into()));
    let mut both = checkpoint.clone();
    both.tensors.extend(outside.tensors.clone());
    for (spelling, copy) in
        [("outside", &outside), ("class", &only("class")), ("bbox", &only("bbox")), ("mixed", &mixed), ("both", &both)]
    {
        let got = copy.weights().unwrap_or_else(|error| panic!("{spelling}: {error}"));
        assert_same(&got, &want);
        assert!(forward(&got) == output, "{spelling}");
    }
    assert_ne!(outside.tensors.keys().collect::<Vec<_>>(), checkpoint.tensors.keys().collect::<Vec<_>>());

    // Copies that differ are no copies.
    let name = "class_embed.0.bias";
    both.tensors.get_mut(name).unwrap().bytes[0] ^= 1;
    let reason = invalid(both.weights());
    assert!(reason.contains(name) && reason.contains("model.decoder.class_embed.0.bias"), "{reason}");
    // What is missing under both names is named with both.
    let mut missing = outside.clone();
    missing.tensors.remove("bbox_embed.1.layers.2.weight");
    let reason = invalid(missing.weights());
    let want = "tensor model.decoder.bbox_embed.1.layers.2.weight is missing (also as bbox_embed.1.layers.2.weight)";
    assert!(reason.starts_with(want), "{reason}");
}

#[test]
fn the_spellings_of_transformers_5() {
    for name in ["tall", "tiny-basic"] {
        let checkpoint = Checkpoint::load(name);
        let want = checkpoint.weights().unwrap();
        let rename = |name: &str| {
            let mut name = name.replace(".self_attn.out_proj.", ".self_attn.o_proj.");
            name = name.replace("model.encoder.encoder.", "model.encoder.aifi.");
            name.replace(".fc1.", ".mlp.fc1.").replace(".fc2.", ".mlp.fc2.")
        };
        let renamed = checkpoint.renamed(rename);
        let changed = renamed.tensors.keys().filter(|name| !checkpoint.tensors.contains_key(*name)).count();
        assert!(changed > 20, "{changed}");
        assert_same(&renamed.weights().unwrap(), &want);
        // Each of the three on its own.
        for part in [".o_proj.", ".aifi.", ".mlp."] {
            let one = checkpoint.renamed(|name| {
                let renamed = rename(name);
                match part {
                    ".o_proj." => name.replace(".self_attn.out_proj.", ".self_attn.o_proj."),
                    ".aifi." => name.replace("model.encoder.encoder.", "model.encoder.aifi."),
                    _ if renamed.contains(part) => name.replace(".fc", ".mlp.fc"),
                    _ => name.into(),
                }
            });
            assert!(one.tensors.keys().any(|name| name.contains(part)), "{part}");
            assert_same(&one.weights().unwrap(), &want);
        }
        let mut missing = renamed.clone();
        missing.tensors.remove("model.encoder.aifi.0.layers.0.self_attn.o_proj.bias").expect("the tensor");
        let reason = invalid(missing.weights());
        assert!(reason.contains("model.encoder.encoder.0.layers.0.self_attn.out_proj.bias is missing"), "{reason}");
        assert!(reason.contains("also as model.encoder.aifi.0.layers.0.self_attn.o_proj.bias"), "{reason}");
    }
}

#[test]
fn sixteen_bit_copies() {
    let checkpoint = Checkpoint::load("tiny-bottleneck-discrete");
    for (dtype, round) in
        [(Dtype::F16, (|v| f16::from_f32(v).to_f32()) as fn(f32) -> f32), (Dtype::BF16, |v| bf16::from_f32(v).to_f32())]
    {
        // The same as float32 weights that were rounded before.
        let mut rounded = checkpoint.clone();
        for entry in rounded.tensors.values_mut().filter(|entry| entry.dtype == Dtype::F32) {
            entry.bytes = floats(&entry.bytes).into_iter().flat_map(|v| round(v).to_le_bytes()).collect();
        }
        let got = checkpoint.stored_as(dtype).weights().unwrap();
        assert_same(&got, &rounded.weights().unwrap());
        assert!(got.selection != checkpoint.weights().unwrap().selection, "{dtype:?} rounds");
    }
}

/// Splits a checkpoint into two shards and an index.
fn shard(checkpoint: &Checkpoint, folder: &Path) {
    checkpoint.write_config(folder);
    let shards = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];
    let half = checkpoint.tensors.len() / 2;
    let of: BTreeMap<&str, usize> =
        checkpoint.tensors.keys().enumerate().map(|(i, name)| (name.as_str(), usize::from(i >= half))).collect();
    for (i, shard) in shards.iter().enumerate() {
        fs::write(folder.join(shard), checkpoint.safetensors(|name| of[name] == i)).unwrap();
    }
    let map: BTreeMap<&str, &str> = of.iter().map(|(name, &i)| (*name, shards[i])).collect();
    write_json(&folder.join("model.safetensors.index.json"), &json!({ "metadata": {}, "weight_map": map }));
}

fn write_json(path: &Path, value: &Value) {
    fs::write(path, serde_json::to_vec(value).unwrap()).unwrap();
}

#[test]
fn folders_files_and_indices() {
    let checkpoint = Checkpoint::load(SMALLEST);
    let want = checkpoint.weights().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    checkpoint.write(path);
    assert_same(&Weights::load(path).unwrap(), &want);
    assert_same(&Weights::load(&path.join("model.safetensors")).unwrap(), &want);
    fs::rename(path.join("model.safetensors"), path.join("heron.safetensors")).unwrap();
    assert_same(&Weights::load(&path.join("heron.safetensors")).unwrap(), &want);
    let (not_found, text) = unreadable(path);
    assert!(not_found && text.contains("neither model.safetensors nor model.safetensors.index.json"), "{text}");

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    shard(&checkpoint, path);
    let index = path.join("model.safetensors.index.json");
    assert_same(&Weights::load(path).unwrap(), &want);
    assert_same(&Weights::load(&index).unwrap(), &want);
    // One shard alone is not the model.
    let reason = invalid(Weights::load(&path.join("model-00001-of-00002.safetensors")));
    assert!(reason.contains("is missing"), "{reason}");
    // Wrong indices.
    let good: Value = serde_json::from_slice(&fs::read(&index).unwrap()).unwrap();
    let with = |change: &dyn Fn(&mut Value)| {
        let mut changed = good.clone();
        change(&mut changed);
        write_json(&index, &changed);
        match Weights::load(path) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("no error"),
        }
    };
    let bias = "model.encoder_input_proj.2.1.bias";
    let moved = with(&|index| index["weight_map"][bias] = json!("model-00001-of-00002.safetensors"));
    assert!(moved.contains(&format!("tensor {bias} is not in model-00001-of-00002.safetensors")), "{moved}");
    let absent = with(&|index| index["weight_map"][bias] = json!("model-00003-of-00002.safetensors"));
    assert!(absent.contains("model-00003-of-00002.safetensors: no such file; it is a shard"), "{absent}");
    for outside in ["../model.safetensors", "/model.safetensors", "a/b.safetensors", ".."] {
        let text = with(&|index| index["weight_map"][bias] = json!(outside));
        assert!(text.contains("no plain file name"), "{outside}: {text}");
    }
    let unlisted = with(&|index| drop(index["weight_map"].as_object_mut().unwrap().remove(bias)));
    assert!(unlisted.contains(&format!("tensor {bias} is missing")), "{unlisted}");
    fs::write(&index, "{}").unwrap();
    assert!(invalid(Weights::load(path)).contains("not an index of safetensors files"));
}

#[test]
fn files_that_are_none() {
    let checkpoint = Checkpoint::load(SMALLEST);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let file = path.join("model.safetensors");
    assert!(unreadable(&path.join("nothing")).0);
    fs::write(&file, checkpoint.safetensors(|_| true)).unwrap();
    let (not_found, text) = unreadable(path);
    assert!(not_found && text.contains("config.json") && text.contains("the geometry"), "{text}");
    checkpoint.write(path);
    let bytes = fs::read(&file).unwrap();
    for length in [0, 7, 100, bytes.len() / 2, bytes.len() - 1] {
        fs::write(&file, &bytes[..length]).unwrap();
        let reason = invalid(Weights::load(path));
        let want = if length == 0 { "the file is empty" } else { "not a whole safetensors file" };
        assert!(reason.contains(want), "{length}: {reason}");
    }
    fs::write(path.join("model.bin"), &bytes).unwrap();
    assert!(invalid(Weights::load(&path.join("model.bin"))).contains("unknown file type"));
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert!(unreadable(path).1.contains("not a regular file"));
}

#[test]
fn the_preprocessor_beside_the_weights() {
    let checkpoint = Checkpoint::load(SMALLEST);
    let folder = tempfile::tempdir().unwrap();
    checkpoint.write(folder.path());
    let path = folder.path().join("preprocessor_config.json");
    write_json(
        &path,
        &json!({"size": {"height": 64, "width": 96}, "do_normalize": false, "image_mean": [0.5, 0.5, 0.5]}),
    );
    let weights = Weights::load(folder.path()).unwrap();
    assert_eq!(weights.preprocessor.size, Size::Exact([96, 64]));
    assert_eq!((weights.preprocessor.scale, weights.preprocessor.offset), ([1.0 / 255.0; 3], [0.0; 3]));
    write_json(&path, &json!({"size": {"height": 65, "width": 96}}));
    let error = Weights::load(folder.path()).unwrap_err().to_string();
    assert!(error.contains("preprocessor_config.json") && error.contains("96x65 is no multiple of 32"), "{error}");
    // Without one: the anchors' size, else 640×640.
    fs::remove_file(&path).unwrap();
    let mut checkpoint = checkpoint;
    checkpoint.config["anchor_image_size"] = Value::Null;
    checkpoint.write(folder.path());
    assert_eq!(Weights::load(folder.path()).unwrap().preprocessor.size, Size::Exact([640, 640]));
    checkpoint.config["anchor_image_size"] = json!([320, 480]);
    checkpoint.write(folder.path());
    assert_eq!(Weights::load(folder.path()).unwrap().preprocessor.size, Size::Exact([480, 320]));
}

fn config(value: &Value) -> Result<Config, Error> {
    Config::from_json("config.json", &serde_json::to_vec(value).unwrap())
}

#[test]
fn omitted_keys_take_the_defaults_of_transformers() {
    let bare = config(&json!({"model_type": "rt_detr_v2"})).unwrap();
    assert_eq!(bare.labels, ["LABEL_0", "LABEL_1"]);
    let backbone = &bare.backbone;
    assert_eq!((backbone.embedding_size, backbone.block), (64, BlockKind::Bottleneck));
    assert_eq!((backbone.hidden_sizes, backbone.depths), ([256, 512, 1024, 2048], [3, 4, 6, 3]));
    assert_eq!(backbone.activation, Activation::Relu);
    let encoder = &bare.encoder;
    assert_eq!((encoder.hidden, encoder.ffn, encoder.heads, encoder.layers), (256, 1024, 8, 1));
    assert_eq!((&encoder.levels[..], encoder.csp_hidden), (&[2][..], 256));
    assert_eq!((encoder.activation, encoder.conv_activation), (Activation::Gelu, Activation::Silu));
    assert_eq!(encoder.position_temperature, Some(10000.0));
    let decoder = &bare.decoder;
    assert_eq!((decoder.hidden, decoder.ffn, decoder.heads, decoder.layers), (256, 1024, 8, 6));
    assert_eq!((decoder.queries, decoder.points, decoder.offset_scale), (300, 4, 0.5));
    assert_eq!((decoder.sampling, decoder.activation), (Sampling::Bilinear, Activation::Relu));
    assert_eq!((bare.layer_norm_eps, bare.batch_norm_eps, bare.anchor_image_size), (1e-5, 1e-5, None));
    assert_eq!(bare.input_multiple(), 32);
    // null is as good as omitted, and the class name as good as the model type.
    let nulls = json!({
        "architectures": ["RTDetrV2ForObjectDetection"], "backbone_config": null, "eval_size": null, "d_model": null,
        "anchor_image_size": null, "id2label": null, "num_labels": 2, "backbone": null, "use_timm_backbone": false
    });
    assert_eq!(config(&nulls).unwrap(), bare);
    let heron101 = json!({
        "model_type": "rt_detr_v2", "encoder_hidden_dim": 384, "encoder_ffn_dim": 2048,
        "decoder_in_channels": [384, 384, 384], "backbone_config": {"depths": [3, 4, 23, 3]}, "hidden_expansion": 0.5
    });
    let heron101 = config(&heron101).unwrap();
    assert_eq!((heron101.encoder.hidden, heron101.encoder.csp_hidden, heron101.decoder.hidden), (384, 192, 256));
}

/// Field case 25: the keys of id2label are numbers, not texts.
#[test]
fn labels_are_sorted_by_number() {
    let labels = |value: Value| config(&json!({"model_type": "rt_detr_v2", "id2label": value}));
    let twelve: BTreeMap<String, String> = (0..12).map(|i| (i.to_string(), format!("class {i}"))).collect();
    let got = labels(json!(twelve)).unwrap().labels;
    assert_eq!(got, (0..12).map(|i| format!("class {i}")).collect::<Vec<_>>());
    assert_eq!(labels(json!({"1": "b", "0": "a"})).unwrap().labels, ["a", "b"]);
    for (value, want) in [
        (json!({"0": "a", "10": "b", "2": "c"}), "has 3 names but none for class 1"),
        (json!({"0": "a", "00": "b"}), "names class 0 twice"),
        (json!({"zero": "a"}), "the key \"zero\""),
        (json!({}), "has 0 names"),
        (json!(["a"]), "id2label is [\"a\"]"),
        (json!({"0": 7}), "id2label"),
    ] {
        let reason = invalid(labels(value));
        assert!(reason.contains(want), "{reason}");
    }
    let both = json!({"model_type": "rt_detr_v2", "id2label": {"0": "a"}, "num_labels": 2});
    assert!(invalid(config(&both)).contains("has 1 names, num_labels says 2"));
}

#[test]
fn other_networks_and_variants_are_refused_with_a_sentence() {
    for (value, want) in [
        (json!({"model_type": "rt_detr"}), "RT-DETR version 1"),
        (json!({"architectures": ["RTDetrForObjectDetection"]}), "RT-DETR version 1"),
        (json!({"model_type": "d_fine"}), "D-FINE"),
        (json!({"architectures": ["DFineForObjectDetection"]}), "D-FINE"),
        (json!({"model_type": "detr"}), "model_type is \"detr\", expected \"rt_detr_v2\""),
        (json!({}), "model_type is missing"),
    ] {
        let reason = invalid(config(&value));
        assert!(reason.contains(want), "{value}: {reason}");
    }
    for (key, value, want) in [
        ("num_feature_levels", json!(4), "num_feature_levels is 4, only 3"),
        ("decoder_n_levels", json!(4), "decoder_n_levels is 4, only 3"),
        ("learn_initial_query", json!(true), "learn_initial_query is true"),
        ("with_box_refine", json!(false), "with_box_refine is false"),
        ("use_timm_backbone", json!(true), "timm"),
        ("backbone", json!("resnet50"), "backbone is \"resnet50\""),
        ("quantization_config", json!({"quant_method": "bitsandbytes"}), "bitsandbytes"),
        ("backbone_config", json!({"model_type": "hgnet_v2"}), "backbone_config.model_type is \"hgnet_v2\""),
        ("backbone_config", json!({"num_channels": 1}), "backbone_config.num_channels is 1"),
        ("backbone_config", json!({"layer_type": "wide"}), "backbone_config.layer_type"),
        ("backbone_config", json!({"depths": [3, 4, 6]}), "backbone_config.depths"),
        ("backbone_config", json!({"depths": [3, 4, 0, 3]}), "backbone_config.depths"),
        ("backbone_config", json!({"hidden_act": "tanh"}), "backbone_config.hidden_act is \"tanh\""),
        ("backbone_config", json!({"out_features": ["stage4"]}), "backbone_config.out_features"),
        ("backbone_config", json!({"out_indices": [1, 2, 3]}), "backbone_config.out_features"),
        ("backbone_config", json!({"embedding_size": 7}), "an even number"),
        ("backbone_config", json!({"layer_type": "basic"}), "expected embedding_size, 64"),
        ("backbone_config", json!(7), "backbone_config is 7, expected an object"),
        ("encoder_hidden_dim", json!("wide"), "encoder_hidden_dim is \"wide\""),
        ("encoder_hidden_dim", json!(384), "decoder_in_channels are [256, 256, 256], expected encoder_hidden_dim, 384"),
        ("encoder_hidden_dim", json!(0), "encoder_hidden_dim is 0"),
        ("encoder_attention_heads", json!(7), "does not divide the 256 channels"),
        ("decoder_attention_heads", json!(0), "decoder_attention_heads is 0"),
        ("encoder_in_channels", json!([512, 1024]), "encoder_in_channels is [512, 1024]"),
        ("encode_proj_layers", json!([3]), "encode_proj_layers are [3]"),
        ("encode_proj_layers", json!([1, 1]), "expected distinct levels"),
        ("hidden_expansion", json!(0), "hidden_expansion of 0 makes 0 channels"),
        ("hidden_expansion", json!(-1), "hidden_expansion"),
        ("positional_encoding_temperature", json!(0), "positional_encoding_temperature is 0"),
        ("decoder_method", json!("nearest"), "decoder_method is \"nearest\""),
        ("decoder_n_points", json!([4, 4, 4]), "decoder_n_points is [4,4,4]"),
        ("num_queries", json!(0), "num_queries is 0"),
        ("decoder_layers", json!(-1), "decoder_layers is -1"),
        ("layer_norm_eps", json!(0), "layer_norm_eps is 0"),
        ("activation_function", json!("mish"), "activation_function is \"mish\""),
        ("activation_function", Value::Null, "activation_function is null"),
        ("anchor_image_size", json!([0, 640]), "anchor_image_size is [0, 640]"),
        ("num_labels", json!(0), "num_labels is 0"),
    ] {
        let mut changed = json!({"model_type": "rt_detr_v2"});
        changed[key] = value;
        let reason = invalid(config(&changed));
        assert!(reason.contains(want), "{changed}: {reason}");
    }
    for text in ["", "[]", "{", "null"] {
        assert!(invalid(Config::from_json("config.json", text.as_bytes())).contains("not a JSON object"), "{text:?}");
    }
}

#[test]
fn nothing_else_in_the_file_matters() {
    for name in FOLDERS {
        let checkpoint = Checkpoint::load(name);
        let mut more = checkpoint.clone();
        let mut stray = more.tensors["model.denoising_class_embed.weight"].clone();
        stray.bytes[..4].copy_from_slice(&f32::NAN.to_le_bytes());
        more.tensors.insert("model.denoising_class_embed.weight".into(), stray.clone());
        more.tensors.insert("something.else".into(), stray);
        assert_same(&more.weights().unwrap(), &checkpoint.weights().unwrap());
    }
}
