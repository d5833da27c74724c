// Reading the raw frames {% for f in frames %}`frame{{ f }}`{{ " and " if not loop.last }}{% endfor %} (array<u32>) through `geometry`.
//
// Texel group N holds the components that share a position; `texelF_N` fetches it from frame F with clamped
// coordinates as codes scaled to 0..1, `imageF_N` from the frame stretched to the image's size, `sampleF_N` between its
// pixels. Groups:{% for t in texels %} {{ loop.index0 }} = {% for c in t.components %}{{ c.role }}{% endfor %} of plane {{ t.plane }}{{ "," if not loop.last else "." }}{% endfor %}
{%- for t in texels %}
{%- set g = loop.index0 %}

fn group_size_{{ g }}(size: vec2<i32>) -> vec2<i32> {
    return (size + vec2<i32>({{ 2 ** t.shift_x - 1 }}, {{ 2 ** t.shift_y - 1 }})) >> vec2<u32>({{ t.shift_x }}u, {{ t.shift_y }}u);
}

// The position in group {{ g }} of a luma position, and back.
fn to_group_{{ g }}(at: vec2<f32>) -> vec2<f32> {
    return vec2<f32>({{ t.to_group_x }}, {{ t.to_group_y }});
}

fn to_luma_{{ g }}(at: vec2<f32>) -> vec2<f32> {
    return vec2<f32>({{ t.to_luma_x }}, {{ t.to_luma_y }});
}
{%- for f in frames %}

fn texel{{ f }}_{{ g }}(at: vec2<i32>) -> vec4<f32> {
    let p = vec2<u32>(clamp(at, vec2<i32>(), group_size_{{ g }}(geometry.frame) - 1));
    let byte = geometry.planes[{{ t.plane }}].x + p.y * geometry.planes[{{ t.plane }}].y + p.x * {{ t.step }}u;
{%- if t.step != 3 %}
    let word = frame{{ f }}[byte >> 2u]{% if t.step < 4 %} >> ((byte & 3u) * 8u){% endif %};
{%- if t.step == 4 and t.bytes == 1 and t.components | length == 4 %}
    return unpack4x8unorm(word);
}
{%- endif %}
{%- endif %}
{%- if not (t.step == 4 and t.bytes == 1 and t.components | length == 4) %}
    return vec4<f32>(
{%- for i in range(4) %}
{%- if i < t.components | length %}
{%- set c = t.components[i] %}
{%- if t.step == 3 %}
        f32((frame{{ f }}[(byte + {{ c.byte }}u) >> 2u] >> (((byte + {{ c.byte }}u) & 3u) * 8u)) & 255u){{ "," if not loop.last }}
{%- else %}
        f32((word >> {{ c.byte * 8 + t.shift }}u) & {{ t.max }}u){{ "," if not loop.last }}
{%- endif %}
{%- else %}
        0.0{{ "," if not loop.last }}
{%- endif %}
{%- endfor %}
    ) / {{ t.max }}.0;
}
{%- endif %}
{%- for kind in kinds %}
{%- if kind == "image" %}

fn image{{ f }}_{{ g }}(at: vec2<i32>) -> vec4<f32> {
{%- if stretched %}
    return source{{ f }}_{{ g }}((vec2<f32>(at) + 0.5) * geometry.stretch - 0.5);
{%- else %}
    return texel{{ f }}_{{ g }}(at);
{%- endif %}
}
{%- endif %}

fn {{ "source" if kind == "source" else "sample" }}{{ f }}_{{ g }}(at: vec2<f32>) -> vec4<f32> {
    let last = group_size_{{ g }}(geometry.{{ "frame" if kind == "source" else "image" }}) - 1;
    let p = clamp(at, vec2<f32>(), vec2<f32>(last));
    let base = floor(p);
    let f = p - base;
    let a = vec2<i32>(base);
    let b = min(a + 1, last);
{%- set fetch = "texel" if kind == "source" else "image" %}
    let top = {{ fetch }}{{ f }}_{{ g }}(a) * (1.0 - f.x) + {{ fetch }}{{ f }}_{{ g }}(vec2<i32>(b.x, a.y)) * f.x;
    let bottom = {{ fetch }}{{ f }}_{{ g }}(vec2<i32>(a.x, b.y)) * (1.0 - f.x) + {{ fetch }}{{ f }}_{{ g }}(b) * f.x;
    return top * (1.0 - f.y) + bottom * f.y;
}
{%- endfor %}
{%- endfor %}
{%- endfor %}
{%- for f in frames %}
{%- for kind in kinds %}
{%- set sample = "source" if kind == "source" else "sample" %}

// Blue, green and red of frame {{ f }} at a luma position.
fn {{ sample }}{{ f }}_bgr(at: vec2<f32>) -> vec3<f32> {
{%- if color == "rgb" %}
    let v = {{ sample }}{{ f }}_0(at);
    return vec3<f32>(v[{{ pick.b[1] }}], v[{{ pick.g[1] }}], v[{{ pick.r[1] }}]);
{%- elif color == "gray" %}
    return vec3<f32>({{ sample }}{{ f }}_0(at).x);
{%- else %}
    let inside = clamp(at, vec2<f32>(), vec2<f32>(geometry.{{ "frame" if kind == "source" else "image" }} - 1));
    let luma = ({{ sample }}{{ f }}_0(inside).x - geometry.range.x) * geometry.range.y;
    let u_group = {{ sample }}{{ f }}_{{ pick.u[0] }}(to_group_{{ pick.u[0] }}(inside));
{%- if pick.u[0] == pick.v[0] %}
    let v_group = u_group;
{%- else %}
    let v_group = {{ sample }}{{ f }}_{{ pick.v[0] }}(to_group_{{ pick.v[0] }}(inside));
{%- endif %}
    let u = (u_group[{{ pick.u[1] }}] - geometry.range.z) * geometry.range.w;
    let v = (v_group[{{ pick.v[1] }}] - geometry.range.z) * geometry.range.w;
    let b = luma + 2.0 * (1.0 - geometry.weights.x) * u;
    let r = luma + 2.0 * (1.0 - geometry.weights.z) * v;
    return vec3<f32>(b, (luma - geometry.weights.x * b - geometry.weights.z * r) / geometry.weights.y, r);
{%- endif %}
}
{%- endfor %}
{%- endfor %}
