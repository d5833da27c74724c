// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures kernels and networks on this machine's GPU and prints tables; `--json FILE` keeps the figures.
//!
//! `cargo run --release --example bench -- ifnet` times every stage of the interpolation network,
//! `... -- rtdetr` every stage of the detection network, `... -- convolve` every tile of one convolution. Results and
//! what was learned from them: README.md beside this file.

mod convolve;
mod ifnet;
mod peak;
mod rtdetr;

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Parser, Subcommand};
use gstframecast::gpu::Gpu;

#[derive(Parser)]
#[command(about = "Measures framecast's kernels on this machine's GPU")]
struct Arguments {
    /// Adapter: an index or a part of its name.
    #[arg(long, global = true)]
    adapter: Option<String>,
    /// Write the figures to this file.
    #[arg(long, global = true)]
    json: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Every stage of the interpolation network.
    Ifnet(ifnet::Arguments),
    /// Every stage of the detection network.
    Rtdetr(rtdetr::Arguments),
    /// Every tile of one convolution.
    Convolve(convolve::Arguments),
    /// The adapters there are.
    Gpus,
}

/// What the figures of one run were measured on.
struct Machine {
    gpu: Arc<Gpu>,
    /// f32 multiply-adds, operations a second; `None` without timestamps.
    peak_flops: Option<f64>,
}

impl Machine {
    /// `12.3 TFLOP/s, 45 %` of `flops` in `seconds`.
    fn rate(&self, flops: f64, seconds: f64) -> String {
        let rate = flops / seconds;
        let share = self.peak_flops.map_or_else(String::new, |peak| format!("{:6.1} %", 100.0 * rate / peak));
        format!("{:8.3} {share}", rate / 1e12)
    }

    fn json(&self) -> serde_json::Value {
        let info = self.gpu.info();
        serde_json::json!({
            "adapter": info.name, "driver": info.driver, "driver_info": info.driver_info,
            "backend": info.backend.to_string(), "peak_f32_flops": self.peak_flops,
        })
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments = Arguments::parse();
    if let Command::Gpus = arguments.command {
        for adapter in gstframecast::gpu::adapters()? {
            println!("{adapter}");
        }
        return Ok(());
    }
    let gpu = Gpu::shared(arguments.adapter.as_deref())?;
    println!("{} ({} {})", gpu.info().name, gpu.info().driver, gpu.info().driver_info);
    for shape in gpu.cooperative_matrices() {
        println!("cooperative matrix {shape:?}");
    }
    let machine = Machine { peak_flops: peak::measure(&gpu)?, gpu };
    match machine.peak_flops {
        Some(peak) => println!("f32 peak measured: {:.2} TFLOP/s\n", peak / 1e12),
        None => println!("no timestamp queries: only wall-clock times below\n"),
    }
    let figures = match &arguments.command {
        Command::Ifnet(ifnet) => ifnet::run(&machine, ifnet)?,
        Command::Rtdetr(rtdetr) => rtdetr::run(&machine, rtdetr)?,
        Command::Convolve(convolve) => convolve::run(&machine, convolve)?,
        Command::Gpus => serde_json::Value::Null,
    };
    if let Some(path) = arguments.json {
        let report = serde_json::json!({ "machine": machine.json(), "figures": figures });
        std::fs::write(&path, serde_json::to_vec_pretty(&report)?)?;
        println!("figures written to {}", path.display());
    }
    Ok(())
}
