// SPDX-License-Identifier: MIT OR Apache-2.0
//! From class logits and boxes to detections in the frame's pixels.
//!
//! # Steps
//! 1. The Q largest of the Q·C class logits become [`Candidate`]s, `score = sigmoid(logit)`; one query may give
//!    several.
//! 2. A candidate stays where its score is above the threshold (`>`), or, for a class with a threshold of its own, not
//!    below that (`>=`). Its box becomes pixels, cut to the analysed part of the frame; candidates without a score, a
//!    finite box or anything inside the frame are dropped.
//! 3. Overlaps are resolved ([`Cleanup`]).
//! 4. Only wanted labels stay, of these the best-scored `max_detections`.
//!
//! # [`Cleanup::Layout`]
//! The rules of docling's layout post-processor for pictures without text cells. Its classes are *regular*, but for
//! `Picture` and the *wrappers* Table, Document Index, Form and Key-Value Region.
//! 1. Classes without a threshold set by the user must also reach docling's own: 0.45 for Section-header, Title, Code,
//!    both Checkboxes, Form, Key-Value Region and Document Index, 0.5 for the rest. Title becomes Section-header.
//! 2. Regular boxes that overlap (IoU or containment of either in the other above 0.8) form groups, of each of which
//!    one box stays; up to three rounds.
//! 3. Pictures of more than 0.9 of the page are dropped, and those with an IoU above 0.8 to a Table.
//! 4. Regular boxes of which more than 0.8 lies inside a picture or wrapper are its children; a Form or Key-Value
//!    Region with children takes the extent of their union.
//! 5. Pictures, then wrappers, are grouped as in 2. The children of those that stay are left out: a detection stands
//!    for what it contains.
//! 6. The detections are ordered by their top, then by their left edge.
//!
//! Within a group a box is *eligible* unless another is much more certain and it is not much larger: it loses to any
//! other whose score is higher by more than K while `area / other's area <= A`. (A, K) are (1.3, 0.05) for regular
//! boxes, (2, 0.3) for pictures, (2, 0.2) for wrappers. It does not lose as a List-item to a Text of an area within
//! 20%, nor as Code to what it contains by more than 0.8. The largest eligible box stays, but one is not replaced by a
//! larger one whose score is lower by more than K; without an eligible box the first stays.

use std::str::FromStr;

use crate::error::{Error, Result};
use crate::nn::cpu::{Tensor, sigmoid, top_k::top_k};

use super::preprocess::Placement;

/// IoU above which [`Cleanup::Nms`] drops the lower-scored of two boxes of a class.
pub const NMS_IOU: f64 = 0.7;

/// IoU or containment above which [`Cleanup::Layout`] groups boxes, and containment that makes a child.
const OVERLAP: f64 = 0.8;

/// Share of the page above which a Picture is taken for the page itself.
const FULL_PAGE: f64 = 0.9;

/// How overlaps among detections are resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cleanup {
    /// Not at all: as transformers' post-processing leaves them.
    None,
    /// Non-maximum suppression by class ([`NMS_IOU`]).
    Nms,
    /// Docling's rules, see [the module](self).
    Layout,
}

impl Cleanup {
    /// `Layout` where all labels are docling's, else `Nms`.
    pub fn default_for(labels: &[String]) -> Self {
        if !labels.is_empty() && labels.iter().all(|label| Role::of(label).is_some()) {
            Self::Layout
        } else {
            Self::Nms
        }
    }
}

impl FromStr for Cleanup {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "none" => Ok(Self::None),
            "nms" => Ok(Self::Nms),
            "layout" => Ok(Self::Layout),
            other => Err(Error::Unsupported(format!("cleanup {other:?}: expected none, nms or layout"))),
        }
    }
}

/// A class that the network proposes for one of its boxes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    pub query: usize,
    pub label: usize,
    /// 0..1.
    pub score: f32,
    /// Centre x, centre y, width, height, relative to the network's input.
    pub bbox: [f32; 4],
}

/// The candidates of the `Q = logits.pixels()` largest of all Q·C logits, the best first, of equal ones the first. NaN
/// counts as lower than anything.
pub fn candidates(logits: &Tensor, boxes: &Tensor) -> Vec<Candidate> {
    let (queries, classes) = (logits.pixels(), logits.channels);
    assert_eq!((boxes.pixels(), boxes.channels), (queries, 4), "boxes of other queries");
    let candidate = |i: usize| {
        let query = i / classes;
        let bbox = [0, 1, 2, 3].map(|k| boxes.data[query * 4 + k]);
        Candidate { query, label: i % classes, score: sigmoid(logits.data[i]), bbox }
    };
    top_k(&logits.data, queries).into_iter().map(candidate).collect()
}

/// Something found in a frame.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Detection {
    pub label: usize,
    /// 0..1.
    pub score: f32,
    /// Left, top, right, bottom in the frame's pixels.
    pub bbox: [f64; 4],
}

/// A label's part in docling's rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Caption,
    Footnote,
    Formula,
    ListItem,
    PageFooter,
    PageHeader,
    Picture,
    SectionHeader,
    Table,
    Text,
    Title,
    DocumentIndex,
    Code,
    CheckboxSelected,
    CheckboxUnselected,
    Form,
    KeyValueRegion,
}

impl Role {
    fn of(label: &str) -> Option<Self> {
        Some(match normalise(label).as_str() {
            "CAPTION" => Self::Caption,
            "FOOTNOTE" => Self::Footnote,
            "FORMULA" => Self::Formula,
            "LIST_ITEM" => Self::ListItem,
            "PAGE_FOOTER" => Self::PageFooter,
            "PAGE_HEADER" => Self::PageHeader,
            "PICTURE" => Self::Picture,
            "SECTION_HEADER" => Self::SectionHeader,
            "TABLE" => Self::Table,
            "TEXT" => Self::Text,
            "TITLE" => Self::Title,
            "DOCUMENT_INDEX" => Self::DocumentIndex,
            "CODE" => Self::Code,
            "CHECKBOX_SELECTED" => Self::CheckboxSelected,
            "CHECKBOX_UNSELECTED" => Self::CheckboxUnselected,
            "FORM" => Self::Form,
            "KEY_VALUE_REGION" => Self::KeyValueRegion,
            _ => return None,
        })
    }

    /// Docling's threshold of the class.
    fn threshold(role: Option<Self>) -> f32 {
        match role {
            Some(
                Self::SectionHeader
                | Self::Title
                | Self::Code
                | Self::CheckboxSelected
                | Self::CheckboxUnselected
                | Self::Form
                | Self::KeyValueRegion
                | Self::DocumentIndex,
            ) => 0.45,
            _ => 0.5,
        }
    }

    fn is_wrapper(self) -> bool {
        matches!(self, Self::Table | Self::DocumentIndex | Self::Form | Self::KeyValueRegion)
    }
}

/// A name in upper case with underscores, so that spellings with hyphens or spaces are alike.
fn normalise(label: &str) -> String {
    label.trim().to_uppercase().replace(['-', ' '], "_")
}

/// Thresholds, filters and clean-up, as a user set them.
#[derive(Debug, Clone, PartialEq)]
pub struct Postprocessor {
    labels: Vec<String>,
    roles: Vec<Option<Role>>,
    threshold: f32,
    class_thresholds: Vec<Option<f32>>,
    wanted: Option<Vec<bool>>,
    cleanup: Cleanup,
    max_detections: usize,
}

impl Postprocessor {
    /// For a model's `labels`: threshold 0.3, all labels, [`Cleanup::default_for`] them, at most 300 detections.
    pub fn new(labels: &[String]) -> Self {
        Self {
            labels: labels.to_vec(),
            roles: labels.iter().map(|label| Role::of(label)).collect(),
            threshold: 0.3,
            class_thresholds: vec![None; labels.len()],
            wanted: None,
            cleanup: Cleanup::default_for(labels),
            max_detections: 300,
        }
    }

    /// The base score: what is above it stays.
    #[must_use]
    pub fn threshold(self, threshold: f32) -> Self {
        Self { threshold, ..self }
    }

    #[must_use]
    pub fn cleanup(self, cleanup: Cleanup) -> Self {
        Self { cleanup, ..self }
    }

    #[must_use]
    pub fn max_detections(self, max_detections: usize) -> Self {
        Self { max_detections, ..self }
    }

    /// Scores that classes must reach instead of the base score, as `Table=0.6,Document Index=0.4`; of the rest the
    /// base score holds. Names may be spelt with hyphens, spaces or underscores, in any case.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where a name is no label of the model, or a score not 0 to 1.
    pub fn class_thresholds(mut self, text: &str) -> Result<Self> {
        self.class_thresholds.fill(None);
        for part in text.split(',').filter(|part| !part.trim().is_empty()) {
            let wrong = || Error::Unsupported(format!("class-thresholds: {part:?}, expected a label=score, 0 to 1"));
            let (name, score) = part.rsplit_once('=').ok_or_else(wrong)?;
            let score: f32 = score.trim().parse().map_err(|_| wrong())?;
            if !(0.0..=1.0).contains(&score) {
                return Err(wrong());
            }
            for label in self.named("class-thresholds", name)? {
                self.class_thresholds[label] = Some(score);
            }
        }
        Ok(self)
    }

    /// The labels that are wanted, separated by commas, spelt as for [`Self::class_thresholds`]; an empty text wants
    /// all. A detection stays where the label it is reported with is wanted, or the one that the network gave it.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where a name is no label of the model.
    pub fn wanted_labels(mut self, text: &str) -> Result<Self> {
        let mut wanted = vec![false; self.labels.len()];
        for name in text.split(',').filter(|name| !name.trim().is_empty()) {
            for label in self.named("labels", name)? {
                wanted[label] = true;
            }
        }
        self.wanted = wanted.contains(&true).then_some(wanted);
        Ok(self)
    }

    /// Classes of that name.
    fn named(&self, setting: &str, name: &str) -> Result<Vec<usize>> {
        let name = normalise(name);
        let found: Vec<usize> = (0..self.labels.len()).filter(|&i| normalise(&self.labels[i]) == name).collect();
        if found.is_empty() {
            let labels = self.labels.join(", ");
            return Err(Error::Unsupported(format!(
                "{setting}: the model has no label {name:?}; its labels are {labels}"
            )));
        }
        Ok(found)
    }

    /// Whether a score is enough for a class.
    fn passes(&self, label: usize, score: f32) -> bool {
        match self.class_thresholds[label] {
            Some(threshold) => score >= threshold,
            None => {
                let rule = self.cleanup == Cleanup::Layout;
                score > self.threshold && (!rule || score >= Role::threshold(self.roles[label]))
            }
        }
    }

    /// The detections among `candidates`, which lie in the part of a frame that `placement` says; the best first, but
    /// see [`Cleanup::Layout`].
    pub fn run(&self, candidates: &[Candidate], placement: &Placement) -> Vec<Detection> {
        let mut items: Vec<Item> = candidates
            .iter()
            .filter(|c| c.label < self.labels.len() && self.passes(c.label, c.score))
            .filter_map(|c| {
                let bbox = placement.to_frame(c.bbox)?;
                let role = self.roles[c.label];
                Some(Item { source: c.label, role, found: Detection { label: c.label, score: c.score, bbox } })
            })
            .collect();
        items.sort_by(|a, b| b.found.score.total_cmp(&a.found.score));
        let mut items = match self.cleanup {
            Cleanup::None => items,
            Cleanup::Nms => nms(items),
            Cleanup::Layout => self.layout(items, placement.area()),
        };
        if let Some(wanted) = &self.wanted {
            items.retain(|item| wanted[item.found.label] || wanted[item.source]);
        }
        let scores: Vec<f32> = items.iter().map(|item| item.found.score).collect();
        let mut best = top_k(&scores, self.max_detections);
        best.sort_unstable();
        best.into_iter().map(|i| items[i].found).collect()
    }

    fn layout(&self, mut items: Vec<Item>, page: f64) -> Vec<Item> {
        if let Some(header) = self.roles.iter().position(|&role| role == Some(Role::SectionHeader)) {
            for item in items.iter_mut().filter(|item| item.role == Some(Role::Title)) {
                item.role = Some(Role::SectionHeader);
                item.found.label = header;
            }
        }
        let wrapper = |item: &Item| item.role.is_some_and(Role::is_wrapper);
        let (mut special, mut regular): (Vec<Item>, Vec<Item>) =
            items.into_iter().partition(|item| wrapper(item) || item.role == Some(Role::Picture));
        for _ in 0..3 {
            let before = regular.len();
            regular = best_of_groups(regular, Rivalry { area: 1.3, score: 0.05 });
            if regular.len() == before {
                break;
            }
        }

        let tables: Vec<[f64; 4]> =
            special.iter().filter(|item| item.role == Some(Role::Table)).map(|item| item.found.bbox).collect();
        special.retain(|item| {
            let bbox = item.found.bbox;
            item.role != Some(Role::Picture)
                || (area(bbox) <= FULL_PAGE * page && tables.iter().all(|&table| iou(bbox, table) <= OVERLAP))
        });
        // Every special with the regular boxes inside it.
        let mut families: Vec<(Item, Vec<usize>)> = special
            .into_iter()
            .map(|item| {
                let inside = |i: &usize| containment(regular[*i].found.bbox, item.found.bbox) > OVERLAP;
                (item, (0..regular.len()).filter(inside).collect())
            })
            .collect();
        for (item, children) in &mut families {
            if matches!(item.role, Some(Role::Form | Role::KeyValueRegion))
                && let Some(extent) = children.iter().map(|&i| regular[i].found.bbox).reduce(union)
            {
                item.found.bbox = extent;
            }
        }
        let (wrappers, pictures): (Vec<_>, Vec<_>) = families.into_iter().partition(|(item, _)| wrapper(item));
        let mut kept = best_of_groups(pictures, Rivalry { area: 2.0, score: 0.3 });
        kept.extend(best_of_groups(wrappers, Rivalry { area: 2.0, score: 0.2 }));

        let mut free = vec![true; regular.len()];
        for &child in kept.iter().flat_map(|(_, children)| children) {
            free[child] = false;
        }
        let mut items: Vec<Item> =
            regular.into_iter().zip(free).filter(|(_, free)| *free).map(|(item, _)| item).collect();
        items.extend(kept.into_iter().map(|(item, _)| item));
        items.sort_by(|a, b| {
            let ([al, at, ..], [bl, bt, ..]) = (a.found.bbox, b.found.bbox);
            at.total_cmp(&bt).then(al.total_cmp(&bl))
        });
        items
    }
}

/// A detection on its way.
#[derive(Debug, Clone, Copy)]
struct Item {
    /// The label that the network gave it.
    source: usize,
    role: Option<Role>,
    found: Detection,
}

impl AsRef<Item> for Item {
    fn as_ref(&self) -> &Item {
        self
    }
}

/// A special with its children.
impl AsRef<Item> for (Item, Vec<usize>) {
    fn as_ref(&self) -> &Item {
        &self.0
    }
}

/// How boxes of a group compete: A and K of [the module](self).
#[derive(Debug, Clone, Copy)]
struct Rivalry {
    area: f64,
    score: f32,
}

impl Rivalry {
    fn loses(self, candidate: &Item, other: &Item) -> bool {
        let ratio = area(candidate.found.bbox) / area(other.found.bbox);
        if candidate.role == Some(Role::ListItem) && other.role == Some(Role::Text) && (1.0 - ratio).abs() < 0.2 {
            return false;
        }
        if candidate.role == Some(Role::Code) && containment(other.found.bbox, candidate.found.bbox) > OVERLAP {
            return false;
        }
        ratio <= self.area && other.found.score - candidate.found.score > self.score
    }

    /// Index of the box of a group that stays.
    fn best(self, group: &[&Item]) -> usize {
        let eligible = |&i: &usize| (0..group.len()).all(|other| other == i || !self.loses(group[i], group[other]));
        (0..group.len())
            .filter(eligible)
            .reduce(|best, i| {
                let (current, next) = (group[best].found, group[i].found);
                let larger = area(next.bbox) > area(current.bbox);
                if larger && current.score - next.score <= self.score { i } else { best }
            })
            .unwrap_or(0)
    }
}

/// Of each group of overlapping boxes the best.
fn best_of_groups<T: AsRef<Item>>(items: Vec<T>, rivalry: Rivalry) -> Vec<T> {
    // Union-find: each box's parent; a group's root is its first box.
    let mut parents: Vec<usize> = (0..items.len()).collect();
    fn root(parents: &mut [usize], mut i: usize) -> usize {
        while parents[i] != i {
            parents[i] = parents[parents[i]];
            i = parents[i];
        }
        i
    }
    for i in 0..items.len() {
        for j in 0..i {
            let (a, b) = (items[i].as_ref().found.bbox, items[j].as_ref().found.bbox);
            if iou(a, b) > OVERLAP || containment(a, b) > OVERLAP || containment(b, a) > OVERLAP {
                let (a, b) = (root(&mut parents, i), root(&mut parents, j));
                parents[a.max(b)] = a.min(b);
            }
        }
    }
    let mut groups: Vec<Vec<usize>> = vec![Vec::new(); items.len()];
    for i in 0..items.len() {
        groups[root(&mut parents, i)].push(i);
    }
    let mut stays = vec![false; items.len()];
    for group in groups.iter().filter(|group| !group.is_empty()) {
        let members: Vec<&Item> = group.iter().map(|&i| items[i].as_ref()).collect();
        stays[group[rivalry.best(&members)]] = true;
    }
    items.into_iter().zip(stays).filter(|(_, stays)| *stays).map(|(item, _)| item).collect()
}

/// The boxes without those that a better-scored one of their class covers; `items` come the best first.
fn nms(items: Vec<Item>) -> Vec<Item> {
    let mut kept: Vec<Item> = Vec::with_capacity(items.len());
    for item in items {
        let found = item.found;
        if kept.iter().all(|k| k.found.label != found.label || iou(k.found.bbox, found.bbox) <= NMS_IOU) {
            kept.push(item);
        }
    }
    kept
}

fn area([left, top, right, bottom]: [f64; 4]) -> f64 {
    (right - left).max(0.0) * (bottom - top).max(0.0)
}

fn intersection(a: [f64; 4], b: [f64; 4]) -> f64 {
    area([a[0].max(b[0]), a[1].max(b[1]), a[2].min(b[2]), a[3].min(b[3])])
}

/// Intersection over union; 0 for boxes without an area.
fn iou(a: [f64; 4], b: [f64; 4]) -> f64 {
    let common = intersection(a, b);
    if common > 0.0 { common / (area(a) + area(b) - common) } else { 0.0 }
}

/// The share of `a` that lies in `b`; 0 for a box without an area.
fn containment(a: [f64; 4], b: [f64; 4]) -> f64 {
    let common = intersection(a, b);
    if common > 0.0 { common / area(a) } else { 0.0 }
}

/// The smallest box around both.
fn union(a: [f64; 4], b: [f64; 4]) -> [f64; 4] {
    [a[0].min(b[0]), a[1].min(b[1]), a[2].max(b[2]), a[3].max(b[3])]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rtdetr::preprocess::Rect;

    const DOCLING: [&str; 17] = [
        "Caption",
        "Footnote",
        "Formula",
        "List-item",
        "Page-footer",
        "Page-header",
        "Picture",
        "Section-header",
        "Table",
        "Text",
        "Title",
        "Document Index",
        "Code",
        "Checkbox-Selected",
        "Checkbox-Unselected",
        "Form",
        "Key-Value Region",
    ];

    fn labels(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| name.to_string()).collect()
    }

    fn docling() -> Postprocessor {
        Postprocessor::new(&labels(&DOCLING))
    }

    /// A page of 1000×1000 pixels.
    fn page() -> Placement {
        let source = Rect::whole(1000, 1000);
        Placement { source, resized: [640, 640], offset: [0, 0], canvas: [640, 640], fill: [0.0; 3] }
    }

    /// A candidate with a box in the page's pixels.
    fn found(name: &str, score: f32, [left, top, right, bottom]: [f32; 4]) -> Candidate {
        let label = DOCLING.iter().position(|label| *label == name).expect("a label of docling");
        let bbox = [(left + right) / 2e3, (top + bottom) / 2e3, (right - left) / 1e3, (bottom - top) / 1e3];
        Candidate { query: 0, label, score, bbox }
    }

    /// Names and rounded boxes of what is left.
    fn run(postprocessor: &Postprocessor, candidates: &[Candidate]) -> Vec<(&'static str, [i32; 4])> {
        let found = postprocessor.run(candidates, &page());
        found.iter().map(|d| (DOCLING[d.label], d.bbox.map(|v| v.round() as i32))).collect()
    }

    #[test]
    fn one_query_may_give_several_candidates() {
        let logits = Tensor { width: 3, height: 1, channels: 2, data: vec![2.0, 1.0, -5.0, f32::NAN, 0.0, 1.0] };
        let boxes = Tensor { width: 3, height: 1, channels: 4, data: (0..12).map(|v| v as f32).collect() };
        let found = candidates(&logits, &boxes);
        let short: Vec<_> = found.iter().map(|c| (c.query, c.label, c.bbox[0])).collect();
        assert_eq!(short, [(0, 0, 0.0), (0, 1, 0.0), (2, 1, 8.0)]);
        assert!((found[0].score - 0.880_797).abs() < 1e-6);
    }

    #[test]
    fn thresholds_are_strict_for_all_and_inclusive_by_class() {
        let at = [found("Text", 0.5, [0., 0., 100., 100.]), found("Table", 0.5, [0., 200., 100., 300.])];
        let none = docling().cleanup(Cleanup::None).threshold(0.5);
        assert_eq!(run(&none, &at), []);
        let table = none.clone().class_thresholds("Table=0.5").unwrap();
        assert_eq!(run(&table, &at), [("Table", [0, 200, 100, 300])]);
        let lower = none.class_thresholds("text=0.2, TABLE = 0.6").unwrap();
        assert_eq!(run(&lower, &at), [("Text", [0, 0, 100, 100])]);
        // Docling's own thresholds come on top of the base, and give way to the user's.
        let header = |score| [found("Section-header", score, [0., 0., 100., 20.])];
        assert_eq!(run(&docling(), &header(0.44)).len(), 0);
        assert_eq!(run(&docling(), &header(0.45)).len(), 1);
        assert_eq!(run(&docling(), &[found("Text", 0.49, [0., 0., 100., 20.])]).len(), 0);
        assert_eq!(run(&docling().class_thresholds("Section_header=0.1").unwrap(), &header(0.2)).len(), 1);
        assert_eq!(run(&docling().threshold(0.6), &header(0.59)).len(), 0);
    }

    /// Field case 25: hyphens, spaces and underscores are alike, and so is the case.
    #[test]
    fn labels_in_any_spelling() {
        let at = [
            found("Document Index", 0.9, [0., 0., 100., 100.]),
            found("Key-Value Region", 0.9, [0., 200., 100., 300.]),
            found("Text", 0.9, [0., 400., 100., 500.]),
        ];
        for text in
            ["Document Index,Key-Value Region", "document_index, key-value-region", "DOCUMENT-INDEX,KEY_VALUE_REGION,"]
        {
            let wanted = docling().wanted_labels(text).unwrap();
            assert_eq!(
                run(&wanted, &at),
                [("Document Index", [0, 0, 100, 100]), ("Key-Value Region", [0, 200, 100, 300])]
            );
        }
        assert_eq!(run(&docling().wanted_labels(" ").unwrap(), &at).len(), 3);
        for (result, want) in [
            (docling().wanted_labels("Tabel"), "no label \"TABEL\"; its labels are Caption, Footnote"),
            (docling().class_thresholds("Tabel=0.5"), "no label \"TABEL\""),
            (docling().class_thresholds("Table"), "expected a label=score"),
            (docling().class_thresholds("Table=nan"), "expected a label=score"),
            (docling().class_thresholds("Table=1.5"), "expected a label=score"),
        ] {
            let error = result.unwrap_err().to_string();
            assert!(error.contains(want), "{error}");
        }
        assert_eq!(Cleanup::default_for(&labels(&["Key_Value_Region", "list item"])), Cleanup::Layout);
        assert_eq!(Cleanup::default_for(&labels(&["Table", "motorbike"])), Cleanup::Nms);
        assert_eq!("layout".parse::<Cleanup>().unwrap(), Cleanup::Layout);
        assert!("best".parse::<Cleanup>().is_err());
    }

    #[test]
    fn titles_become_section_headers_but_can_be_asked_for() {
        let at = [found("Title", 0.9, [0., 0., 100., 20.]), found("Text", 0.9, [0., 50., 100., 70.])];
        assert_eq!(run(&docling().wanted_labels("Title").unwrap(), &at), [("Section-header", [0, 0, 100, 20])]);
        assert_eq!(run(&docling().cleanup(Cleanup::Nms), &at)[0].0, "Title");
    }

    /// Field case 26: a Picture of the whole page, and one found as Table too.
    #[test]
    fn pictures_that_are_something_else() {
        let text = found("Text", 0.9, [100., 100., 500., 200.]);
        let whole = found("Picture", 0.95, [5., 5., 995., 995.]);
        assert_eq!(run(&docling(), &[whole, text]), [("Text", [100, 100, 500, 200])]);
        // One that is not quite the page takes what it contains.
        let most = found("Picture", 0.95, [50., 50., 950., 950.]);
        assert_eq!(run(&docling(), &[most, text]), [("Picture", [50, 50, 950, 950])]);
        let table = found("Table", 0.6, [100., 300., 600., 700.]);
        let twin = found("Picture", 0.99, [102., 301., 600., 705.]);
        assert_eq!(run(&docling(), &[twin, table]), [("Table", [100, 300, 600, 700])]);
        // A picture inside a table is another matter.
        let inner = found("Picture", 0.9, [120., 320., 200., 400.]);
        assert_eq!(run(&docling(), &[inner, table]).len(), 2);
    }

    #[test]
    fn children_belong_to_their_wrapper() {
        let cells = [found("Text", 0.8, [120., 120., 300., 160.]), found("Text", 0.7, [320., 200., 480., 240.])];
        let outside = found("Text", 0.8, [100., 600., 500., 700.]);
        let all = |wrapper| [wrapper, cells[0], cells[1], outside];
        let table = all(found("Table", 0.9, [100., 100., 500., 500.]));
        assert_eq!(run(&docling(), &table), [("Table", [100, 100, 500, 500]), ("Text", [100, 600, 500, 700])]);
        let form = all(found("Form", 0.9, [100., 100., 500., 500.]));
        assert_eq!(run(&docling(), &form), [("Form", [120, 120, 480, 240]), ("Text", [100, 600, 500, 700])]);
        // What lies inside by less than 0.8 stays on its own.
        let half = [found("Table", 0.9, [100., 100., 500., 500.]), found("Text", 0.8, [400., 300., 600., 340.])];
        assert_eq!(run(&docling(), &half).len(), 2);
    }

    #[test]
    fn the_best_of_a_group() {
        let only = |group: &[Candidate]| {
            let left = run(&docling(), group);
            assert_eq!(left.len(), 1, "{left:?}");
            left[0]
        };
        // The larger, unless the smaller is more certain by more than 0.05 and not much smaller.
        let small = |score| found("Text", score, [100., 100., 190., 200.]);
        let large = |score| found("Text", score, [100., 100., 200., 200.]);
        assert_eq!(only(&[small(0.9), large(0.86)]).1, [100, 100, 200, 200]);
        assert_eq!(only(&[small(0.9), large(0.84)]).1, [100, 100, 190, 200]);
        // Much larger: eligible, but not preferred to a more certain one.
        let inner = |score| found("Text", score, [100., 100., 150., 200.]);
        assert_eq!(only(&[inner(0.9), large(0.6)]).1, [100, 100, 150, 200]);
        assert_eq!(only(&[inner(0.9), large(0.86)]).1, [100, 100, 200, 200]);
        // A list item beats a text of about its area, even if less certain.
        let item = found("List-item", 0.6, [100., 100., 200., 201.]);
        assert_eq!(only(&[small(0.62), item]).0, "List-item");
        let certain = found("Text", 0.95, [100., 100., 200., 200.]);
        assert_eq!(only(&[certain, item]).0, "Text", "eligible, but less certain than the larger allowance");
        // Code stays eligible against what it contains.
        let code = found("Code", 0.9, [100., 100., 200., 200.]);
        assert_eq!(only(&[found("Text", 0.94, [100., 100., 195., 200.]), code]).0, "Code");
        // Pictures among themselves allow more.
        let picture = |score, right| found("Picture", score, [100., 100., right, 200.]);
        assert_eq!(only(&[picture(0.9, 190.), picture(0.62, 200.)]).1, [100, 100, 200, 200]);
        assert_eq!(only(&[picture(0.9, 190.), picture(0.55, 200.)]).1, [100, 100, 190, 200]);
    }

    #[test]
    fn layout_orders_by_position_and_the_rest_by_score() {
        let at = [
            found("Text", 0.6, [500., 100., 600., 200.]),
            found("Text", 0.7, [100., 100., 200., 200.]),
            found("Caption", 0.9, [100., 500., 200., 600.]),
        ];
        let lefts = |p: &Postprocessor| run(p, &at).iter().map(|(_, b)| (b[1], b[0])).collect::<Vec<_>>();
        assert_eq!(lefts(&docling()), [(100, 100), (100, 500), (500, 100)]);
        assert_eq!(lefts(&docling().cleanup(Cleanup::None)), [(500, 100), (100, 100), (100, 500)]);
        // The limit keeps the best, in the same order.
        assert_eq!(lefts(&docling().max_detections(2)), [(100, 100), (500, 100)]);
        assert_eq!(lefts(&docling().max_detections(0)), []);
    }

    #[test]
    fn nms_is_by_class() {
        let at = [
            found("Text", 0.9, [100., 100., 200., 200.]),
            found("Text", 0.8, [105., 100., 200., 200.]),
            found("Code", 0.7, [100., 100., 200., 200.]),
            found("Text", 0.6, [100., 150., 200., 250.]),
        ];
        let left = run(&docling().cleanup(Cleanup::Nms), &at);
        assert_eq!(left.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["Text", "Code", "Text"]);
    }

    /// Field case 30: nothing that a network may emit, NaN included, panics or gets out.
    #[test]
    fn broken_numbers_are_dropped() {
        let fine = found("Text", 0.9, [100., 100., 200., 200.]);
        let with = |score, bbox| Candidate { score, bbox, ..fine };
        let broken = [
            with(f32::NAN, fine.bbox),
            with(0.9, [f32::NAN, 0.5, 0.1, 0.1]),
            with(0.9, [0.5, 0.5, f32::INFINITY, 0.1]),
            with(0.9, [0.5, 0.5, 0.0, 0.1]),
            with(0.9, [0.5, 0.5, -0.1, 0.1]),
            with(0.9, [3.0, 0.5, 0.1, 0.1]),
            Candidate { label: 99, ..fine },
            fine,
        ];
        for cleanup in [Cleanup::None, Cleanup::Nms, Cleanup::Layout] {
            assert_eq!(run(&docling().cleanup(cleanup).threshold(0.0), &broken), [("Text", [100, 100, 200, 200])]);
        }
        let nan = |channels| Tensor { width: 4, height: 1, channels, data: vec![f32::NAN; 4 * channels] };
        assert_eq!(docling().threshold(0.0).run(&candidates(&nan(17), &nan(4)), &page()), []);
        // Huge boxes are cut to the frame.
        let huge = with(0.9, [0.5, 0.5, 1e30, 1e30]);
        assert_eq!(run(&docling().cleanup(Cleanup::None), &[huge]), [("Text", [0, 0, 1000, 1000])]);
    }
}
