// Sizes, plane positions and colour of the frames of a plan.
struct Geometry {
    frame: vec2<i32>,         // the source frame, luma pixels
    image: vec2<i32>,         // the made frame, luma pixels
    grid: vec2<i32>,          // the network's grid
    grid_scale: vec2<f32>,    // grid pixels per image pixel
    sample_ratio: vec2<f32>,  // frame pixels per pixel of the quarter-size input
    stretch: vec2<f32>,       // frame pixels per image pixel
    planes: array<vec4<u32>, 3>,  // source offset and stride, made offset and stride, bytes
    range: vec4<f32>,         // luma offset and scale, chroma offset and scale: value = (code − offset)·scale
    weights: vec4<f32>,       // blue, green, red in luma
}
