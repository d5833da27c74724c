// SPDX-License-Identifier: MIT OR Apache-2.0
//! What flows through the element: the state that the streaming thread owns, and what it does with it.

use std::time::{Duration, Instant};

use gst::prelude::*;
use gst::subclass::prelude::*;
use gst_base::prelude::*;

use super::imp::{CAT, Resources, RtDetrLayout, Setup};
use super::meta::Found;
use super::settings::{Filter, Settings};
use crate::element::{self, Lateness};
use crate::error::{Error, Result};
use crate::gpu::frame::FrameLayout;
use crate::rtdetr::{Analysis, Detector, DetectorConfig, Postprocessor, Rect};
use crate::video;

struct Input {
    info: gst_video::VideoInfo,
    layout: FrameLayout,
}

pub(super) struct Stream {
    resources: Resources,
    setup: Setup,
    input: Option<Input>,
    /// What the post-processing was made from.
    filter: Filter,
    post: Postprocessor,
    /// What the region was read from, and the part of the frame it is; `None`: a warning told why it is none.
    region: Option<(Option<String>, Option<Rect>)>,
    detector: Option<(Rect, Detector)>,
    /// Frames that came.
    frames: u64,
    /// Frames since the one analysed last.
    since: u32,
    /// An error was posted; nothing flows until the next start.
    failed: bool,
}

impl Stream {
    pub fn new(resources: Resources, setup: Setup, filter: Filter, post: Postprocessor) -> Self {
        Self {
            resources,
            setup,
            input: None,
            filter,
            post,
            region: None,
            detector: None,
            frames: 0,
            since: u32::MAX,
            failed: false,
        }
    }

    /// Takes new caps, and builds the network for them.
    pub fn set_caps(&mut self, imp: &RtDetrLayout, caps: &gst::Caps) -> Result<(), gst::LoggableError> {
        let refuse = |stream: &mut Self, text: &str| {
            stream.failed = true;
            imp.post_error_message(gst::error_msg!(gst::StreamError::Format, ("{text}"), ["caps: {caps}"]));
            gst::loggable_error!(CAT, "{text}: {caps}")
        };
        let Ok(info) = gst_video::VideoInfo::from_caps(caps) else { return Err(refuse(self, "bad caps")) };
        if matches!(
            info.interlace_mode(),
            gst_video::VideoInterlaceMode::Fields | gst_video::VideoInterlaceMode::Alternate
        ) {
            return Err(refuse(
                self,
                "buffers of single fields cannot be analysed: put the element deinterlace in front (... ! deinterlace \
                 ! rtdetrlayout ! ...)",
            ));
        }
        let layout = match video::layout(&info) {
            Ok(layout) => layout,
            Err(error) => return Err(refuse(self, &error.to_string())),
        };
        if self.input.as_ref().is_none_or(|input| input.layout != layout) {
            self.detector = None;
            self.region = None;
        }
        self.input = Some(Input { info, layout });
        // The first frame after new caps is analysed.
        self.since = u32::MAX;
        let roi = imp.settings().roi;
        self.prepare(imp, roi).map_err(|error| self.fail(imp, &error)).map(|_| ()).map_err(|_| {
            // The error was posted.
            gst::loggable_error!(CAT, "no network for {caps}")
        })
    }

    /// After a flush the first frame is analysed.
    pub fn flush(&mut self) {
        self.since = u32::MAX;
    }

    /// A frame on its way; returns it with what was found.
    pub fn frame(
        &mut self,
        imp: &RtDetrLayout,
        mut buffer: gst::Buffer,
    ) -> std::result::Result<gst::Buffer, gst::FlowError> {
        if self.failed {
            return Err(gst::FlowError::Error);
        }
        let settings = imp.settings();
        let number = self.frames;
        self.frames += 1;
        self.since = self.since.saturating_add(1);
        imp.report.update(|figures| figures.frames += 1);
        if self.since < settings.inference_interval {
            imp.report.update(|figures| figures.skipped += 1);
            return Ok(buffer);
        }
        if settings.qos && is_late(imp, &buffer) {
            return Ok(buffer);
        }
        match self.prepare(imp, settings.roi.clone()) {
            Ok(true) => {}
            Ok(false) => return Ok(buffer),
            Err(error) => return Err(self.fail(imp, &error)),
        }
        self.follow_filter(imp, &settings);
        let started = Instant::now();
        let analysis = match self.analyse(&buffer) {
            Ok(Some(analysis)) => analysis,
            Ok(None) => return Err(self.fail_frame(imp, &buffer)),
            Err(error) => return Err(self.fail(imp, &error)),
        };
        self.since = 0;
        let detections = self.post.run(&analysis.candidates, &analysis.placement);
        let took = started.elapsed();
        let size = self.input.as_ref().map_or([0, 0], |input| [input.info.width(), input.info.height()]);
        let found = Found { detections: &detections, labels: &self.resources.labels, size };
        if !found.attach(buffer.make_mut(), self.setup.metas) {
            return Err(self.fail(imp, &Error::Usage("GStreamer refused an analytics meta".into())));
        }
        self.tell(imp, &settings, &analysis, &found, took, (buffer.pts(), number));
        Ok(buffer)
    }

    fn tell(
        &self,
        imp: &RtDetrLayout,
        settings: &Settings,
        analysis: &Analysis,
        found: &Found<'_>,
        took: Duration,
        (timestamp, number): (Option<gst::ClockTime>, u64),
    ) {
        gst::debug!(CAT, imp = imp, "frame {number}: {} detections in {took:?}", found.detections.len());
        imp.report.update(|figures| {
            figures.analysed += 1;
            figures.detections += found.detections.len() as u64;
            figures.last_inference = took;
            figures.inference.add(took);
            if let Some(time) = analysis.gpu_time {
                figures.last_gpu = time;
                figures.gpu.add(time);
            }
            figures.counters = self.detector.as_ref().map(|(_, detector)| detector.counters());
        });
        imp.follow_latency(took);
        if settings.post_messages {
            let structure = found.message(timestamp, number, took.as_nanos() as u64);
            // Without a bus nobody listens.
            let _ = imp.obj().post_message(gst::message::Element::builder(structure).src(&*imp.obj()).build());
        }
    }

    /// Builds the network for the current caps and region unless it is there. `false`: the region is no part of the
    /// frame, and a warning was posted.
    fn prepare(&mut self, imp: &RtDetrLayout, roi: Option<String>) -> Result<bool> {
        let Some(input) = &self.input else { return Err(Error::Usage("a frame came before its caps".into())) };
        let (width, height) = (input.info.width() as usize, input.info.height() as usize);
        let rect = match &self.region {
            Some((known, rect)) if *known == roi => *rect,
            _ => {
                let rect = region(roi.as_deref(), width, height);
                if let Err(text) = &rect {
                    gst::element_imp_warning!(imp, gst::ResourceError::Settings, ("{text}: frames are not analysed"));
                }
                let rect = rect.ok();
                self.region = Some((roi, rect));
                rect
            }
        };
        let Some(rect) = rect else { return Ok(false) };
        if self.detector.as_ref().is_none_or(|(built, _)| *built != rect) {
            // What is no longer needed makes room first.
            self.detector = None;
            let config = DetectorConfig {
                layout: input.layout.clone(),
                rect,
                preprocessor: self.setup.preprocessor.clone(),
                precision: self.setup.precision,
            };
            let detector = Detector::new(self.resources.weights.clone(), &self.resources.backend, config)?;
            imp.report.update(|figures| {
                figures.storage = Some(detector.storage_name());
                figures.counters = Some(detector.counters());
            });
            self.detector = Some((rect, detector));
        }
        Ok(true)
    }

    /// Takes over changed filter settings; those that do not fit the model give a warning, and the old ones stay.
    fn follow_filter(&mut self, imp: &RtDetrLayout, settings: &Settings) {
        if settings.filter == self.filter {
            return;
        }
        match settings.filter.postprocessor(&self.resources.weights.config.labels) {
            Ok(post) => self.post = post,
            Err(error) => gst::element_imp_warning!(
                imp,
                gst::ResourceError::Settings,
                ("{error}; the earlier settings stay in force")
            ),
        }
        self.filter = settings.filter.clone();
    }

    /// `None`: the buffer holds no frame of the caps.
    fn analyse(&mut self, buffer: &gst::BufferRef) -> Result<Option<Analysis>> {
        let (Some(input), Some((_, detector))) = (&self.input, &mut self.detector) else {
            return Err(Error::Usage("a frame came before its network".into()));
        };
        let Some(frame) = video::map(buffer, &input.info) else { return Ok(None) };
        video::with_planes(&frame, |planes| detector.analyse(planes)).map(Some)
    }

    fn fail(&mut self, imp: &RtDetrLayout, error: &Error) -> gst::FlowError {
        self.failed = true;
        // Built anew at the next start.
        self.detector = None;
        imp.post_error_message(element::error_message(error));
        gst::FlowError::Error
    }

    fn fail_frame(&mut self, imp: &RtDetrLayout, buffer: &gst::BufferRef) -> gst::FlowError {
        self.failed = true;
        let caps = imp.obj().sink_pad().current_caps().map(|caps| caps.to_string()).unwrap_or_default();
        imp.post_error_message(gst::error_msg!(
            gst::StreamError::Format,
            ("a buffer of {} bytes does not hold a frame of its caps {caps}", buffer.size())
        ));
        gst::FlowError::Error
    }
}

/// The part of the frame that the property `roi` asks for, or a sentence on why there is none.
fn region(roi: Option<&str>, width: usize, height: usize) -> Result<Rect, String> {
    let Some(text) = roi else { return Ok(Rect::whole(width, height)) };
    let roi = Rect::parse_roi(text).map_err(|error| error.to_string())?;
    Rect::of_roi(roi, width, height)
        .ok_or_else(|| format!("roi {text:?} lies outside the frame of {width}x{height} pixels"))
}

/// Whether downstream said that this frame comes too late.
fn is_late(imp: &RtDetrLayout, buffer: &gst::BufferRef) -> bool {
    let Some(Lateness { earliest, proportion }) = imp.lateness() else { return false };
    let segment = imp.obj().segment();
    let (Some(pts), Some(segment)) = (buffer.pts(), segment.downcast_ref::<gst::ClockTime>()) else { return false };
    let Some(running) = segment.to_running_time(pts) else { return false };
    if running > earliest {
        return false;
    }
    let (analysed, late) = imp.report.update(|figures| {
        figures.late += 1;
        (figures.analysed, figures.late)
    });
    let jitter = earliest.nseconds().saturating_sub(running.nseconds());
    let message = gst::message::Qos::builder(false)
        .src(&*imp.obj())
        .running_time(running)
        .stream_time(segment.to_stream_time(pts))
        .timestamp(pts)
        .duration(buffer.duration())
        .values(i64::try_from(jitter).unwrap_or(i64::MAX), proportion, 1_000_000)
        .stats(gst::format::Buffers::from_u64(analysed), gst::format::Buffers::from_u64(late))
        .build();
    let _ = imp.obj().post_message(message);
    true
}
