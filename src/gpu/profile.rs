// SPDX-License-Identifier: MIT OR Apache-2.0
//! GPU time of every dispatch of a plan, by timestamp queries.

use std::time::{Duration, Instant};

use super::plan::{Context, Plan};
use super::transfer::Readback;
use crate::error::Result;

/// How long the GPU is kept busy at least, so that its clocks are up.
const WARM_UP: Duration = Duration::from_millis(30);

/// GPU time of one dispatch.
#[derive(Debug, Clone)]
pub struct StepTime {
    pub label: String,
    pub time: Duration,
    /// Multiplications and additions of the dispatch; 0 where they are not what it is about.
    pub flops: u64,
}

/// Runs each step of `plan` at least `repeats` times, each time `burst` dispatches back to back between two timestamps, and
/// returns each step's shortest time for one dispatch. `None` where the adapter has no timestamps.
pub fn profile(context: &Context, plan: &Plan, pair: usize, repeats: u32, burst: u32) -> Result<Option<Vec<StepTime>>> {
    let gpu = &context.gpu;
    let count = plan.len() as u32 * 2;
    if !gpu.has_timestamps() {
        return Ok(None);
    }
    if count == 0 {
        return Ok(Some(Vec::new()));
    }
    gpu.scoped(|| {
        let queries = gpu.device().create_query_set(&wgpu::QuerySetDescriptor {
            label: Some("profile"),
            ty: wgpu::QueryType::Timestamp,
            count,
        });
        context.created();
        let bytes = u64::from(count) * 8;
        let usage = wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC;
        let resolved = context.buffer("profile", bytes, usage);
        let readback = Readback::new(context, "profile", bytes);
        let tick = f64::from(gpu.queue().get_timestamp_period());
        let mut best = vec![f64::INFINITY; plan.len()];
        // Idle GPUs clock down by several times; without this the first figures measure the ramp.
        let started = Instant::now();
        let mut rounds = 0;
        while rounds < repeats || (!gpu.is_cpu() && started.elapsed() < WARM_UP) {
            let mut encoder = gpu.device().create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
            for step in 0..plan.len() {
                let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor {
                    label: Some("profile"),
                    timestamp_writes: Some(wgpu::ComputePassTimestampWrites {
                        query_set: &queries,
                        beginning_of_pass_write_index: Some(step as u32 * 2),
                        end_of_pass_write_index: Some(step as u32 * 2 + 1),
                    }),
                });
                for _ in 0..burst {
                    plan.record_step(&mut pass, step, pair);
                }
            }
            encoder.resolve_query_set(&queries, 0..count, &resolved, 0);
            readback.record(&mut encoder, &resolved, 0, bytes);
            readback.map_on_submit(&encoder);
            let submission = gpu.queue().submit([encoder.finish()]);
            let ticks: Vec<u64> = readback.read(&submission, bytemuck::pod_collect_to_vec)?;
            for (best, ticks) in best.iter_mut().zip(ticks.as_chunks::<2>().0) {
                *best = best.min(ticks[1].saturating_sub(ticks[0]) as f64 * tick / f64::from(burst));
            }
            rounds += 1;
        }
        let times = best.into_iter().enumerate().map(|(step, nanoseconds)| StepTime {
            label: plan.label(step).to_owned(),
            time: Duration::from_nanos(nanoseconds as u64),
            flops: plan.flops(step),
        });
        Ok(Some(times.collect()))
    })
}
