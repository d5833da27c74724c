// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every tile of one convolution, fastest first.

use gstframecast::gpu::profile::profile;
use gstframecast::gpu::{Context, PlanBuilder};
use gstframecast::nn::Storage;
use gstframecast::nn::convolve::{Activation, Convolution, ConvolutionWeights};
use gstframecast::nn::frames::tensor_bytes;
use serde_json::json;

use crate::Machine;

#[derive(clap::Args)]
pub struct Arguments {
    /// Shapes: CINxCOUT/STRIDE@WIDTHxHEIGHT of the input.
    #[arg(long, value_delimiter = ',', default_values_t = [
        "240x240/1@80x45".to_string(), "120x240/2@160x90".into(), "7x120/2@320x180".into(), "120x120/1@80x45".into(),
        "16x16/1@320x180".into(),
    ])]
    shapes: Vec<String>,
    /// `f16` or `f32`.
    #[arg(long, default_value = "f16")]
    storage: String,
    /// Tiles to print for each shape.
    #[arg(long, default_value_t = 8)]
    top: usize,
}

fn parse(shape: &str) -> Option<(usize, usize, u32, (u32, u32))> {
    let (channels, size) = shape.split_once('@')?;
    let (channels, stride) = channels.split_once('/')?;
    let (cin, cout) = channels.split_once('x')?;
    let (width, height) = size.split_once('x')?;
    Some((cin.parse().ok()?, cout.parse().ok()?, stride.parse().ok()?, (width.parse().ok()?, height.parse().ok()?)))
}

pub fn run(machine: &Machine, arguments: &Arguments) -> Result<serde_json::Value, Box<dyn std::error::Error>> {
    let storage = if arguments.storage == "f32" { Storage::F32 } else { Storage::F16 };
    let context = Context::new(machine.gpu.clone());
    let mut figures = Vec::new();
    for text in &arguments.shapes {
        let (cin, cout, stride, size) = parse(text).ok_or("shapes look like 240x240/1@80x45")?;
        let spec = Convolution { stride, activation: Activation::Prelu, ..Convolution::new(cin, cout, 3, storage) };
        let mut noise = 1u32;
        let mut random = |scale: f32| {
            noise = noise.wrapping_mul(1664525).wrapping_add(1013904223);
            ((noise >> 8) as f32 / 8388608.0 - 1.0) * scale
        };
        let weight: Vec<f32> = (0..cout * cin * 9).map(|_| random(0.05)).collect();
        let bias: Vec<f32> = (0..cout).map(|_| random(0.1)).collect();
        let weights = ConvolutionWeights { weight: &weight, bias: &bias, slope: &bias };
        let input_values = tensor_bytes(size, cin, Storage::F32) / 4;
        let input: Vec<f32> = (0..input_values).map(|_| random(1.0)).collect();

        let mut results = Vec::new();
        for tile in spec.candidates(&machine.gpu) {
            let plan = machine.gpu.scoped(|| {
                let src = context.constant("src", &storage.encode(&input), wgpu::BufferUsages::STORAGE);
                let dst = context.storage("dst", tensor_bytes(spec.output_size(size), cout, storage));
                let constants = spec.upload(&context, "weights", &tile, weights);
                let mut plan = PlanBuilder::new(&context);
                spec.step(&mut plan, "convolve", &tile, &constants, size, &src, &dst, None)?;
                plan.build()
            })?;
            let burst = if machine.gpu.is_cpu() { 1 } else { 10 };
            let times = profile(&context, &plan, 0, 3, burst)?.ok_or("this adapter has no timestamp queries")?;
            results.push((times[0].time, times[0].flops, tile));
        }
        results.sort_by_key(|(time, ..)| *time);
        println!("## {text}, {}: {} tiles", arguments.storage, results.len());
        let default = spec.default_tile(&context, spec.output_size(size))?;
        for (rank, (time, flops, tile)) in results.iter().enumerate() {
            if rank < arguments.top || *tile == default {
                let mark = if *tile == default { " <- default" } else { "" };
                let rate = machine.rate(*flops as f64, time.as_secs_f64());
                println!("{:4} {:9.4} ms {rate} {tile:?}{mark}", rank + 1, time.as_secs_f64() * 1e3);
            }
            figures.push(json!({
                "shape": text, "tile": format!("{tile:?}"), "ms": time.as_secs_f64() * 1e3, "flops": flops,
            }));
        }
        println!();
    }
    Ok(figures.into())
}
