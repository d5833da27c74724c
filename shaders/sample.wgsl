// SPDX-License-Identifier: MIT OR Apache-2.0
// The network's input: both frames sampled bilinearly at a quarter of the grid, as B,G,R of 0..1.
//
// One invocation makes one pixel.
//
// frame0, frame1  raw frames (shared/frames.wgsl)
// timestep            t in the first float
// dst             [grid/4][2] vec4, NHWC: B0 G0 R0 B1, G1 R1 {{ "t" if with_timestep else "0" }} 0
{% if half %}enable f16;
{% endif %}
{% include "shared/geometry.wgsl" %}

@group(0) @binding(0) var<uniform> geometry: Geometry;
@group(0) @binding(1) var<storage, read> frame0: array<u32>;
@group(0) @binding(2) var<storage, read> frame1: array<u32>;
@group(0) @binding(3) var<storage, read> timestep: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> dst: array<vec4<{{ out_t }}>>;

{% include "shared/frames.wgsl" %}

@compute @workgroup_size(8, 8)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let size = vec2<u32>(geometry.grid / 4);
    if any(id.xy >= size) {
        return;
    }
    let at = (vec2<f32>(id.xy) + 0.5) * geometry.sample_ratio - 0.5;
    let a = source0_bgr(at);
    let b = source1_bgr(at);
    let index = (id.y * size.x + id.x) * 2u;
    dst[index] = vec4<{{ out_t }}>(vec4<f32>(a, b.x));
    dst[index + 1u] = vec4<{{ out_t }}>(vec4<f32>(b.yz, {{ "timestep[0].x" if with_timestep else "0.0" }}, 0.0));
}
