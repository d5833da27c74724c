// SPDX-License-Identifier: MIT OR Apache-2.0
// Layer norm over the {{ channels }} channels of each token{% if residual %}, of its sum with a residual{% endif %}:
// (v − mean) / √(variance + eps)·weight + bias.
//
// One workgroup does {{ 64 // split }} tokens; {{ split }} invocations share one, each holding every {{ split }}th group of four channels, and
// add up in workgroup memory.
//
// src{% if residual %}, residual{% endif %}{% if position %}, position{% endif %}, dst  [tokens][{{ c4 }}] vec4
// affine  {{ c4 }} vec4 of weight, {{ c4 }} of bias{% if masked %}, {{ c4 }} of the row that stands for a token without a value{% endif %}, f32
{%- if position %}
// placed  [tokens][{{ c4 }}] vec4: dst + position
{%- endif %}
{%- if masked %}
// valid   [tokens] u32: 0 where the token has no value
{%- endif %}
{% if half %}enable f16;
{% endif %}
struct Norm {
    tokens: u32,
    eps: f32,
}

@group(0) @binding(0) var<uniform> norm: Norm;
@group(0) @binding(1) var<storage, read> src: array<vec4<{{ in_t }}>>;
@group(0) @binding(2) var<storage, read> affine: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> dst: array<vec4<{{ out_t }}>>;
{%- if residual %}
@group(0) @binding({{ residual }}) var<storage, read> residual: array<vec4<{{ residual_t }}>>;
{%- endif %}
{%- if masked %}
@group(0) @binding({{ masked }}) var<storage, read> valid: array<u32>;
{%- endif %}
{%- if position %}
@group(0) @binding({{ position }}) var<storage, read> position: array<vec4<{{ position_t }}>>;
@group(0) @binding({{ position + 1 }}) var<storage, read_write> placed: array<vec4<{{ out_t }}>>;
{%- endif %}

var<workgroup> sh_sum: array<f32, 64>;

{% include "shared/stored.wgsl" %}

// The sum of `v` over the invocations of a token.
fn token_sum(v: f32, local: u32) -> f32 {
    let lane = local % {{ split }}u;
    workgroupBarrier();
    sh_sum[local] = v;
    for (var reach = {{ split // 2 }}u; reach > 0u; reach /= 2u) {
        workgroupBarrier();
        if lane < reach {
            sh_sum[local] += sh_sum[local + reach];
        }
    }
    workgroupBarrier();
    return sh_sum[local - lane];
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let lane = local % {{ split }}u;
    let token = (group.y * groups.x + group.x) * {{ 64 // split }}u + local / {{ split }}u;
    let row = min(token, norm.tokens - 1u) * {{ c4 }}u;
    var total = 0.0;
{%- for i in range(per) %}
    let c{{ i }} = lane + {{ i * split }}u;
    let has{{ i }} = c{{ i }} < {{ c4 }}u;
    let lanes{{ i }} = select(vec4<f32>(), {% if channels % 4 %}select(vec4<f32>(1.0), vec4<f32>({{ tail }}), c{{ i }} == {{ c4 - 1 }}u){% else %}vec4<f32>(1.0){% endif %}, has{{ i }});
    var v{{ i }} = vec4<f32>();
    if has{{ i }} {
        v{{ i }} = vec4<f32>(src[row + c{{ i }}]){% if residual %} + vec4<f32>(residual[row + c{{ i }}]){% endif %};
    }
    total += dot(v{{ i }}, vec4<f32>(1.0));
{%- endfor %}
    let mean = token_sum(total, local) / {{ channels }}.0;
    total = 0.0;
{%- for i in range(per) %}
    let d{{ i }} = (v{{ i }} - mean) * lanes{{ i }};
    total += dot(d{{ i }}, d{{ i }});
{%- endfor %}
    let scale = inverseSqrt(token_sum(total, local) / {{ channels }}.0 + norm.eps);
    if token >= norm.tokens {
        return;
    }
{%- for i in range(per) %}
    if has{{ i }} {
        var y = d{{ i }} * scale * affine[c{{ i }}] + affine[{{ c4 }}u + c{{ i }}];
{%- if masked %}
        if valid[token] == 0u {
            y = affine[{{ 2 * c4 }}u + c{{ i }}];
        }
{%- endif %}
        dst[row + c{{ i }}] = stored(y);
{%- if position %}
        placed[row + c{{ i }}] = stored(y + vec4<f32>(position[row + c{{ i }}]));
{%- endif %}
    }
{%- endfor %}
}
