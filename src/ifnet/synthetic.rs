// SPDX-License-Identifier: MIT OR Apache-2.0
//! Weights from a seed, for tests and benchmarks: any graph at any width, without a file.

use super::weights::{BLOCKS, Conv, ConvTranspose, Film, Graph, Refine, Weights};
use crate::nn::random::SplitMix64;

/// What to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GeneratorShape {
    pub graph: Graph,
    pub c1: usize,
    /// A multiple of 4.
    pub c2: usize,
    /// N; unused by `classic`.
    pub film_hidden: usize,
    /// R, a multiple of 4; used by `tfact2` only.
    pub refine_channels: usize,
}

impl SplitMix64 {
    fn conv(&mut self, cout: usize, cin: usize) -> Conv {
        Conv {
            cin,
            cout,
            weight: self.draw(cout * cin * 9, 0.0, 0.9 * (6.0 / (9.0 * cin as f64)).sqrt()),
            bias: self.draw(cout, 0.0, 0.05),
            slope: Some(self.draw(cout, 0.25, 0.2)),
        }
    }
}

impl Weights {
    /// Weights drawn from `seed`, tensor by tensor in the order of the file table, uniformly: convolutions within
    /// `0.9·sqrt(6 / (9·cin))` so that activations neither die nor explode, biases and slopes in small fixed ranges.
    pub fn synthetic(seed: u64, shape: GeneratorShape) -> Self {
        let GeneratorShape { graph, c1, c2, film_hidden, refine_channels } = shape;
        let mut rng = SplitMix64(seed);
        let conv0 = [rng.conv(c1, if graph == Graph::Classic { 7 } else { 6 }), rng.conv(c2, c1)];
        let convblock = (0..BLOCKS).map(|_| rng.conv(c2, c2)).collect();
        let lastconv = ConvTranspose {
            cin: c2,
            cout: 5,
            weight: rng.draw(c2 * 5 * 16, 0.0, 0.9 * (1.0 / (4.0 * c2 as f64)).sqrt()),
            bias: rng.draw(5, 0.0, 0.3),
        };
        let film = (graph != Graph::Classic).then(|| Film {
            hidden: film_hidden,
            w0: rng.draw(film_hidden, 0.0, 1.0),
            b0: rng.draw(film_hidden, 0.0, 0.5),
            w2: rng.draw(2 * c2 * film_hidden, 0.0, 0.3),
            b2: rng.draw(2 * c2, 0.0, 0.1),
        });
        let refine = (graph == Graph::Tfact2).then(|| Refine {
            channels: refine_channels,
            convs: [
                rng.conv(refine_channels, 11),
                rng.conv(refine_channels, refine_channels),
                rng.conv(refine_channels, refine_channels),
            ],
            c3: Conv {
                cin: refine_channels,
                cout: 3,
                weight: rng.draw(3 * refine_channels * 9, 0.0, 0.08),
                bias: rng.draw(3, 0.0, 0.05),
                slope: None,
            },
        });
        Self { name: format!("synthetic {graph} {c1}/{c2}, seed {seed}"), conv0, convblock, lastconv, film, refine }
    }
}
