//! Sums of many affine points of one group: eight running sums, one per lane, without an inversion.
//!
//! Coordinates are X/ZZ, Y/ZZZ with ZZ³ = ZZZ² ("XYZZ", mixed addition madd-2008-s of the Explicit-Formulas Database),
//! kept times R' = 2^(52·L). Points whose x equals that of their lane's sum are handed back for exact formulas.

use ark_ff::MontConfig;

use super::field::{Lanes, LANES};

type Term<const N: usize, const D: usize> = super::super::Term<[u64; N], D>;
type Jacobian<const N: usize, const D: usize> = super::super::Jacobian<[u64; N], D>;

/// A coordinate: one element, or two for c₀ + c₁·u with u² = −1.
type Coordinate<M, const N: usize, const L: usize, const D: usize> = [Lanes<M, N, L>; D];

/// Factors below 5p, or one a point's coordinate as [`load`] leaves it (below 2^(S+1)·p) and the other below 1.2p; the
/// product is below 1.5p, or 1.2p for D = 2. R'/p is 84 for BN254 and 2^35.3 for BLS12-381, 2^S is 16 and 2^32.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
fn times<M: MontConfig<N>, const N: usize, const L: usize, const D: usize>(
    a: &Coordinate<M, N, L, D>,
    b: &Coordinate<M, N, L, D>,
) -> Coordinate<M, N, L, D> {
    let mut out = *a;
    if D == 1 {
        out[0] = a[0].product(&b[0]).carry();
    } else {
        let (low, high) = (a[0].product(&b[0]), a[1].product(&b[1]));
        let both = a[0].plus(&a[1]).carry().product(&b[0].plus(&b[1]).carry());
        out[0] = low.minus(&high).plus_p(2).reduce();
        out[1] = both.minus(&low).minus(&high).plus_p(4).reduce();
    }
    out
}

/// a − b + 2p for b < 2p.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
fn minus<M: MontConfig<N>, const N: usize, const L: usize, const D: usize>(
    a: &Coordinate<M, N, L, D>,
    b: &Coordinate<M, N, L, D>,
) -> Coordinate<M, N, L, D> {
    let mut out = *a;
    for (out, b) in out.iter_mut().zip(b) {
        *out = out.minus(b).plus_p(2).carry();
    }
    out
}

struct Sums<M, const N: usize, const L: usize, const D: usize> {
    x: Coordinate<M, N, L, D>,
    y: Coordinate<M, N, L, D>,
    zz: Coordinate<M, N, L, D>,
    zzz: Coordinate<M, N, L, D>,
}

/// x and y of a batch times R': 2^S times what the words say.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
fn load<M: MontConfig<N>, const N: usize, const L: usize, const D: usize>(
    batch: &[Term<N, D>; LANES],
) -> (Coordinate<M, N, L, D>, Coordinate<M, N, L, D>) {
    let negative = (0..LANES).fold(0, |mask, lane| mask | u8::from(batch[lane].negate) << lane);
    let (mut x, mut y) = ([Lanes::<M, N, L>::ZERO; D], [Lanes::<M, N, L>::ZERO; D]);
    for d in 0..D {
        x[d] = scale(Lanes::load(batch.each_ref().map(|term| &term.x[d])));
        y[d] = scale(Lanes::load(batch.each_ref().map(|term| &term.y[d])).negate_if(negative));
    }
    (x, y)
}

/// 2^S times the number; carried.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
fn scale<M: MontConfig<N>, const N: usize, const L: usize>(value: Lanes<M, N, L>) -> Lanes<M, N, L> {
    if Lanes::<M, N, L>::SPARE == 4 {
        value.times_power::<4>()
    } else {
        value.times_power::<32>()
    }
}

impl<M: MontConfig<N>, const N: usize, const L: usize, const D: usize> Sums<M, N, L, D> {
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
    fn new(batch: &[Term<N, D>; LANES], one: &Coordinate<M, N, L, D>) -> Self {
        let (x, y) = load(batch);
        Self { x: times(&x, one), y: times(&y, one), zz: *one, zzz: *one }
    }

    /// Adds a batch but for the lanes in `keep`; returns the other lanes it left alone because x may be equal.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
    fn add(&mut self, batch: &[Term<N, D>; LANES], keep: u8) -> u8 {
        let (x2, y2) = load(batch);
        let p = minus(&times(&x2, &self.zz), &self.x);
        let r = minus(&times(&y2, &self.zzz), &self.y);
        let mut equal = !keep;
        for p in &p {
            equal &= p.maybe_zero();
        }
        let keep = keep | equal;
        let pp = times(&p, &p);
        let ppp = times(&p, &pp);
        let q = times(&self.x, &pp);
        let (rr, yp) = (times(&r, &r), times(&self.y, &ppp));
        let mut x3 = rr;
        for d in 0..D {
            x3[d] = rr[d].minus(&ppp[d]).minus(&q[d]).minus(&q[d]).plus_p(4).reduce();
        }
        let mut y3 = times(&r, &minus(&q, &x3));
        for d in 0..D {
            y3[d] = y3[d].minus(&yp[d]).plus_p(2).reduce();
        }
        let (zz3, zzz3) = (times(&self.zz, &pp), times(&self.zzz, &ppp));
        for d in 0..D {
            self.x[d] = x3[d].replace(keep, &self.x[d]);
            self.y[d] = y3[d].replace(keep, &self.y[d]);
            self.zz[d] = zz3[d].replace(keep, &self.zz[d]);
            self.zzz[d] = zzz3[d].replace(keep, &self.zzz[d]);
        }
        equal
    }

    /// With Z = ZZ: X·ZZ and Y·ZZZ, since ZZ³ = ZZZ².
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
    fn finish(&self) -> [Jacobian<N, D>; LANES] {
        // R as a plain number turns "times R'" into "times R".
        let mut factor = [Lanes::<M, N, L>::ZERO; D];
        factor[0] = Lanes::<M, N, L>::same(&super::field::split_words(&M::R.0));
        let coordinates = [times(&self.x, &self.zz), times(&self.y, &self.zzz), self.zz];
        let words = coordinates.map(|c| times(&c, &factor).map(|v| v.to_words()));
        std::array::from_fn(|lane| words.map(|coordinate| coordinate.map(|lanes| lanes[lane])))
    }
}

/// Eight sums that add up to that of all `terms`, but for those put into `left`.
#[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
pub fn sum<M: MontConfig<N>, const N: usize, const L: usize, const D: usize>(
    mut terms: impl Iterator<Item = Term<N, D>>,
    left: &mut Vec<Term<N, D>>,
) -> Option<[Jacobian<N, D>; LANES]> {
    let mut batch = [Term { x: [[0; N]; D], y: [[0; N]; D], negate: false }; LANES];
    let mut fill = |batch: &mut [Term<N, D>; LANES]| {
        batch.iter_mut().zip(&mut terms).fold(0, |count, (slot, term)| {
            *slot = term;
            count + 1
        })
    };
    let count = fill(&mut batch);
    if count < LANES {
        left.extend_from_slice(&batch[..count]);
        return None;
    }
    let mut one = [Lanes::<M, N, L>::ZERO; D];
    one[0] = Lanes::same(&Lanes::<M, N, L>::ONE_SCALED);
    let mut sums = Sums::<M, N, L, D>::new(&batch, &one);
    loop {
        let count = fill(&mut batch);
        if count == 0 {
            return Some(sums.finish());
        }
        let keep = if count < LANES { u8::MAX << count } else { 0 };
        let equal = sums.add(&batch, keep);
        left.extend((0..count).filter(|lane| equal >> lane & 1 == 1).map(|lane| batch[lane]));
    }
}
