// SPDX-License-Identifier: MIT OR Apache-2.0
{%- if anchors %}
// The first boxes: sigmoid(delta + anchor), with the anchors of the chosen tokens as logits.
{%- else %}
// Refined boxes: sigmoid(delta + ln(max(v, 1e-5) / max(1 − v, 1e-5))) of a box's values v, clamped to 0..1.
{%- endif %}
//
// One invocation does one box.
//
// deltas   [queries] vec4
// base     [{{ "tokens" if anchors else "queries" }}] vec4<f32>
// dst      [queries] vec4<f32>
{%- if anchors %}
// indices  [queries] u32
{%- endif %}
{% if half %}enable f16;
{% endif %}
@group(0) @binding(0) var<uniform> count: vec4<u32>;
@group(0) @binding(1) var<storage, read> deltas: array<vec4<{{ in_t }}>>;
@group(0) @binding(2) var<storage, read> base: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> dst: array<vec4<f32>>;
{%- if anchors %}
@group(0) @binding(4) var<storage, read> indices: array<u32>;
{%- endif %}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= count.x {
        return;
    }
{%- if anchors %}
    let start = base[indices[id.x]];
{%- else %}
    let v = clamp(base[id.x], vec4<f32>(), vec4<f32>(1.0));
    let start = log(max(v, vec4<f32>(1e-5)) / max(1.0 - v, vec4<f32>(1e-5)));
{%- endif %}
    dst[id.x] = 1.0 / (1.0 + exp(-(vec4<f32>(deltas[id.x]) + start)));
}
