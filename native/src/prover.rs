//! Groth16 prover for one fixed circuit.

use ark_bn254::{Fr, G1Affine, G1Projective, G2Projective};
use ark_ec::scalar_mul::variable_base::VariableBaseMSM;
use ark_ec::CurveGroup;
use ark_ff::AdditiveGroup;
use zeroize::Zeroizing;

use crate::circuit::Circuit;
use crate::domain::Domain;
use crate::error::{Error, Result};
use crate::field::{fr_from_ctx, random_fr};
use crate::keys::ProvingKey;
use crate::verifier::Proof;
use crate::witness::{eval_field, Witness};

pub struct Prover {
    pub circuit: Circuit,
    key: ProvingKey,
    pub domain: Domain,
}

impl Prover {
    pub fn new(circuit: &[u8], proving_key: &[u8]) -> Result<Self> {
        let circuit = Circuit::parse(circuit)?;
        let key = ProvingKey::decode(proving_key, &circuit)?;
        let domain = Domain::new(key.domain_size as usize)?;
        Ok(Self { circuit, key, domain })
    }

    pub fn table_bytes(&self) -> usize {
        (self.key.a.len() * 3 + self.key.h.len()) * size_of::<G1Affine>()
    }

    pub fn witness(&self, inputs: &[i64], ctx: &[u8]) -> Result<Vec<Fr>> {
        let mut witness = Witness::new(&self.circuit);
        witness.fill(&self.circuit, inputs, fr_from_ctx(ctx)?)?;
        Ok(witness.to_field(&self.circuit))
    }

    pub fn prove(&self, inputs: &[i64], ctx: &[u8]) -> Result<(Vec<i64>, Proof)> {
        let mut witness = Witness::new(&self.circuit);
        witness.fill(&self.circuit, inputs, fr_from_ctx(ctx)?)?;
        let wires = witness.to_field(&self.circuit);
        let mut a = vec![Fr::ZERO; self.domain.size];
        let mut b = a.clone();
        for (i, row) in self.circuit.constraints.iter().enumerate() {
            a[i] = eval_field(&row.a, &wires);
            b[i] = eval_field(&row.b, &wires);
            if a[i] * b[i] != eval_field(&row.c, &wires) {
                return Err(Error::new("unsatisfied", format!("constraint {i} does not hold")));
            }
        }
        let mut scratch = vec![Fr::ZERO; self.domain.size];
        self.domain.to_coset(&mut a, &mut scratch);
        self.domain.to_coset(&mut b, &mut scratch);
        let product: Vec<Fr> = a.iter().zip(&b).map(|(a, b)| *a * b).collect();

        let (r, s) = (Zeroizing::new(random_fr()?), Zeroizing::new(random_fr()?));
        let key = &self.key;
        let a1 = G1Projective::msm_unchecked(&key.a, &wires) + key.alpha_1 + key.delta_1 * *r;
        let b1 = G1Projective::msm_unchecked(&key.b1, &wires) + key.beta_1 + key.delta_1 * *s;
        let b2 = G2Projective::msm_unchecked(&key.b2, &wires) + key.beta_2 + key.delta_2 * *s;
        let c = G1Projective::msm_unchecked(&key.k, &wires)
            + G1Projective::msm_unchecked(&key.h, &product)
            + a1 * *s
            + b1 * *r
            - key.delta_1 * (*r * *s);
        Ok((witness.outputs(&self.circuit)?, Proof { a: a1.into_affine(), b: b2.into_affine(), c: c.into_affine() }))
    }
}
