//! Lanes against the reference field: every operation, on edge operands in all pairs and on millions of random ones.

#![allow(clippy::unwrap_used)]

use ark_bn254::{FqConfig, FrConfig};
use ark_ff::{AdditiveGroup, BigInt, BigInteger, Field, Fp256, MontBackend, MontConfig, PrimeField};

type Limbs = super::super::Limbs<4>;
use super::field::{split_words, Lanes, LANES};
use super::Ifma;

type Reference<C> = Fp256<MontBackend<C, 4>>;

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
    fn below_2p<C: MontConfig<4>>(&mut self) -> Limbs {
        loop {
            let mut limbs = [self.word(), self.word(), self.word(), self.word() >> 1];
            let shape = self.word();
            for (i, limb) in limbs.iter_mut().enumerate() {
                match shape >> (4 * i) & 15 {
                    0 => *limb = 0,
                    1 => *limb = u64::MAX >> u64::from(i == 3),
                    _ => {}
                }
            }
            if BigInt::new(limbs) < twice::<C>() {
                return limbs;
            }
        }
    }
}

fn twice<C: MontConfig<4>>() -> BigInt<4> {
    let mut p = C::MODULUS;
    p.mul2();
    p
}

/// 0, 1, p − 2 … p + 2, 2p − 1, and numbers around every border of 52 and of 64 bits, all below 2p.
fn edges<C: MontConfig<4>>() -> Vec<Limbs> {
    let mut out = vec![[0; 4], [1, 0, 0, 0], [2, 0, 0, 0]];
    let mut around = |centre: BigInt<4>| {
        for step in 0..3u64 {
            for up in [true, false] {
                let mut x = centre;
                let over = if up { x.add_with_carry(&step.into()) } else { x.sub_with_borrow(&step.into()) };
                if !over && x < twice::<C>() {
                    out.push(x.0);
                }
            }
        }
    };
    around(C::MODULUS);
    around(twice::<C>());
    around(C::R);
    for bit in [51, 52, 53, 63, 64, 65, 103, 104, 105, 127, 128, 155, 156, 157, 191, 192, 207, 208, 209, 253, 254] {
        let mut x = BigInt::<4>::from(1u64);
        x <<= bit;
        around(x);
    }
    out
}

/// The limbs as a plain integer modulo p.
fn value<C: MontConfig<4>>(limbs: &Limbs) -> Reference<C> {
    let bytes: Vec<u8> = limbs.iter().flat_map(|w| w.to_le_bytes()).collect();
    Reference::<C>::from_le_bytes_mod_order(&bytes)
}

/// A bit of one result in one lane to turn over.
type Flip = Option<(usize, usize)>;

const RESULTS: usize = 9;

/// Checks every operation on eight pairs below 2p; true if all lanes are right.
#[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
fn right<C: MontConfig<4>>(a: &[Limbs; LANES], b: &[Limbs; LANES], shrink: &Reference<C>, flip: Flip) -> bool {
    let (va, vb) = (Lanes::<C>::from_words(a), Lanes::<C>::from_words(b));
    let mut ok = va.to_words() == *a && vb.to_words() == *b;
    let odd = 0b1010_1010;
    let mut results: [[Limbs; LANES]; RESULTS] = [
        va.product(&vb).carry(),
        va.plus(&vb).plus_p(3).carry().product(&va.times_four().carry()).carry(),
        va.plus(&vb).reduce(),
        va.minus(&vb).plus_p(2).reduce(),
        va.minus(&vb).minus(&vb).plus_p(5).reduce(),
        va.plus(&va).plus(&vb).plus(&vb).reduce(),
        va.negate_if(odd).plus_p(1).reduce(),
        va.replace(odd, &vb),
        va.product(&vb).plus_p(5).minus(&va).minus(&vb).reduce(),
    ]
    .map(|v| v.to_words());
    if let Some((result, lane)) = flip {
        results[result][lane][0] ^= 1;
    }
    let zeros = va.minus(&vb).plus_p(2).carry().maybe_zero();
    for lane in 0..LANES {
        let (x, y) = (value::<C>(&a[lane]), value::<C>(&b[lane]));
        let even = lane % 2 == 0;
        let expected = [
            x * y * *shrink,
            (x + y) * x.double().double() * *shrink,
            x + y,
            x - y,
            x - y - y,
            (x + y).double(),
            if even { x } else { -x },
            if even { x } else { y },
            x * y * *shrink - x - y,
        ];
        for (i, (found, expected)) in results.iter().zip(&expected).enumerate() {
            let limit = BigInt::new(found[lane]) < twice::<C>();
            ok &= value::<C>(&found[lane]) == *expected && (limit || i == 7);
        }
        ok &= x != y || zeros >> lane & 1 == 1;
    }
    ok
}

/// 2^-260.
fn shrink<C: MontConfig<4>>() -> Reference<C> {
    Reference::<C>::from(2u64).pow([260]).inverse().unwrap()
}

fn check<C: MontConfig<4>>(_: Ifma, rounds: u64) {
    let shrink = shrink::<C>();
    // SAFETY: an `Ifma` exists, so the processor has the features.
    let right = |a: &[Limbs; LANES], b: &[Limbs; LANES]| unsafe { right::<C>(a, b, &shrink, None) };
    let edges = edges::<C>();
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
        let a = std::array::from_fn(|_| random.below_2p::<C>());
        let b = std::array::from_fn(|_| random.below_2p::<C>());
        assert!(right(&a, &b), "round {round}: {a:x?} {b:x?}");
    }
}

/// 1.2 million operand pairs per modulus, nine results each.
#[test]
fn equals_the_reference_field() {
    if let Some(ifma) = Ifma::detect() {
        check::<FqConfig>(ifma, 150_000);
        check::<FrConfig>(ifma, 150_000);
    }
}

/// The check above can fail: it notices one wrong bit in any result and lane.
#[test]
fn one_wrong_lane_is_noticed() {
    let Some(_) = Ifma::detect() else { return };
    let (mut random, shrink) = (Random(2), shrink::<FqConfig>());
    let a = std::array::from_fn(|_| random.below_2p::<FqConfig>());
    let b = std::array::from_fn(|_| random.below_2p::<FqConfig>());
    // SAFETY: detected above.
    let right = |flip: Flip| unsafe { right::<FqConfig>(&a, &b, &shrink, flip) };
    assert!(right(None));
    for result in 0..RESULTS {
        for lane in 0..LANES {
            assert!(!right(Some((result, lane))), "result {result}, lane {lane}");
        }
    }
}

#[test]
fn limbs_of_52_bits_are_the_same_number() {
    for words in edges::<FqConfig>() {
        let limbs = split_words(&words);
        let mut x = BigInt::<4>::from(0u64);
        for limb in limbs.iter().rev() {
            x <<= 52;
            x.add_with_carry(&(*limb).into());
        }
        assert_eq!(x.0, words);
    }
}
