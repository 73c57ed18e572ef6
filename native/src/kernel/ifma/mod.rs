//! AVX-512 IFMA: 52-bit multiply-and-add on eight lanes.
#![allow(unsafe_code)]

mod field;
#[cfg(test)]
mod field_tests;
mod points;
mod sums;
mod transform;

use super::{Adx, Element, Jacobian, Lazy, Limbs, Pair, Point, Term};
use crate::error::Result;
use ark_ff::MontConfig;

/// Proof that this processor has the instructions; only [`Ifma::detect`] makes one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ifma(Adx);

impl Ifma {
    pub fn detect() -> Option<Self> {
        let has = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512ifma")
            && is_x86_feature_detected!("avx512vbmi2");
        // Every such processor has ADX, too.
        Adx::detect().filter(|_| has).map(Self)
    }

    /// For what is not done on lanes.
    pub fn scalar(self) -> Adx {
        self.0
    }
}

/// Loops over points on eight lanes, for the field of their coordinates.
pub trait GroupLanes: Element {
    /// Memory of a batch, kept between calls.
    type Scratch: Default + Send;

    /// `out[pair.to] = table[pair.left] + table[pair.right]` for all pairs, with one inversion.
    fn add_pairs(
        ifma: Ifma,
        table: &[Point<Self>],
        pairs: &[Pair],
        out: &mut [Point<Self>],
        scratch: &mut Self::Scratch,
    );

    /// Eight sums that add up to that of all `terms`, but for those put into `left`.
    fn sum<const D: usize>(
        ifma: Ifma,
        terms: impl Iterator<Item = Term<Self::Words, D>>,
        left: &mut Vec<Term<Self::Words, D>>,
    ) -> Option<[Jacobian<Self::Words, D>; 8]>;
}

/// Words and the limbs of 52 bits they take.
macro_rules! group_lanes {
    ($n:literal, $l:literal) => {
        impl<M: MontConfig<$n>> GroupLanes for Lazy<M, $n> {
            type Scratch = points::Scratch<M, $n, $l>;

            fn add_pairs(
                _: Ifma,
                table: &[Point<Self>],
                pairs: &[Pair],
                out: &mut [Point<Self>],
                scratch: &mut Self::Scratch,
            ) {
                // SAFETY: an `Ifma` exists, so the processor has the features the function is compiled for.
                unsafe { scratch.add_pairs(table, pairs, out) }
            }

            fn sum<const D: usize>(
                _: Ifma,
                terms: impl Iterator<Item = Term<Self::Words, D>>,
                left: &mut Vec<Term<Self::Words, D>>,
            ) -> Option<[Jacobian<Self::Words, D>; 8]> {
                // SAFETY: as above.
                unsafe { sums::sum::<M, $n, $l, D>(terms, left) }
            }
        }
    };
}

group_lanes!(4, 5);
group_lanes!(6, 8);

/// The transforms on eight lanes, for the field of scalars.
pub trait ScalarLanes: Element {
    type Transforms: Send + Sync;
    /// Memory of the transforms, kept between calls.
    type Buffers: Default + Send;

    /// `None` if the domain's size does not suit the lanes.
    fn transforms(ifma: Ifma, size: usize, root: Self::Field, shift: Self::Field) -> Result<Option<Self::Transforms>>;

    /// The integers A·B mod r on the coset, each at most r, for values on the domain.
    fn product_on_coset(
        ifma: Ifma,
        transforms: &Self::Transforms,
        a: &[Self],
        b: &[Self],
        buffers: &mut Self::Buffers,
        out: &mut [Self::Words],
    );
}

impl<M: MontConfig<4>> ScalarLanes for Lazy<M, 4> {
    type Transforms = transform::Transforms<M>;
    type Buffers = transform::Buffers<M>;

    fn transforms(_: Ifma, size: usize, root: Self::Field, shift: Self::Field) -> Result<Option<Self::Transforms>> {
        if !Self::Transforms::supports(size) {
            return Ok(None);
        }
        // SAFETY: an `Ifma` exists, so the processor has the features the function is compiled for.
        unsafe { Self::Transforms::new(size, root, shift) }.map(Some)
    }

    fn product_on_coset(
        _: Ifma,
        transforms: &Self::Transforms,
        a: &[Self],
        b: &[Self],
        buffers: &mut Self::Buffers,
        out: &mut [Limbs<4>],
    ) {
        // SAFETY: as above.
        unsafe { transforms.product_on_coset(a, b, buffers, out) }
    }
}
