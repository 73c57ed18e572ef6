//! The scalar kernels: one loop, each with its own multiplication.

use super::{Element, Multiply, Pair, Point};

/// Memory of a batch, kept between calls.
pub struct Scratch<F> {
    denominators: Vec<F>,
    prefixes: Vec<F>,
}

impl<F> Default for Scratch<F> {
    fn default() -> Self {
        Self { denominators: Vec::new(), prefixes: Vec::new() }
    }
}

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
fn classify<F: Element>(left: &Point<F>, right: &Point<F>) -> Case<F> {
    let dx = right.x - left.x;
    if dx.is_zero() || left.is_infinity() || right.is_infinity() {
        classify_rare(left, right)
    } else {
        Case::Chord(dx)
    }
}

#[cold]
fn classify_rare<F: Element>(left: &Point<F>, right: &Point<F>) -> Case<F> {
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
fn sum_on_line<F: Element, K: Multiply>(left: &Point<F>, right_x: F, slope: F, kernel: K) -> Point<F> {
    let x = slope.square(kernel) - left.x - right_x;
    Point::new(x, slope.times(left.x - x, kernel) - left.y)
}

/// `out[pair.to] = table[pair.left] + table[pair.right]` for all pairs, with one inversion.
pub fn add_pairs<F: Element, K: Multiply>(
    kernel: K,
    table: &[Point<F>],
    pairs: &[Pair],
    out: &mut [Point<F>],
    scratch: &mut Scratch<F>,
) {
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
        product = product.times(denominator, kernel);
    }
    // Every factor is non-zero by classification, so the inverse exists.
    let mut inverse = product.inverse();
    for ((pair, prefix), denominator) in pairs.iter().zip(prefixes.iter()).zip(denominators.iter()).rev() {
        let [reciprocal, next] = F::times_each([inverse; 2], [*prefix, *denominator], kernel);
        inverse = next;
        let (left, right) = (pair.left.load(table), pair.right.load(table));
        out[pair.to as usize] = match classify(&left, &right) {
            Case::Chord(_) => sum_on_line(&left, right.x, (right.y - left.y).times(reciprocal, kernel), kernel),
            Case::Tangent(_) => {
                let square = left.x.square(kernel);
                sum_on_line(&left, right.x, (square.double() + square).times(reciprocal, kernel), kernel)
            }
            Case::Left => left,
            Case::Right => right,
            Case::Infinity => Point::INFINITY,
        };
    }
}
