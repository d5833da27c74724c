// SPDX-License-Identifier: MIT OR Apache-2.0
//! The element: properties, states, queries and upstream events. What flows is in [`super::stream`].

use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use gst::glib;
use gst::prelude::*;
use gst::subclass::prelude::*;
use gst_base::prelude::*;
use gst_base::subclass::base_transform::{BaseTransformImplExt, GenerateOutputSuccess};
use gst_base::subclass::prelude::*;

use super::Metadata;
use super::analytics::Analytics;
use super::meta::{Label, Metas};
use super::report::Report;
use super::settings::{self, Settings};
use super::stream::Stream;
use crate::element::{self, Lateness, lock};
use crate::error::{Error, Result};
use crate::gpu::Gpu;
use crate::nn;
use crate::rtdetr::{Backend, Postprocessor, Preprocessor, Weights};
use crate::video;

pub(super) static CAT: LazyLock<gst::DebugCategory> = LazyLock::new(|| {
    gst::DebugCategory::new("rtdetrlayout", gst::DebugColorFlags::empty(), Some("Document layout detection"))
});

/// The value of the property `adapter` that asks for none.
const CPU: &str = "cpu";

/// What the latency grows by.
const LATENCY_STEP: Duration = Duration::from_millis(10);
/// The longest analysis that the latency covers; slower ones make frames late.
const LONGEST_LATENCY: Duration = Duration::from_secs(1);

/// What NULL to READY opens.
#[derive(Clone)]
pub(super) struct Resources {
    pub backend: Backend,
    pub weights: Arc<Weights>,
    pub labels: Arc<[Label]>,
    /// The settings they were opened for.
    adapter: Option<String>,
    model: Option<String>,
}

impl Resources {
    fn open(settings: &Settings) -> Result<Self, gst::ErrorMessage> {
        let Some(model) = &settings.model else {
            return Err(gst::error_msg!(
                gst::ResourceError::NotFound,
                ("no model: there is no built-in one; set the property model to the folder of a Hugging Face RT-DETRv2 \
                  checkpoint (config.json and model.safetensors), such as docling-layout-heron")
            ));
        };
        let open = || -> Result<Self> {
            // The model first: a wrong path is told sooner than a GPU starts.
            let weights = Arc::new(Weights::load(Path::new(model))?);
            let backend = match settings.adapter.as_deref() {
                Some(CPU) => Backend::Cpu,
                adapter => Backend::Gpu(Gpu::shared(adapter)?),
            };
            let labels = Label::table(&weights.config.labels).into();
            Ok(Self { backend, weights, labels, adapter: settings.adapter.clone(), model: Some(model.clone()) })
        };
        open().map_err(|error| element::error_message(&error))
    }

    /// Whether they serve these settings.
    fn serve(&self, settings: &Settings) -> bool {
        let lost = match &self.backend {
            Backend::Cpu => false,
            Backend::Gpu(gpu) => gpu.lost().is_some(),
        };
        self.adapter == settings.adapter && self.model == settings.model && !lost
    }

    fn adapter_name(&self) -> &str {
        match &self.backend {
            Backend::Cpu => CPU,
            Backend::Gpu(gpu) => gpu.adapter_name(),
        }
    }
}

/// What stays as it is while frames flow.
#[derive(Debug, Clone)]
pub(super) struct Setup {
    pub preprocessor: Preprocessor,
    pub precision: nn::Precision,
    pub metas: Metas,
}

impl Setup {
    fn new(settings: &Settings, resources: &Resources) -> Result<Self> {
        let metas = match (settings.metadata, Analytics::get()) {
            (Metadata::Auto, analytics) => Metas { roi: true, analytics: analytics.ok() },
            (Metadata::Roi, _) => Metas { roi: true, analytics: None },
            (Metadata::Analytics, Ok(analytics)) => Metas { roi: false, analytics: Some(analytics) },
            (Metadata::Both, Ok(analytics)) => Metas { roi: true, analytics: Some(analytics) },
            (Metadata::Analytics | Metadata::Both, Err(reason)) => {
                return Err(Error::Unsupported(format!("analytics metas: {reason}; set metadata=roi")));
            }
        };
        let precision = nn::Precision::from(settings.precision);
        match &resources.backend {
            Backend::Cpu if precision == nn::Precision::F16 => {
                return Err(Error::Unsupported("adapter=cpu computes in f32: set precision=auto".into()));
            }
            Backend::Cpu => {}
            Backend::Gpu(gpu) => {
                precision.storage(gpu)?;
            }
        }
        let Weights { config, preprocessor, .. } = &*resources.weights;
        let preprocessor = Preprocessor::new(config, preprocessor, settings.network_size()?, settings.fit.into())?;
        Ok(Self { preprocessor, precision, metas })
    }
}

#[derive(Default)]
pub struct RtDetrLayout {
    settings: Mutex<Settings>,
    resources: Mutex<Option<Resources>>,
    /// Taken out by whoever works on it, so that no lock is held meanwhile: the streaming thread, or a state change while
    /// there is none.
    stream: Mutex<Option<Box<Stream>>>,
    pub(super) report: Report,
    lateness: Mutex<Option<Lateness>>,
    /// What analysis adds to the latency.
    latency: Mutex<Duration>,
}

#[glib::object_subclass]
impl ObjectSubclass for RtDetrLayout {
    const NAME: &'static str = "GstRtDetrLayout";
    type Type = super::RtDetrLayout;
    type ParentType = gst_base::BaseTransform;
}

impl ObjectImpl for RtDetrLayout {
    fn properties() -> &'static [glib::ParamSpec] {
        settings::properties()
    }

    fn set_property(&self, _id: usize, value: &glib::Value, pspec: &glib::ParamSpec) {
        let result = lock(&self.settings).set(pspec.name(), value);
        if let Err(error) = result {
            gst::warning!(CAT, imp = self, "{}: {error}", pspec.name());
        }
    }

    fn property(&self, _id: usize, pspec: &glib::ParamSpec) -> glib::Value {
        match pspec.name() {
            "adapter-name" => self.report.adapter().to_value(),
            "stats" => self.report.to_structure().to_value(),
            name => lock(&self.settings).value(name).unwrap_or_else(|| pspec.default_value().clone()),
        }
    }
}

impl GstObjectImpl for RtDetrLayout {}

impl ElementImpl for RtDetrLayout {
    fn metadata() -> Option<&'static gst::subclass::ElementMetadata> {
        static METADATA: LazyLock<gst::subclass::ElementMetadata> = LazyLock::new(|| {
            gst::subclass::ElementMetadata::new(
                "RT-DETR document layout detector",
                "Filter/Analyzer/Video",
                "Finds the parts of a document page with a neural network (RT-DETRv2) on the GPU",
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
                // Settings may have been changed in READY, or the device lost in an earlier run.
                let stream = self.open()?;
                self.report.reset();
                *lock(&self.lateness) = None;
                *lock(&self.latency) = Duration::ZERO;
                *lock(&self.stream) = Some(Box::new(stream));
            }
            _ => {}
        }
        let success = self.parent_change_state(transition);
        // On the way down the pads are inactive by now: no thread is inside the stream.
        match transition {
            gst::StateChange::PausedToReady => {
                // Freed after the lock is: it holds GPU objects.
                let stream = lock(&self.stream).take();
                drop(stream);
            }
            gst::StateChange::ReadyToNull => {
                let resources = lock(&self.resources).take();
                drop(resources);
                self.report.set_adapter(None);
                self.obj().notify("adapter-name");
            }
            _ => {}
        }
        success
    }
}

impl BaseTransformImpl for RtDetrLayout {
    const MODE: gst_base::subclass::BaseTransformMode = gst_base::subclass::BaseTransformMode::AlwaysInPlace;
    const PASSTHROUGH_ON_SAME_CAPS: bool = false;
    const TRANSFORM_IP_ON_PASSTHROUGH: bool = false;

    fn set_caps(&self, input: &gst::Caps, _output: &gst::Caps) -> Result<(), gst::LoggableError> {
        self.with_stream(|stream| stream.set_caps(self, input))
            .unwrap_or_else(|| Err(gst::loggable_error!(CAT, "not started")))
    }

    /// The parent would copy the pixels of frames that others hold, too; a buffer that shares them is all that is needed.
    fn generate_output(&self) -> Result<GenerateOutputSuccess, gst::FlowError> {
        let Some(buffer) = self.take_queued_buffer() else { return Ok(GenerateOutputSuccess::NoOutput) };
        let result = self.with_stream(|stream| stream.frame(self, buffer));
        result.unwrap_or(Err(gst::FlowError::Flushing)).map(GenerateOutputSuccess::Buffer)
    }

    /// The frames go downstream as they came, so downstream's pools and metas are upstream's.
    fn propose_allocation(
        &self,
        _decide_query: Option<&gst::query::Allocation>,
        query: &mut gst::query::Allocation,
    ) -> Result<(), gst::LoggableError> {
        self.parent_propose_allocation(None, query)
    }

    /// No buffer is ever made here. The parent would configure, and later stop, a pool that upstream uses.
    fn decide_allocation(&self, query: &mut gst::query::Allocation) -> Result<(), gst::LoggableError> {
        for _ in 0..query.allocation_pools().count() {
            query.remove_nth_allocation_pool(0);
        }
        Ok(())
    }

    fn sink_event(&self, event: gst::Event) -> bool {
        if let gst::EventView::FlushStop(_) = event.view() {
            *lock(&self.lateness) = None;
            self.with_stream(Stream::flush);
        }
        self.parent_sink_event(event)
    }

    fn src_event(&self, event: gst::Event) -> bool {
        if let gst::EventView::Qos(qos) = event.view() {
            *lock(&self.lateness) = Lateness::of(qos);
        }
        self.parent_src_event(event)
    }

    fn query(&self, direction: gst::PadDirection, query: &mut gst::QueryRef) -> bool {
        if direction == gst::PadDirection::Src
            && let gst::QueryViewMut::Latency(query) = query.view_mut()
        {
            if !self.obj().sink_pad().peer_query(query.query_mut()) {
                return false;
            }
            let (live, min, max) = query.result();
            let ours = gst::ClockTime::from_nseconds(lock(&self.latency).as_nanos() as u64);
            query.set(live, min + ours, max.map(|max| max + ours));
            return true;
        }
        BaseTransformImplExt::parent_query(self, direction, query)
    }
}

impl RtDetrLayout {
    /// A copy of the settings as they are now.
    pub(super) fn settings(&self) -> Settings {
        lock(&self.settings).clone()
    }

    pub(super) fn lateness(&self) -> Option<Lateness> {
        *lock(&self.lateness)
    }

    /// Opens model and adapter unless they are open, and checks all settings against them.
    fn open(&self) -> Result<Stream, gst::StateChangeError> {
        let settings = self.settings();
        let open = lock(&self.resources).clone().filter(|open| open.serve(&settings));
        let prepared = open.map_or_else(|| Resources::open(&settings), Ok).and_then(|resources| {
            let (setup, post) = prepare(&settings, &resources).map_err(|error| element::error_message(&error))?;
            Ok((resources, setup, post))
        });
        let (resources, setup, post) = prepared.map_err(|message| {
            self.post_error_message(message);
            gst::StateChangeError
        })?;
        gst::info!(CAT, imp = self, "adapter {}, model {:?}", resources.adapter_name(), resources.model);
        self.report.set_adapter(Some(resources.adapter_name().to_owned()));
        self.obj().notify("adapter-name");
        // What it replaces is freed after the lock is.
        let replaced = lock(&self.resources).replace(resources.clone());
        drop(replaced);
        Ok(Stream::new(resources, setup, settings.filter, post))
    }

    /// Runs `work` on the stream; `None` if there is none, or another thread has it (which cannot be, see the field).
    fn with_stream<R>(&self, work: impl FnOnce(&mut Stream) -> R) -> Option<R> {
        let mut stream = lock(&self.stream).take()?;
        let result = work(&mut stream);
        *lock(&self.stream) = Some(stream);
        Some(result)
    }

    /// The latency covers the longest analysis seen.
    pub(super) fn follow_latency(&self, took: Duration) {
        let steps = took.min(LONGEST_LATENCY).as_nanos().div_ceil(LATENCY_STEP.as_nanos());
        let needed = LATENCY_STEP * u32::try_from(steps).unwrap_or(u32::MAX);
        let grown = {
            let mut latency = lock(&self.latency);
            let grown = needed > *latency;
            *latency = needed.max(*latency);
            grown
        };
        if grown {
            gst::debug!(CAT, imp = self, "latency is now {needed:?}");
            let _ = self.obj().post_message(gst::message::Latency::builder().src(&*self.obj()).build());
        }
    }
}

fn prepare(settings: &Settings, resources: &Resources) -> Result<(Setup, Postprocessor)> {
    let setup = Setup::new(settings, resources)?;
    Ok((setup, settings.filter.postprocessor(&resources.weights.config.labels)?))
}
