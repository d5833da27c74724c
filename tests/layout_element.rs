// SPDX-License-Identifier: MIT OR Apache-2.0
//! `rtdetrlayout` on the golden checkpoints: messages, metas, settings, errors, starts and stops.

#[path = "common/rtdetr.rs"]
mod golden;
mod support;

use std::cell::RefCell;
use std::path::Path;
use std::sync::Once;

use golden::{Checkpoint, Golden, assert_same_candidates, floats, folder};
use gst::prelude::*;
use gst_video::{VideoFormat, VideoInfo, VideoRegionOfInterestMeta};
use gstframecast::rtdetr::postprocess::candidates;
use gstframecast::rtdetr::{
    Candidate, Detection, Fit, Placement, Postprocessor, Preprocessor, Rect, Reference, RgbImage, Weights,
};
use gstframecast::rtdetrlayout::RtDetrLayout;
use serde_json::json;
use support::process::{in_child, is_child, resident};
use support::{End, first_error, ms, play, same_memory};

/// Of scores and relative boxes against transformers, as in the tests of the network.
const TOLERANCE: f32 = 2e-3;

const DOCLING: [&str; 17] = [
    "Caption",
    "Footnote",
    "Formula",
    "List-item",
    "Page-footer",
    "Page-header",
    "Picture",
    "Section-header",
    "Table",
    "Text",
    "Title",
    "Document Index",
    "Code",
    "Checkbox-Selected",
    "Checkbox-Unselected",
    "Form",
    "Key-Value Region",
];

fn init() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        gst::init().unwrap();
        gst::Element::register(None, "rtdetrlayout", gst::Rank::NONE, RtDetrLayout::static_type()).unwrap();
    });
}

// ---- driving the element ---------------------------------------------------------------------------------------

/// What was found, as a message tells it.
#[derive(Debug, Clone, PartialEq)]
struct Found {
    label: String,
    id: i32,
    confidence: f64,
    /// x, y, width, height
    bounds: [f64; 4],
}

#[derive(Debug, Clone, PartialEq)]
struct Told {
    timestamp: u64,
    frame: u64,
    found: Vec<Found>,
}

impl Told {
    fn of(structure: &gst::StructureRef) -> Self {
        let names: Vec<_> = structure.fields().map(|name| name.to_string()).collect();
        assert_eq!(names, ["timestamp", "frame", "inference-time", "detections"]);
        assert!(structure.get::<u64>("inference-time").unwrap() > 0);
        let found = structure.get::<gst::Array>("detections").unwrap();
        let found = found.iter().map(|value| {
            let structure = value.get::<gst::Structure>().unwrap();
            assert_eq!(structure.name(), "detection");
            let names: Vec<_> = structure.fields().map(|name| name.to_string()).collect();
            assert_eq!(names, ["label", "label-id", "confidence", "x", "y", "width", "height"]);
            Found {
                label: structure.get("label").unwrap(),
                id: structure.get("label-id").unwrap(),
                confidence: structure.get("confidence").unwrap(),
                bounds: ["x", "y", "width", "height"].map(|name| structure.get(name).unwrap()),
            }
        });
        Self {
            timestamp: structure.get("timestamp").unwrap(),
            frame: structure.get("frame").unwrap(),
            found: found.collect(),
        }
    }
}

/// The element in a harness.
struct Rig {
    h: gst_check::Harness,
    element: gst::Element,
    bus: gst::Bus,
    /// Messages that were not asked for yet.
    log: RefCell<Vec<gst::Message>>,
}

fn make(model: &Path, properties: &[(&str, &str)]) -> (gst::Element, gst::Bus) {
    init();
    let element = gst::ElementFactory::make("rtdetrlayout").build().expect("the element");
    element.set_property("model", model.to_str().unwrap());
    element.set_property("adapter", "cpu");
    for (name, value) in properties {
        element.set_property_from_str(name, value);
    }
    let bus = gst::Bus::new();
    element.set_bus(Some(&bus));
    (element, bus)
}

impl Rig {
    fn new(model: &Path, properties: &[(&str, &str)], caps: &str) -> Self {
        let (element, bus) = make(model, properties);
        let mut h = gst_check::Harness::with_element(&element, Some("sink"), Some("src"));
        h.set_sink_caps_str("video/x-raw");
        h.set_src_caps_str(caps);
        Self { h, element, bus, log: RefCell::default() }
    }

    /// For a golden checkpoint at its own size.
    fn golden(name: &str, properties: &[(&str, &str)]) -> Self {
        let image = Golden::load(name).image;
        let size = format!("{}x{}", image.width, image.height);
        let mut all = vec![("input-size", size.as_str())];
        all.extend_from_slice(properties);
        Self::everything(&folder(name), &all, &caps("RGB", image.width, image.height))
    }

    /// Everything that is found is told.
    fn everything(model: &Path, properties: &[(&str, &str)], caps: &str) -> Self {
        let mut all = vec![("threshold", "0"), ("cleanup", "none"), ("post-messages", "true")];
        all.extend_from_slice(properties);
        Self::new(model, &all, caps)
    }

    fn push(&mut self, buffer: gst::Buffer) -> gst::Buffer {
        let flow = self.h.push(buffer);
        assert_eq!(flow, Ok(gst::FlowSuccess::Ok), "{:?}", self.error());
        self.h.pull().expect("a frame for a frame")
    }

    /// The messages of a kind since the last call for that kind.
    fn messages(&self, kind: gst::MessageType) -> Vec<gst::Message> {
        let mut log = self.log.borrow_mut();
        log.extend(std::iter::from_fn(|| self.bus.pop()));
        let (wanted, others) = log.drain(..).partition(|message| message.type_() == kind);
        *log = others;
        wanted
    }

    fn told(&self) -> Vec<Told> {
        let messages = self.messages(gst::MessageType::Element);
        messages.iter().map(|message| Told::of(message.structure().unwrap())).collect()
    }

    fn error(&self) -> Option<gst::glib::Error> {
        self.messages(gst::MessageType::Error).first().map(|message| match message.view() {
            gst::MessageView::Error(error) => error.error(),
            _ => unreachable!(),
        })
    }

    fn warnings(&self) -> Vec<String> {
        let messages = self.messages(gst::MessageType::Warning);
        let text = |message: &gst::Message| match message.view() {
            gst::MessageView::Warning(warning) => warning.error().to_string(),
            _ => unreachable!(),
        };
        messages.iter().map(text).collect()
    }

    /// Pushes a frame that is analysed; returns what its message tells.
    fn analyse(&mut self, buffer: gst::Buffer) -> Told {
        self.push(buffer);
        let mut told = self.told();
        assert_eq!(told.len(), 1);
        told.remove(0)
    }

    fn stat(&self, name: &str) -> u64 {
        self.element.property::<gst::Structure>("stats").get(name).unwrap()
    }
}

fn caps(format: &str, width: usize, height: usize) -> String {
    format!("video/x-raw,format={format},width={width},height={height},framerate=25/1")
}

/// An RGB picture as a frame of any format.
fn frame(image: &RgbImage, caps: &str) -> gst::Buffer {
    init();
    let rgb = VideoInfo::builder(VideoFormat::Rgb, image.width as u32, image.height as u32);
    let rgb = rgb.fps(gst::Fraction::new(25, 1)).build().unwrap();
    let mut source = gst::Buffer::with_size(rgb.size()).unwrap();
    {
        let mut map = source.get_mut().unwrap().map_writable().unwrap();
        for (row, out) in image.data.chunks_exact(image.width * 3).zip(map.chunks_mut(rgb.stride()[0] as usize)) {
            out[..row.len()].copy_from_slice(row);
        }
    }
    let info = VideoInfo::from_caps(&caps.parse::<gst::Caps>().unwrap()).unwrap();
    let mut target = gst::Buffer::with_size(info.size()).unwrap();
    {
        let from = gst_video::VideoFrameRef::from_buffer_ref_readable(&source, &rgb).unwrap();
        let mut to = gst_video::VideoFrameRef::from_buffer_ref_writable(target.get_mut().unwrap(), &info).unwrap();
        gst_video::VideoConverter::new(&rgb, &info, None).unwrap().frame_ref(&from, &mut to);
    }
    target.get_mut().unwrap().set_pts(ms(0));
    target
}

fn golden_frame(name: &str) -> gst::Buffer {
    let image = Golden::load(name).image;
    frame(&image, &caps("RGB", image.width, image.height))
}

fn at(mut buffer: gst::Buffer, pts: gst::ClockTime) -> gst::Buffer {
    let writable = buffer.make_mut();
    writable.set_pts(pts);
    writable.set_duration(ms(40));
    buffer
}

/// A picture of that size with structure everywhere.
fn pattern(width: usize, height: usize) -> RgbImage {
    let value = |x: usize, y: usize| {
        let tile = ((x * 37 / width) + (y * 23 / height)) % 2 * 120;
        [tile + x * 100 / width, tile + y * 100 / height, 200 - tile].map(|v| v as u8)
    };
    let data = (0..width * height).flat_map(|i| value(i % width, i / width)).collect();
    RgbImage { width, height, data }
}

// ---- what should be found --------------------------------------------------------------------------------------

/// The candidates that the network in plain Rust finds in a part of a picture.
fn reference(weights: &Weights, image: &RgbImage, size: [usize; 2], fit: Fit) -> (Vec<Candidate>, Placement) {
    let preprocessor = Preprocessor::new(&weights.config, &weights.preprocessor, Some(size), fit).unwrap();
    let placement = preprocessor.placement(Rect::whole(image.width, image.height)).unwrap();
    let pixels = preprocessor.apply(image, &placement).unwrap();
    let forward = Reference::new(weights).forward(&pixels).unwrap();
    (candidates(forward.final_logits(), forward.final_boxes()), placement)
}

#[track_caller]
fn assert_found(got: &[Found], want: &[Detection], labels: &[String]) {
    assert_eq!(got.len(), want.len());
    for (got, want) in got.iter().zip(want) {
        assert_eq!((got.id as usize, &got.label), (want.label, &labels[want.label]));
        assert!((got.confidence - f64::from(want.score)).abs() < 1e-6, "{got:?} {want:?}");
        let [left, top, right, bottom] = want.bbox;
        for (got, want) in got.bounds.iter().zip([left, top, right - left, bottom - top]) {
            assert!((got - want).abs() < 1e-3, "{got:?} {want:?}");
        }
    }
}

/// As candidates relative to the frame, for comparison in any order.
fn relative(found: &[Found], width: usize, height: usize) -> Vec<Candidate> {
    let (width, height) = (width as f64, height as f64);
    let candidate = |found: &Found| {
        let [x, y, w, h] = found.bounds;
        let bbox = [(x + w / 2.0) / width, (y + h / 2.0) / height, w / width, h / height].map(|v| v as f32);
        Candidate { query: 0, label: found.id as usize, score: found.confidence as f32, bbox }
    };
    found.iter().map(candidate).collect()
}

/// A candidate's box cut to the picture.
fn cut(candidate: &Candidate) -> Candidate {
    let [cx, cy, w, h] = candidate.bbox;
    let [left, top, right, bottom] =
        [cx - w / 2.0, cy - h / 2.0, cx + w / 2.0, cy + h / 2.0].map(|v| v.clamp(0.0, 1.0));
    Candidate { bbox: [(left + right) / 2.0, (top + bottom) / 2.0, right - left, bottom - top], ..*candidate }
}

// ---- metas -----------------------------------------------------------------------------------------------------

/// Whether the running GStreamer has analytics metas.
fn has_analytics() -> bool {
    init();
    let (major, minor, ..) = gst::version();
    (major, minor) >= (1, 24)
}

/// A region of interest: id, label, x, y, width, height.
type Region = (i32, String, [u32; 4]);

fn regions(buffer: &gst::Buffer) -> Vec<Region> {
    let metas = buffer.iter_meta::<VideoRegionOfInterestMeta>();
    let region = |meta: gst::MetaRef<'_, VideoRegionOfInterestMeta>| {
        let (x, y, w, h) = meta.rect();
        (meta.id(), meta.roi_type().to_owned(), [x, y, w, h])
    };
    // GStreamer before 1.24 iterates from the newest meta on.
    let mut regions: Vec<_> = metas.map(region).collect();
    regions.sort_by_key(|region| region.0);
    regions
}

/// The reading side of GStreamer's analytics metas.
mod analytics {
    use std::ffi::c_void;

    use gst::glib;
    use gst::glib::translate::FromGlib;
    use libloading::Library;

    #[repr(C)]
    struct Mtd {
        id: u32,
        meta: *mut c_void,
    }

    #[derive(Debug, Clone, PartialEq)]
    pub struct Object {
        pub id: u32,
        pub label: String,
        pub bounds: [i32; 4],
        pub confidence: f32,
        /// Of the classification related to it, both ways.
        pub class: Option<(String, f32)>,
    }

    type Get = unsafe extern "C" fn(*mut gst::ffi::GstBuffer) -> *mut c_void;
    type Length = unsafe extern "C" fn(*mut c_void) -> usize;
    type GetMtd = unsafe extern "C" fn(*mut c_void, u32, *mut Mtd) -> i32;
    type Location = unsafe extern "C" fn(*const Mtd, *mut i32, *mut i32, *mut i32, *mut i32, *mut f32) -> i32;
    type ObjectType = unsafe extern "C" fn(*const Mtd) -> u32;
    type ClassQuark = unsafe extern "C" fn(*const Mtd, usize) -> u32;
    type ClassLevel = unsafe extern "C" fn(*const Mtd, usize) -> f32;
    type Relation = unsafe extern "C" fn(*mut c_void, u32, u32) -> i32;

    fn text(quark: u32) -> String {
        // SAFETY: the library returns a quark of this process.
        unsafe { glib::Quark::from_glib(quark) }.as_str().to_string()
    }

    /// The detections in the buffer's relation meta; `None` without one.
    pub fn objects(buffer: &gst::Buffer) -> Option<Vec<Object>> {
        // SAFETY: the types are those of GStreamer's headers.
        unsafe {
            let library = Library::new("libgstanalytics-1.0.so.0").expect("the library that the element has opened");
            macro_rules! function {
                ($type:ty, $name:literal) => {
                    *library.get::<$type>(concat!($name, "\0").as_bytes()).unwrap()
                };
            }
            let meta = function!(Get, "gst_buffer_get_analytics_relation_meta")(buffer.as_mut_ptr());
            if meta.is_null() {
                return None;
            }
            let length = function!(Length, "gst_analytics_relation_get_length")(meta) as u32;
            let get_object = function!(GetMtd, "gst_analytics_relation_meta_get_od_mtd");
            let get_class = function!(GetMtd, "gst_analytics_relation_meta_get_cls_mtd");
            let relation = function!(Relation, "gst_analytics_relation_meta_get_relation");
            let mut objects = Vec::new();
            let mut classes = 0;
            for id in 0..length {
                let mut mtd = Mtd { id: 0, meta: std::ptr::null_mut() };
                if get_object(meta, id, &mut mtd) == 0 {
                    classes += 1;
                    continue;
                }
                let (mut bounds, mut confidence) = ([0; 4], 0.0);
                let [x, y, w, h] = &mut bounds;
                let read = function!(Location, "gst_analytics_od_mtd_get_location");
                assert_ne!(read(&mtd, x, y, w, h, &mut confidence), 0);
                let label = text(function!(ObjectType, "gst_analytics_od_mtd_get_obj_type")(&mtd));
                let mut class = None;
                for other in 0..length {
                    let mut found = Mtd { id: 0, meta: std::ptr::null_mut() };
                    // RELATE_TO
                    let related = relation(meta, id, other) == 1 << 3 && relation(meta, other, id) == 1 << 3;
                    if related && get_class(meta, other, &mut found) != 0 {
                        assert_eq!(class, None);
                        let quark = function!(ClassQuark, "gst_analytics_cls_mtd_get_quark")(&found, 0);
                        let level = function!(ClassLevel, "gst_analytics_cls_mtd_get_level")(&found, 0);
                        class = Some((text(quark), level));
                    }
                }
                objects.push(Object { id: mtd.id, label, bounds, confidence, class });
            }
            assert_eq!(classes, objects.len(), "one classification for each detection");
            Some(objects)
        }
    }
}

// ---- the goldens -----------------------------------------------------------------------------------------------

/// The message of a golden picture against transformers' logits and boxes.
fn message_is_golden(name: &str, properties: &[(&str, &str)], tolerance: f32) {
    let golden = Golden::load(name);
    let (width, height) = (golden.image.width, golden.image.height);
    let mut rig = Rig::golden(name, properties);
    let told = rig.analyse(golden_frame(name));
    assert_eq!((told.timestamp, told.frame), (0, 0));
    let want = candidates(&golden.tokens("logits"), &golden.tokens("pred_boxes"));
    let want: Vec<_> = want.iter().map(cut).collect();
    assert_same_candidates(&relative(&told.found, width, height), &want, tolerance);
}

#[test]
fn messages_are_what_transformers_find() {
    for name in ["tiny-basic", "tiny-basic-half-csp", "tiny-bottleneck", "tiny-bottleneck-discrete"] {
        message_is_golden(name, &[], TOLERANCE);
    }
}

/// Inputs that are not square.
#[test]
fn messages_of_wide_and_tall_inputs() {
    for name in ["wide", "tall", "strided"] {
        message_is_golden(name, &[], TOLERANCE);
    }
}

#[test]
fn messages_from_the_gpu() {
    message_is_golden("tiny-bottleneck", &[("adapter", ""), ("precision", "f32")], TOLERANCE);
    message_is_golden("tall", &[("adapter", ""), ("precision", "f32")], TOLERANCE);
}

#[test]
fn metas_are_what_the_message_tells() {
    for metadata in ["auto", "roi", "analytics", "both"] {
        if !has_analytics() && matches!(metadata, "analytics" | "both") {
            continue;
        }
        let mut rig = Rig::golden("tiny-bottleneck", &[("metadata", metadata)]);
        let (width, height) = (160.0, 160.0);
        let buffer = rig.push(golden_frame("tiny-bottleneck"));
        let told = rig.told().remove(0);
        assert!(!told.found.is_empty());
        let expect_analytics = has_analytics() && metadata != "roi";
        let regions = regions(&buffer);
        assert_eq!(regions.is_empty(), metadata == "analytics");
        let whole = |found: &Found| {
            let [x, y, w, h] = found.bounds;
            [x, y, x + w, y + h].map(f64::round)
        };
        for ((_, label, bounds), found) in regions.iter().zip(&told.found) {
            let [x, y, w, h] = bounds.map(f64::from);
            assert_eq!(label, &found.label);
            for (got, want) in [x, y, x + w, y + h].iter().zip(whole(found)) {
                // What is thinner than a pixel gets one.
                assert!((got - want).abs() <= 1.0, "{bounds:?} {found:?}");
            }
            assert!(w >= 1.0 && h >= 1.0 && x + w <= width && y + h <= height);
        }
        if !regions.is_empty() {
            assert_eq!(regions.len(), told.found.len());
            let meta = buffer
                .iter_meta::<VideoRegionOfInterestMeta>()
                .find(|meta| meta.id() == regions[0].0)
                .expect("the first region");
            let detection = meta.param("detection").unwrap();
            let names: Vec<_> = detection.fields().map(|name| name.to_string()).collect();
            assert_eq!(names, ["label_id", "confidence", "x_min", "x_max", "y_min", "y_max"]);
            let first = &told.found[0];
            assert_eq!(detection.get::<i32>("label_id"), Ok(first.id));
            assert_eq!(detection.get::<f64>("confidence"), Ok(first.confidence));
            let [x, y, w, h] = first.bounds;
            for (name, want) in
                [("x_min", x / width), ("x_max", (x + w) / width), ("y_min", y / height), ("y_max", (y + h) / height)]
            {
                assert!((detection.get::<f64>(name).unwrap() - want).abs() < 1e-9, "{name}");
            }
        }
        if !has_analytics() {
            continue;
        }
        let objects = analytics::objects(&buffer);
        assert_eq!(objects.is_some(), expect_analytics, "{metadata}");
        let Some(objects) = objects else { continue };
        assert_eq!(objects.len(), told.found.len());
        for (object, found) in objects.iter().zip(&told.found) {
            assert_eq!(object.label, found.label);
            assert_eq!(f64::from(object.confidence), found.confidence);
            assert_eq!(object.class, Some((found.label.clone(), object.confidence)));
        }
        if metadata != "analytics" {
            let ids: Vec<_> = objects.iter().map(|object| object.id as i32).collect();
            assert_eq!(ids, regions.iter().map(|region| region.0).collect::<Vec<_>>(), "one id for both metas");
            for (object, region) in objects.iter().zip(&regions) {
                assert_eq!(object.bounds, region.2.map(|v| v as i32), "one box for both metas");
            }
        }
    }
}

#[test]
fn analytics_before_1_24_are_refused() {
    for metadata in ["analytics", "both"] {
        let (element, bus) = make(&folder("tiny-basic"), &[("metadata", metadata)]);
        if has_analytics() {
            assert!(element.set_state(gst::State::Ready).is_ok(), "{:?}", first_error(&bus));
        } else {
            assert!(element.set_state(gst::State::Ready).is_err());
            let error = first_error(&bus).unwrap();
            assert!(error.matches(gst::ResourceError::Settings), "{error:?}");
            assert!(error.message().contains("1.24") && error.message().contains("metadata=roi"), "{error}");
        }
        element.set_state(gst::State::Null).unwrap();
    }
    // Without being asked for they are left out.
    let mut rig = Rig::golden("tiny-basic", &[("metadata", "auto")]);
    let buffer = rig.push(golden_frame("tiny-basic"));
    assert!(!regions(&buffer).is_empty());
    let mut metas = 0;
    buffer.foreach_meta(|meta| {
        metas += usize::from(meta.api() != VideoRegionOfInterestMeta::meta_api());
        std::ops::ControlFlow::Continue(())
    });
    assert_eq!(metas, usize::from(has_analytics()));
}

/// videoscale scales regions and keeps their names, though not their parameters.
#[test]
fn regions_survive_videoscale() {
    init();
    let description = format!(
        "appsrc name=src format=time ! rtdetrlayout name=l model=\"{}\" adapter=cpu input-size=160x160 threshold=0 \
         cleanup=none metadata=roi ! tee name=t \
         t. ! queue ! appsink name=plain sync=false \
         t. ! queue ! videoscale ! video/x-raw,width=80,height=320 ! appsink name=scaled sync=false",
        folder("tiny-bottleneck").display()
    );
    let pipeline = gst::parse::launch(&description).unwrap().downcast::<gst::Pipeline>().unwrap();
    let source = pipeline.by_name("src").unwrap().downcast::<gst_app::AppSrc>().unwrap();
    source.set_caps(Some(&caps("RGB", 160, 160).parse().unwrap()));
    pipeline.set_state(gst::State::Playing).unwrap();
    source.push_buffer(golden_frame("tiny-bottleneck")).unwrap();
    source.end_of_stream().unwrap();
    let [plain, scaled] = ["plain", "scaled"].map(|name| {
        let sink = pipeline.by_name(name).unwrap().downcast::<gst_app::AppSink>().unwrap();
        regions(&sink.pull_sample().unwrap().buffer_owned().unwrap())
    });
    pipeline.set_state(gst::State::Null).unwrap();
    assert!(!plain.is_empty());
    assert_eq!(plain.len(), scaled.len());
    // Whether ids and order are kept is up to videoscale's release.
    let mut free = scaled;
    for (_, label, [x, y, w, h]) in &plain {
        let want = [x / 2, y * 2, w / 2, h * 2];
        let near = |bounds: &[u32; 4]| bounds.iter().zip(want).all(|(got, want)| got.abs_diff(want) <= 1);
        let found = free.iter().position(|(_, other, bounds)| other == label && near(bounds));
        free.remove(found.unwrap_or_else(|| panic!("no {label} near {want:?} in {free:?}")));
    }
}

// ---- frames ----------------------------------------------------------------------------------------------------

#[test]
fn pixels_are_neither_copied_nor_changed() {
    for metadata in ["roi", "auto"] {
        let mut rig = Rig::golden("tiny-basic", &[("metadata", metadata)]);
        let source = at(golden_frame("tiny-basic"), ms(120));
        let before = support::bytes(&source);
        // The test still has the buffer, so the element may not write to it.
        let out = rig.push(source.clone());
        assert!(same_memory(&source, &out));
        assert_eq!(support::bytes(&out), before);
        assert_eq!((out.pts(), out.duration(), out.flags()), (Some(ms(120)), Some(ms(40)), source.flags()));
        assert!(regions(&source).is_empty() && !regions(&out).is_empty());
        // A buffer of which the element is the only owner is the same buffer when it leaves.
        let source = golden_frame("tiny-basic");
        let memory = source.peek_memory(0).as_ptr();
        let out = rig.push(source);
        assert_eq!(out.peek_memory(0).as_ptr(), memory);
    }
}

#[test]
fn every_format_gives_the_same() {
    // Grey, so that formats with less colour hold it, too.
    let image = Golden::load("tiny-basic-half-csp").image;
    let grey = image.data.chunks_exact(3).flat_map(|rgb| [rgb[1]; 3]).collect();
    let image = RgbImage { data: grey, ..image };
    let (width, height) = (image.width, image.height);
    let run = |caps: &str| {
        let mut rig = Rig::golden("tiny-basic-half-csp", &[]);
        rig.h.set_src_caps_str(caps);
        let told = rig.analyse(frame(&image, caps));
        relative(&told.found, width, height)
    };
    let want = run(&caps("RGB", width, height));
    let rgb = ["RGBA", "BGRA", "ARGB", "ABGR", "RGBx", "BGRx", "xRGB", "xBGR", "BGR"];
    for format in rgb {
        assert_eq!(run(&caps(format, width, height)), want, "{format}");
    }
    let yuv = ["I420", "YV12", "NV12", "NV21", "YUY2", "UYVY", "Y42B", "Y444", "GRAY8", "I420_10LE", "P010_10LE"];
    for format in yuv {
        let limits = if format == "GRAY8" { ["1:1:0:0"].as_slice() } else { &["bt601", "bt709", "1:1:5:1"] };
        for colorimetry in limits {
            let caps = format!("{},colorimetry={colorimetry}", caps(format, width, height));
            // Codes of limited range are coarser than those of RGB.
            assert_same_candidates(&run(&caps), &want, 0.02);
        }
    }
}

/// Rows farther apart than plain caps say, and planes in another place, as a GstVideoMeta tells.
#[test]
fn padded_planes_are_the_tight_ones() {
    let image = pattern(67, 45);
    for format in ["I420", "NV12", "BGRx"] {
        let caps = caps(format, 67, 45);
        let tight = frame(&image, &caps);
        let info = VideoInfo::from_caps(&caps.parse::<gst::Caps>().unwrap()).unwrap();
        let planes = info.n_planes() as usize;
        let strides: Vec<i32> = info.stride()[..planes].iter().map(|stride| stride + 52).collect();
        let rows = |plane: usize| info.comp_height(plane.min(2) as u8) as usize;
        let mut offsets = Vec::new();
        let mut size = 40;
        for (plane, stride) in strides.iter().enumerate() {
            offsets.push(size);
            size += *stride as usize * rows(plane) + 24;
        }
        let mut padded = gst::Buffer::from_slice(vec![0xAA_u8; size]);
        {
            let padded = padded.get_mut().unwrap();
            gst_video::VideoMeta::add_full(
                padded,
                gst_video::VideoFrameFlags::empty(),
                info.format(),
                67,
                45,
                &offsets,
                &strides,
            )
            .unwrap();
            let from = gst_video::VideoFrameRef::from_buffer_ref_readable(&tight, &info).unwrap();
            let mut to = gst_video::VideoFrameRef::from_buffer_ref_writable(padded, &info).unwrap();
            from.copy(&mut to).unwrap();
        }
        let mut rig = Rig::golden("tiny-basic", &[]);
        rig.h.set_src_caps_str(&caps);
        let want = rig.analyse(tight).found;
        assert!(!want.is_empty());
        assert_eq!(rig.analyse(padded).found, want, "{format}");
    }
}

#[test]
fn upstream_is_offered_what_downstream_offers() {
    let mut rig = Rig::golden("tiny-basic", &[]);
    rig.h.add_propose_allocation_meta(gst_video::VideoMeta::meta_api(), None);
    rig.push(golden_frame("tiny-basic"));
    let caps: gst::Caps = caps("RGB", 128, 128).parse().unwrap();
    let mut query = gst::query::Allocation::new(Some(&caps), true);
    assert!(rig.element.static_pad("sink").unwrap().query(query.query_mut()));
    assert!(query.find_allocation_meta::<gst_video::VideoMeta>().is_some());
}

#[test]
fn field_case_19_each_axis_has_its_own_ratio() {
    let weights = Weights::load(&folder("tiny-bottleneck")).unwrap();
    for (width, height) in [(1920, 400), (400, 1920)] {
        let image = pattern(width, height);
        let caps = caps("RGB", width, height);
        let mut rig = Rig::golden("tiny-bottleneck", &[("input-size", "128x96")]);
        rig.h.set_src_caps_str(&caps);
        let buffer = rig.push(frame(&image, &caps));
        let told = rig.told().remove(0);
        let (candidates, _) = reference(&weights, &image, [128, 96], Fit::Auto);
        assert_eq!(told.found.len(), candidates.len());
        let limits = [width as f64, height as f64];
        for ((found, candidate), region) in told.found.iter().zip(&candidates).zip(regions(&buffer)) {
            let [cx, cy, w, h] = candidate.bbox.map(f64::from);
            let axis = |centre: f64, size: f64, limit: f64| {
                [centre - size / 2.0, centre + size / 2.0].map(|v| (v * limit).clamp(0.0, limit))
            };
            let ([left, right], [top, bottom]) = (axis(cx, w, limits[0]), axis(cy, h, limits[1]));
            for (got, want) in found.bounds.iter().zip([left, top, right - left, bottom - top]) {
                assert!((got - want).abs() < 1e-6, "{found:?} {candidate:?}");
            }
            let [x, y, w, h] = region.2.map(f64::from);
            for (got, want) in [x, y, x + w, y + h].iter().zip([left, top, right, bottom]) {
                assert!((got - want).abs() <= 1.0, "{region:?} {candidate:?}");
            }
        }
    }
}

// ---- settings --------------------------------------------------------------------------------------------------

#[test]
fn letterbox_and_preprocessor_config() {
    let weights = Weights::load(&folder("tiny-bottleneck")).unwrap();
    let image = pattern(200, 100);
    let caps = caps("RGB", 200, 100);
    let post = Postprocessor::new(&weights.config.labels).threshold(0.0).cleanup(gstframecast::rtdetr::Cleanup::None);
    for (fit, name) in [(Fit::Letterbox, "letterbox"), (Fit::Stretch, "stretch"), (Fit::Auto, "auto")] {
        let mut rig = Rig::golden("tiny-bottleneck", &[("input-size", "128"), ("fit", name)]);
        rig.h.set_src_caps_str(&caps);
        let (candidates, placement) = reference(&weights, &image, [128, 128], fit);
        let want = post.run(&candidates, &placement);
        assert_found(&rig.analyse(frame(&image, &caps)).found, &want, &weights.config.labels);
    }
    // The size and the values come from the checkpoint's own file where nothing is set.
    let model = tempfile::tempdir().unwrap();
    Checkpoint::load("tiny-bottleneck").write(model.path());
    let preprocessor = json!({"size": {"height": 96, "width": 160}, "do_normalize": true,
        "image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.3, 0.4]});
    std::fs::write(model.path().join("preprocessor_config.json"), preprocessor.to_string()).unwrap();
    let weights = Weights::load(model.path()).unwrap();
    let (candidates, placement) = reference(&weights, &image, [160, 96], Fit::Auto);
    let mut rig = Rig::everything(model.path(), &[], &caps);
    let want = post.run(&candidates, &placement);
    assert_found(&rig.analyse(frame(&image, &caps)).found, &want, &weights.config.labels);
}

#[test]
fn a_region_is_a_picture_of_its_own() {
    let image = pattern(200, 120);
    let (left, top, width, height) = (31, 17, 96, 64);
    let part: Vec<u8> =
        (0..height).flat_map(|row| image.data[((top + row) * 200 + left) * 3..][..width * 3].to_vec()).collect();
    let part = RgbImage { width, height, data: part };
    let mut alone = Rig::golden("tiny-basic", &[]);
    alone.h.set_src_caps_str(&caps("RGB", width, height));
    let want = alone.analyse(frame(&part, &caps("RGB", width, height)));
    let whole = caps("RGB", 200, 120);
    let mut rig = Rig::golden("tiny-basic", &[("roi", "31,17,96,64")]);
    rig.h.set_src_caps_str(&whole);
    let got = rig.analyse(frame(&image, &whole));
    assert_eq!(got.found.len(), want.found.len());
    for (got, want) in got.found.iter().zip(&want.found) {
        let [x, y, w, h] = want.bounds;
        assert_eq!((got.id, got.confidence), (want.id, want.confidence));
        for (got, want) in got.bounds.iter().zip([x + left as f64, y + top as f64, w, h]) {
            assert!((got - want).abs() < 1e-9);
        }
    }
    // Changed while frames flow.
    rig.element.set_property("roi", None::<String>);
    let all = rig.analyse(frame(&image, &whole));
    assert_ne!(all.found, got.found);
    rig.element.set_property("roi", "31,17,96,64");
    assert_eq!(rig.analyse(frame(&image, &whole)).found, got.found);
}

#[test]
fn thresholds_labels_and_the_limit() {
    let model = docling();
    let mut rig = Rig::everything(model.path(), &[], &caps("RGB", 160, 160));
    let all = rig.analyse(golden_frame("tiny-bottleneck")).found;
    assert!(all.len() > 10 && all.windows(2).all(|pair| pair[0].confidence >= pair[1].confidence));
    let mut with = |name: &str, value: &str| {
        let before = rig.element.property_value(name);
        rig.element.set_property_from_str(name, value);
        let found = rig.analyse(golden_frame("tiny-bottleneck")).found;
        rig.element.set_property_from_value(name, &before);
        found
    };
    let middle = all[all.len() / 2].confidence;
    // Strictly above.
    let above: Vec<_> = all.iter().filter(|found| found.confidence > middle).cloned().collect();
    assert_eq!(with("threshold", &format!("{middle:.17}")), above);
    assert_eq!(with("threshold", "1"), []);
    let label = all[0].label.clone();
    // At least: the best box of that class has the threshold as its score.
    let others = |found: &&Found| found.label != label;
    let want: Vec<_> = all[..1].iter().chain(all[1..].iter().filter(others)).cloned().collect();
    let got = with("class-thresholds", &format!("{label}={:.9}", all[0].confidence as f32));
    assert_eq!(got.first(), want.first());
    assert!(got.iter().filter(|found| found.label == label).all(|found| found.confidence >= all[0].confidence));
    assert_eq!(got.iter().filter(others).count(), all.iter().filter(others).count());
    let want: Vec<_> = all.iter().filter(|found| found.label == label).cloned().collect();
    assert!(want.len() < all.len());
    for spelling in [label.clone(), label.replace('_', "-"), label.replace('_', " ").to_lowercase()] {
        assert_eq!(with("labels", &spelling), want);
    }
    assert_eq!(with("max-detections", "3"), all[..3]);
    assert_eq!(with("max-detections", "0"), []);
    // What does not fit the model gives a warning, and what was set before holds.
    rig.element.set_property("labels", &label);
    assert_eq!(rig.analyse(golden_frame("tiny-bottleneck")).found, want);
    rig.element.set_property("labels", "no such label");
    assert_eq!(rig.analyse(golden_frame("tiny-bottleneck")).found, want);
    assert_eq!(rig.analyse(golden_frame("tiny-bottleneck")).found, want);
    let warnings = rig.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("NO_SUCH_LABEL") && warnings[0].contains(&label), "{warnings:?}");
}

#[test]
fn every_nth_frame_is_analysed() {
    let mut rig = Rig::golden("tiny-basic", &[("inference-interval", "3")]);
    let mut analysed = Vec::new();
    for n in 0..8 {
        let out = rig.push(at(golden_frame("tiny-basic"), ms(40 * n)));
        analysed.push(!regions(&out).is_empty());
    }
    assert_eq!(analysed, [true, false, false, true, false, false, true, false]);
    let frames: Vec<_> = rig.told().iter().map(|told| (told.frame, told.timestamp)).collect();
    assert_eq!(frames, [(0, 0), (3, 120_000_000), (6, 240_000_000)]);
    assert_eq!(["frames", "analysed", "skipped", "late"].map(|name| rig.stat(name)), [8, 3, 5, 0]);
    // After a flush and with new caps the first frame counts.
    assert!(rig.h.push_event(gst::event::FlushStart::new()));
    assert!(rig.h.push_event(gst::event::FlushStop::new(true)));
    assert!(rig.h.push_event(gst::event::Segment::new(&gst::FormattedSegment::<gst::ClockTime>::new())));
    assert_eq!(rig.analyse(golden_frame("tiny-basic")).frame, 8);
}

#[test]
fn no_message_unless_asked_for() {
    let mut rig = Rig::golden("tiny-basic", &[("post-messages", "false")]);
    assert!(!regions(&rig.push(golden_frame("tiny-basic"))).is_empty());
    assert_eq!(rig.told(), []);
}

#[test]
fn field_case_24_a_missing_weight_is_named() {
    let checkpoint = Checkpoint::load("tiny-bottleneck-discrete");
    let model = tempfile::tempdir().unwrap();
    checkpoint.write_config(model.path());
    let names: Vec<String> = checkpoint.tensors.keys().cloned().collect();
    // Each tensor is dropped in the tests of the weights; here one of each part of the network.
    for part in ["model.backbone.", "model.encoder.", "model.decoder.layers.", "model.enc_score_head."] {
        let dropped = names.iter().find(|name| name.starts_with(part) && name.ends_with("weight")).unwrap();
        let bytes = checkpoint.safetensors(|name| name != dropped);
        std::fs::write(model.path().join("model.safetensors"), bytes).unwrap();
        let error = refusal(model.path(), &[]);
        assert!(error.matches(gst::StreamError::Format), "{error:?}");
        assert!(error.message().contains(dropped.as_str()), "{dropped}: {error}");
    }
    // The other spelling of the heads is the same model.
    let alias = |name: &str| match name.strip_prefix("model.decoder.") {
        Some(rest) if rest.starts_with("class_embed.") || rest.starts_with("bbox_embed.") => rest.to_owned(),
        _ => name.to_owned(),
    };
    let renamed = checkpoint.renamed(alias);
    assert_ne!(renamed.tensors.keys().collect::<Vec<_>>(), checkpoint.tensors.keys().collect::<Vec<_>>());
    renamed.write(model.path());
    let caps = caps("RGB", 128, 128);
    let told = Rig::everything(model.path(), &[], &caps).analyse(golden_frame("tiny-bottleneck-discrete"));
    let want = Rig::golden("tiny-bottleneck-discrete", &[]).analyse(golden_frame("tiny-bottleneck-discrete"));
    assert_eq!(told.found, want.found);
}

/// tiny-bottleneck with these names of its classes, of which each is the best of some query for the golden picture.
fn named(labels: &[(&str, &str)]) -> tempfile::TempDir {
    let mut checkpoint = Checkpoint::load("tiny-bottleneck");
    let id2label: serde_json::Map<_, _> = labels.iter().map(|(id, name)| (id.to_string(), json!(name))).collect();
    checkpoint.config["id2label"] = json!(id2label);
    checkpoint.config.as_object_mut().unwrap().remove("label2id");
    // As it is, one class has the best score everywhere: what all queries have in common is taken from each class's
    // logit, and what is left made larger.
    const GAIN: f32 = 8.0;
    let logits = Golden::load("tiny-bottleneck").tokens("logits");
    let mean =
        |class: usize| (0..logits.width).map(|query| logits.at(query, 0)[class]).sum::<f32>() / logits.width as f32;
    let last = checkpoint.config["decoder_layers"].as_u64().unwrap() - 1;
    for prefix in ["model.decoder.class_embed", "class_embed"] {
        for (part, is_bias) in [("weight", false), ("bias", true)] {
            let Some(tensor) = checkpoint.tensors.get_mut(&format!("{prefix}.{last}.{part}")) else { continue };
            let changed = floats(&tensor.bytes).into_iter().enumerate().flat_map(|(i, value)| {
                let value = if is_bias { value - mean(i) } else { value };
                (GAIN * value).to_le_bytes()
            });
            tensor.bytes = changed.collect();
        }
    }
    let model = tempfile::tempdir().unwrap();
    checkpoint.write(model.path());
    model
}

fn docling() -> tempfile::TempDir {
    let ids: Vec<String> = (0..DOCLING.len()).map(|id| id.to_string()).collect();
    // "0", "1", "10", "11" ...: as JSON writers sort.
    let mut labels: Vec<_> = ids.iter().map(String::as_str).zip(DOCLING).collect();
    labels.sort();
    named(&labels)
}

#[test]
fn field_case_25_labels_are_those_of_their_ids() {
    let model = docling();
    let caps = caps("RGB", 160, 160);
    let mut rig = Rig::everything(model.path(), &[], &caps);
    let found = rig.analyse(golden_frame("tiny-bottleneck")).found;
    assert!(found.iter().any(|found| found.id >= 10), "{found:?}");
    for found in &found {
        assert_eq!(found.label, DOCLING[found.id as usize]);
    }
    for spelling in
        ["Section-header,Key-Value Region", "section_header, KEY_VALUE_REGION", "SECTION HEADER,key-value-region"]
    {
        rig.element.set_property("labels", spelling);
        let kept = rig.analyse(golden_frame("tiny-bottleneck")).found;
        let want: Vec<_> = found.iter().filter(|found| [7, 16].contains(&found.id)).cloned().collect();
        assert_eq!(kept, want, "{spelling}");
    }
    // As many names as the heads have rows.
    let fewer = named(&[("0", "a"), ("1", "b")]);
    let error = refusal(fewer.path(), &[]);
    assert!(error.message().contains("17") && error.message().contains("id2label"), "{error}");
}

#[test]
fn field_case_26_clean_up_follows_the_labels() {
    use gstframecast::rtdetr::Cleanup;
    let caps = caps("RGB", 160, 160);
    let image = Golden::load("tiny-bottleneck").image;
    let model = docling();
    let docling_weights = Weights::load(model.path()).unwrap();
    let ids: Vec<String> = (0..DOCLING.len()).map(|id| id.to_string()).collect();
    let other = named(&ids.iter().map(|id| (id.as_str(), id.as_str())).collect::<Vec<_>>());
    let other_weights = Weights::load(other.path()).unwrap();
    let (candidates, placement) = reference(&docling_weights, &image, [160, 160], Fit::Auto);
    let settings = |weights: &Weights, cleanup| {
        let labels = &weights.config.labels;
        // Scores of random weights are low, docling's thresholds are not.
        let thresholds: Vec<_> = labels.iter().map(|label| format!("{label}=0.001")).collect();
        let thresholds = thresholds.join(",");
        let post = Postprocessor::new(labels).cleanup(cleanup).class_thresholds(&thresholds).unwrap();
        (thresholds, post.run(&candidates, &placement))
    };
    let run = |model: &Path, thresholds: &str, cleanup: Option<&str>| {
        let mut properties = vec![("class-thresholds", thresholds), ("post-messages", "true")];
        properties.extend(cleanup.map(|cleanup| ("cleanup", cleanup)));
        Rig::new(model, &properties, &caps).analyse(golden_frame("tiny-bottleneck")).found
    };
    let mut counts = Vec::new();
    for (cleanup, name) in [(Cleanup::None, "none"), (Cleanup::Nms, "nms"), (Cleanup::Layout, "layout")] {
        let (thresholds, want) = settings(&docling_weights, cleanup);
        assert_found(&run(model.path(), &thresholds, Some(name)), &want, &docling_weights.config.labels);
        counts.push(want.len());
    }
    assert!(counts[0] > counts[1] && counts[1] > counts[2], "the rules change nothing: {counts:?}");
    // Unless set: docling's rules for docling's labels, else non-maximum suppression.
    let (thresholds, want) = settings(&docling_weights, Cleanup::Layout);
    assert_found(&run(model.path(), &thresholds, None), &want, &docling_weights.config.labels);
    let (thresholds, want) = settings(&other_weights, Cleanup::Nms);
    assert_found(&run(other.path(), &thresholds, None), &want, &other_weights.config.labels);
}

#[test]
fn field_case_27_nothing_found_is_not_not_analysed() {
    let blank = RgbImage { width: 128, height: 128, data: vec![255; 128 * 128 * 3] };
    let caps = caps("RGB", 128, 128);
    let mut rig = Rig::golden("tiny-basic", &[("threshold", "0.999"), ("inference-interval", "2")]);
    let analysed = rig.push(frame(&blank, &caps));
    let told = rig.told();
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].found, []);
    assert_eq!(regions(&analysed), []);
    let skipped = rig.push(frame(&blank, &caps));
    assert_eq!(rig.told(), []);
    assert_eq!(regions(&skipped), []);
    if has_analytics() {
        assert_eq!(analytics::objects(&analysed), Some(vec![]));
        assert_eq!(analytics::objects(&skipped), None);
    }
}

// ---- time ------------------------------------------------------------------------------------------------------

#[test]
fn late_frames_pass_without_analysis() {
    let mut rig = Rig::golden("tiny-basic", &[]);
    let push = |rig: &mut Rig, n: u64| !regions(&rig.push(at(golden_frame("tiny-basic"), ms(40 * n)))).is_empty();
    assert!(push(&mut rig, 0));
    // At 40 ms downstream is 50 ms behind: frames up to 140 ms will be late.
    let qos = gst::event::Qos::builder(gst::QOSType::Underflow, 2.0, 50_000_000).timestamp(ms(40)).build();
    assert!(rig.h.push_upstream_event(qos.clone()));
    assert_eq!([1, 2, 3, 4].map(|n| push(&mut rig, n)), [false, false, false, true]);
    assert_eq!(["frames", "analysed", "skipped", "late"].map(|name| rig.stat(name)), [5, 2, 0, 3]);
    assert_eq!(rig.told().len(), 2);
    let messages = rig.messages(gst::MessageType::Qos);
    assert_eq!(messages.len(), 3);
    for (n, message) in (1..).zip(&messages) {
        let gst::MessageView::Qos(qos) = message.view() else { unreachable!() };
        let (_, running, _, timestamp, _) = qos.get();
        assert_eq!((running, timestamp), (Some(ms(40 * n)), Some(ms(40 * n))));
        assert_eq!(qos.values(), ((140 - 40 * n as i64) * 1_000_000, 2.0, 1_000_000));
    }
    // Not where it is turned off.
    rig.element.set_property("qos", false);
    assert!(rig.h.push_upstream_event(
        gst::event::Qos::builder(gst::QOSType::Underflow, 2.0, 1_000_000_000).timestamp(ms(200)).build()
    ));
    assert!(push(&mut rig, 5));
    // A flush forgets it.
    rig.element.set_property("qos", true);
    assert!(rig.h.push_event(gst::event::FlushStart::new()));
    assert!(rig.h.push_event(gst::event::FlushStop::new(true)));
    assert!(rig.h.push_event(gst::event::Segment::new(&gst::FormattedSegment::<gst::ClockTime>::new())));
    assert!(push(&mut rig, 0));
}

/// A thousand frames a second are more than the network in plain Rust can do.
#[test]
fn field_case_28_analysis_slower_than_the_stream() {
    init();
    let pipeline = gst::parse::launch(&format!(
        "videotestsrc num-buffers=400 ! video/x-raw,format=RGB,width=160,height=160,framerate=1000/1 ! \
         rtdetrlayout name=l adapter=cpu model=\"{}\" post-messages=true ! fakesink name=s sync=true qos=true",
        folder("tiny-bottleneck").display()
    ));
    let pipeline = pipeline.unwrap().downcast::<gst::Pipeline>().unwrap();
    assert!(matches!(play(&pipeline), End::Eos));
    let stats: gst::Structure = pipeline.by_name("l").unwrap().property("stats");
    let [frames, analysed, late] = ["frames", "analysed", "late"].map(|name| stats.get::<u64>(name).unwrap());
    pipeline.set_state(gst::State::Null).unwrap();
    assert_eq!((frames, analysed + late), (400, 400));
    assert!(analysed >= 1 && late > analysed, "{stats}");
}

#[test]
fn the_latency_is_told() {
    let mut rig = Rig::golden("tiny-basic", &[]);
    let latency = |rig: &Rig| {
        let mut query = gst::query::Latency::new();
        assert!(rig.element.static_pad("src").unwrap().query(query.query_mut()));
        query.result().1
    };
    rig.h.set_upstream_latency(ms(5));
    assert_eq!(latency(&rig), ms(5));
    rig.push(golden_frame("tiny-basic"));
    let took = gst::ClockTime::from_nseconds(rig.stat("last-inference-time"));
    let told = latency(&rig);
    assert!(told >= (ms(5) + took).min(ms(1005)) && told <= ms(1005), "{told} for {took}");
    assert_eq!(rig.messages(gst::MessageType::Latency).len(), 1);
}

// ---- errors ----------------------------------------------------------------------------------------------------

/// The error with which a start fails.
#[track_caller]
fn refusal(model: &Path, properties: &[(&str, &str)]) -> gst::glib::Error {
    let (element, bus) = make(model, properties);
    assert!(element.set_state(gst::State::Ready).is_err(), "it starts");
    assert_eq!(element.current_state(), gst::State::Null);
    first_error(&bus).expect("a posted error")
}

#[test]
fn a_missing_model() {
    init();
    let element = gst::ElementFactory::make("rtdetrlayout").build().unwrap();
    let bus = gst::Bus::new();
    element.set_bus(Some(&bus));
    assert!(element.set_state(gst::State::Ready).is_err());
    let error = first_error(&bus).unwrap();
    assert!(error.matches(gst::ResourceError::NotFound), "{error:?}");
    assert!(error.message().contains("property model"), "{error}");
    element.set_state(gst::State::Null).unwrap();

    let empty = tempfile::tempdir().unwrap();
    let error = refusal(&empty.path().join("nowhere"), &[]);
    assert!(error.matches(gst::ResourceError::NotFound), "{error:?}");
    assert!(error.message().contains("nowhere"), "{error}");
    let error = refusal(empty.path(), &[]);
    assert!(error.matches(gst::ResourceError::NotFound), "{error:?}");
    assert!(error.message().contains("safetensors"), "{error}");
    Checkpoint::load("tiny-basic").write(empty.path());
    std::fs::remove_file(empty.path().join("config.json")).unwrap();
    let error = refusal(empty.path(), &[]);
    assert!(error.matches(gst::ResourceError::NotFound), "{error:?}");
    assert!(error.message().contains("config.json"), "{error}");
}

#[test]
fn bad_model_files() {
    let checkpoint = Checkpoint::load("tiny-basic");
    let model = tempfile::tempdir().unwrap();
    let file = model.path().join("model.safetensors");
    let check = |bytes: &[u8], wanted: &[&str]| {
        std::fs::write(&file, bytes).unwrap();
        let error = refusal(model.path(), &[]);
        assert!(error.matches(gst::StreamError::Format), "{error:?}");
        for wanted in wanted {
            assert!(error.message().contains(wanted), "{wanted}: {error}");
        }
    };
    checkpoint.write_config(model.path());
    let good = checkpoint.safetensors(|_| true);
    check(&good[..good.len() - 100], &["model.safetensors"]);
    check(&good[..5], &["model.safetensors"]);
    check(b"", &["model.safetensors"]);
    let dropped = "model.enc_score_head.bias";
    check(&checkpoint.safetensors(|name| name != dropped), &[dropped]);
    let mut wrong = checkpoint.clone();
    let tensor = wrong.tensors.get_mut("model.enc_score_head.weight").unwrap();
    tensor.bytes[..4].copy_from_slice(&f32::NAN.to_le_bytes());
    check(&wrong.safetensors(|_| true), &["model.enc_score_head.weight"]);
    // Other networks.
    for (kind, wanted) in [("rt_detr", "version 1"), ("d_fine", "D-FINE"), ("yolos", "yolos")] {
        let mut other = checkpoint.clone();
        other.config["model_type"] = json!(kind);
        other.write_config(model.path());
        check(&good, &[wanted, "rt_detr_v2"]);
    }
    std::fs::write(model.path().join("config.json"), "{").unwrap();
    check(&good, &["config.json"]);
    // And then it is good again.
    checkpoint.write(model.path());
    let (element, bus) = make(model.path(), &[]);
    assert!(element.set_state(gst::State::Ready).is_ok(), "{:?}", first_error(&bus));
    element.set_state(gst::State::Null).unwrap();
}

#[test]
fn settings_that_cannot_be_served() {
    for (name, value, wanted) in [
        ("input-size", "wide", "WIDTHxHEIGHT"),
        ("input-size", "100x64", "multiples of 32"),
        ("input-size", "0x64", "multiples of 32"),
        ("class-thresholds", "LABEL_0", "label=score"),
        ("class-thresholds", "LABEL_0=2", "0 to 1"),
        ("class-thresholds", "Table=0.5", "TABLE"),
        ("labels", "Table", "LABEL_0"),
        ("precision", "f16", "adapter=cpu"),
    ] {
        let error = refusal(&folder("tiny-basic"), &[(name, value)]);
        assert!(error.matches(gst::ResourceError::Settings), "{error:?}");
        assert!(error.message().contains(wanted), "{name}={value}: {error}");
    }
    let error = refusal(&folder("tiny-basic"), &[("adapter", "no-such-gpu")]);
    assert!(error.matches(gst::ResourceError::NotFound), "{error:?}");
    assert!(error.message().contains("no-such-gpu"), "{error}");
    // What only the size of the frames tells is told with the caps.
    let mut rig = Rig::new(&folder("tiny-bottleneck"), &[("input-size", "32x32")], &caps("RGB", 64, 64));
    assert!(rig.h.push(frame(&pattern(64, 64), &caps("RGB", 64, 64))).is_err());
    let error = rig.error().unwrap();
    assert!(error.matches(gst::ResourceError::Settings), "{error:?}");
    assert!(error.message().contains("32x32"), "{error}");
}

#[test]
fn a_buffer_that_is_no_frame() {
    let mut rig = Rig::golden("tiny-basic", &[]);
    rig.push(golden_frame("tiny-basic"));
    assert_eq!(rig.h.push(gst::Buffer::with_size(100).unwrap()), Err(gst::FlowError::Error));
    let error = rig.error().unwrap();
    assert!(error.matches(gst::StreamError::Format), "{error:?}");
    assert!(error.message().contains("100 bytes"), "{error}");
    // Nothing flows after an error, and nothing is said twice.
    assert_eq!(rig.h.push(golden_frame("tiny-basic")), Err(gst::FlowError::Error));
    assert!(rig.error().is_none());
}

#[test]
fn field_case_30_extreme_shapes_and_regions() {
    for (width, height) in [(1, 1), (1, 16384), (16384, 64), (2, 3)] {
        for format in ["RGB", "NV12"] {
            let caps = caps(format, width, height);
            let mut rig = Rig::golden("tiny-basic", &[]);
            rig.h.set_src_caps_str(&caps);
            let buffer = rig.push(frame(&pattern(width, height), &caps));
            let told = rig.told().remove(0);
            assert!(!told.found.is_empty(), "{caps}");
            for found in &told.found {
                let [x, y, w, h] = found.bounds;
                assert!(x >= 0.0 && y >= 0.0 && x + w <= width as f64 && y + h <= height as f64, "{caps}: {found:?}");
            }
            for (_, _, [x, y, w, h]) in regions(&buffer) {
                assert!(w > 0 && h > 0 && x + w <= width as u32 && y + h <= height as u32, "{caps}");
            }
        }
    }
    // Longer sides are not negotiated.
    let rig = Rig::golden("tiny-basic", &[]);
    let accepts = |caps: &str| rig.element.static_pad("sink").unwrap().query_accept_caps(&caps.parse().unwrap());
    assert!(accepts(&caps("RGB", 1, 16384)));
    assert!(!accepts(&caps("RGB", 1, 20000)));

    let caps = caps("RGB", 128, 128);
    for roi in
        ["0,0,0,0", "10,10,0,20", "500,500,10,10", "-50,0,20,20", "nan,0,10,10", "0,0,inf,10", "1,2,3", "a,b,c,d"]
    {
        let mut rig = Rig::golden("tiny-basic", &[("roi", roi)]);
        for _ in 0..2 {
            let out = rig.push(golden_frame("tiny-basic"));
            assert_eq!((regions(&out), rig.told()), (vec![], vec![]), "{roi}");
        }
        let warnings = rig.warnings();
        assert!(warnings.len() == 1 && warnings[0].contains(roi), "{roi}: {warnings:?}");
        // Once it is a region, it is analysed.
        rig.element.set_property("roi", "-10,-20,1e9,84.5");
        let found = rig.analyse(golden_frame("tiny-basic")).found;
        assert!(!found.is_empty(), "{caps}");
        for found in found {
            let [x, y, w, h] = found.bounds;
            assert!(x >= 0.0 && y >= 0.0 && x + w <= 128.0 && y + h <= 65.0, "{found:?}");
        }
    }
}

/// The test below runs this in a process that has no Vulkan driver.
#[test]
#[ignore = "run by without_a_driver"]
fn child_without_a_driver() {
    if !is_child("child_without_a_driver") {
        return;
    }
    init();
    // The registry's side of the element works.
    let factory = gst::ElementFactory::find("rtdetrlayout").unwrap();
    assert_eq!(factory.num_pad_templates(), 2);
    let element = factory.create().build().unwrap();
    assert_eq!(element.property::<f64>("threshold"), 0.3);
    let error = refusal(&folder("tiny-basic"), &[("adapter", "")]);
    assert!(error.matches(gst::ResourceError::NotFound), "{error:?}");
    assert!(error.message().contains("mesa-vulkan-drivers"), "{error}");
    // The CPU needs none.
    message_is_golden("tiny-basic", &[], TOLERANCE);
}

#[test]
fn without_a_driver() {
    let none = tempfile::NamedTempFile::new().unwrap();
    support::process::child(
        "child_without_a_driver",
        &[
            ("VK_DRIVER_FILES", Some(none.path())),
            ("VK_ICD_FILENAMES", Some(none.path())),
            ("VK_ADD_DRIVER_FILES", None),
        ],
    );
}

/// The test below runs this in a process of its own: the lost device is shared by a whole process.
#[test]
#[ignore = "run by a_lost_device"]
fn child_with_a_lost_device() {
    if !is_child("child_with_a_lost_device") {
        return;
    }
    let mut rig = Rig::golden("tall", &[("adapter", "")]);
    rig.push(golden_frame("tall"));
    gstframecast::gpu::Gpu::shared(None).unwrap().lose_for_test();
    assert_eq!(rig.h.push(golden_frame("tall")), Err(gst::FlowError::Error));
    let error = rig.error().unwrap();
    assert!(error.matches(gst::ResourceError::Failed), "{error:?}");
    assert!(error.message().contains("lost"), "{error}");
    // The next start opens a new device, also from READY.
    let element = rig.element.clone();
    drop(rig);
    element.set_state(gst::State::Ready).unwrap();
    element.set_state(gst::State::Null).unwrap();
    let mut rig = Rig::golden("tall", &[("adapter", "")]);
    rig.push(golden_frame("tall"));
    assert_eq!(rig.stat("analysed"), 1);
}

#[test]
fn a_lost_device() {
    in_child("child_with_a_lost_device");
}

// ---- starts and stops ------------------------------------------------------------------------------------------

#[test]
fn properties_and_names() {
    let (element, _) = make(&folder("tiny-basic"), &[]);
    let factory = element.factory().unwrap();
    assert_eq!(factory.metadata("klass"), Some("Filter/Analyzer/Video"));
    assert_eq!(factory.rank(), gst::Rank::NONE);
    assert_eq!(element.property::<Option<String>>("adapter-name"), None);
    for (name, value) in [
        ("threshold", "0.5"),
        ("class-thresholds", "LABEL_0=0.5"),
        ("labels", "LABEL_1"),
        ("cleanup", "nms"),
        ("max-detections", "7"),
        ("inference-interval", "4"),
        ("roi", "1,2,3,4"),
        ("metadata", "roi"),
        ("post-messages", "true"),
        ("input-size", "64x64"),
        ("fit", "letterbox"),
        ("precision", "f32"),
        ("qos", "false"),
    ] {
        assert_ne!(element.property_value(name).serialize().as_deref().unwrap_or(""), value, "{name}");
        element.set_property_from_str(name, value);
        let got = element.property_value(name);
        let text = got.get::<Option<String>>().ok().flatten();
        let text = text.unwrap_or_else(|| got.serialize().unwrap().to_string());
        assert_eq!(text, value, "{name}");
    }
    element.set_state(gst::State::Ready).unwrap();
    assert_eq!(element.property::<String>("adapter-name"), "cpu");
    let stats: gst::Structure = element.property("stats");
    assert_eq!(stats.get::<String>("adapter").unwrap(), "cpu");
    element.set_state(gst::State::Null).unwrap();
    assert_eq!(element.property::<Option<String>>("adapter-name"), None);
}

#[test]
fn a_model_can_be_replaced_in_ready() {
    let (element, bus) = make(&folder("tiny-basic"), &[]);
    element.set_state(gst::State::Ready).unwrap();
    element.set_property("model", "/nonexistent/model");
    assert!(element.set_state(gst::State::Paused).is_err());
    assert_eq!(element.current_state(), gst::State::Ready);
    assert!(first_error(&bus).unwrap().matches(gst::ResourceError::NotFound));
    element.set_property("model", folder("tall").to_str().unwrap());
    element.set_property("labels", "LABEL_3");
    element.set_state(gst::State::Paused).unwrap();
    element.set_state(gst::State::Null).unwrap();
    // A setting that the new model cannot serve.
    element.set_property("model", folder("wide").to_str().unwrap());
    assert!(element.set_state(gst::State::Ready).is_err());
    assert!(first_error(&bus).unwrap().message().contains("LABEL_3"));
    element.set_state(gst::State::Null).unwrap();
}

#[test]
fn caps_change_while_frames_flow() {
    let mut rig = Rig::golden("tiny-basic", &[]);
    let mut earlier = Vec::new();
    for (format, width, height) in [("RGB", 128, 128), ("NV12", 64, 200), ("BGRA", 33, 17), ("RGB", 128, 128)] {
        let caps = caps(format, width, height);
        rig.h.set_src_caps_str(&caps);
        let found = rig.analyse(frame(&pattern(width, height), &caps)).found;
        assert!(!found.is_empty());
        earlier.push(found);
    }
    assert_eq!(earlier[0], earlier[3]);
    assert_eq!(rig.stat("frames"), 4);
}

#[test]
fn fifty_starts_and_stops() {
    init();
    let pipeline = gst::parse::launch(&format!(
        "videotestsrc num-buffers=2 ! video/x-raw,format=NV12,width=64,height=48 ! \
         rtdetrlayout name=l adapter=cpu input-size=64x128 model=\"{}\" threshold=0 cleanup=none ! fakesink",
        folder("tall").display()
    ));
    let pipeline = pipeline.unwrap().downcast::<gst::Pipeline>().unwrap();
    let element = pipeline.by_name("l").unwrap();
    for _ in 0..25 {
        assert!(matches!(play(&pipeline), End::Eos));
        assert_eq!(element.property::<gst::Structure>("stats").get::<u64>("analysed"), Ok(2));
        pipeline.set_state(gst::State::Null).unwrap();
        assert_eq!(element.current_state(), gst::State::Null);
    }
    // And stopped while frames flow.
    for _ in 0..25 {
        pipeline.set_state(gst::State::Playing).unwrap();
        pipeline.set_state(gst::State::Null).unwrap();
        assert_eq!(element.current_state(), gst::State::Null);
    }
    assert!(pipeline.bus().unwrap().pop_filtered(&[gst::MessageType::Error]).is_none());
}

/// The test below runs this in a process of its own: it measures the memory of all of it.
#[test]
#[ignore = "run by field_case_29_memory_stays"]
fn child_measuring_memory() {
    if !is_child("child_measuring_memory") {
        return;
    }
    const MIB: u64 = 1 << 20;
    // As the case says, but a tenth of its frames.
    let (frames, warm) = (100, 10);
    for adapter in ["cpu", ""] {
        let properties = [("adapter", adapter), ("precision", "f32"), ("post-messages", "false")];
        let mut rig = Rig::golden("tall", &properties);
        let source = golden_frame("tall");
        let mut after_warm_up = (0, 0);
        for n in 0..frames {
            rig.push(at(source.clone(), ms(40 * n)));
            while rig.bus.pop().is_some() {}
            if n + 1 == warm {
                after_warm_up = (resident(), rig.stat("gpu-objects"));
            }
        }
        let grown = resident().saturating_sub(after_warm_up.0);
        assert!(grown < 2 * MIB, "adapter={adapter:?}: {grown} bytes over {} frames", frames - warm);
        assert_eq!(rig.stat("gpu-objects"), after_warm_up.1, "adapter={adapter:?}: objects made per frame");
        assert_eq!(rig.stat("gpu-objects") > 0, adapter.is_empty());
        assert_eq!(rig.stat("gpu-submits"), if adapter.is_empty() { frames } else { 0 });
        println!("adapter={adapter:?}: {grown} bytes over {} frames", frames - warm);
    }
    // Starts, stops and new caps.
    let mut before = 0;
    let cycles = 50;
    for cycle in 0..cycles {
        let mut rig = Rig::golden("tall", &[("post-messages", "false")]);
        for (width, height) in [(64, 128), (31, 77)] {
            let caps = caps("I420", width, height);
            rig.h.set_src_caps_str(&caps);
            rig.push(frame(&pattern(width, height), &caps));
        }
        if cycle + 1 == 10 {
            before = resident();
        }
    }
    let grown = resident().saturating_sub(before);
    println!("{grown} bytes over {} starts", cycles - 10);
    assert!(grown < 8 * MIB, "{grown} bytes over {} starts", cycles - 10);
}

#[test]
fn field_case_29_memory_stays() {
    in_child("child_measuring_memory");
}
