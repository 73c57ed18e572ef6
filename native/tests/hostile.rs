//! Seeded mutations of every file format: a value or one typed error, never a panic, and what is accepted is canonical.
#![allow(clippy::unwrap_used)]

use _native::circuit::Circuit;
use _native::curve::{Bls381, Bn254, Curve};
use _native::keys::{ProvingKey, VerificationKey};
use _native::prover::Prover;
use _native::setup::setup;
use _native::verifier::{Proof, Verifier};

/// One input x, one output ReLU(x) for −16 ≤ x < 16: wires 0 one, 1 x, 2 y, 3 ctx, 4..8 bits, 8 product.
fn toy<C: Curve>() -> Vec<u8> {
    let mut out = Vec::new();
    let lc = |out: &mut Vec<u8>, terms: &[(u32, i64)]| {
        out.extend((terms.len() as u16).to_be_bytes());
        for (wire, coefficient) in terms {
            out.extend(wire.to_be_bytes());
            out.extend(coefficient.to_be_bytes());
        }
    };
    let top = [(0, 16), (1, 1), (4, -1), (5, -2), (6, -4), (7, -8)];
    let low = [(4, 1), (5, 2), (6, 4), (7, 8)];
    out.extend(b"SITSR1C1");
    out.push(C::ID);
    for n in [1u32, 1, 5, 3, 9] {
        out.extend(n.to_be_bytes());
    }
    out.push(1);
    lc(&mut out, &[(0, 16), (1, 1)]);
    out.push(4);
    out.extend(4u32.to_be_bytes());
    out.push(2);
    lc(&mut out, &top);
    lc(&mut out, &low);
    out.push(4);
    out.extend(8u32.to_be_bytes());
    out.push(3);
    lc(&mut out, &[(8, 1)]);
    out.extend(0u32.to_be_bytes());
    let mut row = |a: &[(u32, i64)], b: &[(u32, i64)], c: &[(u32, i64)]| {
        for side in [a, b, c] {
            lc(&mut out, side);
        }
    };
    for bit in 4..8 {
        row(&[(bit, 1)], &[(0, 1), (bit, -1)], &[]);
    }
    row(&top, &[(1, -1), (4, 1), (5, 2), (6, 4), (7, 8)], &[]);
    row(&top, &low, &[(8, 16)]);
    row(&[(2, -1), (8, 1)], &[(0, 1)], &[]);
    row(&[(1, 1)], &[], &[]);
    row(&[(3, 1)], &[], &[]);
    out
}

/// SplitMix64: small, seeded, the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    /// Sets, removes or inserts a few bytes; favours the header, where the counts are.
    fn mutate(&mut self, data: &[u8]) -> Vec<u8> {
        let mut out = data.to_vec();
        for _ in 0..=self.below(3) {
            let reach = if self.below(2) == 0 { out.len().min(64) } else { out.len() };
            let at = self.below(reach);
            match self.below(4) {
                0 | 1 if !out.is_empty() => out[at] ^= 1 << self.below(8),
                2 => {
                    let end = (at + self.below(40)).min(out.len());
                    out.drain(at.min(end)..end);
                }
                _ => {
                    let extra: Vec<u8> = (0..self.below(40)).map(|_| self.next() as u8).collect();
                    out.splice(at..at, extra);
                }
            }
        }
        out
    }
}

#[test]
fn the_toy_proves_and_verifies_over_its_whole_box() {
    on_the_toy_proves_and_verifies_over_its_whole_box::<Bn254>();
    on_the_toy_proves_and_verifies_over_its_whole_box::<Bls381>();
}

fn on_the_toy_proves_and_verifies_over_its_whole_box<C: Curve>() {
    let file = toy::<C>();
    let (pk, vk) = setup::<C>(&Circuit::parse(&file).unwrap()).unwrap();
    let prover = Prover::<C>::new(&file, &pk.encode()).unwrap();
    let verifier = Verifier::new(&vk).unwrap();
    for x in -16..16i64 {
        let (outputs, proof) = prover.prove(&[x], &[9; 31]).unwrap();
        assert_eq!(outputs, [x.max(0)]);
        assert_eq!(verifier.verify(&[x], &outputs, &[9; 31], &proof.encode()), Ok(()));
        let moved = verifier.verify(&[x], &[outputs[0] + 1], &[9; 31], &proof.encode());
        assert_eq!(moved.unwrap_err().code, "proof-pairing");
    }
    for x in [-17, 16, i64::MIN, i64::MAX] {
        assert_eq!(prover.prove(&[x], &[9; 31]).unwrap_err().code, "witness-range");
    }
}

#[test]
fn mutated_circuits() {
    on_mutated_circuits::<Bn254>();
    on_mutated_circuits::<Bls381>();
}

fn on_mutated_circuits<C: Curve>() {
    let (file, mut random) = (toy::<C>(), Random(1));
    let mut accepted = 0;
    for _ in 0..20_000 {
        match Circuit::parse(&random.mutate(&file)) {
            Ok(_) => accepted += 1,
            Err(error) => {
                assert!(error.code.starts_with("circuit-"), "{error}");
            }
        }
    }
    assert!(accepted > 0, "coefficients can be changed without breaking the format");
}

#[test]
fn mutated_circuits_that_parse_never_break_the_setup_or_the_prover() {
    on_mutated_circuits_that_parse_never_break_the_setup_or_the_prover::<Bn254>();
    on_mutated_circuits_that_parse_never_break_the_setup_or_the_prover::<Bls381>();
}

fn on_mutated_circuits_that_parse_never_break_the_setup_or_the_prover<C: Curve>() {
    let (file, mut random) = (toy::<C>(), Random(2));
    let mut tried = 0;
    while tried < 25 {
        let mutated = random.mutate(&file);
        let Ok(circuit) = Circuit::parse(&mutated) else { continue };
        tried += 1;
        let Ok((pk, _)) = setup::<C>(&circuit) else { continue };
        let prover = Prover::<C>::new(&mutated, &pk.encode()).unwrap();
        for x in [0, 1, -1, 15, -16, 1 << 40, i64::MAX] {
            let inputs = vec![x; circuit.n_inputs as usize];
            if let Err(error) = prover.prove(&inputs, &[0; 31]) {
                assert!(error.code.starts_with("witness-") || error.code == "unsatisfied", "{error}");
            }
        }
    }
}

#[test]
fn mutated_keys() {
    on_mutated_keys::<Bn254>();
    on_mutated_keys::<Bls381>();
}

fn on_mutated_keys<C: Curve>() {
    let circuit = Circuit::parse(&toy::<C>()).unwrap();
    let (pk, vk) = setup::<C>(&circuit).unwrap();
    let (pk, vk, mut random) = (pk.encode(), vk.encode(), Random(3));
    for _ in 0..2_000 {
        let mutated = random.mutate(&vk);
        match VerificationKey::<C>::decode(&mutated) {
            Ok(key) => assert_eq!(key.encode(), mutated, "one encoding per key"),
            Err(error) => assert_eq!(error.code, "vk-format"),
        }
    }
    for _ in 0..2_000 {
        let mutated = random.mutate(&pk);
        match ProvingKey::<C>::decode(&mutated, &circuit) {
            Ok(key) => assert_eq!(key.encode(), mutated, "one encoding per key"),
            Err(error) => assert!(error.code.starts_with("pk-"), "{error}"),
        }
    }
}

#[test]
fn mutated_proofs() {
    on_mutated_proofs::<Bn254>();
    on_mutated_proofs::<Bls381>();
}

fn on_mutated_proofs<C: Curve>() {
    let file = toy::<C>();
    let (pk, vk) = setup::<C>(&Circuit::parse(&file).unwrap()).unwrap();
    let verifier = Verifier::new(&vk).unwrap();
    let (outputs, proof) = Prover::<C>::new(&file, &pk.encode()).unwrap().prove(&[5], &[1; 31]).unwrap();
    let (proof, mut random) = (proof.encode(), Random(4));
    for _ in 0..2_000 {
        let mutated = random.mutate(&proof);
        match Proof::<C>::decode(&mutated) {
            Ok(decoded) => assert_eq!(decoded.encode().as_slice(), mutated, "one encoding per proof"),
            Err(error) => assert_eq!(error.code, "proof-point"),
        }
    }
    for _ in 0..200 {
        let mut mutated = proof.clone();
        mutated[random.below(Proof::<C>::BYTES)] ^= 1 << random.below(8);
        let verdict = verifier.verify(&[5], &outputs, &[1; 31], &mutated);
        assert!(["proof-point", "proof-pairing"].contains(&verdict.unwrap_err().code));
    }
}
