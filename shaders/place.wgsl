// SPDX-License-Identifier: MIT OR Apache-2.0
// Copies a map into some channels of a larger one{% if upsample %}, at twice its size (each pixel repeated 2 × 2){% endif %}.
//
// One invocation makes four channels of one pixel.
//
// src  [in_height][in_width][{{ c4 }}] vec4, NHWC
// dst  [start + pixels][{{ to_c4 }}] vec4; groups {{ first }} to {{ first + c4 - 1 }} of the pixels from `start` on are written
{% if half %}enable f16;
{% endif %}
struct Dims {
    in_size: vec2<i32>,
    out_size: vec2<i32>,
    start: u32,
}

@group(0) @binding(0) var<uniform> dims: Dims;
@group(0) @binding(1) var<storage, read> src: array<vec4<{{ in_t }}>>;
@group(0) @binding(2) var<storage, read_write> dst: array<vec4<{{ in_t }}>>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let at = vec2<u32>(id.x / {{ c4 }}u, id.y);
    let c = id.x % {{ c4 }}u;
    if at.x >= u32(dims.out_size.x) {
        return;
    }
    let from_at = {% if upsample %}(at.y / 2u) * u32(dims.in_size.x) + at.x / 2u{% else %}at.y * u32(dims.in_size.x) + at.x{% endif %};
    let to = dims.start + at.y * u32(dims.out_size.x) + at.x;
    dst[to * {{ to_c4 }}u + {{ first }}u + c] = src[from_at * {{ c4 }}u + c];
}
