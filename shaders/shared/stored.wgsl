// Four values as {{ out_t }}{% if out_t == "f16" %}: what is beyond its range becomes its end, a NaN stays one{% endif %}.
fn stored(v: vec4<f32>) -> vec4<{{ out_t }}> {
{%- if out_t == "f16" %}
    // Not `v != v`: compiled as an ordered comparison, it is false for a NaN.
    return vec4<f16>(select(v, clamp(v, vec4<f32>(-65504.0), vec4<f32>(65504.0)), v == v));
{%- else %}
    return v;
{%- endif %}
}
