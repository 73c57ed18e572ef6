//! Multi-scalar multiplication over fixed bases: Σ s_i·P_i for the quotient query.
//!
//! Every base keeps 2^(c·w)·P for all windows w, so that one shared set of buckets serves all windows (the idea of
//! E. Brickell, D. Gordon, K. McCurley, D. Wilson, "Fast Exponentiation with Precomputation", EUROCRYPT 1992).
//! Digits are signed, scalars are first brought below r/2 in magnitude. Buckets are summed by a tree of batch-affine
//! additions, and weighed as b = 2^l·hi + lo with one sum per hi and one per lo, again by trees.

use ark_ec::{AdditiveGroup, CurveGroup};
use ark_ff::{BigInt, BigInteger, PrimeField};

use crate::curve::{Curve, G1Affine, G1Projective};
use crate::error::{Error, Result};
use crate::kernel::{with_multiply, GroupElement, Kernel, Limbs, Multiply, Pair, Point, Ref, Scratch, Single};

/// Tables above this are refused: the largest network measured needs 60 MiB.
pub const TABLE_BYTES_MAX: usize = 1 << 30;

/// |s| ≤ (r − 1)/2 has one bit less than r, and signed digits may carry into one more.
const fn scalar_bits<C: Curve>() -> usize {
    C::Fr::MODULUS_BIT_SIZE as usize
}

pub struct FixedMsm<C: Curve> {
    kernel: Kernel,
    window: usize,
    windows: usize,
    offset: Wide,
    /// `table[i·windows + w]` = 2^(window·w)·P_i.
    table: Vec<Point<C::Base>>,
    n_bases: usize,
}

/// Memory of one multiplication, kept between calls.
pub struct MsmWork<C: Curve> {
    digits: Vec<(u32, Ref)>,
    trees: Trees<C::Base>,
    buckets: Vec<Point<C::Base>>,
    sums: Vec<Point<C::Base>>,
}

impl<C: Curve> Default for MsmWork<C> {
    fn default() -> Self {
        Self { digits: Vec::new(), trees: Trees::default(), buckets: Vec::new(), sums: Vec::new() }
    }
}

/// Window width with the fewest additions: n·windows into buckets, then each bucket twice.
fn best_window<C: Curve>(n: usize) -> usize {
    (4..=16).min_by_key(|c| n * scalar_bits::<C>().div_ceil(*c) + (2usize << (c - 1))).unwrap_or(8)
}

impl<C: Curve> FixedMsm<C> {
    pub fn new(bases: &[G1Affine<C>], kernel: Kernel) -> Result<Self> {
        let window = best_window::<C>(bases.len());
        let windows = scalar_bits::<C>().div_ceil(window);
        if bases.len() * windows * size_of::<Point<C::Base>>() > TABLE_BYTES_MAX {
            return Err(Error::new("circuit-limit", format!("tables over {TABLE_BYTES_MAX} bytes")));
        }
        let mut table = Vec::with_capacity(bases.len() * windows);
        // Normalised in runs, so that the projective copies stay small.
        let mut run: Vec<G1Projective<C>> = Vec::with_capacity(64 * windows);
        for chunk in bases.chunks(64) {
            run.clear();
            for base in chunk {
                let mut point = G1Projective::<C>::from(*base);
                for w in 0..windows {
                    run.push(point);
                    if w + 1 < windows {
                        (0..window).for_each(|_| {
                            point.double_in_place();
                        });
                    }
                }
            }
            table.extend(G1Projective::<C>::normalize_batch(&run).iter().map(Point::from_affine));
        }
        let offset = signed_digit_offset(window, windows);
        Ok(Self { kernel, window, windows, offset, table, n_bases: bases.len() })
    }

    pub fn table_bytes(&self) -> usize {
        self.table.len() * size_of::<Point<C::Base>>()
    }

    /// Σ scalars[i]·P_i. `scalars` has one integer per base, each at most r.
    pub fn run(&self, scalars: &[Limbs<4>], work: &mut MsmWork<C>) -> G1Projective<C> {
        debug_assert_eq!(scalars.len(), self.n_bases);
        work.digits.clear();
        for (i, scalar) in scalars.iter().enumerate() {
            self.push_digits(i, BigInt::new(*scalar), &mut work.digits);
        }
        let n_buckets = (1usize << (self.window - 1)) + 1;
        work.trees.load(n_buckets, &work.digits);
        work.trees.reduce(self.kernel, &self.table, &mut work.buckets);
        self.weigh(work)
    }

    /// Signed digits in −2^(c−1) ≤ d < 2^(c−1); zero digits vanish.
    ///
    /// Adding 2^(c−1) to every window first turns signed digits into plain ones, so there is no carry to follow.
    fn push_digits(&self, base: usize, mut number: BigInt<4>, out: &mut Vec<(u32, Ref)>) {
        let negative = number > C::Fr::MODULUS_MINUS_ONE_DIV_TWO;
        if negative {
            let mut rest = C::Fr::MODULUS;
            rest.sub_with_borrow(&number);
            number = rest;
        }
        let half = 1i32 << (self.window - 1);
        let shifted = add_wide(&number, &self.offset);
        for w in 0..self.windows {
            let digit = bits(&shifted, w * self.window, self.window) as i32 - half;
            if digit != 0 {
                out.push((digit.unsigned_abs(), Ref::new(base * self.windows + w, negative != (digit < 0))));
            }
        }
    }

    /// Σ b·bucket[b] with b = 2^l·hi + lo: sums per lo and per hi, then two short running sums.
    fn weigh(&self, work: &mut MsmWork<C>) -> G1Projective<C> {
        let low_bits = self.window / 2;
        let n_low = 1usize << low_bits;
        let n_high = (work.buckets.len() >> low_bits) + 1;
        work.digits.clear();
        for (b, point) in work.buckets.iter().enumerate().skip(1) {
            if !point.is_infinity() {
                let (low, high) = (b & (n_low - 1), b >> low_bits);
                work.digits.push((low as u32, Ref::new(b, false)));
                work.digits.push(((n_low + high) as u32, Ref::new(b, false)));
            }
        }
        work.trees.load(n_low + n_high, &work.digits);
        work.trees.reduce(self.kernel, &work.buckets, &mut work.sums);
        let (low, high) = work.sums.split_at(n_low);
        with_multiply!(self.kernel, k => {
            let mut total = running_sum(&high[1..], k);
            for _ in 0..low_bits {
                total = total.double(k);
            }
            total.add(&running_sum(&low[1..], k), k).to_projective()
        })
    }
}

/// Σ (i + 1)·points[i].
fn running_sum<F: GroupElement, K: Multiply>(points: &[Point<F>], kernel: K) -> Single<F> {
    let (mut run, mut total) = (Single::INFINITY, Single::INFINITY);
    for point in points.iter().rev() {
        run = run.add_point(point, false, kernel);
        total = total.add(&run, kernel);
    }
    total
}

/// Limbs of a shifted scalar, with one spare for reading past the end.
type Wide = [u64; 6];

fn add_wide(number: &BigInt<4>, offset: &Wide) -> Wide {
    let mut out = *offset;
    let mut carry = 0u128;
    for (i, limb) in out.iter_mut().enumerate() {
        let t = u128::from(*limb) + u128::from(number.0.get(i).copied().unwrap_or(0)) + carry;
        *limb = t as u64;
        carry = t >> 64;
    }
    out
}

/// `count` ≤ 16 bits of `number` from bit `at` < 320.
#[inline(always)]
fn bits(number: &Wide, at: usize, count: usize) -> u32 {
    let (limb, offset) = (at / 64, at % 64);
    let joined = number[limb] >> offset | (number[limb + 1] << 1) << (63 - offset);
    joined as u32 & ((1u32 << count) - 1)
}

/// Σ 2^(c−1)·2^(c·w) over all windows.
fn signed_digit_offset(window: usize, windows: usize) -> Wide {
    let mut out = [0; 6];
    for w in 0..windows {
        let at = w * window + window - 1;
        out[at / 64] |= 1 << (at % 64);
    }
    out
}

/// Sums many groups of points at once: each level adds neighbours of all groups in one batch.
pub struct Trees<F: GroupElement> {
    counts: Vec<u32>,
    starts: Vec<u32>,
    refs: Vec<Ref>,
    pairs: Vec<Pair>,
    /// The odd one out of each group, and where it goes.
    single: Vec<(Ref, u32)>,
    now: Vec<Point<F>>,
    next: Vec<Point<F>>,
    scratch: Scratch<F>,
}

impl<F: GroupElement> Default for Trees<F> {
    fn default() -> Self {
        Self {
            counts: Vec::new(),
            starts: Vec::new(),
            refs: Vec::new(),
            pairs: Vec::new(),
            single: Vec::new(),
            now: Vec::new(),
            next: Vec::new(),
            scratch: Scratch::default(),
        }
    }
}

impl<F: GroupElement> Trees<F> {
    /// Sorts (group, reference) entries by group.
    fn load(&mut self, n_groups: usize, entries: &[(u32, Ref)]) {
        self.counts.clear();
        self.counts.resize(n_groups, 0);
        for (group, _) in entries {
            self.counts[*group as usize] += 1;
        }
        self.starts.clear();
        let mut at = 0;
        for count in &self.counts {
            self.starts.push(at);
            at += count;
        }
        self.refs.clear();
        self.refs.resize(entries.len(), Ref::new(0, false));
        for (group, reference) in entries {
            let start = &mut self.starts[*group as usize];
            self.refs[*start as usize] = *reference;
            *start += 1;
        }
    }

    /// One point per group into `out`; infinity where a group is empty.
    fn reduce(&mut self, kernel: Kernel, table: &[Point<F>], out: &mut Vec<Point<F>>) {
        let refs = std::mem::take(&mut self.refs);
        self.plan(|i| refs[i]);
        self.level(kernel, Some(table));
        self.refs = refs;
        while self.counts.iter().any(|c| *c > 1) {
            self.plan(|i| Ref::new(i, false));
            self.level(kernel, None);
        }
        out.clear();
        let mut sums = self.now.iter();
        out.extend(self.counts.iter().map(|c| match c {
            0 => Point::INFINITY,
            _ => sums.next().copied().unwrap_or(Point::INFINITY),
        }));
    }

    /// Pairs up the neighbours of every group, and lists the points that are left over.
    fn plan(&mut self, reference: impl Fn(usize) -> Ref) {
        self.pairs.clear();
        self.single.clear();
        let (mut from, mut to) = (0usize, 0u32);
        for count in &mut self.counts {
            let (pairs, odd) = (*count / 2, *count % 2);
            self.pairs.extend((0..pairs).map(|i| {
                let left = from + 2 * i as usize;
                Pair { left: reference(left), right: reference(left + 1), to: to + i }
            }));
            if odd == 1 {
                self.single.push((reference(from + 2 * pairs as usize), to + pairs));
            }
            from += *count as usize;
            to += pairs + odd;
            *count = pairs + odd;
        }
        self.next.resize(to as usize, Point::INFINITY);
    }

    /// Carries the plan out, from `table` (first level) or from `now`, into `now`.
    fn level(&mut self, kernel: Kernel, table: Option<&[Point<F>]>) {
        let source = table.unwrap_or(&self.now);
        for (reference, to) in &self.single {
            self.next[*to as usize] = reference.load(source);
        }
        kernel.add_pairs(source, &self.pairs, &mut self.next, &mut self.scratch);
        std::mem::swap(&mut self.now, &mut self.next);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use ark_ec::scalar_mul::variable_base::VariableBaseMSM;
    use ark_ec::PrimeGroup;

    use super::*;
    use crate::curve::{Bls381, Bn254};
    use crate::field::random_fr;

    fn check<C: Curve>(bases: &[G1Affine<C>], scalars: &[C::Fr]) {
        let lazy: Vec<Limbs<4>> = scalars.iter().map(|s| s.into_bigint().0).collect();
        let expected = G1Projective::<C>::msm(bases, scalars).unwrap().into_affine();
        for kernel in Kernel::available() {
            let found = FixedMsm::<C>::new(bases, kernel).unwrap().run(&lazy, &mut MsmWork::default());
            assert_eq!(found.into_affine(), expected, "{}", kernel.name());
        }
    }

    fn bases<C: Curve>(n: u64) -> Vec<G1Affine<C>> {
        (1..=n).map(|i| (G1Projective::<C>::generator() * C::Fr::from(i * i + 7)).into_affine()).collect()
    }

    #[test]
    fn equals_the_plain_sum_for_random_scalars() {
        equals_the_plain_sum_for_random_scalars_on::<Bn254>();
        equals_the_plain_sum_for_random_scalars_on::<Bls381>();
    }

    fn equals_the_plain_sum_for_random_scalars_on<C: Curve>() {
        for n in [1u64, 2, 9, 100, 600] {
            let scalars: Vec<C::Fr> = (0..n).map(|_| random_fr().unwrap()).collect();
            check::<C>(&bases::<C>(n), &scalars);
        }
    }

    #[test]
    fn equals_the_plain_sum_at_the_edges_of_the_scalar_range() {
        equals_the_plain_sum_at_the_edges_of_the_scalar_range_on::<Bn254>();
        equals_the_plain_sum_at_the_edges_of_the_scalar_range_on::<Bls381>();
    }

    fn equals_the_plain_sum_at_the_edges_of_the_scalar_range_on<C: Curve>() {
        let half = C::Fr::from(C::Fr::MODULUS_MINUS_ONE_DIV_TWO);
        let one = C::Fr::from(1u64);
        let edges: [C::Fr; 8] = [
            C::Fr::from(0u64),
            one,
            -one,
            half,
            half + one,
            half - one,
            C::Fr::from(1u64 << 63),
            -C::Fr::from(1u64 << 63),
        ];
        let mut scalars = edges.to_vec();
        scalars.extend((0..254).map(|i| crate::field::pow(C::Fr::from(2u64), i)));
        scalars.extend((0..254).map(|i| -crate::field::pow(C::Fr::from(2u64), i)));
        check::<C>(&bases::<C>(scalars.len() as u64), &scalars);
    }

    /// Equal, opposite and infinite bases make every degenerate case of the affine formulas occur.
    #[test]
    fn hostile_bases_are_summed_exactly() {
        hostile_bases_are_summed_exactly_on::<Bn254>();
        hostile_bases_are_summed_exactly_on::<Bls381>();
    }

    fn hostile_bases_are_summed_exactly_on<C: Curve>() {
        let g = G1Projective::<C>::generator().into_affine();
        let hostile = [g, g, -g, G1Affine::<C>::identity(), g, -g, (g + g).into_affine(), G1Affine::<C>::identity()];
        let scalar: C::Fr = random_fr().unwrap();
        check::<C>(&hostile, &[scalar; 8]);
        check::<C>(&hostile, &[scalar, -scalar, scalar, scalar, -scalar, -scalar, scalar + scalar, scalar]);
        check::<C>(&hostile, &[C::Fr::from(0u64); 8]);
    }
}
