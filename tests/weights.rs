// SPDX-License-Identifier: MIT OR Apache-2.0
//! Weights files: both containers, every graph, and every way in which a file can be wrong.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use gstframecast::error::Error;
use gstframecast::ifnet::synthetic::GeneratorShape;
use gstframecast::ifnet::{Graph, Weights};
use half::{bf16, f16};
use proptest::prelude::*;
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde_json::{Value, json};

/// A tensor to be written.
#[derive(Debug, Clone)]
struct Entry {
    name: String,
    shape: Vec<usize>,
    values: Vec<f32>,
}

fn tiny(graph: Graph) -> Weights {
    Weights::synthetic(5, GeneratorShape { graph, c1: 6, c2: 8, film_hidden: 4, refine_channels: 4 })
}

fn entries(weights: &Weights) -> Vec<Entry> {
    let entry = |(name, shape, values): (_, _, &[f32])| Entry { name, shape, values: values.to_vec() };
    weights.tensors().into_iter().map(entry).collect()
}

fn f32_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn safetensors_as(entries: &[Entry], dtype: Dtype, bytes: impl Fn(&[f32]) -> Vec<u8>) -> Vec<u8> {
    let data: Vec<_> = entries.iter().map(|e| bytes(&e.values)).collect();
    let views = entries
        .iter()
        .zip(&data)
        .map(|(e, data)| (e.name.as_str(), TensorView::new(dtype, e.shape.clone(), data).unwrap()));
    safetensors::serialize(views.collect::<Vec<_>>(), None).unwrap()
}

fn safetensors(entries: &[Entry]) -> Vec<u8> {
    safetensors_as(entries, Dtype::F32, f32_bytes)
}

/// The .bin and the .json.
fn bin_json(entries: &[Entry]) -> (Vec<u8>, Value) {
    let (mut bin, mut layout) = (Vec::new(), serde_json::Map::new());
    for e in entries {
        layout.insert(e.name.clone(), json!({ "shape": e.shape, "offset": bin.len() / 4 }));
        bin.extend(f32_bytes(&e.values));
    }
    (bin, Value::Object(layout))
}

/// Same tensors, whatever the name.
fn assert_same(got: &Weights, want: &Weights) {
    assert_eq!(got.graph(), want.graph());
    for (got, want) in got.tensors().into_iter().zip(want.tensors()) {
        assert!(got == want, "{} differs", want.0);
    }
    assert_eq!(got.tensors().len(), want.tensors().len());
}

/// The reason of `ModelInvalid`.
#[track_caller]
fn invalid(result: Result<Weights, Error>) -> String {
    match result.expect_err("an error") {
        Error::ModelInvalid { reason, .. } => reason,
        other => panic!("not ModelInvalid: {other}"),
    }
}

/// Path, `not_found` and reason of `ModelRead`.
#[track_caller]
fn unreadable(path: &Path) -> (PathBuf, bool, String) {
    match Weights::load(path).expect_err("an error") {
        Error::ModelRead { path, not_found, reason } => (path, not_found, reason),
        other => panic!("not ModelRead: {other}"),
    }
}

#[test]
fn the_generator_reproduces_the_shipped_files() {
    let mut files = 0;
    for case in common::cases() {
        if let Some(path) = case.weights_file() {
            let weights = Weights::load(&path).unwrap();
            assert_same(&weights, &case.weights());
            assert_same(&Weights::load(&path.with_extension("json")).unwrap(), &weights);
            assert_eq!(weights.name(), path.display().to_string());
            files += 1;
        }
    }
    assert_eq!(files, 2);
}

#[test]
fn the_builtin_model() {
    let weights = Weights::builtin().unwrap();
    assert_eq!((weights.graph(), weights.c1(), weights.c2()), (Graph::Tfact2, 60, 120));
    let refine = weights.refine.as_ref().unwrap();
    assert_eq!((refine.channels, weights.film.as_ref().unwrap().hidden), (16, 32));
    assert_eq!(weights.name(), "built-in student_60_120");
    let parameters: usize = weights.tensors().iter().map(|(_, _, values)| values.len()).sum();
    assert_eq!(parameters, 1_131_432);
}

#[test]
fn every_graph_in_every_container() {
    let folder = tempfile::tempdir().unwrap();
    for graph in [Graph::Classic, Graph::Tfact, Graph::Tfact2] {
        let weights = tiny(graph);
        assert_eq!(weights.graph(), graph);
        let path = folder.path().join(format!("{graph}.safetensors"));
        fs::write(&path, weights.to_safetensors().unwrap()).unwrap();
        assert_same(&Weights::load(&path).unwrap(), &weights);
        let (bin, layout) = bin_json(&entries(&weights));
        let path = folder.path().join(format!("{graph}.BIN"));
        fs::write(&path, &bin).unwrap();
        fs::write(path.with_extension("json"), layout.to_string()).unwrap();
        assert_same(&Weights::load(&path).unwrap(), &weights);
    }
}

#[test]
fn half_precision_is_read_exactly() {
    let weights = tiny(Graph::Tfact2);
    type Case = (Dtype, fn(f32) -> [u8; 2], fn(f32) -> f32);
    let cases: [Case; 2] = [
        (Dtype::F16, |v| f16::from_f32(v).to_le_bytes(), |v| f16::from_f32(v).to_f32()),
        (Dtype::BF16, |v| bf16::from_f32(v).to_le_bytes(), |v| bf16::from_f32(v).to_f32()),
    ];
    for (dtype, encode, round) in cases {
        let file = safetensors_as(&entries(&weights), dtype, |v| v.iter().flat_map(|&v| encode(v)).collect());
        let read = Weights::from_safetensors("half", &file).unwrap();
        for ((name, shape, got), (_, want_shape, want)) in read.tensors().into_iter().zip(weights.tensors()) {
            assert_eq!(shape, want_shape, "{dtype} {name}");
            assert!(got.iter().zip(want).all(|(&g, &w)| g == round(w)), "{dtype} {name}");
        }
    }
}

#[test]
fn film_weight_may_be_flat_and_strangers_are_ignored() {
    let weights = tiny(Graph::Tfact2);
    let mut list = entries(&weights);
    list.iter_mut().find(|e| e.name == "film.0.weight").unwrap().shape = vec![4];
    list.push(Entry { name: "teacher.step".into(), shape: vec![], values: vec![7.0] });
    list.push(Entry { name: "block1.conv0.0.0.weight".into(), shape: vec![2, 2], values: vec![f32::NAN; 4] });
    assert_same(&Weights::from_safetensors("flat", &safetensors(&list)).unwrap(), &weights);
    let (bin, layout) = bin_json(&list);
    assert_same(&Weights::from_bin_json("flat", &bin, layout.to_string().as_bytes()).unwrap(), &weights);
}

#[test]
fn every_missing_tensor_is_named() {
    for graph in [Graph::Classic, Graph::Tfact, Graph::Tfact2] {
        let all = entries(&tiny(graph));
        for gone in 0..all.len() {
            let mut list = all.clone();
            let name = list.remove(gone).name;
            let want = format!("tensor {name} is missing");
            assert_eq!(invalid(Weights::from_safetensors("m", &safetensors(&list))), want, "{graph}");
            let (bin, layout) = bin_json(&list);
            assert_eq!(invalid(Weights::from_bin_json("m", &bin, layout.to_string().as_bytes())), want, "{graph}");
        }
    }
}

#[test]
fn every_shape_shifted_tensor_is_named() {
    for graph in [Graph::Classic, Graph::Tfact2] {
        let all = entries(&tiny(graph));
        for (i, original) in all.iter().enumerate() {
            let mut list = all.clone();
            // As many values, another shape: one axis more.
            list[i].shape.insert(0, 1);
            let reason = invalid(Weights::from_safetensors("m", &safetensors(&list)));
            let shifted = &list[i].shape;
            assert!(
                reason.contains(&format!("tensor {} has shape {shifted:?}, expected ", original.name)),
                "{graph} {}: {reason}",
                original.name
            );
        }
    }
}

#[test]
fn shapes_say_what_was_expected() {
    let reshape = |graph, name: &str, shape: &[usize]| {
        let mut list = entries(&tiny(graph));
        let entry = list.iter_mut().find(|e| e.name == name).unwrap();
        entry.shape = shape.to_vec();
        entry.values.resize(shape.iter().product(), 0.5);
        invalid(Weights::from_safetensors("m", &safetensors(&list)))
    };
    assert_eq!(
        reshape(Graph::Classic, "block0.conv0.0.0.weight", &[6, 5, 3, 3]),
        "tensor block0.conv0.0.0.weight has shape [6, 5, 3, 3], expected [C1, 7, 3, 3] (classic) or [C1, 6, 3, 3] \
         (tfact, tfact2)"
    );
    assert_eq!(
        reshape(Graph::Classic, "block0.convblock.3.0.weight", &[8, 6, 3, 3]),
        "tensor block0.convblock.3.0.weight has shape [8, 6, 3, 3], expected [8, 8, 3, 3]"
    );
    assert_eq!(
        reshape(Graph::Classic, "block0.conv0.0.0.bias", &[7]),
        "tensor block0.conv0.0.0.bias has shape [7], expected [6]"
    );
    assert_eq!(
        reshape(Graph::Classic, "block0.lastconv.weight", &[5, 8, 4, 4]),
        "tensor block0.lastconv.weight has shape [5, 8, 4, 4], expected [8, 5, 4, 4]"
    );
    assert_eq!(
        reshape(Graph::Tfact, "film.0.weight", &[4, 2]),
        "tensor film.0.weight has shape [4, 2], expected [N, 1] or [N] and N > 0"
    );
    assert_eq!(
        reshape(Graph::Tfact2, "refine.c1.weight", &[4, 11, 3, 3]),
        "tensor refine.c1.weight has shape [4, 11, 3, 3], expected [4, 4, 3, 3]"
    );
    assert_eq!(
        reshape(Graph::Classic, "block0.conv0.1.0.weight", &[10, 6, 3, 3]),
        "tensor block0.conv0.1.0.weight has C2 = 10 rows, expected C2 to be a multiple of 4"
    );
    assert_eq!(
        reshape(Graph::Tfact2, "refine.c0.weight", &[6, 11, 3, 3]),
        "tensor refine.c0.weight has R = 6 rows, expected R to be a multiple of 4"
    );
    assert_eq!(
        reshape(Graph::Classic, "block0.conv0.0.0.weight", &[0, 7, 3, 3]),
        "tensor block0.conv0.0.0.weight has shape [0, 7, 3, 3], expected [C1, 7, 3, 3] and C1 > 0"
    );
    assert_eq!(
        reshape(Graph::Classic, "block0.conv0.1.0.weight", &[]),
        "tensor block0.conv0.1.0.weight has shape [], expected [C2, 6, 3, 3] and C2 > 0"
    );
}

#[test]
fn graphs_are_not_mixed() {
    let film = entries(&tiny(Graph::Tfact)).into_iter().filter(|e| e.name.starts_with("film."));
    let list: Vec<_> = entries(&tiny(Graph::Classic)).into_iter().chain(film).collect();
    assert_eq!(
        invalid(Weights::from_safetensors("m", &safetensors(&list))),
        "tensor block0.conv0.0.0.weight takes 7 input channels, expected 6 since there are film. tensors"
    );
}

#[test]
fn values_that_are_not_finite_are_named() {
    for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let all = entries(&tiny(Graph::Tfact2));
        for i in 0..all.len() {
            let mut list = all.clone();
            let last = list[i].values.len() - 1;
            list[i].values[last] = value;
            let want = format!("tensor {} holds {value} at element {last}, expected finite values", list[i].name);
            assert_eq!(invalid(Weights::from_safetensors("m", &safetensors(&list))), want);
        }
    }
    let mut list = entries(&tiny(Graph::Classic));
    for e in &mut list {
        e.values.fill(f32::NAN);
    }
    let (bin, layout) = bin_json(&list);
    assert_eq!(
        invalid(Weights::from_bin_json("m", &bin, layout.to_string().as_bytes())),
        "tensor block0.conv0.0.0.weight holds NaN at element 0, expected finite values"
    );
}

#[test]
fn other_element_types_are_refused() {
    let list = entries(&tiny(Graph::Classic));
    let file = safetensors_as(&list, Dtype::I32, f32_bytes);
    assert_eq!(
        invalid(Weights::from_safetensors("m", &file)),
        "tensor block0.conv0.0.0.weight has type I32, expected F32, F16 or BF16"
    );
}

/// A safetensors file with a header of our own.
fn with_header(header: &Value, data: &[u8]) -> Vec<u8> {
    let header = header.to_string();
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), data].concat()
}

#[test]
fn damaged_safetensors_name_the_tensor() {
    let file = safetensors(&entries(&tiny(Graph::Tfact2)));
    assert_eq!(invalid(Weights::from_safetensors("m", &[])), "the file is empty");
    // The crate sorts by name within a type, so this is the last one in the file.
    let reason = invalid(Weights::from_safetensors("m", &file[..file.len() - 1]));
    assert!(reason.starts_with("tensor refine.c3.weight: needs data up to byte "), "{reason}");
    assert!(reason.ends_with("(truncated?)"), "{reason}");
    for length in [1, 7, 8, 9, 100] {
        let reason = invalid(Weights::from_safetensors("m", &file[..length]));
        assert!(reason.starts_with("not a safetensors file: "), "{length}: {reason}");
    }
    let mut longer = file.clone();
    longer.extend([0; 3]);
    assert_eq!(invalid(Weights::from_safetensors("m", &longer)), "3 bytes after the last tensor belong to none");

    let entry =
        |shape: Value, offsets: Value| json!({ "x": { "dtype": "F32", "shape": shape, "data_offsets": offsets } });
    for (header, want) in [
        (entry(json!([3]), json!([0, 8])), "tensor x: shape [3] of F32 needs 12 bytes, the header gives bytes 0..8"),
        (entry(json!([2]), json!([4, 12])), "tensor x: its data starts at byte 4, expected 0"),
        (entry(json!([2]), json!([8, 0])), "tensor x: its data starts at byte 8, expected 0"),
        (
            entry(json!([u64::MAX, 2]), json!([0, 8])),
            "tensor x: shape [18446744073709551615, 2] of F32 is no possible size",
        ),
        (entry(json!([-1]), json!([0, 8])), "tensor x: bad header entry: invalid value: integer `-1`, expected usize"),
        (
            entry(json!("two"), json!([0, 8])),
            "tensor x: bad header entry: invalid type: string \"two\", expected a sequence",
        ),
    ] {
        assert_eq!(invalid(Weights::from_safetensors("m", &with_header(&header, &[0; 8]))), want);
    }
    let overlap = json!({
        "x": { "dtype": "F32", "shape": [2], "data_offsets": [0, 8] },
        "y": { "dtype": "F32", "shape": [2], "data_offsets": [4, 12] },
    });
    assert_eq!(
        invalid(Weights::from_safetensors("m", &with_header(&overlap, &[0; 12]))),
        "tensor y: its data starts at byte 4, expected 8"
    );
    assert_eq!(
        invalid(Weights::from_safetensors("m", &with_header(&json!({}), &[]))),
        "tensor block0.conv0.0.0.weight is missing"
    );
}

#[test]
fn damaged_bin_and_json_name_the_tensor() {
    let list = entries(&tiny(Graph::Classic));
    let (bin, layout) = bin_json(&list);
    let read = |bin: &[u8], layout: &Value| invalid(Weights::from_bin_json("m", bin, layout.to_string().as_bytes()));
    assert_eq!(read(&[], &layout), "the .bin is empty");
    assert_eq!(invalid(Weights::from_bin_json("m", &bin, b"")), "the .json is empty");
    assert_eq!(
        read(&bin[..bin.len() - 1], &layout),
        format!("the .bin has {} bytes, which are not whole float32 values (truncated?)", bin.len() - 1)
    );
    let (values, last) = (bin.len() / 4, bin.len() / 4 - 5);
    assert_eq!(
        read(&bin[..bin.len() - 4], &layout),
        format!(
            "tensor block0.lastconv.bias: shape [5] at offset {last} is not inside the .bin, which has {} values",
            values - 1
        )
    );
    assert!(read(&bin, &json!([1, 2])).starts_with("the .json is not an object of tensors: "));
    let reason = invalid(Weights::from_bin_json("m", &bin, b"{\"block0"));
    assert!(reason.starts_with("the .json is not an object of tensors: "), "{reason}");

    let bias = "block0.lastconv.bias";
    for (entry, want) in [
        (json!({ "shape": [5], "offset": -1 }), "invalid value: integer `-1`, expected usize"),
        (json!({ "shape": [5], "offset": 1.5 }), "invalid type: floating point `1.5`, expected usize"),
        (json!({ "shape": [5] }), "missing field `offset`"),
        (json!({ "shape": [-5], "offset": 0 }), "invalid value: integer `-5`, expected usize"),
        (json!([5]), "invalid type: integer `5`, expected a sequence"),
        (json!({ "shape": [5], "offset": values }), "is not inside the .bin"),
        (json!({ "shape": [5], "offset": u64::MAX }), "is not inside the .bin"),
        (json!({ "shape": [u64::MAX, u64::MAX], "offset": 0 }), "is not inside the .bin"),
        (json!({ "shape": [1u64 << 62], "offset": 0 }), "is not inside the .bin"),
    ] {
        let mut layout = layout.clone();
        layout[bias] = entry.clone();
        let reason = read(&bin, &layout);
        assert!(reason.starts_with(&format!("tensor {bias}: ")) && reason.contains(want), "{entry}: {reason}");
    }

    let mut overlapping = layout.clone();
    overlapping[bias]["offset"] = json!(last - 1);
    assert_eq!(
        read(&bin, &overlapping),
        format!(
            "tensor {bias}: its values {}..{} overlap those of block0.lastconv.weight, {}..{last}",
            last - 1,
            last + 4,
            last - 640
        )
    );
}

#[test]
fn paths_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let file = |name: &str, bytes: &[u8]| {
        fs::write(at(name), bytes).unwrap();
        at(name)
    };

    for name in ["none.safetensors", "none.bin", "none.json", "none.onnx", "none"] {
        assert_eq!(unreadable(&at(name)), (at(name), true, "no such file".into()));
    }
    let plain = file("plain.txt", b"hello");
    assert_eq!(unreadable(&plain.join("x.safetensors")), (plain.join("x.safetensors"), true, "no such file".into()));
    let text = Weights::load(&at("none.bin")).unwrap_err().to_string();
    assert_eq!(text, format!("cannot read model file {}: no such file", at("none.bin").display()));

    let (path, not_found, reason) = unreadable(folder.path());
    assert_eq!((path.as_path(), not_found), (folder.path(), false));
    assert_eq!(reason, "it is a directory; give the file, .safetensors or .bin beside its .json");

    // The other half of a pair.
    let bin = file("alone.bin", &[0; 8]);
    let missing =
        (at("alone.json"), true, "no such file; it is the tensor layout that a .bin needs beside it".to_owned());
    assert_eq!(unreadable(&bin), missing);
    let json = file("lonely.json", b"{}");
    let missing =
        (at("lonely.bin"), true, "no such file; it is the values that a .json layout needs beside it".to_owned());
    assert_eq!(unreadable(&json), missing);

    // A path the system refuses for another reason than absence.
    let (path, not_found, _) = unreadable(Path::new("a\0b.safetensors"));
    assert_eq!((path.as_path(), not_found), (Path::new("a\0b.safetensors"), false));

    for name in ["plain.txt", "model.onnx", "noextension"] {
        let path = file(name, b"hello");
        let error = Weights::load(&path).unwrap_err().to_string();
        assert_eq!(
            error,
            format!("bad model {}: unknown file type; .safetensors is read, or .bin beside its .json", path.display())
        );
    }
    let empty = file("empty.safetensors", b"");
    let error = Weights::load(&empty).unwrap_err().to_string();
    assert_eq!(error, format!("bad model {}: the file is empty", empty.display()));

    let huge = at("huge.safetensors");
    fs::File::create(&huge).unwrap().set_len((1 << 30) + 1).unwrap();
    assert_eq!(unreadable(&huge).2, "1073741825 bytes are more than any model of this kind has");
}

#[cfg(unix)]
#[test]
fn what_is_no_file_or_may_not_be_read_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixListener;

    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket.safetensors");
    let _listener = UnixListener::bind(&socket).unwrap();
    assert_eq!(unreadable(&socket), (socket.clone(), false, "it is not a regular file".into()));

    let secret = folder.path().join("secret.safetensors");
    fs::write(&secret, [0; 8]).unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o0)).unwrap();
    if fs::File::open(&secret).is_err() {
        let (path, not_found, reason) = unreadable(&secret);
        assert_eq!((path, not_found), (secret, false));
        assert!(reason.contains("ermission"), "{reason}");
    } else {
        // The superuser may read everything; then the content is what is refused.
        assert!(invalid(Weights::load(&secret)).starts_with("not a safetensors file"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the bytes, an answer and no panic; a file of noise is never a model.
    #[test]
    fn noise_is_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), json in "\\PC{0,80}") {
        prop_assert!(Weights::from_safetensors("noise", &bytes).is_err());
        prop_assert!(Weights::from_bin_json("noise", &bytes, json.as_bytes()).is_err());
    }

    /// Damage in the header of a good file: refused, or harmless.
    #[test]
    fn damaged_headers_do_not_panic(at in 0usize..4000, byte in any::<u8>(), cut in any::<prop::sample::Index>()) {
        let weights = tiny(Graph::Tfact2);
        let mut file = weights.to_safetensors().unwrap();
        file[at] = byte;
        if let Ok(read) = Weights::from_safetensors("damaged", &file) {
            prop_assert!(read.tensors().iter().all(|(_, _, values)| values.iter().all(|v| v.is_finite())));
        }
        let length = cut.index(file.len());
        prop_assert!(Weights::from_safetensors("cut", &file[..length]).is_err());

        let (bin, layout) = bin_json(&entries(&weights));
        let mut layout = layout.to_string().into_bytes();
        let at = at % layout.len();
        layout[at] = byte;
        if let Ok(read) = Weights::from_bin_json("damaged", &bin, &layout) {
            prop_assert!(read.c2() == 8);
        }
        let length = cut.index(layout.len());
        prop_assert!(Weights::from_bin_json("cut", &bin, &layout[..length]).is_err());
    }
}
