// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the parts of document pages in pictures and videos: a PNG with boxes for each analysed frame, and a JSON line.
//!
//! ```text
//! cargo run --release --example layout -- --model heron/ --out found/ page.png scan.mp4
//! ```
//!
//! The files are decoded by GStreamer, so whatever it has plugins for can be read.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Parser;
use font8x8::UnicodeFonts;
use gst::prelude::*;
use gst_video::prelude::*;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

type Failure = Box<dyn std::error::Error>;

#[derive(Parser)]
#[command(about = "Finds the parts of document pages in pictures and videos")]
struct Arguments {
    /// Pictures and videos.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// A Hugging Face RT-DETRv2 checkpoint: its folder or its .safetensors file.
    #[arg(long)]
    model: PathBuf,
    /// Folder for the PNGs and detections.jsonl.
    #[arg(long, default_value = ".")]
    out: PathBuf,
    /// GPU: an index or a part of its name; cpu = none.
    #[arg(long)]
    adapter: Option<String>,
    /// Score that detections must exceed.
    #[arg(long, default_value_t = 0.3)]
    threshold: f64,
    /// Keep only these labels, separated by commas.
    #[arg(long)]
    labels: Option<String>,
    /// Analyse one frame in so many.
    #[arg(long, default_value_t = 1)]
    interval: u32,
    /// Analyse only this part: x,y,width,height in pixels.
    #[arg(long)]
    roi: Option<String>,
}

/// A line of detections.jsonl.
#[derive(Serialize)]
struct Page<'a> {
    file: &'a Path,
    frame: u64,
    /// In seconds; absent for pictures.
    time: Option<f64>,
    png: &'a Path,
    inference_ms: f64,
    detections: Vec<Detection>,
}

/// In pixels of the picture.
#[derive(Serialize)]
struct Detection {
    label: String,
    label_id: i32,
    confidence: f64,
    x: f64,
    y: f64,
    width: f64,
    height: f64,
}

impl Detection {
    fn read(value: &gst::glib::Value) -> Result<Self, Failure> {
        let structure: gst::Structure = value.get()?;
        Ok(Self {
            label: structure.get("label")?,
            label_id: structure.get("label-id")?,
            confidence: structure.get("confidence")?,
            x: structure.get("x")?,
            y: structure.get("y")?,
            width: structure.get("width")?,
            height: structure.get("height")?,
        })
    }
}

fn main() -> Result<(), Failure> {
    let arguments = Arguments::parse();
    gst::init()?;
    gstframecast::plugin::plugin_register_static()?;
    std::fs::create_dir_all(&arguments.out)?;
    let mut lines = BufWriter::new(File::create(arguments.out.join("detections.jsonl"))?);
    let mut found = 0;
    for file in &arguments.files {
        found += analyse(&arguments, file, &mut lines).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    lines.flush()?;
    println!("{found} detections, see {}", arguments.out.join("detections.jsonl").display());
    Ok(())
}

/// Analyses a file; returns how many parts were found.
fn analyse(arguments: &Arguments, file: &Path, lines: &mut impl Write) -> Result<usize, Failure> {
    let source = gst::ElementFactory::make("filesrc").property("location", file).build()?;
    let decoder = gst::ElementFactory::make("decodebin").build()?;
    let converter = gst::ElementFactory::make("videoconvert").build()?;
    let layout = gst::ElementFactory::make("rtdetrlayout")
        .property("model", arguments.model.to_string_lossy().as_ref())
        .property("adapter", arguments.adapter.as_deref())
        .property("threshold", arguments.threshold)
        .property("labels", arguments.labels.as_deref())
        .property("inference-interval", arguments.interval)
        .property("roi", arguments.roi.as_deref())
        .property("post-messages", true)
        .build()?;
    // The boxes are drawn on RGB. Its frames wait for this thread, so a long video takes no more memory than a short one.
    let caps = gst_video::VideoCapsBuilder::new().format(gst_video::VideoFormat::Rgb).build();
    let sink = gst_app::AppSink::builder().caps(&caps).sync(false).max_buffers(2).build();
    let pipeline = gst::Pipeline::new();
    pipeline.add_many([&source, &decoder, &converter, &layout, sink.upcast_ref()])?;
    source.link(&decoder)?;
    gst::Element::link_many([&converter, &layout, sink.upcast_ref()])?;
    let input = converter.static_pad("sink").ok_or("videoconvert has no sink pad")?;
    let decoded = input.clone();
    decoder.connect_pad_added(move |_, pad| {
        let is_video = pad.current_caps().is_some_and(|caps| caps.iter().any(|one| one.name().starts_with("video/")));
        if is_video && !input.is_linked() {
            // What goes wrong here shows as a not-linked error of the pipeline.
            let _ = pad.link(&input);
        }
    });

    let bar = ProgressBar::new_spinner().with_message(file.display().to_string());
    let bus = pipeline.bus().ok_or("no bus")?;
    let result = pipeline
        .set_state(gst::State::Playing)
        .map_err(Failure::from)
        .and_then(|_| follow(arguments, file, lines, (&pipeline, &sink, &bus), &bar));
    // The element's own words are better than those of a failed state change.
    let result = match first_error(&bus) {
        Some(_) if layout.current_state() > gst::State::Null && !decoded.is_linked() => {
            Err("no picture or video that GStreamer can decode".into())
        }
        Some(error) => Err(error),
        None => result,
    };
    pipeline.set_state(gst::State::Null)?;
    bar.finish();
    result
}

/// Takes the frames out of the pipeline until its end.
fn follow(
    arguments: &Arguments,
    file: &Path,
    lines: &mut impl Write,
    (pipeline, sink, bus): (&gst::Pipeline, &gst_app::AppSink, &gst::Bus),
    bar: &ProgressBar,
) -> Result<usize, Failure> {
    let stem = file.file_stem().ok_or("not a file")?.to_string_lossy();
    let mut messages = VecDeque::new();
    let mut total = 0;
    let mut number = 0;
    loop {
        let Some(sample) = sink.try_pull_sample(gst::ClockTime::from_mseconds(200)) else {
            if sink.is_eos() {
                return Ok(total);
            }
            // An error ends the flow without EOS; the caller reads it.
            if bus.peek().is_some_and(|message| message.type_() == gst::MessageType::Error) {
                return Err("failed".into());
            }
            drain(bus, &mut messages)?;
            continue;
        };
        let buffer = sample.buffer().ok_or("a sample without a buffer")?;
        // The element posts a frame's message before the frame leaves it.
        drain(bus, &mut messages)?;
        if let Some(length) = pipeline.query_duration::<gst::ClockTime>().filter(|length| length.mseconds() > 0)
            && bar.length() != Some(length.mseconds())
        {
            bar.set_length(length.mseconds());
            bar.set_style(ProgressStyle::with_template("{msg} {wide_bar} {percent} %, {eta} left")?);
        }
        bar.set_position(buffer.pts().map_or(0, gst::ClockTime::mseconds));
        let frame = number;
        number += 1;
        let is_this = messages.front().is_some_and(|message| message.get::<u64>("frame") == Ok(frame));
        let Some(message) = is_this.then(|| messages.pop_front()).flatten() else { continue };

        let detections = message.get::<gst::Array>("detections")?;
        let detections = detections.iter().map(|found| Detection::read(found)).collect::<Result<Vec<_>, _>>()?;
        let is_video = bar.length().is_some();
        let png = if is_video { format!("{stem}-{frame:06}.png") } else { format!("{stem}-found.png") };
        let png = arguments.out.join(png);
        let mut picture = Picture::of(&sample)?;
        for detection in &detections {
            picture.mark(detection);
        }
        picture.write(&png)?;
        total += detections.len();
        let time = buffer.pts().filter(|_| is_video).map(|pts| pts.nseconds() as f64 / 1e9);
        let inference_ms = Duration::from_nanos(message.get("inference-time")?).as_secs_f64() * 1e3;
        serde_json::to_writer(&mut *lines, &Page { file, frame, time, png: &png, inference_ms, detections })?;
        writeln!(lines)?;
    }
}

/// Takes the element's messages off the bus, and says what it warns of.
fn drain(bus: &gst::Bus, messages: &mut VecDeque<gst::Structure>) -> Result<(), Failure> {
    let wanted = [gst::MessageType::Element, gst::MessageType::Warning, gst::MessageType::Error];
    while let Some(message) = bus.pop_filtered(&wanted) {
        match message.view() {
            gst::MessageView::Error(error) => return Err(error.error().to_string().into()),
            gst::MessageView::Warning(warning) => eprintln!("{}", warning.error()),
            gst::MessageView::Element(element) => {
                messages.extend(element.structure().filter(|s| s.name() == "rtdetrlayout").map(ToOwned::to_owned));
            }
            _ => {}
        }
    }
    Ok(())
}

fn first_error(bus: &gst::Bus) -> Option<Failure> {
    bus.pop_filtered(&[gst::MessageType::Error]).and_then(|message| match message.view() {
        gst::MessageView::Error(error) => Some(error.error().to_string().into()),
        _ => None,
    })
}

/// R, G, B without padding.
struct Picture {
    width: usize,
    height: usize,
    data: Vec<u8>,
}

impl Picture {
    fn of(sample: &gst::Sample) -> Result<Self, Failure> {
        let info = gst_video::VideoInfo::from_caps(sample.caps().ok_or("a sample without caps")?)?;
        let buffer = sample.buffer().ok_or("a sample without a buffer")?;
        let frame = gst_video::VideoFrameRef::from_buffer_ref_readable(buffer, &info)?;
        let (width, height) = (info.width() as usize, info.height() as usize);
        let stride = frame.plane_stride()[0] as usize;
        let rows = frame.plane_data(0)?.chunks(stride).take(height);
        Ok(Self { width, height, data: rows.flat_map(|row| row[..width * 3].to_vec()).collect() })
    }

    fn fill(&mut self, [left, top, right, bottom]: [i64; 4], color: [u8; 3]) {
        let (width, height) = (self.width as i64, self.height as i64);
        for y in top.clamp(0, height)..bottom.clamp(0, height) {
            for x in left.clamp(0, width)..right.clamp(0, width) {
                let at = (y * width + x) as usize * 3;
                self.data[at..at + 3].copy_from_slice(&color);
            }
        }
    }

    /// Draws a frame of the label's colour around a detection, and its label and score at the top.
    fn mark(&mut self, found: &Detection) {
        const COLORS: [[u8; 3]; 8] = [
            [220, 50, 47],
            [38, 139, 210],
            [133, 153, 0],
            [211, 54, 130],
            [203, 75, 22],
            [42, 161, 152],
            [108, 113, 196],
            [181, 137, 0],
        ];
        let color = COLORS[found.label_id as usize % COLORS.len()];
        let scale = (self.width.max(self.height) as i64 / 1000).max(1);
        let line = 2 * scale;
        let bounds = [found.x, found.y, found.x + found.width, found.y + found.height];
        let [left, top, right, bottom] = bounds.map(|v| v.round() as i64);
        for side in [
            [left, top, right, top + line],
            [left, bottom - line, right, bottom],
            [left, top, left + line, bottom],
            [right - line, top, right, bottom],
        ] {
            self.fill(side, color);
        }
        let text = format!("{} {:.2}", found.label, found.confidence);
        let glyphs: Vec<[u8; 8]> = text.chars().filter_map(|c| font8x8::BASIC_FONTS.get(c)).collect();
        let width = (glyphs.len() as i64 * 8 + 2) * scale;
        let left = left.min(self.width as i64 - width).max(0);
        self.fill([left, top, left + width, top + 10 * scale], color);
        for (n, glyph) in (0..).zip(glyphs) {
            for (row, bits) in (0..).zip(glyph) {
                for column in (0..8).filter(|column| bits >> column & 1 == 1) {
                    let (x, y) = (left + (n * 8 + column + 1) * scale, top + (row + 1) * scale);
                    self.fill([x, y, x + scale, y + scale], [255; 3]);
                }
            }
        }
    }

    fn write(&self, path: &Path) -> Result<(), Failure> {
        let mut encoder = png::Encoder::new(BufWriter::new(File::create(path)?), self.width as u32, self.height as u32);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header()?;
        writer.write_image_data(&self.data)?;
        Ok(writer.finish()?)
    }
}
