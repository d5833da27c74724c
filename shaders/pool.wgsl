// SPDX-License-Identifier: MIT OR Apache-2.0
// {% if kind == "max" %}Maximum of 3×3, stride 2, padding 1 of −∞{% else %}Mean of 2×2, stride 2, over the pixels that exist{% endif %}; the output is half the input's size, rounded up.
//
// One invocation makes four channels of one pixel.
//
// src  [in_height][in_width][{{ c4 }}] vec4, NHWC
// dst  [out_height][out_width][{{ c4 }}] vec4
{% if half %}enable f16;
{% endif %}
struct Dims {
    in_size: vec2<i32>,
    out_size: vec2<i32>,
}

@group(0) @binding(0) var<uniform> dims: Dims;
@group(0) @binding(1) var<storage, read> src: array<vec4<{{ in_t }}>>;
@group(0) @binding(2) var<storage, read_write> dst: array<vec4<{{ in_t }}>>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let x = i32(id.x / {{ c4 }}u);
    let y = i32(id.y);
    if x >= dims.out_size.x {
        return;
    }
    let c = id.x % {{ c4 }}u;
{%- if kind == "max" %}
    let first = max(vec2<i32>(x, y) * 2 - 1, vec2<i32>());
    let last = min(vec2<i32>(x, y) * 2 + 1, dims.in_size - 1);
    var v = vec4<{{ in_t }}>(src[u32(first.y * dims.in_size.x + first.x) * {{ c4 }}u + c]);
{%- else %}
    let first = vec2<i32>(x, y) * 2;
    let last = min(first + 1, dims.in_size - 1);
    var v = vec4<f32>();
{%- endif %}
    for (var sy = first.y; sy <= last.y; sy++) {
        for (var sx = first.x; sx <= last.x; sx++) {
            let s = src[u32(sy * dims.in_size.x + sx) * {{ c4 }}u + c];
{%- if kind == "max" %}
            v = max(v, s);
{%- else %}
            v += vec4<f32>(s);
{%- endif %}
        }
    }
{%- if kind == "mean" %}
    let count = (last - first) + 1;
    v /= f32(count.x * count.y);
{%- endif %}
    dst[id.y * u32(dims.out_size.x) * {{ c4 }}u + id.x] = vec4<{{ in_t }}>(v);
}
