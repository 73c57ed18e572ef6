//! The records of phase 2: what a transcript is for, and its contributions with their proofs.
//!
//! Layout, running hash and proofs: see [`crate::ceremony::phase2`].

use std::io::Read;

use ark_ec::short_weierstrass::{Affine, SWCurveConfig};
use ark_ec::CurveGroup;
use ark_ff::{BigInteger, PrimeField};
use sha2::{Digest, Sha256, Sha512};
use zeroize::Zeroizing;

use crate::ceremony::chain::{check_name, Codecs};
use crate::ceremony::derive::Origin;
use crate::ceremony::phase2::MAGIC;
use crate::ceremony::secret::{random_scalar, Beacon};
use crate::ceremony::stream::{Form, Sink, Source};
use crate::ceremony::transcript::{read_beacon, write_beacon};
use crate::circuit::{Circuit, CONSTRAINTS_MAX, WIRES_MAX};
use crate::curve::{Curve, G1Affine, G2Affine};
use crate::error::Result;
use crate::keys::PUBLIC_MAX;

/// The largest domain: the next size above the circuit format's limit.
const DOMAIN_MAX: u32 = 2 * CONSTRAINTS_MAX;
const HASH_TAG: &[u8] = b"sits-ceremony";
const SCALAR_BYTES: usize = 32;

pub type Hash = [u8; 32];

/// T and z of a Schnorr proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Knowledge<A, F> {
    commitment: A,
    response: F,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evidence<C: Curve> {
    Contributor { delta: Knowledge<G1Affine<C>, C::Fr>, gamma: Knowledge<G2Affine<C>, C::Fr> },
    Beacon(Beacon),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step<C: Curve> {
    pub name: String,
    pub delta_1: G1Affine<C>,
    pub delta_2: G2Affine<C>,
    pub gamma_2: G2Affine<C>,
    pub evidence: Evidence<C>,
}

/// What the keys are made for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    pub circuit: Hash,
    pub phase1: Hash,
    pub n_public: u32,
    pub n_wires: u32,
    pub domain: u32,
    pub origin: Hash,
}

impl Header {
    pub fn new<C: Curve>(circuit: &Circuit, origin: &Origin<C>, phase1: Hash) -> Result<Self> {
        let codecs = Codecs::<C>::default();
        let mut sink = Sink::new(std::io::sink());
        for points in [&origin.moving.ic, &origin.moving.k, &origin.moving.h] {
            sink.points(&codecs.first, Form::Compressed, points)?;
        }
        Ok(Self {
            circuit: circuit.digest,
            phase1,
            n_public: circuit.n_public(),
            n_wires: circuit.n_wires(),
            domain: origin.moving.h.len() as u32,
            origin: sink.finish()?,
        })
    }

    pub fn encode<C: Curve>(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.push(C::ID);
        out.extend(self.circuit);
        out.extend(self.phase1);
        for number in [self.n_public, self.n_wires, self.domain] {
            out.extend(number.to_be_bytes());
        }
        out.extend(self.origin);
        out
    }

    pub fn hash<C: Curve>(&self) -> Hash {
        Sha256::new().chain_update(HASH_TAG).chain_update(self.encode::<C>()).finalize().into()
    }

    pub fn read<R: Read>(source: &mut Source<R>) -> Result<Self> {
        let (circuit, phase1) = (source.array()?, source.array()?);
        let (n_public, n_wires, domain) = (source.u32()?, source.u32()?, source.u32()?);
        let sizes = (1..=PUBLIC_MAX).contains(&n_public)
            && (n_public + 1..=WIRES_MAX).contains(&n_wires)
            && (2..=DOMAIN_MAX).contains(&domain);
        if !sizes {
            return source
                .fail(format!("{n_public} public signals, {n_wires} wires, domain {domain}: not a circuit's"));
        }
        Ok(Self { circuit, phase1, n_public, n_wires, domain, origin: source.array()? })
    }
}

impl<C: Curve> Step<C> {
    /// Everything but the proofs, after the hash before: what the proofs are bound to.
    pub fn statement(&self, hash: &Hash) -> Result<Vec<u8>> {
        Ok([hash.to_vec(), self.encode_statement(None)?].concat())
    }

    fn encode_statement(&self, beacon: Option<&Beacon>) -> Result<Vec<u8>> {
        let codecs = Codecs::<C>::default();
        let mut out = Vec::new();
        let mut sink = Sink::new(&mut out);
        sink.short_bytes(self.name.as_bytes())?;
        write_beacon(&mut sink, beacon)?;
        sink.points(&codecs.first, Form::Compressed, &[self.delta_1])?;
        sink.points(&codecs.second, Form::Compressed, &[self.delta_2, self.gamma_2])?;
        sink.finish()?;
        Ok(out)
    }

    pub fn encode(&self) -> Result<Vec<u8>> {
        let codecs = Codecs::<C>::default();
        match &self.evidence {
            Evidence::Beacon(beacon) => self.encode_statement(Some(beacon)),
            Evidence::Contributor { delta, gamma } => {
                let mut out = self.encode_statement(None)?;
                codecs.first.write_compressed(&delta.commitment, &mut out);
                out.extend(delta.response.into_bigint().to_bytes_be());
                codecs.second.write_compressed(&gamma.commitment, &mut out);
                out.extend(gamma.response.into_bigint().to_bytes_be());
                Ok(out)
            }
        }
    }

    pub fn next_hash(&self, hash: &Hash) -> Result<Hash> {
        Ok(Sha256::new().chain_update(hash).chain_update(self.encode()?).finalize().into())
    }

    pub fn read<R: Read>(source: &mut Source<R>, codecs: &Codecs<C>) -> Result<Self> {
        let form = Form::Compressed;
        let name = source.text()?;
        check_name(&name).or_else(|error| source.fail(error.detail))?;
        let beacon = read_beacon(source)?;
        let delta_1 = source.point(&codecs.first, form, "delta")?;
        let delta_2 = source.point(&codecs.second, form, "delta in G2")?;
        let gamma_2 = source.point(&codecs.second, form, "gamma")?;
        let evidence = match beacon {
            Some(beacon) => Evidence::Beacon(beacon),
            None => {
                let commitment = source.point(&codecs.first, form, "proof for delta")?;
                let delta = Knowledge { commitment, response: read_scalar(source)? };
                let commitment = source.point(&codecs.second, form, "proof for gamma")?;
                Evidence::Contributor { delta, gamma: Knowledge { commitment, response: read_scalar(source)? } }
            }
        };
        Ok(Self { name, delta_1, delta_2, gamma_2, evidence })
    }
}

fn read_scalar<F: PrimeField, R: Read>(source: &mut Source<R>) -> Result<F> {
    let bytes = source.array::<SCALAR_BYTES>()?;
    let mut integer = F::BigInt::default();
    for (limb, chunk) in integer.as_mut().iter_mut().rev().zip(bytes.chunks_exact(8)) {
        *limb = chunk.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
    }
    F::from_bigint(integer).map_or_else(|| source.fail("a response not below the group's order"), Ok)
}

impl<P: SWCurveConfig> Knowledge<Affine<P>, P::ScalarField> {
    /// Of `secret` with `secret`·`base` in the statement.
    pub fn prove<C: Curve>(
        base: &Affine<P>,
        secret: &P::ScalarField,
        statement: &[u8],
        tag: &[u8],
        entropy: &[u8],
    ) -> Result<Self> {
        let blind = random_scalar::<P::ScalarField>(entropy)?;
        let commitment = (*base * *blind).into_affine();
        let challenge = challenge::<C, P>(statement, tag, &commitment);
        Ok(Self { commitment, response: *blind + challenge * secret })
    }

    /// z·B = T + c·Y.
    pub fn holds<C: Curve>(&self, base: &Affine<P>, product: &Affine<P>, statement: &[u8], tag: &[u8]) -> bool {
        let challenge = challenge::<C, P>(statement, tag, &self.commitment);
        *base * self.response == *product * challenge + self.commitment
    }
}

fn challenge<C: Curve, P: SWCurveConfig>(statement: &[u8], tag: &[u8], commitment: &Affine<P>) -> P::ScalarField {
    let mut point = Vec::new();
    crate::encoding::compress::<C, P>(commitment, &mut point);
    let hash = Sha512::new().chain_update(HASH_TAG).chain_update(tag).chain_update(statement).chain_update(point);
    P::ScalarField::from_be_bytes_mod_order(&hash.finalize())
}

/// δ's and γ's factor: SHA-512 of the tag, the hash before and the beacon's digest, modulo r.
pub fn beacon_scalars<F: PrimeField>(hash: &Hash, beacon: &Beacon) -> (Zeroizing<F>, Zeroizing<F>) {
    let digest = beacon.digest();
    let scalar = |tag: &[u8]| {
        let wide = Sha512::new().chain_update(HASH_TAG).chain_update(tag).chain_update(hash).chain_update(digest);
        Zeroizing::new(F::from_be_bytes_mod_order(&wide.finalize()))
    };
    (scalar(b"beacon delta"), scalar(b"beacon gamma"))
}
