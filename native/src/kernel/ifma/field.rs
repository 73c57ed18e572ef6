//! Eight field elements at once: L limbs of 52 bits, one vector of eight lanes per limb.
//!
//! Four words of 64 bits take five limbs, six words take eight. A product is reduced by 2^(52·L), while the rest of the
//! crate keeps elements times 2^(64·N). Callers make up for the factor, 2^4 or 2^32, in constants they multiply with
//! anyway, so nothing is ever converted.

use core::arch::x86_64::*;
use std::marker::PhantomData;

use ark_ff::MontConfig;

use super::super::Limbs;

pub const LANES: usize = 8;
const LIMB_BITS: usize = 52;
const LIMB_MASK: u64 = (1 << LIMB_BITS) - 1;
const LIMBS_MAX: usize = 8;

/// `$body` for `$i` from 0 to 7, written out: a loop that is left as one would keep its vectors in memory.
macro_rules! each {
    ($i:ident, $body:block) => {
        each!(@ $i, $body, 0 1 2 3 4 5 6 7)
    };
    (@ $i:ident, $body:block, $($value:literal)*) => {
        $({
            let $i: usize = $value;
            $body
        })*
    };
}

/// The constants of one modulus p of N words as L limbs; 8p < 2^(52·L).
struct Modulus<M, const N: usize, const L: usize>(PhantomData<M>);

/// L limbs of 52 bits.
pub const fn split_words<const N: usize, const L: usize>(words: &Limbs<N>) -> [u64; L] {
    let (mut out, mut i) = ([0; L], 0);
    while i < L {
        let (word, offset) = (i * LIMB_BITS / 64, i * LIMB_BITS % 64);
        out[i] = words[word] >> offset;
        if word + 1 < N {
            out[i] |= (words[word + 1] << 1) << (63 - offset);
        }
        if i + 1 < L {
            out[i] &= LIMB_MASK;
        }
        i += 1;
    }
    out
}

/// 2x mod p for x < p.
const fn double<const N: usize>(x: Limbs<N>, p: &Limbs<N>) -> Limbs<N> {
    let (mut twice, mut less, mut carry, mut borrow, mut i) = ([0; N], [0; N], 0, false, 0);
    while i < N {
        twice[i] = x[i] << 1 | carry;
        carry = x[i] >> 63;
        let (t, b1) = twice[i].overflowing_sub(p[i]);
        let (t, b2) = t.overflowing_sub(borrow as u64);
        less[i] = t;
        borrow = b1 | b2;
        i += 1;
    }
    if borrow {
        twice
    } else {
        less
    }
}

/// j·p for j < 8.
const fn multiple<const L: usize>(p: &[u64; L], j: u64) -> [u64; L] {
    let (mut out, mut carry, mut i) = ([0; L], 0, 0);
    while i < L {
        let t = p[i] * j + carry;
        out[i] = t & LIMB_MASK;
        carry = t >> LIMB_BITS;
        i += 1;
    }
    assert!(carry == 0, "8p must fit the limbs");
    out
}

impl<M: MontConfig<N>, const N: usize, const L: usize> Modulus<M, N, L> {
    const P: [u64; L] = {
        assert!(M::MODULUS.0[N - 1] >> 63 == 0, "2p must fit the words");
        split_words(&M::MODULUS.0)
    };
    /// −1/p mod 2^52.
    const INV: u64 = M::INV & LIMB_MASK;
    /// Limb i of j·p at [i][j].
    const MULTIPLES: [[u64; LANES]; L] = {
        let (mut out, mut j) = ([[0; LANES]; L], 0);
        while j < LANES {
            let (limbs, mut i) = (multiple(&Self::P, j as u64), 0);
            while i < L {
                out[i][j] = limbs[i];
                i += 1;
            }
            j += 1;
        }
        out
    };
    /// 2^(52·L) mod p: 2^(64·N) mod p, doubled.
    const ONE: [u64; L] = {
        let (mut x, mut i) = (M::R.0, 0);
        while i < Lanes::<M, N, L>::SPARE {
            x = double(x, &M::MODULUS.0);
            i += 1;
        }
        split_words(&x)
    };
    /// Below 2^(52·L)/p, by at most one part in 40: estimates quotients of numbers below 8p by their top limb, never
    /// too large even if that is too large by one, and too small by less than 1 + 8/40.
    const RECIPROCAL: u64 = {
        let below = (1 << LIMB_BITS) / (Self::P[L - 1] + 8);
        assert!(((1 << LIMB_BITS) - below * Self::P[L - 1]) * 40 < 1 << LIMB_BITS, "the estimate is too rough");
        below
    };
}

/// Eight numbers. *Carried*: all limbs but the top one are below 2^52, and that is not negative. Otherwise limbs are
/// signed 64-bit numbers that still have to be carried.
pub struct Lanes<M, const N: usize, const L: usize>(pub [__m512i; L], PhantomData<M>);

impl<M, const N: usize, const L: usize> Clone for Lanes<M, N, L> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<M, const N: usize, const L: usize> Copy for Lanes<M, N, L> {}

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

/// `C` words of `words` from `start`, low in the vector.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
pub fn words_at<const C: usize>(words: &[u64], start: usize) -> __m512i {
    let words: &[u64; C] = words[start..].first_chunk().unwrap_or(&[0; C]);
    let from = words.as_ptr();
    // SAFETY: so many words are there.
    unsafe {
        if C == 4 {
            _mm512_castsi256_si512(_mm256_loadu_si256(from.cast()))
        } else {
            _mm512_maskz_loadu_epi64(((1u16 << C) - 1) as u8, from.cast())
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
pub fn words_of(vector: __m512i) -> [u64; LANES] {
    // SAFETY: both are 64 bytes of integers, and every value of the one is a value of the other.
    unsafe { std::mem::transmute::<__m512i, [u64; LANES]>(vector) }
}

impl<M: MontConfig<N>, const N: usize, const L: usize> Lanes<M, N, L> {
    /// A product is reduced by 2 to the power of this more than the words' Montgomery form allows for.
    pub const SPARE: usize = LIMB_BITS * L - 64 * N;

    // SAFETY: all bits zero is a vector of integers.
    pub const ZERO: Self = Self([unsafe { std::mem::zeroed() }; L], PhantomData);

    /// 1 times 2^(52·L) modulo p.
    pub const ONE_SCALED: [u64; L] = Modulus::<M, N, L>::ONE;

    /// The number 1.
    pub const UNIT: [u64; L] = {
        let mut out = [0; L];
        out[0] = 1;
        out
    };

    /// Splits words of 64 bits; carried.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
    pub fn split(w: &[__m512i; N]) -> Self {
        let mut out = Self::ZERO;
        each!(i, {
            if i < L {
                let (word, offset) = (i * LIMB_BITS / 64, i * LIMB_BITS % 64);
                // A limb that ends in the next word takes bits of both.
                let bits = if offset + LIMB_BITS > 64 && word + 1 < N {
                    _mm512_shrdv_epi64(w[word], w[word + 1], all(offset as u64))
                } else {
                    _mm512_srlv_epi64(w[word], all(offset as u64))
                };
                out.0[i] = if i + 1 < L { _mm512_and_si512(bits, all(LIMB_MASK)) } else { bits };
            }
        });
        out
    }

    /// Words of 64 bits from carried limbs below 2^(64·N).
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
    pub fn join(&self) -> [__m512i; N] {
        let mut out = [_mm512_setzero_si512(); N];
        each!(i, {
            if i < N {
                let (limb, offset) = (64 * i / LIMB_BITS, 64 * i % LIMB_BITS);
                let left = |x: __m512i, bits: usize| _mm512_sllv_epi64(x, all(bits as u64));
                out[i] = _mm512_srlv_epi64(self.0[limb], all(offset as u64));
                if limb + 1 < L {
                    out[i] = _mm512_or_si512(out[i], left(self.0[limb + 1], LIMB_BITS - offset));
                }
                if limb + 2 < L && 2 * LIMB_BITS - offset < 64 {
                    out[i] = _mm512_or_si512(out[i], left(self.0[limb + 2], 2 * LIMB_BITS - offset));
                }
            }
        });
        out
    }

    /// The same number in all lanes.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
    pub fn same(limbs: &[u64; L]) -> Self {
        let mut out = Self::ZERO;
        each!(i, {
            if i < L {
                out.0[i] = all(limbs[i]);
            }
        });
        out
    }

    /// One number per lane; carried.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
    pub fn from_words(lanes: &[Limbs<N>; LANES]) -> Self {
        Self::load(lanes.each_ref())
    }

    /// One number per lane; carried.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
    pub fn load(lanes: [&Limbs<N>; LANES]) -> Self {
        let mut words = [_mm512_setzero_si512(); N];
        if N == 4 {
            let mut rows = [_mm512_setzero_si512(); 4];
            for (row, low) in rows.iter_mut().zip([0, 1, 4, 5]) {
                let (low, high) = (words_at::<4>(lanes[low], 0), words_at::<4>(lanes[low + 2], 0));
                *row = _mm512_inserti64x4::<1>(low, _mm512_castsi512_si256(high));
            }
            // Lanes (0, 2), (1, 3), (4, 6) and (5, 7): this order needs the fewest moves.
            let (even, even_4) = (_mm512_unpacklo_epi64(rows[0], rows[1]), _mm512_unpacklo_epi64(rows[2], rows[3]));
            let (odd, odd_4) = (_mm512_unpackhi_epi64(rows[0], rows[1]), _mm512_unpackhi_epi64(rows[2], rows[3]));
            words[0] = _mm512_shuffle_i64x2::<0x88>(even, even_4);
            words[1] = _mm512_shuffle_i64x2::<0x88>(odd, odd_4);
            words[2] = _mm512_shuffle_i64x2::<0xdd>(even, even_4);
            words[3] = _mm512_shuffle_i64x2::<0xdd>(odd, odd_4);
        } else {
            let mut rows = [_mm512_setzero_si512(); LANES];
            for (row, lane) in rows.iter_mut().zip(lanes) {
                *row = words_at::<N>(lane, 0);
            }
            let columns = transpose(&rows);
            words.copy_from_slice(&columns[..N]);
        }
        Self::split(&words)
    }

    /// The number of each lane, from carried limbs below 2^(64·N).
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
    pub fn to_words(self) -> [Limbs<N>; LANES] {
        let (mut lanes, words) = ([[0; N]; LANES], self.join().map(|word| words_of(word)));
        for (lane, out) in lanes.iter_mut().enumerate() {
            *out = std::array::from_fn(|i| words[i][lane]);
        }
        lanes
    }

    /// Lane i of vector j goes to lane j of vector i.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
    pub fn transpose(rows: &[Self; LANES]) -> [Self; LANES] {
        let mut out = *rows;
        for limb in 0..L {
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
        each!(i, {
            if i + 1 < L {
                self.0[i + 1] = _mm512_add_epi64(self.0[i + 1], _mm512_srai_epi64::<52>(self.0[i]));
                self.0[i] = _mm512_and_si512(self.0[i], mask);
            }
        });
        self
    }

    /// Limb by limb, not carried.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
    pub fn plus(mut self, other: &Self) -> Self {
        for i in 0..L {
            self.0[i] = _mm512_add_epi64(self.0[i], other.0[i]);
        }
        self
    }

    /// Limb by limb, not carried.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
    pub fn minus(mut self, other: &Self) -> Self {
        for i in 0..L {
            self.0[i] = _mm512_sub_epi64(self.0[i], other.0[i]);
        }
        self
    }

    /// Adds j·p, not carried.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
    pub fn plus_p(mut self, j: usize) -> Self {
        for i in 0..L {
            self.0[i] = _mm512_add_epi64(self.0[i], all(Modulus::<M, N, L>::MULTIPLES[i][j]));
        }
        self
    }

    /// 2p minus the number in the chosen lanes, not carried.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
    pub fn negate_if(mut self, lanes: __mmask8) -> Self {
        for i in 0..L {
            self.0[i] = _mm512_mask_sub_epi64(self.0[i], lanes, all(Modulus::<M, N, L>::MULTIPLES[i][2]), self.0[i]);
        }
        self
    }

    /// 2^B times a number that is below 2^(52·L − B) once carried and not negative; carried.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
    pub fn times_power<const B: usize>(mut self) -> Self {
        if B <= 8 {
            // Limbs of a few bits over 52 keep them all.
            for limb in &mut self.0 {
                *limb = _mm512_sllv_epi64(*limb, all(B as u64));
            }
            return self.carry();
        }
        let carried = self.carry();
        let (zero, power, mut out) = (_mm512_setzero_si512(), all(1 << B), Self::ZERO);
        each!(i, {
            if i < L {
                // The low part ends in B zeros, where the high part of the limb below fits in.
                let above = if i == 0 { zero } else { _mm512_madd52hi_epu64(zero, carried.0[i.max(1) - 1], power) };
                out.0[i] = _mm512_madd52lo_epu64(above, carried.0[i], power);
            }
        });
        out
    }

    /// `other` in the chosen lanes.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
    pub fn replace(mut self, lanes: __mmask8, other: &Self) -> Self {
        for i in 0..L {
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
        let top = _mm512_add_epi64(self.0[L - 1], _mm512_srai_epi64::<52>(self.0[L - 2]));
        let quotient = _mm512_madd52hi_epu64(zero, top, all(Modulus::<M, N, L>::RECIPROCAL));
        for i in 0..L {
            let row = &Modulus::<M, N, L>::MULTIPLES[i];
            self.0[i] = _mm512_sub_epi64(self.0[i], _mm512_permutexvar_epi64(quotient, vector(*row)));
        }
        self.carry()
    }

    /// Lanes whose low limb is that of 0, p, 2p or 3p: all numbers below 4p that are 0 modulo p, and hardly any other.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
    pub fn maybe_zero(&self) -> __mmask8 {
        let low = self.0[0];
        let is = |j: usize| _mm512_cmpeq_epi64_mask(low, all(Modulus::<M, N, L>::MULTIPLES[0][j]));
        is(0) | is(1) | is(2) | is(3)
    }

    /// Lanes whose low limb is zero.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
    pub fn low_limb_is_zero(&self) -> __mmask8 {
        _mm512_testn_epi64_mask(self.0[0], self.0[0])
    }

    /// (self·other + m·p)/2^(52·L) for carried operands below 2^(52·L): below self·other/2^(52·L) + p, not carried.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
    pub fn product(&self, other: &Self) -> Self {
        let mut t = [_mm512_setzero_si512(); 2 * LIMBS_MAX];
        each!(i, {
            each!(j, {
                if i < L && j < L {
                    t[i + j] = _mm512_madd52lo_epu64(t[i + j], self.0[i], other.0[j]);
                    t[i + j + 1] = _mm512_madd52hi_epu64(t[i + j + 1], self.0[i], other.0[j]);
                }
            });
        });
        Self::fold(t)
    }

    /// self², as [`Self::product`].
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
    pub fn square(&self) -> Self {
        let mut t = [_mm512_setzero_si512(); 2 * LIMBS_MAX];
        each!(i, {
            each!(j, {
                if i < j && j < L {
                    t[i + j] = _mm512_madd52lo_epu64(t[i + j], self.0[i], self.0[j]);
                    t[i + j + 1] = _mm512_madd52hi_epu64(t[i + j + 1], self.0[i], self.0[j]);
                }
            });
        });
        each!(i, {
            if i < L {
                t[2 * i] = _mm512_add_epi64(t[2 * i], t[2 * i]);
                t[2 * i + 1] = _mm512_add_epi64(t[2 * i + 1], t[2 * i + 1]);
                t[2 * i] = _mm512_madd52lo_epu64(t[2 * i], self.0[i], self.0[i]);
                t[2 * i + 1] = _mm512_madd52hi_epu64(t[2 * i + 1], self.0[i], self.0[i]);
            }
        });
        Self::fold(t)
    }

    /// Montgomery reduction of 2·L columns below 2^57.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
    fn fold(mut t: [__m512i; 2 * LIMBS_MAX]) -> Self {
        let (zero, mask, inv) = (_mm512_setzero_si512(), all(LIMB_MASK), all(Modulus::<M, N, L>::INV));
        let p = Modulus::<M, N, L>::P;
        let mut out = Self::ZERO;
        each!(i, {
            if i < L {
                let m = _mm512_madd52lo_epu64(zero, t[i], inv);
                // The low 52 bits of t + m·p are zero, so their sum carries exactly if those of t are not.
                let carry = _mm512_srli_epi64::<52>(_mm512_add_epi64(t[i], mask));
                // The next round waits for this column alone: two short sums instead of a long one.
                let low = _mm512_madd52lo_epu64(_mm512_add_epi64(t[i + 1], carry), m, all(p[1]));
                t[i + 1] = _mm512_add_epi64(low, _mm512_madd52hi_epu64(zero, m, all(p[0])));
                each!(j, {
                    if j >= 2 && j < L {
                        t[i + j] = _mm512_madd52hi_epu64(t[i + j], m, all(p[j - 1]));
                        t[i + j] = _mm512_madd52lo_epu64(t[i + j], m, all(p[j]));
                    }
                });
                t[i + L] = _mm512_madd52hi_epu64(t[i + L], m, all(p[L - 1]));
            }
        });
        out.0.copy_from_slice(&t[L..2 * L]);
        out
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
