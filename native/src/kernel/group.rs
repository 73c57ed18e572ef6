//! Single points of G1 in Jacobian coordinates, and s·A + r·B for points that change with every proof.
//!
//! Formulas dbl-2009-l, madd-2007-bl and add-2007-bl of the Explicit-Formulas Database for curves y² = x³ + b. Scalars
//! are halved in length by the endomorphism φ(x, y) = (βx, y) = λ·(x, y) (R. Gallant, R. Lambert, S. Vanstone, "Faster
//! Point Multiplication on Elliptic Curves with Efficient Endomorphisms", CRYPTO 2001), so four numbers of 128 bits
//! share the doublings; their digits are in non-adjacent form.

use ark_ec::scalar_mul::glv::GLVConfig;
use ark_ec::short_weierstrass::{Projective, SWCurveConfig};
use ark_ff::PrimeField;
use zeroize::Zeroizing;

use super::{Element, Limbs, Multiply, Point};
use crate::curve::{Curve, G1Projective};

/// x = X/Z², y = Y/Z³; infinity has Z = 0.
#[derive(Clone, Copy)]
pub struct Single<F> {
    x: F,
    y: F,
    z: F,
}

impl<F: Element> Single<F> {
    pub const INFINITY: Self = Self { x: F::ONE, y: F::ONE, z: F::ZERO };

    pub fn new<P: SWCurveConfig<BaseField = F::Field>>(point: &Projective<P>) -> Self {
        Self { x: F::new(point.x), y: F::new(point.y), z: F::new(point.z) }
    }

    pub fn to_projective<P: SWCurveConfig<BaseField = F::Field>>(self) -> Projective<P> {
        Projective::new_unchecked(self.x.reduce(), self.y.reduce(), self.z.reduce())
    }

    #[inline]
    pub fn double<K: Multiply>(&self, kernel: K) -> Self {
        let [a, b] = F::times_each([self.x, self.y], [self.x, self.y], kernel);
        let [c, xb_squared] = F::times_each([b, self.x + b], [b, self.x + b], kernel);
        let d = (xb_squared - a - c).double();
        let e = a.double() + a;
        let [f, yz] = F::times_each([e, self.y], [e, self.z], kernel);
        let x = f - d.double();
        let y = e.times(d - x, kernel) - c.double().double().double();
        Self { x, y, z: yz.double() }
    }

    /// Adds a point, or its negative.
    #[inline]
    pub fn add_point<K: Multiply>(&self, point: &Point<F>, negate: bool, kernel: K) -> Self {
        let y2 = point.y.negate_if(negate);
        if point.is_infinity() {
            return *self;
        }
        if self.z.is_zero() {
            return Self { x: point.x, y: y2, z: F::ONE };
        }
        let zz = self.z.square(kernel);
        let [u2, y2z] = F::times_each([point.x, y2], [zz, self.z], kernel);
        let (h, s2) = (u2 - self.x, y2z.times(zz, kernel));
        let r = (s2 - self.y).double();
        if h.is_zero() {
            return if r.is_zero() { self.double(kernel) } else { Self::INFINITY };
        }
        let [hh, rr] = F::times_each([h, r], [h, r], kernel);
        let i = hh.double().double();
        let zh = self.z + h;
        let [j, v] = F::times_each([h, self.x], [i, i], kernel);
        let x = rr - j - v.double();
        let [ry, yj] = F::times_each([r, self.y], [v - x, j], kernel);
        Self { x, y: ry - yj.double(), z: zh.square(kernel) - zz - hh }
    }

    #[inline]
    pub fn add<K: Multiply>(&self, other: &Self, kernel: K) -> Self {
        if other.z.is_zero() {
            return *self;
        }
        if self.z.is_zero() {
            return *other;
        }
        let [zz1, zz2] = F::times_each([self.z, other.z], [self.z, other.z], kernel);
        let [u1, u2] = F::times_each([self.x, other.x], [zz2, zz1], kernel);
        let [y1z2, y2z1] = F::times_each([self.y, other.y], [other.z, self.z], kernel);
        let [s1, s2] = F::times_each([y1z2, y2z1], [zz2, zz1], kernel);
        let (h, r) = (u2 - u1, (s2 - s1).double());
        if h.is_zero() {
            return if r.is_zero() { self.double(kernel) } else { Self::INFINITY };
        }
        let (h2, z) = (h.double(), self.z + other.z);
        let [i, rr] = F::times_each([h2, r], [h2, r], kernel);
        let [j, v] = F::times_each([h, u1], [i, i], kernel);
        let x = rr - j - v.double();
        let [ry, sj] = F::times_each([r, s1], [v - x, j], kernel);
        let z = (z.square(kernel) - zz1 - zz2).times(h, kernel);
        Self { x, y: ry - sj.double(), z }
    }
}

/// Affine coordinates of all points, with one inversion.
pub fn normalize<F: Element, K: Multiply, const N: usize>(points: &[Single<F>; N], kernel: K) -> [Point<F>; N] {
    let (mut before, mut product) = ([F::ONE; N], F::ONE);
    for (before, point) in before.iter_mut().zip(points) {
        *before = product;
        if !point.z.is_zero() {
            product = product.times(point.z, kernel);
        }
    }
    let mut inverse = product.inverse();
    let mut out = [Point::INFINITY; N];
    for ((out, point), before) in out.iter_mut().zip(points).zip(&before).rev() {
        if !point.z.is_zero() {
            let [z, next] = F::times_each([inverse; 2], [*before, point.z], kernel);
            inverse = next;
            let zz = z.square(kernel);
            let [x, yz] = F::times_each([point.x, point.y], [zz, z], kernel);
            *out = Point::new(x, yz.times(zz, kernel));
        }
    }
    out
}

/// Digits are 0 or odd, from −15 to 15.
const WIDTH: u32 = 5;
/// 1, 3, …, 15 times a point.
const ODD: usize = 1 << (WIDTH - 2);
/// Halves stay below 2^131: see [`Endomorphism::split`]; the form may need one digit more than there are bits.
const HALF_BITS: usize = 131;
const DIGITS: usize = HALF_BITS + 1;

/// A number below 2^192 and its sign.
#[derive(Clone, Copy)]
struct Half {
    negative: bool,
    magnitude: Limbs<4>,
}

/// λ and the short basis of the lattice {(x, y): x + λy = 0 mod r}, as integers modulo 2^256.
pub struct Endomorphism<C: Curve> {
    beta: C::Base,
    /// The basis' rows.
    basis: [[Limbs<4>; 2]; 2],
    /// ⌊2^256·|entry|/r⌋ for the entries that k is multiplied with, and whether to subtract.
    estimates: [(Limbs<4>, bool); 2],
}

fn add(a: &Limbs<4>, b: &Limbs<4>) -> Limbs<4> {
    let (mut out, mut carry) = ([0; 4], 0u128);
    for i in 0..4 {
        let t = u128::from(a[i]) + u128::from(b[i]) + carry;
        (out[i], carry) = (t as u64, t >> 64);
    }
    out
}

fn negate(a: &Limbs<4>) -> Limbs<4> {
    add(&a.map(|limb| !limb), &[1, 0, 0, 0])
}

/// a·b of eight words.
fn multiply(a: &Limbs<4>, b: &Limbs<4>) -> [u64; 8] {
    let mut out = [0u64; 8];
    for (i, a) in a.iter().enumerate() {
        let mut carry = 0u128;
        for (j, b) in b.iter().enumerate() {
            let t = u128::from(out[i + j]) + u128::from(*a) * u128::from(*b) + carry;
            (out[i + j], carry) = (t as u64, t >> 64);
        }
        out[i + 4] = carry as u64;
    }
    out
}

fn low(a: &Limbs<4>, b: &Limbs<4>) -> Limbs<4> {
    let [a, b, c, d, ..] = multiply(a, b);
    [a, b, c, d]
}

/// ⌊2^256·a/r⌋ for a < r, bit by bit.
fn scaled(a: &Limbs<4>, r: &Limbs<4>) -> Limbs<4> {
    let (mut rest, mut out) = (*a, [0; 4]);
    for bit in (0..256).rev() {
        // rest < r < 2^255, so doubling cannot overflow.
        rest = add(&rest, &rest);
        let less = add(&rest, &negate(r));
        if less[3] >> 63 == 0 {
            rest = less;
            out[bit / 64] |= 1 << (bit % 64);
        }
    }
    out
}

impl<C: Curve> Default for Endomorphism<C> {
    fn default() -> Self {
        let signed = |(positive, value): &(bool, ark_ff::BigInt<4>)| if *positive { value.0 } else { negate(&value.0) };
        let coefficients = &<C::G1 as GLVConfig>::SCALAR_DECOMP_COEFFS;
        let [n11, n12, n21, n22] = coefficients;
        let r = C::Fr::MODULUS.0;
        Self {
            beta: C::Base::new(<C::G1 as GLVConfig>::ENDO_COEFFS[0]),
            basis: [[signed(n11), signed(n12)], [signed(n21), signed(n22)]],
            // The inverse of the basis is ((n22, −n12), (−n21, n11))/r.
            estimates: [(scaled(&n22.1 .0, &r), !n22.0), (scaled(&n12.1 .0, &r), n12.0)],
        }
    }
}

impl<C: Curve> Endomorphism<C> {
    /// k = first + λ·second. With quotients at most two too small, a half is below 3·(|n₁| + |n₂|) < 2^131.
    fn split(&self, k: &Limbs<4>) -> [Half; 2] {
        let (mut first, mut second) = (*k, [0; 4]);
        for ((estimate, subtract), [x, y]) in self.estimates.iter().zip(&self.basis) {
            let [.., a, b, c, d] = multiply(k, estimate);
            let quotient = if *subtract { negate(&[a, b, c, d]) } else { [a, b, c, d] };
            first = add(&first, &negate(&low(&quotient, x)));
            second = add(&second, &negate(&low(&quotient, y)));
        }
        [first, second].map(|half| {
            let negative = half[3] >> 63 == 1;
            Half { negative, magnitude: if negative { negate(&half) } else { half } }
        })
    }

    /// Σ scalar·point over both pairs.
    pub fn multiply_two<K: Multiply>(
        &self,
        points: &[G1Projective<C>; 2],
        scalars: [&C::Fr; 2],
        kernel: K,
    ) -> G1Projective<C> {
        let mut digits = Zeroizing::new([[0i8; DIGITS]; 4]);
        for (i, scalar) in scalars.into_iter().enumerate() {
            let halves = self.split(&scalar.into_bigint().0);
            digits[2 * i] = non_adjacent(&halves[0]);
            digits[2 * i + 1] = non_adjacent(&halves[1]);
        }
        let tables = self.tables(points, kernel);
        let mut sum = Single::<C::Base>::INFINITY;
        for at in (0..DIGITS).rev() {
            sum = sum.double(kernel);
            for (digits, table) in digits.iter().zip(&tables) {
                let digit = digits[at];
                if digit != 0 {
                    sum = sum.add_point(&table[usize::from(digit.unsigned_abs() / 2)], digit < 0, kernel);
                }
            }
        }
        sum.to_projective()
    }

    /// Odd multiples of P, φ(P), Q and φ(Q).
    fn tables<K: Multiply>(&self, points: &[G1Projective<C>; 2], kernel: K) -> [[Point<C::Base>; ODD]; 4] {
        let mut multiples = [Single::<C::Base>::INFINITY; 2 * ODD];
        for (point, multiples) in points.iter().zip(multiples.chunks_exact_mut(ODD)) {
            let mut multiple = Single::new(point);
            let double = multiple.double(kernel);
            for slot in multiples {
                *slot = multiple;
                multiple = multiple.add(&double, kernel);
            }
        }
        let affine = normalize(&multiples, kernel);
        let mut tables = [[Point::INFINITY; ODD]; 4];
        for (pair, points) in tables.chunks_exact_mut(2).zip(affine.chunks_exact(ODD)) {
            pair[0].copy_from_slice(points);
            for (image, point) in pair[1].iter_mut().zip(points) {
                *image = Point::new(point.x.times(self.beta, kernel), point.y);
            }
        }
        tables
    }
}

/// Of any five digits in a row at most one is not zero.
fn non_adjacent(half: &Half) -> [i8; DIGITS] {
    let mut out = [0; DIGITS];
    let mut left = half.magnitude;
    for digit in &mut out {
        if left[0] & 1 == 1 {
            let low = (left[0] & ((1 << WIDTH) - 1)) as i8;
            let value = if low < 1 << (WIDTH - 1) { low } else { low - (1 << WIDTH) };
            let magnitude = [u64::from(value.unsigned_abs()), 0, 0, 0];
            left = add(&left, &if value < 0 { magnitude } else { negate(&magnitude) });
            *digit = if half.negative { -value } else { value };
        }
        left = [left[0] >> 1 | left[1] << 63, left[1] >> 1 | left[2] << 63, left[2] >> 1 | left[3] << 63, left[3] >> 1];
    }
    out
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use ark_ec::{AdditiveGroup, CurveGroup, PrimeGroup};
    use ark_ff::Field;

    use super::*;
    use crate::curve::{Bls381, Bn254};
    use crate::field::random_fr;
    use crate::kernel::{with_multiply, Kernel};

    fn scalars<C: Curve>() -> Vec<C::Fr> {
        let small = [0u64, 1, 2, 3, 15, 16, 31, 32];
        let mut out: Vec<C::Fr> = small.iter().flat_map(|v| [C::Fr::from(*v), -C::Fr::from(*v)]).collect();
        let two = C::Fr::from(2u64);
        out.extend((0..C::Fr::MODULUS_BIT_SIZE.into()).flat_map(|bit: u64| [two.pow([bit]), -two.pow([bit])]));
        out.push(C::Fr::from(C::Fr::MODULUS_MINUS_ONE_DIV_TWO));
        out.extend((0..100).map(|_| random_fr::<C::Fr>().unwrap()));
        out
    }

    fn value<C: Curve>(half: &Half) -> C::Fr {
        let magnitude = C::Fr::from_bigint(ark_ff::BigInt(half.magnitude)).unwrap();
        if half.negative {
            -magnitude
        } else {
            magnitude
        }
    }

    fn splits_on<C: Curve>() {
        let endomorphism = Endomorphism::<C>::default();
        for k in scalars::<C>() {
            let [first, second] = endomorphism.split(&k.into_bigint().0);
            for half in [&first, &second] {
                assert!(half.magnitude[2] >> (HALF_BITS - 128) == 0 && half.magnitude[3] == 0, "{k}");
                let digits = non_adjacent(half);
                let sum = digits.iter().rev().fold(C::Fr::ZERO, |sum, digit| {
                    let d = C::Fr::from(u64::from(digit.unsigned_abs()));
                    sum.double() + if *digit < 0 { -d } else { d }
                });
                assert_eq!(sum, value::<C>(half), "{k}");
            }
            assert_eq!(value::<C>(&first) + value::<C>(&second) * <C::G1 as GLVConfig>::LAMBDA, k);
        }
    }

    #[test]
    fn halves_are_short_and_add_up() {
        splits_on::<Bn254>();
        splits_on::<Bls381>();
    }

    fn products_on<C: Curve>() {
        let endomorphism = Endomorphism::<C>::default();
        let g = G1Projective::<C>::generator();
        let (zero, scalars) = (G1Projective::<C>::ZERO, scalars::<C>());
        let p = g * random_fr::<C::Fr>().unwrap();
        for (i, r) in scalars.iter().enumerate() {
            let s = scalars[(i * 7 + 3) % scalars.len()];
            // Equal, opposite and infinite points meet in the sums.
            for points in [[p, g], [p, p], [p, -p], [zero, p], [p, zero], [zero, zero]] {
                let expected = points[0] * *r + points[1] * s;
                for kernel in Kernel::available() {
                    let found = with_multiply!(kernel, k => endomorphism.multiply_two(&points, [r, &s], k));
                    assert_eq!(found.into_affine(), expected.into_affine(), "{} {r} {s}", kernel.name());
                }
            }
        }
    }

    #[test]
    fn products_equal_the_reference() {
        products_on::<Bn254>();
        products_on::<Bls381>();
    }

    fn sums_on<C: Curve>() {
        let g = G1Projective::<C>::generator();
        let multiples: Vec<G1Projective<C>> = (-4i64..=4)
            .map(|i| if i < 0 { -(g * C::Fr::from(i.unsigned_abs())) } else { g * C::Fr::from(i as u64) })
            .map(|p| p + g - g)
            .collect();
        for kernel in Kernel::available() {
            for a in &multiples {
                for b in &multiples {
                    let (left, right) = (Single::<C::Base>::new(a), Single::new(b));
                    let point = Point::from_affine(&b.into_affine());
                    let (sum, mixed, less, twice) = with_multiply!(kernel, k => (
                        left.add(&right, k), left.add_point(&point, false, k), left.add_point(&point, true, k),
                        left.double(k)
                    ));
                    let check = |found: Single<C::Base>, expected: G1Projective<C>| {
                        assert_eq!(found.to_projective::<C::G1>().into_affine(), expected.into_affine());
                        let [point] = with_multiply!(kernel, k => normalize(&[found], k));
                        assert_eq!(point.to_affine::<C::G1>(), expected.into_affine());
                    };
                    check(sum, *a + b);
                    check(mixed, *a + b);
                    check(less, *a - b);
                    check(twice, *a + a);
                }
            }
        }
    }

    #[test]
    fn every_case_of_a_sum_is_exact() {
        sums_on::<Bn254>();
        sums_on::<Bls381>();
    }
}
