// SPDX-License-Identifier: MIT OR Apache-2.0
//! 3×3 convolution with padding 1, or 1×1 (also a linear layer), and what may follow it in the same kernel: bias,
//! activation, residual.

use std::fmt;

use minijinja::context;

use super::{Dims, Lanes, Storage, groups_of_four};
use super::{cpu, template, verify};
use crate::error::{Error, Result};
use crate::gpu::{Binding, Context, Gpu, Kernel, PlanBuilder, Vary};

/// What follows the bias.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Activation {
    None,
    /// `v` where it is not negative, else the channel's slope times `v`.
    Prelu,
    /// 2·sigmoid(v) − 1.
    CentredSigmoid,
    Relu,
    /// v·sigmoid(v).
    Silu,
    /// The exact form, with the error function.
    Gelu,
}

impl From<Option<cpu::Activation>> for Activation {
    fn from(activation: Option<cpu::Activation>) -> Self {
        match activation {
            None => Self::None,
            Some(cpu::Activation::Relu) => Self::Relu,
            Some(cpu::Activation::Silu) => Self::Silu,
            Some(cpu::Activation::Gelu) => Self::Gelu,
        }
    }
}

impl Activation {
    fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Prelu => "prelu",
            Self::CentredSigmoid => "centred-sigmoid",
            Self::Relu => "relu",
            Self::Silu => "silu",
            Self::Gelu => "gelu",
        }
    }
}

/// A tensor of the output's channels and storage that is added to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Residual {
    #[default]
    None,
    /// Of the output's size, added before the activation.
    Before,
    /// Of the output's size, added after the activation.
    After,
    /// Of half the output's size (rounded up), added before the activation, each pixel to 2×2: as a 1×1 convolution of
    /// an upsampled map is the upsampled convolution, this is what is left of upsampling and concatenation before one.
    HalfBefore,
}

impl Residual {
    fn name(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Before | Self::HalfBefore => "before",
            Self::After => "after",
        }
    }
}

/// One convolution, without its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Convolution {
    pub cin: usize,
    pub cout: usize,
    /// 1 or 3; padded by half of it.
    pub kernel: u32,
    /// 1 or 2.
    pub stride: u32,
    /// Pad by repeating the edge instead of by zeros.
    pub edge: bool,
    pub activation: Activation,
    pub residual: Residual,
    /// Whether input, output and residual may be parts of wider tensors, as [`Slice`]s say; otherwise the kernel is
    /// rendered for whole tensors.
    pub sliced: bool,
    pub input: Storage,
    pub weights: Storage,
    pub output: Storage,
}

/// Some channels of every pixel of a tensor, and some pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Slice {
    /// Channels of the whole tensor.
    pub lanes: Lanes,
    /// The first pixel.
    pub start: u32,
}

impl Slice {
    /// All of `channels` channels.
    pub fn all(channels: usize) -> Self {
        Self { lanes: Lanes::all(channels), start: 0 }
    }

    /// Groups of four channels from pixel to pixel, and before the first.
    fn groups(self) -> [u32; 2] {
        let pitch = groups_of_four(self.lanes.channels) as u32;
        [pitch, self.start * pitch + (self.lanes.first / 4) as u32]
    }
}

/// A tensor of one dispatch.
#[derive(Debug, Clone, Copy)]
pub struct Operand<'a> {
    pub buffer: &'a wgpu::Buffer,
    pub slice: Slice,
}

#[repr(C)]
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
struct ConvolutionDims {
    dims: Dims,
    input: [u32; 2],
    output: [u32; 2],
    residual: [u32; 2],
    padding: [u32; 2],
}

/// How a convolution is spread over invocations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tile {
    /// shaders/convolve.wgsl: a workgroup of `px_x` × `px_y` × `oct` invocations, each making `px` pixels of `nv` × 4
    /// channels, from slabs of `ck4` × 4 input channels in workgroup memory.
    Staged { px_x: u32, px_y: u32, oct: u32, px: u32, nv: u32, ck4: u32 },
    /// shaders/convolve_direct.wgsl: `threads` invocations, each making `px` pixels of `nv` × 4 channels.
    Direct { threads: u32, px: u32, nv: u32 },
    /// shaders/convolve_matrix.wgsl: cooperative matrices of `fragment`³ on subgroups of `subgroup` invocations;
    /// `sr` × `sn` subgroups, each making `rows` rows of `fragment` pixels × `nt` fragments of channels, from slabs of
    /// `ck` input channels in workgroup memory.
    Matrix { fragment: u32, subgroup: u32, rows: u32, nt: u32, sr: u32, sn: u32, ck: u32 },
}

impl fmt::Display for Tile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Staged { px_x, px_y, oct, px, nv, ck4 } => {
                write!(f, "staged {px_x}x{px_y}x{oct} px={px} nv={nv} ck4={ck4}")
            }
            Self::Direct { threads, px, nv } => write!(f, "direct {threads} px={px} nv={nv}"),
            Self::Matrix { fragment, subgroup, rows, nt, sr, sn, ck } => {
                write!(f, "matrix {fragment}/{subgroup} rows={rows} nt={nt} subgroups={sr}x{sn} ck={ck}")
            }
        }
    }
}

impl Tile {
    /// Bytes of workgroup memory for a convolution of that kernel and stride.
    pub fn workgroup_bytes(&self, kernel: u32, stride: u32) -> u32 {
        match *self {
            Self::Staged { px_x, px_y, oct, px, nv, ck4 } => {
                let patch = ((px_x * px - 1) * stride + kernel) * ((px_y - 1) * stride + kernel) * ck4;
                16 * (patch + kernel * kernel * ck4 * 4 * oct * nv)
            }
            Self::Direct { .. } => 0,
            Self::Matrix { fragment, rows, sr, sn, ck, .. } => {
                let patch = ((fragment - 1) * stride + kernel) * ((sr * rows - 1) * stride + kernel) * (ck + 8);
                2 * patch + 4 * sr * sn * fragment * fragment
            }
        }
    }

    /// Invocations of a workgroup.
    pub fn invocations(&self) -> u32 {
        match *self {
            Self::Staged { px_x, px_y, oct, .. } => px_x * px_y * oct,
            Self::Direct { threads, .. } => threads,
            Self::Matrix { subgroup, sr, sn, .. } => subgroup * sr * sn,
        }
    }
}

/// Fragment and subgroup sizes of the cooperative matrices that kernels here can use: square, f16 into f32, on
/// subgroups of one fixed size.
pub fn matrix_shapes(gpu: &Gpu) -> Vec<(u32, u32)> {
    let info = gpu.info();
    if info.subgroup_min_size != info.subgroup_max_size {
        return Vec::new();
    }
    let usable = |p: &&wgpu::CooperativeMatrixProperties| {
        p.m_size == p.n_size
            && p.n_size == p.k_size
            && p.ab_type == wgpu::CooperativeScalarType::F16
            && p.cr_type == wgpu::CooperativeScalarType::F32
    };
    gpu.cooperative_matrices().iter().filter(usable).map(|p| (p.m_size, info.subgroup_min_size)).collect()
}

/// The constants of one convolution on the GPU.
#[derive(Debug, Clone)]
pub struct ConvolutionBuffers {
    weights: wgpu::Buffer,
    affine: wgpu::Buffer,
}

/// Weights of one convolution: `weight` is `[cout][cin][kernel][kernel]`, `slope` empty unless PReLU follows.
#[derive(Debug, Clone, Copy)]
pub struct ConvolutionWeights<'a> {
    pub weight: &'a [f32],
    pub bias: &'a [f32],
    pub slope: &'a [f32],
}

impl Convolution {
    /// A convolution of whole tensors in one storage, with stride 1, zero padding, and nothing after the bias.
    pub fn new(cin: usize, cout: usize, kernel: u32, storage: Storage) -> Self {
        Self {
            cin,
            cout,
            kernel,
            stride: 1,
            edge: false,
            activation: Activation::None,
            residual: Residual::None,
            sliced: false,
            input: storage,
            weights: storage,
            output: storage,
        }
    }

    /// The size of the output for an input of `size`.
    pub fn output_size(&self, (width, height): (u32, u32)) -> (u32, u32) {
        (width.div_ceil(self.stride), height.div_ceil(self.stride))
    }

    /// A tile that is good for the adapter and the size of the output, checked on the device where that is called for.
    pub fn default_tile(&self, context: &Context, size: (u32, u32)) -> Result<Tile> {
        let limits = context.gpu.limits();
        // A CPU emulates them; its drivers take half a minute to compile one kernel.
        let shapes = if context.gpu.is_cpu() { Vec::new() } else { matrix_shapes(&context.gpu) };
        for (fragment, subgroup) in shapes {
            let tile = self.matrix_tile(fragment, subgroup, size);
            if self.accepts(&tile, &limits) && verify::convolution(context, self, &tile)? {
                return Ok(tile);
            }
        }
        Ok(self.plain_tile(&context.gpu, size))
    }

    /// A tile of cooperative matrices for an output of that size; `fragment` and `subgroup` as in [`matrix_shapes`].
    pub fn matrix_tile(&self, fragment: u32, subgroup: u32, (width, height): (u32, u32)) -> Tile {
        let fragments = (self.cout as u32).div_ceil(fragment);
        // Five fragments side by side read the least per product; fewer where they would not divide the channels.
        let nt = [5, 4, 3, 2].into_iter().find(|nt| fragments.is_multiple_of(*nt)).unwrap_or(1).min(fragments);
        let pixels = width * height;
        if self.kernel == 1 || (self.cin as u32).is_multiple_of(4 * fragment) {
            return self.divided_tile(fragment, subgroup, pixels);
        }
        let ck = (fragment * 3).min((groups_of_four(self.cin) as u32 * 4).next_multiple_of(fragment));
        let (rows, sr, sn) = match () {
            () if pixels <= 5_000 => (2, 2, 1),
            () if pixels <= 16_384 => (2, 4, 1),
            () => (2, 2, (fragments / nt).min(3)),
        };
        Tile::Matrix { fragment, subgroup, rows, nt, sr, sn, ck }
    }

    /// A tile for channels that are powers of two or nearly so, as networks for recognition have them.
    fn divided_tile(&self, fragment: u32, subgroup: u32, pixels: u32) -> Tile {
        let fragments = (self.cout as u32).div_ceil(fragment);
        let depth = (self.cin as u32).div_ceil(fragment);
        // The widest slab that divides the depth has no zeros to multiply.
        let ck = fragment * [4, 3, 2].into_iter().find(|n| depth.is_multiple_of(*n)).unwrap_or(1);
        // The largest tile that still occupies a large chip; else the smallest.
        let tiles = [(4, 4, 2, 2), (2, 4, 2, 2), (2, 4, 2, 1), (2, 2, 2, 1), (1, 2, 2, 1)];
        let fits = |&(_, nt, _, sn): &(u32, u32, u32, u32)| nt * sn <= fragments;
        let groups = |&(rows, nt, sr, sn): &(u32, u32, u32, u32)| {
            pixels.div_ceil(fragment * rows * sr) * fragments.div_ceil(nt * sn)
        };
        let enough = tiles.iter().filter(|t| fits(t)).find(|t| groups(t) >= 200);
        let (rows, nt, sr, sn) = enough.copied().unwrap_or((1, fragments.min(2), 2, 1));
        Tile::Matrix { fragment, subgroup, rows, nt, sr, sn, ck }
    }

    /// A tile without cooperative matrices that is good for the adapter and the size of the output.
    pub fn plain_tile(&self, gpu: &Gpu, size: (u32, u32)) -> Tile {
        self.plain_tile_on(gpu.is_cpu(), &gpu.limits(), size)
    }

    /// [`Convolution::plain_tile`] of any adapter: whether it runs on the CPU, and its limits.
    pub fn plain_tile_on(&self, is_cpu: bool, limits: &wgpu::Limits, (width, height): (u32, u32)) -> Tile {
        let cout4 = groups_of_four(self.cout) as u32;
        if is_cpu {
            // Measured on lavapipe (examples/bench/README.md): twice as fast as 2 pixels × 12 channels.
            let nv = if cout4.is_multiple_of(2) { 2 } else { 1 };
            return Tile::Direct { threads: 32, px: 4, nv };
        }
        // Wide channels: eight invocations side by side along the channels; narrow ones: all of them.
        let oct = cout4.next_power_of_two().min(8);
        let nv = if cout4 >= 16 { 2 } else { 1 };
        // Small pictures need small tiles to occupy the whole chip.
        let px = if width * height > 16_384 { 4 } else { 2 };
        let (px_x, px_y) = if oct >= 8 { (4, 4) } else { (8, 8) };
        let tile = |ck4| Tile::Staged { px_x, px_y, oct, px, nv, ck4 };
        let memory = limits.max_compute_workgroup_storage_size.min(24 * 1024);
        let fits = |ck4: &u32| tile(*ck4).workgroup_bytes(self.kernel, self.stride) <= memory;
        // One tap needs more channels between two barriers than nine do.
        let slabs = if self.kernel == 1 { [8, 4, 2, 1].as_slice() } else { &[2, 1] };
        tile(slabs.iter().copied().find(fits).unwrap_or(1))
    }

    /// Every tile worth trying on the adapter.
    pub fn candidates(&self, gpu: &Gpu) -> Vec<Tile> {
        let matrices = if gpu.is_cpu() { Vec::new() } else { matrix_shapes(gpu) };
        self.candidates_on(gpu.is_cpu(), &gpu.limits(), &matrices)
    }

    /// [`Convolution::candidates`] of any adapter: whether it runs on the CPU, its limits, and its matrices as
    /// [`matrix_shapes`] lists them.
    pub fn candidates_on(&self, is_cpu: bool, limits: &wgpu::Limits, matrices: &[(u32, u32)]) -> Vec<Tile> {
        let mut tiles = Vec::new();
        if is_cpu {
            for (threads, px, nv) in itertools::iproduct!([8, 32, 64], [1, 2, 4], [1, 2, 3, 5]) {
                tiles.push(Tile::Direct { threads, px, nv });
            }
        }
        let shapes = [(4, 4), (8, 4), (8, 8), (16, 4), (4, 8)];
        let cout4 = groups_of_four(self.cout) as u32;
        let slabs = if self.kernel == 1 { [2, 4, 8] } else { [1, 2, 5] };
        for ((px_x, px_y), oct, px, nv, ck4) in
            itertools::iproduct!(shapes, [2, 4, 5, 8, 10, 15], [1, 2, 4], [1, 2, 3, 4], slabs)
        {
            let tile = Tile::Staged { px_x, px_y, oct, px, nv, ck4 };
            let wasted = (cout4.next_multiple_of(oct * nv) - cout4) * 4 > cout4;
            let threads = tile.invocations();
            let sensible = (32..=256).contains(&threads) && px * nv <= 12 && ck4 as usize <= groups_of_four(self.cin);
            if sensible && !wasted && tile.workgroup_bytes(self.kernel, self.stride) <= 48 * 1024 {
                tiles.push(tile);
            }
        }
        for &(fragment, subgroup) in matrices {
            let fragments = (self.cout as u32).div_ceil(fragment);
            for (rows, nt, (sr, sn), ck) in itertools::iproduct!(
                [1, 2, 4],
                [1, 2, 3, 4, 5],
                [(1, 1), (2, 1), (4, 1), (1, 2), (2, 2), (1, 3), (2, 3), (4, 2)],
                [1, 2, 3, 4, 5].map(|n| n * fragment)
            ) {
                let tile = Tile::Matrix { fragment, subgroup, rows, nt, sr, sn, ck };
                let wasted = (fragments.next_multiple_of(sn * nt) - fragments) * 8 > fragments;
                if !wasted && rows * nt >= 2 && tile.workgroup_bytes(self.kernel, self.stride) <= 48 * 1024 {
                    tiles.push(tile);
                }
            }
        }
        tiles.retain(|tile| self.accepts(tile, limits));
        tiles
    }

    /// Whether `tile` can compute this convolution on a device with these limits.
    pub fn accepts(&self, tile: &Tile, limits: &wgpu::Limits) -> bool {
        let divides = match *tile {
            Tile::Direct { nv, .. } => (groups_of_four(self.cout) as u32).is_multiple_of(nv),
            Tile::Staged { .. } => true,
            // Its loads know neither edge padding nor f32.
            Tile::Matrix { fragment, ck, .. } => {
                !self.edge && self.input == Storage::F16 && self.weights == Storage::F16 && ck.is_multiple_of(fragment)
            }
        };
        divides
            && tile.workgroup_bytes(self.kernel, self.stride) <= limits.max_compute_workgroup_storage_size
            && tile.invocations() <= limits.max_compute_invocations_per_workgroup
    }

    /// Renders the kernel.
    pub fn kernel(&self, label: &str, tile: &Tile) -> Result<Kernel> {
        let mut bindings = vec![Binding::Uniform, Binding::Read, Binding::Read, Binding::Read, Binding::Write];
        if self.residual != Residual::None {
            bindings.push(Binding::Read);
        }
        let matrix = matches!(tile, Tile::Matrix { .. });
        let element = |scalar: &str| if matrix { scalar.to_owned() } else { format!("vec4<{scalar}>") };
        let cout4 = groups_of_four(self.cout);
        let common = context! {
            half => [self.input, self.weights, self.output].contains(&Storage::F16),
            in_t => self.input.name(),
            weight_element => element(self.weights.name()),
            affine_element => element("f32"),
            affine4 => match *tile {
                Tile::Matrix { fragment, .. } => self.cout.next_multiple_of(fragment as usize) / 4,
                _ => cout4,
            },
            bias_in_sum => matrix,
            out_t => self.output.name(),
            cin4 => groups_of_four(self.cin),
            cout4,
            ks => self.kernel,
            stride => self.stride,
            edge => self.edge,
            residual => self.residual.name(),
            residual_half => self.residual == Residual::HalfBefore,
            sliced => self.sliced,
            flat => self.row(tile).unwrap_or(0),
            activation => self.activation.name(),
        };
        match *tile {
            Tile::Staged { px_x, px_y, oct, px, nv, ck4 } => {
                let values = context! { px_x, px_y, oct, px, nv, ck4, ..common };
                template::kernel("convolve.wgsl", label, bindings, values)
            }
            Tile::Direct { threads, px, nv } => {
                let values = context! { threads, px, nv, ..common };
                template::kernel("convolve_direct.wgsl", label, bindings, values)
            }
            Tile::Matrix { fragment, subgroup, rows, nt, sr, sn, ck } => {
                let npad = self.cout.next_multiple_of(fragment as usize);
                let values = context! {
                    f => fragment, subgroup_size => subgroup, rows, nt, sr, sn, ck, npad, ..common
                };
                template::kernel("convolve_matrix.wgsl", label, bindings, values)
            }
        }
    }

    /// Pixels that a workgroup takes in a row where neighbourhoods do not matter: one tap at every pixel. Rows then
    /// follow each other without regard to the picture's, so that no tile reaches over its edge.
    fn row(&self, tile: &Tile) -> Option<u32> {
        match *tile {
            _ if (self.kernel, self.stride) != (1, 1) => None,
            Tile::Staged { px_x, px, .. } => Some(px_x * px),
            Tile::Direct { .. } => None,
            Tile::Matrix { fragment, .. } => Some(fragment),
        }
    }

    fn workgroups(&self, tile: &Tile, size: (u32, u32)) -> [u32; 3] {
        let (width, height) = self.row(tile).map_or(size, |row| (row, (size.0 * size.1).div_ceil(row)));
        let cout4 = groups_of_four(self.cout) as u32;
        match *tile {
            Tile::Staged { px_x, px_y, oct, px, nv, .. } => {
                [width.div_ceil(px_x * px), height.div_ceil(px_y), cout4.div_ceil(oct * nv)]
            }
            Tile::Direct { threads, px, nv } => [(width.div_ceil(px) * height).div_ceil(threads), 1, cout4 / nv],
            Tile::Matrix { fragment, rows, nt, sr, sn, .. } => {
                let fragments = (self.cout as u32).div_ceil(fragment);
                [width.div_ceil(fragment), height.div_ceil(sr * rows), fragments.div_ceil(sn * nt)]
            }
        }
    }

    /// Packs the constants as the tile's kernel reads them (the layouts stand in the shaders).
    pub fn upload(
        &self,
        context: &Context,
        label: &str,
        tile: &Tile,
        source: ConvolutionWeights<'_>,
    ) -> ConvolutionBuffers {
        let (weights, cout_padded) = match *tile {
            Tile::Staged { .. } | Tile::Direct { .. } => self.pack_taps(source.weight),
            Tile::Matrix { fragment, ck, .. } => self.pack_fragments(source.weight, fragment as usize, ck as usize),
        };
        let mut affine = vec![0.0; 2 * cout_padded];
        affine[..source.bias.len()].copy_from_slice(source.bias);
        affine[cout_padded..][..source.slope.len()].copy_from_slice(source.slope);
        let usage = wgpu::BufferUsages::STORAGE;
        ConvolutionBuffers {
            weights: context.constant(label, &self.weights.encode(&weights), usage),
            affine: context.constant(label, bytemuck::cast_slice(&affine), usage),
        }
    }

    /// `[tap][cin, padded][cout, padded]`, and the padded number of output channels.
    fn pack_taps(&self, weight: &[f32]) -> (Vec<f32>, usize) {
        let (cin_padded, cout_padded) = (groups_of_four(self.cin) * 4, groups_of_four(self.cout) * 4);
        let taps = self.taps();
        let mut packed = vec![0.0; taps * cin_padded * cout_padded];
        for (index, &value) in weight.iter().enumerate() {
            let (tap, ci, co) = (index % taps, index / taps % self.cin, index / taps / self.cin);
            packed[(tap * cin_padded + ci) * cout_padded + co] = value;
        }
        (packed, cout_padded)
    }

    /// `[slab][tap][k fragment][n fragment][k][n]`, and the padded number of output channels.
    fn pack_fragments(&self, weight: &[f32], fragment: usize, ck: usize) -> (Vec<f32>, usize) {
        let cout_padded = self.cout.next_multiple_of(fragment);
        let slabs = (groups_of_four(self.cin) * 4).div_ceil(ck);
        let (kf, nf) = (ck / fragment, cout_padded / fragment);
        let taps = self.taps();
        let mut packed = vec![0.0; slabs * taps * ck * cout_padded];
        for (index, &value) in weight.iter().enumerate() {
            let (tap, ci, co) = (index % taps, index / taps % self.cin, index / taps / self.cin);
            let (slab, k) = (ci / ck, ci % ck);
            let block = ((slab * taps + tap) * kf + k / fragment) * nf + co / fragment;
            packed[(block * fragment + k % fragment) * fragment + co % fragment] = value;
        }
        (packed, cout_padded)
    }

    fn taps(&self) -> usize {
        (self.kernel * self.kernel) as usize
    }

    /// Adds the dispatch that convolves `src` of `size` into `dst` to a plan; all are whole tensors.
    #[expect(clippy::too_many_arguments, reason = "a dispatch is its kernel, constants, shape and three tensors")]
    pub fn step(
        &self,
        plan: &mut PlanBuilder,
        label: &str,
        tile: &Tile,
        constants: &ConvolutionBuffers,
        size: (u32, u32),
        src: &wgpu::Buffer,
        dst: &wgpu::Buffer,
        residual: Option<&wgpu::Buffer>,
    ) -> Result<()> {
        let whole = |buffer, channels| Operand { buffer, slice: Slice::all(channels) };
        let residual = residual.map(|buffer| whole(buffer, self.cout));
        self.sliced_step(plan, label, tile, constants, size, whole(src, self.cin), whole(dst, self.cout), residual)
    }

    /// [`Convolution::step`] on parts of tensors. Two operands must not be parts of one buffer if one is `dst`.
    ///
    /// # Errors
    /// [`Error::Usage`] where an operand is a part and the convolution is not [`Convolution::sliced`], or a residual is
    /// missing or not wanted.
    #[expect(clippy::too_many_arguments, reason = "a dispatch is its kernel, constants, shape and three tensors")]
    pub fn sliced_step(
        &self,
        plan: &mut PlanBuilder,
        label: &str,
        tile: &Tile,
        constants: &ConvolutionBuffers,
        size: (u32, u32),
        src: Operand<'_>,
        dst: Operand<'_>,
        residual: Option<Operand<'_>>,
    ) -> Result<()> {
        let output = self.output_size(size);
        let whole = |operand: &Operand<'_>, channels| operand.slice.groups() == Slice::all(channels).groups();
        let all_whole = whole(&src, self.cin) && [Some(dst), residual].iter().flatten().all(|o| whole(o, self.cout));
        if !self.sliced && !all_whole || residual.is_some() != (self.residual != Residual::None) {
            return Err(Error::Usage(format!("{label}: the operands do not fit {self:?}")));
        }
        let dims = ConvolutionDims {
            dims: Dims::new(size, output),
            input: src.slice.groups(),
            output: dst.slice.groups(),
            residual: residual.map_or([0; 2], |residual| residual.slice.groups()),
            padding: [0; 2],
        };
        let dims = plan.uniform(label, bytemuck::bytes_of(&dims));
        plan.step(self.kernel(label, tile)?, self.workgroups(tile, output), Vary::None, |_| {
            let mut buffers = vec![
                dims.clone(),
                src.buffer.clone(),
                constants.weights.clone(),
                constants.affine.clone(),
                dst.buffer.clone(),
            ];
            buffers.extend(residual.map(|residual| residual.buffer.clone()));
            buffers
        });
        plan.flops(2 * (self.taps() * self.cin * self.cout) as u64 * u64::from(output.0) * u64::from(output.1));
        Ok(())
    }
}
