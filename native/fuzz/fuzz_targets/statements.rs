//! An honest proof, its signals and its key with the input laid over them (exclusive or): never accepted, never a panic.
//!
//! The coverage-guided sister of `tests/mutations.rs`; without a nightly toolchain it runs unguided:
//! `cargo run --release --manifest-path fuzz/Cargo.toml --bin statements -- -runs=10000 -max_len=512`
//! `cargo +nightly fuzz run statements -- -max_len=512 -max_total_time=600`
#![no_main]

use std::sync::OnceLock;

use _native::circuit::Circuit;
use _native::curve::{Bls381, Bn254, Curve};
use _native::keys::VerificationKey;
use _native::prover::Prover;
use _native::setup::setup;
use _native::verifier::Verifier;
use libfuzzer_sys::fuzz_target;

#[path = "../../tests/common/mod.rs"]
mod common;

const CTX: [u8; 31] = [0x2a; 31];

struct Honest<C: Curve> {
    signals: Vec<[u8; 32]>,
    proof: Vec<u8>,
    key: Vec<u8>,
    verifier: Verifier<C>,
}

fn honest<C: Curve>() -> Honest<C> {
    use ark_ff::{BigInteger, PrimeField};
    let file = common::relu_file(C::ID, 3);
    let (pk, vk) = setup::<C>(&Circuit::parse(&file).unwrap()).unwrap();
    let prover = Prover::<C>::new(&file, &pk.encode()).unwrap();
    let word = |w: &C::Fr| w.into_bigint().to_bytes_be().try_into().unwrap();
    Honest {
        signals: prover.witness(&[5], &CTX).unwrap()[1..4].iter().map(word).collect(),
        proof: prover.prove(&[5], &CTX).unwrap().1.encode().to_vec(),
        key: vk.encode(),
        verifier: Verifier::new(&vk).unwrap(),
    }
}

/// Proof, then signals, then key: short inputs leave the key, and the verifier made for it, as they are.
fn on<C: Curve>(known: &Honest<C>, data: &[u8]) {
    let mut mask = data.iter().chain(std::iter::repeat(&0));
    let mut over = |bytes: &[u8]| bytes.iter().map(|b| b ^ mask.next().unwrap_or(&0)).collect::<Vec<u8>>();
    let proof = over(&known.proof);
    let signals: Vec<[u8; 32]> = known.signals.iter().map(|s| over(s).try_into().unwrap()).collect();
    let key = over(&known.key);
    let sign = C::FLAGS.smaller_y ^ C::FLAGS.larger_y;
    let mut negated = known.proof.clone();
    negated[0] ^= sign;
    negated[C::FQ_BYTES] ^= sign;
    let by_design = signals == known.signals && (proof == known.proof || proof == negated);
    if key == known.key {
        assert!(by_design || known.verifier.verify_signals(&signals, &proof).is_err());
    } else if let Ok(verifier) = VerificationKey::<C>::decode(&key).and_then(|key| Verifier::new(&key)) {
        let mut twin = known.key.clone();
        twin[13] ^= sign;
        twin[13 + C::FQ_BYTES] ^= sign;
        assert!(by_design && key == twin || verifier.verify_signals(&signals, &proof).is_err());
    }
}

fuzz_target!(|data: &[u8]| {
    static BN254: OnceLock<Honest<Bn254>> = OnceLock::new();
    static BLS12_381: OnceLock<Honest<Bls381>> = OnceLock::new();
    on(BN254.get_or_init(honest), data);
    on(BLS12_381.get_or_init(honest), data);
});
