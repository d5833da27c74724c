// SPDX-License-Identifier: MIT OR Apache-2.0
//! Made-up weights of any geometry, without a file, for benchmarks: they cost what trained ones cost and find nothing.

use super::config::Config;
use super::tensors::Tensors;
use super::weights::Weights;
use crate::error::Result;
use crate::nn::random::SplitMix64;

/// A tensor by its name: matrices and kernels that keep the magnitude of what they are applied to, scales near 1,
/// everything else near 0.
fn draw(name: &str, shape: &[usize]) -> Vec<f32> {
    let mut random = SplitMix64(u64::from(crc32fast::hash(name.as_bytes())));
    let count = shape.iter().product();
    match shape {
        [_] if name.ends_with("running_var") || name.ends_with(".weight") => random.draw(count, 1.0, 0.2),
        [_] => random.draw(count, 0.0, 0.05),
        _ => {
            let inputs: usize = shape[1..].iter().product();
            random.draw(count, 0.0, (3.0 / inputs.max(1) as f64).sqrt())
        }
    }
}

impl Weights {
    /// Weights made up for `config`, the same every time, with the preprocessing of a checkpoint that says nothing of
    /// it.
    ///
    /// # Errors
    /// [`crate::Error::ModelInvalid`] where no such network can exist.
    pub fn synthetic(config: Config) -> Result<Self> {
        let preprocessor = config.default_preprocessor();
        let name = "synthetic weights";
        Self::build(name, config, preprocessor, &Tensors::drawn(name, draw))
    }
}
