//! Groth16 verification with the checks of the evidence rules in their order, each with its name.

use ark_bn254::{Bn254, Fr, G1Affine, G1Projective, G2Affine};
use ark_ec::pairing::{Pairing, PairingOutput};
use ark_ec::{AffineRepr, CurveGroup};
use ark_ff::{BigInteger, PrimeField};

use crate::encoding as enc;
use crate::error::{Error, Result};
use crate::field::{fr_from_canonical, fr_from_ctx, fr_from_i64};
use crate::keys::VerificationKey;

pub const PROOF_BYTES: usize = 2 * enc::G1_BYTES + enc::G2_BYTES;

/// Up to here plain double-and-add beats the endomorphism's fixed 128 steps.
const SMALL_BITS: u32 = 64;

pub const SIGNAL_COUNT: &str = "signal-count";
pub const SIGNAL_RANGE: &str = "signal-range";
pub const PROOF_POINT: &str = "proof-point";
pub const PROOF_PAIRING: &str = "proof-pairing";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proof {
    pub a: G1Affine,
    pub b: G2Affine,
    pub c: G1Affine,
}

impl Proof {
    pub fn encode(&self) -> [u8; PROOF_BYTES] {
        let mut out = [0u8; PROOF_BYTES];
        out[..32].copy_from_slice(&enc::g1_compress(&self.a));
        out[32..96].copy_from_slice(&enc::g2_compress(&self.b));
        out[96..].copy_from_slice(&enc::g1_compress(&self.c));
        out
    }

    /// Canonical encoding, curve, subgroup, not infinity.
    pub fn decode(data: &[u8]) -> Result<Self> {
        let fail = |detail: String| Err(Error::new(PROOF_POINT, detail));
        if data.len() != PROOF_BYTES {
            return fail(format!("{} bytes, expected {PROOF_BYTES}", data.len()));
        }
        let (mut a, mut b, mut c) = ([0u8; 32], [0u8; 64], [0u8; 32]);
        a.copy_from_slice(&data[..32]);
        b.copy_from_slice(&data[32..96]);
        c.copy_from_slice(&data[96..]);
        let named =
            |name: &'static str| move |f: enc::PointFault| Error::new(PROOF_POINT, format!("{name}: {}", f.text()));
        let proof = Self {
            a: enc::g1_decompress(&a).map_err(named("A"))?,
            b: enc::g2_decompress(&b).map_err(named("B"))?,
            c: enc::g1_decompress(&c).map_err(named("C"))?,
        };
        if proof.a.is_zero() || proof.b.is_zero() || proof.c.is_zero() {
            return fail("a point at infinity".into());
        }
        Ok(proof)
    }
}

type G2Prepared = <Bn254 as Pairing>::G2Prepared;

/// A linted key with e(α, β), −γ and −δ prepared.
pub struct Verifier {
    ic: Vec<G1Affine>,
    alpha_beta: PairingOutput<Bn254>,
    gamma_neg: G2Prepared,
    delta_neg: G2Prepared,
}

impl Verifier {
    pub fn new(key: &VerificationKey) -> Result<Self> {
        key.lint()?;
        let alpha_beta = pairing_product([key.alpha], [key.beta.into()])
            .ok_or_else(|| Error::new("key-lint", "alpha and beta have no pairing"))?;
        Ok(Self { ic: key.ic.clone(), alpha_beta, gamma_neg: (-key.gamma).into(), delta_neg: (-key.delta).into() })
    }

    pub fn n_public(&self) -> usize {
        self.ic.len() - 1
    }

    /// Command form: signed inputs and outputs, then the context. A value has one encoding only: v or r − |v|.
    pub fn verify(&self, inputs: &[i64], outputs: &[i64], ctx: &[u8], proof: &[u8]) -> Result<()> {
        self.check_count(inputs.len() + outputs.len() + 1)?;
        let ctx = fr_from_ctx(ctx).map_err(|e| Error::new(SIGNAL_RANGE, e.detail))?;
        let mut signals: Vec<Fr> = inputs.iter().chain(outputs).map(|v| fr_from_i64(*v)).collect();
        signals.push(ctx);
        self.check(&signals, proof)
    }

    /// Raw form: big-endian field elements, each refused unless below r.
    pub fn verify_signals(&self, signals: &[[u8; 32]], proof: &[u8]) -> Result<()> {
        self.check_count(signals.len())?;
        let signals = signals
            .iter()
            .enumerate()
            .map(|(i, bytes)| {
                fr_from_canonical(bytes).ok_or_else(|| Error::new(SIGNAL_RANGE, format!("signal {i} is not below r")))
            })
            .collect::<Result<Vec<Fr>>>()?;
        self.check(&signals, proof)
    }

    pub fn check_count(&self, found: usize) -> Result<()> {
        if found == self.n_public() {
            return Ok(());
        }
        Err(Error::new(SIGNAL_COUNT, format!("{found} public signals, the key has {}", self.n_public())))
    }

    fn check(&self, signals: &[Fr], proof: &[u8]) -> Result<()> {
        let proof = Proof::decode(proof)?;
        let weighed = self.ic[1..].iter().zip(signals).map(|(point, signal)| multiply(point, signal));
        let statement = weighed.sum::<G1Projective>() + self.ic[0];
        let product = pairing_product(
            [proof.a, statement.into_affine(), proof.c],
            [proof.b.into(), self.gamma_neg.clone(), self.delta_neg.clone()],
        );
        if product == Some(self.alpha_beta) {
            Ok(())
        } else {
            Err(Error::new(PROOF_PAIRING, "the pairing equation does not hold"))
        }
    }
}

/// signal · point. Inputs and outputs are small in magnitude, so the shorter of s and r − s is used; public values
/// only, so time may depend on them.
fn multiply(point: &G1Affine, signal: &Fr) -> G1Projective {
    let (plain, opposite) = (signal.into_bigint(), (-*signal).into_bigint());
    let negate = opposite < plain;
    let shorter = if negate { opposite } else { plain };
    if shorter.num_bits() > SMALL_BITS {
        return *point * signal;
    }
    let product = point.mul_bigint(&shorter.0[..1]);
    if negate {
        -product
    } else {
        product
    }
}

fn pairing_product<const N: usize>(left: [G1Affine; N], right: [G2Prepared; N]) -> Option<PairingOutput<Bn254>> {
    Bn254::final_exponentiation(Bn254::multi_miller_loop(left, right))
}

#[cfg(test)]
mod tests {
    use ark_ff::Field;

    use super::*;

    #[test]
    fn short_multiplication_equals_the_general_one() {
        let point = (G1Affine::generator() * Fr::from(77u64)).into_affine();
        for v in [0, 1, -1, 255, -256, i64::MAX, i64::MIN, i64::MIN + 1] {
            let signal = fr_from_i64(v);
            assert_eq!(multiply(&point, &signal), point * signal, "{v}");
        }
        for signal in [Fr::from(1u128 << 64), -Fr::from(1u128 << 64), Fr::from(u64::MAX), Fr::from(3u64).pow([200])] {
            assert_eq!(multiply(&point, &signal), point * signal);
        }
    }
}
