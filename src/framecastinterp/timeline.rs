// SPDX-License-Identifier: MIT OR Apache-2.0
//! When each output frame is due and which picture it shows: the timing of `framecastinterp` as a pure state machine.
//!
//! Input times go in, [`Output`]s come out. Times are nanoseconds; the output grid is exact: output `n` begins at
//! `base + floor(n * den * 10^9 / num)` for an output rate of `num/den`, in 128-bit integers, so it cannot drift.
//!
//! Inside, time runs along an *axis* that always grows: it is the PTS in forward playback and `-PTS` in reverse. A frame
//! stands on the axis at its own PTS, so that an output shows the picture that belongs to its PTS in both directions.
//!
//! The calls for one input frame are [`Timeline::push`], then [`Timeline::next_output`] until it returns `None`, then
//! [`Timeline::commit`]. At the end of a stream it is [`Timeline::drain`] instead of `push`.

/// Nanoseconds in a second.
pub const SECOND: u64 = 1_000_000_000;

/// Gaps up to this are always bridged, however short the nominal frame duration is.
const SHORTEST_HOLE: u64 = SECOND / 2;

/// An output this close to an input frame, as a fraction of the gap between the two frames, is that frame.
const ON_FRAME: i128 = 512;

/// A frame rate above zero, as a fraction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    num: u32,
    den: u32,
}

impl Rate {
    /// `None` unless both parts are above zero.
    pub fn new(num: i32, den: i32) -> Option<Self> {
        match (u32::try_from(num), u32::try_from(den)) {
            (Ok(num), Ok(den)) if num > 0 && den > 0 => Some(Self { num, den }),
            _ => None,
        }
    }

    /// Where frame `n` of a grid that starts at 0 begins: `floor(n * den * 10^9 / num)`.
    pub fn edge(self, n: u64) -> i128 {
        (u128::from(n) * u128::from(self.den) * u128::from(SECOND) / u128::from(self.num)) as i128
    }

    /// The duration of a frame, rounded down.
    pub fn period(self) -> u64 {
        self.edge(1) as u64
    }
}

/// What decides the picture of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Outputs between two frames are made by the network.
    #[default]
    Interpolate,
    /// As `Interpolate`, but only between frames further apart than an output period: input of unknown rate.
    InterpolateWide,
    /// The nearest input frame, the earlier one where both are as near.
    Nearest,
    /// Input frames pass at their own PTS, at most one for each grid position.
    DropOnly,
    /// Every input frame passes at its own PTS: the output rate is variable, too.
    Pass,
    /// Input frames pass untouched as long as their average over about `period` nanoseconds stays within the output rate.
    Average { period: u64 },
}

impl Mode {
    /// Whether input frames leave at their own times instead of on the grid.
    fn passes(self) -> bool {
        matches!(self, Self::DropOnly | Self::Pass | Self::Average { .. })
    }
}

/// The settings that are not part of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Start the grid at the first frame instead of the segment's start.
    pub skip_to_first: bool,
    /// Gaps longer than this, in nanoseconds, are not filled; 0 = all are.
    pub max_duplication: u64,
    /// At most this much, in nanoseconds, is repeated to reach the segment's stop.
    pub max_closing: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { skip_to_first: false, max_duplication: 0, max_closing: SECOND }
    }
}

/// The part of a segment that timing needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bounds {
    pub start: Option<u64>,
    pub stop: Option<u64>,
    /// Playback runs from `stop` to `start`.
    pub reverse: bool,
}

/// An input frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Arrival {
    pub pts: Option<u64>,
    pub duration: Option<u64>,
    /// The stream is broken before this frame: nothing is made across.
    pub discont: bool,
}

/// What became of an input frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Ask for outputs, then commit.
    Accepted,
    /// Not later than the frame before: drop it.
    Late,
    /// It has no PTS and nothing before it tells one: drop it, uncounted.
    Untimed,
}

/// The picture of an output. "Earlier" and "later" are in order of arrival.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Source {
    /// The held frame; `last`: it is not needed for another output before the next commit, nor after.
    Earlier { last: bool },
    /// The frame that was just pushed.
    Later,
    /// To be made, this far from the earlier to the later frame, in 0..1 exclusive.
    Between(f64),
}

/// One output frame.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Output {
    pub source: Source,
    pub pts: u64,
    pub duration: Option<u64>,
    /// Its number since the last reset; `None` leaves the buffer's own.
    pub offset: Option<u64>,
    /// The same frame was shown before.
    pub repeated: bool,
    pub discont: bool,
}

/// How the pictures between the two frames of a pair are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    Blend,
    Nearest,
    Earlier,
}

#[derive(Debug, Clone, Copy)]
struct Frame {
    pts: u64,
    duration: Option<u64>,
    /// Where it stands on the axis.
    at: i128,
    /// The axis position up to which it lasts.
    end: i128,
    shown: bool,
    used: bool,
}

#[derive(Debug, Clone, Copy)]
enum Work {
    /// A new frame; outputs that begin before `until` are due.
    Pair { later: Frame, rule: Rule, until: i128, restart: bool },
    /// No later frame: repeat the held one for outputs that begin before `until`.
    Drain { until: i128 },
    /// As `Drain`, and the frame stays held.
    Fill { until: i128 },
    /// `later` passes at its own time, or not at all.
    Pass { later: Frame, pass: bool },
}

/// The state machine; see the module's text.
#[derive(Debug, Clone)]
pub struct Timeline {
    mode: Mode,
    rate: Option<Rate>,
    /// The input's frame duration, where its caps tell.
    nominal: Option<u64>,
    shortest_hole: u64,
    limits: Limits,
    bounds: Bounds,
    /// Axis position of grid edge 0; `None` until the first frame.
    base: Option<i128>,
    /// The next output's number on the grid.
    next: u64,
    /// Outputs since the last reset.
    offset: u64,
    discont: bool,
    held: Option<Frame>,
    /// Nothing is to be made from the held frame to the one after it.
    broken: bool,
    last_gap: Option<u64>,
    last_at: Option<i128>,
    previous_end: Option<u64>,
    /// `Mode::Average`: where the last frame that passed stands, and the mean distance of those that did, once there
    /// were two.
    passed_at: Option<i128>,
    mean_gap: Option<u64>,
    work: Option<Work>,
}

impl Default for Timeline {
    fn default() -> Self {
        Self::new()
    }
}

impl Timeline {
    pub fn new() -> Self {
        Self {
            mode: Mode::default(),
            rate: None,
            nominal: None,
            shortest_hole: SHORTEST_HOLE,
            limits: Limits::default(),
            bounds: Bounds::default(),
            base: None,
            next: 0,
            offset: 0,
            discont: true,
            held: None,
            broken: false,
            last_gap: None,
            last_at: None,
            previous_end: None,
            passed_at: None,
            mean_gap: None,
            work: None,
        }
    }

    /// Forgets everything but the settings, as at a flush: outputs count from 0 and the first one carries DISCONT.
    pub fn reset(&mut self) {
        *self = Self {
            mode: self.mode,
            rate: self.rate,
            nominal: self.nominal,
            shortest_hole: self.shortest_hole,
            limits: self.limits,
            ..Self::new()
        };
    }

    /// Sets the limits, from the next frame on.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Sets what comes in and what goes out. `nominal` is the input's frame duration (`None`: variable), `speed` how many
    /// nanoseconds of the input's own time pass in one nanosecond of the times given to this timeline.
    ///
    /// A changed output rate moves the base to the next output.
    pub fn set_rates(&mut self, mode: Mode, rate: Option<Rate>, nominal: Option<u64>, speed: f64) {
        if self.rate != rate || self.mode.passes() != mode.passes() {
            if let (Some(base), Some(old)) = (self.base, self.rate) {
                self.base = Some(base + old.edge(self.next));
            }
            self.next = 0;
        }
        if self.mode != mode {
            self.passed_at = None;
            self.mean_gap = None;
        }
        self.mode = mode;
        self.rate = rate;
        self.nominal = nominal;
        self.shortest_hole = (SHORTEST_HOLE as f64 / speed) as u64;
    }

    /// Begins a segment; the held frame must have been drained.
    pub fn start_segment(&mut self, bounds: Bounds) {
        self.bounds = bounds;
        self.base = None;
        self.next = 0;
        self.held = None;
        self.broken = false;
        self.last_at = None;
        self.previous_end = None;
        self.passed_at = None;
        self.work = None;
    }

    /// Whether input frames leave at their own times instead of on the grid.
    pub fn is_passing(&self) -> bool {
        self.mode.passes()
    }

    /// Whether a frame is held back.
    pub fn is_holding(&self) -> bool {
        self.held.is_some()
    }

    /// The time from the frame before to the last one, if there were two.
    pub fn last_gap(&self) -> Option<u64> {
        self.last_gap
    }

    fn axis(&self, time: u64) -> i128 {
        if self.bounds.reverse { -i128::from(time) } else { i128::from(time) }
    }

    /// The axis position up to which the time `pts..pts + duration` lasts.
    fn axis_end(&self, pts: u64, duration: u64) -> i128 {
        if self.bounds.reverse { -i128::from(pts) } else { i128::from(pts) + i128::from(duration) }
    }

    /// The axis positions where output `n` of the grid begins and ends.
    fn span(&self, n: u64) -> Option<(i128, i128)> {
        let (base, rate) = (self.base?, self.rate?);
        Some((base + rate.edge(n), base + rate.edge(n + 1)))
    }

    /// The axis position whose picture an output shows: that of its PTS.
    fn point(&self, (begin, end): (i128, i128)) -> i128 {
        if self.bounds.reverse { end } else { begin }
    }

    /// How long a frame lasts: its own duration, else the caps', else as long as the frame before, else one output.
    fn lasting(&self, duration: Option<u64>, gap: Option<u64>) -> u64 {
        duration.or(self.nominal).or(gap).or(self.last_gap).or(self.rate.map(Rate::period)).unwrap_or(SECOND / 25)
    }

    /// A new input frame. Unless it is dropped, ask for the outputs that are now due and commit.
    pub fn push(&mut self, arrival: Arrival) -> Verdict {
        debug_assert!(self.work.is_none(), "the frame before was not committed");
        let duration = arrival.duration.filter(|d| *d > 0);
        let Some(pts) = arrival.pts.or(self.previous_end) else {
            return Verdict::Untimed;
        };
        let at = self.axis(pts);
        if self.last_at.is_some_and(|last| at <= last) {
            return Verdict::Late;
        }
        let gap_before = self.last_at.map(|last| (at - last) as u64);
        let lasting = self.lasting(duration, gap_before);
        self.previous_end =
            Some(if self.bounds.reverse { pts.saturating_sub(lasting) } else { pts.saturating_add(lasting) });
        self.last_at = Some(at);
        let later = Frame { pts, duration, at, end: self.axis_end(pts, lasting), shown: false, used: false };
        if self.base.is_none() {
            self.base = Some(self.first_base(&later));
        }
        self.work = Some(if self.mode.passes() {
            Work::Pass { later, pass: self.passes(&later) }
        } else {
            self.pair(later, arrival.discont)
        });
        if gap_before.is_some() {
            self.last_gap = gap_before;
        }
        Verdict::Accepted
    }

    fn first_base(&self, first: &Frame) -> i128 {
        let anchor = if self.bounds.reverse { self.bounds.stop } else { self.bounds.start };
        match anchor {
            Some(anchor) if !self.limits.skip_to_first => self.axis(anchor),
            _ => self.base_at(first),
        }
    }

    /// The base of a grid whose first output is exactly `frame`.
    fn base_at(&self, frame: &Frame) -> i128 {
        match self.rate {
            Some(rate) if self.bounds.reverse => frame.at - rate.edge(1),
            _ => frame.at,
        }
    }

    fn pair(&self, later: Frame, discont: bool) -> Work {
        let Some(held) = self.held else {
            // Nothing to show before this frame; it is shown backwards to the grid's start once it is held.
            return Work::Pair { later, rule: Rule::Earlier, until: i128::MIN, restart: false };
        };
        let gap = (later.at - held.at) as u64;
        if self.limits.max_duplication > 0 && gap > self.limits.max_duplication {
            return Work::Pair { later, rule: Rule::Earlier, until: held.end.min(later.at), restart: true };
        }
        let nominal = self.nominal.or(held.duration).or(self.last_gap).unwrap_or(0);
        let hole = gap > self.shortest_hole && u128::from(gap) * 2 > u128::from(nominal) * 3;
        let rule = match self.mode {
            Mode::Interpolate | Mode::InterpolateWide if hole || self.broken || discont => Rule::Earlier,
            Mode::InterpolateWide if self.rate.is_some_and(|r| gap <= r.period() + r.period() / ON_FRAME as u64) => {
                Rule::Nearest
            }
            Mode::Interpolate | Mode::InterpolateWide => Rule::Blend,
            _ => Rule::Nearest,
        };
        // An output that begins at the later frame belongs to the next pair.
        Work::Pair { later, rule, until: later.at, restart: false }
    }

    fn passes(&mut self, frame: &Frame) -> bool {
        match self.mode {
            Mode::DropOnly => self.span(self.next).is_none_or(|(begin, _)| frame.at >= begin),
            Mode::Average { period } => {
                let Some(rate) = self.rate else { return true };
                let wanted = rate.period();
                if let Some(passed) = self.passed_at {
                    let gap = (frame.at - passed) as u64;
                    // Over less than a frame nothing can be averaged.
                    let room = period > wanted && self.mean_gap.is_some_and(|mean| mean >= wanted);
                    if gap < wanted && !room {
                        return false;
                    }
                    let part = |value: u64, of: u64| {
                        (u128::from(value) * u128::from(of) + u128::from(period / 2)) / u128::from(period)
                    };
                    self.mean_gap = Some(match self.mean_gap {
                        Some(mean) if period > wanted => (part(mean, period - wanted) + part(gap, wanted)) as u64,
                        _ => gap,
                    });
                }
                self.passed_at = Some(frame.at);
                true
            }
            _ => true,
        }
    }

    /// Whether a frame is to be made between the held and the pushed frame.
    pub fn needs_network(&self) -> bool {
        let (Some(Work::Pair { rule: Rule::Blend, .. }), Some(_)) = (&self.work, &self.held) else { return false };
        let mut probe = self.clone();
        while let Some(output) = probe.next_output() {
            if matches!(output.source, Source::Between(_)) {
                return true;
            }
        }
        false
    }

    /// The PTS of the next output of the current pair.
    pub fn next_pts(&self) -> Option<u64> {
        self.clone().next_output().map(|o| o.pts)
    }

    /// Makes nothing in this pair: the nearer frame is shown instead (a scene cut, equal frames, no time left).
    pub fn hold_pair(&mut self) {
        if let Some(Work::Pair { rule: rule @ Rule::Blend, .. }) = &mut self.work {
            *rule = Rule::Nearest;
        }
    }

    fn choose(&self, span: (i128, i128), later: &Frame, held: &Frame, rule: Rule) -> Source {
        let point = self.point(span);
        let (gone, gap) = (point - held.at, later.at - held.at);
        let earlier = Source::Earlier { last: false };
        match rule {
            _ if gone <= 0 => earlier,
            Rule::Earlier => earlier,
            Rule::Nearest if 2 * gone <= gap => earlier,
            Rule::Nearest => Source::Later,
            Rule::Blend if gone * ON_FRAME < gap => earlier,
            Rule::Blend if (gap - gone) * ON_FRAME < gap => Source::Later,
            Rule::Blend => Source::Between(gone as f64 / gap as f64),
        }
    }

    /// The next output that is due, in order.
    pub fn next_output(&mut self) -> Option<Output> {
        let mut work = self.work.take()?;
        let output = self.output(&mut work);
        self.work = Some(work);
        output
    }

    fn output(&mut self, work: &mut Work) -> Option<Output> {
        let (until, keeps) = match work {
            Work::Pass { later, pass } => {
                if !std::mem::take(pass) {
                    return None;
                }
                later.shown = true;
                let later = *later;
                return Some(self.passed(&later));
            }
            Work::Pair { until, .. } | Work::Drain { until } => (*until, false),
            Work::Fill { until } => (*until, true),
        };
        let span = self.span(self.next)?;
        let current = *work;
        let due = |this: &Self, span: (i128, i128)| {
            // A pair ends where the later frame stands; what is drained lasts to the end of the time covered.
            let position = if matches!(current, Work::Pair { restart: false, .. }) { this.point(span) } else { span.0 };
            position < until
        };
        if !due(self, span) {
            return None;
        }
        let held = self.held?;
        let pick = |this: &Self, span: (i128, i128)| match &current {
            Work::Pair { later, rule, .. } => this.choose(span, later, &held, *rule),
            _ => Source::Earlier { last: false },
        };
        let mut source = pick(self, span);
        if let Source::Earlier { last } = &mut source {
            let more = self
                .span(self.next + 1)
                .is_some_and(|after| due(self, after) && matches!(pick(self, after), Source::Earlier { .. }));
            *last = !more && !keeps;
        }
        let mut repeated = false;
        match (&source, &mut *work) {
            (Source::Earlier { .. }, _) => {
                repeated = held.shown;
                self.held = Some(Frame { shown: true, ..held });
            }
            (Source::Later, Work::Pair { later, .. }) => repeated = std::mem::replace(&mut later.shown, true),
            (Source::Between(_), Work::Pair { later, .. }) => {
                later.used = true;
                self.held = Some(Frame { used: true, ..held });
            }
            _ => {}
        }
        let pts = if self.bounds.reverse { -span.1 } else { span.0 };
        // Rounding may put the last output of reverse playback a little before 0.
        let (pts, cut) = (pts.max(0), pts.min(0));
        self.next += 1;
        Some(Output {
            source,
            pts: pts as u64,
            duration: Some((span.1 - span.0 + cut).max(0) as u64),
            offset: Some(self.count()),
            repeated,
            discont: std::mem::take(&mut self.discont),
        })
    }

    fn count(&mut self) -> u64 {
        self.offset += 1;
        self.offset - 1
    }

    fn passed(&mut self, frame: &Frame) -> Output {
        let untouched = matches!(self.mode, Mode::Average { .. });
        let duration = match self.mode {
            Mode::DropOnly => self.span(self.next).map(|(begin, end)| (end - begin) as u64),
            _ => frame.duration,
        };
        self.next += 1;
        let offset = self.count();
        Output {
            source: Source::Later,
            pts: frame.pts,
            duration,
            offset: (!untouched).then_some(offset),
            repeated: false,
            discont: std::mem::take(&mut self.discont),
        }
    }

    /// Ends the current frame's outputs: the pushed frame becomes the held one. Returns whether an input frame went by
    /// without a trace in the output, neither shown nor used.
    pub fn commit(&mut self) -> bool {
        let unused = |frame: Option<Frame>| frame.is_some_and(|f| !f.shown && !f.used);
        match self.work.take() {
            None | Some(Work::Fill { .. }) => false,
            Some(Work::Pair { later, restart, .. }) => {
                let dropped = unused(self.held.replace(later));
                self.broken = false;
                if restart {
                    self.base = Some(self.base_at(&later));
                    self.next = 0;
                    self.discont = true;
                }
                dropped
            }
            Some(Work::Drain { .. }) => {
                self.broken = false;
                unused(self.held.take())
            }
            Some(Work::Pass { later, .. }) => unused(Some(later)),
        }
    }

    /// No frame follows the held one: its outputs up to its end are due and, with `to_stop`, repeats up to the segment's
    /// stop (in reverse: start). Ask for outputs, then commit.
    pub fn drain(&mut self, to_stop: bool) {
        debug_assert!(self.work.is_none(), "the frame before was not committed");
        let (Some(held), Some((begin, _))) = (self.held, self.span(self.next)) else { return };
        let mut until = held.end;
        let close = if self.bounds.reverse { self.bounds.start } else { self.bounds.stop };
        if let Some(close) = close.filter(|_| to_stop) {
            let close = self.axis(close);
            // The frame may last beyond the segment; what is repeated to reach its end is limited.
            until = until.min(close).max(close.min(begin + i128::from(self.limits.max_closing)));
        }
        self.work = Some(Work::Drain { until });
    }

    /// The stream says that nothing comes for a while (a GAP event): the held frame is repeated through it, and nothing
    /// is made from it to the next frame. Ask for outputs, then commit.
    pub fn gap(&mut self, pts: u64, duration: Option<u64>) {
        debug_assert!(self.work.is_none(), "the frame before was not committed");
        let Some(held) = self.held else { return };
        let end = self.axis_end(pts, duration.unwrap_or(0));
        if end <= held.at {
            return;
        }
        self.broken = true;
        let length = (end - held.at) as u64;
        if duration.is_none() || self.limits.max_duplication > 0 && length > self.limits.max_duplication {
            return;
        }
        self.held = Some(Frame { end: held.end.max(end), ..held });
        self.work = Some(Work::Fill { until: end });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rate(num: i32, den: i32) -> Rate {
        Rate::new(num, den).unwrap()
    }

    fn forward(mode: Mode, out: Rate, nominal: Option<Rate>) -> Timeline {
        let mut t = Timeline::new();
        t.set_rates(mode, Some(out), nominal.map(Rate::period), 1.0);
        t.start_segment(Bounds { start: Some(0), ..Default::default() });
        t
    }

    fn take(t: &mut Timeline) -> Vec<Output> {
        let mut all = Vec::new();
        while let Some(o) = t.next_output() {
            all.push(o);
        }
        t.commit();
        all
    }

    fn feed(t: &mut Timeline, pts: u64, duration: u64) -> Vec<Output> {
        let arrival = Arrival { pts: Some(pts), duration: Some(duration).filter(|d| *d > 0), discont: false };
        assert_eq!(t.push(arrival), Verdict::Accepted);
        take(t)
    }

    fn finish(t: &mut Timeline, to_stop: bool) -> Vec<Output> {
        t.drain(to_stop);
        take(t)
    }

    fn ms(v: u64) -> u64 {
        v * 1_000_000
    }

    /// `count` frames at `input` through a grid at `out`, to the end.
    fn convert(mode: Mode, input: Rate, out: Rate, count: u64) -> Vec<Output> {
        let mut t = forward(mode, out, Some(input));
        let mut all = Vec::new();
        for i in 0..count {
            let (a, b) = (input.edge(i) as u64, input.edge(i + 1) as u64);
            all.extend(feed(&mut t, a, b - a));
        }
        all.extend(finish(&mut t, true));
        all
    }

    fn made(all: &[Output]) -> usize {
        all.iter().filter(|o| matches!(o.source, Source::Between(_))).count()
    }

    #[track_caller]
    fn assert_contiguous(all: &[Output]) {
        for pair in all.windows(2) {
            assert!(pair[1].pts > pair[0].pts, "{:?}", pair);
            assert_eq!(pair[0].pts + pair[0].duration.unwrap(), pair[1].pts);
            assert_eq!(pair[0].offset.unwrap() + 1, pair[1].offset.unwrap());
        }
    }

    #[test]
    fn doubling_alternates_real_and_made_frames() {
        let all = convert(Mode::Interpolate, rate(30, 1), rate(60, 1), 4);
        assert_eq!(all.len(), 8);
        assert_contiguous(&all);
        for (i, o) in all.iter().enumerate() {
            assert_eq!(o.discont, i == 0);
            match i {
                0 | 2 | 4 | 6 => assert!(matches!(o.source, Source::Earlier { .. }) && !o.repeated, "{i}: {o:?}"),
                7 => assert!(matches!(o.source, Source::Earlier { last: true }) && o.repeated),
                _ => assert!(matches!(o.source, Source::Between(t) if (t - 0.5).abs() < 1e-6), "{i}: {o:?}"),
            }
        }
    }

    #[test]
    fn twenty_five_to_sixty() {
        // 2 s. Grid hits at n * 25/60 whole: every 12th output, so 0, 12, ... 108: 10. The last frame, at 1.96 s, lasts
        // to 2 s: outputs 118 and 119 repeat it. 120 - 10 - 2 are made.
        let all = convert(Mode::Interpolate, rate(25, 1), rate(60, 1), 50);
        assert_eq!(all.len(), 120);
        assert_eq!(made(&all), 108);
        assert_eq!(all[119].pts, 1_983_333_333);
        assert_contiguous(&all);
    }

    #[test]
    fn film_to_sixty_loses_no_time_at_the_end() {
        let (film, sixty) = (rate(24000, 1001), rate(60, 1));
        for (frames, expected) in [(24, 61), (96, 241)] {
            let all = convert(Mode::Interpolate, film, sixty, frames);
            assert_eq!(all.len(), expected);
            let last = all.last().unwrap();
            let added = last.pts + last.duration.unwrap() - film.edge(frames) as u64;
            assert!(added < sixty.period(), "{added}");
        }
    }

    #[test]
    fn field_case_05_few_frames_add_less_than_one_output() {
        for frames in [1, 2, 3, 10] {
            for (num, den) in [(60, 1), (60000, 1001), (24, 1), (90, 1), (7, 3)] {
                let all = convert(Mode::Interpolate, rate(25, 1), rate(num, den), frames);
                let last = all.last().unwrap();
                let end = last.pts + last.duration.unwrap();
                let source = frames * ms(40);
                assert!(end >= source && end - source < rate(num, den).edge(1) as u64 + 1, "{frames} {num}/{den}");
                assert!(matches!(last.source, Source::Earlier { last: true }));
            }
        }
    }

    #[test]
    fn field_case_06_two_hours_do_not_drift() {
        let film = rate(24000, 1001);
        for out in [rate(60, 1), rate(60000, 1001)] {
            let mut t = forward(Mode::Interpolate, out, Some(film));
            let frames = 2 * 3600 * 24000 / 1001;
            let mut n = 0u64;
            for i in 0..frames {
                let (a, b) = (film.edge(i) as u64, film.edge(i + 1) as u64);
                let arrival = Arrival { pts: Some(a), duration: Some(b - a), discont: false };
                assert_eq!(t.push(arrival), Verdict::Accepted);
                while let Some(o) = t.next_output() {
                    // |pts - n * den * 10^9 / num| < 1 ns, as exact fractions.
                    let exact = u128::from(n) * u128::from(out.den) * u128::from(SECOND);
                    let ours = u128::from(o.pts) * u128::from(out.num);
                    assert!(exact >= ours && exact - ours < u128::from(out.num), "output {n}");
                    assert_eq!(o.offset, Some(n));
                    if let Source::Between(between) = o.source {
                        assert!(between > 0.0 && between < 1.0);
                    }
                    n += 1;
                }
                t.commit();
            }
            assert!(n > 431_000, "{n}");
        }
    }

    #[test]
    fn grid_hits_survive_rounding_of_timestamps() {
        // Frames whose PTS was rounded up or down by a nanosecond are still hit.
        for wobble in [0u64, 1, 2] {
            let mut t = forward(Mode::Interpolate, rate(60, 1), Some(rate(30, 1)));
            let mut all = Vec::new();
            for i in 0..30u64 {
                let pts = (rate(30, 1).edge(i) as u64 + wobble).saturating_sub(1);
                all.extend(feed(&mut t, pts, 33_333_333));
            }
            assert_eq!(made(&all), 29, "wobble {wobble}");
            assert_eq!(all.iter().filter(|o| !o.repeated).count(), all.len(), "wobble {wobble}");
        }
    }

    #[test]
    fn equal_and_lower_rates_never_make_frames() {
        for (input, out) in [((25, 1), (25, 1)), ((60, 1), (24, 1)), ((50, 1), (60000, 1201))] {
            let all = convert(Mode::Nearest, rate(input.0, input.1), rate(out.0, out.1), 100);
            assert_eq!(made(&all), 0);
            assert_contiguous(&all);
        }
    }

    #[test]
    fn nearest_prefers_the_earlier_of_two() {
        // 50 -> 20: outputs at 0, 50, 100 ms between frames 20 ms apart: 50 is as near to 40 as to 60.
        let mut t = forward(Mode::Nearest, rate(20, 1), Some(rate(50, 1)));
        let mut shown = Vec::new();
        for i in 0..6 {
            let before = t.held.map(|f| f.pts);
            assert_eq!(t.push(Arrival { pts: Some(ms(20 * i)), ..Default::default() }), Verdict::Accepted);
            while let Some(o) = t.next_output() {
                shown.push(match o.source {
                    Source::Earlier { .. } => before.unwrap(),
                    _ => ms(20 * i),
                });
            }
            t.commit();
        }
        assert_eq!(shown, [0, ms(40)]);
    }

    #[test]
    fn downward_drops_are_reported() {
        let mut t = forward(Mode::Nearest, rate(25, 1), Some(rate(50, 1)));
        let mut dropped = 0;
        for i in 0..6 {
            assert_eq!(t.push(Arrival { pts: Some(ms(20 * i)), ..Default::default() }), Verdict::Accepted);
            while t.next_output().is_some() {}
            dropped += u32::from(t.commit());
        }
        assert_eq!(dropped, 2);
    }

    #[test]
    fn the_first_frame_fills_back_to_the_segment_start() {
        let mut t = forward(Mode::Interpolate, rate(25, 1), Some(rate(12, 1)));
        assert!(feed(&mut t, ms(100), ms(40)).is_empty());
        let all = feed(&mut t, ms(180), ms(40));
        assert_eq!(all.iter().map(|o| o.pts).collect::<Vec<_>>(), [0, ms(40), ms(80), ms(120), ms(160)]);
        assert_eq!(all.iter().map(|o| o.repeated).collect::<Vec<_>>(), [false, true, true, false, false]);
        assert_eq!(made(&all), 2);
    }

    #[test]
    fn skip_to_first_starts_at_the_first_frame() {
        let mut t = forward(Mode::Interpolate, rate(60, 1), Some(rate(25, 1)));
        t.set_limits(Limits { skip_to_first: true, ..Default::default() });
        feed(&mut t, ms(100), ms(40));
        let all = feed(&mut t, ms(140), ms(40));
        assert_eq!(all.iter().map(|o| o.pts).collect::<Vec<_>>(), [100_000_000, 116_666_666, 133_333_333]);
        assert!(matches!(all[0].source, Source::Earlier { last: true }));
    }

    #[test]
    fn field_case_07_variable_rate_uses_the_real_interval() {
        let mut t = forward(Mode::InterpolateWide, rate(60, 1), None);
        let times = [0, 41, 83, 125, 250, 291].map(ms);
        let mut all = Vec::new();
        for pair in times.windows(2) {
            if all.is_empty() {
                all.extend(feed(&mut t, pair[0], 0));
            }
            let now = feed(&mut t, pair[1], 0);
            for o in &now {
                if let Source::Between(b) = o.source {
                    let real = (o.pts - pair[0]) as f64 / (pair[1] - pair[0]) as f64;
                    assert!((b - real).abs() < 1e-12);
                }
            }
            all.extend(now);
        }
        assert_contiguous(&all);
        assert!(made(&all) >= 15);
    }

    #[test]
    fn variable_rate_above_the_output_rate_shows_the_nearest() {
        let mut t = forward(Mode::InterpolateWide, rate(25, 1), None);
        let mut all = Vec::new();
        for i in 0..20 {
            all.extend(feed(&mut t, ms(10 * i), 0));
        }
        assert_eq!(made(&all), 0);
        assert_contiguous(&all);
    }

    #[test]
    fn holes_repeat_the_earlier_frame_and_a_timelapse_is_none() {
        // 25/1 with a hole of 0.6 s.
        let mut t = forward(Mode::Interpolate, rate(50, 1), Some(rate(25, 1)));
        feed(&mut t, 0, ms(40));
        let all = feed(&mut t, ms(600), ms(40));
        assert_eq!((all.len(), made(&all)), (30, 0));
        assert!(all.iter().all(|o| matches!(o.source, Source::Earlier { .. })));
        // 0.5 s is none.
        let all = feed(&mut t, ms(1100), ms(40));
        assert_eq!((all.len(), made(&all)), (25, 24));
        // One frame a second, known from the caps or from the frame's duration.
        let mut t = forward(Mode::Interpolate, rate(4, 1), Some(rate(1, 1)));
        feed(&mut t, 0, 0);
        assert_eq!(made(&feed(&mut t, SECOND, 0)), 3);
        let mut t = forward(Mode::InterpolateWide, rate(4, 1), None);
        feed(&mut t, 0, SECOND);
        assert_eq!(made(&feed(&mut t, SECOND, SECOND)), 3);
    }

    #[test]
    fn nothing_is_made_across_a_discontinuity_or_gap() {
        let mut t = forward(Mode::Interpolate, rate(50, 1), Some(rate(25, 1)));
        feed(&mut t, 0, ms(40));
        assert_eq!(t.push(Arrival { pts: Some(ms(40)), duration: None, discont: true }), Verdict::Accepted);
        let all = take(&mut t);
        assert_eq!((all.len(), made(&all)), (2, 0));
        assert_eq!(made(&feed(&mut t, ms(80), ms(40))), 1);
        t.gap(ms(120), Some(ms(80)));
        let gap = take(&mut t);
        assert_eq!(gap.iter().map(|o| o.pts).collect::<Vec<_>>(), [80, 100, 120, 140, 160, 180].map(ms));
        assert!(gap[1..].iter().all(|o| o.repeated && matches!(o.source, Source::Earlier { last: false })));
        assert!(feed(&mut t, ms(200), ms(40)).is_empty());
        assert_eq!(made(&feed(&mut t, ms(240), ms(40))), 1);
    }

    #[test]
    fn max_duplication_restarts_the_grid() {
        let mut t = forward(Mode::Interpolate, rate(60, 1), Some(rate(25, 1)));
        t.set_limits(Limits { max_duplication: ms(100), ..Default::default() });
        feed(&mut t, 0, ms(40));
        feed(&mut t, ms(40), ms(40));
        let all = feed(&mut t, ms(300), ms(40));
        // Only the time that the frame at 40 ms lasts.
        assert_eq!(all.iter().map(|o| o.pts).collect::<Vec<_>>(), [50_000_000, 66_666_666]);
        let all = feed(&mut t, ms(340), ms(40));
        assert_eq!(all[0].pts, ms(300));
        assert_eq!(all.iter().map(|o| o.discont).collect::<Vec<_>>(), [true, false, false]);
        assert_eq!(all[1].pts, 316_666_666);
    }

    #[test]
    fn late_and_untimed_frames() {
        let mut t = forward(Mode::Nearest, rate(25, 1), Some(rate(25, 1)));
        assert_eq!(t.push(Arrival { duration: Some(ms(40)), ..Default::default() }), Verdict::Untimed);
        feed(&mut t, 0, ms(40));
        feed(&mut t, ms(40), ms(40));
        for late in [40, 20, 0] {
            assert_eq!(t.push(Arrival { pts: Some(ms(late)), ..Default::default() }), Verdict::Late);
        }
        assert_eq!(t.push(Arrival::default()), Verdict::Accepted);
        assert_eq!(take(&mut t).len(), 1);
        assert_eq!(t.held.unwrap().pts, ms(80));
        assert_eq!(feed(&mut t, ms(120), 0)[0].pts, ms(80));
    }

    #[test]
    fn closing_a_segment_is_limited() {
        for (limit, stop, expected) in [(ms(100), 10_000, 6), (ms(100) + 1, 10_000, 7), (0, 10_000, 3), (SECOND, 90, 6)]
        {
            let mut t = Timeline::new();
            t.set_rates(Mode::Interpolate, Some(rate(60, 1)), Some(ms(40)), 1.0);
            t.set_limits(Limits { max_closing: limit, ..Default::default() });
            t.start_segment(Bounds { start: Some(0), stop: Some(ms(stop)), reverse: false });
            feed(&mut t, 0, ms(40));
            assert_eq!(finish(&mut t, true).len(), expected, "{limit} {stop}");
        }
    }

    #[test]
    fn a_changed_rate_moves_the_base() {
        let mut t = forward(Mode::Nearest, rate(25, 1), Some(rate(25, 1)));
        feed(&mut t, 0, ms(40));
        feed(&mut t, ms(40), ms(40));
        t.set_rates(Mode::Interpolate, Some(rate(50, 1)), Some(ms(40)), 1.0);
        let all = feed(&mut t, ms(80), ms(40));
        assert_eq!(all.iter().map(|o| (o.pts, o.offset.unwrap())).collect::<Vec<_>>(), [(ms(40), 1), (ms(60), 2)]);
    }

    #[test]
    fn drop_only_passes_frames_at_their_own_time() {
        let mut t = forward(Mode::DropOnly, rate(25, 1), Some(rate(50, 1)));
        let mut seen = Vec::new();
        let mut dropped = 0;
        for pts in [5, 25, 45, 65, 165, 185, 205] {
            assert_eq!(t.push(Arrival { pts: Some(ms(pts)), ..Default::default() }), Verdict::Accepted);
            while let Some(o) = t.next_output() {
                assert_eq!(o.source, Source::Later);
                assert_eq!(o.duration, Some(ms(40)));
                seen.push(o.pts / ms(1));
            }
            dropped += u32::from(t.commit());
        }
        assert_eq!(seen, [5, 45, 165, 185, 205]);
        assert_eq!(dropped, 2);
        assert!(finish(&mut t, true).is_empty());
    }

    #[test]
    fn average_keeps_the_rate_and_allows_bursts_after_a_pause() {
        let mut t = forward(Mode::Average { period: SECOND }, rate(10, 1), None);
        let count = |t: &mut Timeline, from: u64, to: u64| {
            (from..to)
                .filter(|i| {
                    assert_eq!(t.push(Arrival { pts: Some(ms(40 * i)), ..Default::default() }), Verdict::Accepted);
                    let passed = t.next_output();
                    assert!(passed.is_none_or(|o| o.offset.is_none() && o.pts == ms(40 * i)));
                    assert_eq!(t.commit(), passed.is_none());
                    passed.is_some()
                })
                .count()
        };
        // At 0 and 120 ms; the mean gap is 120 ms then and 98 ms after those at 160, 200 and 240 ms; then at 360 ms.
        assert_eq!(count(&mut t, 0, 10), 6);
        // In the end the mean is that of the output rate.
        let passed = count(&mut t, 10, 260);
        assert!((95..=104).contains(&passed), "{passed}");
        // After a pause the mean allows a burst.
        assert_eq!(count(&mut t, 400, 410), 10);
        let passed = count(&mut t, 410, 660);
        assert!((98..=110).contains(&passed), "{passed}");
    }

    #[test]
    fn slow_motion_scales_the_hole() {
        // 25/1 at a twentieth of the speed: frames are 0.8 s apart, yet no hole.
        let mut t = Timeline::new();
        t.set_rates(Mode::Interpolate, Some(rate(25, 1)), Some(ms(800)), 0.05);
        t.start_segment(Bounds { start: Some(0), ..Default::default() });
        feed(&mut t, 0, ms(800));
        assert_eq!(made(&feed(&mut t, ms(800), ms(800))), 19);
    }

    #[test]
    fn reverse_playback_counts_down_from_the_stop() {
        let mut t = Timeline::new();
        t.set_rates(Mode::Interpolate, Some(rate(50, 1)), Some(ms(40)), 1.0);
        t.start_segment(Bounds { start: Some(ms(880)), stop: Some(SECOND), reverse: true });
        let mut all = feed(&mut t, ms(960), ms(40));
        all.extend(feed(&mut t, ms(920), ms(40)));
        all.extend(feed(&mut t, ms(880), ms(40)));
        all.extend(finish(&mut t, true));
        assert_eq!(all.iter().map(|o| o.pts / ms(1)).collect::<Vec<_>>(), [980, 960, 940, 920, 900, 880]);
        let kinds = all.iter().map(|o| matches!(o.source, Source::Between(t) if t == 0.5)).collect::<Vec<_>>();
        assert_eq!(kinds, [false, false, true, false, true, false]);
        assert!(all.windows(2).all(|w| w[1].pts + w[1].duration.unwrap() == w[0].pts));
    }

    #[test]
    fn reverse_playback_without_a_stop_starts_at_the_first_frame() {
        let mut t = Timeline::new();
        t.set_rates(Mode::Nearest, Some(rate(25, 1)), Some(ms(40)), 1.0);
        t.start_segment(Bounds { start: Some(0), stop: None, reverse: true });
        feed(&mut t, ms(80), ms(40));
        let all = feed(&mut t, ms(40), ms(40));
        assert_eq!(all.iter().map(|o| o.pts).collect::<Vec<_>>(), [ms(80)]);
        let all = finish(&mut t, true);
        assert_eq!(all.iter().map(|o| o.pts).collect::<Vec<_>>(), [ms(40), 0]);
    }

    #[test]
    fn the_last_showing_of_a_frame_is_marked() {
        let all = convert(Mode::Nearest, rate(25, 1), rate(60, 1), 5);
        for pair in all.windows(2) {
            if let Source::Earlier { last } = pair[0].source {
                assert_eq!(last, !(matches!(pair[1].source, Source::Earlier { .. }) && pair[1].repeated), "{pair:?}");
            }
        }
    }

    fn any_rate() -> impl Strategy<Value = Rate> {
        prop_oneof![(1i32..=240, Just(1i32)), (1i32..=240).prop_map(|n| (n * 1000, 1001)), (1i32..=999, 1i32..=7),]
            .prop_filter_map("1/1 to 240/1", |(n, d)| Rate::new(n, d).filter(|_| n >= d && n <= 240 * d))
    }

    fn any_mode() -> impl Strategy<Value = Mode> {
        prop_oneof![Just(Mode::Interpolate), Just(Mode::InterpolateWide), Just(Mode::Nearest)]
    }

    #[derive(Debug, Clone)]
    enum Step {
        Frame { gap: u64, duration: Option<u64>, discont: bool },
        Backward(u64),
        Gap(u64),
        Hold,
        Rate(Rate),
    }

    fn any_step() -> impl Strategy<Value = Step> {
        prop_oneof![
            8 => (1u64..200_000_000, proptest::option::of(1u64..200_000_000), proptest::bool::weighted(0.05))
                .prop_map(|(gap, duration, discont)| Step::Frame { gap, duration, discont }),
            1 => (500_000_000u64..3_000_000_000)
                .prop_map(|gap| Step::Frame { gap, duration: None, discont: false }),
            1 => (0u64..100_000_000).prop_map(Step::Backward),
            1 => (1u64..300_000_000).prop_map(Step::Gap),
            1 => Just(Step::Hold),
            1 => any_rate().prop_map(Step::Rate),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

        /// Whatever comes in: no gap, no overlap, counted offsets, t inside 0..1 and equal to the real ratio, the whole
        /// segment covered and less than one output more.
        #[test]
        fn any_stream_is_covered_without_gap_or_overlap(
            out in any_rate(), nominal in proptest::option::of(any_rate()), mode in any_mode(),
            first in 0u64..2_000_000_000, steps in proptest::collection::vec(any_step(), 1..60), reverse: bool,
        ) {
            let mut t = Timeline::new();
            let mut out = out;
            t.set_rates(mode, Some(out), nominal.map(Rate::period), 1.0);
            let stop = 400 * SECOND;
            t.start_segment(if reverse {
                Bounds { start: Some(0), stop: Some(stop), reverse }
            } else {
                Bounds { start: Some(0), stop: None, reverse }
            });
            // Along the direction of play, from 0.
            let place = |along: u64| if reverse { stop - along } else { along };
            let mut along = first;
            let mut all: Vec<Output> = Vec::new();
            let mut previous: Option<u64> = None;
            let mut hold = false;
            // The furthest axis position that a frame or gap was said to last to.
            let mut furthest = i128::MIN;
            for step in steps {
                match step {
                    Step::Frame { gap, duration, discont } => {
                        along += gap;
                        let pts = place(along);
                        prop_assert_eq!(t.push(Arrival { pts: Some(pts), duration, discont }), Verdict::Accepted);
                        if std::mem::take(&mut hold) {
                            t.hold_pair();
                            prop_assert!(!t.needs_network());
                        }
                        let needs = t.needs_network();
                        let mut any = false;
                        while let Some(o) = t.next_output() {
                            if let Source::Between(b) = o.source {
                                any = true;
                                prop_assert!(b > 0.0 && b < 1.0);
                                let p0 = previous.unwrap() as f64;
                                let real = (o.pts as f64 - p0) / (pts as f64 - p0);
                                prop_assert!((b - real).abs() < 1e-6, "{} {}", b, real);
                            }
                            all.push(o);
                        }
                        prop_assert_eq!(any, needs);
                        t.commit();
                        previous = Some(pts);
                        furthest = furthest.max(t.held.unwrap().end);
                    }
                    Step::Backward(by) => {
                        if previous.is_some() {
                            let pts = place(along - by.min(along));
                            prop_assert_eq!(
                                t.push(Arrival { pts: Some(pts), duration: None, discont: false }), Verdict::Late);
                        }
                    }
                    Step::Gap(length) => {
                        let begin = if reverse { place(along) - length } else { place(along) };
                        t.gap(begin, Some(length));
                        all.extend(take(&mut t));
                        if let Some(held) = t.held {
                            furthest = furthest.max(held.end);
                        }
                    }
                    Step::Hold => hold = true,
                    Step::Rate(new) => {
                        out = new;
                        t.set_rates(mode, Some(out), nominal.map(Rate::period), 1.0);
                    }
                }
            }
            let end = t.held.map(|h| h.end);
            t.drain(false);
            all.extend(take(&mut t));
            for pair in all.windows(2) {
                if reverse {
                    prop_assert_eq!(pair[1].pts + pair[1].duration.unwrap(), pair[0].pts);
                } else {
                    prop_assert_eq!(pair[0].pts + pair[0].duration.unwrap(), pair[1].pts);
                }
                prop_assert!(pair[0].duration.unwrap() > 0);
                prop_assert_eq!(pair[0].offset.unwrap() + 1, pair[1].offset.unwrap());
            }
            if let Some(end) = end {
                let (first, last) = (all.first().unwrap(), all.last().unwrap());
                let (begins, ends) = if reverse {
                    prop_assert_eq!(first.pts + first.duration.unwrap(), stop);
                    (-i128::from(last.pts + last.duration.unwrap()), -i128::from(last.pts))
                } else {
                    prop_assert_eq!(first.pts, 0);
                    (i128::from(last.pts), i128::from(last.pts + last.duration.unwrap()))
                };
                prop_assert!(ends >= end, "{} {}", ends, end);
                prop_assert!(begins < furthest, "{} {}", begins, furthest);
            }
        }

        /// Grid edges are the exact fractions rounded down, however far out, so that durations differ by 1 ns at most.
        #[test]
        fn edges_are_exact(rate in any_rate(), n in 0u64..1 << 40) {
            let (num, den) = (u128::from(rate.num), u128::from(rate.den));
            let exact = u128::from(n) * den * u128::from(SECOND);
            let edge = rate.edge(n) as u128;
            prop_assert!(edge * num <= exact && exact < (edge + 1) * num);
            let duration = rate.edge(n + 1) - rate.edge(n);
            let period = i128::from(rate.period());
            prop_assert!(duration == period || duration == period + 1);
        }

        /// A frame on the grid is shown there as it is, once, and every other output is made at the exact place.
        #[test]
        fn hits_are_the_frames_themselves(
            input in any_rate(), times in 1i32..=8, frames in 2u64..60, start in 0u64..(1 << 50),
        ) {
            let out = Rate::new(input.num as i32 * times, input.den as i32).unwrap();
            let mut t = Timeline::new();
            t.set_rates(if times > 1 { Mode::Interpolate } else { Mode::Nearest }, Some(out), Some(input.period()), 1.0);
            t.start_segment(Bounds { start: Some(start), ..Default::default() });
            let mut all = Vec::new();
            let times = times as u64;
            for i in 0..frames {
                let (a, b) = (input.edge(i) as u64, input.edge(i + 1) as u64);
                for o in feed(&mut t, start + a, b - a) {
                    let n = all.len() as u64;
                    prop_assert_eq!(o.pts, start + out.edge(n) as u64);
                    let before = input.edge(i - 1) as u64;
                    if n.is_multiple_of(times) {
                        // Both grids meet exactly: floor(k * n) of one is floor(n) of the other.
                        prop_assert_eq!(o.pts, start + before);
                        prop_assert!(matches!(o.source, Source::Earlier { .. }) && !o.repeated, "{:?}", o);
                    } else {
                        let Source::Between(place) = o.source else { panic!("{o:?}") };
                        let exact = (o.pts - start - before) as f64 / (a - before) as f64;
                        prop_assert!((place - exact).abs() <= f64::EPSILON && place > 0.0 && place < 1.0);
                    }
                    all.push(o);
                }
            }
            all.extend(finish(&mut t, true));
            prop_assert_eq!(all.len() as u64, frames * times);
            prop_assert_eq!(made(&all) as u64, (frames - 1) * (times - 1));
        }

        /// The durations add up to the segment, rounded up to whole outputs, whatever frames it holds.
        #[test]
        fn durations_add_up_to_the_segment(
            out in any_rate(), start in 0u64..SECOND * 7200, length in 1u64..SECOND * 4, mode in any_mode(),
            frames in proptest::collection::vec((0u64..SECOND * 4, proptest::option::of(1u64..SECOND)), 1..20),
            reverse: bool,
        ) {
            let start = start + SECOND * 2;
            let stop = start + length;
            let mut t = Timeline::new();
            t.set_rates(mode, Some(out), None, 1.0);
            t.set_limits(Limits { max_closing: u64::MAX, ..Default::default() });
            t.start_segment(Bounds { start: Some(start), stop: Some(stop), reverse });
            let mut along: Vec<_> = frames.into_iter().map(|(at, duration)| (at % length, duration)).collect();
            along.sort_unstable();
            along.dedup_by_key(|(at, _)| *at);
            let mut all = Vec::new();
            for (at, duration) in along {
                let pts = if reverse { stop - at } else { start + at };
                prop_assert_eq!(t.push(Arrival { pts: Some(pts), duration, discont: false }), Verdict::Accepted);
                all.extend(take(&mut t));
            }
            all.extend(finish(&mut t, true));
            let covered: u64 = all.iter().map(|o| o.duration.unwrap()).sum();
            let last = all.last().unwrap().duration.unwrap();
            prop_assert!(covered >= length && covered - last < length, "{} of {}", covered, length);
            let first = all[0];
            prop_assert_eq!(if reverse { first.pts + first.duration.unwrap() } else { first.pts },
                if reverse { stop } else { start });
        }

        /// After a reset nothing is left of what was before; after a new segment the numbers go on.
        #[test]
        fn resets_and_segments_start_anew(
            out in any_rate(), mode in any_mode(), frames in proptest::collection::vec(1u64..200_000_000, 1..10),
            again in proptest::collection::vec(1u64..200_000_000, 1..10), flush: bool, start in 0u64..SECOND * 3600,
        ) {
            let run = |t: &mut Timeline, start: u64, gaps: &[u64]| {
                t.start_segment(Bounds { start: Some(start), ..Default::default() });
                let mut at = start;
                let mut all = Vec::new();
                for gap in gaps {
                    all.extend(feed(t, at, 0));
                    at += gap;
                }
                all
            };
            let mut t = Timeline::new();
            t.set_rates(mode, Some(out), Some(40_000_000), 1.0);
            let mut before = run(&mut t, 0, &frames);
            if flush {
                t.reset();
            } else {
                before.extend(finish(&mut t, true));
            }
            let mut after = run(&mut t, start, &again);
            after.extend(finish(&mut t, true));
            let mut fresh = Timeline::new();
            fresh.set_rates(mode, Some(out), Some(40_000_000), 1.0);
            let mut expected = run(&mut fresh, start, &again);
            expected.extend(finish(&mut fresh, true));
            if !flush {
                for o in &mut expected {
                    o.offset = o.offset.map(|n| n + before.len() as u64);
                    o.discont = false;
                }
            }
            prop_assert_eq!(after, expected);
        }

        /// Output `n` is at `floor(n * den * 10^9 / num)` for every pair of rates.
        #[test]
        fn output_times_are_counted(input in any_rate(), out in any_rate(), frames in 1u64..200) {
            let faster = u64::from(out.num) * u64::from(input.den) > u64::from(input.num) * u64::from(out.den);
            let mode = if faster { Mode::Interpolate } else { Mode::Nearest };
            let all = convert(mode, input, out, frames);
            for (n, o) in all.iter().enumerate() {
                let n = n as u128;
                let at = n * u128::from(out.den) * u128::from(SECOND) / u128::from(out.num);
                prop_assert_eq!(u128::from(o.pts), at);
            }
            let end = input.edge(frames) as u64;
            let last = all.last().unwrap();
            prop_assert!(last.pts < end && last.pts + last.duration.unwrap() >= end);
            if !faster {
                prop_assert_eq!(made(&all), 0);
            }
        }
    }
}
