// The network's answer `answer` ([grid/8][2] vec4<f32>: flows, mask logit) at a position of the grid, upsampled
// bilinearly.
struct Flow {
    flow: vec4<f32>,  // (fx0, fy0, fx1, fy1) in grid pixels
    mask: f32,        // weight of frame 0
}

fn flow_at(at: vec2<f32>) -> Flow {
    let size = geometry.grid / 8;
    let p = clamp((at + 0.5) / 8.0 - 0.5, vec2<f32>(), vec2<f32>(size - 1));
    let base = floor(p);
    let f = p - base;
    let a = vec2<i32>(base);
    let b = min(a + 1, size - 1);
    let i = vec4<u32>(vec4<i32>(a.x, b.x, a.x, b.x) + vec4<i32>(a.y, a.y, b.y, b.y) * size.x) * 2u;
    let top = answer[i.x] * (1.0 - f.x) + answer[i.y] * f.x;
    let bottom = answer[i.z] * (1.0 - f.x) + answer[i.w] * f.x;
    let mask_top = answer[i.x + 1u].x * (1.0 - f.x) + answer[i.y + 1u].x * f.x;
    let mask_bottom = answer[i.z + 1u].x * (1.0 - f.x) + answer[i.w + 1u].x * f.x;
    let logit = mask_top * (1.0 - f.y) + mask_bottom * f.y;
    return Flow((top * (1.0 - f.y) + bottom * f.y) * 8.0, 1.0 / (1.0 + exp(-logit)));
}
