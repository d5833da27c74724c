// SPDX-License-Identifier: MIT OR Apache-2.0
// The refine head's input at a quarter of the grid: the warped frames, the mask and the flows, each the mean over the
// centre 2×2 of its 4×4 grid pixels; flows further scaled by 0.25/20.
//
// One invocation makes one pixel.
//
// frame0, frame1  raw frames (shared/frames.wgsl)
// answer          the network's answer (shared/flow.wgsl)
// dst             [grid/4][3] vec4, NHWC: B0 G0 R0 B1, G1 R1 mask fx0, fy0 fx1 fy1 0
{% if half %}enable f16;
{% endif %}
{% include "shared/geometry.wgsl" %}

@group(0) @binding(0) var<uniform> geometry: Geometry;
@group(0) @binding(1) var<storage, read> frame0: array<u32>;
@group(0) @binding(2) var<storage, read> frame1: array<u32>;
@group(0) @binding(3) var<storage, read> answer: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> dst: array<vec4<{{ out_t }}>>;

{% include "shared/frames.wgsl" %}
{% include "shared/flow.wgsl" %}

@compute @workgroup_size(8, 8)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let size = vec2<u32>(geometry.grid / 4);
    if any(id.xy >= size) {
        return;
    }
    var first = vec3<f32>();
    var second = vec3<f32>();
    var mask = 0.0;
    var flow = vec4<f32>();
    for (var i = 0u; i < 4u; i++) {
        let at = vec2<f32>(id.xy * 4u + 1u + vec2<u32>(i & 1u, i >> 1u));
        let here = flow_at(at);
        let image_at = (at + 0.5) / geometry.grid_scale - 0.5;
        first += sample0_bgr(image_at + here.flow.xy / geometry.grid_scale);
        second += sample1_bgr(image_at + here.flow.zw / geometry.grid_scale);
        mask += here.mask;
        flow += here.flow;
    }
    first *= 0.25;
    second *= 0.25;
    flow *= 0.25 * (0.25 / 20.0);
    let index = (id.y * size.x + id.x) * 3u;
    dst[index] = vec4<{{ out_t }}>(vec4<f32>(first, second.x));
    dst[index + 1u] = vec4<{{ out_t }}>(vec4<f32>(second.yz, mask * 0.25, flow.x));
    dst[index + 2u] = vec4<{{ out_t }}>(vec4<f32>(flow.yzw, 0.0));
}
