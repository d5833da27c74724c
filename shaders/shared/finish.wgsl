// Adds bias, applies the activation, adds the residual and stores four channels of one pixel, if it exists.
fn finish(at: vec2<i32>, n: u32, sum: vec4<f32>) {
    if any(at >= dims.out_size) || n >= {{ cout4 }}u {
        return;
    }
    var v = sum + affine[n];
{%- if activation == "prelu" %}
    v = select(affine[{{ cout4 }}u + n] * v, v, v >= vec4<f32>());
{%- elif activation == "centred-sigmoid" %}
    v = 2.0 / (1.0 + exp(-v)) - 1.0;
{%- endif %}
    let index = u32(at.y * dims.out_size.x + at.x) * {{ cout4 }}u + n;
{%- if residual %}
    v += vec4<f32>(residual[index]);
{%- endif %}
    dst[index] = vec4<{{ out_t }}>(v);
}
