//! Single-party Groth16 setup ("development" keys): J. Groth, "On the Size of Pairing-Based Non-interactive
//! Arguments", EUROCRYPT 2016, with the quotient query in the Lagrange basis of a coset.
//!
//! Why the coset: on g·⟨ω⟩ the vanishing polynomial is the constant Z(g), so the quotient is
//! h = (A·B − C)/Z(g) there, and its commitment is linear in the values A·B and C. C is linear in the witness, so
//! its part moves into the K query for good and the prover needs four transforms instead of seven.

use ark_bn254::{Fr, G1Affine, G1Projective, G2Affine, G2Projective};
use ark_ec::scalar_mul::ScalarMul;
use ark_ec::PrimeGroup;
use ark_ff::AdditiveGroup;
use zeroize::{Zeroize, Zeroizing};

use crate::circuit::{Circuit, Lc};
use crate::domain::{size_for, Domain};
use crate::error::{Error, Result};
use crate::field::{fr_from_i64, inverse, random_fr};
use crate::keys::{ProvingKey, VerificationKey};

/// The secrets of a setup; erased when dropped.
struct ToxicWaste {
    tau: Fr,
    alpha: Fr,
    beta: Fr,
    gamma: Fr,
    delta: Fr,
}

impl Drop for ToxicWaste {
    fn drop(&mut self) {
        for secret in [&mut self.tau, &mut self.alpha, &mut self.beta, &mut self.gamma, &mut self.delta] {
            secret.zeroize();
        }
    }
}

impl ToxicWaste {
    fn sample() -> Result<Self> {
        Ok(Self {
            tau: random_fr()?,
            alpha: random_fr()?,
            beta: random_fr()?,
            gamma: random_fr()?,
            delta: random_fr()?,
        })
    }
}

type Scalars = Zeroizing<Vec<Fr>>;

/// A_i(τ), B_i(τ), C_i(τ) for every wire.
struct Columns {
    a: Scalars,
    b: Scalars,
    c: Scalars,
}

impl Columns {
    fn new(circuit: &Circuit, lagrange: &[Fr]) -> Self {
        let zeros = || Zeroizing::new(vec![Fr::ZERO; circuit.n_wires() as usize]);
        let mut columns = Self { a: zeros(), b: zeros(), c: zeros() };
        for (row, basis) in circuit.constraints.iter().zip(lagrange) {
            accumulate(&mut columns.a, &row.a, basis);
            accumulate(&mut columns.b, &row.b, basis);
            accumulate(&mut columns.c, &row.c, basis);
        }
        columns
    }
}

fn accumulate(column: &mut [Fr], lc: &Lc, basis: &Fr) {
    for (wire, coefficient) in &lc.0 {
        column[*wire as usize] += fr_from_i64(*coefficient) * basis;
    }
}

fn g1_points(scalars: &[Fr]) -> Vec<G1Affine> {
    G1Projective::generator().batch_mul(scalars)
}

fn g2_points(scalars: &[Fr]) -> Vec<G2Affine> {
    G2Projective::generator().batch_mul(scalars)
}

/// Makes a key pair from the operating system's randomness.
///
/// Errors: `randomness`; `circuit-unbound` if a public signal occurs in no constraint (its value would not be
/// bound by any proof).
pub fn setup(circuit: &Circuit) -> Result<(ProvingKey, VerificationKey)> {
    let domain = Domain::new(size_for(circuit.constraints.len()))?;
    let waste = ToxicWaste::sample()?;
    let columns = Columns::new(circuit, &Zeroizing::new(domain.lagrange(waste.tau)?));
    let (gamma_inverse, delta_inverse) = (Zeroizing::new(inverse(waste.gamma)?), Zeroizing::new(inverse(waste.delta)?));

    let z_ratio = Zeroizing::new(domain.vanishing(waste.tau) * inverse(domain.vanishing(domain.shift))?);
    let first_private = circuit.first_private() as usize;
    let mut ic: Scalars = Zeroizing::new(Vec::with_capacity(first_private));
    let mut k: Scalars = Zeroizing::new(Vec::with_capacity(columns.a.len()));
    for wire in 0..columns.a.len() {
        let (a, b, c) = (columns.a[wire], columns.b[wire], columns.c[wire]);
        let product = waste.beta * a + waste.alpha * b + c;
        let folded = *z_ratio * c;
        if wire < first_private {
            ic.push(product * *gamma_inverse);
            k.push(-folded * *delta_inverse);
        } else {
            k.push((product - folded) * *delta_inverse);
        }
    }
    if let Some(signal) = ic.iter().position(|s| *s == Fr::ZERO) {
        return Err(Error::new("circuit-unbound", format!("wire {signal} is public but occurs in no constraint")));
    }
    let mut h: Scalars = Zeroizing::new(domain.lagrange(waste.tau * inverse(domain.shift)?)?);
    for value in h.iter_mut() {
        *value *= *z_ratio * *delta_inverse;
    }
    assemble(circuit, &domain, &waste, &columns, [&ic, &k, &h])
}

fn assemble(
    circuit: &Circuit,
    domain: &Domain,
    waste: &ToxicWaste,
    columns: &Columns,
    [ic, k, h]: [&Scalars; 3],
) -> Result<(ProvingKey, VerificationKey)> {
    let g1 = g1_points(&Zeroizing::new(vec![waste.alpha, waste.beta, waste.delta]));
    let g2 = g2_points(&Zeroizing::new(vec![waste.beta, waste.gamma, waste.delta]));
    let verification = VerificationKey { alpha: g1[0], beta: g2[0], gamma: g2[1], delta: g2[2], ic: g1_points(ic) };
    verification.lint()?;
    let proving = ProvingKey {
        circuit_digest: circuit.digest,
        n_public: circuit.n_public(),
        domain_size: domain.size as u32,
        alpha_1: g1[0],
        beta_1: g1[1],
        delta_1: g1[2],
        beta_2: g2[0],
        delta_2: g2[2],
        a: g1_points(&columns.a),
        b1: g1_points(&columns.b),
        b2: g2_points(&columns.b),
        k: g1_points(k),
        h: g1_points(h),
    };
    Ok((proving, verification))
}
