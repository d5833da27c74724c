struct Dims {
    in_size: vec2<i32>,
    out_size: vec2<i32>,
{%- if sliced %}
    // Groups of four channels from one pixel to the next, and before the first.
    in_slice: vec2<u32>,
    out_slice: vec2<u32>,
    residual_slice: vec2<u32>,
{%- endif %}
}

@group(0) @binding(0) var<uniform> dims: Dims;
@group(0) @binding(1) var<storage, read> src: array<vec4<{{ in_t }}>>;
@group(0) @binding(2) var<storage, read> weights: array<{{ weight_element }}>;
@group(0) @binding(3) var<storage, read> affine: array<{{ affine_element }}>;
@group(0) @binding(4) var<storage, read_write> dst: array<vec4<{{ out_t }}>>;
{%- if residual %}
@group(0) @binding(5) var<storage, read> residual: array<vec4<{{ out_t }}>>;
{%- endif %}

// Four channels of the input at a pixel that exists.
fn input(pixel: i32, channel: u32) -> vec4<{{ in_t }}> {
    return src[u32(pixel) * {% if sliced %}dims.in_slice.x + dims.in_slice.y{% else %}{{ cin4 }}u{% endif %} + channel];
}
