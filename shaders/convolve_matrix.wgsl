// SPDX-License-Identifier: MIT OR Apache-2.0
// {{ ks }}×{{ ks }} convolution with bias, activation and residual on cooperative matrices ({{ f }}×{{ f }}×{{ f }}, f16 into f32): an implicit
// matrix product of pixels × (tap, input channel) × output channels.
//
// One workgroup of {{ sr }} × {{ sn }} subgroups makes {{ sr * rows }} rows of {{ f }} output pixels × {{ sn * nt * f }} channels; one subgroup
// {{ rows }} rows × {{ nt }} channel fragments, all in registers. Input channels are taken in slabs of {{ ck }}: the slab's patch
// lies in workgroup memory, pixels {{ ck + 8 }} values apart (an odd number of 16-byte banks), and serves all {{ ks * ks }} taps as
// shifted loads; weights come straight from storage.
//
// src      [in_height][in_width][{{ cin4 }}] vec4, NHWC
// weights  [slab][tap][k fragment][n fragment][{{ f }} input channels][{{ f }} output channels], zero beyond the tensor
// affine   [{{ npad // 4 }}] vec4 bias, then PReLU slopes
// dst      [out_height][out_width][{{ cout4 }}] vec4, NHWC
enable f16;
enable wgpu_cooperative_matrix;

{% include "shared/convolution.wgsl" %}
{% set patch_w = (f - 1) * stride + ks -%}
{% set patch_h = (sr * rows - 1) * stride + ks -%}
{% set pitch = ck + 8 -%}
{% set subgroups = sr * sn -%}
{% set threads = subgroups * subgroup_size -%}
{% set slabs = (cin4 * 4 + ck - 1) // ck -%}
{% set kf = ck // f -%}
{% set nf = npad // f %}
var<workgroup> sh_patch: array<f16, {{ patch_w * patch_h * pitch }}>;
var<workgroup> sh_out: array<f32, {{ subgroups * f * f }}>;

{% include "shared/finish.wgsl" %}

@compute @workgroup_size({{ threads }})
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(subgroup_invocation_id) lane: u32,
) {
    let tile = vec2<i32>(i32(group.x) * {{ f }}, i32(group.y) * {{ sr * rows }});
    let corner = tile * {{ stride }} - {{ ks // 2 }};
    let first_row = subgroup / {{ sn }}u * {{ rows }}u;
    // The subgroup's first channel fragment.
    let first_n = (group.z * {{ sn }}u + subgroup % {{ sn }}u) * {{ nt }}u;
{%- for j in range(nt) %}
    let n_{{ j }} = min(first_n + {{ j }}u, {{ nf - 1 }}u);
{%- endfor %}
{%- for i in range(rows) %}{% for j in range(nt) %}
    var acc_{{ i }}_{{ j }} = coopLoadT<coop_mat{{ f }}x{{ f }}<f32, C>>(&affine[n_{{ j }} * {{ f }}u], 0u);
{%- endfor %}{% endfor %}

    for (var slab = 0u; slab < {{ slabs }}u; slab++) {
        workgroupBarrier();
        for (var i = local; i < {{ patch_w * patch_h * (ck // 4) }}u; i += {{ threads }}u) {
            let c = i % {{ ck // 4 }}u;
            let p = i / {{ ck // 4 }}u;
            let at = corner + vec2<i32>(i32(p % {{ patch_w }}u), i32(p / {{ patch_w }}u));
            let channel = slab * {{ ck // 4 }}u + c;
            var value = vec4<f16>();
{%- if flat %}
            let pixel = at.y * {{ flat }} + at.x;
            if pixel < dims.in_size.x * dims.in_size.y && channel < {{ cin4 }}u {
                value = input(pixel, channel);
            }
{%- else %}
            if all(at >= vec2<i32>()) && all(at < dims.in_size) && channel < {{ cin4 }}u {
                value = input(at.y * dims.in_size.x + at.x, channel);
            }
{%- endif %}
            let to = p * {{ pitch }}u + c * 4u;
            sh_patch[to] = value.x;
            sh_patch[to + 1u] = value.y;
            sh_patch[to + 2u] = value.z;
            sh_patch[to + 3u] = value.w;
        }
        workgroupBarrier();
        for (var tap = 0u; tap < {{ ks * ks }}u; tap++) {
            let patch_at = ((first_row * {{ stride }}u + tap / {{ ks }}u) * {{ patch_w }}u + tap % {{ ks }}u) * {{ pitch }}u;
            let weight_at = (slab * {{ ks * ks }}u + tap) * {{ kf * nf * f * f }}u;
{%- for k in range(kf) %}
{%- for j in range(nt) %}
            let b_{{ k }}_{{ j }} = coopLoadT<coop_mat{{ f }}x{{ f }}<f16, B>>(&weights[weight_at + ({{ k * nf }}u + n_{{ j }}) * {{ f * f }}u], {{ f }}u);
{%- endfor %}
{%- for i in range(rows) %}
            let a_{{ k }}_{{ i }} = coopLoadT<coop_mat{{ f }}x{{ f }}<f16, A>>(&sh_patch[patch_at + {{ i * stride * patch_w * pitch + k * f }}u], {{ stride * pitch }}u);
{%- for j in range(nt) %}
            acc_{{ i }}_{{ j }} = coopMultiplyAdd(a_{{ k }}_{{ i }}, b_{{ k }}_{{ j }}, acc_{{ i }}_{{ j }});
{%- endfor %}
{%- endfor %}
{%- endfor %}
        }
    }
    // Matrix elements cannot be touched one by one: every fragment goes through the subgroup's part of workgroup memory.
    let out_at = subgroup * {{ f * f }}u;
{%- for i in range(rows) %}{% for j in range(nt) %}
    workgroupBarrier();
    coopStoreT(acc_{{ i }}_{{ j }}, &sh_out[out_at], {{ f }}u);
    workgroupBarrier();
    for (var e = lane; e < {{ f * f // 4 }}u; e += {{ subgroup_size }}u) {
        let p = e / {{ f // 4 }}u;
        let q = e % {{ f // 4 }}u;
        let from_at = out_at + p * {{ f }}u + q * 4u;
        if first_n + {{ j }}u < {{ nf }}u {
            finish(
                tile + vec2<i32>(i32(p), i32(first_row) + {{ i }}), (first_n + {{ j }}u) * {{ f // 4 }}u + q,
                vec4<f32>(sh_out[from_at], sh_out[from_at + 1u], sh_out[from_at + 2u], sh_out[from_at + 3u]));
        }
    }
{%- endfor %}{% endfor %}
}
