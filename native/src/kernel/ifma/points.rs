//! Affine additions, eight pairs at a time.
//!
//! Exceptional pairs (a point at infinity, or equal x) are noticed by their low limbs and left to the portable kernel,
//! which decides exactly; a few ordinary pairs may go there too, one in 2^50.

use core::arch::x86_64::*;

use ark_bn254::FqConfig;

use super::super::{portable, Fp, Pair, Point, Ref};
use super::field::{transpose, Lanes, LANES};

type Fq = Lanes<FqConfig>;

/// Blocks go by turns to this many chains of products, since one alone would wait for its own results.
const CHAINS: usize = 2;

/// Fewer pairs than this are as fast on the portable kernel.
const PAIRS_MIN: usize = 6;

/// Memory of a batch, kept between calls.
#[derive(Default)]
pub struct Scratch {
    prefixes: Vec<Fq>,
    /// Lanes that are exceptional or beyond the end.
    skipped: Vec<u8>,
    exceptional: Vec<Pair>,
    portable: portable::Scratch,
}

#[inline]
#[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
fn point_to_vector(point: &Point) -> __m512i {
    // SAFETY: a point is 64 bytes of integers without padding, for which every vector value is valid and vice versa.
    unsafe { std::mem::transmute::<Point, __m512i>(*point) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
fn vector_to_point(vector: __m512i) -> Point {
    // SAFETY: as above.
    unsafe { std::mem::transmute::<__m512i, Point>(vector) }
}

/// x of eight points.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
fn load_x(table: &[Point], refs: &[Ref; LANES]) -> Fq {
    Lanes::from_words(&refs.map(|r| *table[r.index()].x.limbs()))
}

/// x and y of eight points; y is not carried where it was negated.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
fn load(table: &[Point], refs: &[Ref; LANES]) -> (Fq, Fq) {
    let mut rows = [_mm512_setzero_si512(); LANES];
    let mut negative = 0;
    for lane in 0..LANES {
        rows[lane] = point_to_vector(&table[refs[lane].index()]);
        negative |= u8::from(refs[lane].negates()) << lane;
    }
    let [x0, x1, x2, x3, y0, y1, y2, y3] = transpose(&rows);
    (Lanes::split(&[x0, x1, x2, x3]), Lanes::split(&[y0, y1, y2, y3]).negate_if(negative))
}

/// The references of one block; the last pair is repeated beyond the end.
#[inline(always)]
fn sides(pairs: &[Pair]) -> ([Ref; LANES], [Ref; LANES]) {
    let last = pairs.len() - 1;
    let pair = |lane: usize| &pairs[lane.min(last)];
    (std::array::from_fn(|lane| pair(lane).left), std::array::from_fn(|lane| pair(lane).right))
}

/// x₂ − x₁ + 2p, below 4p, and the lanes that may be exceptional.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
fn denominators(x1: &Fq, x2: &Fq) -> (Fq, u8) {
    let dx = x2.minus(x1).plus_p(2).carry();
    // Infinity has x = 0, in the representation 0, and no other point has.
    (dx, dx.maybe_zero() | x1.low_limb_is_zero() | x2.low_limb_is_zero())
}

/// `out[pair.to] = table[pair.left] + table[pair.right]` for all pairs, with one inversion.
#[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
pub fn add_pairs(table: &[Point], pairs: &[Pair], out: &mut [Point], scratch: &mut Scratch) {
    if pairs.len() < PAIRS_MIN {
        return portable::add_pairs(table, pairs, out, &mut scratch.portable);
    }
    let products = multiply_up(table, pairs, scratch);
    let inverses = invert(&products);
    divide_down(table, pairs, out, scratch, inverses);
    if !scratch.exceptional.is_empty() {
        portable::add_pairs(table, &scratch.exceptional, out, &mut scratch.portable);
    }
}

/// Every chain's product of denominators; the products before each block are kept.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
fn multiply_up(table: &[Point], pairs: &[Pair], scratch: &mut Scratch) -> [Fq; CHAINS] {
    let Scratch { prefixes, skipped, exceptional, .. } = scratch;
    prefixes.clear();
    skipped.clear();
    exceptional.clear();
    let one = Lanes::same(&[1, 0, 0, 0, 0]);
    let mut products = [one; CHAINS];
    for (i, block) in pairs.chunks(LANES).enumerate() {
        let (left, right) = sides(block);
        let (mut dx, mut skip) = denominators(&load_x(table, &left), &load_x(table, &right));
        if skip != 0 || block.len() < LANES {
            exceptional.extend(block.iter().enumerate().filter(|(lane, _)| skip >> lane & 1 == 1).map(|(_, p)| *p));
            skip |= beyond(block.len());
            dx = dx.replace(skip, &one);
        }
        skipped.push(skip);
        prefixes.push(products[i % CHAINS]);
        products[i % CHAINS] = products[i % CHAINS].product(&dx).carry();
    }
    products
}

/// Lanes from `count` up.
#[inline(always)]
fn beyond(count: usize) -> u8 {
    if count < LANES {
        u8::MAX << count
    } else {
        0
    }
}

/// 2^518/product in every lane of every chain: 2^260 because [`Lanes::product`] divides by it, 2^256 because elements
/// are kept times that, and 2^2 so that the square of a slope, which is kept times 2^258, comes out times 2^256.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
fn invert(products: &[Fq; CHAINS]) -> [Fq; CHAINS] {
    let both = products[0].product(&products[1]).reduce();
    let lanes = both.to_words().map(Fp::from_limbs);
    let mut prefixes = [Fp::ONE; LANES];
    let mut product = Fp::ONE;
    for (prefix, lane) in prefixes.iter_mut().zip(&lanes) {
        *prefix = product;
        product = product * *lane;
    }
    // An inverse of the portable kernel is 2^512/number: 2^6 are left to do.
    let mut inverse = (0..6).fold(product.inverse(), |i, _| i.double());
    let mut inverses = [[0; 4]; LANES];
    for lane in (0..LANES).rev() {
        inverses[lane] = *(inverse * prefixes[lane]).limbs();
        inverse = inverse * lanes[lane];
    }
    let inverse = Fq::from_words(&inverses);
    [inverse.product(&products[1]).carry(), inverse.product(&products[0]).carry()]
}

#[inline]
#[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
fn divide_down(table: &[Point], pairs: &[Pair], out: &mut [Point], scratch: &Scratch, mut inverses: [Fq; CHAINS]) {
    let one = Lanes::same(&[1, 0, 0, 0, 0]);
    for (i, block) in pairs.chunks(LANES).enumerate().rev() {
        let (left, right) = sides(block);
        let ((x1, y1), (x2, y2)) = (load(table, &left), load(table, &right));
        let skip = scratch.skipped[i];
        let dx = x2.minus(&x1).plus_p(2).carry().replace(skip, &one);
        let inverse = inverses[i % CHAINS];
        let reciprocal = inverse.product(&scratch.prefixes[i]).carry();
        inverses[i % CHAINS] = inverse.product(&dx).carry();
        let slope = y2.minus(&y1).plus_p(2).carry().product(&reciprocal).carry();
        let x3 = slope.product(&slope).plus_p(5).minus(&x1).minus(&x2).reduce();
        // The slope is times 2^258 and the product divides by 2^260, so the other factor has to be times four.
        let run = x1.minus(&x3).plus_p(2).times_four().carry();
        let y3 = slope.product(&run).plus_p(3).minus(&y1).reduce();
        let ([a, b, c, d], [e, f, g, h]) = (x3.join(), y3.join());
        let points = transpose(&[a, b, c, d, e, f, g, h]);
        for (lane, pair) in block.iter().enumerate() {
            // Exceptional pairs get their sum later, from the portable kernel.
            out[pair.to as usize] = vector_to_point(points[lane]);
        }
    }
}
