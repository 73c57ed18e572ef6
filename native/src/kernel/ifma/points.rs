//! Affine additions, eight pairs at a time.
//!
//! Exceptional pairs (a point at infinity, or equal x) are noticed by their low limbs and left to the portable kernel,
//! which decides exactly; a few ordinary pairs may go there too, one in 2^50.

use core::arch::x86_64::*;

use ark_bn254::FqConfig;

use super::super::{portable, Fp, Pair, Point, Ref};
use super::field::{halves, transpose, Lanes, LANES};

type Fq = Lanes<FqConfig>;

/// Vectors worked on together, each with its own chain of products: one alone would wait for its own results.
const CHAINS: usize = 2;
const BLOCK: usize = CHAINS * LANES;

/// Fewer pairs than this are as fast on the portable kernel.
const PAIRS_MIN: usize = 6;

/// Memory of a batch, kept between calls.
#[derive(Default)]
pub struct Scratch {
    prefixes: Vec<[Fq; CHAINS]>,
    /// Lanes that are exceptional or beyond the end.
    skipped: Vec<[u8; CHAINS]>,
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
    let mut rows = [_mm512_setzero_si512(); 4];
    for (row, low) in rows.iter_mut().zip([0, 1, 4, 5]) {
        let (a, b) = (&table[refs[low].index()].x, &table[refs[low + 2].index()].x);
        *row = halves(a.limbs(), b.limbs());
    }
    Lanes::from_halves(&rows)
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

/// The references of one vector of `pairs`; the last pair is repeated beyond the end.
#[inline(always)]
fn sides(pairs: &[Pair], chain: usize) -> ([Ref; LANES], [Ref; LANES]) {
    if let Some(Some(pairs)) = pairs.get(chain * LANES..).map(|p| p.first_chunk::<LANES>()) {
        return (pairs.map(|p| p.left), pairs.map(|p| p.right));
    }
    let last = pairs.len() - 1;
    let pair = |lane: usize| &pairs[(chain * LANES + lane).min(last)];
    (std::array::from_fn(|lane| pair(lane).left), std::array::from_fn(|lane| pair(lane).right))
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
    for block in pairs.chunks(BLOCK) {
        let mut skips = [0; CHAINS];
        let mut denominators = [one; CHAINS];
        for (chain, (skip, dx)) in skips.iter_mut().zip(&mut denominators).enumerate() {
            let (left, right) = sides(block, chain);
            let (x1, x2) = (load_x(table, &left), load_x(table, &right));
            *dx = x2.minus(&x1).plus_p(2).carry();
            // Infinity has x = 0, in the representation 0, and no other point has.
            *skip = dx.maybe_zero() | x1.low_limb_is_zero() | x2.low_limb_is_zero();
        }
        if skips != [0; CHAINS] || block.len() < BLOCK {
            for (i, pair) in block.iter().enumerate() {
                if skips[i / LANES] >> (i % LANES) & 1 == 1 {
                    exceptional.push(*pair);
                }
            }
            for (chain, (skip, dx)) in skips.iter_mut().zip(&mut denominators).enumerate() {
                *skip |= beyond(block.len().saturating_sub(chain * LANES));
                *dx = dx.replace(*skip, &one);
            }
        }
        skipped.push(skips);
        prefixes.push(products);
        products = product_each(&products, &denominators);
    }
    products
}

/// Chain by chain, so that one chain's product runs while another's waits for its own results.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
fn product_each(a: &[Fq; CHAINS], b: &[Fq; CHAINS]) -> [Fq; CHAINS] {
    let mut out = *a;
    for (out, b) in out.iter_mut().zip(b) {
        *out = out.product(b);
    }
    for out in &mut out {
        *out = out.carry();
    }
    out
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
    let blocks = pairs.chunks(BLOCK).zip(&scratch.skipped).zip(&scratch.prefixes);
    for ((block, skips), prefixes) in blocks.rev() {
        let (mut x1, mut y1, mut x2, mut dx, mut dy) =
            ([one; CHAINS], [one; CHAINS], [one; CHAINS], [one; CHAINS], [one; CHAINS]);
        for c in 0..CHAINS {
            let (left, right) = sides(block, c);
            (x1[c], y1[c]) = load(table, &left);
            let y2;
            (x2[c], y2) = load(table, &right);
            dx[c] = x2[c].minus(&x1[c]).plus_p(2).carry().replace(skips[c], &one);
            dy[c] = y2.minus(&y1[c]).plus_p(2).carry();
        }
        let reciprocals = product_each(&inverses, prefixes);
        inverses = product_each(&inverses, &dx);
        let slopes = product_each(&dy, &reciprocals);
        let mut x3 = slopes;
        for c in 0..CHAINS {
            x3[c] = slopes[c].product(&slopes[c]).plus_p(5).minus(&x1[c]).minus(&x2[c]);
        }
        let mut run = x3;
        for c in 0..CHAINS {
            x3[c] = x3[c].reduce();
            // The slope is times 2^258 and the product divides by 2^260, so the other factor has to be times four.
            run[c] = x1[c].minus(&x3[c]).plus_p(2).times_four().carry();
        }
        let mut y3 = run;
        for c in 0..CHAINS {
            y3[c] = slopes[c].product(&run[c]).plus_p(3).minus(&y1[c]);
        }
        for (c, pairs) in block.chunks(LANES).enumerate() {
            let ([a, b, c, d], [e, f, g, h]) = (x3[c].join(), y3[c].reduce().join());
            let points = transpose(&[a, b, c, d, e, f, g, h]);
            for (pair, point) in pairs.iter().zip(points) {
                // Exceptional pairs get their sum later, from the portable kernel.
                out[pair.to as usize] = vector_to_point(point);
            }
        }
    }
}
