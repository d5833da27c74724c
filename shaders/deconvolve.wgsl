// SPDX-License-Identifier: MIT OR Apache-2.0
// Transposed 4×4 convolution, stride 2, padding 1, to five planes: the flows and the mask logit at twice the input's
// size.
//
// An output pixel takes 2 × 2 taps, chosen by its parity. One workgroup makes {{ pixels }} pixels of one parity (z) along a
// row; {{ split }} invocations share a pixel, each summing every {{ split }}th input channel group, and add up in workgroup memory.
//
// src      [in_height][in_width][{{ cin4 }}] vec4, NHWC
// weights  [parity][tap 2 × 2][{{ cin4 }}][5] vec4 of input channels, f32
// bias     5 floats, padded to 8
// dst      [2·in_height][2·in_width][2] vec4<f32>: (fx0, fy0, fx1, fy1), (mask logit, 0, 0, 0)
{% if half %}enable f16;
{% endif %}
struct Dims {
    in_size: vec2<i32>,
    out_size: vec2<i32>,
}

@group(0) @binding(0) var<uniform> dims: Dims;
@group(0) @binding(1) var<storage, read> src: array<vec4<{{ in_t }}>>;
@group(0) @binding(2) var<storage, read> weights: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> bias: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> dst: array<vec4<f32>>;

var<workgroup> sh_flow: array<vec4<f32>, {{ pixels * split }}>;
var<workgroup> sh_mask: array<f32, {{ pixels * split }}>;

@compute @workgroup_size({{ pixels * split }})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let part = local % {{ split }}u;
    let cell = vec2<i32>(i32(group.x * {{ pixels }}u + local / {{ split }}u), i32(group.y));
    let parity = vec2<i32>(i32(group.z & 1u), i32(group.z >> 1u));
    var flow = vec4<f32>();
    var mask = 0.0;
    for (var tap = 0; tap < 4; tap++) {
        // Even outputs take input rows y/2 and y/2 − 1, odd ones (y + 1)/2 and (y − 1)/2.
        let at = cell + parity - vec2<i32>(tap & 1, tap >> 1u);
        if all(at >= vec2<i32>(0)) && all(at < dims.in_size) {
            let from_at = u32(at.y * dims.in_size.x + at.x) * {{ cin4 }}u;
            let weight_at = (group.z * 4u + u32(tap)) * {{ cin4 * 5 }}u;
            for (var c = part; c < {{ cin4 }}u; c += {{ split }}u) {
                let x = vec4<f32>(src[from_at + c]);
                let w = weight_at + c * 5u;
                flow += vec4<f32>(
                    dot(x, weights[w]), dot(x, weights[w + 1u]), dot(x, weights[w + 2u]), dot(x, weights[w + 3u]));
                mask += dot(x, weights[w + 4u]);
            }
        }
    }
    sh_flow[local] = flow;
    sh_mask[local] = mask;
    workgroupBarrier();
    if part != 0u || cell.x >= dims.in_size.x {
        return;
    }
    for (var i = 1u; i < {{ split }}u; i++) {
        flow += sh_flow[local + i];
        mask += sh_mask[local + i];
    }
    let at = cell * 2 + parity;
    let index = u32(at.y * dims.out_size.x + at.x) * 2u;
    dst[index] = flow + bias[0];
    dst[index + 1u] = vec4<f32>(mask + bias[1].x, 0.0, 0.0, 0.0);
}
