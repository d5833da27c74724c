// SPDX-License-Identifier: MIT OR Apache-2.0
// The static guard: how still each pixel is between the two frames, 1 = hold, 0 = leave to the network.
//
// One workgroup does 16 × 16 pixels from the 18 × 18 differences around them.
//
// frame0, frame1  raw frames (shared/frames.wgsl)
// dst             [image] f32
{% include "shared/geometry.wgsl" %}

@group(0) @binding(0) var<uniform> geometry: Geometry;
@group(0) @binding(1) var<storage, read> frame0: array<u32>;
@group(0) @binding(2) var<storage, read> frame1: array<u32>;
@group(0) @binding(3) var<storage, read_write> dst: array<f32>;

{% include "shared/frames.wgsl" %}

var<workgroup> sh_difference: array<f32, 324>;

@compute @workgroup_size(16, 16)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_id) id: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let tile = vec2<i32>(group.xy) * 16;
    for (var i = local; i < 324u; i += 256u) {
        let at = clamp(tile + vec2<i32>(i32(i % 18u), i32(i / 18u)) - 1, vec2<i32>(), geometry.image - 1);
        let d = abs(sample0_bgr(vec2<f32>(at)) - sample1_bgr(vec2<f32>(at)));
        sh_difference[i] = max(d.x, max(d.y, d.z));
    }
    workgroupBarrier();
    let at = tile + vec2<i32>(id.xy);
    if any(at >= geometry.image) {
        return;
    }
    var sum = 0.0;
    for (var y = 0u; y < 3u; y++) {
        for (var x = 0u; x < 3u; x++) {
            sum += sh_difference[(id.y + y) * 18u + id.x + x];
        }
    }
    var still = 1.0 - smoothstep(0.03, 0.09, sum / 9.0);
{%- if strict %}
    still = max(still, 1.0 - smoothstep(1.0 / 255.0, 3.0 / 255.0, sh_difference[(id.y + 1u) * 18u + id.x + 1u]));
{%- endif %}
    dst[at.y * geometry.image.x + at.x] = still;
}
