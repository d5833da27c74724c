// SPDX-License-Identifier: MIT OR Apache-2.0
//! The detection network, stage by stage and as a whole.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gstframecast::gpu::frame::{Color, FrameLayout, PixelFormat, PlaneRef};
use gstframecast::gpu::profile::StepTime;
use gstframecast::nn::Precision;
use gstframecast::rtdetr::{Backend, Config, Detector, DetectorConfig, Fit, Preprocessor, Rect, Weights};
use serde_json::json;

use crate::Machine;

#[derive(clap::Args)]
pub struct Arguments {
    /// A checkpoint's folder; without it, made-up weights of `--variant`.
    #[arg(long)]
    model: Option<PathBuf>,
    /// `r18`, `r34`, `r50`, `r101`.
    #[arg(long, default_value = "r50")]
    variant: String,
    /// The network's input.
    #[arg(long, default_value = "640x640")]
    input: String,
    /// The frame's size.
    #[arg(long, default_value = "1280x720")]
    frame: String,
    /// `f16`, `f32`.
    #[arg(long, value_delimiter = ',', default_values_t = ["f16".to_string()])]
    precisions: Vec<String>,
    /// Times everything is measured; the shortest counts.
    #[arg(long, default_value_t = 5)]
    repeats: u32,
    /// Do not print single dispatches, only sums of their groups.
    #[arg(long)]
    summary: bool,
}

/// `config.json` of a variant as published, but for what takes its default.
fn variant(name: &str) -> Result<serde_json::Value, String> {
    let labels: BTreeMap<String, String> = (0..80).map(|i| (i.to_string(), format!("class {i}"))).collect();
    let backbone = |kind: &str, sizes: [usize; 4], depths: [usize; 4]| json!({ "model_type": "rt_detr_resnet", "layer_type": kind, "hidden_sizes": sizes, "depths": depths });
    let (basic, wide) = ([64, 128, 256, 512], [256, 512, 1024, 2048]);
    let (backbone, extra) = match name {
        "r18" => (backbone("basic", basic, [2; 4]), json!({ "hidden_expansion": 0.5, "decoder_layers": 3 })),
        "r34" => (backbone("basic", basic, [3, 4, 6, 3]), json!({ "hidden_expansion": 0.5, "decoder_layers": 4 })),
        "r50" => (backbone("bottleneck", wide, [3, 4, 6, 3]), json!({})),
        "r101" => (
            backbone("bottleneck", wide, [3, 4, 23, 3]),
            json!({ "encoder_hidden_dim": 384, "encoder_ffn_dim": 2048, "decoder_in_channels": [384, 384, 384] }),
        ),
        other => return Err(format!("unknown variant {other}")),
    };
    let mut config = json!({ "model_type": "rt_detr_v2", "id2label": labels, "backbone_config": backbone });
    if name == "r18" || name == "r34" {
        config["encoder_in_channels"] = json!([128, 256, 512]);
    }
    if let (Some(config), Some(extra)) = (config.as_object_mut(), extra.as_object()) {
        config.extend(extra.clone());
    }
    Ok(config)
}

fn size(text: &str) -> Result<(usize, usize), Box<dyn std::error::Error>> {
    let (width, height) = text.split_once('x').ok_or("sizes look like 640x640")?;
    Ok((width.parse()?, height.parse()?))
}

pub fn run(machine: &Machine, arguments: &Arguments) -> Result<serde_json::Value, Box<dyn std::error::Error>> {
    let started = Instant::now();
    let weights = match &arguments.model {
        Some(path) => Weights::load(path)?,
        None => {
            let json = serde_json::to_vec(&variant(&arguments.variant)?)?;
            Weights::synthetic(Config::from_json(&arguments.variant, &json)?)?
        }
    };
    println!("weights in {:.0} ms", started.elapsed().as_secs_f64() * 1e3);
    let weights = Arc::new(weights);
    let figures = arguments.precisions.iter().map(|precision| one(machine, arguments, &weights, precision));
    Ok(figures.collect::<Result<Vec<_>, _>>()?.into())
}

fn one(
    machine: &Machine,
    arguments: &Arguments,
    weights: &Arc<Weights>,
    precision: &str,
) -> Result<serde_json::Value, Box<dyn std::error::Error>> {
    let ((width, height), input) = (size(&arguments.frame)?, size(&arguments.input)?);
    let config = DetectorConfig {
        layout: FrameLayout::new(PixelFormat::Rgb, width as u32, height as u32, Color::default())?,
        rect: Rect::whole(width, height),
        preprocessor: Preprocessor::new(
            &weights.config,
            &weights.preprocessor,
            Some([input.0, input.1]),
            Fit::Stretch,
        )?,
        precision: if precision == "f32" { Precision::F32 } else { Precision::F16 },
    };
    let started = Instant::now();
    let mut detector = Detector::new(weights.clone(), &Backend::Gpu(machine.gpu.clone()), config)?;
    let built = started.elapsed();
    println!("## {}, input {}, frame {}, {precision}", weights.name(), arguments.input, arguments.frame);

    let pictures = [1, 2].map(|seed| {
        let pixel = |i: usize| ((i * 7 + seed * 13) ^ (i / (width * 3) * 5)) as u8;
        (0..width * height * 3).map(pixel).collect::<Vec<u8>>()
    });
    let (mut wall, mut whole) = (Duration::MAX, Duration::MAX);
    let rounds = arguments.repeats.max(2) as usize * if machine.gpu.is_cpu() { 1 } else { 20 };
    for round in 0..rounds {
        let started = Instant::now();
        let analysis = detector.analyse(&[PlaneRef { data: &pictures[round % 2], stride: width * 3 }])?;
        wall = wall.min(started.elapsed());
        whole = whole.min(analysis.gpu_time.unwrap_or(Duration::MAX));
    }

    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
    // Back-to-back dispatches hide the gaps between passes on a discrete GPU; a CPU has none worth hiding.
    let burst = if machine.gpu.is_cpu() { 1 } else { 8 };
    let mut stages = Vec::new();
    let mut groups: Vec<(String, Duration, u64, usize)> = Vec::new();
    match detector.profile(arguments.repeats, burst)? {
        None => println!("no timestamp queries on this adapter: stages cannot be told apart"),
        Some(steps) => {
            if !arguments.summary {
                println!("{:26} {:>9} {:>8} {:>8}", "stage", "GPU ms", "TFLOP/s", "of peak");
            }
            for StepTime { label, time, flops } in steps {
                let rate = if flops > 0 { machine.rate(flops as f64, time.as_secs_f64()) } else { String::new() };
                if !arguments.summary {
                    println!("{label:26} {:9.4} {rate}", milliseconds(time));
                }
                let group = label.split('.').next().unwrap_or_default();
                match groups.iter_mut().find(|(name, ..)| name == group) {
                    Some((_, sum, operations, count)) => {
                        *sum += time;
                        *operations += flops;
                        *count += 1;
                    }
                    None => groups.push((group.to_owned(), time, flops, 1)),
                }
                stages.push(json!({ "label": label, "ms": milliseconds(time), "flops": flops }));
            }
            println!("\n{:26} {:>9} {:>8} {:>8} {:>10}", "group", "GPU ms", "TFLOP/s", "of peak", "dispatches");
            for (name, time, flops, count) in &groups {
                let rate = machine.rate(*flops as f64, time.as_secs_f64());
                println!("{name:26} {:9.4} {rate} {count:10}", milliseconds(*time));
            }
            let sum: Duration = groups.iter().map(|(_, time, ..)| *time).sum();
            println!("{:26} {:9.4}", "sum", milliseconds(sum));
        }
    }
    if let Some(memory) = detector.memory() {
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        println!(
            "{} tensors of {:.1} MB in {} buffers of {:.1} MB",
            memory.tensors,
            megabytes(memory.tensor_bytes),
            memory.buffers,
            megabytes(memory.buffer_bytes)
        );
    }
    let gpu_ms = (whole != Duration::MAX).then(|| milliseconds(whole));
    println!(
        "whole frame: GPU {}, upload to candidates {:.3} ms wall; built in {:.0} ms\n",
        gpu_ms.map_or("?".into(), |ms| format!("{ms:.3} ms")),
        milliseconds(wall),
        milliseconds(built)
    );
    Ok(json!({
        "model": weights.name(), "variant": arguments.variant, "input": arguments.input, "frame": arguments.frame,
        "precision": precision, "gpu_ms": gpu_ms, "wall_ms": milliseconds(wall), "build_ms": milliseconds(built),
        "stages": stages,
    }))
}
