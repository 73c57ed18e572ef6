//! Montgomery arithmetic on N words of 64 bits.
//!
//! Where 4p < 2^(64·N) an element is any of its values in [0, 2p): the spare bits drop the final subtraction of every
//! multiplication (C. Walter, "Montgomery Exponentiation Needs No Final Subtractions", 1999). BLS12-381's scalar field
//! has 255 bits in four words and no bits to spare: there an element is its value in [0, p). Additions select by mask
//! instead of by branch: on random field elements a branch is mispredicted half the time, which costs as much as a
//! third of a multiplication.

use std::marker::PhantomData;
use std::ops::{Add, Mul, Sub};

use ark_ff::{BigInt, Fp, MontBackend, MontConfig};

use super::element::{Element, Words};
use super::multiply::{Multiply, Portable};
use super::words::Bound;

pub type Limbs<const N: usize> = [u64; N];
type Reduced<M, const N: usize> = Fp<MontBackend<M, N>, N>;

/// A field element in Montgomery form, represented by any of its values below [`Self::BOUND`].
#[repr(transparent)]
pub struct Lazy<M: MontConfig<N>, const N: usize>(Limbs<N>, PhantomData<M>);

impl<M: MontConfig<N>, const N: usize> Clone for Lazy<M, N> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: MontConfig<N>, const N: usize> Copy for Lazy<M, N> {}

/// a − b and whether it borrowed.
#[inline(always)]
fn sub_limbs<const N: usize>(a: &Limbs<N>, b: &Limbs<N>) -> (Limbs<N>, bool) {
    let mut out = [0; N];
    let mut borrow = false;
    for i in 0..N {
        let (t, b1) = a[i].overflowing_sub(b[i]);
        let (t, b2) = t.overflowing_sub(u64::from(borrow));
        out[i] = t;
        borrow = b1 | b2;
    }
    (out, borrow)
}

const fn twice<const N: usize>(a: Limbs<N>) -> Limbs<N> {
    let (mut out, mut carry, mut i) = ([0; N], 0, 0);
    while i < N {
        out[i] = a[i] << 1 | carry;
        carry = a[i] >> 63;
        i += 1;
    }
    out
}

impl<M: MontConfig<N>, const N: usize> Lazy<M, N> {
    const P: Limbs<N> = {
        assert!(M::MODULUS.0[N - 1] < u64::MAX / 2, "a product needs the top bit, and a sum must not overflow");
        M::MODULUS.0
    };
    /// Two representations of an element instead of one.
    const LAZY: bool = Self::P[N - 1] >> 62 == 0;
    /// 2p or p: values are below it.
    const BOUND: Bound<N> = Bound::new(if Self::LAZY { twice(Self::P) } else { Self::P });

    #[inline(always)]
    fn raw(limbs: Limbs<N>) -> Self {
        Self(limbs, PhantomData)
    }

    #[inline(always)]
    fn is_bounded(limbs: &Limbs<N>) -> bool {
        sub_limbs(limbs, &Self::BOUND.bound).1
    }

    /// What kernels return, which is below 2p, as an element.
    #[inline(always)]
    fn settle(below_2p: Limbs<N>) -> Self {
        if Self::LAZY {
            return Self::raw(below_2p);
        }
        Self::raw(Self::BOUND.sub(&below_2p, &Self::P))
    }
}

impl<M: MontConfig<N>, const N: usize> Element for Lazy<M, N>
where
    Limbs<N>: Words,
{
    type Field = Reduced<M, N>;
    type Words = Limbs<N>;

    const ZERO: Self = Self([0; N], PhantomData);
    const ONE: Self = Self(M::R.0, PhantomData);

    #[inline(always)]
    fn new(value: Self::Field) -> Self {
        Self::raw((value.0).0)
    }

    #[inline(always)]
    fn from_words(words: Limbs<N>) -> Self {
        debug_assert!(Self::is_bounded(&words));
        Self::raw(words)
    }

    #[inline(always)]
    fn words(&self) -> &Limbs<N> {
        &self.0
    }

    #[inline(always)]
    fn reduce(self) -> Self::Field {
        let (less, borrow) = sub_limbs(&self.0, &Self::P);
        Reduced::<M, N>::new_unchecked(BigInt::new(if borrow { self.0 } else { less }))
    }

    #[inline(always)]
    fn is_zero(&self) -> bool {
        // Limb by limb: a vector comparison would wait for the limbs' stores.
        let is_p = || self.0.iter().zip(&Self::P).fold(0, |acc, (a, p)| acc | (a ^ p)) == 0;
        self.has_zero_limbs() || (Self::LAZY && is_p())
    }

    #[inline(always)]
    fn has_zero_limbs(&self) -> bool {
        self.0.iter().fold(0, |acc, limb| acc | limb) == 0
    }

    #[inline(always)]
    fn maybe_zero(&self) -> bool {
        (self.0[0] == 0) | (self.0[0] == Self::P[0])
    }

    #[inline(always)]
    fn has_zero_low_limb(&self) -> bool {
        self.0[0] == 0
    }

    #[inline(always)]
    fn negate_if(self, negate: bool) -> Self {
        Self::raw(Self::BOUND.negate_if(&self.0, negate))
    }

    #[inline(always)]
    fn times<K: Multiply>(self, other: Self, kernel: K) -> Self {
        Self::settle(kernel.product::<M, N>(&self.0, &other.0))
    }

    #[inline(always)]
    fn square<K: Multiply>(self, kernel: K) -> Self {
        Self::settle(kernel.square::<M, N>(&self.0))
    }

    #[inline(always)]
    fn times_each<K: Multiply, const S: usize>(left: [Self; S], right: [Self; S], kernel: K) -> [Self; S] {
        kernel.products::<M, N, S>(&left.map(|x| x.0), &right.map(|x| x.0)).map(Self::settle)
    }

    fn inverse(self) -> Self {
        let plain = Self::raw(Limbs::<N>::inverse(&(self.reduce().0).0, &Self::P, M::INV));
        // The number stood for itself times 2^(64·N), and so must its inverse.
        let square = Self::raw(M::R2.0);
        plain * square * square
    }
}

impl<M: MontConfig<N>, const N: usize> Add for Lazy<M, N> {
    type Output = Self;

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self::raw(Self::BOUND.add(&self.0, &other.0))
    }
}

impl<M: MontConfig<N>, const N: usize> Sub for Lazy<M, N> {
    type Output = Self;

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Self::raw(Self::BOUND.sub(&self.0, &other.0))
    }
}

/// By the portable routine; the innermost loops use [`Element::times`] with the routine of their kernel.
impl<M: MontConfig<N>, const N: usize> Mul for Lazy<M, N> {
    type Output = Self;

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        Self::settle(Portable.product::<M, N>(&self.0, &other.0))
    }
}

#[cfg(test)]
mod tests {
    use ark_ff::{AdditiveGroup, Field, PrimeField};

    use super::*;
    use crate::kernel::{with_multiply, Kernel};

    /// All representations of small, large and mixed values.
    fn samples<M: MontConfig<N>, const N: usize>() -> Vec<Lazy<M, N>>
    where
        Limbs<N>: Words,
    {
        let mut out = Vec::new();
        let mut x = Reduced::<M, N>::from(3u64);
        for i in 0..12u64 {
            x = x.square() + Reduced::<M, N>::from(i);
            out.push(x);
        }
        out.extend([Reduced::<M, N>::ZERO, Reduced::<M, N>::ONE, -Reduced::<M, N>::ONE, Reduced::<M, N>::from(2u64)]);
        let canonical = out.into_iter().map(Lazy::new);
        canonical
            .flat_map(|v| [v, Lazy::raw(Lazy::<M, N>::BOUND.add(&v.0, &Lazy::<M, N>::P))])
            .filter(|v| Lazy::<M, N>::is_bounded(&v.0))
            .collect()
    }

    fn check<M: MontConfig<N>, const N: usize>()
    where
        Limbs<N>: Words,
    {
        for a in samples::<M, N>() {
            assert_eq!(a.negate_if(true).reduce(), -a.reduce());
            assert_eq!(a.negate_if(false).reduce(), a.reduce());
            assert_eq!(a.is_zero(), a.reduce() == Reduced::<M, N>::ZERO);
            assert_eq!(a.inverse().reduce(), a.reduce().inverse().unwrap_or(Reduced::<M, N>::ZERO));
            for b in samples::<M, N>() {
                let product = a.reduce() * b.reduce();
                for (found, expected) in
                    [(a + b, a.reduce() + b.reduce()), (a - b, a.reduce() - b.reduce()), (a * b, product)]
                {
                    assert!(Lazy::<M, N>::is_bounded(&found.0), "below the bound");
                    assert_eq!(found.reduce(), expected);
                }
                for kernel in Kernel::available() {
                    let (times, square, each) = with_multiply!(kernel, k => (
                        a.times(b, k), a.square(k), Lazy::times_each([a, b, a], [b, b, a], k)
                    ));
                    let squares = [a.reduce().square(), b.reduce().square()];
                    let found = [times, square, each[0], each[1], each[2]];
                    let expected = [product, squares[0], product, squares[1], squares[0]];
                    for (found, expected) in found.iter().zip(expected) {
                        assert!(Lazy::<M, N>::is_bounded(&found.0), "below the bound");
                        assert_eq!(found.reduce(), expected, "{}", kernel.name());
                    }
                }
            }
        }
    }

    #[test]
    fn equals_the_reference_field_on_all_representations() {
        check::<ark_bn254::FqConfig, 4>();
        check::<ark_bn254::FrConfig, 4>();
        check::<ark_bls12_381::FqConfig, 6>();
        check::<ark_bls12_381::FrConfig, 4>();
    }

    #[test]
    fn only_the_scalars_of_bls12_381_are_fully_reduced() {
        let lazy = [
            Lazy::<ark_bn254::FqConfig, 4>::LAZY,
            Lazy::<ark_bn254::FrConfig, 4>::LAZY,
            Lazy::<ark_bls12_381::FqConfig, 6>::LAZY,
            Lazy::<ark_bls12_381::FrConfig, 4>::LAZY,
        ];
        assert_eq!(lazy, [true, true, true, false]);
    }

    fn check_inverses<M: MontConfig<N>, const N: usize>()
    where
        Limbs<N>: Words,
    {
        let mut numbers: Vec<Reduced<M, N>> = Vec::new();
        for bit in 0..u64::from(Reduced::<M, N>::MODULUS_BIT_SIZE) {
            let power = Reduced::<M, N>::from(2u64).pow([bit]);
            numbers.extend([power, power - Reduced::<M, N>::ONE, power + Reduced::<M, N>::ONE, -power]);
        }
        numbers.extend((0..1000u64).flat_map(|i| [Reduced::<M, N>::from(i), -Reduced::<M, N>::from(i)]));
        let mut x = Reduced::<M, N>::from(3u64);
        for i in 0..50_000u64 {
            x = x.square() + Reduced::<M, N>::from(i);
            numbers.push(x);
        }
        for x in numbers {
            // As a plain integer and in Montgomery form.
            for x in [x, Reduced::<M, N>::new_unchecked(x.into_bigint())] {
                let found = Lazy::new(x).inverse().reduce();
                assert_eq!(found, x.inverse().unwrap_or(Reduced::<M, N>::ZERO), "{x}");
            }
        }
    }

    #[test]
    fn inverses_equal_the_reference() {
        check_inverses::<ark_bn254::FqConfig, 4>();
        check_inverses::<ark_bn254::FrConfig, 4>();
        check_inverses::<ark_bls12_381::FqConfig, 6>();
        check_inverses::<ark_bls12_381::FrConfig, 4>();
    }
}
