// SPDX-License-Identifier: MIT OR Apache-2.0
//! Detections as metas and as a message.

use gst::glib;
use gst::prelude::*;
use gst_video::VideoRegionOfInterestMeta;

use super::analytics::Analytics;
use crate::rtdetr::Detection;

/// A class name as metas carry it.
#[derive(Debug, Clone)]
pub struct Label {
    pub name: String,
    pub quark: glib::Quark,
}

impl Label {
    /// The model's names. GLib keeps each for the rest of the process, so there must be no others.
    pub fn table(names: &[String]) -> Vec<Self> {
        let label = |name: &String| {
            // C strings cannot hold a NUL.
            let name = name.replace('\0', "\u{fffd}");
            let quark = glib::Quark::from_str(&name);
            Self { name, quark }
        };
        names.iter().map(label).collect()
    }
}

/// Which metas are attached.
#[derive(Debug, Clone, Copy)]
pub struct Metas {
    pub roi: bool,
    pub analytics: Option<&'static Analytics>,
}

/// The detections of a frame.
#[derive(Debug, Clone, Copy)]
pub struct Found<'a> {
    pub detections: &'a [Detection],
    pub labels: &'a [Label],
    /// Width and height of the frame.
    pub size: [u32; 2],
}

/// A box in whole pixels, x, y, width, height: the nearest, inside the frame, at least one pixel.
fn whole_pixels([left, top, right, bottom]: [f64; 4], size: [u32; 2]) -> [u32; 4] {
    let span = |start: f64, end: f64, limit: u32| {
        let start = (start.round() as u32).min(limit.saturating_sub(1));
        let end = (end.round() as u32).clamp(start + 1, limit.max(start + 1));
        (start, end - start)
    };
    let ((x, width), (y, height)) = (span(left, right, size[0]), span(top, bottom, size[1]));
    [x, y, width, height]
}

impl Found<'_> {
    fn labelled(&self) -> impl Iterator<Item = (&Detection, &Label)> {
        self.detections.iter().filter_map(|detection| Some((detection, self.labels.get(detection.label)?)))
    }

    /// Attaches the metas. Returns `false` where GStreamer refused one.
    pub fn attach(&self, buffer: &mut gst::BufferRef, metas: Metas) -> bool {
        let mut ids: Vec<u32> = (0..).take(self.detections.len()).collect();
        if let Some(analytics) = metas.analytics {
            let Some(mut relation) = analytics.relation(buffer) else { return false };
            for ((detection, label), id) in self.labelled().zip(&mut ids) {
                // Sides are 16384 at most.
                let bounds = whole_pixels(detection.bbox, self.size).map(|v| v as i32);
                let Some(added) = relation.add(label.quark, bounds, detection.score) else { return false };
                *id = added;
            }
        }
        if metas.roi {
            let [width, height] = self.size.map(f64::from);
            for ((detection, label), id) in self.labelled().zip(ids) {
                let [x, y, w, h] = whole_pixels(detection.bbox, self.size);
                let [left, top, right, bottom] = detection.bbox;
                let mut meta = VideoRegionOfInterestMeta::add(buffer, &label.name, (x, y, w, h));
                meta.set_id(id as i32);
                meta.add_param(
                    gst::Structure::builder("detection")
                        .field("label_id", detection.label as i32)
                        .field("confidence", f64::from(detection.score))
                        .field("x_min", left / width)
                        .field("x_max", right / width)
                        .field("y_min", top / height)
                        .field("y_max", bottom / height)
                        .build(),
                );
            }
        }
        true
    }

    /// The structure of the element message.
    pub fn message(&self, timestamp: Option<gst::ClockTime>, frame: u64, inference_time: u64) -> gst::Structure {
        let detections = self.labelled().map(|(detection, label)| {
            let [left, top, right, bottom] = detection.bbox;
            let structure = gst::Structure::builder("detection")
                .field("label", &label.name)
                .field("label-id", detection.label as i32)
                .field("confidence", f64::from(detection.score))
                .field("x", left)
                .field("y", top)
                .field("width", right - left)
                .field("height", bottom - top)
                .build();
            structure.to_send_value()
        });
        gst::Structure::builder("rtdetrlayout")
            .field("timestamp", timestamp.map_or(u64::MAX, |time| time.nseconds()))
            .field("frame", frame)
            .field("inference-time", inference_time)
            .field("detections", gst::Array::new(detections))
            .build()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_are_rounded_and_stay_inside() {
        let size = [100, 50];
        assert_eq!(whole_pixels([0.0, 0.0, 100.0, 50.0], size), [0, 0, 100, 50]);
        assert_eq!(whole_pixels([1.4, 1.6, 10.5, 20.4], size), [1, 2, 10, 18]);
        // What is thinner than a pixel gets one.
        assert_eq!(whole_pixels([99.8, 49.9, 100.0, 50.0], size), [99, 49, 1, 1]);
        assert_eq!(whole_pixels([3.1, 0.0, 3.2, 0.1], size), [3, 0, 1, 1]);
        assert_eq!(whole_pixels([0.0, 0.0, 0.2, 1.0], [1, 1]), [0, 0, 1, 1]);
    }
}
