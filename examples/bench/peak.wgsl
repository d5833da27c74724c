// SPDX-License-Identifier: MIT OR Apache-2.0
// Multiply-adds and nothing else: sixteen independent chains of vec4<f32> an invocation, 2 × 16 × 4 × 256 operations.
@group(0) @binding(0) var<storage, read_write> dst: array<f32>;

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    // Different in every component and chain, so that no two multiply-adds are the same.
    let a = vec4<f32>(1.0, 0.999, 0.998, 0.997) + f32(id.x) * 1e-9;
    let b = vec4<f32>(0.1, 0.2, 0.3, 0.4) * f32(id.x);
    var v: array<vec4<f32>, 16>;
    for (var i = 0u; i < 16u; i++) {
        v[i] = vec4<f32>(f32(i), f32(i * i), f32(i) + 0.5, f32(i) * f32(id.x));
    }
    for (var n = 0u; n < 256u; n++) {
        v[0] = fma(v[0], a, b); v[1] = fma(v[1], a, b); v[2] = fma(v[2], a, b); v[3] = fma(v[3], a, b);
        v[4] = fma(v[4], a, b); v[5] = fma(v[5], a, b); v[6] = fma(v[6], a, b); v[7] = fma(v[7], a, b);
        v[8] = fma(v[8], a, b); v[9] = fma(v[9], a, b); v[10] = fma(v[10], a, b); v[11] = fma(v[11], a, b);
        v[12] = fma(v[12], a, b); v[13] = fma(v[13], a, b); v[14] = fma(v[14], a, b); v[15] = fma(v[15], a, b);
    }
    var sum = vec4<f32>();
    for (var i = 0u; i < 16u; i++) {
        sum += v[i];
    }
    // Never true, unknown to the compiler: the work cannot be left out and memory does not matter.
    if sum.x == 12345.678 {
        dst[0] = sum.y;
    }
}
