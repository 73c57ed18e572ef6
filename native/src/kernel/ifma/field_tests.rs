//! Lanes against the reference field: every operation, on edge operands in all pairs and on millions of random ones.

#![allow(clippy::unwrap_used)]

use ark_ff::{AdditiveGroup, BigInt, BigInteger, Field, Fp, MontBackend, MontConfig, PrimeField};

use super::super::Limbs;
use super::field::{split_words, Lanes, LANES};
use super::Ifma;

type Reference<M, const N: usize> = Fp<MontBackend<M, N>, N>;

/// SplitMix64: seeded, so that a failure repeats.
pub struct Random(pub u64);

impl Random {
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Any number below 2p; now and then with limbs full of zeros or ones.
    fn below_2p<M: MontConfig<N>, const N: usize>(&mut self) -> Limbs<N> {
        let top = twice::<M, N>().0[N - 1].leading_zeros();
        loop {
            let mut limbs = std::array::from_fn(|_| self.word());
            let shape = self.word();
            for (i, limb) in limbs.iter_mut().enumerate() {
                match shape >> (4 * i) & 15 {
                    0 => *limb = 0,
                    1 => *limb = u64::MAX,
                    _ => {}
                }
            }
            limbs[N - 1] >>= top;
            if BigInt::new(limbs) < twice::<M, N>() {
                return limbs;
            }
        }
    }
}

fn twice<M: MontConfig<N>, const N: usize>() -> BigInt<N> {
    let mut p = M::MODULUS;
    p.mul2();
    p
}

/// 0, 1, p − 2 … p + 2, 2p − 1, and numbers around every border of 52 and of 64 bits, all below 2p.
fn edges<M: MontConfig<N>, const N: usize>() -> Vec<Limbs<N>> {
    let mut out: Vec<Limbs<N>> = [0u64, 1, 2].map(|x| BigInt::<N>::from(x).0).to_vec();
    let mut around = |centre: BigInt<N>| {
        for step in 0..3u64 {
            for up in [true, false] {
                let mut x = centre;
                let over = if up { x.add_with_carry(&step.into()) } else { x.sub_with_borrow(&step.into()) };
                if !over && x < twice::<M, N>() {
                    out.push(x.0);
                }
            }
        }
    };
    around(M::MODULUS);
    around(twice::<M, N>());
    around(M::R);
    let borders = (1..8).flat_map(|i| [52 * i - 1, 52 * i, 52 * i + 1, 64 * i - 1, 64 * i, 64 * i + 1]);
    for bit in borders.chain([253, 254, 380, 381]).filter(|bit| *bit < 64 * N) {
        let mut x = BigInt::<N>::from(1u64);
        x <<= bit as u32;
        around(x);
    }
    out
}

/// The limbs as a plain integer modulo p.
fn value<M: MontConfig<N>, const N: usize>(limbs: &Limbs<N>) -> Reference<M, N> {
    let bytes: Vec<u8> = limbs.iter().flat_map(|w| w.to_le_bytes()).collect();
    Reference::<M, N>::from_le_bytes_mod_order(&bytes)
}

/// A bit of one result in one lane to turn over.
type Flip = Option<(usize, usize)>;

const RESULTS: usize = 11;

/// Checks every operation on eight pairs below 2p; true if all lanes are right.
#[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
fn right<M: MontConfig<N>, const N: usize, const L: usize>(
    a: &[Limbs<N>; LANES],
    b: &[Limbs<N>; LANES],
    shrink: &Reference<M, N>,
    flip: Flip,
) -> bool {
    let (va, vb) = (Lanes::<M, N, L>::from_words(a), Lanes::<M, N, L>::from_words(b));
    let mut ok = va.to_words() == *a && vb.to_words() == *b;
    let odd = 0b1010_1010;
    // As far as the points' coordinates are moved up, by shifts or by products.
    let (moved, power) = if L == 8 { (va.times_power::<32>(), 32) } else { (va.times_power::<2>(), 2) };
    let mut results: [[Limbs<N>; LANES]; RESULTS] = [
        va.product(&vb).carry(),
        va.plus(&vb).plus_p(1).carry().product(&va.times_power::<1>()).carry(),
        va.plus(&vb).reduce(),
        va.minus(&vb).plus_p(2).reduce(),
        va.minus(&vb).minus(&vb).plus_p(5).reduce(),
        va.plus(&va).plus(&vb).plus(&vb).reduce(),
        va.negate_if(odd).plus_p(1).reduce(),
        va.replace(odd, &vb),
        va.product(&vb).plus_p(5).minus(&va).minus(&vb).reduce(),
        va.square().carry(),
        moved.product(&vb).carry(),
    ]
    .map(|v| v.to_words());
    if let Some((result, lane)) = flip {
        results[result][lane][0] ^= 1;
    }
    let zeros = va.minus(&vb).plus_p(2).carry().maybe_zero();
    for lane in 0..LANES {
        let (x, y) = (value::<M, N>(&a[lane]), value::<M, N>(&b[lane]));
        let even = lane % 2 == 0;
        let expected = [
            x * y * *shrink,
            (x + y) * x.double() * *shrink,
            x + y,
            x - y,
            x - y - y,
            (x + y).double(),
            if even { x } else { -x },
            if even { x } else { y },
            x * y * *shrink - x - y,
            x.square() * *shrink,
            x * y * *shrink * Reference::<M, N>::from(1u64 << power),
        ];
        for (i, (found, expected)) in results.iter().zip(&expected).enumerate() {
            let limit = BigInt::new(found[lane]) < twice::<M, N>();
            ok &= value::<M, N>(&found[lane]) == *expected && (limit || i == 7);
        }
        ok &= x != y || zeros >> lane & 1 == 1;
    }
    ok
}

/// 2^(−52·L).
fn shrink<M: MontConfig<N>, const N: usize, const L: usize>() -> Reference<M, N> {
    Reference::<M, N>::from(2u64).pow([52 * L as u64]).inverse().unwrap()
}

fn check<M: MontConfig<N>, const N: usize, const L: usize>(_: Ifma, rounds: u64) {
    let shrink = shrink::<M, N, L>();
    // SAFETY: an `Ifma` exists, so the processor has the features.
    let right = |a: &[Limbs<N>; LANES], b: &[Limbs<N>; LANES]| unsafe { right::<M, N, L>(a, b, &shrink, None) };
    let edges = edges::<M, N>();
    for (i, a) in edges.iter().enumerate() {
        for start in (0..edges.len()).step_by(LANES) {
            let b = std::array::from_fn(|lane| edges[(start + lane) % edges.len()]);
            // The edge in all lanes, and with its neighbours, so that lanes differ.
            assert!(right(&[*a; LANES], &b), "edge {i} with {start}…");
            assert!(
                right(&std::array::from_fn(|lane| edges[(i + lane) % edges.len()]), &b),
                "edges {i}… with {start}…"
            );
        }
    }
    let mut random = Random(1);
    for round in 0..rounds {
        let a = std::array::from_fn(|_| random.below_2p::<M, N>());
        let b = std::array::from_fn(|_| random.below_2p::<M, N>());
        assert!(right(&a, &b), "round {round}: {a:x?} {b:x?}");
    }
}

/// A third of a million operand pairs per modulus, eleven results each.
#[test]
fn equals_the_reference_field() {
    if let Some(ifma) = Ifma::detect() {
        check::<ark_bn254::FqConfig, 4, 5>(ifma, 40_000);
        check::<ark_bn254::FrConfig, 4, 5>(ifma, 40_000);
        check::<ark_bls12_381::FqConfig, 6, 8>(ifma, 40_000);
        check::<ark_bls12_381::FrConfig, 4, 5>(ifma, 40_000);
    }
}

fn check_flips<M: MontConfig<N>, const N: usize, const L: usize>(_: Ifma) {
    let (mut random, shrink) = (Random(2), shrink::<M, N, L>());
    let a = std::array::from_fn(|_| random.below_2p::<M, N>());
    let b = std::array::from_fn(|_| random.below_2p::<M, N>());
    // SAFETY: an `Ifma` exists, so the processor has the features.
    let right = |flip: Flip| unsafe { right::<M, N, L>(&a, &b, &shrink, flip) };
    assert!(right(None));
    for result in 0..RESULTS {
        for lane in 0..LANES {
            assert!(!right(Some((result, lane))), "result {result}, lane {lane}");
        }
    }
}

/// The check above can fail: it notices one wrong bit in any result and lane.
#[test]
fn one_wrong_lane_is_noticed() {
    if let Some(ifma) = Ifma::detect() {
        check_flips::<ark_bn254::FqConfig, 4, 5>(ifma);
        check_flips::<ark_bls12_381::FqConfig, 6, 8>(ifma);
    }
}

fn check_limbs<M: MontConfig<N>, const N: usize, const L: usize>() {
    for words in edges::<M, N>() {
        let limbs: [u64; L] = split_words(&words);
        let mut x = BigInt::<N>::from(0u64);
        for limb in limbs.iter().rev() {
            x <<= 52;
            x.add_with_carry(&(*limb).into());
        }
        assert_eq!(x.0, words);
    }
}

#[test]
fn limbs_of_52_bits_are_the_same_number() {
    check_limbs::<ark_bn254::FqConfig, 4, 5>();
    check_limbs::<ark_bls12_381::FqConfig, 6, 8>();
}
