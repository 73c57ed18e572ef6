//! Seeded mutations of every file format: a value or one typed error, never a panic, and what is accepted is canonical.
#![allow(clippy::unwrap_used)]

use _native::circuit::Circuit;
use _native::curve::{Bls381, Bn254, Curve};
use _native::keys::{ProvingKey, VerificationKey};
use _native::prover::Prover;
use _native::setup::setup;
use _native::verifier::{Proof, Verifier};

mod common;
use common::{relu_file, Random};

fn toy<C: Curve>() -> Vec<u8> {
    relu_file(C::ID, 0)
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

/// Found by a long run of `mutations.rs`: the library reads the coordinates (0, 0) as infinity, which has a flag of its own.
#[test]
fn zero_coordinates_are_not_infinity() {
    on_zero_coordinates_are_not_infinity::<Bn254>();
    on_zero_coordinates_are_not_infinity::<Bls381>();
}

fn on_zero_coordinates_are_not_infinity<C: Curve>() {
    let circuit = Circuit::parse(&toy::<C>()).unwrap();
    let key = setup::<C>(&circuit).unwrap().0.encode();
    let infinity = [&[C::FLAGS.infinity_uncompressed][..], &vec![0; 2 * C::FQ_BYTES - 1]].concat();
    let points = key[53..].chunks_exact(infinity.len()).enumerate();
    let places: Vec<usize> = points.filter(|(_, p)| *p == infinity).map(|(i, _)| 53 + i * infinity.len()).collect();
    assert!(!places.is_empty(), "wires that occur in no column have infinity there");
    for at in places {
        let mut changed = key.clone();
        changed[at] = 0;
        assert_eq!(ProvingKey::<C>::decode(&changed, &circuit).err().unwrap().code, "pk-format");
    }
}
