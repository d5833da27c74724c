// SPDX-License-Identifier: MIT OR Apache-2.0
// Multi-head attention: softmax(q·kᵀ / √{{ dim }})·v for each head of {{ dim }} channels.
//
// One workgroup does {{ queries }} queries of one head (y). It walks over the keys in tiles of {{ split * each }}, staged with their
// values in workgroup memory; {{ split }} invocations share a query, each with {{ each }} keys of a tile, a running maximum and
// sums relative to it, which are merged at the end.
//
// q    [queries][{{ q_stride }}] {{ q_t }}, from {{ q_first }} on; all strides and places in units of this type
// k    [keys][{{ k_stride }}], from {{ k_first }} on
// v    [keys][{{ v_stride }}], from {{ v_first }} on
// dst  [queries][{{ dst_stride }}]
{% if half %}enable f16;
{% endif %}
struct Counts {
    queries: u32,
    keys: u32,
}

@group(0) @binding(0) var<uniform> counts: Counts;
@group(0) @binding(1) var<storage, read> q: array<{{ q_t }}>;
@group(0) @binding(2) var<storage, read> k: array<{{ q_t }}>;
@group(0) @binding(3) var<storage, read> v: array<{{ q_t }}>;
@group(0) @binding(4) var<storage, read_write> dst: array<{{ dst_t }}>;

{%- set tile = split * each %}
{%- set threads = queries * split %}
{%- set lowest = "-3.4028234e38" %}

// Rows of an odd number of groups, so that neighbouring keys lie in different banks.
var<workgroup> sh_k: array<{{ sum_t }}, {{ tile * pitch }}>;
var<workgroup> sh_v: array<{{ sum_t }}, {{ tile * pitch }}>;
var<workgroup> sh_max: array<f32, {{ threads }}>;
var<workgroup> sh_sum: array<f32, {{ threads }}>;
var<workgroup> sh_part: array<{{ sum_t }}, {{ threads }}>;

@compute @workgroup_size({{ threads }})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let part = local % {{ split }}u;
    let query = group.x * {{ queries }}u + local / {{ split }}u;
    let head = group.y * {{ parts }}u;
    let q_at = min(query, counts.queries - 1u) * {{ q_stride }}u + {{ q_first }}u + head;
{%- for i in range(parts) %}
    let q{{ i }} = {{ sum_t }}(q[q_at + {{ i }}u]) * {{ scale }};
    var sum{{ i }} = {{ sum_t }}();
{%- endfor %}
    var highest = {{ lowest }};
    var weight = 0.0;
    for (var first = 0u; first < counts.keys; first += {{ tile }}u) {
        workgroupBarrier();
        for (var i = local; i < {{ tile * parts }}u; i += {{ threads }}u) {
            let key = min(first + i / {{ parts }}u, counts.keys - 1u);
            let c = head + i % {{ parts }}u;
            let to = i / {{ parts }}u * {{ pitch }}u + i % {{ parts }}u;
            sh_k[to] = {{ sum_t }}(k[key * {{ k_stride }}u + {{ k_first }}u + c]);
            sh_v[to] = {{ sum_t }}(v[key * {{ v_stride }}u + {{ v_first }}u + c]);
        }
        workgroupBarrier();
{%- for j in range(each) %}
        let at{{ j }} = (part + {{ j * split }}u) * {{ pitch }}u;
        var score{{ j }} = {% for i in range(parts) %}{{ product }}(q{{ i }}{{ "," if product }}{{ " *" if not product }} sh_k[at{{ j }} + {{ i }}u]){{ " + " if not loop.last }}{% endfor %};
        let has{{ j }} = first + part + {{ j * split }}u < counts.keys;
        score{{ j }} = select({{ lowest }}, score{{ j }}, has{{ j }});
{%- endfor %}
        var top = highest;
{%- for j in range(each) %}
        top = max(top, score{{ j }});
{%- endfor %}
        let fade = exp(highest - top);
        highest = top;
        weight *= fade;
{%- for i in range(parts) %}
        sum{{ i }} *= fade;
{%- endfor %}
{%- for j in range(each) %}
        let p{{ j }} = select(0.0, exp(score{{ j }} - top), has{{ j }});
        weight += p{{ j }};
{%- for i in range(parts) %}
        sum{{ i }} += p{{ j }} * sh_v[at{{ j }} + {{ i }}u];
{%- endfor %}
{%- endfor %}
    }

    sh_max[local] = highest;
    workgroupBarrier();
    let start = local - part;
    var top = sh_max[start];
    for (var i = 1u; i < {{ split }}u; i++) {
        top = max(top, sh_max[start + i]);
    }
    let fade = exp(highest - top);
    sh_sum[local] = weight * fade;
    workgroupBarrier();
    var total = 0.0;
    for (var i = 0u; i < {{ split }}u; i++) {
        total += sh_sum[start + i];
    }
{%- for i in range(parts) %}
    sh_part[local] = sum{{ i }} * fade;
    workgroupBarrier();
    if part == {{ i % split }}u && query < counts.queries {
        var out = {{ sum_t }}();
        for (var i = 0u; i < {{ split }}u; i++) {
            out += sh_part[start + i];
        }
        dst[query * {{ dst_stride }}u + head + {{ i }}u] = {{ dst_t }}(out / total);
    }
{%- if not loop.last %}
    workgroupBarrier();
{%- endif %}
{%- endfor %}
}
