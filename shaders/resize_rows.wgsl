// SPDX-License-Identifier: MIT OR Apache-2.0
// A part of a raw frame as 8-bit R,G,B, every row resized to another width: the first pass of Pillow's antialiased
// bilinear resize.
//
// One invocation makes one pixel. Each reads {{ taps }} pixels, weighted in units of 2⁻²², and rounds to 8 bits.
//
// frame0  a raw frame (shared/frames.wgsl)
// taps    [width][1 + {{ taps }}] i32: the first pixel, then the weights
// dst     [rows][width] u32: R, G, B from the lowest byte up
{% include "shared/geometry.wgsl" %}
struct Part {
    start: vec2<u32>,  // of the part in the frame
    size: vec2<u32>,   // of the part
    width: u32,        // of the result
}

@group(0) @binding(0) var<uniform> geometry: Geometry;
@group(0) @binding(1) var<uniform> part: Part;
@group(0) @binding(2) var<storage, read> frame0: array<u32>;
@group(0) @binding(3) var<storage, read> taps: array<i32>;
@group(0) @binding(4) var<storage, read_write> dst: array<u32>;

{% include "shared/frames.wgsl" %}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= part.width {
        return;
    }
    let at = id.x * {{ taps + 1 }}u;
    let first = taps[at];
    let last = i32(part.size.x) - 1;
    var sum = vec3<i32>({{ half_unit }});
    for (var i = 0; i < {{ taps }}; i++) {
        // Weights beyond the last pixel are zero.
        let x = min(first + i, last);
        let bgr = source0_bgr(vec2<f32>(vec2<i32>(part.start) + vec2<i32>(x, i32(id.y))));
        let code = vec3<i32>(floor(clamp(bgr.zyx, vec3<f32>(), vec3<f32>(1.0)) * 255.0 + 0.5));
        sum += taps[at + 1u + u32(i)] * code;
    }
    let code = vec3<u32>(clamp(sum >> vec3<u32>({{ precision }}u), vec3<i32>(), vec3<i32>(255)));
    dst[id.y * part.width + id.x] = code.x | (code.y << 8u) | (code.z << 16u);
}
