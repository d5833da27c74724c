// SPDX-License-Identifier: MIT OR Apache-2.0
//! The element: properties, states, pads, queries and upstream events. What flows is in [`super::stream`].

use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex};

use gst::glib;
use gst::prelude::*;
use gst::subclass::prelude::*;

use super::caps;
use super::report::Report;
use super::settings::{self, Settings};
use super::stream::Stream;
pub(super) use crate::element::lock;
use crate::element::{self, Lateness};
use crate::error::Error;
use crate::gpu::Gpu;
use crate::ifnet::Weights;
use crate::video;

pub(super) static CAT: LazyLock<gst::DebugCategory> = LazyLock::new(|| {
    gst::DebugCategory::new("framecastinterp", gst::DebugColorFlags::empty(), Some("Frame interpolation"))
});

/// What NULL to READY opens.
#[derive(Clone)]
pub(super) struct Resources {
    pub gpu: Arc<Gpu>,
    pub weights: Arc<Weights>,
    /// The settings they were opened for.
    adapter: Option<String>,
    model: Option<String>,
}

/// What the element adds to the latency, and why.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Latency {
    /// A frame is held until the next one comes.
    pub hold: gst::ClockTime,
    /// What drawing may take.
    pub budget: gst::ClockTime,
}

pub struct FramecastInterp {
    pub(super) sinkpad: gst::Pad,
    pub(super) srcpad: gst::Pad,
    settings: Mutex<Settings>,
    resources: Mutex<Option<Resources>>,
    /// Taken out by whoever works on it, so that no lock is held meanwhile: the streaming thread, or a state change while
    /// there is none.
    stream: Mutex<Option<Box<Stream>>>,
    pub(super) report: Report,
    pub(super) latency: Mutex<Latency>,
    pub(super) lateness: Mutex<Option<Lateness>>,
}

#[glib::object_subclass]
impl ObjectSubclass for FramecastInterp {
    const NAME: &'static str = "GstFramecastInterp";
    type Type = super::FramecastInterp;
    type ParentType = gst::Element;

    fn with_class(class: &Self::Class) -> Self {
        let template = |name| class.pad_template(name).unwrap_or_else(|| unreachable!("{name} has a template"));
        let sinkpad = gst::Pad::builder_from_template(&template("sink"))
            .chain_function(|pad, parent, buffer| {
                Self::catch_panic_pad_function(
                    parent,
                    || Err(gst::FlowError::Error),
                    |this| {
                        this.with_stream(|stream| stream.chain(this, buffer)).unwrap_or_else(|| {
                            gst::debug!(CAT, obj = pad, "not started");
                            Err(gst::FlowError::Flushing)
                        })
                    },
                )
            })
            .event_function(|pad, parent, event| {
                Self::catch_panic_pad_function(parent, || false, |this| this.sink_event(pad, event))
            })
            .query_function(|pad, parent, query| {
                Self::catch_panic_pad_function(parent, || false, |this| this.sink_query(pad, query))
            })
            .build();
        let srcpad = gst::Pad::builder_from_template(&template("src"))
            .event_function(|pad, parent, event| {
                Self::catch_panic_pad_function(parent, || false, |this| this.src_event(pad, event))
            })
            .query_function(|pad, parent, query| {
                Self::catch_panic_pad_function(parent, || false, |this| this.src_query(pad, query))
            })
            .build();
        Self {
            sinkpad,
            srcpad,
            settings: Mutex::default(),
            resources: Mutex::default(),
            stream: Mutex::default(),
            report: Report::default(),
            latency: Mutex::default(),
            lateness: Mutex::default(),
        }
    }
}

impl ObjectImpl for FramecastInterp {
    fn properties() -> &'static [glib::ParamSpec] {
        settings::properties()
    }

    fn set_property(&self, _id: usize, value: &glib::Value, pspec: &glib::ParamSpec) {
        let result = lock(&self.settings).set(pspec.name(), value);
        match result {
            Ok(true) => self.srcpad.mark_reconfigure(),
            Ok(false) => {}
            Err(error) => gst::warning!(CAT, imp = self, "{}: {error}", pspec.name()),
        }
    }

    fn property(&self, _id: usize, pspec: &glib::ParamSpec) -> glib::Value {
        match pspec.name() {
            "adapter-name" => self.report.adapter().to_value(),
            "stats" => self.report.to_structure().to_value(),
            name => match self.report.counters.get(name) {
                Some(count) => count.to_value(),
                None => lock(&self.settings).value(name).unwrap_or_else(|| pspec.default_value().clone()),
            },
        }
    }

    fn constructed(&self) {
        self.parent_constructed();
        for pad in [&self.sinkpad, &self.srcpad] {
            if let Err(error) = self.obj().add_pad(pad) {
                gst::error!(CAT, imp = self, "{error}");
            }
        }
    }
}

impl GstObjectImpl for FramecastInterp {}

impl ElementImpl for FramecastInterp {
    fn metadata() -> Option<&'static gst::subclass::ElementMetadata> {
        static METADATA: LazyLock<gst::subclass::ElementMetadata> = LazyLock::new(|| {
            gst::subclass::ElementMetadata::new(
                "Framecast frame interpolator",
                "Filter/Effect/Video/FrameRate",
                "Converts the frame rate, drawing the missing frames with a neural network on the GPU",
                env!("CARGO_PKG_NAME"),
            )
        });
        Some(&METADATA)
    }

    fn pad_templates() -> &'static [gst::PadTemplate] {
        static TEMPLATES: LazyLock<Vec<gst::PadTemplate>> = LazyLock::new(|| {
            let caps = video::template();
            [("sink", gst::PadDirection::Sink), ("src", gst::PadDirection::Src)]
                .into_iter()
                .filter_map(|(name, direction)| {
                    gst::PadTemplate::new(name, direction, gst::PadPresence::Always, &caps).ok()
                })
                .collect()
        });
        &TEMPLATES
    }

    fn change_state(&self, transition: gst::StateChange) -> Result<gst::StateChangeSuccess, gst::StateChangeError> {
        match transition {
            gst::StateChange::NullToReady => {
                self.open()?;
            }
            gst::StateChange::ReadyToPaused => {
                // The adapter or the model may have been changed in READY, or the device lost in an earlier run.
                let resources = self.open_changed()?;
                self.report.reset();
                *lock(&self.lateness) = None;
                *lock(&self.latency) = Latency::default();
                *lock(&self.stream) = Some(Box::new(Stream::new(resources, self.settings().rate)));
            }
            _ => {}
        }
        let success = self.parent_change_state(transition);
        // On the way down the pads are inactive by now: no thread is inside the stream.
        match transition {
            gst::StateChange::PausedToReady => {
                // Freed after the lock is: it holds GPU objects and a pool.
                let stream = lock(&self.stream).take();
                drop(stream);
            }
            gst::StateChange::ReadyToNull => {
                let resources = lock(&self.resources).take();
                drop(resources);
                self.report.set_adapter(None);
            }
            _ => {}
        }
        success
    }
}

impl FramecastInterp {
    /// A copy of the settings as they are now.
    pub(super) fn settings(&self) -> Settings {
        lock(&self.settings).clone()
    }

    fn open(&self) -> Result<Resources, gst::StateChangeError> {
        let Settings { adapter, model, .. } = self.settings();
        let opened = Gpu::shared(adapter.as_deref()).and_then(|gpu| {
            let weights = match &model {
                Some(path) => Weights::load(Path::new(path))?,
                None => Weights::builtin()?,
            };
            Ok(Resources { gpu, weights: Arc::new(weights), adapter, model })
        });
        let resources = opened.map_err(|error| {
            self.post_failure(&error);
            gst::StateChangeError
        })?;
        gst::info!(
            CAT,
            imp = self,
            "adapter {}, model {} ({})",
            resources.gpu.adapter_name(),
            resources.weights.name(),
            resources.weights.graph().as_str()
        );
        self.report.set_adapter(Some(resources.gpu.adapter_name().to_owned()));
        self.obj().notify("adapter-name");
        *lock(&self.resources) = Some(resources.clone());
        Ok(resources)
    }

    fn open_changed(&self) -> Result<Resources, gst::StateChangeError> {
        let Settings { adapter, model, .. } = self.settings();
        let current = lock(&self.resources).clone();
        match current {
            Some(open) if open.adapter == adapter && open.model == model && open.gpu.lost().is_none() => Ok(open),
            _ => self.open(),
        }
    }

    /// Runs `work` on the stream; `None` if there is none, or another thread has it (which cannot be, see the field).
    pub(super) fn with_stream<R>(&self, work: impl FnOnce(&mut Stream) -> R) -> Option<R> {
        let mut stream = lock(&self.stream).take()?;
        let result = work(&mut stream);
        *lock(&self.stream) = Some(stream);
        Some(result)
    }

    /// Posts an element error for a failure of a lower layer.
    pub(super) fn post_failure(&self, error: &Error) {
        self.post_error_message(element::error_message(error));
    }

    /// Emits notify for counters unless `silent`.
    pub(super) fn notify(&self, counters: &[&str]) {
        if !lock(&self.settings).silent {
            for name in counters {
                self.obj().notify(name);
            }
        }
    }

    /// Tells the application that the latency is another one now.
    pub(super) fn set_latency(&self, latency: Latency) {
        let before = std::mem::replace(&mut *lock(&self.latency), latency);
        if before != latency {
            gst::debug!(CAT, imp = self, "latency is now {latency:?}");
            let _ = self.obj().post_message(gst::message::Latency::builder().src(&*self.obj()).build());
        }
    }

    fn sink_event(&self, pad: &gst::Pad, event: gst::Event) -> bool {
        gst::log!(CAT, obj = pad, "{event:?}");
        if !event.is_serialized() {
            return gst::Pad::event_default(pad, Some(&*self.obj()), event);
        }
        // Without a stream the element is stopped and pads are flushing.
        self.with_stream(|stream| stream.event(self, event)).unwrap_or(false)
    }

    fn sink_query(&self, pad: &gst::Pad, query: &mut gst::QueryRef) -> bool {
        match query.view_mut() {
            gst::QueryViewMut::Caps(query) => {
                let downstream = self.srcpad.peer_query_caps(None);
                let caps = caps::with_any_framerate(&downstream).intersect(&pad.pad_template_caps());
                let caps = match query.filter() {
                    Some(filter) => filter.to_owned().intersect_with_mode(&caps, gst::CapsIntersectMode::First),
                    None => caps,
                };
                query.set_result(&caps);
                true
            }
            gst::QueryViewMut::AcceptCaps(query) => {
                query.set_result(query.caps().is_subset(&pad.pad_template_caps()));
                true
            }
            gst::QueryViewMut::Allocation(query) => {
                self.with_stream(|stream| stream.propose_allocation(query)).unwrap_or(false)
            }
            gst::QueryViewMut::Drain(_) => {
                let drained = self.with_stream(|stream| stream.drain(self, false)).is_some_and(|flow| flow.is_ok());
                drained && gst::Pad::query_default(pad, Some(&*self.obj()), query)
            }
            _ => {
                if query.is_serialized() {
                    self.with_stream(|stream| stream.push_pending(self));
                }
                gst::Pad::query_default(pad, Some(&*self.obj()), query)
            }
        }
    }

    fn src_event(&self, pad: &gst::Pad, event: gst::Event) -> bool {
        gst::log!(CAT, obj = pad, "{event:?}");
        let event = match event.view() {
            gst::EventView::Qos(qos) => {
                *lock(&self.lateness) = Lateness::of(qos);
                self.scale_qos(qos).unwrap_or(event)
            }
            gst::EventView::Seek(seek) => self.scale_seek(seek).unwrap_or(event),
            _ => event,
        };
        gst::Pad::event_default(pad, Some(&*self.obj()), event)
    }

    /// Lateness in output time becomes lateness in input time where `rate` is not 1.
    fn scale_qos(&self, qos: &gst::event::Qos) -> Option<gst::Event> {
        let speed = self.settings().rate;
        if speed == 1.0 {
            return None;
        }
        let (kind, proportion, diff, timestamp) = qos.get();
        let diff = (diff as f64 * speed) as i64;
        let timestamp = timestamp.map(|timestamp| scale(timestamp, speed));
        Some(gst::event::Qos::builder(kind, proportion, diff).timestamp(timestamp).seqnum(qos.seqnum()).build())
    }

    /// A seek in output time becomes one in input time where `rate` is not 1.
    fn scale_seek(&self, seek: &gst::event::Seek) -> Option<gst::Event> {
        let speed = self.settings().rate;
        if speed == 1.0 {
            return None;
        }
        let (rate, flags, start_type, start, stop_type, stop) = seek.get();
        let scaled = |value: gst::GenericFormattedValue| match value {
            gst::GenericFormattedValue::Time(time) => {
                gst::GenericFormattedValue::Time(time.map(|time| scale(time, speed)))
            }
            other => other,
        };
        let (start, stop) = (scaled(start), scaled(stop));
        let (gst::GenericFormattedValue::Time(start), gst::GenericFormattedValue::Time(stop)) = (start, stop) else {
            return None;
        };
        Some(gst::event::Seek::builder(rate, flags, start_type, start, stop_type, stop).seqnum(seek.seqnum()).build())
    }

    fn src_query(&self, pad: &gst::Pad, query: &mut gst::QueryRef) -> bool {
        match query.view_mut() {
            gst::QueryViewMut::Caps(query) => {
                let template = pad.pad_template_caps();
                // Upstream may be ANY, so the template comes first.
                let upstream = self.sinkpad.peer_query_caps(None).intersect(&template);
                // Until frames come the properties may still change. A conflict with downstream's caps is then told when
                // it is negotiated, in better words than a failed link has.
                let caps = match self.sinkpad.current_caps() {
                    Some(_) => caps::outgoing(&upstream, &self.settings()),
                    None => caps::with_any_framerate(&upstream),
                };
                let caps = match query.filter() {
                    Some(filter) => filter.to_owned().intersect_with_mode(&caps, gst::CapsIntersectMode::First),
                    None => caps,
                };
                query.set_result(&caps);
                true
            }
            gst::QueryViewMut::AcceptCaps(query) => {
                query.set_result(query.caps().is_subset(&pad.pad_template_caps()));
                true
            }
            gst::QueryViewMut::Latency(query) => {
                if !self.sinkpad.peer_query(query.query_mut()) {
                    return false;
                }
                let (live, min, max) = query.result();
                let Latency { hold, budget } = *lock(&self.latency);
                let ours = hold + budget;
                query.set(live, min + ours, max.map(|max| max + ours));
                true
            }
            gst::QueryViewMut::Position(query) if query.format() == gst::Format::Time => {
                let found = self.sinkpad.peer_query(query.query_mut());
                if let (true, gst::GenericFormattedValue::Time(Some(time))) = (found, query.result()) {
                    query.set(self.out_of_input(time));
                }
                found
            }
            gst::QueryViewMut::Duration(query) if query.format() == gst::Format::Time => {
                let found = self.sinkpad.peer_query(query.query_mut());
                if let (true, gst::GenericFormattedValue::Time(Some(time))) = (found, query.result()) {
                    query.set(self.out_of_input(time));
                }
                found
            }
            _ => gst::Pad::query_default(pad, Some(&*self.obj()), query),
        }
    }

    /// An input time as an output time, after `rate`.
    fn out_of_input(&self, time: gst::ClockTime) -> gst::ClockTime {
        scale(time, 1.0 / self.settings().rate)
    }
}

/// A time times a factor; exact for 1.
pub(super) fn scale(time: gst::ClockTime, factor: f64) -> gst::ClockTime {
    if factor == 1.0 {
        return time;
    }
    let scaled = time.nseconds() as f64 * factor;
    // The largest value is reserved for "none".
    gst::ClockTime::from_nseconds((scaled as u64).min(u64::MAX - 1))
}
