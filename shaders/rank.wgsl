// SPDX-License-Identifier: MIT OR Apache-2.0
// The largest of each token's {{ classes }} logits, NaN aside (−∞ where there is nothing else), as a key in their order.
//
// One invocation does one token.
//
// logits  [tokens][{{ c4 }}] vec4
// keys    [tokens] u32
{% if half %}enable f16;
{% endif %}
@group(0) @binding(0) var<uniform> count: vec4<u32>;
@group(0) @binding(1) var<storage, read> logits: array<vec4<{{ in_t }}>>;
@group(0) @binding(2) var<storage, read_write> keys: array<u32>;

{% include "shared/key.wgsl" %}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let token = id.y * groups.x * 64u + id.x;
    if token >= count.x {
        return;
    }
    var best = 0x007fffffu;  // of −∞
    for (var c = 0u; c < {{ classes // 4 }}u; c++) {
        let v = vec4<f32>(logits[token * {{ c4 }}u + c]);
        best = max(best, max(max(key(v.x), key(v.y)), max(key(v.z), key(v.w))));
    }
{%- if classes % 4 %}
    let tail = vec4<f32>(logits[token * {{ c4 }}u + {{ c4 - 1 }}u]);
{%- for i in range(classes % 4) %}
    best = max(best, key(tail[{{ i }}]));
{%- endfor %}
{%- endif %}
    keys[token] = best;
}
