// SPDX-License-Identifier: MIT OR Apache-2.0
//! Weights from a seed, for tests and benchmarks: any graph at any width, without a file.

use super::weights::{BLOCKS, Conv, ConvTranspose, Film, Graph, Refine, Weights};

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

/// The splitmix64 generator (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
struct SplitMix64(u64);

impl SplitMix64 {
    /// The next value of 0..1: the upper 53 bits.
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
        (z >> 11) as f64 / (1u64 << 53) as f64
    }

    /// `count` values `centre + uni(amplitude)`, computed in float64 and rounded once.
    fn draw(&mut self, count: usize, centre: f64, amplitude: f64) -> Vec<f32> {
        (0..count).map(|_| (centre + (2.0 * self.unit() - 1.0) * amplitude) as f32).collect()
    }

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
