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
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_without_a_driver", "--ignored"])
        .env("VK_DRIVER_FILES", none.path())
        .env("VK_ICD_FILENAMES", none.path())
        .env_remove("VK_ADD_DRIVER_FILES")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success() && text.contains("1 passed"), "{text}{}", String::from_utf8_lossy(&child.stderr));
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
fn frames_beyond_the_adapter_are_refused_or_made() {
    // Whether 16384x16384 fits is up to the adapter: either frames flow, or an error says what does not fit.
    let mut rig = Rig::idle(&[("fps", "50/1")]);
    rig.h.set_sink_caps_str("video/x-raw");
    let caps = gst::Caps::builder("video/x-raw")
        .field("format", "RGBA")
        .field("width", 16384)
        .field("height", 16384)
        .field("framerate", gst::Fraction::new(25, 1))
        .build();
    assert!(rig.h.push_event(gst::event::StreamStart::new("test")));
    if !rig.h.push_event(gst::event::Caps::new(&caps)) {
        let error = rig.error().expect("a posted error");
        assert!(error.message().contains("16384x16384") || error.matches(gst::ResourceError::Failed), "{error:?}");
    }
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

/// The test below runs this in a process of its own: the lost device is shared by a whole process.
#[test]
#[ignore = "run by a_lost_device"]
fn child_with_a_lost_device() {
    let mut rig = Rig::new(&[("fps", "50/1")], "25/1", None);
    rig.push(at_rate(0, 25));
    assert_eq!(rig.push(at_rate(1, 25)).len(), 2);
    gstframecast::gpu::Gpu::shared(None).unwrap().lose_for_test();
    assert_eq!(rig.h.push(at_rate(2, 25)), Err(gst::FlowError::Error));
    let error = rig.error().unwrap();
    assert!(error.matches(gst::ResourceError::Failed), "{error:?}");
    assert!(error.message().contains("lost"), "{error}");
    // The next start opens a new device.
    let mut rig = Rig::new(&[("fps", "50/1")], "25/1", None);
    rig.push(at_rate(0, 25));
    assert_eq!(rig.push(at_rate(1, 25)).len(), 2);
    assert_eq!(rig.counters()[4], 1);
}

#[test]
fn a_lost_device() {
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_with_a_lost_device", "--ignored"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success() && text.contains("1 passed"), "{text}{}", String::from_utf8_lossy(&child.stderr));
}

#[test]
fn many_starts_and_stops() {
    init();
    let pipeline = gst::parse::launch(&format!(
        "{} ! framecastinterp name=f fps=50 ! fakesink",
        source("").replace("num-buffers=5", "num-buffers=3")
    ))
    .unwrap()
    .downcast::<gst::Pipeline>()
    .unwrap();
    for _ in 0..10 {
        assert!(matches!(play(&pipeline), End::Eos));
        assert_eq!(counters(&pipeline.by_name("f").unwrap())[1], 6);
        pipeline.set_state(gst::State::Null).unwrap();
    }
    // And stopped while frames flow.
    let element = pipeline.by_name("f").unwrap();
    for _ in 0..10 {
        pipeline.set_state(gst::State::Playing).unwrap();
        pipeline.set_state(gst::State::Null).unwrap();
        assert_eq!(element.current_state(), gst::State::Null);
    }
    assert!(pipeline.bus().unwrap().pop_filtered(&[gst::MessageType::Error]).is_none());
}
