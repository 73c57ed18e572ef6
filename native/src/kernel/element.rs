//! What the generic code asks of a field element, and what a kernel offers for whole loops over them.

use std::ops::{Add, Mul, Sub};

use ark_ff::{Field, PrimeField};

use super::inverse;
use super::multiply::Multiply;

/// The words of a number, lowest first.
pub trait Words: Copy + AsRef<[u64]> + AsMut<[u64]> + PartialEq + std::fmt::Debug + Send + Sync + 'static {
    /// No value, but the alignment of a [`super::Point`]: one that spares it cache lines.
    type Align: Copy + Send + Sync;
    const ZERO: Self;

    /// 1/self mod p, or 0 for 0; `p_inverse` is −1/p mod 2^64.
    fn inverse(&self, p: &Self, p_inverse: u64) -> Self;
}

/// A point of four-word coordinates fills a cache line.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub struct AlignTo64;

/// A point of six-word coordinates, of 96 bytes, touches two cache lines.
#[derive(Clone, Copy)]
#[repr(align(32))]
pub struct AlignTo32;

impl Words for [u64; 4] {
    type Align = AlignTo64;
    const ZERO: Self = [0; 4];

    fn inverse(&self, p: &Self, p_inverse: u64) -> Self {
        inverse::inverse::<4, 5>(self, p, p_inverse)
    }
}

impl Words for [u64; 6] {
    type Align = AlignTo32;
    const ZERO: Self = [0; 6];

    fn inverse(&self, p: &Self, p_inverse: u64) -> Self {
        inverse::inverse::<6, 7>(self, p, p_inverse)
    }
}

/// An element of a prime field in Montgomery form, in one of the representations the kernels share.
pub trait Element: Copy + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Send + Sync + 'static {
    type Field: PrimeField;
    type Words: Words;

    const ZERO: Self;
    const ONE: Self;

    fn new(value: Self::Field) -> Self;

    /// From words that represent an element: below 2p, or below p where words have no bit to spare.
    fn from_words(words: Self::Words) -> Self;

    fn words(&self) -> &Self::Words;

    /// The canonical element.
    fn reduce(self) -> Self::Field;

    fn is_zero(&self) -> bool;

    /// Whether this is the representation 0 (and not p).
    fn has_zero_limbs(&self) -> bool;

    /// Whether the low word is that of a representation of 0: true for 0, and for hardly any other element.
    fn maybe_zero(&self) -> bool;

    /// Whether the low word is 0: true for the representation 0, and for hardly any other.
    fn has_zero_low_limb(&self) -> bool;

    /// −self if `negate`, without a branch.
    fn negate_if(self, negate: bool) -> Self;

    /// self·other by the multiplication of a kernel.
    fn times<K: Multiply>(self, other: Self, kernel: K) -> Self;

    fn square<K: Multiply>(self, kernel: K) -> Self;

    /// Independent products, which a kernel may interleave.
    fn times_each<K: Multiply, const S: usize>(left: [Self; S], right: [Self; S], kernel: K) -> [Self; S];

    /// 1/self, or 0 for 0.
    fn inverse(self) -> Self;

    #[inline(always)]
    fn double(self) -> Self {
        self + self
    }
}

/// An element of the field the points' coordinates are in.
#[cfg(target_arch = "x86_64")]
pub trait GroupElement: Element + super::ifma::GroupLanes {}
#[cfg(target_arch = "x86_64")]
impl<F: Element + super::ifma::GroupLanes> GroupElement for F {}
#[cfg(not(target_arch = "x86_64"))]
pub trait GroupElement: Element {}
#[cfg(not(target_arch = "x86_64"))]
impl<F: Element> GroupElement for F {}

/// An element of the field the transforms are in.
#[cfg(target_arch = "x86_64")]
pub trait ScalarElement: Element + super::ifma::ScalarLanes {}
#[cfg(target_arch = "x86_64")]
impl<F: Element + super::ifma::ScalarLanes> ScalarElement for F {}
#[cfg(not(target_arch = "x86_64"))]
pub trait ScalarElement: Element {}
#[cfg(not(target_arch = "x86_64"))]
impl<F: Element> ScalarElement for F {}

/// A coordinate of a group as `D` elements `F` of the prime field.
pub trait Coordinate<F: Element, const D: usize>: Field {
    fn to_words(&self) -> [F::Words; D];
    fn from_words(words: [F::Words; D]) -> Self;
}

/// The prime field itself, and its quadratic extension.
macro_rules! coordinates {
    ($n:literal) => {
        impl<M: ark_ff::MontConfig<$n>> Coordinate<super::Lazy<M, $n>, 1>
            for ark_ff::Fp<ark_ff::MontBackend<M, $n>, $n>
        {
            fn to_words(&self) -> [[u64; $n]; 1] {
                [*super::Lazy::new(*self).words()]
            }

            fn from_words([c0]: [[u64; $n]; 1]) -> Self {
                super::Lazy::from_words(c0).reduce()
            }
        }

        impl<M: ark_ff::MontConfig<$n>, P> Coordinate<super::Lazy<M, $n>, 2> for ark_ff::Fp2<P>
        where
            P: ark_ff::Fp2Config<Fp = ark_ff::Fp<ark_ff::MontBackend<M, $n>, $n>>,
        {
            fn to_words(&self) -> [[u64; $n]; 2] {
                [*super::Lazy::new(self.c0).words(), *super::Lazy::new(self.c1).words()]
            }

            fn from_words([c0, c1]: [[u64; $n]; 2]) -> Self {
                Self::new(super::Lazy::from_words(c0).reduce(), super::Lazy::from_words(c1).reduce())
            }
        }
    };
}

coordinates!(4);
coordinates!(6);
