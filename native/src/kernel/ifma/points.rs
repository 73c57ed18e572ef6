//! Affine additions, eight pairs at a time.
//!
//! Exceptional pairs (a point at infinity, or equal x) are noticed by their low limbs and left to the portable kernel,
//! which decides exactly; a few ordinary pairs may go there too, one in 2^50.

use core::arch::x86_64::*;

use ark_ff::MontConfig;

use super::super::{portable, Element, Lazy, Limbs, Memory, Pair, Portable, Ref, Words};
use super::field::{transpose, words_at, Lanes, LANES};

type Point<M, const N: usize> = super::super::Point<Lazy<M, N>>;

/// Vectors worked on together, each with its own chain of products: one alone would wait for its own results.
const CHAINS: usize = 2;
const BLOCK: usize = CHAINS * LANES;

/// Fewer pairs than this are as fast on the portable kernel.
const PAIRS_MIN: usize = 6;

/// Memory of a batch, kept between calls.
pub struct Scratch<M: MontConfig<N>, const N: usize, const L: usize> {
    prefixes: Vec<[Lanes<M, N, L>; CHAINS]>,
    /// Lanes that are exceptional.
    skipped: Vec<[u8; CHAINS]>,
    exceptional: Vec<Pair>,
    portable: portable::Scratch<Lazy<M, N>>,
}

impl<M: MontConfig<N>, const N: usize, const L: usize> Default for Scratch<M, N, L> {
    fn default() -> Self {
        Self {
            prefixes: Vec::new(),
            skipped: Vec::new(),
            exceptional: Vec::new(),
            portable: portable::Scratch::default(),
        }
    }
}

impl<M: MontConfig<N>, const N: usize, const L: usize> Memory for Scratch<M, N, L> {
    fn bytes(&self) -> usize {
        self.prefixes.bytes() + self.skipped.bytes() + self.exceptional.bytes() + self.portable.bytes()
    }
}

type Block = [Pair; BLOCK];

/// Whole blocks, and the rest filled up with its last pair, with the number of pairs it had.
#[inline(always)]
fn blocks(pairs: &[Pair]) -> (&[Block], Option<(Block, usize)>) {
    let (whole, rest) = pairs.as_chunks::<BLOCK>();
    (whole, rest.last().map(|last| (std::array::from_fn(|i| *rest.get(i).unwrap_or(last)), rest.len())))
}

/// One vector per chain.
type Chains<M, const N: usize, const L: usize> = [Lanes<M, N, L>; CHAINS];

/// What a sum needs of its two points.
struct Line<M, const N: usize, const L: usize> {
    x1: Lanes<M, N, L>,
    y1: Lanes<M, N, L>,
    /// x₁ + x₂.
    sum: Lanes<M, N, L>,
    dx: Lanes<M, N, L>,
    dy: Lanes<M, N, L>,
}

impl<M: MontConfig<N>, const N: usize, const L: usize> Scratch<M, N, L>
where
    Limbs<N>: Words,
{
    /// x of eight points.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
    fn load_x(table: &[Point<M, N>], refs: impl Fn(usize) -> Ref) -> Lanes<M, N, L> {
        let x = |lane: usize| table[refs(lane).index()].x.words();
        Lanes::load([x(0), x(1), x(2), x(3), x(4), x(5), x(6), x(7)])
    }

    /// x and y of eight points; y is not carried where it was negated.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
    fn load(table: &[Point<M, N>], refs: impl Fn(usize) -> Ref) -> (Lanes<M, N, L>, Lanes<M, N, L>) {
        let (mut x, mut y) = ([_mm512_setzero_si512(); N], [_mm512_setzero_si512(); N]);
        // The first eight words of each point are x and the beginning of y.
        let columns = transpose(&std::array::from_fn(|lane| words_at::<8>(Self::words(&table[refs(lane).index()]), 0)));
        x.copy_from_slice(&columns[..N]);
        y[..8 - N].copy_from_slice(&columns[N..]);
        if N > 4 {
            let rest = std::array::from_fn(|lane| words_at::<4>(Self::words(&table[refs(lane).index()]), 8));
            y[8 - N..].copy_from_slice(&transpose(&rest)[..2 * N - 8]);
        }
        let negative = (0..LANES).fold(0, |mask, lane| mask | u8::from(refs(lane).negates()) << lane);
        (Lanes::split(&x), Lanes::split(&y).negate_if(negative))
    }

    #[inline(always)]
    fn words(point: &Point<M, N>) -> &[u64] {
        // SAFETY: a point is its 2·N words and no padding before or between them.
        unsafe { std::slice::from_raw_parts((&raw const *point).cast(), 2 * N) }
    }

    /// Writes eight points.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
    fn store(x: &Lanes<M, N, L>, y: &Lanes<M, N, L>, pairs: &[Pair], out: &mut [Point<M, N>]) {
        let (x, y) = (x.join(), y.join());
        let mut columns = [_mm512_setzero_si512(); LANES];
        columns[..N].copy_from_slice(&x);
        columns[N..].copy_from_slice(&y[..8 - N]);
        for (pair, first) in pairs.iter().zip(transpose(&columns)) {
            let to: *mut Point<M, N> = &raw mut out[pair.to as usize];
            // SAFETY: a point is its 2·N ≥ 8 words, and every value of the words is one of the point.
            unsafe { _mm512_storeu_si512(to.cast(), first) };
        }
        if N > 4 {
            let mut columns = [_mm512_setzero_si512(); LANES];
            columns[..2 * N - 8].copy_from_slice(&y[8 - N..]);
            for (pair, rest) in pairs.iter().zip(transpose(&columns)) {
                let to: *mut u64 = (&raw mut out[pair.to as usize]).cast();
                // SAFETY: as above; N is 6, so that four of its words are left.
                unsafe { _mm256_storeu_si256(to.add(8).cast(), _mm512_castsi512_si256(rest)) };
            }
        }
    }

    /// `out[pair.to] = table[pair.left] + table[pair.right]` for all pairs, with one inversion.
    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
    pub fn add_pairs(&mut self, table: &[Point<M, N>], pairs: &[Pair], out: &mut [Point<M, N>]) {
        if pairs.len() < PAIRS_MIN {
            return portable::add_pairs(Portable, table, pairs, out, &mut self.portable);
        }
        let products = self.multiply_up(table, pairs);
        let inverses = Self::invert(&products);
        self.divide_down(table, pairs, out, inverses);
        if !self.exceptional.is_empty() {
            portable::add_pairs(Portable, table, &self.exceptional, out, &mut self.portable);
        }
    }

    /// Every chain's product of denominators; the products before each block are kept.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
    fn multiply_up(&mut self, table: &[Point<M, N>], pairs: &[Pair]) -> Chains<M, N, L> {
        let Scratch { prefixes, skipped, exceptional, .. } = self;
        skipped.clear();
        exceptional.clear();
        let (whole, rest) = blocks(pairs);
        if prefixes.len() < whole.len() + 2 {
            prefixes.resize(whole.len() + 2, [Lanes::ZERO; CHAINS]);
        }
        prefixes[0] = [Lanes::same(&Lanes::<M, N, L>::UNIT); CHAINS];
        let partial = rest.as_ref().map(|(block, count)| (block, *count));
        for (i, (block, count)) in whole.iter().map(|block| (block, BLOCK)).chain(partial).enumerate() {
            let (denominators, skips) = Self::denominators(table, block, count, exceptional);
            skipped.push(skips);
            prefixes[i + 1] = Self::product_each(&prefixes[i], &denominators);
        }
        prefixes[skipped.len()]
    }

    /// x₂ − x₁ + 2p, or 1 in the exceptional lanes. Lanes from `count` up repeat the last pair and do no harm.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
    fn denominators(
        table: &[Point<M, N>],
        block: &Block,
        count: usize,
        exceptional: &mut Vec<Pair>,
    ) -> (Chains<M, N, L>, [u8; CHAINS]) {
        let mut skips = [0; CHAINS];
        let mut out: Chains<M, N, L> = std::array::from_fn(|c| {
            let x1 = Self::load_x(table, |lane| block[c * LANES + lane].left);
            let x2 = Self::load_x(table, |lane| block[c * LANES + lane].right);
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
            let one = Lanes::same(&Lanes::<M, N, L>::UNIT);
            for (dx, skip) in out.iter_mut().zip(skips) {
                *dx = dx.replace(skip, &one);
            }
        }
        (out, skips)
    }

    /// Chain by chain, so that one chain's product runs while another's waits for its own results.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
    fn product_each(a: &Chains<M, N, L>, b: &Chains<M, N, L>) -> Chains<M, N, L> {
        let mut out = *a;
        for (out, b) in out.iter_mut().zip(b) {
            *out = out.product(b);
        }
        for out in &mut out {
            *out = out.carry();
        }
        out
    }

    /// R·R'·2^(S/2)/product in every lane of every chain, where elements are kept times R = 2^(64·N), products are
    /// divided by R' = 2^(52·L) = R·2^S, and slopes are kept times R·2^(S/2), so that their squares come out times R.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
    fn invert(products: &Chains<M, N, L>) -> Chains<M, N, L> {
        let both = products[0].product(&products[1]).reduce();
        let lanes = both.to_words().map(Lazy::<M, N>::from_words);
        let mut prefixes = [Lazy::ONE; LANES];
        let mut product = Lazy::ONE;
        for (prefix, lane) in prefixes.iter_mut().zip(&lanes) {
            *prefix = product;
            product = product * *lane;
        }
        // An inverse of the portable kernel is R²/number: 2^S·2^(S/2) is left to do.
        let spare = Lanes::<M, N, L>::SPARE;
        let mut inverse = product.inverse() * Lazy::new((1u64 << (spare + spare / 2)).into());
        let mut inverses = [[0; N]; LANES];
        for lane in (0..LANES).rev() {
            inverses[lane] = *(inverse * prefixes[lane]).words();
            inverse = inverse * lanes[lane];
        }
        let inverse = Lanes::from_words(&inverses);
        [inverse.product(&products[1]).carry(), inverse.product(&products[0]).carry()]
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
    fn divide_down(
        &self,
        table: &[Point<M, N>],
        pairs: &[Pair],
        out: &mut [Point<M, N>],
        mut inverses: Chains<M, N, L>,
    ) {
        let (whole, rest) = blocks(pairs);
        let mut at = self.skipped.len();
        let partial = rest.as_ref().map(|(block, count)| (block, *count));
        for (block, count) in partial.into_iter().chain(whole.iter().rev().map(|block| (block, BLOCK))) {
            at -= 1;
            let (skips, prefixes) = (&self.skipped[at], &self.prefixes[at]);
            inverses = Self::divide_block(table, block, count, out, skips, prefixes, &inverses);
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
    fn divide_block(
        table: &[Point<M, N>],
        block: &Block,
        count: usize,
        out: &mut [Point<M, N>],
        skips: &[u8; CHAINS],
        prefixes: &Chains<M, N, L>,
        inverses: &Chains<M, N, L>,
    ) -> Chains<M, N, L> {
        let one = Lanes::same(&Lanes::<M, N, L>::UNIT);
        let lines: [Line<M, N, L>; CHAINS] = std::array::from_fn(|c| {
            let (x1, y1) = Self::load(table, |lane| block[c * LANES + lane].left);
            let (x2, y2) = Self::load(table, |lane| block[c * LANES + lane].right);
            let dx = x2.minus(&x1).plus_p(2).carry().replace(skips[c], &one);
            Line { x1, y1, sum: x1.plus(&x2), dx, dy: y2.minus(&y1).plus_p(2).carry() }
        });
        let reciprocals = Self::product_each(inverses, prefixes);
        let next = Self::product_each(inverses, &lines.each_ref().map(|line| line.dx));
        let slopes = Self::product_each(&lines.each_ref().map(|line| line.dy), &reciprocals);
        let x3: Chains<M, N, L> = std::array::from_fn(|c| slopes[c].square().plus_p(5).minus(&lines[c].sum).reduce());
        // The slope is times R·2^(S/2) and the product divides by R·2^S: the other factor makes up for the difference.
        let runs: Chains<M, N, L> = std::array::from_fn(|c| {
            let run = lines[c].x1.minus(&x3[c]).plus_p(2);
            if Lanes::<M, N, L>::SPARE == 4 {
                run.times_power::<2>()
            } else {
                run.times_power::<16>()
            }
        });
        let y3: Chains<M, N, L> =
            std::array::from_fn(|c| slopes[c].product(&runs[c]).plus_p(3).minus(&lines[c].y1).reduce());
        for (c, pairs) in block[..count].chunks(LANES).enumerate() {
            // Exceptional pairs get their sum later, from the portable kernel.
            Self::store(&x3[c], &y3[c], pairs, out);
        }
        next
    }
}
