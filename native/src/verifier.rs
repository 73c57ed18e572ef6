//! Groth16 verification with the checks of the evidence rules in their order, each with its name.

use ark_ec::pairing::{Pairing, PairingOutput};
use ark_ec::{AffineRepr, CurveGroup, VariableBaseMSM};
use ark_ff::{AdditiveGroup, BigInteger, PrimeField};

use crate::curve::{Curve, G1Affine, G1Projective};
use crate::error::{Error, Result};
use crate::field::{fr_from_canonical, fr_from_ctx, fr_from_i64};
use crate::keys::VerificationKey;
pub use crate::proof::{Proof, PROOF_POINT};

/// Up to here a signal takes part in one double-and-add with the others; beyond, the endomorphism's 128 steps are fewer.
const SMALL_BITS: u32 = 64;
/// Bits of a window of the table for the last signal: 16 windows fit a word.
const WINDOW_BITS: usize = 4;
const WINDOW_ENTRIES: usize = (1 << WINDOW_BITS) - 1;
const WINDOWS: usize = 256 / WINDOW_BITS;
/// Most proofs checked in one batch: bounds its memory, and more would not be faster.
pub const BATCH_MAX: usize = 4096;

pub const SIGNAL_COUNT: &str = "signal-count";
pub const SIGNAL_RANGE: &str = "signal-range";
pub const PROOF_PAIRING: &str = "proof-pairing";

type G2Prepared<C> = <<C as Curve>::Pairing as Pairing>::G2Prepared;

/// A linted key with e(α, β), −γ and −δ prepared.
pub struct Verifier<C: Curve> {
    alpha: G1Affine<C>,
    ic: Vec<G1Affine<C>>,
    /// 1 to 15 times 2^(4·w) times the last point of `ic`, whose signal, the context, has all its bits.
    last: Vec<G1Affine<C>>,
    alpha_beta: PairingOutput<C::Pairing>,
    beta_neg: G2Prepared<C>,
    gamma_neg: G2Prepared<C>,
    delta_neg: G2Prepared<C>,
}

/// What a proof of a batch is about: inputs, outputs, context and the proof's bytes.
#[derive(Debug, Clone, Copy)]
pub struct Statement<'a> {
    pub inputs: &'a [i64],
    pub outputs: &'a [i64],
    pub ctx: &'a [u8],
    pub proof: &'a [u8],
}

/// Signals and proof of one statement.
type Read<C> = (Vec<<C as Curve>::Fr>, Proof<C>);

impl<C: Curve> Verifier<C> {
    /// Error: `key-lint`.
    pub fn new(key: &VerificationKey<C>) -> Result<Self> {
        key.lint()?;
        Self::prepare(key)
    }

    /// [`Self::new`] for keys of other tools, whose γ is the generator.
    pub fn with_fixed_gamma(key: &VerificationKey<C>) -> Result<Self> {
        key.lint_fixed_gamma()?;
        Self::prepare(key)
    }

    fn prepare(key: &VerificationKey<C>) -> Result<Self> {
        let alpha_beta = pairing_product::<C>([key.alpha], [key.beta.into()])
            .ok_or_else(|| Error::new("key-lint", "alpha and beta have no pairing"))?;
        Ok(Self {
            alpha: key.alpha,
            ic: key.ic.clone(),
            last: windows::<C>(key.ic.last()),
            alpha_beta,
            beta_neg: (-key.beta).into(),
            gamma_neg: (-key.gamma).into(),
            delta_neg: (-key.delta).into(),
        })
    }

    pub fn n_public(&self) -> usize {
        self.ic.len() - 1
    }

    /// Command form: signed inputs and outputs, then the context. A value has one encoding only: v or r − |v|.
    pub fn verify(&self, inputs: &[i64], outputs: &[i64], ctx: &[u8], proof: &[u8]) -> Result<()> {
        self.check(&self.signals(inputs, outputs, ctx)?, &Proof::decode(proof)?)
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
            .collect::<Result<Vec<C::Fr>>>()?;
        self.check(&signals, &Proof::decode(proof)?)
    }

    /// A verdict per statement, as [`Self::verify`] would give it, for less work where all or most verify.
    ///
    /// The proofs are checked in one equation, each weighed by its own 128 random bits from the operating system: a
    /// batch with a false proof passes with probability 2^-128 (M. Bellare, J. Garay, T. Rabin, "Fast Batch
    /// Verification for Modular Exponentiation and Digital Signatures", 1998). If it does not hold, every proof is
    /// checked on its own.
    ///
    /// Errors: `batch-size`; `randomness`.
    pub fn verify_batch(&self, statements: &[Statement<'_>]) -> Result<Vec<Result<()>>> {
        if statements.len() > BATCH_MAX {
            let found = statements.len();
            return Err(Error::new("batch-size", format!("{found} proofs in a batch, at most {BATCH_MAX}")));
        }
        let read: Vec<Result<Read<C>>> = statements
            .iter()
            .map(|s| Ok((self.signals(s.inputs, s.outputs, s.ctx)?, Proof::decode(s.proof)?)))
            .collect();
        let sound: Vec<&Read<C>> = read.iter().flatten().collect();
        let all_hold = sound.len() > 1 && self.holds_together(&sound)?;
        Ok(read
            .iter()
            .map(|statement| match statement {
                Err(error) => Err(error.clone()),
                Ok(_) if all_hold => Ok(()),
                Ok((signals, proof)) => self.check(signals, proof),
            })
            .collect())
    }

    pub fn check_count(&self, found: usize) -> Result<()> {
        if found == self.n_public() {
            return Ok(());
        }
        Err(Error::new(SIGNAL_COUNT, format!("{found} public signals, the key has {}", self.n_public())))
    }

    fn signals(&self, inputs: &[i64], outputs: &[i64], ctx: &[u8]) -> Result<Vec<C::Fr>> {
        self.check_count(inputs.len() + outputs.len() + 1)?;
        let ctx = fr_from_ctx(ctx).map_err(|e| Error::new(SIGNAL_RANGE, e.detail))?;
        let mut signals: Vec<C::Fr> = inputs.iter().chain(outputs).map(|v| fr_from_i64(*v)).collect();
        signals.push(ctx);
        Ok(signals)
    }

    /// e(A, B) · e(IC, −γ) · e(C, −δ) = e(α, β).
    fn check(&self, signals: &[C::Fr], proof: &Proof<C>) -> Result<()> {
        let product = pairing_product::<C>(
            [proof.a, self.combine(signals).into_affine(), proof.c],
            [proof.b.into(), self.gamma_neg.clone(), self.delta_neg.clone()],
        );
        if product == Some(self.alpha_beta) {
            Ok(())
        } else {
            Err(Error::new(PROOF_PAIRING, "the pairing equation does not hold"))
        }
    }

    /// IC₀ + Σ signal_i · IC_i. Inputs and outputs are small in magnitude, so the shorter of s and r − s is used, and
    /// all of them share the doublings; public values only, so time may depend on them.
    fn combine(&self, signals: &[C::Fr]) -> G1Projective<C> {
        let mut sum = self.ic[0].into_group();
        let mut small: Vec<(G1Affine<C>, u64)> = Vec::with_capacity(signals.len());
        for (i, (point, signal)) in self.ic[1..].iter().zip(signals).enumerate() {
            let (plain, opposite) = (signal.into_bigint(), (-*signal).into_bigint());
            let negate = opposite < plain;
            let shorter = if negate { opposite } else { plain };
            if shorter.num_bits() <= SMALL_BITS {
                small.push((if negate { -*point } else { *point }, shorter.0[0]));
            } else if i + 1 == self.n_public() {
                sum += look_up::<C>(&self.last, &plain.0);
            } else {
                sum += *point * signal;
            }
        }
        let all = small.iter().fold(0, |all, (_, value)| all | value);
        let mut total = G1Projective::<C>::ZERO;
        for bit in (0..u64::BITS - all.leading_zeros()).rev() {
            total.double_in_place();
            for (point, _) in small.iter().filter(|(_, value)| value >> bit & 1 == 1) {
                total += point;
            }
        }
        total + sum
    }

    /// Π e(ρ_i A_i, B_i) · e(Σ ρ_i α, −β) · e(Σ ρ_i IC_i, −γ) · e(Σ ρ_i C_i, −δ) = 1 for random ρ_i.
    fn holds_together(&self, batch: &[&Read<C>]) -> Result<bool> {
        let mut weights = Vec::with_capacity(batch.len());
        for _ in batch {
            weights.push(random_weight::<C::Fr>()?);
        }
        let mut sums = vec![C::Fr::ZERO; self.ic.len()];
        for (weight, (signals, _)) in weights.iter().zip(batch) {
            sums[0] += weight;
            for (sum, signal) in sums[1..].iter_mut().zip(signals) {
                *sum += *weight * signal;
            }
        }
        let points_c: Vec<G1Affine<C>> = batch.iter().map(|(_, proof)| proof.c).collect();
        let sum = |points: &[G1Affine<C>], scalars: &[C::Fr]| {
            G1Projective::<C>::msm(points, scalars).map_err(|_| Error::new("internal", "points and scalars differ"))
        };
        let mut left: Vec<G1Projective<C>> =
            batch.iter().zip(&weights).map(|((_, proof), weight)| proof.a.mul_bigint(weight.into_bigint())).collect();
        left.extend([self.alpha * sums[0], sum(&self.ic, &sums)?, sum(&points_c, &weights)?]);
        let left = G1Projective::<C>::normalize_batch(&left);
        let right = batch.iter().map(|(_, proof)| proof.b.into()).chain([
            self.beta_neg.clone(),
            self.gamma_neg.clone(),
            self.delta_neg.clone(),
        ]);
        Ok(pairing_product::<C>(left, right) == Some(PairingOutput::ZERO))
    }
}

/// 128 uniform bits, not all zero.
fn random_weight<F: PrimeField>() -> Result<F> {
    let mut bytes = [0u8; 16];
    while bytes == [0; 16] {
        getrandom::fill(&mut bytes)
            .map_err(|e| Error::new("randomness", format!("the system generator failed: {e}")))?;
    }
    Ok(F::from(u128::from_le_bytes(bytes)))
}

/// Multiples of a point: 1 to 15 times 2^(4·w) times it, for all windows w of a scalar.
fn windows<C: Curve>(point: Option<&G1Affine<C>>) -> Vec<G1Affine<C>> {
    let mut base = point.map_or(G1Projective::<C>::ZERO, |p| p.into_group());
    let mut multiples = Vec::with_capacity(WINDOWS * WINDOW_ENTRIES);
    for _ in 0..WINDOWS {
        let mut multiple = G1Projective::<C>::ZERO;
        for _ in 0..WINDOW_ENTRIES {
            multiple += base;
            multiples.push(multiple);
        }
        base += multiple;
    }
    G1Projective::<C>::normalize_batch(&multiples)
}

/// The scalar times the point whose [`windows`] these are.
fn look_up<C: Curve>(windows: &[G1Affine<C>], scalar: &[u64; 4]) -> G1Projective<C> {
    let mut sum = G1Projective::<C>::ZERO;
    for (w, entries) in windows.chunks_exact(WINDOW_ENTRIES).enumerate() {
        let at = w * WINDOW_BITS;
        let digit = (scalar[at / 64] >> (at % 64)) as usize & WINDOW_ENTRIES;
        if digit > 0 {
            sum += entries[digit - 1];
        }
    }
    sum
}

fn pairing_product<C: Curve>(
    left: impl IntoIterator<Item = G1Affine<C>>,
    right: impl IntoIterator<Item = G2Prepared<C>>,
) -> Option<PairingOutput<C::Pairing>> {
    C::Pairing::final_exponentiation(C::Pairing::multi_miller_loop(left, right))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use ark_ff::Field;

    use super::*;
    use crate::curve::{Bls381, Bn254, G2Affine};

    /// The sum as the formula says it, for small, large and mixed signals in every place.
    fn check<C: Curve>() {
        let point = |i: u64| (G1Affine::<C>::generator() * C::Fr::from(77 + i)).into_affine();
        let g2 = |i: u64| (G2Affine::<C>::generator() * C::Fr::from(5 + i)).into_affine();
        let ic: Vec<_> = (0..4).map(point).collect();
        let key = VerificationKey { alpha: point(9), beta: g2(1), gamma: g2(2), delta: g2(3), ic };
        let verifier = Verifier::<C>::new(&key).unwrap();
        let large = C::Fr::from(1u128 << 64);
        let mut signals: Vec<C::Fr> =
            [0, 1, -1, 255, -256, i64::MAX, i64::MIN, i64::MIN + 1].into_iter().map(fr_from_i64).collect();
        signals.extend([large, -large, C::Fr::from(u64::MAX), -C::Fr::from(u64::MAX), C::Fr::from(3u64).pow([200])]);
        for i in 0..signals.len() {
            for j in 0..signals.len() {
                let chosen = [signals[i], signals[j], signals[(i + 2 * j) % signals.len()]];
                let expected =
                    key.ic[1..].iter().zip(&chosen).map(|(p, s)| *p * s).sum::<G1Projective<C>>() + key.ic[0];
                assert_eq!(verifier.combine(&chosen), expected, "{chosen:?}");
            }
        }
    }

    #[test]
    fn the_sum_of_the_signals_equals_the_plain_one() {
        check::<Bn254>();
        check::<Bls381>();
    }
}
