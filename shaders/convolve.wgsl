// SPDX-License-Identifier: MIT OR Apache-2.0
// {{ ks }}×{{ ks }} convolution with bias, activation and residual, tiles staged in workgroup memory.
//
// One workgroup makes {{ px_x * px }} × {{ px_y }} output pixels of {{ oct * nv * 4 }} channels; one invocation {{ px }} pixels
// (interleaved along x) of {{ nv }} × 4 channels (interleaved along the channel axis). Input channels are taken in slabs
// of {{ ck4 * 4 }}: the slab's input patch serves all nine taps, its weights all pixels. Both are widened to f32 once.
//
// src      [in_height][in_width][{{ cin4 }}] vec4, NHWC
// weights  [tap][{{ cin4 * 4 }} input channels][{{ cout4 }}] vec4 of output channels
// affine   [{{ cout4 }}] bias, then [{{ cout4 }}] PReLU slopes
// dst      [out_height][out_width][{{ cout4 }}] vec4, NHWC
{% if half %}enable f16;
{% endif %}
{% include "shared/convolution.wgsl" %}
{% set patch_w = (px_x * px - 1) * stride + ks -%}
{% set patch_h = (px_y - 1) * stride + ks -%}
{% set taps = ks * ks -%}
{% set n4 = oct * nv -%}
{% set threads = px_x * px_y * oct %}
var<workgroup> sh_patch: array<vec4<f32>, {{ patch_w * patch_h * ck4 }}>;
var<workgroup> sh_weights: array<vec4<f32>, {{ taps * ck4 * 4 * n4 }}>;

{% include "shared/finish.wgsl" %}

@compute @workgroup_size({{ threads }})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let channel = local % {{ oct }}u;
    let column = (local / {{ oct }}u) % {{ px_x }}u;
    let row = local / {{ oct * px_x }}u;
    let tile = vec2<i32>(i32(group.x) * {{ px_x * px }}, i32(group.y) * {{ px_y }});
    let first = group.z * {{ n4 }}u;
    let corner = tile * {{ stride }} - {{ ks // 2 }};
{% for i in range(px) %}{% for j in range(nv) %}
    var acc_{{ i }}_{{ j }} = vec4<f32>();
{%- endfor %}{% endfor %}

    for (var slab = 0u; slab < {{ cin4 }}u; slab += {{ ck4 }}u) {
        workgroupBarrier();
        for (var i = local; i < {{ patch_w * patch_h * ck4 }}u; i += {{ threads }}u) {
            let c = i % {{ ck4 }}u;
            let p = i / {{ ck4 }}u;
            {{ 'var' if edge else 'let' }} at = corner + vec2<i32>(i32(p % {{ patch_w }}u), i32(p / {{ patch_w }}u));
{%- if edge %}
            at = clamp(at, vec2<i32>(0), dims.in_size - 1);
            let inside = slab + c < {{ cin4 }}u;
{%- elif flat %}
            let pixel = at.y * {{ flat }} + at.x;
            let inside = pixel < dims.in_size.x * dims.in_size.y && slab + c < {{ cin4 }}u;
{%- else %}
            let inside = all(at >= vec2<i32>(0)) && all(at < dims.in_size) && slab + c < {{ cin4 }}u;
{%- endif %}
            var value = vec4<f32>();
            if inside {
                value = vec4<f32>(input({{ "pixel" if flat else "at.y * dims.in_size.x + at.x" }}, slab + c));
            }
            sh_patch[i] = value;
        }
        for (var i = local; i < {{ taps * ck4 * 4 * n4 }}u; i += {{ threads }}u) {
            let n = i % {{ n4 }}u;
            let k = (i / {{ n4 }}u) % {{ ck4 * 4 }}u;
            let tap = i / {{ n4 * ck4 * 4 }}u;
            var value = vec4<f32>();
            if first + n < {{ cout4 }}u && slab * 4u + k < {{ cin4 * 4 }}u {
                value = vec4<f32>(weights[(tap * {{ cin4 * 4 }}u + slab * 4u + k) * {{ cout4 }}u + first + n]);
            }
            sh_weights[i] = value;
        }
        workgroupBarrier();
        for (var ky = 0u; ky < {{ ks }}u; ky++) {
            for (var kx = 0u; kx < {{ ks }}u; kx++) {
                let patch_at = ((row * {{ stride }}u + ky) * {{ patch_w }}u + column * {{ stride }}u + kx) * {{ ck4 }}u;
                let weight_at = (ky * {{ ks }}u + kx) * {{ ck4 * 4 * n4 }}u + channel;
                for (var c = 0u; c < {{ ck4 }}u; c++) {
{%- for i in range(px) %}
                    let x_{{ i }} = sh_patch[patch_at + {{ i * px_x * stride * ck4 }}u + c];
{%- endfor %}
{%- for k in range(4) %}{% for j in range(nv) %}
                    let w_{{ k }}_{{ j }} = sh_weights[weight_at + (c * 4u + {{ k }}u) * {{ n4 }}u + {{ j * oct }}u];
{%- for i in range(px) %}
                    acc_{{ i }}_{{ j }} += x_{{ i }}[{{ k }}] * w_{{ k }}_{{ j }};
{%- endfor %}{% endfor %}{% endfor %}
                }
            }
        }
    }
{% for i in range(px) %}{% for j in range(nv) %}
    finish(tile + vec2<i32>(i32(column) + {{ i * px_x }}, i32(row)), first + channel + {{ j * oct }}u, acc_{{ i }}_{{ j }});
{%- endfor %}{% endfor %}
}
