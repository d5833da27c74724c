// SPDX-License-Identifier: MIT OR Apache-2.0
// The made frame: both frames warped by their flow and blended by the mask, in one plane of their own format, with the
// refine head's residual and the static guard, packed to bytes.
//
// One invocation makes {{ period }} bytes of a row of plane {{ plane }}.
//
// frame0, frame1  raw frames (shared/frames.wgsl)
// answer          the network's answer (shared/flow.wgsl)
// dst             the made frame's raw planes, words
{%- if residual %}
// residual        [grid/4] vec4<f32>: B,G,R to add
{%- endif %}
{%- if guard %}
// still           [image] f32: 1 = hold (guard.wgsl)
{%- endif %}

{% include "shared/geometry.wgsl" %}

@group(0) @binding(0) var<uniform> geometry: Geometry;
@group(0) @binding(1) var<storage, read> frame0: array<u32>;
@group(0) @binding(2) var<storage, read> frame1: array<u32>;
@group(0) @binding(3) var<storage, read> answer: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> dst: array<u32>;
{%- if residual %}
@group(0) @binding({{ residual }}) var<storage, read> residual: array<vec4<f32>>;
{%- endif %}
{%- if guard %}
@group(0) @binding({{ guard }}) var<storage, read> still: array<f32>;
{%- endif %}

{% include "shared/frames.wgsl" %}
{% include "shared/flow.wgsl" %}
{%- if residual %}

// The residual at a position of the grid.
fn residual_at(at: vec2<f32>) -> vec3<f32> {
    let size = geometry.grid / 4;
    let p = clamp((at + 0.5) / 4.0 - 0.5, vec2<f32>(), vec2<f32>(size - 1));
    let base = floor(p);
    let f = p - base;
    let a = vec2<i32>(base);
    let b = min(a + 1, size - 1);
    let top = residual[a.y * size.x + a.x].xyz * (1.0 - f.x) + residual[a.y * size.x + b.x].xyz * f.x;
    let bottom = residual[b.y * size.x + a.x].xyz * (1.0 - f.x) + residual[b.y * size.x + b.x].xyz * f.x;
    return top * (1.0 - f.y) + bottom * f.y;
}
{%- endif %}

fn encode(value: f32) -> u32 {
    return u32(floor(clamp(value, 0.0, 1.0) * {{ max }}.0 + {{ rounding }}));
}
{%- for t in texels %}
{%- if t.plane == plane %}
{%- set g = loop.index0 %}

fn made_{{ g }}(p: vec2<i32>) -> vec4<f32> {
    let here = vec2<f32>(p);
    let grid_at = (to_luma_{{ g }}(here) + 0.5) * geometry.grid_scale - 0.5;
    let flow = flow_at(grid_at);
    let move0 = flow.flow.xy / geometry.grid_scale / vec2<f32>({{ 2 ** t.shift_x }}.0, {{ 2 ** t.shift_y }}.0);
    let move1 = flow.flow.zw / geometry.grid_scale / vec2<f32>({{ 2 ** t.shift_x }}.0, {{ 2 ** t.shift_y }}.0);
    var v = sample0_{{ g }}(here + move0) * flow.mask + sample1_{{ g }}(here + move1) * (1.0 - flow.mask);
{%- if residual %}
    let bgr = residual_at(grid_at);
{%- if color != "rgb" %}
    let luma = dot(bgr, geometry.weights.xyz);
{%- endif %}
    v += vec4<f32>(
{%- for i in range(4) %}
{%- set role = t.components[i].role if i < t.components | length else "none" %}
{%- if role == "b" %}bgr.x{% elif role == "g" %}bgr.y{% elif role == "r" %}bgr.z
{%- elif role == "y" %}luma / geometry.range.y
{%- elif role == "u" %}(bgr.x - luma) / (2.0 * (1.0 - geometry.weights.x) * geometry.range.w)
{%- elif role == "v" %}(bgr.z - luma) / (2.0 * (1.0 - geometry.weights.z) * geometry.range.w)
{%- else %}0.0{% endif %}{{ ", " if not loop.last }}
{%- endfor %});
{%- endif %}
    v = clamp(v, vec4<f32>(), vec4<f32>(1.0));
{%- if guard %}
    // The mean over the luma pixels this sample covers.
    let first = min(p * vec2<i32>({{ 2 ** t.shift_x }}, {{ 2 ** t.shift_y }}), geometry.image - 1);
    let last = min(first + vec2<i32>({{ 2 ** t.shift_x - 1 }}, {{ 2 ** t.shift_y - 1 }}), geometry.image - 1);
    var hold = 0.0;
    for (var y = first.y; y <= last.y; y++) {
        for (var x = first.x; x <= last.x; x++) {
            hold += still[y * geometry.image.x + x];
        }
    }
    let covered = last - first + 1;
    hold /= f32(covered.x * covered.y);
    v = v * (1.0 - hold) + (image0_{{ g }}(p) + image1_{{ g }}(p)) * (0.5 * hold);
{%- endif %}
    return v;
}
{%- endif %}
{%- endfor %}

@compute @workgroup_size(32, 4)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let stride = geometry.planes[{{ plane }}].w;
    let rows = u32(group_size_{{ plane_group }}(geometry.image).y);
    if id.x * {{ period }}u >= stride || id.y >= rows {
        return;
    }
{%- for w in range(period // 4) %}
    var word_{{ w }} = 0u;
{%- endfor %}
{%- for t in texels %}
{%- if t.plane == plane %}
{%- set g = loop.index0 %}
{%- for i in range(period // t.step) %}
    let v_{{ g }}_{{ i }} = made_{{ g }}(vec2<i32>(i32(id.x) * {{ period // t.step }} + {{ i }}, i32(id.y)));
{%- for c in t.components %}
    word_{{ (i * t.step + c.byte) // 4 }} |= encode(v_{{ g }}_{{ i }}[{{ loop.index0 }}]) << {{ (i * t.step + c.byte) % 4 * 8 + t.shift }}u;
{%- endfor %}
{%- endfor %}
{%- endif %}
{%- endfor %}
    let index = (geometry.planes[{{ plane }}].z + id.y * stride) / 4u + id.x * {{ period // 4 }}u;
{%- for w in range(period // 4) %}
    dst[index + {{ w }}u] = word_{{ w }};
{%- endfor %}
}
