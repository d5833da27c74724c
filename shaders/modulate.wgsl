// SPDX-License-Identifier: MIT OR Apache-2.0
// FiLM: x' = x·(1 + scale[channel]) + shift[channel], with the timestep's scale and shift.
//
// One invocation does four channels of one pixel.
//
// src, dst  [pixels][{{ c4 }}] vec4, NHWC
// timestep      t, three floats of padding, then {{ c4 }} vec4 of scale and {{ c4 }} of shift
{% if half %}enable f16;
{% endif %}
struct Dims {
    in_size: vec2<i32>,
    out_size: vec2<i32>,
}

@group(0) @binding(0) var<uniform> dims: Dims;
@group(0) @binding(1) var<storage, read> src: array<vec4<{{ in_t }}>>;
@group(0) @binding(2) var<storage, read> timestep: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> dst: array<vec4<{{ in_t }}>>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let column = id.x;
    if column >= u32(dims.in_size.x) * {{ c4 }}u {
        return;
    }
    let index = id.y * u32(dims.in_size.x) * {{ c4 }}u + column;
    let c = column % {{ c4 }}u;
    let v = vec4<f32>(src[index]) * (1.0 + timestep[1u + c]) + timestep[{{ 1 + c4 }}u + c];
    dst[index] = vec4<{{ in_t }}>(v);
}
