//! Single-party Groth16 setup ("development" keys): J. Groth, "On the Size of Pairing-Based Non-interactive
//! Arguments", EUROCRYPT 2016, with the quotient query in the Lagrange basis of a coset.
//!
//! Why the coset: on g·⟨ω⟩ the vanishing polynomial is the constant Z(g), so the quotient is
//! h = (A·B − C)/Z(g) there, and its commitment is linear in the values A·B and C. C is linear in the witness, so
//! its part moves into the K query for good and the prover needs four transforms instead of seven.

use ark_ec::scalar_mul::ScalarMul;
use ark_ec::PrimeGroup;
use ark_ff::{AdditiveGroup, BigInt, PrimeField};
use zeroize::Zeroizing;

use crate::circuit::Circuit;
use crate::curve::{Curve, G1Affine, G1Projective, G2Affine, G2Projective};
use crate::domain::{size_for, Domain};
use crate::error::{Error, Result};
use crate::field::{inverse, random_fr};
use crate::keys::{ProvingKey, VerificationKey};

/// The secrets of a setup; erased when dropped.
struct ToxicWaste<F: PrimeField> {
    tau: F,
    alpha: F,
    beta: F,
    gamma: F,
    delta: F,
}

impl<F: PrimeField> Drop for ToxicWaste<F> {
    fn drop(&mut self) {
        for secret in [&mut self.tau, &mut self.alpha, &mut self.beta, &mut self.gamma, &mut self.delta] {
            secret.zeroize();
        }
    }
}

impl<F: PrimeField> ToxicWaste<F> {
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

type Scalars<F> = Zeroizing<Vec<F>>;

/// A_i(τ), B_i(τ), C_i(τ) for every wire.
struct Columns<F: PrimeField> {
    a: Scalars<F>,
    b: Scalars<F>,
    c: Scalars<F>,
}

impl<F: PrimeField<BigInt = BigInt<4>>> Columns<F> {
    fn new(circuit: &Circuit, lagrange: &[F]) -> Self {
        let zeros = || Zeroizing::new(vec![F::ZERO; circuit.n_wires() as usize]);
        let mut columns = Self { a: zeros(), b: zeros(), c: zeros() };
        for ([a, b, c], basis) in circuit.rows::<F>().zip(lagrange) {
            accumulate(&mut columns.a, &a, basis);
            accumulate(&mut columns.b, &b, basis);
            accumulate(&mut columns.c, &c, basis);
        }
        columns
    }
}

fn accumulate<F: PrimeField>(column: &mut [F], terms: &[(u32, F)], basis: &F) {
    for (wire, coefficient) in terms {
        column[*wire as usize] += *coefficient * basis;
    }
}

fn g1_points<C: Curve>(scalars: &[C::Fr]) -> Vec<G1Affine<C>> {
    G1Projective::<C>::generator().batch_mul(scalars)
}

fn g2_points<C: Curve>(scalars: &[C::Fr]) -> Vec<G2Affine<C>> {
    G2Projective::<C>::generator().batch_mul(scalars)
}

/// Makes a key pair from the operating system's randomness.
///
/// Errors: `randomness`; `curve-mismatch`; `circuit-unbound` if a public signal occurs in no constraint (its value would not be
/// bound by any proof).
pub fn setup<C: Curve>(circuit: &Circuit) -> Result<(ProvingKey<C>, VerificationKey<C>)> {
    circuit.check_curve::<C>()?;
    let domain = Domain::<C>::new(size_for::<C>(circuit.n_rows()))?;
    let waste = ToxicWaste::<C::Fr>::sample()?;
    let columns = Columns::new(circuit, &Zeroizing::new(domain.lagrange(waste.tau)?));
    let (gamma_inverse, delta_inverse) = (Zeroizing::new(inverse(waste.gamma)?), Zeroizing::new(inverse(waste.delta)?));

    let z_ratio = Zeroizing::new(domain.vanishing(waste.tau) * inverse(domain.vanishing(domain.shift))?);
    let first_private = circuit.first_private() as usize;
    let mut ic: Scalars<C::Fr> = Zeroizing::new(Vec::with_capacity(first_private));
    let mut k: Scalars<C::Fr> = Zeroizing::new(Vec::with_capacity(columns.a.len()));
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
    if let Some(signal) = ic.iter().position(|s| *s == C::Fr::ZERO) {
        return Err(Error::new("circuit-unbound", format!("wire {signal} is public but occurs in no constraint")));
    }
    let mut h: Scalars<C::Fr> = Zeroizing::new(domain.lagrange(waste.tau * inverse(domain.shift)?)?);
    for value in h.iter_mut() {
        *value *= *z_ratio * *delta_inverse;
    }
    assemble(circuit, &domain, &waste, &columns, [&ic, &k, &h])
}

fn assemble<C: Curve>(
    circuit: &Circuit,
    domain: &Domain<C>,
    waste: &ToxicWaste<C::Fr>,
    columns: &Columns<C::Fr>,
    [ic, k, h]: [&Scalars<C::Fr>; 3],
) -> Result<(ProvingKey<C>, VerificationKey<C>)> {
    let g1 = g1_points::<C>(&Zeroizing::new(vec![waste.alpha, waste.beta, waste.delta]));
    let g2 = g2_points::<C>(&Zeroizing::new(vec![waste.beta, waste.gamma, waste.delta]));
    let verification =
        VerificationKey { alpha: g1[0], beta: g2[0], gamma: g2[1], delta: g2[2], ic: g1_points::<C>(ic) };
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
        a: g1_points::<C>(&columns.a),
        b1: g1_points::<C>(&columns.b),
        b2: g2_points::<C>(&columns.b),
        k: g1_points::<C>(k),
        h: g1_points::<C>(h),
    };
    Ok((proving, verification))
}
