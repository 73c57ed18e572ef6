//! The innermost loops, behind one boundary: field arithmetic and many independent affine additions at once.
//!
//! A caller hands over pairs of points and gets their sums; one field inversion is shared by the whole batch
//! (P. Montgomery's trick), so an addition costs about six multiplications. A faster kernel for a particular
//! processor replaces [`Kernel::add_pairs`] and nothing else.

#[cfg(target_arch = "x86_64")]
pub mod ifma;
mod inverse;
mod lazy;
mod portable;

use ark_bn254::{Fq, Fq2, FqConfig, FrConfig, G1Affine};
use ark_ec::AffineRepr;
use ark_ff::Field;

use crate::error::{Error, Result};

pub use lazy::{Lazy, Limbs};

pub type Fp = Lazy<FqConfig>;
pub type Scalar = Lazy<FrConfig>;

/// Affine G1 point without a flag. Infinity has y = 0, in the representation 0: the group has odd order, so no
/// other point has y = 0.
///
/// Aligned to a cache line, which it fills.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct Point {
    pub x: Fp,
    pub y: Fp,
}

impl Point {
    pub const INFINITY: Self = Self { x: Fp::ZERO, y: Fp::ZERO };

    #[inline(always)]
    pub fn is_infinity(&self) -> bool {
        self.y.has_zero_limbs()
    }

    pub fn from_affine(point: &G1Affine) -> Self {
        point.xy().map_or(Self::INFINITY, |(x, y)| Self { x: Fp::new(x), y: Fp::new(y) })
    }

    pub fn to_affine(self) -> G1Affine {
        if self.is_infinity() {
            G1Affine::zero()
        } else {
            G1Affine::new_unchecked(self.x.reduce(), self.y.reduce())
        }
    }
}

/// Index into a point table; the top bit asks for the negated point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ref(u32);

impl Ref {
    const NEGATE: u32 = 1 << 31;
    /// Largest table a reference can address.
    pub const INDEX_MAX: usize = (Self::NEGATE - 1) as usize;

    /// `index` is at most [`Self::INDEX_MAX`]: tables are bounded far below when they are built.
    pub fn new(index: usize, negate: bool) -> Self {
        debug_assert!(index <= Self::INDEX_MAX);
        Self(index as u32 | if negate { Self::NEGATE } else { 0 })
    }

    #[inline(always)]
    fn index(self) -> usize {
        (self.0 & !Self::NEGATE) as usize
    }

    #[inline(always)]
    fn negates(self) -> bool {
        self.0 & Self::NEGATE != 0
    }

    #[inline(always)]
    pub fn load(self, table: &[Point]) -> Point {
        let point = &table[self.index()];
        Point { x: point.x, y: point.y.negate_if(self.negates()) }
    }
}

/// `out[to]` becomes `left + right`.
#[derive(Debug, Clone, Copy)]
pub struct Pair {
    pub left: Ref,
    pub right: Ref,
    pub to: u32,
}

/// Coordinates of a group as limbs below 2p of `D` elements of the prime field.
pub trait Coordinate<const D: usize>: Field {
    fn to_words(&self) -> [Limbs; D];
    fn from_words(words: [Limbs; D]) -> Self;
}

impl Coordinate<1> for Fq {
    fn to_words(&self) -> [Limbs; 1] {
        [*Fp::new(*self).limbs()]
    }

    fn from_words([c0]: [Limbs; 1]) -> Self {
        Fp::from_limbs(c0).reduce()
    }
}

impl Coordinate<2> for Fq2 {
    fn to_words(&self) -> [Limbs; 2] {
        [*Fp::new(self.c0).limbs(), *Fp::new(self.c1).limbs()]
    }

    fn from_words([c0, c1]: [Limbs; 2]) -> Self {
        Self::new(Fp::from_limbs(c0).reduce(), Fp::from_limbs(c1).reduce())
    }
}

/// x and y, canonical, of a point that is not infinity, and whether to subtract it.
#[derive(Debug, Clone, Copy)]
pub struct Term<const D: usize> {
    pub x: [Limbs; D],
    pub y: [Limbs; D],
    pub negate: bool,
}

/// Jacobian coordinates.
pub type Jacobian<const D: usize> = [[Limbs; D]; 3];

/// Memory of a batch, kept between calls.
#[derive(Default)]
pub struct Scratch {
    portable: portable::Scratch,
    #[cfg(target_arch = "x86_64")]
    ifma: ifma::Scratch,
}

/// Names the kernel to use instead of the fastest one.
pub const KERNEL_VARIABLE: &str = "SITS_KERNEL";

/// Which code runs the innermost loops. All kernels give the same sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    Scalar,
    #[cfg(target_arch = "x86_64")]
    Ifma(ifma::Ifma),
}

impl Kernel {
    pub fn fastest() -> Self {
        #[cfg(target_arch = "x86_64")]
        if let Some(ifma) = ifma::Ifma::detect() {
            return Self::Ifma(ifma);
        }
        Self::Scalar
    }

    /// Errors: `kernel-unknown`, `kernel-unavailable` on this processor.
    pub fn named(name: &str) -> Result<Self> {
        match name {
            "scalar" => Ok(Self::Scalar),
            "ifma" => Some(Self::fastest())
                .filter(|fastest| fastest.name() == name)
                .ok_or_else(|| Error::new("kernel-unavailable", "this processor lacks AVX-512 IFMA and VBMI2")),
            _ => Err(Error::new("kernel-unknown", format!("{KERNEL_VARIABLE} is {name:?}, expected scalar or ifma"))),
        }
    }

    /// The one [`KERNEL_VARIABLE`] names, else the fastest.
    pub fn from_environment() -> Result<Self> {
        match std::env::var_os(KERNEL_VARIABLE) {
            None => Ok(Self::fastest()),
            Some(name) => Self::named(&name.to_string_lossy()),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            #[cfg(target_arch = "x86_64")]
            Self::Ifma(_) => "ifma",
        }
    }

    /// A few sums that add up to that of all `terms`, but for those put into `left`, which the caller adds.
    pub fn sum<const D: usize>(
        self,
        terms: impl Iterator<Item = Term<D>>,
        left: &mut Vec<Term<D>>,
    ) -> impl Iterator<Item = Jacobian<D>> {
        let lanes = match self {
            Self::Scalar => {
                left.extend(terms);
                None
            }
            #[cfg(target_arch = "x86_64")]
            Self::Ifma(ifma) => ifma.sum(terms, left),
        };
        lanes.into_iter().flat_map(<[Jacobian<D>; 8]>::into_iter)
    }

    /// `out[pair.to] = table[pair.left] + table[pair.right]` for all pairs, with one inversion.
    pub fn add_pairs(self, table: &[Point], pairs: &[Pair], out: &mut [Point], scratch: &mut Scratch) {
        match self {
            Self::Scalar => portable::add_pairs(table, pairs, out, &mut scratch.portable),
            #[cfg(target_arch = "x86_64")]
            Self::Ifma(ifma) => ifma.add_pairs(table, pairs, out, &mut scratch.ifma),
        }
    }
}

#[cfg(test)]
mod tests {
    use ark_bn254::{g1, g2, Fr, G1Projective};
    use ark_ec::short_weierstrass::{Affine, Projective, SWCurveConfig};
    use ark_ec::{AdditiveGroup, CurveGroup, PrimeGroup};

    use super::*;

    fn kernels() -> [Kernel; 2] {
        [Kernel::Scalar, Kernel::fastest()]
    }

    fn multiples(count: u64) -> Vec<Point> {
        (0..count).map(|i| Point::from_affine(&(G1Projective::generator() * Fr::from(i)).into_affine())).collect()
    }

    /// All pairs out of {0, 1, …, 7}·G with both signs: chord, doubling, cancellation and infinity on either side.
    #[test]
    fn every_case_is_exact() {
        let table = multiples(8);
        let mut pairs = Vec::new();
        let mut expected = Vec::new();
        for i in 0..8usize {
            for j in 0..8usize {
                for (si, sj) in [(false, false), (false, true), (true, false), (true, true)] {
                    pairs.push(Pair { left: Ref::new(i, si), right: Ref::new(j, sj), to: pairs.len() as u32 });
                    let signed = |n: usize, s: bool| if s { -Fr::from(n as u64) } else { Fr::from(n as u64) };
                    expected.push((G1Projective::generator() * (signed(i, si) + signed(j, sj))).into_affine());
                }
            }
        }
        // Every case passes through every lane and position of a batch, among others of its kind or alone.
        let sums = pairs.iter().copied().zip(expected).collect::<Vec<_>>();
        for kernel in kernels() {
            for turn in 0..8 {
                let turned: Vec<_> = sums[turn..].iter().chain(&sums[..turn]).copied().collect();
                for size in [1, 5, 7, 8, 9, 15, 16, 17, 23, turned.len()] {
                    turned.chunks(size).for_each(|batch| check(kernel, &table, batch));
                }
            }
        }
    }

    fn check(kernel: Kernel, table: &[Point], batch: &[(Pair, G1Affine)]) {
        let pairs: Vec<Pair> = batch.iter().enumerate().map(|(to, (p, _))| Pair { to: to as u32, ..*p }).collect();
        let mut out = vec![Point::INFINITY; pairs.len()];
        kernel.add_pairs(table, &pairs, &mut out, &mut Scratch::default());
        for ((pair, expected), found) in batch.iter().zip(&out) {
            assert_eq!(found.to_affine(), *expected, "{}, {pair:?}", kernel.name());
        }
    }

    /// Random batches: results lie where they belong, also when the batch is longer than any block.
    #[test]
    fn large_batches_equal_the_scalar_kernel() {
        let table = multiples(97);
        let mut out = [vec![Point::INFINITY; 3000], vec![Point::INFINITY; 3000]];
        let pair = |i: usize| {
            let (left, right) = (i * 7919 % 97, i * 104_729 % 89);
            Pair {
                left: Ref::new(left, i.is_multiple_of(3)),
                right: Ref::new(right, i.is_multiple_of(5)),
                to: (i * 7 % 3000) as u32,
            }
        };
        let pairs: Vec<Pair> = (0..2999).map(pair).collect();
        for (out, kernel) in out.iter_mut().zip(kernels()) {
            kernel.add_pairs(&table, &pairs, out, &mut Scratch::default());
        }
        for (found, expected) in out[1].iter().zip(&out[0]) {
            assert_eq!(found.to_affine(), expected.to_affine());
        }
    }

    #[test]
    fn an_empty_batch_is_fine() {
        for kernel in kernels() {
            kernel.add_pairs(&[], &[], &mut [], &mut Scratch::default());
        }
    }

    fn check_sum<C: SWCurveConfig<BaseField: Coordinate<D>, ScalarField = Fr>, const D: usize>(multiples: &[i64]) {
        let point = |m: i64| (Projective::<C>::generator() * Fr::from(m.unsigned_abs())).into_affine();
        let affine = |[x, y]: [[Limbs; D]; 2]| {
            Affine::<C>::new_unchecked(C::BaseField::from_words(x), C::BaseField::from_words(y))
        };
        let expected = multiples.iter().fold(Projective::<C>::ZERO, |sum, m| {
            let scalar = Fr::from(m.unsigned_abs());
            sum + Projective::<C>::generator() * if *m < 0 { -scalar } else { scalar }
        });
        for kernel in kernels() {
            let terms = multiples.iter().map(|m| {
                let p = point(*m);
                Term { x: p.x.to_words(), y: p.y.to_words(), negate: *m < 0 }
            });
            let (mut sum, mut left) = (Projective::<C>::ZERO, Vec::new());
            for [x, y, z] in kernel.sum(terms, &mut left) {
                let [x, y, z] = [x, y, z].map(C::BaseField::from_words);
                sum += Projective::<C>::new_unchecked(x, y, z);
            }
            for term in left {
                let p = affine([term.x, term.y]);
                sum += if term.negate { -p } else { p };
            }
            assert_eq!(sum, expected, "{}, {multiples:?}", kernel.name());
        }
    }

    /// Every lane meets its own sum again, its opposite, and sums of small multiples that happen to be equal.
    #[test]
    fn sums_are_exact_where_points_repeat_or_cancel() {
        for length in 0..20 {
            check_sum::<g1::Config, 1>(&vec![1; length]);
            check_sum::<g2::Config, 2>(&vec![-3; length]);
        }
        for first in -4..=4i64 {
            for second in -4..=4i64 {
                for lane in 0..8 {
                    let mut terms = vec![100, 101, 102, 103, 104, 105, 106, 107];
                    terms[lane] = if first == 0 { 9 } else { first };
                    terms.extend([200, 201, 202, 203, 204, 205, 206, 207]);
                    terms[8 + lane] = if second == 0 { -9 } else { second };
                    terms.extend([300; 5]);
                    check_sum::<g1::Config, 1>(&terms);
                    if lane % 3 == 0 {
                        check_sum::<g2::Config, 2>(&terms);
                    }
                }
            }
        }
    }

    #[test]
    fn long_sums_are_exact() {
        let mut x = 1i64;
        for length in [8, 9, 63, 64, 200] {
            let terms: Vec<i64> = (0..length)
                .map(|_| {
                    x = (x * 48_271) % 0x7fff_ffff;
                    x - (1 << 30)
                })
                .collect();
            check_sum::<g1::Config, 1>(&terms);
            check_sum::<g2::Config, 2>(&terms);
        }
    }
}
