{%- if activation == "gelu" -%}
// The error function, within 2e-7 (Abramowitz and Stegun, 7.1.26).
fn erf(v: vec4<f32>) -> vec4<f32> {
    let a = abs(v);
    let t = 1.0 / (1.0 + 0.3275911 * a);
    let p = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
    return sign(v) * (1.0 - p * exp(-a * a));
}

{% endif -%}
{%- set saturate = out_t == "f16" and activation not in ["prelu", "centred-sigmoid"] -%}
{%- if saturate %}{% include "shared/stored.wgsl" %}

{% endif -%}
{%- set pixel = "pixel" if flat else "(at.y * dims.out_size.x + at.x)" -%}
// Adds bias (which a matrix product has already) and residual, applies the activation, and stores four channels of one
// pixel, if it exists.
fn finish(at: vec2<i32>, n: u32, sum: vec4<f32>) {
{%- if flat %}
    let pixel = at.y * {{ flat }} + at.x;
    if pixel >= dims.out_size.x * dims.out_size.y || n >= {{ cout4 }}u {
        return;
    }
{%- else %}
    if any(at >= dims.out_size) || n >= {{ cout4 }}u {
        return;
    }
{%- endif %}
    let index = u32({{ pixel }}) * {% if sliced %}dims.out_slice.x + dims.out_slice.y{% else %}{{ cout4 }}u{% endif %} + n;
{%- if residual %}
{%- if residual_half %}
{%- if flat %}
    let beside = vec2<i32>(pixel % dims.out_size.x, pixel / dims.out_size.x) / 2;
{%- else %}
    let beside = at / 2;
{%- endif %}
    let residual_pixel = u32(beside.y * ((dims.out_size.x + 1) / 2) + beside.x);
{%- else %}
    let residual_pixel = u32({{ pixel }});
{%- endif %}
    let added = vec4<f32>(residual[residual_pixel * {% if sliced %}dims.residual_slice.x + dims.residual_slice.y{% else %}{{ cout4 }}u{% endif %} + n]);
{%- endif %}
    var v = sum{% if not bias_in_sum %} + affine[n]{% endif %};
{%- if residual == "before" %}
    v += added;
{%- endif %}
{%- if activation == "prelu" %}
{%- if bias_in_sum %}
    let slope_at = {{ affine4 * 4 }}u + n * 4u;
    let slope = vec4<f32>(affine[slope_at], affine[slope_at + 1u], affine[slope_at + 2u], affine[slope_at + 3u]);
{%- else %}
    let slope = affine[{{ affine4 }}u + n];
{%- endif %}
    v = select(slope * v, v, v >= vec4<f32>());
{%- elif activation == "centred-sigmoid" %}
    v = 2.0 / (1.0 + exp(-v)) - 1.0;
{%- elif activation == "relu" %}
    v = select(v, vec4<f32>(), v <= vec4<f32>());
{%- elif activation == "silu" %}
    v = v / (1.0 + exp(-v));
{%- elif activation == "gelu" %}
    v = 0.5 * v * (1.0 + erf(v * 0.70710678));
{%- endif %}
{%- if residual == "after" %}
    v += added;
{%- endif %}
    dst[index] = {{ "stored(v)" if saturate else "vec4<" ~ out_t ~ ">(v)" }};
}
