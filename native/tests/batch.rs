//! Batches of proofs: the same verdicts as one by one, with every culprit named.
#![allow(clippy::unwrap_used)]

use _native::circuit::Circuit;
use _native::curve::{Bls381, Bn254, Curve};
use _native::keys::VerificationKey;
use _native::prover::Prover;
use _native::setup::setup;
use _native::verifier::{Proof, Statement, Verifier, BATCH_MAX};
use ark_ec::AffineRepr;

mod common;
use common::relu_file;

struct Command {
    inputs: Vec<i64>,
    outputs: Vec<i64>,
    ctx: [u8; 31],
    proof: Vec<u8>,
}

fn verdicts<C: Curve>(verifier: &Verifier<C>, commands: &[Command]) -> Vec<Option<&'static str>> {
    let statements: Vec<Statement<'_>> = commands
        .iter()
        .map(|c| Statement { inputs: &c.inputs, outputs: &c.outputs, ctx: &c.ctx, proof: &c.proof })
        .collect();
    let found = verifier.verify_batch(&statements).unwrap();
    let found: Vec<_> = found.into_iter().map(|verdict| verdict.err().map(|e| e.code)).collect();
    for (command, found) in commands.iter().zip(&found) {
        let alone = verifier.verify(&command.inputs, &command.outputs, &command.ctx, &command.proof);
        assert_eq!(alone.err().map(|e| e.code), *found);
    }
    found
}

fn key_and_commands<C: Curve>() -> (VerificationKey<C>, Vec<Command>) {
    let file = relu_file(C::ID, 3);
    let (pk, vk) = setup::<C>(&Circuit::parse(&file).unwrap()).unwrap();
    let prover = Prover::<C>::new(&file, &pk.encode()).unwrap();
    let commands = (-6..6i64)
        .map(|x| {
            let ctx = [x as u8; 31];
            let (outputs, proof) = prover.prove(&[x], &ctx).unwrap();
            Command { inputs: vec![x], outputs, ctx, proof: proof.encode() }
        })
        .collect();
    (vk, commands)
}

fn check<C: Curve>() {
    let (vk, mut commands) = key_and_commands::<C>();
    let verifier = Verifier::new(&vk).unwrap();
    assert_eq!(verdicts(&verifier, &commands), vec![None; 12]);
    assert_eq!(verdicts(&verifier, &commands[..1]), [None]);
    assert_eq!(verdicts(&verifier, &[]), []);
    // One wrong in each way, where the others stay right.
    commands[1].outputs[0] += 1;
    commands[3].ctx[30] ^= 1;
    commands[4].proof[0] ^= 0xff;
    commands[6].inputs.push(0);
    commands[8].proof.pop();
    let found = verdicts(&verifier, &commands);
    let mut expected = vec![None; 12];
    (expected[1], expected[3]) = (Some("proof-pairing"), Some("proof-pairing"));
    (expected[4], expected[6], expected[8]) = (Some("proof-point"), Some("signal-count"), Some("proof-point"));
    assert_eq!(found, expected);
}

/// Errors that cancel without the weights: C of one proof raised by what another's is lowered by.
fn check_cancelling<C: Curve>() {
    let (vk, mut commands) = key_and_commands::<C>();
    let verifier = Verifier::new(&vk).unwrap();
    for (at, negate) in [(2, false), (5, true)] {
        let mut proof = Proof::<C>::decode(&commands[at].proof).unwrap();
        let step = if negate { -_native::curve::G1Affine::<C>::generator() } else { AffineRepr::generator() };
        proof.c = (proof.c + step).into();
        commands[at].proof = proof.encode();
    }
    let found = verdicts(&verifier, &commands);
    assert_eq!((found[2], found[5]), (Some("proof-pairing"), Some("proof-pairing")));
    assert_eq!(found.iter().flatten().count(), 2);
}

#[test]
fn batches_give_the_verdicts_of_single_proofs() {
    check::<Bn254>();
    check::<Bls381>();
}

#[test]
fn errors_that_cancel_are_found() {
    check_cancelling::<Bn254>();
    check_cancelling::<Bls381>();
}

#[test]
fn oversized_batches_are_refused() {
    let (vk, _) = key_and_commands::<Bn254>();
    let statement = Statement { inputs: &[], outputs: &[], ctx: &[], proof: &[] };
    let refused = Verifier::new(&vk).unwrap().verify_batch(&vec![statement; BATCH_MAX + 1]);
    assert_eq!(refused.unwrap_err().code, "batch-size");
}

/// A key as ceremonies of other tools make it, with γ the generator: only where that is asked for, and nothing else.
fn check_fixed_gamma<C: Curve>() {
    let (vk, _) = key_and_commands::<C>();
    let generator = _native::curve::G2Affine::<C>::generator();
    let foreign = VerificationKey { gamma: generator, ..vk.clone() };
    assert_eq!(Verifier::new(&foreign).err().unwrap().code, "key-lint");
    assert!(Verifier::with_fixed_gamma(&foreign).is_ok());
    for worse in [
        VerificationKey { gamma: -generator, ..vk.clone() },
        VerificationKey { gamma: _native::curve::G2Affine::<C>::zero(), ..vk.clone() },
        VerificationKey { delta: generator, ..foreign.clone() },
        VerificationKey { delta: -generator, ..foreign.clone() },
        VerificationKey { delta: generator, ..vk.clone() },
        VerificationKey { delta: vk.gamma, ..vk.clone() },
        VerificationKey { delta: -vk.gamma, ..vk.clone() },
        VerificationKey { beta: generator, ..foreign.clone() },
    ] {
        assert_eq!(Verifier::with_fixed_gamma(&worse).err().unwrap().code, "key-lint");
    }
}

#[test]
fn a_fixed_gamma_is_allowed_only_where_asked_for() {
    check_fixed_gamma::<Bn254>();
    check_fixed_gamma::<Bls381>();
}
