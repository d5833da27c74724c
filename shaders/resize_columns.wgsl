// SPDX-License-Identifier: MIT OR Apache-2.0
// The network's input: a picture's columns resized to another height, the second pass of Pillow's antialiased bilinear
// resize, placed on the canvas and turned into values.
//
// One invocation makes one pixel of the canvas. Each reads {{ taps }} pixels, weighted in units of 2⁻²², and rounds to 8 bits.
//
// src   [rows][width] u32 (resize_rows.wgsl)
// taps  [height][1 + {{ taps }}] i32: the first row, then the weights
// dst   [canvas][1] vec4, NHWC: R, G, B, 0
{% if half %}enable f16;
{% endif %}
struct Canvas {
    scale: vec4<f32>,   // value = code·scale + shift
    shift: vec4<f32>,
    fill: vec4<f32>,    // around the picture
    size: vec2<u32>,
    start: vec2<u32>,   // of the picture
    picture: vec2<u32>,
    rows: u32,          // of src
}

@group(0) @binding(0) var<uniform> canvas: Canvas;
@group(0) @binding(1) var<storage, read> src: array<u32>;
@group(0) @binding(2) var<storage, read> taps: array<i32>;
@group(0) @binding(3) var<storage, read_write> dst: array<vec4<{{ out_t }}>>;

{% include "shared/stored.wgsl" %}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= canvas.size.x {
        return;
    }
    // What lies left of or above the picture wraps to a large number.
    let p = id.xy - canvas.start;
    var value = canvas.fill;
    if all(p < canvas.picture) {
        let at = p.y * {{ taps + 1 }}u;
        let first = u32(taps[at]);
        var sum = vec3<i32>({{ half_unit }});
        for (var i = 0u; i < {{ taps }}u; i++) {
            // Weights beyond the last row are zero.
            let word = src[min(first + i, canvas.rows - 1u) * canvas.picture.x + p.x];
            sum += taps[at + 1u + i] * vec3<i32>((vec3<u32>(word) >> vec3<u32>(0u, 8u, 16u)) & vec3<u32>(255u));
        }
        let code = clamp(sum >> vec3<u32>({{ precision }}u), vec3<i32>(), vec3<i32>(255));
        value = vec4<f32>(vec3<f32>(code), 0.0) * canvas.scale + canvas.shift;
    }
    dst[id.y * canvas.size.x + id.x] = stored(value);
}
