// SPDX-License-Identifier: MIT OR Apache-2.0
//! The f32 rate the adapter reaches when it does nothing but multiply and add.

use std::sync::Arc;

use gstframecast::gpu::profile::profile;
use gstframecast::gpu::{Binding, Context, Gpu, Kernel, PlanBuilder, Vary};

/// Operations an invocation of peak.wgsl does.
const OPERATIONS: u64 = 2 * 16 * 4 * 256;

/// Operations a second; `None` without timestamps.
pub fn measure(gpu: &Arc<Gpu>) -> gstframecast::Result<Option<f64>> {
    let context = Context::new(gpu.clone());
    let workgroups = if gpu.is_cpu() { 16 } else { 8192 };
    let plan = gpu.scoped(|| {
        let dst = context.storage("peak", 16);
        let kernel = Kernel {
            label: "peak".into(),
            template: "peak.wgsl".into(),
            wgsl: include_str!("peak.wgsl").into(),
            bindings: vec![Binding::Write],
        };
        let mut plan = PlanBuilder::new(&context);
        plan.step(kernel, [workgroups, 1, 1], Vary::None, |_| vec![dst.clone()]);
        plan.flops(OPERATIONS * 256 * u64::from(workgroups));
        plan.build()
    })?;
    let times = profile(&context, &plan, 0, 8, 4)?;
    Ok(times.and_then(|t| t.first().map(|t| t.flops as f64 / t.time.as_secs_f64())))
}
