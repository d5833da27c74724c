// SPDX-License-Identifier: MIT OR Apache-2.0
//! The WGSL templates (Jinja syntax) and their rendering.

use minijinja::Environment;
use once_cell::sync::Lazy;

use crate::error::{Error, Result};
use crate::gpu::{Binding, Kernel};

static TEMPLATES: &[(&str, &str)] = &[
    ("add.wgsl", include_str!("../../shaders/add.wgsl")),
    ("attend.wgsl", include_str!("../../shaders/attend.wgsl")),
    ("convolve.wgsl", include_str!("../../shaders/convolve.wgsl")),
    ("convolve_matrix.wgsl", include_str!("../../shaders/convolve_matrix.wgsl")),
    ("convolve_direct.wgsl", include_str!("../../shaders/convolve_direct.wgsl")),
    ("deconvolve.wgsl", include_str!("../../shaders/deconvolve.wgsl")),
    ("deform.wgsl", include_str!("../../shaders/deform.wgsl")),
    ("gather.wgsl", include_str!("../../shaders/gather.wgsl")),
    ("guard.wgsl", include_str!("../../shaders/guard.wgsl")),
    ("modulate.wgsl", include_str!("../../shaders/modulate.wgsl")),
    ("normalize.wgsl", include_str!("../../shaders/normalize.wgsl")),
    ("pick.wgsl", include_str!("../../shaders/pick.wgsl")),
    ("place.wgsl", include_str!("../../shaders/place.wgsl")),
    ("pool.wgsl", include_str!("../../shaders/pool.wgsl")),
    ("rank.wgsl", include_str!("../../shaders/rank.wgsl")),
    ("refine.wgsl", include_str!("../../shaders/refine.wgsl")),
    ("resize_columns.wgsl", include_str!("../../shaders/resize_columns.wgsl")),
    ("resize_rows.wgsl", include_str!("../../shaders/resize_rows.wgsl")),
    ("sample.wgsl", include_str!("../../shaders/sample.wgsl")),
    ("select.wgsl", include_str!("../../shaders/select.wgsl")),
    ("warp.wgsl", include_str!("../../shaders/warp.wgsl")),
    ("shared/convolution.wgsl", include_str!("../../shaders/shared/convolution.wgsl")),
    ("shared/finish.wgsl", include_str!("../../shaders/shared/finish.wgsl")),
    ("shared/flow.wgsl", include_str!("../../shaders/shared/flow.wgsl")),
    ("shared/frames.wgsl", include_str!("../../shaders/shared/frames.wgsl")),
    ("shared/geometry.wgsl", include_str!("../../shaders/shared/geometry.wgsl")),
    ("shared/key.wgsl", include_str!("../../shaders/shared/key.wgsl")),
    ("shared/stored.wgsl", include_str!("../../shaders/shared/stored.wgsl")),
];

static ENVIRONMENT: Lazy<Result<Environment<'static>, minijinja::Error>> = Lazy::new(|| {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(minijinja::UndefinedBehavior::Strict);
    for (name, source) in TEMPLATES {
        environment.add_template(name, source)?;
    }
    Ok(environment)
});

/// Renders `template` for `values` into the kernel `label`.
pub fn kernel(template: &str, label: &str, bindings: Vec<Binding>, values: minijinja::Value) -> Result<Kernel> {
    let failed = |error: &minijinja::Error| Error::Gpu(format!("shader template {template}: {error:#}"));
    let environment = ENVIRONMENT.as_ref().map_err(failed)?;
    let wgsl = environment.get_template(template).and_then(|t| t.render(values)).map_err(|error| failed(&error))?;
    Ok(Kernel { label: label.to_owned(), template: template.to_owned(), wgsl, bindings })
}
