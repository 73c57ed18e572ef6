//! arkworks' Groth16 as the other side, on both curves: it accepts our proofs and keys, and we accept proofs it makes with
//! its own set-up of the same rows. What one side refuses, the other refuses too.
#![allow(clippy::unwrap_used)]

use _native::circuit::{Circuit, Lc};
use _native::curve::{Bls381, Bn254, Curve};
use _native::keys::VerificationKey;
use _native::prover::Prover;
use _native::setup::setup;
use _native::verifier::{Proof, Verifier};
use ark_ff::{BigInteger, PrimeField};
use ark_groth16::{prepare_verifying_key, Groth16, VerifyingKey};
use ark_relations::gr1cs::{ConstraintSynthesizer, ConstraintSystemRef, LinearCombination, SynthesisError, Variable};
use ark_std::rand::rngs::StdRng;
use ark_std::rand::SeedableRng;

mod common;
use common::relu_file;

const CTX: [u8; 31] = [0x51; 31];
/// y = ReLU(x) + 3, so that no two signals are equal.
const OFFSET: i64 = 3;

type Theirs<C> = Groth16<<C as Curve>::Pairing>;
type TheirKey<C> = VerifyingKey<<C as Curve>::Pairing>;
type TheirProof<C> = ark_groth16::Proof<<C as Curve>::Pairing>;

/// The rows of a circuit file with values for its wires (none of which a set-up looks at).
struct Rows<'a, F> {
    circuit: &'a Circuit,
    wires: &'a [F],
}

impl<F: PrimeField> ConstraintSynthesizer<F> for Rows<'_, F> {
    fn generate_constraints(self, cs: ConstraintSystemRef<F>) -> Result<(), SynthesisError> {
        let mut variables = vec![Variable::One];
        for (wire, value) in self.wires.iter().enumerate().skip(1) {
            variables.push(if wire < self.circuit.first_private() as usize {
                cs.new_input_variable(|| Ok(*value))?
            } else {
                cs.new_witness_variable(|| Ok(*value))?
            });
        }
        let combination = |lc: &Lc| {
            lc.0.iter().fold(LinearCombination::<F>::zero(), |sum, (wire, coefficient)| {
                sum + (F::from(*coefficient), variables[*wire as usize])
            })
        };
        for row in &self.circuit.constraints {
            cs.enforce_r1cs_constraint(|| combination(&row.a), || combination(&row.b), || combination(&row.c))?;
        }
        Ok(())
    }
}

fn their_key<C: Curve>(key: &VerificationKey<C>) -> TheirKey<C> {
    TheirKey::<C> {
        alpha_g1: key.alpha,
        beta_g2: key.beta,
        gamma_g2: key.gamma,
        delta_g2: key.delta,
        gamma_abc_g1: key.ic.clone(),
    }
}

fn words<F: PrimeField>(signals: &[F]) -> Vec<[u8; 32]> {
    signals.iter().map(|s| s.into_bigint().to_bytes_be().try_into().unwrap()).collect()
}

fn they_accept_ours<C: Curve>() {
    let file = relu_file(C::ID, OFFSET);
    let circuit = Circuit::parse(&file).unwrap();
    let (pk, vk) = setup::<C>(&circuit).unwrap();
    let prover = Prover::<C>::new(&file, &pk.encode()).unwrap();
    let key = prepare_verifying_key(&their_key(&vk));
    for x in [-16, -1, 0, 7, 15] {
        let (outputs, proof) = prover.prove(&[x], &CTX).unwrap();
        let proof = TheirProof::<C> { a: proof.a, b: proof.b, c: proof.c };
        let signals = &prover.witness(&[x], &CTX).unwrap()[1..circuit.first_private() as usize];
        assert_eq!(signals[..2], [C::Fr::from(x), C::Fr::from(outputs[0])]);
        assert!(Theirs::<C>::verify_proof(&key, &proof, signals).unwrap(), "{} {x}", C::NAME);
        for changed in 0..signals.len() {
            let mut moved = signals.to_vec();
            moved[changed] += C::Fr::from(1u64);
            assert!(!Theirs::<C>::verify_proof(&key, &proof, &moved).unwrap(), "{} {x}, signal {changed}", C::NAME);
        }
    }
}

fn we_accept_theirs<C: Curve>() {
    let file = relu_file(C::ID, OFFSET);
    let circuit = Circuit::parse(&file).unwrap();
    // Only its witness is used: the proof and its key are theirs.
    let (pk, _) = setup::<C>(&circuit).unwrap();
    let ours = Prover::<C>::new(&file, &pk.encode()).unwrap();
    let mut random = StdRng::seed_from_u64(5);
    let blank = vec![C::Fr::from(0u64); circuit.n_wires() as usize];
    let parameters =
        Theirs::<C>::generate_random_parameters_with_reduction(Rows { circuit: &circuit, wires: &blank }, &mut random)
            .unwrap();
    let vk = VerificationKey::<C> {
        alpha: parameters.vk.alpha_g1,
        beta: parameters.vk.beta_g2,
        gamma: parameters.vk.gamma_g2,
        delta: parameters.vk.delta_g2,
        ic: parameters.vk.gamma_abc_g1.clone(),
    };
    // Through our bytes, as a key from elsewhere would come.
    let vk = VerificationKey::<C>::decode(&vk.encode()).unwrap();
    let verifier = Verifier::new(&vk).unwrap();
    for x in [-16, -1, 0, 7, 15] {
        let wires = ours.witness(&[x], &CTX).unwrap();
        let proof = Theirs::<C>::create_random_proof_with_reduction(
            Rows { circuit: &circuit, wires: &wires },
            &parameters,
            &mut random,
        )
        .unwrap();
        let bytes = Proof::<C> { a: proof.a, b: proof.b, c: proof.c }.encode();
        let signals = words(&wires[1..circuit.first_private() as usize]);
        assert_eq!(verifier.verify_signals(&signals, &bytes), Ok(()), "{} {x}", C::NAME);
        assert_eq!(verifier.verify(&[x], &[x.max(0) + OFFSET], &CTX, &bytes), Ok(()));
        let refused = verifier.verify(&[x], &[x.max(0) + OFFSET + 1], &CTX, &bytes);
        assert_eq!(refused.unwrap_err().code, "proof-pairing");
    }
}

#[test]
fn arkworks_accepts_our_proofs_and_keys() {
    they_accept_ours::<Bn254>();
    they_accept_ours::<Bls381>();
}

#[test]
fn we_accept_proofs_and_keys_of_arkworks() {
    we_accept_theirs::<Bn254>();
    we_accept_theirs::<Bls381>();
}
