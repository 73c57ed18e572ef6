//! Phase 2: contributions to one circuit's keys, their proofs, and the file `SITSCT01` that holds them.
//!
//! ```text
//! 8  b"SITSCT01"   u8 curve   32 SHA-256 of the circuit   32 SHA-256 of the phase 1 file
//! u32 public signals   u32 wires   u32 domain size   32 SHA-256 of IC, K, H at γ = δ = 1   u16 contributions
//! contribution     name: u8 length, UTF-8   beacon: u8 exponent (0: none), then u8 length, bytes
//!                  delta (G1), delta (G2), gamma (G2) after it
//!                  unless it is a beacon: T (G1), z (32) for delta, T (G2), z (32) for gamma
//! IC[public + 1], K[wires], H[domain]           after the last contribution, compressed
//! ```
//! Running hash: h_0 = SHA-256("sits-ceremony" ‖ everything before the count), h_i = SHA-256(h_(i−1) ‖ contribution i).
//! Proof of knowledge of x with Y = x·B (Schnorr, J. Cryptology 1991, by Fiat–Shamir): T = k·B, z = k + c·x, where c
//! is SHA-512 of h_(i−1), the contribution up to its proofs, the name of the secret and T, modulo r.

use std::io::{Read, Write};

use ark_ec::short_weierstrass::{Affine, SWCurveConfig};
use ark_ec::CurveGroup;
use zeroize::Zeroizing;

use crate::ceremony::chain::{check_name, Codecs};
use crate::ceremony::derive::{derive, unit, Moving, Origin};
use crate::ceremony::groups::{combine, points, product_is_one, random_coefficients, same_ratio};
use crate::ceremony::phase1::{self, Contributor, Phase1};
use crate::ceremony::record::{beacon_scalars, Evidence, Hash, Header, Knowledge, Step};
use crate::ceremony::secret::{random_scalar, Beacon};
use crate::ceremony::stream::{Form, Sink, Source};
use crate::circuit::Circuit;
use crate::curve::{Curve, CurveId, G1Affine, G2Affine};
use crate::error::{Error, Result};
use crate::field::inverse;
use crate::keys::{ProvingKey, VerificationKey};

pub const MAGIC: &[u8; 8] = b"SITSCT01";
pub const FORMAT: &str = "transcript-format";
pub const CONTRIBUTIONS_MAX: u16 = 256;
const ENDED: &str = "setup-ended";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transcript<C: Curve> {
    pub header: Header,
    pub steps: Vec<Step<C>>,
    pub moving: Moving<C>,
}

/// Keys from a verified transcript, with who contributed to them.
pub struct Verified<C: Curve> {
    pub proving_key: ProvingKey<C>,
    pub verification_key: VerificationKey<C>,
    pub contributors: Vec<Contributor>,
    pub phase1: phase1::Report,
}

impl<C: Curve> Transcript<C> {
    /// Starts phase 2 for a circuit; the phase 1 is verified first. `phase1_digest` is the SHA-256 of its file.
    pub fn start(circuit: &Circuit, phase1: &Phase1<C>, phase1_digest: Hash) -> Result<Self> {
        circuit.check_curve::<C>()?;
        phase1.verify()?;
        let origin = derive(circuit, phase1)?;
        let header = Header::new(circuit, &origin, phase1_digest)?;
        Ok(Self { header, steps: Vec::new(), moving: origin.moving })
    }

    /// Multiplies δ and γ by fresh secrets; returns the running hash, which the contributor publishes.
    pub fn contribute(&mut self, name: &str, entropy: &[u8]) -> Result<Hash> {
        let hash = self.ready(name)?;
        let (delta, gamma) = (random_scalar::<C::Fr>(entropy)?, random_scalar::<C::Fr>(entropy)?);
        let (delta_base, gamma_base) = self.last();
        let mut step = self.apply(name, &delta, &gamma)?;
        let statement = step.statement(&hash)?;
        step.evidence = Evidence::Contributor {
            delta: Knowledge::prove::<C>(&delta_base, &delta, &statement, b"delta", entropy)?,
            gamma: Knowledge::prove::<C>(&gamma_base, &gamma, &statement, b"gamma", entropy)?,
        };
        self.push(&hash, step)
    }

    /// Ends phase 2 with public randomness.
    pub fn end_with_beacon(&mut self, name: &str, beacon: Beacon) -> Result<Hash> {
        let hash = self.ready(name)?;
        let (delta, gamma) = beacon_scalars::<C::Fr>(&hash, &beacon);
        let mut step = self.apply(name, &delta, &gamma)?;
        step.evidence = Evidence::Beacon(beacon);
        self.push(&hash, step)
    }

    /// A contribution with a valid proof for δ in G1 and something else in G2.
    #[cfg(test)]
    pub fn contribute_unequal(&mut self, name: &str) -> Result<Hash> {
        let hash = self.ready(name)?;
        let (delta, gamma) = (random_scalar::<C::Fr>(b"")?, random_scalar::<C::Fr>(b"")?);
        let (delta_base, gamma_base) = self.last();
        let mut step = self.apply(name, &delta, &gamma)?;
        step.delta_2 = (step.delta_2 * *gamma).into_affine();
        let statement = step.statement(&hash)?;
        step.evidence = Evidence::Contributor {
            delta: Knowledge::prove::<C>(&delta_base, &delta, &statement, b"delta", b"")?,
            gamma: Knowledge::prove::<C>(&gamma_base, &gamma, &statement, b"gamma", b"")?,
        };
        self.push(&hash, step)
    }

    fn ready(&self, name: &str) -> Result<Hash> {
        check_name(name)?;
        if let Some(at) = self.beacon() {
            return Err(Error::new(ENDED, format!("contribution {} is a beacon, which ended phase 2", at + 1)));
        }
        if self.steps.len() >= usize::from(CONTRIBUTIONS_MAX) {
            return Err(Error::new("setup-full", format!("{CONTRIBUTIONS_MAX} contributions already")));
        }
        Ok(self.verify_steps()?.1)
    }

    fn beacon(&self) -> Option<usize> {
        self.steps.iter().position(|step| matches!(step.evidence, Evidence::Beacon(_)))
    }

    fn push(&mut self, hash: &Hash, step: Step<C>) -> Result<Hash> {
        let next = step.next_hash(hash)?;
        self.steps.push(step);
        Ok(next)
    }

    /// δ in G1 and γ in G2 after the last contribution.
    fn last(&self) -> (G1Affine<C>, G2Affine<C>) {
        self.steps.last().map_or_else(unit::<C>, |step| (step.delta_1, step.gamma_2))
    }

    /// Changes the keys; the step's evidence is still to come.
    fn apply(&mut self, name: &str, delta: &C::Fr, gamma: &C::Fr) -> Result<Step<C>> {
        let (delta_1, gamma_2) = self.last();
        let delta_2 = self.steps.last().map_or_else(|| unit::<C>().1, |step| step.delta_2);
        let (delta_inverse, gamma_inverse) = (Zeroizing::new(inverse(*delta)?), Zeroizing::new(inverse(*gamma)?));
        self.moving.ic = scaled(&self.moving.ic, &gamma_inverse)?;
        self.moving.k = scaled(&self.moving.k, &delta_inverse)?;
        self.moving.h = scaled(&self.moving.h, &delta_inverse)?;
        Ok(Step {
            name: name.to_owned(),
            delta_1: (delta_1 * delta).into_affine(),
            delta_2: (delta_2 * delta).into_affine(),
            gamma_2: (gamma_2 * gamma).into_affine(),
            evidence: Evidence::Beacon(Beacon { value: Vec::new(), exponent: 0 }),
        })
    }

    /// The contributions alone, without circuit and phase 1: who, and the hash after the last.
    ///
    /// Errors name the contribution: `setup-identity` (nothing multiplied), `setup-proof`, `setup-beacon`,
    /// `setup-delta` (differs between the groups), `setup-ended` (after a beacon).
    pub fn verify_steps(&self) -> Result<(Vec<Contributor>, Hash)> {
        let mut hash = self.header.hash::<C>();
        let (mut delta, mut gamma) = unit::<C>();
        let (first, second) = unit::<C>();
        let mut contributors = Vec::with_capacity(self.steps.len());
        for (i, step) in self.steps.iter().enumerate() {
            let fail =
                |code, what: &str| Err(Error::new(code, format!("contribution {} ({:?}): {what}", i + 1, step.name)));
            if self.beacon().is_some_and(|at| at < i) {
                return fail(ENDED, "it follows a beacon, which ended phase 2");
            }
            if step.delta_1 == delta || step.gamma_2 == gamma {
                return fail("setup-identity", "delta or gamma is multiplied by one");
            }
            match &step.evidence {
                Evidence::Contributor { delta: proof, gamma: proof_2 } => {
                    let statement = step.statement(&hash)?;
                    if !proof.holds::<C>(&delta, &step.delta_1, &statement, b"delta") {
                        return fail("setup-proof", "no valid proof of knowledge for delta");
                    }
                    if !proof_2.holds::<C>(&gamma, &step.gamma_2, &statement, b"gamma") {
                        return fail("setup-proof", "no valid proof of knowledge for gamma");
                    }
                }
                Evidence::Beacon(beacon) => {
                    let (x, y) = beacon_scalars::<C::Fr>(&hash, beacon);
                    if (delta * *x).into_affine() != step.delta_1 || (gamma * *y).into_affine() != step.gamma_2 {
                        return fail("setup-beacon", "delta or gamma is not what its beacon makes of the one before");
                    }
                }
            }
            if !same_ratio::<C>(&first, &step.delta_1, &second, &step.delta_2) {
                return fail("setup-delta", "delta differs between the two groups");
            }
            (delta, gamma, hash) = (step.delta_1, step.gamma_2, step.next_hash(&hash)?);
            let beacon = matches!(step.evidence, Evidence::Beacon(_));
            contributors.push(Contributor { name: Some(step.name.clone()), beacon, hash: hash.to_vec() });
        }
        Ok((contributors, hash))
    }

    /// Recomputes everything. Checks in this order, each with its code:
    ///
    /// 1. `setup-circuit`  the transcript is for this circuit
    /// 2. `setup-phase1`   and for this phase 1
    /// 3. `phase1-…`       which verifies
    /// 4. `setup-origin`   its start is what circuit and phase 1 give
    /// 5. `setup-…`        every contribution ([`Self::verify_steps`])
    /// 6. `setup-empty`    somebody contributed, and not only beacons
    /// 7. `setup-ic`, `setup-k`, `setup-h`  the keys are those of the start over the last γ and δ
    /// 8. `key-lint`       the verification key is one our verifiers accept
    pub fn verify(self, circuit: &Circuit, phase1: &Phase1<C>, phase1_digest: Hash) -> Result<Verified<C>> {
        let fail = |code, detail: &str| Err(Error::new(code, detail));
        circuit.check_curve::<C>()?;
        if self.header.circuit != circuit.digest {
            return fail("setup-circuit", "the transcript is for another circuit");
        }
        if self.header.phase1 != phase1_digest {
            return fail("setup-phase1", "the transcript is for another phase 1");
        }
        let report = phase1.verify()?;
        let origin = derive(circuit, phase1)?;
        if self.header != Header::new(circuit, &origin, phase1_digest)? {
            return fail("setup-origin", "the start is not what this circuit and this phase 1 give");
        }
        let (contributors, _) = self.verify_steps()?;
        let Some(last) = self.steps.last().filter(|_| contributors.iter().any(|c| !c.beacon)) else {
            return fail("setup-empty", "nobody contributed");
        };
        for (code, start, end, divisor) in [
            ("setup-ic", &origin.moving.ic, &self.moving.ic, last.gamma_2),
            ("setup-k", &origin.moving.k, &self.moving.k, last.delta_2),
            ("setup-h", &origin.moving.h, &self.moving.h, last.delta_2),
        ] {
            let coefficients = random_coefficients(start.len())?;
            let (start, end) = (combine(start, &coefficients), combine(end, &coefficients));
            if !product_is_one::<C>([end, -start], [divisor, unit::<C>().1]) {
                return fail(code, "the keys are not the start divided by what was contributed");
            }
        }
        let last = last.clone();
        let (proving_key, verification_key) = keys(circuit, origin, self.moving, &last);
        verification_key.lint()?;
        Ok(Verified { proving_key, verification_key, contributors, phase1: report })
    }

    /// Writes the file.
    pub fn write(&self, out: impl Write) -> Result<()> {
        let codecs = Codecs::<C>::default();
        let mut sink = Sink::new(out);
        sink.bytes(&self.header.encode::<C>())?;
        sink.bytes(&(self.steps.len() as u16).to_be_bytes())?;
        for step in &self.steps {
            sink.bytes(&step.encode()?)?;
        }
        for points in [&self.moving.ic, &self.moving.k, &self.moving.h] {
            sink.points(&codecs.first, Form::Compressed, points)?;
        }
        sink.finish().map(|_| ())
    }

    /// Reads a file of `length` bytes. Error `transcript-format`.
    pub fn read(file: impl Read, length: u64) -> Result<Self> {
        let codecs = Codecs::<C>::default();
        let mut source = Source::new(file, length, FORMAT);
        if curve(&source.take(MAGIC.len() + 1)?)?.byte() != C::ID {
            return source.fail(format!("another curve, expected {}", C::NAME));
        }
        let header = Header::read(&mut source)?;
        let count = source.u16()?;
        if count > CONTRIBUTIONS_MAX {
            return source.fail(format!("{count} contributions, at most {CONTRIBUTIONS_MAX}"));
        }
        let mut steps = Vec::new();
        for _ in 0..count {
            steps.push(Step::read(&mut source, &codecs)?);
        }
        let form = Form::Compressed;
        let moving = Moving {
            ic: source.finite(&codecs.first, form, header.n_public as usize + 1, "IC")?,
            k: source.points(&codecs.first, form, header.n_wires as usize, "K")?,
            h: source.finite(&codecs.first, form, header.domain as usize, "H")?,
        };
        source.finish()?;
        Ok(Self { header, steps, moving })
    }
}

/// The curve of a transcript, from its first nine bytes.
pub fn curve(head: &[u8]) -> Result<CurveId> {
    match head {
        [magic @ .., id] if magic == MAGIC => {
            CurveId::from_byte(*id).ok_or_else(|| Error::new(FORMAT, format!("unknown curve {id}")))
        }
        _ => Err(Error::new(FORMAT, "not a transcript of phase 2 (SITSCT01)")),
    }
}

fn scaled<P: SWCurveConfig>(values: &[Affine<P>], factor: &P::ScalarField) -> Result<Vec<Affine<P>>> {
    points(values.len(), |i| values[i] * factor)
}

fn keys<C: Curve>(
    circuit: &Circuit,
    origin: Origin<C>,
    moving: Moving<C>,
    last: &Step<C>,
) -> (ProvingKey<C>, VerificationKey<C>) {
    let verification_key = VerificationKey {
        alpha: origin.alpha_1,
        beta: origin.beta_2,
        gamma: last.gamma_2,
        delta: last.delta_2,
        ic: moving.ic,
    };
    let proving_key = ProvingKey {
        circuit_digest: circuit.digest,
        n_public: circuit.n_public(),
        domain_size: moving.h.len() as u32,
        alpha_1: origin.alpha_1,
        beta_1: origin.beta_1,
        delta_1: last.delta_1,
        beta_2: origin.beta_2,
        delta_2: last.delta_2,
        a: origin.a,
        b1: origin.b1,
        b2: origin.b2,
        k: moving.k,
        h: moving.h,
    };
    (proving_key, verification_key)
}
