//! Affine additions, eight pairs at a time.
//!
//! Exceptional pairs (a point at infinity, or equal x) are noticed by their low limbs and left to the portable kernel,
//! which decides exactly; a few ordinary pairs may go there too, one in 2^50.

use core::arch::x86_64::*;

use ark_ff::MontConfig;

use super::super::{portable, Element, Lazy, Pair, Portable, Ref};
use super::field::{halves, transpose, Lanes, LANES};

type Point<M> = super::super::Point<Lazy<M, 4>>;

/// Vectors worked on together, each with its own chain of products: one alone would wait for its own results.
const CHAINS: usize = 2;
const BLOCK: usize = CHAINS * LANES;

/// Fewer pairs than this are as fast on the portable kernel.
const PAIRS_MIN: usize = 6;

/// Memory of a batch, kept between calls.
pub struct Scratch<M: MontConfig<4>> {
    prefixes: Vec<[Lanes<M>; CHAINS]>,
    /// Lanes that are exceptional.
    skipped: Vec<[u8; CHAINS]>,
    exceptional: Vec<Pair>,
    portable: portable::Scratch<Lazy<M, 4>>,
}

impl<M: MontConfig<4>> Default for Scratch<M> {
    fn default() -> Self {
        Self {
            prefixes: Vec::new(),
            skipped: Vec::new(),
            exceptional: Vec::new(),
            portable: portable::Scratch::default(),
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
fn point_to_vector<M: MontConfig<4>>(point: &Point<M>) -> __m512i {
    // SAFETY: a point of four-word coordinates is 64 bytes of integers without padding.
    unsafe { _mm512_load_si512((&raw const *point).cast()) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
fn store_point<M: MontConfig<4>>(vector: __m512i, point: &mut Point<M>) {
    // SAFETY: as above, and every value of the words is one of the point; points are aligned to 64 bytes.
    unsafe { _mm512_store_si512((&raw mut *point).cast(), vector) }
}

/// x of eight points.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
fn load_x<M: MontConfig<4>>(table: &[Point<M>], refs: impl Fn(usize) -> Ref) -> Lanes<M> {
    let both = |a: usize, b: usize| halves(table[refs(a).index()].x.words(), table[refs(b).index()].x.words());
    Lanes::from_halves(&[both(0, 2), both(1, 3), both(4, 6), both(5, 7)])
}

/// x and y of eight points; y is not carried where it was negated.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
fn load<M: MontConfig<4>>(table: &[Point<M>], refs: impl Fn(usize) -> Ref) -> (Lanes<M>, Lanes<M>) {
    let row = |lane: usize| point_to_vector(&table[refs(lane).index()]);
    let rows = [row(0), row(1), row(2), row(3), row(4), row(5), row(6), row(7)];
    let negative = (0..LANES).fold(0, |mask, lane| mask | u8::from(refs(lane).negates()) << lane);
    let [x0, x1, x2, x3, y0, y1, y2, y3] = transpose(&rows);
    (Lanes::split(&[x0, x1, x2, x3]), Lanes::split(&[y0, y1, y2, y3]).negate_if(negative))
}

type Block = [Pair; BLOCK];

/// Whole blocks, and the rest filled up with its last pair, with the number of pairs it had.
#[inline(always)]
fn blocks(pairs: &[Pair]) -> (&[Block], Option<(Block, usize)>) {
    let (whole, rest) = pairs.as_chunks::<BLOCK>();
    (whole, rest.last().map(|last| (std::array::from_fn(|i| *rest.get(i).unwrap_or(last)), rest.len())))
}

/// `out[pair.to] = table[pair.left] + table[pair.right]` for all pairs, with one inversion.
#[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
pub fn add_pairs<M: MontConfig<4>>(table: &[Point<M>], pairs: &[Pair], out: &mut [Point<M>], scratch: &mut Scratch<M>) {
    if pairs.len() < PAIRS_MIN {
        return portable::add_pairs(Portable, table, pairs, out, &mut scratch.portable);
    }
    let products = multiply_up(table, pairs, scratch);
    let inverses = invert(&products);
    divide_down(table, pairs, out, scratch, inverses);
    if !scratch.exceptional.is_empty() {
        portable::add_pairs(Portable, table, &scratch.exceptional, out, &mut scratch.portable);
    }
}

/// Every chain's product of denominators; the products before each block are kept.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
fn multiply_up<M: MontConfig<4>>(table: &[Point<M>], pairs: &[Pair], scratch: &mut Scratch<M>) -> [Lanes<M>; CHAINS] {
    let Scratch { prefixes, skipped, exceptional, .. } = scratch;
    skipped.clear();
    exceptional.clear();
    let (whole, rest) = blocks(pairs);
    if prefixes.len() < whole.len() + 2 {
        prefixes.resize(whole.len() + 2, [Lanes::ZERO; CHAINS]);
    }
    prefixes[0] = [Lanes::same(&[1, 0, 0, 0, 0]); CHAINS];
    let partial = rest.as_ref().map(|(block, count)| (block, *count));
    for (i, (block, count)) in whole.iter().map(|block| (block, BLOCK)).chain(partial).enumerate() {
        let (denominators, skips) = denominators(table, block, count, exceptional);
        skipped.push(skips);
        prefixes[i + 1] = product_each(&prefixes[i], &denominators);
    }
    prefixes[skipped.len()]
}

/// x₂ − x₁ + 2p, or 1 in the exceptional lanes. Lanes from `count` up repeat the last pair and do no harm.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
fn denominators<M: MontConfig<4>>(
    table: &[Point<M>],
    block: &Block,
    count: usize,
    exceptional: &mut Vec<Pair>,
) -> ([Lanes<M>; CHAINS], [u8; CHAINS]) {
    let mut skips = [0; CHAINS];
    let mut out: [Lanes<M>; CHAINS] = std::array::from_fn(|c| {
        let x1 = load_x(table, |lane| block[c * LANES + lane].left);
        let x2 = load_x(table, |lane| block[c * LANES + lane].right);
        let dx = x2.minus(&x1).plus_p(2).carry();
        // Infinity has x = 0, in the representation 0, and no other point has.
        skips[c] = dx.maybe_zero() | x1.low_limb_is_zero() | x2.low_limb_is_zero();
        dx
    });
    if skips != [0; CHAINS] {
        for (i, pair) in block.iter().take(count).enumerate() {
            if skips[i / LANES] >> (i % LANES) & 1 == 1 {
                exceptional.push(*pair);
            }
        }
        let one = Lanes::same(&[1, 0, 0, 0, 0]);
        for (dx, skip) in out.iter_mut().zip(skips) {
            *dx = dx.replace(skip, &one);
        }
    }
    (out, skips)
}

/// Chain by chain, so that one chain's product runs while another's waits for its own results.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
fn product_each<M: MontConfig<4>>(a: &[Lanes<M>; CHAINS], b: &[Lanes<M>; CHAINS]) -> [Lanes<M>; CHAINS] {
    let mut out = *a;
    for (out, b) in out.iter_mut().zip(b) {
        *out = out.product(b);
    }
    for out in &mut out {
        *out = out.carry();
    }
    out
}

/// 2^518/product in every lane of every chain: 2^260 because [`Lanes::product`] divides by it, 2^256 because elements
/// are kept times that, and 2^2 so that the square of a slope, which is kept times 2^258, comes out times 2^256.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
fn invert<M: MontConfig<4>>(products: &[Lanes<M>; CHAINS]) -> [Lanes<M>; CHAINS] {
    let both = products[0].product(&products[1]).reduce();
    let lanes = both.to_words().map(Lazy::<M, 4>::from_words);
    let mut prefixes = [Lazy::ONE; LANES];
    let mut product = Lazy::ONE;
    for (prefix, lane) in prefixes.iter_mut().zip(&lanes) {
        *prefix = product;
        product = product * *lane;
    }
    // An inverse of the portable kernel is 2^512/number: 2^6 are left to do.
    let mut inverse = (0..6).fold(product.inverse(), |i, _| i.double());
    let mut inverses = [[0; 4]; LANES];
    for lane in (0..LANES).rev() {
        inverses[lane] = *(inverse * prefixes[lane]).words();
        inverse = inverse * lanes[lane];
    }
    let inverse = Lanes::from_words(&inverses);
    [inverse.product(&products[1]).carry(), inverse.product(&products[0]).carry()]
}

#[inline]
#[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
fn divide_down<M: MontConfig<4>>(
    table: &[Point<M>],
    pairs: &[Pair],
    out: &mut [Point<M>],
    scratch: &Scratch<M>,
    mut inverses: [Lanes<M>; CHAINS],
) {
    let (whole, rest) = blocks(pairs);
    let mut at = scratch.skipped.len();
    let partial = rest.as_ref().map(|(block, count)| (block, *count));
    for (block, count) in partial.into_iter().chain(whole.iter().rev().map(|block| (block, BLOCK))) {
        at -= 1;
        let (skips, prefixes) = (&scratch.skipped[at], &scratch.prefixes[at]);
        inverses = divide_block(table, block, count, out, skips, prefixes, &inverses);
    }
}

/// What a sum needs of its two points.
struct Line<M> {
    x1: Lanes<M>,
    y1: Lanes<M>,
    /// x₁ + x₂.
    sum: Lanes<M>,
    dx: Lanes<M>,
    dy: Lanes<M>,
}

#[inline]
#[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
fn divide_block<M: MontConfig<4>>(
    table: &[Point<M>],
    block: &Block,
    count: usize,
    out: &mut [Point<M>],
    skips: &[u8; CHAINS],
    prefixes: &[Lanes<M>; CHAINS],
    inverses: &[Lanes<M>; CHAINS],
) -> [Lanes<M>; CHAINS] {
    let one = Lanes::same(&[1, 0, 0, 0, 0]);
    let lines: [Line<M>; CHAINS] = std::array::from_fn(|c| {
        let (x1, y1) = load(table, |lane| block[c * LANES + lane].left);
        let (x2, y2) = load(table, |lane| block[c * LANES + lane].right);
        let dx = x2.minus(&x1).plus_p(2).carry().replace(skips[c], &one);
        Line { x1, y1, sum: x1.plus(&x2), dx, dy: y2.minus(&y1).plus_p(2).carry() }
    });
    let reciprocals = product_each(inverses, prefixes);
    let next = product_each(inverses, &lines.each_ref().map(|line| line.dx));
    let slopes = product_each(&lines.each_ref().map(|line| line.dy), &reciprocals);
    let x3: [Lanes<M>; CHAINS] = std::array::from_fn(|c| slopes[c].square().plus_p(5).minus(&lines[c].sum).reduce());
    // The slope is times 2^258 and the product divides by 2^260, so the other factor has to be times four.
    let runs: [Lanes<M>; CHAINS] = std::array::from_fn(|c| lines[c].x1.minus(&x3[c]).plus_p(2).times_four().carry());
    let y3: [Lanes<M>; CHAINS] = std::array::from_fn(|c| slopes[c].product(&runs[c]).plus_p(3).minus(&lines[c].y1));
    for (c, pairs) in block[..count].chunks(LANES).enumerate() {
        let ([x_0, x_1, x_2, x_3], [y_0, y_1, y_2, y_3]) = (x3[c].join(), y3[c].reduce().join());
        let points = transpose(&[x_0, x_1, x_2, x_3, y_0, y_1, y_2, y_3]);
        for (pair, point) in pairs.iter().zip(points) {
            // Exceptional pairs get their sum later, from the portable kernel.
            store_point(point, &mut out[pair.to as usize]);
        }
    }
    next
}
