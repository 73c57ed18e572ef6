//! Eight field elements at once: five limbs of 52 bits, one vector of eight lanes per limb.
//!
//! A product is reduced by 2^260, while the rest of the crate keeps elements times 2^256. Callers make up for the
//! factor 2^4 in constants they multiply with anyway, so nothing is ever converted.

use core::arch::x86_64::*;
use std::marker::PhantomData;

use ark_ff::MontConfig;

type Limbs = super::super::Limbs<4>;

pub const LANES: usize = 8;
/// Limbs of 52 bits; 260 bits leave five or more spare above the modulus.
pub const N: usize = 5;
const LIMB_BITS: u32 = 52;
const LIMB_MASK: u64 = (1 << LIMB_BITS) - 1;

/// The constants of one modulus p < 2^255.
struct Modulus<C>(PhantomData<C>);

/// Five limbs of 52 bits.
pub const fn split_words(w: &Limbs) -> [u64; N] {
    [
        w[0] & LIMB_MASK,
        (w[0] >> 52 | w[1] << 12) & LIMB_MASK,
        (w[1] >> 40 | w[2] << 24) & LIMB_MASK,
        (w[2] >> 28 | w[3] << 36) & LIMB_MASK,
        w[3] >> 16,
    ]
}

/// x or x − p, whichever is in [0, p).
const fn less_p(x: Limbs, p: &Limbs) -> Limbs {
    let (mut out, mut borrow, mut i) = (x, false, 0);
    while i < 4 {
        let (t, b1) = x[i].overflowing_sub(p[i]);
        let (t, b2) = t.overflowing_sub(borrow as u64);
        out[i] = t;
        borrow = b1 | b2;
        i += 1;
    }
    if borrow {
        x
    } else {
        out
    }
}

/// j·p for j < 8 fits five limbs.
const fn multiple(p: Limbs, j: u64) -> [u64; N] {
    let p = split_words(&p);
    let (mut out, mut carry, mut i) = ([0; N], 0, 0);
    while i < N {
        let t = p[i] * j + carry;
        out[i] = t & LIMB_MASK;
        carry = t >> LIMB_BITS;
        i += 1;
    }
    out
}

impl<C: MontConfig<4>> Modulus<C> {
    const P: [u64; N] = {
        assert!(C::MODULUS.0[3] >> 63 == 0, "the modulus must be below 2^255, so that 8p is below 2^258");
        multiple(C::MODULUS.0, 1)
    };
    /// −1/p mod 2^52.
    const INV: u64 = C::INV & LIMB_MASK;
    /// Limb i of j·p at [i][j].
    const MULTIPLES: [[u64; LANES]; N] = {
        let (mut out, mut j) = ([[0; LANES]; N], 0);
        while j < LANES {
            let (limbs, mut i) = (multiple(C::MODULUS.0, j as u64), 0);
            while i < N {
                out[i][j] = limbs[i];
                i += 1;
            }
            j += 1;
        }
        out
    };
    /// 2^260 mod p: 2^256 mod p, doubled four times.
    const ONE: [u64; N] = {
        let (mut x, mut i) = (C::R.0, 0);
        while i < 4 {
            let double = [x[0] << 1, x[1] << 1 | x[0] >> 63, x[2] << 1 | x[1] >> 63, x[3] << 1 | x[2] >> 63];
            x = less_p(double, &C::MODULUS.0);
            i += 1;
        }
        split_words(&x)
    };
    /// Below 2^260/p, by at most one part in 40: estimates quotients of numbers below 8p by their top limb, never too
    /// large even if that is too large by one, and too small by less than 1 + 8/40.
    const RECIPROCAL: u64 = {
        let below = (1 << LIMB_BITS) / (Self::P[N - 1] + 8);
        assert!(((1 << LIMB_BITS) - below * Self::P[N - 1]) * 40 < 1 << LIMB_BITS, "the estimate is too rough");
        below
    };
}

/// 1 times 2^260 modulo p.
pub const fn one_times_2_260<C: MontConfig<4>>() -> [u64; N] {
    Modulus::<C>::ONE
}

/// Eight numbers. *Carried*: limbs 0 to 3 are below 2^52 and the top limb is not negative. Otherwise limbs are
/// signed 64-bit numbers that still have to be carried.
pub struct Lanes<C>(pub [__m512i; N], PhantomData<C>);

impl<C> Clone for Lanes<C> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<C> Copy for Lanes<C> {}

#[inline]
#[target_feature(enable = "avx512f")]
fn all(value: u64) -> __m512i {
    _mm512_set1_epi64(value as i64)
}

#[inline]
#[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
pub fn vector(words: [u64; LANES]) -> __m512i {
    // SAFETY: both are 64 bytes of integers, and every value of the one is a value of the other.
    unsafe { std::mem::transmute::<[u64; LANES], __m512i>(words) }
}

/// Two numbers of four words in one vector.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
pub fn halves(low: &Limbs, high: &Limbs) -> __m512i {
    // SAFETY: both are 32 bytes of integers, and every value of the one is a value of the other.
    let half = |words: &Limbs| unsafe { std::mem::transmute::<Limbs, __m256i>(*words) };
    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(half(low)), half(high))
}

#[inline]
#[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
pub fn words_of(vector: __m512i) -> [u64; LANES] {
    // SAFETY: both are 64 bytes of integers, and every value of the one is a value of the other.
    unsafe { std::mem::transmute::<__m512i, [u64; LANES]>(vector) }
}

impl<C: MontConfig<4>> Lanes<C> {
    // SAFETY: all bits zero is a vector of integers.
    pub const ZERO: Self = Self([unsafe { std::mem::zeroed() }; N], PhantomData);

    /// Splits four words of 64 bits; carried.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
    pub fn split(w: &[__m512i; 4]) -> Self {
        let mask = all(LIMB_MASK);
        Self(
            [
                _mm512_and_si512(w[0], mask),
                _mm512_and_si512(_mm512_shrdi_epi64::<52>(w[0], w[1]), mask),
                _mm512_and_si512(_mm512_shrdi_epi64::<40>(w[1], w[2]), mask),
                _mm512_and_si512(_mm512_shrdi_epi64::<28>(w[2], w[3]), mask),
                _mm512_srli_epi64::<16>(w[3]),
            ],
            PhantomData,
        )
    }

    /// Four words of 64 bits from carried limbs below 2^256.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
    pub fn join(&self) -> [__m512i; 4] {
        let l = &self.0;
        [
            _mm512_or_si512(l[0], _mm512_slli_epi64::<52>(l[1])),
            _mm512_or_si512(_mm512_srli_epi64::<12>(l[1]), _mm512_slli_epi64::<40>(l[2])),
            _mm512_or_si512(_mm512_srli_epi64::<24>(l[2]), _mm512_slli_epi64::<28>(l[3])),
            _mm512_or_si512(_mm512_srli_epi64::<36>(l[3]), _mm512_slli_epi64::<16>(l[4])),
        ]
    }

    /// The same number in all lanes.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
    pub fn same(limbs: &[u64; N]) -> Self {
        Self([all(limbs[0]), all(limbs[1]), all(limbs[2]), all(limbs[3]), all(limbs[4])], PhantomData)
    }

    /// One number of four words per lane; carried.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
    pub fn from_words(lanes: &[Limbs; LANES]) -> Self {
        let mut rows = [_mm512_setzero_si512(); 4];
        for (row, low) in rows.iter_mut().zip([0, 1, 4, 5]) {
            *row = halves(&lanes[low], &lanes[low + 2]);
        }
        Self::from_halves(&rows)
    }

    /// From the numbers of lanes (0, 2), (1, 3), (4, 6) and (5, 7): this order needs the fewest moves.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
    pub fn from_halves(rows: &[__m512i; 4]) -> Self {
        let (even, even_4) = (_mm512_unpacklo_epi64(rows[0], rows[1]), _mm512_unpacklo_epi64(rows[2], rows[3]));
        let (odd, odd_4) = (_mm512_unpackhi_epi64(rows[0], rows[1]), _mm512_unpackhi_epi64(rows[2], rows[3]));
        Self::split(&[
            _mm512_shuffle_i64x2::<0x88>(even, even_4),
            _mm512_shuffle_i64x2::<0x88>(odd, odd_4),
            _mm512_shuffle_i64x2::<0xdd>(even, even_4),
            _mm512_shuffle_i64x2::<0xdd>(odd, odd_4),
        ])
    }

    /// The number of each lane in four words, from carried limbs below 2^256.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
    pub fn to_words(self) -> [Limbs; LANES] {
        let words = self.join();
        let (mut lanes, words) =
            ([[0; 4]; LANES], [words_of(words[0]), words_of(words[1]), words_of(words[2]), words_of(words[3])]);
        for (lane, out) in lanes.iter_mut().enumerate() {
            *out = [words[0][lane], words[1][lane], words[2][lane], words[3][lane]];
        }
        lanes
    }

    /// Lane i of vector j goes to lane j of vector i.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
    pub fn transpose(rows: &[Self; LANES]) -> [Self; LANES] {
        let mut out = *rows;
        for limb in 0..N {
            let mut columns = [_mm512_setzero_si512(); LANES];
            for (column, row) in columns.iter_mut().zip(rows) {
                *column = row.0[limb];
            }
            for (out, column) in out.iter_mut().zip(&transpose(&columns)) {
                out.0[limb] = *column;
            }
        }
        out
    }

    /// Moves what is beyond 52 bits one limb up. The number must not be negative.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
    pub fn carry(mut self) -> Self {
        let mask = all(LIMB_MASK);
        for i in 0..N - 1 {
            self.0[i + 1] = _mm512_add_epi64(self.0[i + 1], _mm512_srai_epi64::<LIMB_BITS>(self.0[i]));
            self.0[i] = _mm512_and_si512(self.0[i], mask);
        }
        self
    }

    /// Limb by limb, not carried.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
    pub fn plus(mut self, other: &Self) -> Self {
        for i in 0..N {
            self.0[i] = _mm512_add_epi64(self.0[i], other.0[i]);
        }
        self
    }

    /// Limb by limb, not carried.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
    pub fn minus(mut self, other: &Self) -> Self {
        for i in 0..N {
            self.0[i] = _mm512_sub_epi64(self.0[i], other.0[i]);
        }
        self
    }

    /// Adds j·p, not carried.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
    pub fn plus_p(mut self, j: usize) -> Self {
        for i in 0..N {
            self.0[i] = _mm512_add_epi64(self.0[i], all(Modulus::<C>::MULTIPLES[i][j]));
        }
        self
    }

    /// 2p minus the number in the chosen lanes, not carried.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
    pub fn negate_if(mut self, lanes: __mmask8) -> Self {
        for i in 0..N {
            self.0[i] = _mm512_mask_sub_epi64(self.0[i], lanes, all(Modulus::<C>::MULTIPLES[i][2]), self.0[i]);
        }
        self
    }

    /// Four times the number, not carried.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
    pub fn times_four(mut self) -> Self {
        for limb in &mut self.0 {
            *limb = _mm512_slli_epi64::<2>(*limb);
        }
        self
    }

    /// `other` in the chosen lanes.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
    pub fn replace(mut self, lanes: __mmask8, other: &Self) -> Self {
        for i in 0..N {
            self.0[i] = _mm512_mask_mov_epi64(self.0[i], lanes, other.0[i]);
        }
        self
    }

    /// A number below 1.2p congruent to this one, which is in [0, 8p) once carried; carried.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
    pub fn reduce(mut self) -> Self {
        let zero = _mm512_setzero_si512();
        // A carry still due from below makes the top limb wrong by one at most: the reciprocal allows for that.
        let top = _mm512_add_epi64(self.0[N - 1], _mm512_srai_epi64::<LIMB_BITS>(self.0[N - 2]));
        let quotient = _mm512_madd52hi_epu64(zero, top, all(Modulus::<C>::RECIPROCAL));
        for i in 0..N {
            let row = &Modulus::<C>::MULTIPLES[i];
            self.0[i] = _mm512_sub_epi64(self.0[i], _mm512_permutexvar_epi64(quotient, vector(*row)));
        }
        self.carry()
    }

    /// Lanes whose low limb is that of 0, p, 2p or 3p: all numbers below 4p that are 0 modulo p, and hardly any other.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
    pub fn maybe_zero(&self) -> __mmask8 {
        let low = self.0[0];
        let is = |j: usize| _mm512_cmpeq_epi64_mask(low, all(Modulus::<C>::MULTIPLES[0][j]));
        is(0) | is(1) | is(2) | is(3)
    }

    /// Lanes whose low limb is zero.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
    pub fn low_limb_is_zero(&self) -> __mmask8 {
        _mm512_testn_epi64_mask(self.0[0], self.0[0])
    }

    /// (self·other + m·p)/2^260 for carried operands below 2^260: below self·other/2^260 + p, not carried.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
    pub fn product(&self, other: &Self) -> Self {
        let mut t = [_mm512_setzero_si512(); 2 * N];
        for i in 0..N {
            for j in 0..N {
                t[i + j] = _mm512_madd52lo_epu64(t[i + j], self.0[i], other.0[j]);
                t[i + j + 1] = _mm512_madd52hi_epu64(t[i + j + 1], self.0[i], other.0[j]);
            }
        }
        Self::fold(t)
    }

    /// self², as [`Self::product`].
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
    pub fn square(&self) -> Self {
        let mut t = [_mm512_setzero_si512(); 2 * N];
        for i in 0..N {
            for j in i + 1..N {
                t[i + j] = _mm512_madd52lo_epu64(t[i + j], self.0[i], self.0[j]);
                t[i + j + 1] = _mm512_madd52hi_epu64(t[i + j + 1], self.0[i], self.0[j]);
            }
        }
        for column in &mut t[1..2 * N - 1] {
            *column = _mm512_add_epi64(*column, *column);
        }
        for i in 0..N {
            t[2 * i] = _mm512_madd52lo_epu64(t[2 * i], self.0[i], self.0[i]);
            t[2 * i + 1] = _mm512_madd52hi_epu64(t[2 * i + 1], self.0[i], self.0[i]);
        }
        Self::fold(t)
    }

    /// Montgomery reduction of ten columns below 2^57.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
    fn fold(mut t: [__m512i; 2 * N]) -> Self {
        let (zero, mask, inv) = (_mm512_setzero_si512(), all(LIMB_MASK), all(Modulus::<C>::INV));
        let p = Modulus::<C>::P;
        for i in 0..N {
            let m = _mm512_madd52lo_epu64(zero, t[i], inv);
            // The low 52 bits of t + m·p are zero, so their sum carries exactly if those of t are not.
            let carry = _mm512_srli_epi64::<LIMB_BITS>(_mm512_add_epi64(t[i], mask));
            // The next round waits for this column alone: two short sums instead of a long one.
            let low = _mm512_madd52lo_epu64(_mm512_add_epi64(t[i + 1], carry), m, all(p[1]));
            t[i + 1] = _mm512_add_epi64(low, _mm512_madd52hi_epu64(zero, m, all(p[0])));
            for j in 2..N {
                t[i + j] = _mm512_madd52hi_epu64(t[i + j], m, all(p[j - 1]));
                t[i + j] = _mm512_madd52lo_epu64(t[i + j], m, all(p[j]));
            }
            t[i + N] = _mm512_madd52hi_epu64(t[i + N], m, all(p[N - 1]));
        }
        Self([t[5], t[6], t[7], t[8], t[9]], PhantomData)
    }
}

/// Rows to columns of an 8 × 8 matrix.
#[inline]
#[target_feature(enable = "avx512f")]
pub fn transpose(r: &[__m512i; 8]) -> [__m512i; 8] {
    let mut even = [r[0]; 4];
    let mut odd = [r[0]; 4];
    for i in 0..4 {
        even[i] = _mm512_unpacklo_epi64(r[2 * i], r[2 * i + 1]);
        odd[i] = _mm512_unpackhi_epi64(r[2 * i], r[2 * i + 1]);
    }
    let (c0, c2, c4, c6) = transpose_pairs(&even);
    let (c1, c3, c5, c7) = transpose_pairs(&odd);
    [c0, c1, c2, c3, c4, c5, c6, c7]
}

/// Rows to columns of a 4 × 4 matrix of 128-bit numbers.
#[inline]
#[target_feature(enable = "avx512f")]
fn transpose_pairs(r: &[__m512i; 4]) -> (__m512i, __m512i, __m512i, __m512i) {
    let (a, b) = (_mm512_shuffle_i64x2::<0x88>(r[0], r[1]), _mm512_shuffle_i64x2::<0x88>(r[2], r[3]));
    let (c, d) = (_mm512_shuffle_i64x2::<0xdd>(r[0], r[1]), _mm512_shuffle_i64x2::<0xdd>(r[2], r[3]));
    (
        _mm512_shuffle_i64x2::<0x88>(a, b),
        _mm512_shuffle_i64x2::<0x88>(c, d),
        _mm512_shuffle_i64x2::<0xdd>(a, b),
        _mm512_shuffle_i64x2::<0xdd>(c, d),
    )
}
