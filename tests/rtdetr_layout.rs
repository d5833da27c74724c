// SPDX-License-Identifier: MIT OR Apache-2.0
//! The layout clean-up against docling's own, on random pages (`golden/rtdetr/make_layout.py`).

use std::fs;
use std::path::Path;

use gstframecast::rtdetr::{Candidate, Cleanup, Placement, Postprocessor, Rect};
use serde::Deserialize;

/// Label, score, left, top, right, bottom.
type Item = (String, f32, f32, f32, f32, f32);

#[derive(Debug, Deserialize)]
struct Page {
    found: Vec<Item>,
    left: Vec<Item>,
}

const SIDE: f32 = 1024.0;

const LABELS: [&str; 17] = [
    "caption",
    "footnote",
    "formula",
    "list_item",
    "page_footer",
    "page_header",
    "picture",
    "section_header",
    "table",
    "text",
    "title",
    "document_index",
    "code",
    "checkbox_selected",
    "checkbox_unselected",
    "form",
    "key_value_region",
];

/// Field case 26: what stays, with which box and in which order, as docling decides.
#[test]
fn the_same_detections_stay_as_in_docling() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/rtdetr/layout.json");
    let pages: Vec<Page> = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    assert_eq!(pages.len(), 120);
    let labels = LABELS.map(str::to_owned);
    let post = Postprocessor::new(&labels).threshold(0.3);
    assert_eq!(Cleanup::default_for(&labels), Cleanup::Layout);
    let side = SIDE as usize;
    let placement = Placement {
        source: Rect::whole(side, side),
        resized: [640, 640],
        offset: [0, 0],
        canvas: [640, 640],
        fill: [0.0; 3],
    };
    let (mut given, mut kept) = (0, 0);
    for (number, page) in pages.iter().enumerate() {
        let candidates: Vec<Candidate> = page
            .found
            .iter()
            .map(|(name, score, left, top, right, bottom)| Candidate {
                query: 0,
                label: LABELS.iter().position(|label| label == name).expect("a label"),
                score: *score,
                bbox: [(left + right) / 2.0, (top + bottom) / 2.0, right - left, bottom - top].map(|v| v / SIDE),
            })
            .collect();
        let got: Vec<Item> = post
            .run(&candidates, &placement)
            .iter()
            .map(|d| {
                let [left, top, right, bottom] = d.bbox.map(|v| v as f32);
                (LABELS[d.label].to_owned(), d.score, left, top, right, bottom)
            })
            .collect();
        assert_eq!(got, page.left, "page {number} of {:#?}", page.found);
        given += candidates.len();
        kept += got.len();
    }
    assert!(kept > 200 && kept < given / 2, "{kept} of {given} stay");
}
