// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which formats pass, and which output rate follows from the input's caps, downstream's caps and the settings.

use gst::prelude::*;

use super::settings::Settings;
use crate::gpu::frame::FrameLayout;
use crate::video;

/// The caps with `framerate` in place of every structure's own.
pub fn with_framerate(caps: &gst::CapsRef, framerate: impl Into<gst::glib::Value> + Send + Clone) -> gst::Caps {
    let mut caps = caps.to_owned();
    for structure in caps.make_mut().iter_mut() {
        structure.set("framerate", framerate.clone());
        structure.remove_field("max-framerate");
    }
    caps
}

/// The caps with any frame rate.
pub fn with_any_framerate(caps: &gst::CapsRef) -> gst::Caps {
    with_framerate(caps, video::any_rate())
}

/// The caps that can leave the element when `caps` come in.
pub fn outgoing(caps: &gst::CapsRef, settings: &Settings) -> gst::Caps {
    if settings.fps.numer() > 0 {
        return with_framerate(caps, settings.fps);
    }
    let mut outgoing = gst::Caps::new_empty();
    for structure in caps.iter() {
        let one = gst::Caps::from(structure.to_owned());
        let highest = if settings.drop_only { highest_rate(structure) } else { video::any_rate().max() };
        let highest = highest.min(gst::Fraction::new(settings.max_rate, 1));
        outgoing.merge(with_framerate(&one, gst::FractionRange::new(video::any_rate().min(), highest)));
    }
    outgoing
}

fn highest_rate(structure: &gst::StructureRef) -> gst::Fraction {
    let rate = structure
        .get::<gst::Fraction>("framerate")
        .ok()
        .or_else(|| structure.get::<gst::FractionRange>("framerate").ok().map(|range| range.max()));
    // A variable rate may be as high as it likes.
    rate.filter(|rate| rate.numer() > 0).unwrap_or(video::any_rate().max())
}

/// Input caps that were understood.
#[derive(Debug, Clone)]
pub struct Input {
    pub caps: gst::Caps,
    pub info: gst_video::VideoInfo,
    pub layout: FrameLayout,
    /// `None`: variable.
    pub rate: Option<gst::Fraction>,
}

/// What makes input caps unfit.
#[derive(Debug)]
pub enum Refusal {
    Interlaced,
    Other(String),
}

impl Input {
    pub fn new(caps: &gst::Caps) -> Result<Self, Refusal> {
        let info = gst_video::VideoInfo::from_caps(caps).map_err(|_| Refusal::Other(format!("bad caps {caps}")))?;
        if info.is_interlaced() {
            return Err(Refusal::Interlaced);
        }
        let layout = video::layout(&info).map_err(|error| Refusal::Other(error.to_string()))?;
        let rate = Some(info.fps()).filter(|fps| fps.numer() > 0);
        Ok(Self { caps: caps.clone(), info, layout, rate })
    }
}

/// The outcome of [`choose`].
#[derive(Debug)]
pub enum Choice {
    /// These caps go out, their rate fixed (0/1: variable).
    Caps(gst::Caps),
    /// Nothing tells a rate; one is needed from the frames' timestamps.
    Unknown,
}

/// Chooses the output caps. `downstream` is what it accepts; `rate` the input's rate, from its caps or estimated.
pub fn choose(
    input: &gst::CapsRef,
    rate: Option<gst::Fraction>,
    downstream: &gst::CapsRef,
    settings: &Settings,
) -> Result<Choice, String> {
    let candidate = outgoing(input, settings);
    let mut allowed = candidate.intersect_with_mode(downstream, gst::CapsIntersectMode::First);
    if allowed.is_empty() {
        return Err(conflict(input, downstream, settings));
    }
    allowed.truncate();
    let allowed_ref = allowed.make_mut();
    let Some(structure) = allowed_ref.structure_mut(0) else {
        return Err(conflict(input, downstream, settings));
    };
    if structure.get::<gst::Fraction>("framerate").is_err() {
        let passes = settings.drop_only || settings.average_period > 0;
        let limit = gst::Fraction::new(settings.max_rate, 1);
        let wanted = match rate {
            Some(rate) if passes || settings.max_rate < i32::MAX => rate.min(limit),
            Some(rate) => {
                rate.numer().checked_mul(2).map_or(video::any_rate().max(), |n| gst::Fraction::new(n, rate.denom()))
            }
            // Frames pass at their own times, so the rate may stay variable.
            None if passes => gst::Fraction::new(0, 1),
            None => return Ok(Choice::Unknown),
        };
        structure.fixate_field_nearest_fraction("framerate", wanted);
    }
    allowed.fixate();
    Ok(Choice::Caps(allowed))
}

/// Why downstream accepts none of the caps that could go out.
fn conflict(input: &gst::CapsRef, downstream: &gst::CapsRef, settings: &Settings) -> String {
    let rates: Vec<String> = with_any_framerate(input)
        .intersect(downstream)
        .iter()
        .filter_map(|structure| structure.value("framerate").ok())
        .map(|rate| rate.serialize().map_or_else(|_| format!("{rate:?}"), |text| text.to_string()))
        .collect();
    if rates.is_empty() {
        return format!("downstream accepts no {input}, but only {downstream}");
    }
    let rates = rates.join(" or ");
    if settings.fps.numer() > 0 {
        format!("fps={} was asked for, but downstream's caps ask for framerate={rates}: set only one", settings.fps)
    } else {
        format!(
            "downstream's caps ask for framerate={rates}, which drop-only={} and max-rate={} do not allow for {input}",
            settings.drop_only, settings.max_rate
        )
    }
}

#[cfg(test)]
mod tests {
    use gst_video::VideoFormat;

    use super::*;
    use crate::gpu::frame::{Color, Matrix};

    fn input(rate: &str) -> gst::Caps {
        gst::init().unwrap();
        let text = format!("video/x-raw,format=NV12,width=64,height=48,framerate={rate},colorimetry=bt709");
        text.parse().unwrap()
    }

    /// The chosen rate; `None`: undecided.
    fn rate(rate: &str, downstream: &str, settings: &Settings) -> Result<Option<gst::Fraction>, String> {
        let caps = input(rate);
        let known = Input::new(&caps).unwrap().rate;
        let downstream: gst::Caps = downstream.parse().unwrap();
        Ok(match choose(&caps, known, &downstream, settings)? {
            Choice::Unknown => None,
            Choice::Caps(chosen) => {
                assert!(chosen.is_fixed());
                let chosen = gst_video::VideoInfo::from_caps(&chosen).unwrap();
                assert_eq!((chosen.width(), chosen.format()), (64, VideoFormat::Nv12));
                Some(chosen.fps())
            }
        })
    }

    fn fraction(n: i32, d: i32) -> Result<Option<gst::Fraction>, String> {
        Ok(Some(gst::Fraction::new(n, d)))
    }

    #[test]
    fn downstream_decides_and_else_it_is_twice_the_input() {
        let settings = Settings::default();
        assert_eq!(rate("25/1", "video/x-raw", &settings), fraction(50, 1));
        assert_eq!(rate("30000/1001", "ANY", &settings), fraction(60000, 1001));
        assert_eq!(rate("25/1", "video/x-raw,framerate=60/1", &settings), fraction(60, 1));
        assert_eq!(rate("25/1", "video/x-raw,framerate=[1/1,30/1]", &settings), fraction(30, 1));
        assert_eq!(rate("25/1", "video/x-raw,framerate={24/1,48/1,120/1}", &settings), fraction(48, 1));
        assert_eq!(rate("0/1", "video/x-raw", &settings), Ok(None));
        assert_eq!(rate("0/1", "video/x-raw,framerate=60/1", &settings), fraction(60, 1));
    }

    #[test]
    fn properties_limit_the_rate() {
        let fps = Settings { fps: gst::Fraction::new(60, 1), ..Settings::default() };
        assert_eq!(rate("25/1", "video/x-raw", &fps), fraction(60, 1));
        assert_eq!(rate("0/1", "video/x-raw", &fps), fraction(60, 1));
        let conflict = rate("25/1", "video/x-raw,framerate=50/1", &fps).unwrap_err();
        assert!(conflict.contains("fps=60") && conflict.contains("50/1"), "{conflict}");
        let format = rate("25/1", "video/x-raw,format=RGB", &fps).unwrap_err();
        assert!(format.contains("NV12") && format.contains("RGB"), "{format}");
        let drop_only = Settings { drop_only: true, ..Settings::default() };
        assert_eq!(rate("25/1", "video/x-raw", &drop_only), fraction(25, 1));
        assert_eq!(rate("25/1", "video/x-raw,framerate=10/1", &drop_only), fraction(10, 1));
        assert!(rate("25/1", "video/x-raw,framerate=50/1", &drop_only).is_err());
        assert_eq!(rate("0/1", "video/x-raw", &drop_only), fraction(0, 1));
        let max_rate = Settings { max_rate: 10, ..Settings::default() };
        assert_eq!(rate("25/1", "video/x-raw", &max_rate), fraction(10, 1));
        assert_eq!(rate("5/1", "video/x-raw", &max_rate), fraction(5, 1));
        assert!(rate("25/1", "video/x-raw,framerate=25/1", &max_rate).is_err());
    }

    #[test]
    fn colour_follows_the_caps() {
        let color = |colorimetry: &str, site: &str| {
            let mut caps = input("25/1");
            let caps_ref = caps.make_mut();
            caps_ref.set("colorimetry", colorimetry);
            caps_ref.set("chroma-site", site);
            Input::new(&caps).unwrap().layout.color
        };
        assert_eq!(color("bt709", "mpeg2"), Color { matrix: Matrix::BT709, full_range: false, chroma_left: true });
        assert_eq!(color("1:4:0:0", "jpeg"), Color { matrix: Matrix::BT601, full_range: true, chroma_left: false });
        assert_eq!(color("bt2020", "mpeg2").matrix, Matrix::BT2020);
        assert_eq!(color("smpte240m", "mpeg2").matrix, Matrix::SMPTE240M);
    }

    #[test]
    fn every_format_of_the_template_is_understood() {
        for (format, pixel) in video::FORMATS {
            let mut caps = input("25/1");
            caps.make_mut().set("format", format.to_str());
            assert!(caps.is_subset(&video::template()));
            assert_eq!(Input::new(&caps).unwrap().layout.format, *pixel);
        }
        let mut interlaced = input("25/1");
        interlaced.make_mut().set("interlace-mode", "interleaved");
        assert!(matches!(Input::new(&interlaced), Err(Refusal::Interlaced)));
    }
}
