// SPDX-License-Identifier: MIT OR Apache-2.0
// The sum of two tensors of the same shape.
//
// One invocation makes four values.
//
// a, b, dst  [count] vec4
{% if half %}enable f16;
{% endif %}
@group(0) @binding(0) var<uniform> count: vec4<u32>;
@group(0) @binding(1) var<storage, read> a: array<vec4<{{ a_t }}>>;
@group(0) @binding(2) var<storage, read> b: array<vec4<{{ b_t }}>>;
@group(0) @binding(3) var<storage, read_write> dst: array<vec4<{{ out_t }}>>;

{% include "shared/stored.wgsl" %}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let index = id.y * groups.x * 64u + id.x;
    if index < count.x {
        dst[index] = stored(vec4<f32>(a[index]) + vec4<f32>(b[index]));
    }
}
