// SPDX-License-Identifier: MIT OR Apache-2.0
//! What goes wrong, and how `framecastinterp` says so.

mod support;

use std::path::Path;

use gst::prelude::*;
use gstframecast::ifnet::synthetic::GeneratorShape;
use gstframecast::ifnet::{Graph, Weights};
use support::*;

fn source(extra: &str) -> String {
    format!("videotestsrc pattern=ball num-buffers=5 ! video/x-raw,width=32,height=32,framerate=25/1{extra}")
}

/// Runs a pipeline with a model file that is no good.
#[track_caller]
fn with_model(path: &Path) -> gst::glib::Error {
    let (end, counters) =
        run(&format!("{} ! framecastinterp name=f fps=50 model=\"{}\" ! fakesink", source(""), path.display()));
    assert_eq!(counters, [0; 5]);
    end.error()
}

#[test]
fn bad_model_files() {
    let folder = tempfile::tempdir().unwrap();
    let shape = GeneratorShape { graph: Graph::Tfact2, c1: 8, c2: 16, film_hidden: 16, refine_channels: 8 };
    let good = Weights::synthetic(7, shape).to_safetensors().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    // The good one works.
    let path = write("good.safetensors", &good);
    let (end, counters) =
        run(&format!("{} ! framecastinterp name=f fps=50 model=\"{}\" ! fakesink", source(""), path.display()));
    assert!(matches!(end, End::Eos), "{end:?}");
    assert_eq!(counters[4], 4);

    let error = with_model(&folder.path().join("missing.safetensors"));
    assert!(error.matches(gst::ResourceError::NotFound), "{error:?}");
    assert!(error.message().contains("missing.safetensors"), "{error}");

    let error = with_model(&write("empty.safetensors", b""));
    assert!(error.matches(gst::StreamError::Format), "{error:?}");
    assert!(error.message().contains("empty.safetensors"), "{error}");

    let error = with_model(&write("truncated.safetensors", &good[..good.len() - 100]));
    assert!(error.matches(gst::StreamError::Format), "{error:?}");
    assert!(error.message().contains("truncated.safetensors"), "{error}");

    // The header names every tensor and the place of its bytes.
    let header_length = u64::from_le_bytes(good[..8].try_into().unwrap()) as usize;
    let header: serde_json::Value = serde_json::from_slice(&good[8..8 + header_length]).unwrap();
    let tensor = "block0.conv0.1.0.weight";
    let start = 8 + header_length + header[tensor]["data_offsets"][0].as_u64().unwrap() as usize;
    let mut nan = good.clone();
    nan[start..start + 4].copy_from_slice(&f32::NAN.to_le_bytes());
    let error = with_model(&write("nan.safetensors", &nan));
    assert!(error.matches(gst::StreamError::Format), "{error:?}");
    assert!(error.message().contains("nan.safetensors") && error.message().contains(tensor), "{error}");

    let text = String::from_utf8(good[8..8 + header_length].to_vec()).unwrap();
    let shifted = text.replacen("[16,8,3,3]", "[8,16,3,3]", 1);
    assert_ne!(text, shifted, "{text}");
    let mut wrong = good.clone();
    wrong[8..8 + header_length].copy_from_slice(shifted.as_bytes());
    let error = with_model(&write("shifted.safetensors", &wrong));
    assert!(error.matches(gst::StreamError::Format), "{error:?}");
    assert!(error.message().contains("shifted.safetensors") && error.message().contains(tensor), "{error}");
}

#[test]
fn a_model_can_be_replaced_in_ready() {
    init();
    let element = gst::ElementFactory::make("framecastinterp").build().unwrap();
    element.set_state(gst::State::Ready).unwrap();
    assert!(!element.property::<String>("adapter-name").is_empty());
    element.set_property("model", "/nonexistent/model.safetensors");
    assert!(element.set_state(gst::State::Paused).is_err());
    assert_eq!(element.current_state(), gst::State::Ready);
    element.set_property("model", None::<String>);
    element.set_state(gst::State::Paused).unwrap();
    element.set_state(gst::State::Null).unwrap();
    assert_eq!(element.property::<Option<String>>("adapter-name"), None);
}

#[test]
fn an_adapter_that_is_not_there() {
    let (end, _) = run(&format!("{} ! framecastinterp name=f fps=50 adapter=no-such-gpu ! fakesink", source("")));
    let error = end.error();
    assert!(error.matches(gst::ResourceError::NotFound), "{error:?}");
    assert!(error.message().contains("no-such-gpu") && error.message().contains("available"), "{error}");
}

/// The test below runs this in a process that has no Vulkan driver.
#[test]
#[ignore = "run by without_a_driver"]
fn child_without_a_driver() {
    if !process::is_child("child_without_a_driver") {
        return;
    }
    init();
    // The registry's side of the element works.
    let factory = gst::ElementFactory::find("framecastinterp").unwrap();
    assert_eq!(factory.num_pad_templates(), 2);
    let element = factory.create().build().unwrap();
    assert_eq!(element.property::<gst::Fraction>("fps"), gst::Fraction::new(0, 1));
    let (end, _) = run(&format!("{} ! framecastinterp name=f fps=50 ! fakesink", source("")));
    let error = end.error();
    assert!(error.matches(gst::ResourceError::NotFound), "{error:?}");
    assert!(error.message().contains("mesa-vulkan-drivers"), "{error}");
}

#[test]
fn without_a_driver() {
    let none = tempfile::NamedTempFile::new().unwrap();
    let variables = [
        ("VK_DRIVER_FILES", Some(none.path())),
        ("VK_ICD_FILENAMES", Some(none.path())),
        ("VK_ADD_DRIVER_FILES", None),
    ];
    process::child("child_without_a_driver", &variables);
}

#[test]
fn interlaced_video_names_the_element_to_use() {
    let (end, _) =
        run(&format!("{} ! framecastinterp name=f fps=50 ! fakesink", source(",interlace-mode=interleaved")));
    let error = end.error();
    assert!(error.matches(gst::StreamError::Format), "{error:?}");
    assert!(error.message().contains("deinterlace"), "{error}");
}

#[test]
fn conflicting_rates_are_named() {
    let (end, _) =
        run(&format!("{} ! framecastinterp name=f fps=60 ! video/x-raw,framerate=50/1 ! fakesink", source("")));
    let error = end.error();
    assert!(error.matches(gst::CoreError::Negotiation), "{error:?}");
    assert!(error.message().contains("fps=60 ") && error.message().contains("50/1"), "{error}");
    let (end, _) =
        run(&format!("{} ! framecastinterp name=f drop-only=true ! video/x-raw,framerate=50/1 ! fakesink", source("")));
    let error = end.error();
    assert!(error.matches(gst::CoreError::Negotiation), "{error:?}");
    assert!(error.message().contains("50/1") && error.message().contains("drop-only"), "{error}");
}

#[test]
fn a_buffer_that_is_no_frame() {
    let mut rig = Rig::new(&[("fps", "50/1")], "25/1", None);
    rig.push(at_rate(0, 25));
    let mut short = gst::Buffer::with_size(100).unwrap();
    short.get_mut().unwrap().set_pts(ms(40));
    assert_eq!(rig.h.push(short), Err(gst::FlowError::Error));
    let error = rig.error().unwrap();
    assert!(error.matches(gst::StreamError::Format), "{error:?}");
    // Nothing flows after an error, and nothing is said twice.
    assert_eq!(rig.h.push(at_rate(2, 25)), Err(gst::FlowError::Error));
    assert!(rig.error().is_none());
}
