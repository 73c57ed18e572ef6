//! Mutated proofs, signals and keys on both curves: none is accepted, none makes the core panic, memory stays bounded.
//!
//! `SITS_MUTATIONS` is the number of mutations per curve (default 1,500: a few seconds). The long run, a million each:
//! `SITS_MUTATIONS=1000000 cargo test --release --test mutations -- --nocapture --test-threads 1`
//! prints how often each check refused. `SITS_SEED` chooses another sequence; a failure names the seed and the number.
//!
//! What leaves the equation the same leaves a proof valid by design and is told apart: (−A, −B, C) of Groth16's
//! malleability, −α and −β in the key, and points of the key that change places together with the signals.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use _native::circuit::Circuit;
use _native::curve::{Bls381, Bn254, Curve, G1Projective};

use _native::keys::{ProvingKey, VerificationKey};
use _native::prover::Prover;
use _native::setup::setup;
use _native::verifier::{Proof, Verifier};
use ark_ff::PrimeField;

mod common;
use common::{relu_file, Random};

const COUNT: u64 = 1_500;
/// A long run says now and then how far it is.
const PROGRESS: u64 = 50_000;
/// Peak memory may grow by this much, however long the run: a verifier and a few keys are below a megabyte.
const GROWTH_KIB_MAX: u64 = 64 << 10;
const CTX: [u8; 31] = [0x2a; 31];
/// Makes y differ from x and from zero.
const OFFSET: i64 = 3;

/// An honest command: x, y = ReLU(x) + 3 and ctx all differ and none is 0 or 1, so that every part of the key matters (with
/// x = 1, the long run found, the points of x and of the constant may change places).
#[derive(Clone)]
struct Honest {
    signals: Vec<[u8; 32]>,
    proof: Vec<u8>,
}

struct Campaign<C: Curve> {
    circuit: Circuit,
    proving_key: Vec<u8>,
    key: Vec<u8>,
    verifier: Verifier<C>,
    honest: Vec<Honest>,
    /// Valid points of both groups: parts of proofs and keys, of this set-up and of another one.
    points: [Vec<Vec<u8>>; 2],
    /// r, big-endian.
    order: [u8; 32],
}

impl<C: Curve> Campaign<C> {
    const G1: usize = C::FQ_BYTES;
    const G2: usize = 2 * C::FQ_BYTES;
    /// Magic, curve, count.
    const KEY_HEAD: usize = 13;

    fn new() -> Self {
        let file = relu_file(C::ID, OFFSET);
        let circuit = Circuit::parse(&file).unwrap();
        let (mut honest, mut points, mut keys) = (Vec::new(), [Vec::new(), Vec::new()], Vec::new());
        for own in [true, false] {
            let (pk, vk) = setup::<C>(&circuit).unwrap();
            let prover = Prover::<C>::new(&file, &pk.encode()).unwrap();
            for x in [-16i64, -7, -5, 2, 4, 5, 11, 15] {
                let (outputs, proof) = prover.prove(&[x], &CTX).unwrap();
                let proof = proof.encode().to_vec();
                points[0].extend([proof[..Self::G1].to_vec(), proof[Self::G1 + Self::G2..].to_vec()]);
                points[1].push(proof[Self::G1..Self::G1 + Self::G2].to_vec());
                let words = prover.witness(&[x], &CTX).unwrap();
                assert_eq!(outputs, [x.max(0) + OFFSET]);
                if own {
                    let signals = words[1..4].iter().map(|word| big_endian::<C>(word)).collect();
                    honest.push(Honest { signals, proof });
                }
            }
            let vk = vk.encode();
            let (g2_at, ic_at) = (Self::KEY_HEAD + Self::G1, Self::KEY_HEAD + Self::G1 + 3 * Self::G2);
            points[0].push(vk[Self::KEY_HEAD..g2_at].to_vec());
            points[0].extend(vk[ic_at..].chunks(Self::G1).map(<[u8]>::to_vec));
            points[1].extend(vk[g2_at..ic_at].chunks(Self::G2).map(<[u8]>::to_vec));
            keys.push((pk.encode(), vk));
        }
        let (proving_key, key) = keys.swap_remove(0);
        let verifier = Verifier::new(&VerificationKey::decode(&key).unwrap()).unwrap();
        let order = increment(big_endian::<C>(&-C::Fr::from(1u64)));
        let campaign = Self { circuit, proving_key, key, verifier, honest, points, order };
        for command in &campaign.honest {
            assert_eq!(campaign.verifier.verify_signals(&command.signals, &command.proof), Ok(()));
        }
        campaign
    }

    fn mutate_proof(&self, random: &mut Random, proof: &[u8]) -> Vec<u8> {
        let mut out = proof.to_vec();
        let parts = [(0, Self::G1), (Self::G1, Self::G2), (Self::G1 + Self::G2, Self::G1)];
        let (start, size) = parts[random.below(3)];
        match random.below(9) {
            0 => random.flip_bits(&mut out),
            1 => out[random.below(proof.len())] = random.next() as u8,
            2 => return random.mutate(&out),
            3 | 4 => {
                let pool = &self.points[usize::from(size == Self::G2)];
                out[start..start + size].copy_from_slice(&pool[random.below(pool.len())]);
            }
            5 => out[start] = out[start] & !C::FLAGS.mask | random.next() as u8 & C::FLAGS.mask,
            6 => out[start..start + size].fill([0, 0xff][random.below(2)]),
            7 => {
                let other = &self.honest[random.below(self.honest.len())].proof;
                out[start..start + size].copy_from_slice(&other[start..start + size]);
            }
            _ => {
                let (a, c) = (proof[..Self::G1].to_vec(), proof[Self::G1 + Self::G2..].to_vec());
                out[..Self::G1].copy_from_slice(&c);
                out[Self::G1 + Self::G2..].copy_from_slice(&a);
            }
        }
        out
    }

    fn mutate_signals(&self, random: &mut Random, signals: &[[u8; 32]]) -> Vec<[u8; 32]> {
        let mut out = signals.to_vec();
        let at = random.below(out.len());
        match random.below(8) {
            0 => random.flip_bits(&mut out[at]),
            1 => out[at] = increment(out[at]),
            2 => out[at] = [[0; 32], [0xff; 32], self.order, increment(self.order)][random.below(4)],
            3 => out[at] = add(out[at], self.order),
            4 => out.swap(at, random.below(signals.len())),
            5 => drop(out.remove(at)),
            6 => out.insert(at, signals[random.below(signals.len())]),
            _ => out[at] = self.honest[random.below(self.honest.len())].signals[random.below(signals.len())],
        }
        out
    }

    fn mutate_key(&self, random: &mut Random) -> Vec<u8> {
        let mut out = self.key.clone();
        let (g2_at, ic_at) = (Self::KEY_HEAD + Self::G1, Self::KEY_HEAD + Self::G1 + 3 * Self::G2);
        let ics = (out.len() - ic_at) / Self::G1;
        let g1_at = [Self::KEY_HEAD, ic_at + Self::G1 * random.below(ics)][random.below(2)];
        match random.below(7) {
            0 => random.flip_bits(&mut out),
            1 => return random.mutate(&out),
            2 => out[g1_at..g1_at + Self::G1].copy_from_slice(&self.points[0][random.below(self.points[0].len())]),
            3 => {
                let at = g2_at + Self::G2 * random.below(3);
                out[at..at + Self::G2].copy_from_slice(&self.points[1][random.below(self.points[1].len())]);
            }
            4 => {
                let at = [g1_at, g2_at + Self::G2 * random.below(3)][random.below(2)];
                out[at] = out[at] & !C::FLAGS.mask | random.next() as u8 & C::FLAGS.mask;
            }
            5 => {
                let other = ic_at + Self::G1 * random.below(ics);
                let (one, two) = (out[g1_at..g1_at + Self::G1].to_vec(), out[other..other + Self::G1].to_vec());
                out[g1_at..g1_at + Self::G1].copy_from_slice(&two);
                out[other..other + Self::G1].copy_from_slice(&one);
            }
            _ => {
                let (one, two) = (g2_at + Self::G2 * random.below(3), g2_at + Self::G2 * random.below(3));
                out.copy_within(one..one + Self::G2, two);
            }
        }
        out
    }

    /// One mutation: what was changed, and the verdict's code; `None` if nothing came out changed.
    fn step(&self, random: &mut Random) -> Option<(&'static str, &'static str)> {
        let honest = &self.honest[random.below(self.honest.len())];
        let target = ["proof", "proof", "signals", "key", "proof and signals", "all", "proving key"][random.below(7)];
        if target == "proving key" {
            let mutated = random.mutate(&self.proving_key);
            return (mutated != self.proving_key).then(|| match ProvingKey::<C>::decode(&mutated, &self.circuit) {
                Ok(key) => {
                    assert_eq!(key.encode(), mutated, "one encoding per key");
                    (target, "a point for another")
                }
                Err(error) => (target, error.code),
            });
        }
        let proof = match target {
            "signals" | "key" => honest.proof.clone(),
            _ => self.mutate_proof(random, &honest.proof),
        };
        let signals = match target {
            "proof" | "key" => honest.signals.clone(),
            _ => self.mutate_signals(random, &honest.signals),
        };
        let key = if target == "key" || target == "all" { self.mutate_key(random) } else { self.key.clone() };
        let known = self.honest.iter().any(|h| h.signals == signals && h.proof == proof);
        if known && key == self.key {
            return None;
        }
        let verdict = if key == self.key {
            self.verifier.verify_signals(&signals, &proof)
        } else {
            VerificationKey::<C>::decode(&key)
                .and_then(|key| Verifier::new(&key))
                .and_then(|verifier| verifier.verify_signals(&signals, &proof))
        };
        let code = match verdict {
            Err(error) => error.code,
            Ok(()) if self.by_design(&key, &signals, &proof) => "valid by design",
            Ok(()) => "ACCEPTED",
        };
        Some((target, code))
    }

    /// Whether it is the very equation of an honest command, perhaps with −A, −B or −α, −β: then it holds, as it should.
    /// The key's points and the signals may have changed places together, for instance.
    fn by_design(&self, key: &[u8], signals: &[[u8; 32]], proof: &[u8]) -> bool {
        let sign = C::FLAGS.smaller_y ^ C::FLAGS.larger_y;
        let negated = |data: &[u8], first: usize, second: usize| {
            let mut out = data.to_vec();
            out[first] ^= sign;
            out[second] ^= sign;
            out
        };
        let ic_at = Self::KEY_HEAD + Self::G1 + 3 * Self::G2;
        let twin = negated(&self.key, Self::KEY_HEAD, Self::KEY_HEAD + Self::G1);
        let same_head =
            key.get(..ic_at).is_some_and(|head| [&self.key, &twin].iter().any(|known| *head == known[..ic_at]));
        let same_proof = |h: &Honest| proof == h.proof || proof == negated(&h.proof, 0, Self::G1);
        let statement = |key: &[u8], signals: &[[u8; 32]]| -> G1Projective<C> {
            let ic = VerificationKey::<C>::decode(key).unwrap().ic;
            let terms = ic[1..].iter().zip(signals);
            terms.map(|(point, word)| *point * C::Fr::from_be_bytes_mod_order(word)).sum::<G1Projective<C>>() + ic[0]
        };
        same_head
            && self.honest.iter().any(|h| same_proof(h) && statement(&self.key, &h.signals) == statement(key, signals))
    }
}

fn big_endian<C: Curve>(value: &C::Fr) -> [u8; 32] {
    use ark_ff::BigInteger;
    let mut out = [0; 32];
    out.copy_from_slice(&value.into_bigint().to_bytes_be());
    out
}

/// Sum modulo 2^256.
fn add(mut a: [u8; 32], b: [u8; 32]) -> [u8; 32] {
    let mut carry = 0;
    for (x, y) in a.iter_mut().zip(b).rev() {
        let sum = u16::from(*x) + u16::from(y) + carry;
        *x = sum as u8;
        carry = sum >> 8;
    }
    a
}

fn increment(a: [u8; 32]) -> [u8; 32] {
    let mut one = [0; 32];
    one[31] = 1;
    add(a, one)
}

/// Peak resident memory of this process in KiB, where the system tells.
fn peak_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// One test at a time: the peak of the process's memory is everybody's.
static TURN: Mutex<()> = Mutex::new(());

fn run<C: Curve>() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let (count, seed) = (setting("SITS_MUTATIONS", COUNT), setting("SITS_SEED", 20));
    let (campaign, mut random) = (Campaign::<C>::new(), Random(seed));
    let before = peak_kib();
    let mut verdicts = BTreeMap::<(&str, &str), u64>::new();
    let mut done = 0;
    while done < count {
        let Some(verdict) = campaign.step(&mut random) else { continue };
        assert_ne!(verdict.1, "ACCEPTED", "{} mutation {done} of seed {seed} on {}", verdict.0, C::NAME);
        *verdicts.entry(verdict).or_default() += 1;
        done += 1;
        if done % PROGRESS == 0 {
            println!("{:10} {done} mutations", C::NAME);
        }
    }
    for ((target, code), times) in &verdicts {
        println!("{:10} {target:18} {code:22} {times}", C::NAME);
    }
    for (target, code) in [
        ("proof", "proof-point"),
        ("proof", "proof-pairing"),
        ("signals", "signal-count"),
        ("signals", "signal-range"),
        ("signals", "proof-pairing"),
        ("key", "vk-format"),
        ("key", "key-lint"),
        ("key", "proof-pairing"),
    ] {
        assert!(
            verdicts.contains_key(&(target, code)),
            "no {target} was refused by {code}: the mutations are too tame"
        );
    }
    if let (Some(before), Some(after)) = (before, peak_kib()) {
        println!("{:10} peak memory {before} KiB before, {after} KiB after {count} mutations", C::NAME);
        assert!(after - before <= GROWTH_KIB_MAX, "memory grew from {before} to {after} KiB");
    }
}

#[test]
fn nothing_mutated_is_accepted_on_bn254() {
    run::<Bn254>();
}

#[test]
fn nothing_mutated_is_accepted_on_bls12_381() {
    run::<Bls381>();
}

#[test]
fn changes_that_stay_valid_are_known_as_such() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let campaign = Campaign::<Bn254>::new();
    let honest = &campaign.honest[0];
    let sign = Bn254::FLAGS.smaller_y ^ Bn254::FLAGS.larger_y;
    let mut proof = honest.proof.clone();
    proof[0] ^= sign;
    assert!(!campaign.by_design(&campaign.key, &honest.signals, &proof));
    assert!(campaign.verifier.verify_signals(&honest.signals, &proof).is_err());
    proof[32] ^= sign;
    assert_eq!(campaign.verifier.verify_signals(&honest.signals, &proof), Ok(()));
    assert!(campaign.by_design(&campaign.key, &honest.signals, &proof));
    assert!(!campaign.by_design(&campaign.key, &campaign.honest[1].signals, &proof));
    assert_eq!(Proof::<Bn254>::decode(&proof).unwrap().encode().as_slice(), proof);

    let (ic, mut key, mut signals) = (13 + 7 * 32 + 32, campaign.key.clone(), honest.signals.clone());
    key[ic..ic + 64].rotate_left(32);
    assert!(!campaign.by_design(&key, &signals, &honest.proof));
    signals.swap(0, 1);
    let verifier = Verifier::<Bn254>::new(&VerificationKey::decode(&key).unwrap()).unwrap();
    assert_eq!(verifier.verify_signals(&signals, &honest.proof), Ok(()));
    assert!(campaign.by_design(&key, &signals, &honest.proof));
}
