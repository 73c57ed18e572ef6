#![allow(clippy::unwrap_used)]

use ark_ec::short_weierstrass::{Affine, Projective, SWCurveConfig};
use ark_ec::{AdditiveGroup, CurveGroup, PrimeGroup};

use super::*;
use crate::curve::{Bls381, Bn254, Curve, G1Affine, G1Projective};

fn multiples<C: Curve>(count: u64) -> Vec<Point<C::Base>> {
    (0..count).map(|i| Point::from_affine(&(G1Projective::<C>::generator() * C::Fr::from(i)).into_affine())).collect()
}

/// All pairs out of {0, 1, …, 7}·G with both signs: chord, doubling, cancellation and infinity on either side.
pub(crate) fn check_every_case<C: Curve>() {
    let table = multiples::<C>(8);
    let mut pairs = Vec::new();
    let mut expected = Vec::new();
    for i in 0..8usize {
        for j in 0..8usize {
            for (si, sj) in [(false, false), (false, true), (true, false), (true, true)] {
                pairs.push(Pair { left: Ref::new(i, si), right: Ref::new(j, sj), to: pairs.len() as u32 });
                let signed = |n: usize, s: bool| C::Fr::from(n as u64) * C::Fr::from(if s { -1 } else { 1 });
                expected.push((G1Projective::<C>::generator() * (signed(i, si) + signed(j, sj))).into_affine());
            }
        }
    }
    // Every case passes through every lane and position of a batch, among others of its kind or alone.
    let sums = pairs.iter().copied().zip(expected).collect::<Vec<_>>();
    for kernel in Kernel::available() {
        for turn in 0..8 {
            let turned: Vec<_> = sums[turn..].iter().chain(&sums[..turn]).copied().collect();
            for size in [1, 5, 7, 8, 9, 15, 16, 17, 23, turned.len()] {
                turned.chunks(size).for_each(|batch| check::<C>(kernel, &table, batch));
            }
        }
    }
}

#[test]
fn every_case_is_exact() {
    check_every_case::<Bn254>();
    check_every_case::<Bls381>();
}

fn check<C: Curve>(kernel: Kernel, table: &[Point<C::Base>], batch: &[(Pair, G1Affine<C>)]) {
    let pairs: Vec<Pair> = batch.iter().enumerate().map(|(to, (p, _))| Pair { to: to as u32, ..*p }).collect();
    let mut out = vec![Point::INFINITY; pairs.len()];
    kernel.add_pairs(table, &pairs, &mut out, &mut Scratch::default());
    for ((pair, expected), found) in batch.iter().zip(&out) {
        assert_eq!(found.to_affine(), *expected, "{}, {pair:?}", kernel.name());
        assert_eq!(found.is_infinity(), expected.is_zero(), "{}, {pair:?}", kernel.name());
    }
}

/// Random batches: results lie where they belong, also when the batch is longer than any block.
fn check_large_batches<C: Curve>() {
    let table = multiples::<C>(97);
    let pair = |i: usize| {
        let (left, right) = (i * 7919 % 97, i * 104_729 % 89);
        Pair {
            left: Ref::new(left, i.is_multiple_of(3)),
            right: Ref::new(right, i.is_multiple_of(5)),
            to: (i * 7 % 3000) as u32,
        }
    };
    let pairs: Vec<Pair> = (0..2999).map(pair).collect();
    let run = |kernel: Kernel| {
        let mut out = vec![Point::INFINITY; 3000];
        kernel.add_pairs(&table, &pairs, &mut out, &mut Scratch::default());
        out.into_iter().map(Point::to_affine::<C::G1>).collect::<Vec<_>>()
    };
    let expected = run(Kernel::Scalar);
    for kernel in Kernel::available() {
        assert_eq!(run(kernel), expected, "{}", kernel.name());
    }
}

#[test]
fn large_batches_equal_the_scalar_kernel() {
    check_large_batches::<Bn254>();
    check_large_batches::<Bls381>();
}

#[test]
fn an_empty_batch_is_fine() {
    for kernel in Kernel::available() {
        kernel.add_pairs::<<Bn254 as Curve>::Base>(&[], &[], &mut [], &mut Scratch::default());
        kernel.add_pairs::<<Bls381 as Curve>::Base>(&[], &[], &mut [], &mut Scratch::default());
    }
}

fn check_sum<F, C, const D: usize>(multiples: &[i64])
where
    F: GroupElement,
    C: SWCurveConfig<BaseField: Coordinate<F, D>>,
{
    let point = |m: i64| (Projective::<C>::generator() * C::ScalarField::from(m.unsigned_abs())).into_affine();
    let affine = |[x, y]: [[F::Words; D]; 2]| {
        Affine::<C>::new_unchecked(C::BaseField::from_words(x), C::BaseField::from_words(y))
    };
    let expected = multiples.iter().fold(Projective::<C>::ZERO, |sum, m| {
        let scalar = C::ScalarField::from(m.unsigned_abs());
        sum + Projective::<C>::generator() * if *m < 0 { -scalar } else { scalar }
    });
    for kernel in Kernel::available() {
        let terms = multiples.iter().map(|m| {
            let p = point(*m);
            Term { x: p.x.to_words(), y: p.y.to_words(), negate: *m < 0 }
        });
        let (mut sum, mut left) = (Projective::<C>::ZERO, Vec::new());
        for [x, y, z] in kernel.sum::<F, D>(terms, &mut left) {
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

/// The same on G1 and on G2 of both curves.
pub(crate) fn check_sums(multiples: &[i64], g2: bool) {
    check_sum::<<Bn254 as Curve>::Base, <Bn254 as Curve>::G1, 1>(multiples);
    check_sum::<<Bls381 as Curve>::Base, <Bls381 as Curve>::G1, 1>(multiples);
    if g2 {
        check_sum::<<Bn254 as Curve>::Base, <Bn254 as Curve>::G2, 2>(multiples);
        check_sum::<<Bls381 as Curve>::Base, <Bls381 as Curve>::G2, 2>(multiples);
    }
}

/// Every lane meets its own sum again, its opposite, and sums of small multiples that happen to be equal.
#[test]
fn sums_are_exact_where_points_repeat_or_cancel() {
    for length in 0..20 {
        check_sums(&vec![1; length], false);
        check_sums(&vec![-3; length], true);
    }
    for first in -4..=4i64 {
        for second in -4..=4i64 {
            for lane in 0..8 {
                let mut terms = vec![100, 101, 102, 103, 104, 105, 106, 107];
                terms[lane] = if first == 0 { 9 } else { first };
                terms.extend([200, 201, 202, 203, 204, 205, 206, 207]);
                terms[8 + lane] = if second == 0 { -9 } else { second };
                terms.extend([300; 5]);
                check_sums(&terms, lane == (first + second).rem_euclid(8) as usize);
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
        check_sums(&terms, true);
    }
}
