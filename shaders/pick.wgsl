// SPDX-License-Identifier: MIT OR Apache-2.0
// Rows of a tensor by their indices.
//
// One invocation makes four channels of one row.
//
// indices  [rows] u32
// src      [tokens][{{ c4 }}] vec4
// dst      [rows][{{ c4 }}] vec4
{% if half %}enable f16;
{% endif %}
@group(0) @binding(0) var<uniform> count: vec4<u32>;
@group(0) @binding(1) var<storage, read> indices: array<u32>;
@group(0) @binding(2) var<storage, read> src: array<vec4<{{ in_t }}>>;
@group(0) @binding(3) var<storage, read_write> dst: array<vec4<{{ out_t }}>>;

{% include "shared/stored.wgsl" %}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let index = id.y * groups.x * 64u + id.x;
    if index < count.x * {{ c4 }}u {
        dst[index] = stored(vec4<f32>(src[indices[index / {{ c4 }}u] * {{ c4 }}u + index % {{ c4 }}u]));
    }
}
