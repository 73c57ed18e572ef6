//! The portable kernel: any field, any processor.

use ark_ff::Field;

use super::{Pair, Point, Scratch};

/// How the sum of two affine points comes about. Every case is exact, so hostile keys with repeated, opposite or
/// infinite points cannot make the result wrong.
enum Case<F> {
    /// Slope (y₂ − y₁)/(x₂ − x₁): the denominator.
    Chord(F),
    /// Slope 3x²/2y: the denominator.
    Tangent(F),
    Left,
    Right,
    Infinity,
}

#[inline(always)]
fn classify<F: Field>(left: &Point<F>, right: &Point<F>) -> Case<F> {
    let dx = right.x - left.x;
    if dx != F::ZERO && !left.is_infinity() && !right.is_infinity() {
        Case::Chord(dx)
    } else {
        classify_rare(left, right)
    }
}

#[cold]
fn classify_rare<F: Field>(left: &Point<F>, right: &Point<F>) -> Case<F> {
    if right.is_infinity() {
        Case::Left
    } else if left.is_infinity() {
        Case::Right
    } else if left.y == right.y && left.y != F::ZERO {
        Case::Tangent(left.y.double())
    } else {
        Case::Infinity
    }
}

#[inline(always)]
fn sum_on_line<F: Field>(left: &Point<F>, right_x: &F, slope: F) -> Point<F> {
    let x = slope.square() - left.x - right_x;
    Point { x, y: slope * (left.x - x) - left.y }
}

/// `out[pair.to] = table[pair.left] + table[pair.right]` for all pairs, with one inversion.
pub fn add_pairs<F: Field>(table: &[Point<F>], pairs: &[Pair], out: &mut [Point<F>], scratch: &mut Scratch<F>) {
    let Scratch { denominators, prefixes } = scratch;
    denominators.clear();
    prefixes.clear();
    let mut product = F::ONE;
    for pair in pairs {
        let denominator = match classify(&pair.left.load(table), &pair.right.load(table)) {
            Case::Chord(d) | Case::Tangent(d) => d,
            Case::Left | Case::Right | Case::Infinity => F::ONE,
        };
        prefixes.push(product);
        denominators.push(denominator);
        product *= denominator;
    }
    // The factors are non-zero by classification, so the inverse exists.
    let mut inverse = product.inverse().unwrap_or(F::ONE);
    for (i, pair) in pairs.iter().enumerate().rev() {
        let reciprocal = inverse * prefixes[i];
        inverse *= denominators[i];
        let (left, right) = (pair.left.load(table), pair.right.load(table));
        out[pair.to as usize] = match classify(&left, &right) {
            Case::Chord(_) => sum_on_line(&left, &right.x, (right.y - left.y) * reciprocal),
            Case::Tangent(_) => {
                let square = left.x.square();
                sum_on_line(&left, &right.x, (square.double() + square) * reciprocal)
            }
            Case::Left => left,
            Case::Right => right,
            Case::Infinity => Point::INFINITY,
        };
    }
}

#[cfg(test)]
mod tests {
    use ark_bn254::{Fq, Fr, G1Affine, G1Projective};
    use ark_ec::{CurveGroup, PrimeGroup};

    use super::*;
    use crate::kernel::Ref;

    fn multiples(count: u64) -> Vec<Point<Fq>> {
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
        let mut out = vec![Point::INFINITY; pairs.len()];
        add_pairs(&table, &pairs, &mut out, &mut Scratch::default());
        for (i, (found, expected)) in out.iter().zip(&expected).enumerate() {
            assert_eq!(found.to_affine::<ark_bn254::g1::Config>(), *expected as G1Affine, "pair {i}");
        }
    }

    #[test]
    fn an_empty_batch_is_fine() {
        add_pairs::<Fq>(&[], &[], &mut [], &mut Scratch::default());
    }
}
