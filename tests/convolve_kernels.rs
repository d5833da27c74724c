// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every variant of the convolution kernels is valid WGSL and becomes SPIR-V: most machines that test cannot run them
//! all (cooperative matrices least).

use gstframecast::nn::Storage;
use gstframecast::nn::convolve::{Activation, Convolution, Residual, Tile};
use naga::back::spv;
use naga::valid::{Capabilities, ValidationFlags, Validator};

fn check(spec: &Convolution, tile: &Tile) {
    let kernel = spec.kernel("convolve", tile).unwrap();
    let name = format!("{spec:?} {tile:?}");
    let module = naga::front::wgsl::parse_str(&kernel.wgsl)
        .unwrap_or_else(|error| panic!("{name}: {}", error.emit_to_string(&kernel.wgsl)));
    let info = Validator::new(ValidationFlags::all(), Capabilities::all())
        .validate(&module)
        .unwrap_or_else(|error| panic!("{name}: {}", error.emit_to_string(&kernel.wgsl)));
    let options = spv::Options { lang_version: (1, 4), ..Default::default() };
    spv::write_vec(&module, &info, &options, None).unwrap_or_else(|error| panic!("{name}: {error}"));
    let bound = module.global_variables.iter().filter(|(_, variable)| variable.binding.is_some()).count();
    assert_eq!(bound, kernel.bindings.len(), "{name}");
}

#[test]
fn every_variant_is_valid() {
    let limits = wgpu::Limits {
        max_compute_workgroup_storage_size: 48 << 10,
        max_compute_invocations_per_workgroup: 1024,
        ..wgpu::Limits::default()
    };
    let activations = [
        Activation::None,
        Activation::Prelu,
        Activation::CentredSigmoid,
        Activation::Relu,
        Activation::Silu,
        Activation::Gelu,
    ];
    let residuals = [Residual::None, Residual::Before, Residual::After, Residual::HalfBefore];
    let mut case = 0;
    let mut matrices = 0;
    for (kernel, stride) in [(1, 1), (1, 2), (3, 1), (3, 2)] {
        for (residual, sliced, input) in itertools::iproduct!(residuals, [false, true], [Storage::F16, Storage::F32]) {
            let (cin, cout) = [(3, 32), (64, 64), (256, 80), (120, 240)][case % 4];
            let spec = Convolution {
                stride,
                residual,
                sliced,
                activation: activations[case % activations.len()],
                output: if case % 5 == 0 { Storage::F32 } else { input },
                ..Convolution::new(cin, cout, kernel, input)
            };
            let size = [(20, 20), (160, 160)][case % 2];
            let mut tiles = vec![spec.plain_tile_on(true, &limits, size), spec.plain_tile_on(false, &limits, size)];
            for (fragment, subgroup) in [(16, 32), (8, 8)] {
                let tile = spec.matrix_tile(fragment, subgroup, size);
                if spec.accepts(&tile, &limits) {
                    tiles.push(tile);
                    matrices += 1;
                }
            }
            tiles.iter().for_each(|tile| check(&spec, tile));
            case += 1;
        }
    }
    // All f16 cases on both sizes of matrices.
    assert_eq!(matrices, 4 * 4 * 2 * 2);
}
