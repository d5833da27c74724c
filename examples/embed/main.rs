// SPDX-License-Identifier: MIT OR Apache-2.0
//! `framecastinterp` inside a Rust application: the plugin is linked in, frames go in from memory and come out into it.
//!
//! ```sh
//! cargo run --release --example embed                          # prints what comes out
//! cargo run --release --example embed -- --png pictures        # and writes each frame to pictures/NNN.png
//! cargo run --release --example embed -- --seek 0.5            # plays, then jumps back to 0.5 s and plays on
//! ```
//!
//! An application of your own needs this crate, `gstreamer`, `gstreamer-app` and `gstreamer-video` in its Cargo.toml;
//! nothing has to be installed for GStreamer to find.

mod scene;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::Parser;
use gst::prelude::*;

type Failure = Box<dyn std::error::Error>;

#[derive(Parser)]
struct Options {
    /// Width of the frames
    #[arg(long, default_value_t = 256)]
    width: u32,
    /// Height of the frames
    #[arg(long, default_value_t = 144)]
    height: u32,
    /// Number of frames that go in
    #[arg(long, default_value_t = 12)]
    frames: u64,
    /// Their rate in frames per second
    #[arg(long, default_value_t = 12)]
    from: i32,
    /// The rate of what comes out
    #[arg(long, default_value_t = 30)]
    to: i32,
    /// Write every frame that comes out into this folder
    #[arg(long)]
    png: Option<PathBuf>,
    /// Once everything has come out, jump to this second and play again from there
    #[arg(long)]
    seek: Option<f64>,
}

fn main() -> Result<(), Failure> {
    let options = Options::parse();

    // 1. GStreamer, and the plugin that is part of this program. `ElementFactory::make` finds the element from here on.
    gst::init()?;
    gstframecast::plugin::plugin_register_static()?;

    // 2. A pipeline: source → framecastinterp → sink. Its caps say what the source hands over: size, format and rate.
    let info = gst_video::VideoInfo::builder(gst_video::VideoFormat::Rgba, options.width, options.height)
        .fps(gst::Fraction::new(options.from, 1))
        .build()?;
    let source = gst_app::AppSrc::builder()
        .caps(&info.to_caps()?)
        .format(gst::Format::Time)
        .stream_type(gst_app::AppStreamType::Seekable)
        .duration(time_of(options.frames, options.from).nseconds())
        .build();
    let interpolator =
        gst::ElementFactory::make("framecastinterp").property("fps", gst::Fraction::new(options.to, 1)).build()?;
    // sync=false: as fast as it goes. A player would use a sink that shows each frame at its time.
    let sink = gst_app::AppSink::builder().sync(false).max_buffers(4).build();
    let pipeline = gst::Pipeline::new();
    pipeline.add_many([source.upcast_ref(), &interpolator, sink.upcast_ref()])?;
    gst::Element::link_many([source.upcast_ref(), &interpolator, sink.upcast_ref()])?;

    // 3. Frames in. The source asks for one whenever it has room; a seek only changes which one is next.
    let next = std::sync::Arc::new(AtomicU64::new(0));
    let (wanted, sought) = (next.clone(), next);
    let (width, height, count, rate) = (options.width as usize, options.height as usize, options.frames, options.from);
    source.set_callbacks(
        gst_app::AppSrcCallbacks::builder()
            .need_data(move |source, _| {
                let n = wanted.fetch_add(1, Ordering::SeqCst);
                // Errors mean that the pipeline is stopping or seeking; its own messages say why.
                let _ = if n < count {
                    let start = time_of(n, rate);
                    let mut buffer = gst::Buffer::from_slice(scene::draw(width, height, start.seconds_f32()));
                    let writable = buffer.make_mut();
                    writable.set_pts(start);
                    writable.set_duration(time_of(n + 1, rate) - start);
                    source.push_buffer(buffer)
                } else {
                    source.end_of_stream()
                };
            })
            .seek_data(move |_, nanoseconds| {
                // The frame that is on screen then.
                let showing = (0..count).take_while(|n| time_of(*n, rate).nseconds() <= nanoseconds).count() as u64;
                sought.store(showing.saturating_sub(1), Ordering::SeqCst);
                true
            })
            .build(),
    );

    // 4. Frames out. On an error the pipeline is stopped all the same: it owns threads and memory of the GPU.
    pipeline.set_state(gst::State::Playing)?;
    let result = read(&pipeline, &sink, &options).and_then(|()| match options.seek {
        Some(seconds) => {
            println!("seeking to {seconds} s");
            // Flushing: what is under way is thrown away. Accurate: the output starts exactly there.
            let flags = gst::SeekFlags::FLUSH | gst::SeekFlags::ACCURATE;
            pipeline.seek_simple(flags, gst::ClockTime::try_from_seconds_f64(seconds)?)?;
            read(&pipeline, &sink, &options)
        }
        None => Ok(()),
    });
    if result.is_ok() {
        let adapter = interpolator.property::<Option<String>>("adapter-name").unwrap_or_default();
        println!("{} frames drawn on {adapter}", interpolator.property::<u64>("interpolated"));
    }
    pipeline.set_state(gst::State::Null)?;
    result
}

/// Takes frames until the stream ends; prints when each is shown and where it comes from.
fn read(pipeline: &gst::Pipeline, sink: &gst_app::AppSink, options: &Options) -> Result<(), Failure> {
    if let Some(folder) = &options.png {
        std::fs::create_dir_all(folder)?;
    }
    while let Ok(sample) = sink.pull_sample() {
        let buffer = sample.buffer().ok_or("a sample without a buffer")?;
        let pts = buffer.pts().ok_or("a frame without a time")?;
        // A frame at an input frame's time is that one. Of the others, those that repeat one carry the GAP flag, and the
        // rest are new.
        let from = if (0..options.frames).any(|n| time_of(n, options.from) == pts) {
            "as it came"
        } else if buffer.flags().contains(gst::BufferFlags::GAP) {
            "repeated"
        } else {
            "drawn"
        };
        println!("{pts}  {from}");
        if let Some(folder) = &options.png {
            // The caps of the sample describe its pixels; GStreamer has an encoder for most things.
            let caps = gst::Caps::new_empty_simple("image/png");
            let picture = gst_video::convert_sample(&sample, &caps, Some(gst::ClockTime::from_seconds(10)))?;
            let bytes = picture.buffer().ok_or("an empty picture")?.map_readable()?;
            std::fs::write(folder.join(format!("{:03}.png", buffer.offset())), &*bytes)?;
        }
    }
    // No more samples: the stream ended, or it failed and the reason is on the bus.
    let bus = pipeline.bus().ok_or("a pipeline without a bus")?;
    match bus.pop_filtered(&[gst::MessageType::Error]) {
        Some(message) => match message.view() {
            gst::MessageView::Error(error) => Err(error.error().into()),
            _ => Ok(()),
        },
        None => Ok(()),
    }
}

/// When frame `n` starts at `rate` frames per second.
fn time_of(n: u64, rate: i32) -> gst::ClockTime {
    gst::ClockTime::from_nseconds(n * gst::ClockTime::SECOND.nseconds() / rate as u64)
}
