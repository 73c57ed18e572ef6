//! AVX-512 IFMA: 52-bit multiply-and-add on eight lanes.
#![allow(unsafe_code)]

mod field;
#[cfg(test)]
mod field_tests;
mod points;
mod sums;
mod transform;

use super::{Jacobian, Limbs, Pair, Point, Scalar, Term};
use crate::domain::Domain;
use crate::error::Result;
pub use points::Scratch;
pub use transform::{Buffers, Transforms};

/// Proof that this processor has the instructions; only [`Ifma::detect`] makes one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ifma(());

impl Ifma {
    pub fn detect() -> Option<Self> {
        let has = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512ifma")
            && is_x86_feature_detected!("avx512vbmi2");
        has.then_some(Self(()))
    }

    pub fn add_pairs(self, table: &[Point], pairs: &[Pair], out: &mut [Point], scratch: &mut Scratch) {
        // SAFETY: `self` exists, so the processor has the features the function is compiled for.
        unsafe { points::add_pairs(table, pairs, out, scratch) }
    }

    /// `None` if the domain's size does not suit the lanes.
    pub fn transforms(self, domain: &Domain) -> Result<Option<Transforms>> {
        if !Transforms::supports(domain.size) {
            return Ok(None);
        }
        // SAFETY: as above.
        unsafe { Transforms::new(domain) }.map(Some)
    }

    /// The integers A·B mod r on the coset, each at most r, for values on the domain.
    pub fn product_on_coset(
        self,
        transforms: &Transforms,
        a: &[Scalar],
        b: &[Scalar],
        buffers: &mut Buffers,
        out: &mut [Limbs],
    ) {
        // SAFETY: as above.
        unsafe { transforms.product_on_coset(a, b, buffers, out) }
    }

    /// Eight sums that add up to that of all `terms`, but for those put into `left`.
    pub fn sum<const D: usize>(
        self,
        terms: impl Iterator<Item = Term<D>>,
        left: &mut Vec<Term<D>>,
    ) -> Option<[Jacobian<D>; 8]> {
        // SAFETY: as above.
        unsafe { sums::sum(terms, left) }
    }
}
