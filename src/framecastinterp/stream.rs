// SPDX-License-Identifier: MIT OR Apache-2.0
//! What flows through the element: the state that the streaming thread owns, and what it does with it.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use gst::prelude::*;
use gst::subclass::prelude::*;
use gst_video::VideoFrameRef;
use gst_video::prelude::*;

use super::allocation::Allocation;
use super::caps::{self, Choice, Input, Refusal};
use super::frames;
use super::imp::{CAT, FramecastInterp, Latency, Resources, lock, scale};
use super::scene::{Thumbnail, score};
use super::settings::Settings;
use super::timeline::{Arrival, Bounds, Mode, Output, Rate, Source, Timeline, Verdict};
use super::{Precision, StaticGuard};
use crate::element::Lateness;
use crate::error::Error;
use crate::ifnet::{self, FrameId, Interpolator, MAX_BATCH, Ticket};

/// Outputs that wait for the ones before them at most.
const QUEUE: usize = 2 * MAX_BATCH;

/// The frame gap assumed for input of variable rate until a longer one is seen.
const FIRST_GAP: gst::ClockTime = gst::ClockTime::from_mseconds(40);
/// The longest gap the latency covers: longer ones are holes.
const LONGEST_GAP: gst::ClockTime = gst::ClockTime::from_mseconds(500);

/// A frame and its identity on the GPU.
struct Frame {
    buffer: gst::Buffer,
    id: FrameId,
}

/// An output on its way out.
struct Due {
    output: Output,
    ticket: Option<Ticket>,
}

pub(super) struct Stream {
    resources: Resources,
    /// The `rate` property: how fast input time passes in output time.
    speed: f64,
    input: Option<Input>,
    /// What went out as the CAPS event.
    output: Option<(gst::Caps, gst_video::VideoInfo)>,
    /// The output rate is to come from the first frames' timestamps.
    undecided: bool,
    /// The input rate that the first frames told.
    estimate: Option<gst::Fraction>,
    /// The first frame, while the output rate is undecided.
    first: Option<gst::Buffer>,
    /// As it came, to know it again, and as it goes out.
    segment: Option<(gst::Segment, gst::FormattedSegment<gst::ClockTime>)>,
    timeline: Timeline,
    held: Option<Frame>,
    later: Option<Frame>,
    /// Events that came after the held frame.
    pending: VecDeque<gst::Event>,
    allocation: Option<Allocation>,
    interpolator: Option<Interpolator>,
    /// The thumbnails of the last two frames that were compared.
    thumbnails: [(Option<FrameId>, Thumbnail); 2],
    queue: VecDeque<Due>,
    times: Vec<f64>,
    tickets: Vec<Ticket>,
    /// An error was posted; nothing flows until the next start.
    failed: bool,
}

impl Stream {
    pub fn new(resources: Resources, speed: f64) -> Self {
        Self {
            resources,
            speed,
            input: None,
            output: None,
            undecided: false,
            estimate: None,
            first: None,
            segment: None,
            timeline: Timeline::new(),
            held: None,
            later: None,
            pending: VecDeque::new(),
            allocation: None,
            interpolator: None,
            thumbnails: Default::default(),
            queue: VecDeque::with_capacity(QUEUE),
            times: Vec::with_capacity(MAX_BATCH),
            tickets: Vec::with_capacity(MAX_BATCH),
            failed: false,
        }
    }

    // ---- input -------------------------------------------------------------------------------------------------

    pub fn chain(&mut self, imp: &FramecastInterp, buffer: gst::Buffer) -> Result<gst::FlowSuccess, gst::FlowError> {
        if self.failed {
            return Err(gst::FlowError::Error);
        }
        if self.input.is_none() {
            return Err(
                self.refuse(imp, gst::error_msg!(gst::CoreError::Negotiation, ("a frame came before its caps")))
            );
        }
        if imp.srcpad.check_reconfigure() && (self.output.is_some() || self.undecided) {
            self.renegotiate(imp)?;
        }
        if self.undecided {
            if !self.decide(imp, &buffer)? {
                if buffer.pts().is_some() {
                    self.first.get_or_insert(buffer);
                }
                return Ok(gst::FlowSuccess::Ok);
            }
            if let Some(first) = self.first.take() {
                self.frame(imp, first)?;
            }
        }
        self.frame(imp, buffer).map(|()| gst::FlowSuccess::Ok)
    }

    /// Where neither caps nor settings tell the output rate, the first frame's duration or the time to the second frame
    /// does. Returns whether it is decided now.
    fn decide(&mut self, imp: &FramecastInterp, buffer: &gst::Buffer) -> Result<bool, gst::FlowError> {
        let interval = match &self.first {
            None => buffer.duration().map(|duration| duration.nseconds()),
            Some(first) => {
                first.pts().zip(buffer.pts()).map(|(first, second)| first.nseconds().abs_diff(second.nseconds()))
            }
        };
        let rate = interval.filter(|interval| *interval > 0).and_then(|interval| {
            let guess = gst_video::guess_framerate(gst::ClockTime::from_nseconds(interval));
            guess.filter(|rate| rate.numer() > 0).or_else(|| {
                let microseconds = i32::try_from(interval / 1000).ok().filter(|interval| *interval > 0)?;
                Some(gst::Fraction::new(1_000_000, microseconds))
            })
        });
        let Some(rate) = rate else { return Ok(false) };
        gst::info!(CAT, imp = imp, "the first frames tell an input rate of {rate}");
        self.estimate = Some(rate);
        self.negotiate(imp, Some(rate))?;
        Ok(true)
    }

    fn frame(&mut self, imp: &FramecastInterp, buffer: gst::Buffer) -> Result<(), gst::FlowError> {
        let settings = imp.settings();
        self.timeline.set_limits(settings.limits());
        let speed = 1.0 / self.speed;
        let time = |time: Option<gst::ClockTime>| time.map(|time| scale(time, speed).nseconds());
        let arrival = Arrival {
            pts: time(buffer.pts()),
            duration: time(buffer.duration()),
            discont: buffer.flags().contains(gst::BufferFlags::DISCONT),
        };
        let verdict = self.timeline.push(arrival);
        if verdict == Verdict::Untimed {
            gst::warning!(CAT, imp = imp, "dropping a frame without timestamp: none before it tells when it is due");
            return Ok(());
        }
        imp.report.counters.input.fetch_add(1, Relaxed);
        imp.notify(&["in"]);
        if verdict == Verdict::Late {
            gst::debug!(CAT, imp = imp, "dropping a frame at {:?}: not later than the one before", buffer.pts());
            self.count_drop(imp);
            return Ok(());
        }
        self.later = Some(Frame { buffer: self.untangle(imp, buffer)?, id: FrameId::next() });
        if self.timeline.needs_network() {
            self.prepare_pair(imp, &settings)?;
        }
        let flow = self.emit_due(imp);
        if self.timeline.commit() {
            self.count_drop(imp);
        }
        self.held = self.later.take();
        flow?;
        self.push_pending(imp);
        self.follow_gap(imp);
        Ok(())
    }

    /// Where downstream cannot know of a GstVideoMeta, frames whose planes lie elsewhere are put where plain caps say.
    fn untangle(&mut self, imp: &FramecastInterp, buffer: gst::Buffer) -> Result<gst::Buffer, gst::FlowError> {
        let (Some(input), Some(allocation)) = (&self.input, &self.allocation) else { return Ok(buffer) };
        if allocation.video_meta || !frames::is_moved(&buffer, &input.info) {
            return Ok(buffer);
        }
        let mut plain = allocation.acquire()?;
        let copied = plain.make_mut();
        let pixels = frames::map(&buffer, &input.info).is_some_and(|from| {
            VideoFrameRef::from_buffer_ref_writable(copied, &input.info)
                .is_ok_and(|mut to| frames::copy(&from, &mut to))
        });
        if !pixels {
            return Err(self.fail_frame(imp));
        }
        let all = gst::BufferCopyFlags::FLAGS | gst::BufferCopyFlags::TIMESTAMPS;
        if buffer.copy_into(copied, all, ..).is_err() {
            return Err(self.fail_frame(imp));
        }
        buffer.foreach_meta(|meta| {
            if meta.api() != gst_video::VideoMeta::meta_api() {
                // A meta that cannot be copied is left out, as in any copy.
                let _ = meta.transform(copied, &gst::meta::MetaTransformCopy::new(..));
            }
            std::ops::ControlFlow::Continue(())
        });
        Ok(plain)
    }

    fn count_drop(&self, imp: &FramecastInterp) {
        imp.report.counters.drop.fetch_add(1, Relaxed);
        imp.notify(&["drop"]);
    }

    /// Input of variable rate: the latency covers the longest gap seen.
    fn follow_gap(&mut self, imp: &FramecastInterp) {
        if self.input.as_ref().is_none_or(|input| input.rate.is_some()) {
            return;
        }
        let Some(gap) = self.timeline.last_gap().map(gst::ClockTime::from_nseconds) else { return };
        let latency = *lock(&imp.latency);
        if gap > latency.hold && !latency.hold.is_zero() && gap <= LONGEST_GAP {
            let step = gst::ClockTime::from_mseconds(10).nseconds();
            let hold = gst::ClockTime::from_nseconds(gap.nseconds().next_multiple_of(step));
            imp.set_latency(Latency { hold, ..latency });
        }
    }

    // ---- events ------------------------------------------------------------------------------------------------

    /// A serialized event.
    pub fn event(&mut self, imp: &FramecastInterp, event: gst::Event) -> bool {
        match event.view() {
            gst::EventView::FlushStop(_) => {
                self.flush();
                imp.report.restart();
                *lock(&imp.lateness) = None;
                imp.srcpad.push_event(event)
            }
            gst::EventView::StreamStart(_) | gst::EventView::StreamGroupDone(_) => {
                self.drain_before(imp, false);
                imp.srcpad.push_event(event)
            }
            gst::EventView::SegmentDone(_) => {
                self.drain_before(imp, true);
                imp.srcpad.push_event(event)
            }
            gst::EventView::Caps(caps) => {
                let caps = caps.caps_owned();
                if self.input.as_ref().is_some_and(|input| input.caps == caps) {
                    return true;
                }
                self.drain_before(imp, false);
                self.set_caps(imp, &caps).is_ok()
            }
            gst::EventView::Segment(segment) => {
                let segment = segment.segment().clone();
                self.set_segment(imp, event, segment)
            }
            gst::EventView::Gap(gap) => {
                let (pts, duration) = gap.get();
                let speed = 1.0 / self.speed;
                self.timeline
                    .gap(scale(pts, speed).nseconds(), duration.map(|duration| scale(duration, speed).nseconds()));
                let flow = self.emit_due(imp);
                self.timeline.commit();
                flow.is_ok()
            }
            gst::EventView::Eos(_) => {
                self.drain_before(imp, true);
                // What waits for caps has none to wait for.
                for event in self.pending.drain(..) {
                    imp.srcpad.push_event(event);
                }
                imp.srcpad.push_event(event)
            }
            _ if self.timeline.is_holding() || self.output.is_none() => {
                self.pending.push_back(event);
                true
            }
            _ => imp.srcpad.push_event(event),
        }
    }

    /// Pushes the events that came after the held frame. Before the first caps they wait.
    pub fn push_pending(&mut self, imp: &FramecastInterp) {
        if self.output.is_none() {
            return;
        }
        for event in self.pending.drain(..) {
            imp.srcpad.push_event(event);
        }
    }

    fn set_segment(&mut self, imp: &FramecastInterp, event: gst::Event, segment: gst::Segment) -> bool {
        if self.segment.as_ref().is_some_and(|(current, _)| *current == segment) {
            // Nothing changes but the event's sequence number, which others may wait for.
            return self.push_segment(imp, &event);
        }
        let Some(time) = segment.downcast_ref::<gst::ClockTime>() else {
            let format = segment.format();
            let _ =
                self.refuse(imp, gst::error_msg!(gst::StreamError::Format, ("a segment in {format:?}, not in time")));
            return false;
        };
        let mut scaled = time.clone();
        if self.speed != 1.0 {
            let scale = |value: Option<gst::ClockTime>| value.map(|value| scale(value, 1.0 / self.speed));
            scaled.set_start(scale(time.start()));
            scaled.set_stop(scale(time.stop()));
            scaled.set_time(scale(time.time()));
            scaled.set_position(scale(time.position()));
            scaled.set_base(scale(time.base()));
            scaled.set_offset(scale(time.offset()));
            scaled.set_duration(scale(time.duration()));
        }
        self.drain_before(imp, true);
        self.timeline.start_segment(Bounds {
            start: scaled.start().map(|time| time.nseconds()),
            stop: scaled.stop().map(|time| time.nseconds()),
            reverse: scaled.rate() < 0.0,
        });
        self.segment = Some((segment, scaled));
        self.push_segment(imp, &event)
    }

    fn push_segment(&mut self, imp: &FramecastInterp, event: &gst::EventRef) -> bool {
        let Some((_, segment)) = &self.segment else { return false };
        let event = gst::event::Segment::builder(segment)
            .seqnum(event.seqnum())
            .running_time_offset(event.running_time_offset())
            .build();
        if self.output.is_none() {
            self.pending.push_back(event);
            return true;
        }
        imp.srcpad.push_event(event)
    }

    /// Forgets frames, events and the segment, not the caps.
    fn flush(&mut self) {
        self.timeline.reset();
        self.held = None;
        self.later = None;
        self.first = None;
        self.segment = None;
        // Sticky events stay on the pads; what was on its way is gone.
        self.pending.retain(|event| event.is_sticky() && event.type_() != gst::EventType::Segment);
        self.give_up();
    }

    /// Gives up the made frames under way.
    fn give_up(&mut self) {
        self.queue.clear();
        if let Some(interpolator) = &mut self.interpolator {
            interpolator.reset();
        }
    }

    /// Drains before an event; what went wrong shows at the next frame.
    fn drain_before(&mut self, imp: &FramecastInterp, to_stop: bool) {
        if let Err(error) = self.drain(imp, to_stop) {
            gst::debug!(CAT, imp = imp, "draining: {error:?}");
        }
    }

    /// Shows the held frame until it ends (`to_stop`: until the segment does), then the events after it.
    pub fn drain(&mut self, imp: &FramecastInterp, to_stop: bool) -> Result<(), gst::FlowError> {
        if let Some(first) = self.first.take() {
            // No second frame came to tell a rate: this one passes as it is, and the next frames tell.
            self.negotiate(imp, None)?;
            let flow = self.frame(imp, first);
            self.undecided = true;
            flow?;
        }
        self.timeline.set_limits(imp.settings().limits());
        self.timeline.drain(to_stop);
        let flow = self.emit_due(imp);
        if self.timeline.commit() {
            self.count_drop(imp);
        }
        self.held = None;
        self.push_pending(imp);
        flow
    }

    // ---- caps --------------------------------------------------------------------------------------------------

    fn set_caps(&mut self, imp: &FramecastInterp, caps: &gst::Caps) -> Result<(), gst::FlowError> {
        let input = Input::new(caps).map_err(|refusal| {
            let message = match refusal {
                Refusal::Interlaced => gst::error_msg!(
                    gst::StreamError::Format,
                    ("interlaced video cannot be interpolated: put the element deinterlace in front \
                         (... ! deinterlace ! framecastinterp ! ...)"),
                    ["caps: {caps}"]
                ),
                Refusal::Other(text) => gst::error_msg!(gst::StreamError::Format, ("{text}"), ["caps: {caps}"]),
            };
            self.refuse(imp, message)
        })?;
        if self.interpolator.as_ref().is_some_and(|interpolator| !same_layout(interpolator, &input)) {
            self.interpolator = None;
        }
        let rate = input.rate;
        self.input = Some(input);
        self.undecided = false;
        self.estimate = None;
        // Whatever asked for a negotiation so far gets this one.
        imp.srcpad.check_reconfigure();
        self.negotiate_or_wait(imp, rate)
    }

    fn renegotiate(&mut self, imp: &FramecastInterp) -> Result<(), gst::FlowError> {
        let rate = self.input.as_ref().and_then(|input| input.rate).or(self.estimate);
        let result = if self.undecided { self.negotiate_or_wait(imp, rate) } else { self.negotiate(imp, rate) };
        if result.is_err() {
            imp.srcpad.mark_reconfigure();
        }
        result
    }

    fn negotiate_or_wait(&mut self, imp: &FramecastInterp, rate: Option<gst::Fraction>) -> Result<(), gst::FlowError> {
        match self.choose(imp, rate)? {
            Choice::Caps(caps) => self.apply(imp, caps),
            Choice::Unknown => {
                gst::debug!(CAT, imp = imp, "waiting for frames to tell the rate");
                self.undecided = true;
                Ok(())
            }
        }
    }

    /// Negotiates the output with a known or estimated input rate; with none where it matters, the output rate is
    /// variable, too.
    fn negotiate(&mut self, imp: &FramecastInterp, rate: Option<gst::Fraction>) -> Result<(), gst::FlowError> {
        match self.choose(imp, rate)? {
            Choice::Caps(caps) => self.apply(imp, caps),
            Choice::Unknown => {
                let Some(input) = &self.input else { return Err(gst::FlowError::NotNegotiated) };
                let caps = caps::with_framerate(&input.caps, gst::Fraction::new(0, 1));
                self.apply(imp, caps)
            }
        }
    }

    fn choose(&mut self, imp: &FramecastInterp, rate: Option<gst::Fraction>) -> Result<Choice, gst::FlowError> {
        let Some(input) = &self.input else { return Err(gst::FlowError::NotNegotiated) };
        let downstream = imp.srcpad.peer_query_caps(None);
        let choice = caps::choose(&input.caps, rate, &downstream, &imp.settings());
        choice.map_err(|text| {
            if imp.srcpad.pad_flags().contains(gst::PadFlags::FLUSHING) {
                return gst::FlowError::Flushing;
            }
            self.refuse(imp, gst::error_msg!(gst::CoreError::Negotiation, ("{text}")))
        })
    }

    /// Sends caps and prepares for them.
    fn apply(&mut self, imp: &FramecastInterp, caps: gst::Caps) -> Result<(), gst::FlowError> {
        let Some(input) = &self.input else { return Err(gst::FlowError::NotNegotiated) };
        let Ok(info) = gst_video::VideoInfo::from_caps(&caps) else {
            return Err(self.fail(imp, gst::error_msg!(gst::StreamError::Format, ("bad output caps {caps}"))));
        };
        let settings = imp.settings();
        let rate = Rate::new(info.fps().numer(), info.fps().denom());
        let nominal = input.rate.and_then(|rate| Rate::new(rate.numer(), rate.denom()));
        let mode = self.mode(&settings, info.fps(), input.rate);
        let nominal = nominal.map(|rate| (rate.period() as f64 / self.speed) as u64);
        self.timeline.set_rates(mode, rate, nominal, self.speed);
        self.undecided = false;
        if mode == Mode::Interpolate {
            self.build(imp)?;
        }
        if self.output.as_ref().is_none_or(|(current, _)| *current != caps) {
            gst::info!(CAT, imp = imp, "{caps}, {mode:?}");
            if !imp.srcpad.push_event(gst::event::Caps::new(&caps)) {
                if imp.srcpad.pad_flags().contains(gst::PadFlags::FLUSHING) {
                    return Err(gst::FlowError::Flushing);
                }
                gst::warning!(CAT, imp = imp, "downstream refused {caps}");
                return Err(gst::FlowError::NotNegotiated);
            }
        }
        self.output = Some((caps.clone(), info.clone()));
        // Downstream may offer the same pool again, which must not be active while it is configured.
        self.allocation = None;
        match Allocation::decide(&imp.srcpad, &caps, info.size()) {
            Ok(allocation) => self.allocation = Some(allocation),
            Err(error) => {
                let message = gst::error_msg!(gst::ResourceError::Settings, ("no buffers for {caps}: {error}"));
                return Err(self.fail(imp, message));
            }
        }
        if !self.timeline.is_holding() {
            self.push_pending(imp);
        }
        let hold = match nominal {
            Some(nominal) => gst::ClockTime::from_nseconds(nominal),
            None => lock(&imp.latency).hold.max(FIRST_GAP),
        };
        imp.set_latency(match mode {
            Mode::Interpolate | Mode::InterpolateWide => {
                // A frame that takes longer to draw than to show cannot keep up anyway.
                let budget = rate.map_or(gst::ClockTime::ZERO, |rate| gst::ClockTime::from_nseconds(rate.period()));
                Latency { hold, budget }
            }
            Mode::Nearest => Latency { hold, budget: gst::ClockTime::ZERO },
            Mode::DropOnly | Mode::Pass | Mode::Average { .. } => Latency::default(),
        });
        Ok(())
    }

    fn mode(&self, settings: &Settings, output: gst::Fraction, input: Option<gst::Fraction>) -> Mode {
        if settings.average_period > 0 {
            return Mode::Average { period: settings.average_period };
        }
        if output.numer() == 0 {
            return Mode::Pass;
        }
        if settings.drop_only {
            return Mode::DropOnly;
        }
        let product = |a: i32, b: i32| f64::from(a) * f64::from(b);
        match input {
            None => Mode::InterpolateWide,
            // Products of 32-bit numbers are exact.
            Some(input)
                if product(output.numer(), input.denom()) > product(input.numer(), output.denom()) * self.speed =>
            {
                Mode::Interpolate
            }
            Some(_) => Mode::Nearest,
        }
    }

    /// Answers upstream's allocation query.
    pub fn propose_allocation(&self, query: &mut gst::query::Allocation) -> bool {
        match (&self.allocation, &self.output) {
            (Some(allocation), Some((_, info))) => allocation.propose(query, info),
            _ => false,
        }
    }

    // ---- output ------------------------------------------------------------------------------------------------

    /// Decides whether frames are made between the held and the later frame, and if so brings both to the GPU.
    fn prepare_pair(&mut self, imp: &FramecastInterp, settings: &Settings) -> Result<(), gst::FlowError> {
        if self.views_alternate() || settings.qos && self.is_late(imp) {
            self.timeline.hold_pair();
            return Ok(());
        }
        let (Some(input), Some(a), Some(b)) = (&self.input, &self.held, &self.later) else {
            self.timeline.hold_pair();
            return Ok(());
        };
        let (ids, info) = ((a.id, b.id), input.info.clone());
        // The references keep the memory mapped while `self` changes.
        let (a, b) = (a.buffer.clone(), b.buffer.clone());
        let (Some(first), Some(second)) = (frames::map(&a, &info), frames::map(&b, &info)) else {
            return Err(self.fail_frame(imp));
        };
        if frames::equal(&first, &second) {
            imp.report.update(|figures| figures.equal_pairs += 1);
            self.timeline.hold_pair();
            return Ok(());
        }
        if settings.scene_threshold > 0.0 && self.is_cut([(ids.0, &first), (ids.1, &second)], settings.scene_threshold)
        {
            gst::debug!(CAT, imp = imp, "scene cut before {:?}", b.pts());
            imp.report.update(|figures| figures.scene_cuts += 1);
            self.timeline.hold_pair();
            return Ok(());
        }
        self.build(imp)?;
        let reverse = self.is_reverse();
        let Some(interpolator) = &mut self.interpolator else { return Err(gst::FlowError::Error) };
        let started = Instant::now();
        let mut uploads = 0;
        let mut result = Ok(());
        for (id, frame) in [(ids.0, &first), (ids.1, &second)] {
            if result.is_ok() && !interpolator.is_resident(id) {
                result = frames::with_planes(frame, |planes| interpolator.upload(id, planes));
                uploads += 1;
            }
        }
        // The network draws from the frame with the earlier PTS to the one with the later.
        let (from, to) = if reverse { (ids.1, ids.0) } else { ids };
        result = result.and_then(|()| interpolator.set_pair(from, to));
        if let Err(error) = result {
            return Err(self.fail_gpu(imp, &error));
        }
        if uploads > 0 {
            let each = started.elapsed() / uploads;
            imp.report.update(|figures| figures.upload.add(each));
        }
        Ok(())
    }

    /// Whether the frames of a pair, or neighbouring pixels of a frame, may belong to different eyes: nothing is drawn
    /// between those.
    fn views_alternate(&self) -> bool {
        use gst_video::VideoMultiviewMode as Mode;
        let mode = self.input.as_ref().map(|input| input.info.multiview_mode());
        matches!(
            mode,
            Some(
                Mode::FrameByFrame
                    | Mode::MultiviewFrameByFrame
                    | Mode::Separated
                    | Mode::ColumnInterleaved
                    | Mode::RowInterleaved
                    | Mode::Checkerboard
                    | Mode::SideBySideQuincunx
            )
        )
    }

    fn is_reverse(&self) -> bool {
        self.segment.as_ref().is_some_and(|(_, segment)| segment.rate() < 0.0)
    }

    fn is_cut(&mut self, frames: [(FrameId, &frames::Mapped<'_>); 2], threshold: f64) -> bool {
        // The later frame of the last pair is the earlier one of this.
        if self.thumbnails[1].0 == Some(frames[0].0) {
            self.thumbnails.swap(0, 1);
        }
        for ((id, frame), (known, thumbnail)) in frames.into_iter().zip(&mut self.thumbnails) {
            if *known != Some(id) {
                let Some(luma) = frames::luma(frame) else { return false };
                thumbnail.set(frame.width() as usize, frame.height() as usize, luma);
                *known = Some(id);
            }
        }
        f64::from(score(&self.thumbnails[0].1, &self.thumbnails[1].1)) > threshold
    }

    /// Whether downstream said that the next output comes too late; if so, tells the application.
    fn is_late(&mut self, imp: &FramecastInterp) -> bool {
        let Some(Lateness { earliest, proportion }) = *lock(&imp.lateness) else { return false };
        let (Some(pts), Some((_, segment))) = (self.timeline.next_pts(), &self.segment) else { return false };
        let pts = gst::ClockTime::from_nseconds(pts);
        let Some(running) = segment.to_running_time(pts) else { return false };
        if running > earliest {
            return false;
        }
        imp.report.update(|figures| figures.late_pairs += 1);
        let jitter = earliest.nseconds().saturating_sub(running.nseconds());
        let rate = self.output.as_ref().and_then(|(_, info)| Rate::new(info.fps().numer(), info.fps().denom()));
        let shown = imp.report.counters.output.load(Relaxed);
        let message = gst::message::Qos::builder(false)
            .src(&*imp.obj())
            .running_time(running)
            .stream_time(segment.to_stream_time(pts))
            .timestamp(pts)
            .duration(rate.map(|rate| gst::ClockTime::from_nseconds(rate.period())))
            .values(i64::try_from(jitter).unwrap_or(i64::MAX), proportion, 1_000_000)
            .stats(gst::format::Buffers::from_u64(shown), gst::format::Buffers::from_u64(imp.report.late_pairs()))
            .build();
        let _ = imp.obj().post_message(message);
        true
    }

    /// Builds the network for the current caps unless it is there.
    fn build(&mut self, imp: &FramecastInterp) -> Result<(), gst::FlowError> {
        if self.interpolator.is_some() {
            return Ok(());
        }
        let Some(input) = &self.input else { return Err(gst::FlowError::NotNegotiated) };
        let settings = imp.settings();
        let mut config = ifnet::Config::new(input.layout.clone());
        config.flow_scale = settings.flow_scale;
        config.precision = match settings.precision {
            Precision::Auto => ifnet::Precision::Auto,
            Precision::F16 => ifnet::Precision::F16,
            Precision::F32 => ifnet::Precision::F32,
        };
        config.static_guard = match settings.static_guard {
            StaticGuard::Off => ifnet::StaticGuard::Off,
            StaticGuard::Soft => ifnet::StaticGuard::Soft,
            StaticGuard::Strict => ifnet::StaticGuard::Strict,
        };
        match Interpolator::new(self.resources.gpu.clone(), &self.resources.weights, config) {
            Ok(interpolator) => {
                let (graph, storage) = (interpolator.graph().as_str(), interpolator.storage_name());
                let kernel = interpolator.kernel_name().to_owned();
                imp.report.update(|figures| {
                    (figures.graph, figures.storage, figures.kernel) = (Some(graph), Some(storage), Some(kernel));
                });
                self.interpolator = Some(interpolator);
                Ok(())
            }
            Err(error) => Err(self.fail_gpu(imp, &error)),
        }
    }

    /// Pushes the outputs that are due. Made frames are put under way before the outputs in front of them are pushed.
    fn emit_due(&mut self, imp: &FramecastInterp) -> Result<(), gst::FlowError> {
        let result = self.emit_all(imp);
        if result.is_err() {
            self.give_up();
        }
        result
    }

    fn emit_all(&mut self, imp: &FramecastInterp) -> Result<(), gst::FlowError> {
        // Made outputs in the queue: all, and those under way.
        let (mut made, mut started) = (0, 0);
        let mut more = true;
        loop {
            while more && made < MAX_BATCH && self.queue.len() < QUEUE {
                match self.timeline.next_output() {
                    Some(output) => {
                        made += usize::from(matches!(output.source, Source::Between(_)));
                        self.queue.push_back(Due { output, ticket: None });
                    }
                    None => more = false,
                }
            }
            started += self.start(imp, made - started)?;
            let Some(Due { output, ticket }) = self.queue.pop_front() else { return Ok(()) };
            if ticket.is_some() {
                made -= 1;
                started -= 1;
            }
            self.emit(imp, output, ticket)?;
        }
    }

    /// Puts made outputs of the queue under way, as many at once as suit the network, none while that many are not free.
    fn start(&mut self, imp: &FramecastInterp, waiting: usize) -> Result<usize, gst::FlowError> {
        let reverse = self.is_reverse();
        let mut total = 0;
        while total < waiting {
            let Some(interpolator) = &mut self.interpolator else { return Err(gst::FlowError::Error) };
            let count = interpolator.batch_size().min(waiting - total);
            if interpolator.free_slots() < count {
                break;
            }
            self.times.clear();
            self.tickets.clear();
            let unstarted =
                self.queue.iter().filter(|due| due.ticket.is_none()).filter_map(|due| match due.output.source {
                    Source::Between(t) => Some(if reverse { 1.0 - t } else { t }),
                    _ => None,
                });
            self.times.extend(unstarted.take(count));
            if let Err(error) = interpolator.submit(&self.times, &mut self.tickets) {
                return Err(self.fail_gpu(imp, &error));
            }
            let unstarted = self
                .queue
                .iter_mut()
                .filter(|due| due.ticket.is_none() && matches!(due.output.source, Source::Between(_)));
            for (due, ticket) in unstarted.zip(self.tickets.drain(..)) {
                due.ticket = Some(ticket);
            }
            total += count;
        }
        Ok(total)
    }

    fn emit(&mut self, imp: &FramecastInterp, output: Output, ticket: Option<Ticket>) -> Result<(), gst::FlowError> {
        if output.source == Source::Later {
            // What came before this frame goes before it.
            self.push_pending(imp);
        }
        let buffer = match (output.source, ticket) {
            (Source::Between(_), Some(ticket)) => Some(self.make(imp, ticket)?),
            (Source::Between(_), None) => None,
            // The last time a frame is shown, downstream gets it without another reference to its memory.
            (Source::Earlier { last: true }, _) => self.held.take().map(|frame| frame.buffer),
            (Source::Earlier { last: false }, _) => self.held.as_ref().map(|frame| frame.buffer.clone()),
            (Source::Later, _) if self.timeline.is_passing() => self.later.take().map(|frame| frame.buffer),
            (Source::Later, _) => self.later.as_ref().map(|frame| frame.buffer.clone()),
        };
        let Some(mut buffer) = buffer else {
            let error = Error::Usage("an output without a frame".into());
            return Err(self.fail_gpu(imp, &error));
        };
        if let Some(offset) = output.offset {
            let buffer = buffer.make_mut();
            buffer.set_pts(gst::ClockTime::from_nseconds(output.pts));
            buffer.set_dts(gst::ClockTime::NONE);
            buffer.set_duration(output.duration.map(gst::ClockTime::from_nseconds));
            buffer.set_offset(offset);
            buffer.set_offset_end(offset + 1);
            buffer.unset_flags(gst::BufferFlags::DISCONT | gst::BufferFlags::GAP);
            if output.discont {
                buffer.set_flags(gst::BufferFlags::DISCONT);
            }
            if output.repeated {
                buffer.set_flags(gst::BufferFlags::GAP);
            }
        } else if self.speed != 1.0 {
            let buffer = buffer.make_mut();
            buffer.set_pts(gst::ClockTime::from_nseconds(output.pts));
            buffer.set_duration(output.duration.map(gst::ClockTime::from_nseconds));
        }
        let counters = &imp.report.counters;
        counters.output.fetch_add(1, Relaxed);
        if ticket.is_some() {
            counters.interpolated.fetch_add(1, Relaxed);
            imp.notify(&["out", "interpolated"]);
        } else if output.repeated {
            counters.duplicate.fetch_add(1, Relaxed);
            imp.notify(&["out", "duplicate"]);
        } else {
            imp.notify(&["out"]);
        }
        gst::log!(CAT, imp = imp, "pushing {output:?}");
        imp.srcpad.push(buffer).map(|_| ())
    }

    /// Waits for a made frame and writes it into a buffer.
    fn make(&mut self, imp: &FramecastInterp, ticket: Ticket) -> Result<gst::Buffer, gst::FlowError> {
        let (Some((_, info)), Some(allocation), Some(interpolator)) =
            (&self.output, &self.allocation, &mut self.interpolator)
        else {
            return Err(gst::FlowError::NotNegotiated);
        };
        let mut buffer = allocation.acquire()?;
        let started = Instant::now();
        let read = match VideoFrameRef::from_buffer_ref_writable(buffer.make_mut(), info) {
            Ok(mut frame) => frames::with_planes_mut(&mut frame, |planes| interpolator.read(ticket, planes)),
            Err(_) => return Err(self.fail_frame(imp)),
        };
        if let Err(error) = read {
            return Err(self.fail_gpu(imp, &error));
        }
        let (elapsed, gpu) = (started.elapsed(), interpolator.last_gpu_time());
        imp.report.update(|figures| {
            figures.readback.add(elapsed);
            if let Some(gpu) = gpu {
                figures.last_gpu = gpu;
                figures.gpu.add(gpu);
            }
        });
        // The view a buffer belongs to is a matter of the stream's layout, not of the frame's content.
        let views = gst_video::VideoBufferFlags::MULTIPLE_VIEW | gst_video::VideoBufferFlags::FIRST_IN_BUNDLE;
        if let Some(like) = self.later.as_ref().map(|frame| &frame.buffer) {
            let flags = gst_video::VideoBufferFlags::from_bits_truncate(like.flags().bits()) & views;
            buffer.make_mut().set_flags(gst::BufferFlags::from_bits_truncate(flags.bits()));
        }
        Ok(buffer)
    }

    // ---- failures ----------------------------------------------------------------------------------------------

    /// Posts an error; nothing flows any more.
    fn fail(&mut self, imp: &FramecastInterp, message: gst::ErrorMessage) -> gst::FlowError {
        self.failed = true;
        imp.post_error_message(message);
        gst::FlowError::Error
    }

    /// As `fail`, for what negotiation could have told.
    fn refuse(&mut self, imp: &FramecastInterp, message: gst::ErrorMessage) -> gst::FlowError {
        self.failed = true;
        imp.post_error_message(message);
        gst::FlowError::NotNegotiated
    }

    fn fail_frame(&mut self, imp: &FramecastInterp) -> gst::FlowError {
        let caps = self.input.as_ref().map(|input| input.caps.to_string()).unwrap_or_default();
        self.fail(imp, gst::error_msg!(gst::StreamError::Format, ("a buffer does not hold a frame of its caps {caps}")))
    }

    fn fail_gpu(&mut self, imp: &FramecastInterp, error: &Error) -> gst::FlowError {
        self.failed = true;
        self.queue.clear();
        // Built anew at the next start.
        self.interpolator = None;
        imp.post_failure(error);
        gst::FlowError::Error
    }
}

fn same_layout(interpolator: &Interpolator, input: &Input) -> bool {
    let (a, b) = (&interpolator.config().layout, &input.layout);
    (a.format, a.width, a.height, a.color) == (b.format, b.width, b.height, b.color)
}
