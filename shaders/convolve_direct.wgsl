// SPDX-License-Identifier: MIT OR Apache-2.0
// {{ ks }}×{{ ks }} convolution with bias, activation and residual, straight from storage: for adapters that run on the
// CPU, where workgroup memory is ordinary memory and a barrier is expensive.
//
// One invocation makes {{ px }} neighbouring pixels of a row × {{ nv * 4 }} channels; a workgroup {{ threads }} such runs.
//
// src      [in_height][in_width][{{ cin4 }}] vec4, NHWC
// weights  [tap][{{ cin4 * 4 }} input channels][{{ cout4 }}] vec4 of output channels
// affine   [{{ cout4 }}] bias, then [{{ cout4 }}] PReLU slopes
// dst      [out_height][out_width][{{ cout4 }}] vec4, NHWC
{% if half %}enable f16;
{% endif %}
{% include "shared/convolution.wgsl" %}

{% include "shared/finish.wgsl" %}

@compute @workgroup_size({{ threads }})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    // Runs of {{ px }} pixels, row after row.
    let runs = (dims.out_size.x + {{ px - 1 }}) / {{ px }};
    let run = i32(group.x * {{ threads }}u + local);
    let at = vec2<i32>((run % runs) * {{ px }}, run / runs);
    let first = group.z * {{ nv }}u;
{% for i in range(px) %}{% for j in range(nv) %}
    var acc_{{ i }}_{{ j }} = vec4<f32>();
{%- endfor %}{% endfor %}
    for (var ky = 0; ky < {{ ks }}; ky++) {
        for (var kx = 0; kx < {{ ks }}; kx++) {
{%- for i in range(px) %}
            let p_{{ i }} = (at + vec2<i32>({{ i }}, 0)) * {{ stride }} + vec2<i32>(kx, ky) - {{ ks // 2 }};
            let q_{{ i }} = clamp(p_{{ i }}, vec2<i32>(0), dims.in_size - 1);
            let from_{{ i }} = q_{{ i }}.y * dims.in_size.x + q_{{ i }}.x;
{%- if not edge %}
            let keep_{{ i }} = select(0.0, 1.0, all(p_{{ i }} == q_{{ i }}));
{%- endif %}
{%- endfor %}
            let weight_at = u32(ky * {{ ks }} + kx) * {{ cin4 * 4 * cout4 }}u + first;
            for (var c = 0u; c < {{ cin4 }}u; c++) {
{%- for i in range(px) %}
                let x_{{ i }} = vec4<f32>(input(from_{{ i }}, c)){% if not edge %} * keep_{{ i }}{% endif %};
{%- endfor %}
{%- for k in range(4) %}{% for j in range(nv) %}
                let w_{{ k }}_{{ j }} = vec4<f32>(weights[weight_at + (c * 4u + {{ k }}u) * {{ cout4 }}u + {{ j }}u]);
{%- for i in range(px) %}
                acc_{{ i }}_{{ j }} += x_{{ i }}[{{ k }}] * w_{{ k }}_{{ j }};
{%- endfor %}{% endfor %}{% endfor %}
            }
        }
    }
{% for i in range(px) %}{% for j in range(nv) %}
    finish(at + vec2<i32>({{ i }}, 0), first + {{ j }}u, acc_{{ i }}_{{ j }});
{%- endfor %}{% endfor %}
}
