//! The portable kernel: plain Rust, any processor.

use super::{Fp, Pair, Point};

/// Memory of a batch, kept between calls.
#[derive(Default)]
pub struct Scratch {
    denominators: Vec<Fp>,
    prefixes: Vec<Fp>,
}

/// How the sum of two affine points comes about. Every case is exact, so hostile keys with repeated, opposite or
/// infinite points cannot make the result wrong.
enum Case {
    /// Slope (y₂ − y₁)/(x₂ − x₁): the denominator.
    Chord(Fp),
    /// Slope 3x²/2y: the denominator.
    Tangent(Fp),
    Left,
    Right,
    Infinity,
}

#[inline(always)]
fn classify(left: &Point, right: &Point) -> Case {
    let dx = right.x - left.x;
    if dx.is_zero() || left.is_infinity() || right.is_infinity() {
        classify_rare(left, right)
    } else {
        Case::Chord(dx)
    }
}

#[cold]
fn classify_rare(left: &Point, right: &Point) -> Case {
    if right.is_infinity() {
        Case::Left
    } else if left.is_infinity() {
        Case::Right
    } else if (left.y - right.y).is_zero() {
        Case::Tangent(left.y.double())
    } else {
        Case::Infinity
    }
}

#[inline(always)]
fn sum_on_line(left: &Point, right_x: Fp, slope: Fp) -> Point {
    let x = slope.square() - left.x - right_x;
    Point { x, y: slope * (left.x - x) - left.y }
}

/// `out[pair.to] = table[pair.left] + table[pair.right]` for all pairs, with one inversion.
pub fn add_pairs(table: &[Point], pairs: &[Pair], out: &mut [Point], scratch: &mut Scratch) {
    let Scratch { denominators, prefixes } = scratch;
    denominators.clear();
    prefixes.clear();
    let mut product = Fp::ONE;
    for pair in pairs {
        let denominator = match classify(&pair.left.load(table), &pair.right.load(table)) {
            Case::Chord(d) | Case::Tangent(d) => d,
            Case::Left | Case::Right | Case::Infinity => Fp::ONE,
        };
        prefixes.push(product);
        denominators.push(denominator);
        product = product * denominator;
    }
    // Every factor is non-zero by classification, so the inverse exists.
    let mut inverse = product.inverse();
    for ((pair, prefix), denominator) in pairs.iter().zip(prefixes.iter()).zip(denominators.iter()).rev() {
        let reciprocal = inverse * *prefix;
        inverse = inverse * *denominator;
        let (left, right) = (pair.left.load(table), pair.right.load(table));
        out[pair.to as usize] = match classify(&left, &right) {
            Case::Chord(_) => sum_on_line(&left, right.x, (right.y - left.y) * reciprocal),
            Case::Tangent(_) => {
                let square = left.x.square();
                sum_on_line(&left, right.x, (square.double() + square) * reciprocal)
            }
            Case::Left => left,
            Case::Right => right,
            Case::Infinity => Point::INFINITY,
        };
    }
}
