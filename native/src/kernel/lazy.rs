//! Montgomery arithmetic on values in [0, 2p), for moduli p with 4p < 2^256.
//!
//! Keeping one spare bit drops the final subtraction of every multiplication (C. Walter, "Montgomery Exponentiation
//! Needs No Final Subtractions", 1999), and additions select by mask instead of by branch: on random field elements
//! a branch is mispredicted half the time, which costs as much as a third of a multiplication.

use std::marker::PhantomData;
use std::ops::{Add, Mul, Sub};

use ark_ff::{BigInt, Fp256, MontBackend, MontConfig};

use super::inverse::inverse;

pub type Limbs = [u64; 4];
type Reduced<C> = Fp256<MontBackend<C, 4>>;

/// A field element in Montgomery form, represented by any of its values below 2p.
#[repr(transparent)]
pub struct Lazy<C: MontConfig<4>>(Limbs, PhantomData<C>);

impl<C: MontConfig<4>> Clone for Lazy<C> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<C: MontConfig<4>> Copy for Lazy<C> {}

/// a + b·c + carry as (low, high); cannot overflow.
#[inline(always)]
fn mac(a: u64, b: u64, c: u64, carry: u64) -> (u64, u64) {
    let t = u128::from(a) + u128::from(b) * u128::from(c) + u128::from(carry);
    (t as u64, (t >> 64) as u64)
}

#[inline(always)]
fn add_limbs(a: &Limbs, b: &Limbs) -> Limbs {
    let mut out = [0; 4];
    let mut carry = 0;
    for i in 0..4 {
        let t = u128::from(a[i]) + u128::from(b[i]) + carry;
        out[i] = t as u64;
        carry = t >> 64;
    }
    out
}

/// a − b and whether it borrowed.
#[inline(always)]
fn sub_limbs(a: &Limbs, b: &Limbs) -> (Limbs, bool) {
    let mut out = [0; 4];
    let mut borrow = false;
    for i in 0..4 {
        let (t, b1) = a[i].overflowing_sub(b[i]);
        let (t, b2) = t.overflowing_sub(u64::from(borrow));
        out[i] = t;
        borrow = b1 | b2;
    }
    (out, borrow)
}

#[inline(always)]
fn masked(a: &Limbs, mask: u64) -> Limbs {
    [a[0] & mask, a[1] & mask, a[2] & mask, a[3] & mask]
}

impl<C: MontConfig<4>> Lazy<C> {
    pub const ZERO: Self = Self([0; 4], PhantomData);
    pub const ONE: Self = Self(C::R.0, PhantomData);
    const P: Limbs = C::MODULUS.0;
    const TWO_P: Limbs = {
        assert!(Self::P[3] >> 62 == 0, "4p must be below 2^256");
        let p = Self::P;
        [p[0] << 1, p[1] << 1 | p[0] >> 63, p[2] << 1 | p[1] >> 63, p[3] << 1 | p[2] >> 63]
    };

    #[inline(always)]
    pub fn new(value: Reduced<C>) -> Self {
        Self((value.0).0, PhantomData)
    }

    /// From limbs below 2p.
    #[inline(always)]
    pub(super) fn from_limbs(limbs: Limbs) -> Self {
        debug_assert!(sub_limbs(&limbs, &Self::TWO_P).1);
        Self(limbs, PhantomData)
    }

    #[inline(always)]
    pub(super) fn limbs(&self) -> &Limbs {
        &self.0
    }

    /// The canonical element.
    #[inline(always)]
    pub fn reduce(self) -> Reduced<C> {
        let (less, borrow) = sub_limbs(&self.0, &Self::P);
        Reduced::<C>::new_unchecked(BigInt::new(if borrow { self.0 } else { less }))
    }

    #[inline(always)]
    pub fn is_zero(&self) -> bool {
        // Limb by limb: a vector comparison would wait for the limbs' stores.
        let (a, p) = (&self.0, &Self::P);
        self.has_zero_limbs() || (a[0] ^ p[0]) | (a[1] ^ p[1]) | (a[2] ^ p[2]) | (a[3] ^ p[3]) == 0
    }

    /// Whether this is the representation 0 (and not p).
    #[inline(always)]
    pub fn has_zero_limbs(&self) -> bool {
        self.0[0] | self.0[1] | self.0[2] | self.0[3] == 0
    }

    #[inline(always)]
    pub fn double(self) -> Self {
        self + self
    }

    /// −self if `negate`, without a branch.
    #[inline(always)]
    pub fn negate_if(self, negate: bool) -> Self {
        let (negative, mask) = ((Self::ZERO - self).0, u64::from(negate).wrapping_neg());
        let mut out = self.0;
        for (limb, other) in out.iter_mut().zip(&negative) {
            *limb ^= (*limb ^ other) & mask;
        }
        Self(out, PhantomData)
    }

    /// Operand-scanning Montgomery product; for inputs below 2p the result is below (4p/2^256 + 1)·p < 2p.
    #[inline(always)]
    fn product(self, other: Self) -> Self {
        let (a, mut t) = (&self.0, [0u64; 4]);
        for b in other.0 {
            let (low, mut carry) = mac(t[0], a[0], b, 0);
            let m = low.wrapping_mul(C::INV);
            let (_, mut reduction) = mac(low, m, Self::P[0], 0);
            for j in 1..4 {
                let (low, high) = mac(t[j], a[j], b, carry);
                carry = high;
                let (low, high) = mac(low, m, Self::P[j], reduction);
                reduction = high;
                t[j - 1] = low;
            }
            t[3] = carry.wrapping_add(reduction);
        }
        Self(t, PhantomData)
    }

    #[inline(always)]
    pub fn square(self) -> Self {
        self * self
    }

    /// 1/self, or 0 for 0.
    pub fn inverse(self) -> Self {
        let plain = Self(inverse(&(self.reduce().0).0, &Self::P, C::INV), PhantomData);
        // The number stood for itself times 2^256, and so must its inverse.
        let square = Self(C::R2.0, PhantomData);
        plain * square * square
    }
}

impl<C: MontConfig<4>> Add for Lazy<C> {
    type Output = Self;

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        let sum = add_limbs(&self.0, &other.0);
        let (less, borrow) = sub_limbs(&sum, &Self::TWO_P);
        let back = masked(&Self::TWO_P, u64::from(borrow).wrapping_neg());
        Self(add_limbs(&less, &back), PhantomData)
    }
}

impl<C: MontConfig<4>> Sub for Lazy<C> {
    type Output = Self;

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        let (difference, borrow) = sub_limbs(&self.0, &other.0);
        let back = masked(&Self::TWO_P, u64::from(borrow).wrapping_neg());
        Self(add_limbs(&difference, &back), PhantomData)
    }
}

impl<C: MontConfig<4>> Mul for Lazy<C> {
    type Output = Self;

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        self.product(other)
    }
}

#[cfg(test)]
mod tests {
    use ark_bn254::{FqConfig, FrConfig};
    use ark_ff::{AdditiveGroup, Field, PrimeField};

    use super::*;

    /// Both representations of small, large and mixed values.
    fn samples<C: MontConfig<4>>() -> Vec<Lazy<C>> {
        let mut out = Vec::new();
        let mut x = Reduced::<C>::from(3u64);
        for i in 0..12u64 {
            x = x.square() + Reduced::<C>::from(i);
            out.push(x);
        }
        out.extend([Reduced::<C>::ZERO, Reduced::<C>::ONE, -Reduced::<C>::ONE, Reduced::<C>::from(2u64)]);
        let canonical = out.into_iter().map(Lazy::new);
        canonical.flat_map(|v| [v, Lazy(add_limbs(&v.0, &Lazy::<C>::P), PhantomData)]).collect()
    }

    fn check<C: MontConfig<4>>() {
        for a in samples::<C>() {
            assert_eq!(a.negate_if(true).reduce(), -a.reduce());
            assert_eq!(a.negate_if(false).reduce(), a.reduce());
            assert_eq!(a.is_zero(), a.reduce() == Reduced::<C>::ZERO);
            assert_eq!(a.inverse().reduce(), a.reduce().inverse().unwrap_or(Reduced::<C>::ZERO));
            for b in samples::<C>() {
                for (found, expected) in [
                    (a + b, a.reduce() + b.reduce()),
                    (a - b, a.reduce() - b.reduce()),
                    (a * b, a.reduce() * b.reduce()),
                ] {
                    assert!(sub_limbs(&found.0, &Lazy::<C>::TWO_P).1, "below 2p");
                    assert_eq!(found.reduce(), expected);
                }
            }
        }
    }

    #[test]
    fn equals_the_reference_field_on_both_representations() {
        check::<FqConfig>();
        check::<FrConfig>();
    }

    fn check_inverses<C: MontConfig<4>>() {
        let mut numbers: Vec<Reduced<C>> = Vec::new();
        for bit in 0..254u64 {
            let power = Reduced::<C>::from(2u64).pow([bit]);
            numbers.extend([power, power - Reduced::<C>::ONE, power + Reduced::<C>::ONE, -power]);
        }
        numbers.extend((0..1000u64).flat_map(|i| [Reduced::<C>::from(i), -Reduced::<C>::from(i)]));
        let mut x = Reduced::<C>::from(3u64);
        for i in 0..100_000u64 {
            x = x.square() + Reduced::<C>::from(i);
            numbers.push(x);
        }
        for x in numbers {
            // As a plain integer and in Montgomery form.
            for x in [x, Reduced::<C>::new_unchecked(x.into_bigint())] {
                let found = Lazy::new(x).inverse().reduce();
                assert_eq!(found, x.inverse().unwrap_or(Reduced::<C>::ZERO), "{x}");
            }
        }
    }

    #[test]
    fn inverses_equal_the_reference() {
        check_inverses::<FqConfig>();
        check_inverses::<FrConfig>();
    }
}
