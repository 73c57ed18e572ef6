//! The four transforms of a proof on eight lanes.
//!
//! A transform of size 8m is m vectors wide: eight transforms of size m, one per lane and all alike, then twiddles,
//! then m transforms of size 8 across the lanes (the decomposition of J. Cooley and J. Tukey, 1965, with 8 rows).
//! Vectors hold carried numbers below 2p; twiddles are kept times 2^260, so products leave the factor 2^256 as it is.

use ark_ff::{AdditiveGroup, Fp, MontBackend, MontConfig};

use std::marker::PhantomData;

use super::super::{Element, Lazy, Memory};
use super::field::{split_words, Lanes, LANES};
use crate::domain::radices;
use crate::error::Result;
use crate::field::{inverse, pow};

type Limbs = super::super::Limbs<4>;
type Fr<M> = Fp<MontBackend<M, 4>, 4>;
/// A number for all lanes.
type Same = [u64; 5];

/// A factor 2^4 brings an element from times 2^256 to times 2^260.
fn constant<M: MontConfig<4>>(value: Fr<M>) -> Same {
    split_words(&value_words(value * Fr::<M>::from(16u64)))
}

fn value_words<M: MontConfig<4>>(value: Fr<M>) -> Limbs {
    *Lazy::<M, 4>::new(value).words()
}

struct Stage {
    radix: usize,
    /// For each k in 1..m: ω^k, …, ω^{(radix−1)k} of this stage's root; all of them are 1 for k = 0.
    twiddles: Vec<Same>,
}

/// Stages of one direction and size.
struct Stages<M> {
    field: PhantomData<M>,
    stages: Vec<Stage>,
    cube: Same,
    fourth: Same,
}

impl<M: MontConfig<4>> Stages<M> {
    fn new(size: usize, root: Fr<M>) -> Self {
        let mut stages = Vec::new();
        let (mut length, mut stage_root) = (size, root);
        for radix in radices(size) {
            let m = length / radix;
            let powers = (1..m as u64).flat_map(|k| (1..radix as u64).map(move |j| k * j));
            stages.push(Stage { radix, twiddles: powers.map(|e| constant(pow(stage_root, e))).collect() });
            stage_root = pow(stage_root, radix as u64);
            length = m;
        }
        let part = |n: u64| constant(pow(root, size as u64 / n));
        Self { field: PhantomData, stages, cube: part(3), fourth: part(4) }
    }

    /// Leaves the unscaled transform in `x`, in natural order; `y` is scratch of the same length.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
    fn run<'a>(&self, mut x: &'a mut [Lanes<M, 4, 5>], mut y: &'a mut [Lanes<M, 4, 5>]) -> &'a mut [Lanes<M, 4, 5>] {
        let mut stride = 1;
        for stage in &self.stages {
            match stage.radix {
                2 => stage_2(x, y, stride, &stage.twiddles),
                3 => stage_3(x, y, stride, &stage.twiddles, &Lanes::same(&self.cube)),
                _ => stage_4(x, y, stride, &stage.twiddles, &Lanes::same(&self.fourth)),
            }
            (x, y) = (y, x);
            stride *= stage.radix;
        }
        x
    }
}

/// A factor of the stage below 2p: carried and multiplied, or only reduced where the factor is 1.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
fn turn<M: MontConfig<4>>(value: Lanes<M, 4, 5>, twiddle: Option<&Lanes<M, 4, 5>>) -> Lanes<M, 4, 5> {
    match twiddle {
        Some(twiddle) => value.carry().product(twiddle).carry(),
        None => value.reduce(),
    }
}

/// Twiddles of row k: `R` of them, none for k = 0.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
fn row<M: MontConfig<4>, const R: usize>(twiddles: &[Same], k: usize) -> [Option<Lanes<M, 4, 5>>; R] {
    let mut out = [None; R];
    if k > 0 {
        for (out, twiddle) in out.iter_mut().zip(&twiddles[(k - 1) * R..k * R]) {
            *out = Some(Lanes::same(twiddle));
        }
    }
    out
}

#[inline]
#[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
fn stage_2<M: MontConfig<4>>(x: &[Lanes<M, 4, 5>], y: &mut [Lanes<M, 4, 5>], stride: usize, twiddles: &[Same]) {
    let half = x.len() / 2;
    for k in 0..half / stride {
        let [w] = row(twiddles, k);
        for q in 0..stride {
            let (a, b) = (x[q + stride * k], x[q + stride * k + half]);
            y[q + stride * 2 * k] = a.plus(&b).reduce();
            y[q + stride * (2 * k + 1)] = turn(a.minus(&b).plus_p(2), w.as_ref());
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
fn stage_3<M: MontConfig<4>>(
    x: &[Lanes<M, 4, 5>],
    y: &mut [Lanes<M, 4, 5>],
    stride: usize,
    twiddles: &[Same],
    cube: &Lanes<M, 4, 5>,
) {
    let third = x.len() / 3;
    for k in 0..third / stride {
        let [w1, w2] = row(twiddles, k);
        for q in 0..stride {
            let at = q + stride * k;
            let (a, b, c) = (x[at], x[at + third], x[at + 2 * third]);
            let turned = b.minus(&c).plus_p(2).carry().product(cube);
            let to = q + stride * 3 * k;
            y[to] = a.plus(&b).plus(&c).reduce();
            y[to + stride] = turn(a.minus(&c).plus(&turned).plus_p(2), w1.as_ref());
            y[to + 2 * stride] = turn(a.minus(&b).minus(&turned).plus_p(4), w2.as_ref());
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
fn stage_4<M: MontConfig<4>>(
    x: &[Lanes<M, 4, 5>],
    y: &mut [Lanes<M, 4, 5>],
    stride: usize,
    twiddles: &[Same],
    fourth: &Lanes<M, 4, 5>,
) {
    let quarter = x.len() / 4;
    for k in 0..quarter / stride {
        let [w1, w2, w3] = row(twiddles, k);
        for q in 0..stride {
            let at = q + stride * k;
            let (a, b, c, d) = (x[at], x[at + quarter], x[at + 2 * quarter], x[at + 3 * quarter]);
            let (sum_ac, diff_ac, sum_bd) = (a.plus(&c), a.minus(&c).plus_p(2), b.plus(&d));
            let turned = b.minus(&d).plus_p(2).carry().product(fourth);
            let to = q + stride * 4 * k;
            y[to] = sum_ac.plus(&sum_bd).reduce();
            y[to + stride] = turn(diff_ac.plus(&turned), w1.as_ref());
            y[to + 2 * stride] = turn(sum_ac.minus(&sum_bd).plus_p(4), w2.as_ref());
            y[to + 3 * stride] = turn(diff_ac.minus(&turned).plus_p(2), w3.as_ref());
        }
    }
}

struct Direction<M> {
    columns: Stages<M>,
    /// Lane j of vector k: ω^{jk}.
    twist: Vec<Lanes<M, 4, 5>>,
    across: Stages<M>,
}

impl<M: MontConfig<4>> Direction<M> {
    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
    fn new(size: usize, root: Fr<M>) -> Self {
        let m = size / LANES;
        let twist = (0..m as u64).map(|k| vector(&std::array::from_fn(|j| pow(root, j as u64 * k)))).collect();
        Self {
            columns: Stages::new(m, pow(root, LANES as u64)),
            twist,
            across: Stages::new(LANES, pow(root, m as u64)),
        }
    }

    /// The unscaled transform of `x` in `out`, natural order; `x` and `y` are overwritten.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
    fn run(&self, x: &mut [Lanes<M, 4, 5>], y: &mut [Lanes<M, 4, 5>], out: &mut [Lanes<M, 4, 5>]) {
        let columns = self.columns.run(x, y);
        let blocks = columns.len() / LANES;
        for (b, (block, twist)) in columns.chunks_exact(LANES).zip(self.twist.chunks_exact(LANES)).enumerate() {
            let mut rows = [Lanes::ZERO; LANES];
            for ((row, value), twist) in rows.iter_mut().zip(block).zip(twist) {
                *row = value.product(twist).carry();
            }
            let mut lanes = Lanes::transpose(&rows);
            for (k, value) in self.across.run(&mut lanes, &mut rows).iter().enumerate() {
                out[k * blocks + b] = *value;
            }
        }
    }
}

/// Eight elements times 2^260.
#[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
fn vector<M: MontConfig<4>>(values: &[Fr<M>; LANES]) -> Lanes<M, 4, 5> {
    Lanes::from_words(&std::array::from_fn(|lane| value_words(values[lane] * Fr::<M>::from(16u64))))
}

/// Memory of one polynomial's transforms, kept between calls.
pub struct Buffers<M> {
    x: Vec<Lanes<M, 4, 5>>,
    y: Vec<Lanes<M, 4, 5>>,
    out: Vec<Lanes<M, 4, 5>>,
}

impl<M> Memory for Buffers<M> {
    fn bytes(&self) -> usize {
        self.x.bytes() + self.y.bytes() + self.out.bytes()
    }
}

impl<M> Default for Buffers<M> {
    fn default() -> Self {
        Self { x: Vec::new(), y: Vec::new(), out: Vec::new() }
    }
}

pub struct Transforms<M> {
    inverse: Direction<M>,
    forward: Direction<M>,
    /// shift^i / size.
    scale: Vec<Lanes<M, 4, 5>>,
    /// 2^8: makes a product of two elements times 2^256, divided by 2^260 twice, an integer.
    to_integer: Same,
}

impl<M: MontConfig<4>> Transforms<M> {
    /// Columns of whole vectors, and whole blocks of eight columns.
    pub fn supports(size: usize) -> bool {
        size > 0 && size.is_multiple_of(LANES * LANES)
    }

    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
    pub(super) fn new(size: usize, root: Fr<M>, shift: Fr<M>) -> Result<Self> {
        debug_assert!(Self::supports(size));
        let size_inverse = inverse(Fr::<M>::from(size as u64))?;
        let mut scale = Vec::with_capacity(size / LANES);
        let (mut power, mut block) = (size_inverse, [Fr::<M>::ZERO; LANES]);
        for _ in 0..size / LANES {
            for value in &mut block {
                *value = power;
                power *= shift;
            }
            scale.push(vector(&block));
        }
        Ok(Self {
            inverse: Direction::new(size, inverse(root)?),
            forward: Direction::new(size, root),
            scale,
            to_integer: split_words(&[1 << 8, 0, 0, 0]),
        })
    }

    /// From values on the domain to values on the coset, in `buffers.out`.
    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
    pub(super) fn to_coset(&self, values: &[Lazy<M, 4>], buffers: &mut Buffers<M>) {
        let Buffers { x, y, out } = buffers;
        for buffer in [&mut *x, &mut *y, &mut *out] {
            buffer.resize(self.scale.len(), Lanes::ZERO);
        }
        for (x, values) in x.iter_mut().zip(values.chunks_exact(LANES)) {
            *x = Lanes::from_words(&std::array::from_fn(|lane| *values[lane].words()));
        }
        self.inverse.run(x, y, out);
        for ((x, value), scale) in x.iter_mut().zip(out.iter()).zip(&self.scale) {
            *x = value.product(scale).carry();
        }
        self.forward.run(x, y, out);
    }

    /// The integers A·B mod r on the coset, each at most r.
    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
    pub(super) fn product(&self, a: &Buffers<M>, b: &Buffers<M>, out: &mut [Limbs]) {
        let to_integer = Lanes::same(&self.to_integer);
        for ((a, b), out) in a.out.iter().zip(&b.out).zip(out.chunks_exact_mut(LANES)) {
            let words = a.product(b).carry().product(&to_integer).carry().to_words();
            out.copy_from_slice(&words);
        }
    }
}
