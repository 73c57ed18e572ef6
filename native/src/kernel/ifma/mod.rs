//! AVX-512 IFMA: 52-bit multiply-and-add on eight lanes.
#![allow(unsafe_code)]

mod field;
mod points;

use super::{Pair, Point};
pub use points::Scratch;

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
}
