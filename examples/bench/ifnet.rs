// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interpolation network, stage by stage and as a whole.

use std::time::{Duration, Instant};

use gstframecast::gpu::frame::{Color, FrameLayout, PixelFormat, PlaneMut, PlaneRef};
use gstframecast::gpu::profile::StepTime;
use gstframecast::ifnet::synthetic::GeneratorShape;
use gstframecast::ifnet::{Config, FrameId, Graph, Interpolator, Precision, StaticGuard, Weights};
use serde_json::json;

use crate::Machine;

#[derive(clap::Args)]
pub struct Arguments {
    /// Frame sizes.
    #[arg(long, value_delimiter = ',', default_values_t = ["640x368".to_string(), "1280x720".into(), "1920x1088".into()])]
    sizes: Vec<String>,
    /// `builtin`, or the synthetic weights `full` (classic, 120/240), `slim` (classic, 60/120).
    #[arg(long, value_delimiter = ',', default_values_t = ["full".to_string(), "slim".into(), "builtin".into()])]
    models: Vec<String>,
    /// `f16`, `f32`.
    #[arg(long, value_delimiter = ',', default_values_t = ["f16".to_string()])]
    precisions: Vec<String>,
    /// `rgba`, `nv12`, `i420`.
    #[arg(long, default_value = "rgba")]
    format: String,
    /// Hold still areas still.
    #[arg(long)]
    guard: bool,
    /// Times everything is measured; the shortest counts.
    #[arg(long, default_value_t = 5)]
    repeats: u32,
    /// Do not print single stages.
    #[arg(long)]
    summary: bool,
}

fn weights(model: &str) -> Result<Weights, Box<dyn std::error::Error>> {
    let classic = |c1, c2| GeneratorShape { graph: Graph::Classic, c1, c2, film_hidden: 0, refine_channels: 0 };
    Ok(match model {
        "builtin" => Weights::builtin()?,
        "full" => Weights::synthetic(1, classic(120, 240)),
        "slim" => Weights::synthetic(1, classic(60, 120)),
        other => return Err(format!("unknown model {other}").into()),
    })
}

struct Planes {
    data: Vec<Vec<u8>>,
    strides: Vec<usize>,
}

impl Planes {
    /// A textured picture that differs with `seed`.
    fn new(layout: &FrameLayout, seed: usize) -> Self {
        let extents: Vec<_> = (0..layout.plane_count()).map(|i| layout.plane_extent(i)).collect();
        let fill = |(rows, bytes): (u32, u32)| {
            let pixel = |i: usize| ((i * 7 + seed * 13) ^ (i / bytes as usize * 5)) as u8;
            (0..rows as usize * bytes as usize).map(pixel).collect()
        };
        let strides = extents.iter().map(|&(_, bytes)| bytes as usize).collect();
        Self { data: extents.into_iter().map(fill).collect(), strides }
    }

    fn refs(&self) -> Vec<PlaneRef<'_>> {
        self.data.iter().zip(&self.strides).map(|(data, &stride)| PlaneRef { data, stride }).collect()
    }

    fn muts(&mut self) -> Vec<PlaneMut<'_>> {
        self.data.iter_mut().zip(&self.strides).map(|(data, &stride)| PlaneMut { data, stride }).collect()
    }
}

pub fn run(machine: &Machine, arguments: &Arguments) -> Result<serde_json::Value, Box<dyn std::error::Error>> {
    let mut figures = Vec::new();
    for model in &arguments.models {
        let weights = weights(model)?;
        for size in &arguments.sizes {
            let (width, height) = size.split_once('x').ok_or("sizes look like 1280x720")?;
            let (width, height) = (width.parse()?, height.parse()?);
            for precision in &arguments.precisions {
                figures.push(one(machine, arguments, model, &weights, (width, height), precision)?);
            }
        }
    }
    Ok(figures.into())
}

fn one(
    machine: &Machine,
    arguments: &Arguments,
    model: &str,
    weights: &Weights,
    (width, height): (u32, u32),
    precision: &str,
) -> Result<serde_json::Value, Box<dyn std::error::Error>> {
    let format = match arguments.format.as_str() {
        "rgba" => PixelFormat::Rgba,
        "nv12" => PixelFormat::Nv12,
        "i420" => PixelFormat::I420,
        other => return Err(format!("unknown format {other}").into()),
    };
    let layout = FrameLayout::new(format, width, height, Color::default())?;
    let config = Config {
        precision: if precision == "f32" { Precision::F32 } else { Precision::F16 },
        static_guard: if arguments.guard { StaticGuard::Soft } else { StaticGuard::Off },
        ..Config::new(layout.clone())
    };
    let started = Instant::now();
    let mut interpolator = Interpolator::new(machine.gpu.clone(), weights, config)?;
    let built = started.elapsed();
    println!("## {model} ({}), {width}x{height} {}, {precision}", weights.graph(), arguments.format);

    let sources = [Planes::new(&layout, 1), Planes::new(&layout, 2)];
    let mut made = Planes::new(&layout, 0);
    let mut ids = [FrameId::next(), FrameId::next()];
    for (id, source) in ids.iter().zip(&sources) {
        interpolator.upload(*id, &source.refs())?;
    }
    interpolator.set_pair(ids[0], ids[1])?;
    let mut tickets = Vec::new();

    // The whole frame: a new frame comes in, a pair is run for one timestep, the made frame is read.
    let mut whole = Duration::MAX;
    let mut wall = Duration::MAX;
    for round in 0..arguments.repeats.max(2) as usize * if machine.gpu.is_cpu() { 1 } else { 8 } {
        let started = Instant::now();
        ids = [ids[1], FrameId::next()];
        interpolator.upload(ids[1], &sources[round % 2].refs())?;
        interpolator.set_pair(ids[0], ids[1])?;
        tickets.clear();
        interpolator.submit(&[0.5], &mut tickets)?;
        interpolator.read(tickets[0], &mut made.muts())?;
        wall = wall.min(started.elapsed());
        whole = whole.min(interpolator.last_gpu_time().unwrap_or(Duration::MAX));
    }

    // Back-to-back dispatches hide the gaps between passes on a discrete GPU; a CPU has none worth hiding.
    let burst = if machine.gpu.is_cpu() { 1 } else { 8 };
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
    let mut stages = Vec::new();
    if let Some([trunk, head]) = interpolator.profile(arguments.repeats, burst)? {
        let rows = trunk.iter().map(|s| ("pair", s)).chain(head.iter().map(|s| ("frame", s)));
        if !arguments.summary {
            println!("{:14} {:6} {:>9} {:>8} {:>8}", "stage", "once a", "GPU ms", "TFLOP/s", "of peak");
        }
        for (once, StepTime { label, time, flops }) in rows {
            let rate = if *flops > 0 { machine.rate(*flops as f64, time.as_secs_f64()) } else { String::new() };
            if !arguments.summary {
                println!("{label:14} {once:6} {:9.4} {rate}", milliseconds(*time));
            }
            stages.push(json!({ "label": label, "once_a": once, "ms": milliseconds(*time), "flops": flops }));
        }
    } else {
        println!("no timestamp queries on this adapter: stages cannot be told apart");
    }
    let gpu_ms = (whole != Duration::MAX).then(|| milliseconds(whole));
    println!(
        "whole frame: GPU {}, upload + GPU + readback {:.3} ms wall; built in {:.0} ms\n",
        gpu_ms.map_or("?".into(), |ms| format!("{ms:.3} ms")),
        milliseconds(wall),
        milliseconds(built)
    );
    Ok(json!({
        "model": model, "graph": weights.graph().as_str(), "width": width, "height": height, "precision": precision,
        "format": arguments.format, "gpu_ms": gpu_ms, "wall_ms": milliseconds(wall), "build_ms": milliseconds(built),
        "stages": stages,
    }))
}
