//! Arithmetic of the ceremony: ratios, random combinations, and loops over many points on at most two threads.

use ark_ec::pairing::Pairing;
use ark_ec::short_weierstrass::{Affine, Projective, SWCurveConfig};
use ark_ec::{AffineRepr, CurveGroup, VariableBaseMSM};
use ark_ff::{AdditiveGroup, BigInteger, BitIteratorBE, Field, PrimeField};

use crate::curve::{Curve, G1Affine, G2Affine};
use crate::error::{Error, Result};

pub fn generator_1<C: Curve>() -> G1Affine<C> {
    C::G1::GENERATOR
}

pub fn generator_2<C: Curve>() -> G2Affine<C> {
    C::G2::GENERATOR
}

/// Whether e(a, b)·e(c, d) = 1 for a, c and b, d.
pub fn product_is_one<C: Curve>(left: [G1Affine<C>; 2], right: [G2Affine<C>; 2]) -> bool {
    C::Pairing::multi_pairing(left, right).0 == <C::Pairing as Pairing>::TargetField::ONE
}

/// Whether `base` to `product` (G1) is what `base_2` to `product_2` (G2) is; never with a point at infinity.
pub fn same_ratio<C: Curve>(
    base: &G1Affine<C>,
    product: &G1Affine<C>,
    base_2: &G2Affine<C>,
    product_2: &G2Affine<C>,
) -> bool {
    let infinite = base.is_zero() || product.is_zero() || base_2.is_zero() || product_2.is_zero();
    !infinite && product_is_one::<C>([*base, -*product], [*product_2, *base_2])
}

/// Two threads at most: a controller has other work to do, and a ceremony is no hurry.
const THREADS: usize = 2;
/// Below this many items a second thread costs more than it gives.
const ITEMS_PER_THREAD_MIN: usize = 32;

/// `work(range)` for the halves of 0..n, results in order.
pub fn halves<T: Send>(n: usize, work: impl Fn(std::ops::Range<usize>) -> Result<Vec<T>> + Sync) -> Result<Vec<T>> {
    if n < THREADS * ITEMS_PER_THREAD_MIN {
        return work(0..n);
    }
    let middle = n / THREADS;
    let (first, second) = std::thread::scope(|scope| {
        let second = scope.spawn(|| work(middle..n));
        let first = work(0..middle);
        (first, second.join().unwrap_or_else(|_| Err(Error::new("internal", "a worker thread failed"))))
    });
    let (mut out, second) = (first?, second?);
    out.extend(second);
    Ok(out)
}

/// The points `point(0)` … `point(n-1)`, brought to affine form together.
pub fn points<P: SWCurveConfig>(n: usize, point: impl Fn(usize) -> Projective<P> + Sync) -> Result<Vec<Affine<P>>> {
    halves(n, |range| Ok(Projective::normalize_batch(&range.map(&point).collect::<Vec<_>>())))
}

/// Σ scalars·points.
pub fn combine<P: SWCurveConfig>(points: &[Affine<P>], scalars: &[P::ScalarField]) -> Affine<P> {
    <Projective<P> as VariableBaseMSM>::msm_unchecked(points, scalars).into_affine()
}

/// Coefficients of a random linear combination: 128 bits from the system, so that a false equation passes with
/// probability 2^-128.
pub fn random_coefficients<F: PrimeField>(n: usize) -> Result<Vec<F>> {
    let mut bytes = vec![0u8; 16 * n];
    getrandom::fill(&mut bytes).map_err(|e| Error::new("randomness", format!("the system generator failed: {e}")))?;
    Ok(bytes.chunks_exact(16).map(F::from_le_bytes_mod_order).collect())
}

/// base, base·step, base·step², …
pub fn geometric<F: Field>(base: F, step: F, n: usize) -> Vec<F> {
    std::iter::successors(Some(base), |value| Some(*value * step)).take(n).collect()
}

/// integer·point by plain double-and-add: right for any point of the curve and fast for short integers, which the
/// library's own methods need not be (they may reduce modulo the group's order, or always take the long way).
pub fn double_and_add<P: SWCurveConfig>(point: &Affine<P>, integer: &[u64]) -> Projective<P> {
    let mut sum = Projective::ZERO;
    for bit in BitIteratorBE::without_leading_zeros(integer) {
        sum.double_in_place();
        if bit {
            sum += point;
        }
    }
    sum
}

/// Above this length and this many terms buckets beat doubling together.
const LONG_BITS: u32 = 64;
const MANY_TERMS: usize = 32;

/// Σ value·point for coefficients of a circuit.
///
/// Most are small integers or their negatives, so the shorter of value and r − value is used, and all terms double
/// together.
pub fn weighted<P: SWCurveConfig>(terms: &[(Affine<P>, P::ScalarField)]) -> Projective<P> {
    let shorter = |(point, value): &(Affine<P>, P::ScalarField)| {
        let (plain, opposite) = (value.into_bigint(), (-*value).into_bigint());
        if opposite < plain {
            (-*point, opposite)
        } else {
            (*point, plain)
        }
    };
    let signed: Vec<_> = terms.iter().map(shorter).collect();
    let bits = signed.iter().map(|(_, value)| value.num_bits()).max().unwrap_or(0);
    if bits > LONG_BITS && terms.len() >= MANY_TERMS {
        let (points, values): (Vec<_>, Vec<_>) = terms.iter().copied().unzip();
        return VariableBaseMSM::msm_unchecked(&points, &values);
    }
    let mut sum = Projective::ZERO;
    for bit in (0..bits as usize).rev() {
        sum.double_in_place();
        signed.iter().filter(|(_, value)| value.get_bit(bit)).for_each(|(point, _)| sum += point);
    }
    sum
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::curve::Bls381;

    #[test]
    fn weighted_sums_are_sums_of_multiples() {
        type F = <Bls381 as Curve>::Fr;
        let random: Vec<F> = random_coefficients(64).unwrap();
        let base = points(64, |i| generator_1::<Bls381>() * random[i]).unwrap();
        let values =
            [F::from(0u64), F::from(1u64), -F::from(1u64), F::from(77u64), -F::from(1u64 << 40), random[0].square()];
        for n in [0, 1, 2, 6, MANY_TERMS - 1, MANY_TERMS, 64] {
            for offset in 0..values.len() {
                let terms: Vec<_> = (0..n).map(|i| (base[i], values[(i + offset) % values.len()])).collect();
                let expected: Projective<_> = terms.iter().map(|(point, value)| *point * *value).sum();
                assert_eq!(weighted(&terms), expected, "{n} terms from {offset}");
            }
        }
    }
}
