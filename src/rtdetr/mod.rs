// SPDX-License-Identifier: MIT OR Apache-2.0
//! RT-DETRv2 (Lv et al., 2024): from a picture to boxes with classes, for every checkpoint in the format of Hugging
//! Face transformers, such as docling's layout models.
//!
//! [`Config`] is the geometry that a checkpoint's `config.json` gives, [`Weights`] its tensors, checked, folded and
//! typed. A picture passes through [`preprocess`] (to the network's input), the network
//! ([`reference`](mod@reference): in plain Rust, the oracle of the tests and the fallback without a GPU) and
//! [`postprocess`] (to detections in the frame's pixels).

pub mod config;
pub mod detector;
mod graph;
pub mod postprocess;
pub mod preprocess;
pub mod reference;
pub mod synthetic;
mod tensors;
pub mod weights;

pub use config::{Config, PreprocessorConfig, Size};
pub use detector::{Analysis, Backend, Detector, DetectorConfig};
pub use postprocess::{Candidate, Cleanup, Detection, Postprocessor};
pub use preprocess::{Fit, Placement, Preprocessor, Rect, RgbImage};
pub use reference::{Forward, Reference};
pub use weights::Weights;
