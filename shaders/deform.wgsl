// SPDX-License-Identifier: MIT OR Apache-2.0
// Multi-scale deformable attention: for each query and head of {{ dim }} channels, Σ softmax(logits)·value(location) over
// {{ points }} positions on each of {{ levels }} levels, location = centre + offset·scale·(width, height) of the query's box.
{%- if discrete %}
// A value is that of the pixel trunc(location·size + 0.5), clamped.
{%- else %}
// A value is bilinear at location·size − 0.5, each corner outside the map counting as zero.
{%- endif %}
//
// One workgroup does one query: its invocations first turn the offsets and logits of all heads into {{ "places" if discrete else "corners" }} and
// weights, in workgroup memory, then each sums {{ "four channels" if wide else "one channel" }} at a time.
//
// value    [tokens][{{ value_stride }}] {{ value_t }}, from {{ value_first }} on: the levels one after the other, each in row-major order
// offsets  [queries][{{ offsets_stride }}], from {{ offsets_first }} on: [head][level][point] of x, y
// logits   [queries][{{ logits_stride }}], from {{ logits_first }} on: [head][level][point]
// boxes    [queries] vec4<f32>: centre, size, relative to the picture
// dst      [queries][{{ dst_stride }}] {{ dst_t }}
{% if half %}enable f16;
{% endif %}
struct Levels {
    maps: array<vec4<u32>, {{ levels }}>,  // width, height, first token
    scales: array<vec4<f32>, {{ (samples + 3) // 4 }}>,  // of the offsets, for each level and point
}

@group(0) @binding(0) var<uniform> levels: Levels;
@group(0) @binding(1) var<storage, read> value: array<{{ value_t }}>;
@group(0) @binding(2) var<storage, read> offsets: array<{{ mix_t }}>;
@group(0) @binding(3) var<storage, read> logits: array<{{ mix_t }}>;
@group(0) @binding(4) var<storage, read> boxes: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read_write> dst: array<{{ dst_t }}>;

var<workgroup> sh_at: array<{{ "u32" if discrete else "vec4<u32>" }}, {{ heads * samples }}>;
var<workgroup> sh_weight: array<{{ "f32" if discrete else "vec4<f32>" }}, {{ heads * samples }}>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let query = group.x;
    let box = boxes[query];
    for (var i = local; i < {{ heads * samples }}u; i += 64u) {
        let head_at = query * {{ logits_stride }}u + {{ logits_first }}u + i / {{ samples }}u * {{ samples }}u;
        var top = f32(logits[head_at]);
        for (var s = 1u; s < {{ samples }}u; s++) {
            top = max(top, f32(logits[head_at + s]));
        }
        var total = 0.0;
        for (var s = 0u; s < {{ samples }}u; s++) {
            total += exp(f32(logits[head_at + s]) - top);
        }
        let s = i % {{ samples }}u;
        let weight = exp(f32(logits[head_at + s]) - top) / total;
        let offset_at = query * {{ offsets_stride }}u + {{ offsets_first }}u + i * 2u;
        let offset = vec2<f32>(f32(offsets[offset_at]), f32(offsets[offset_at + 1u]));
        let map = levels.maps[s / {{ points }}u];
        let size = vec2<f32>(map.xy);
        let location = box.xy + offset * levels.scales[s / 4u][s % 4u] * box.zw;
{%- if discrete %}
        // A NaN fails the comparison and becomes 0.
        let place = trunc(location * size + 0.5);
        let p = vec2<u32>(min(select(vec2<f32>(), place, place > vec2<f32>()), size - 1.0));
        sh_at[i] = (map.z + p.y * map.x + p.x) * {{ value_stride }}u;
        sh_weight[i] = weight;
{%- else %}
        let position = location * size - 0.5;
        let base = floor(position);
        let f = position - base;
        // Compared as floats: no position, however far, becomes an index that wraps.
        let left = base.x >= 0.0 && base.x < size.x;
        let right = base.x >= -1.0 && base.x < size.x - 1.0;
        let upper = base.y >= 0.0 && base.y < size.y;
        let lower = base.y >= -1.0 && base.y < size.y - 1.0;
        let inside = vec4<bool>(left && upper, right && upper, left && lower, right && lower);
        let low = vec2<u32>(clamp(base, vec2<f32>(), size - 1.0));
        let high = vec2<u32>(clamp(base + 1.0, vec2<f32>(), size - 1.0));
        let token = vec4<u32>(vec2<u32>(low.y * map.x), vec2<u32>(high.y * map.x)) + low.x * vec4<u32>(1u, 0u, 1u, 0u)
            + high.x * vec4<u32>(0u, 1u, 0u, 1u);
        let share = vec4<f32>((1.0 - f.x) * (1.0 - f.y), f.x * (1.0 - f.y), (1.0 - f.x) * f.y, f.x * f.y);
        sh_at[i] = select(vec4<u32>(), map.z + token, inside) * {{ value_stride }}u;
        sh_weight[i] = select(vec4<f32>(), weight * share, inside);
{%- endif %}
    }
    workgroupBarrier();
    for (var c = local; c < {{ heads * parts }}u; c += 64u) {
        let first = c / {{ parts }}u * {{ samples }}u;
        let channel = {{ value_first }}u + c;
        var sum = {{ sum_t }}();
        for (var s = first; s < first + {{ samples }}u; s++) {
            let at = sh_at[s];
            let weight = sh_weight[s];
{%- if discrete %}
            sum += weight * {{ sum_t }}(value[at + channel]);
{%- else %}
{%- for i in ["x", "y", "z", "w"] %}
            if !(weight.{{ i }} == 0.0) {
                sum += weight.{{ i }} * {{ sum_t }}(value[at.{{ i }} + channel]);
            }
{%- endfor %}
{%- endif %}
        }
        dst[query * {{ dst_stride }}u + c] = {{ dst_t }}(sum);
    }
}
