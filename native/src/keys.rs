//! Proving and verification keys: binary forms, checks at load, lint.
//!
//! Verification key `SITSVK01`: see docs/interfaces.md. Proving key `SITSPK01` (big-endian): u8 curve, 32 bytes
//! SHA-256 of the circuit file, u32 n_public, u32 n_wires, u32 domain size, then uncompressed points alpha_1,
//! beta_1, delta_1, beta_2, delta_2, A[n_wires] (G1), B1[n_wires] (G1), B2[n_wires] (G2), K[n_wires] (G1),
//! H[domain] (G1). The length follows from the header, so nothing is allocated before it is known to be right.

use ark_bn254::{G1Affine, G2Affine};
use ark_ec::AffineRepr;

use crate::circuit::{Circuit, CURVE_BN254, SIGNALS_MAX, WIRES_MAX};
use crate::domain::size_for;
use crate::encoding as enc;
use crate::encoding::PointFault;
use crate::error::{Error, Result};
use crate::reader::Reader;

pub const VK_MAGIC: &[u8; 8] = b"SITSVK01";
pub const PK_MAGIC: &[u8; 8] = b"SITSPK01";
/// Inputs and outputs each at their limit, and ctx.
pub const PUBLIC_MAX: u32 = 2 * SIGNALS_MAX + 1;

const VK_CODE: &str = "vk-format";
const PK_CODE: &str = "pk-format";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerificationKey {
    pub alpha: G1Affine,
    pub beta: G2Affine,
    pub gamma: G2Affine,
    pub delta: G2Affine,
    /// One point for the constant and one per public signal.
    pub ic: Vec<G1Affine>,
}

pub struct ProvingKey {
    pub circuit_digest: [u8; 32],
    pub n_public: u32,
    pub domain_size: u32,
    pub alpha_1: G1Affine,
    pub beta_1: G1Affine,
    pub delta_1: G1Affine,
    pub beta_2: G2Affine,
    pub delta_2: G2Affine,
    pub a: Vec<G1Affine>,
    pub b1: Vec<G1Affine>,
    pub b2: Vec<G2Affine>,
    /// (βA + αB + C − Z(τ)/Z(g)·C)/δ for private wires, −Z(τ)/Z(g)·C/δ for public ones.
    pub k: Vec<G1Affine>,
    /// Lagrange basis of the coset at τ, times Z(τ)/(Z(g)·δ).
    pub h: Vec<G1Affine>,
}

fn point_error(code: &'static str, what: &str, fault: PointFault) -> Error {
    Error::new(code, format!("{what}: {}", fault.text()))
}

fn check_curve(reader: &mut Reader<'_>) -> Result<()> {
    match reader.u8()? {
        CURVE_BN254 => Ok(()),
        other => reader.fail(format!("curve {other}, expected {CURVE_BN254} (BN254)")),
    }
}

impl VerificationKey {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(13 + 7 * 32 + self.ic.len() * enc::G1_BYTES);
        out.extend_from_slice(VK_MAGIC);
        out.push(CURVE_BN254);
        out.extend_from_slice(&((self.ic.len() - 1) as u32).to_be_bytes());
        out.extend_from_slice(&enc::g1_compress(&self.alpha));
        for point in [&self.beta, &self.gamma, &self.delta] {
            out.extend_from_slice(&enc::g2_compress(point));
        }
        for point in &self.ic {
            out.extend_from_slice(&enc::g1_compress(point));
        }
        out
    }

    /// Points are checked for curve and subgroup; infinity is left to [`Self::lint`].
    pub fn decode(data: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(data, VK_CODE);
        reader.magic(VK_MAGIC)?;
        check_curve(&mut reader)?;
        let n_public = reader.u32()?;
        if !(1..=PUBLIC_MAX).contains(&n_public) {
            return reader.fail(format!("{n_public} public signals, allowed 1 to {PUBLIC_MAX}"));
        }
        let expected = (4 + 3 + n_public as usize + 1) * enc::G1_BYTES;
        if reader.left() != expected {
            return reader.fail(format!("{} bytes of points, expected {expected}", reader.left()));
        }
        Ok(Self {
            alpha: vk_g1(&mut reader, "alpha")?,
            beta: vk_g2(&mut reader, "beta")?,
            gamma: vk_g2(&mut reader, "gamma")?,
            delta: vk_g2(&mut reader, "delta")?,
            ic: (0..=n_public).map(|i| vk_g1(&mut reader, &format!("IC[{i}]"))).collect::<Result<_>>()?,
        })
    }

    /// The key lint of the evidence rules: γ ≠ δ, nothing at infinity or equal to a generator,
    /// IC points non-zero and distinct (up to sign: opposite points would let two signals trade places).
    pub fn lint(&self) -> Result<()> {
        let fail = |detail: String| Err(Error::new("key-lint", detail));
        if self.gamma == self.delta || self.gamma == -self.delta {
            return fail("gamma equals delta up to sign: anyone can forge proofs under this key".into());
        }
        if self.alpha.is_zero() || self.alpha == G1Affine::generator() || self.alpha == -G1Affine::generator() {
            return fail("alpha is infinity or a generator".into());
        }
        for (name, point) in [("beta", &self.beta), ("gamma", &self.gamma), ("delta", &self.delta)] {
            if point.is_zero() || *point == G2Affine::generator() || *point == -G2Affine::generator() {
                return fail(format!("{name} is infinity or a generator"));
            }
        }
        let mut seen = std::collections::HashSet::new();
        for (i, point) in self.ic.iter().enumerate() {
            if point.is_zero() || *point == G1Affine::generator() || *point == -G1Affine::generator() {
                return fail(format!("IC[{i}] is infinity or a generator"));
            }
            if !seen.insert(point.x) {
                return fail(format!("IC[{i}] repeats another IC point up to sign"));
            }
        }
        Ok(())
    }
}

fn vk_g1(reader: &mut Reader<'_>, what: &str) -> Result<G1Affine> {
    let mut bytes = [0u8; enc::G1_BYTES];
    bytes.copy_from_slice(reader.take(enc::G1_BYTES)?);
    enc::g1_decompress(&bytes).map_err(|fault| point_error(VK_CODE, what, fault))
}

fn vk_g2(reader: &mut Reader<'_>, what: &str) -> Result<G2Affine> {
    let mut bytes = [0u8; enc::G2_BYTES];
    bytes.copy_from_slice(reader.take(enc::G2_BYTES)?);
    enc::g2_decompress(&bytes).map_err(|fault| point_error(VK_CODE, what, fault))
}

fn pk_g1(reader: &mut Reader<'_>, what: &str) -> Result<G1Affine> {
    let bytes = reader.take(enc::G1_UNCOMPRESSED_BYTES)?;
    enc::g1_read_uncompressed(bytes).map_err(|fault| point_error(PK_CODE, what, fault))
}

fn pk_g2(reader: &mut Reader<'_>, what: &str) -> Result<G2Affine> {
    let bytes = reader.take(enc::G2_UNCOMPRESSED_BYTES)?;
    enc::g2_read_uncompressed(bytes).map_err(|fault| point_error(PK_CODE, what, fault))
}

impl ProvingKey {
    pub fn encode(&self) -> Vec<u8> {
        let n_wires = self.a.len();
        let mut out = Vec::with_capacity(pk_bytes(n_wires, self.h.len()));
        out.extend_from_slice(PK_MAGIC);
        out.push(CURVE_BN254);
        out.extend_from_slice(&self.circuit_digest);
        for number in [self.n_public, n_wires as u32, self.domain_size] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        for point in [&self.alpha_1, &self.beta_1, &self.delta_1] {
            enc::g1_write_uncompressed(point, &mut out);
        }
        for point in [&self.beta_2, &self.delta_2] {
            enc::g2_write_uncompressed(point, &mut out);
        }
        self.a.iter().chain(&self.b1).for_each(|p| enc::g1_write_uncompressed(p, &mut out));
        self.b2.iter().for_each(|p| enc::g2_write_uncompressed(p, &mut out));
        self.k.iter().chain(&self.h).for_each(|p| enc::g1_write_uncompressed(p, &mut out));
        out
    }

    /// Strict decoding against the circuit the key must belong to.
    pub fn decode(data: &[u8], circuit: &Circuit) -> Result<Self> {
        let mut reader = Reader::new(data, PK_CODE);
        reader.magic(PK_MAGIC)?;
        check_curve(&mut reader)?;
        let mut circuit_digest = [0u8; 32];
        circuit_digest.copy_from_slice(reader.take(32)?);
        let (n_public, n_wires, domain_size) = (reader.u32()?, reader.u32()?, reader.u32()?);
        if circuit_digest != circuit.digest {
            return Err(Error::new("pk-circuit", "the proving key was made for another circuit"));
        }
        let domain = size_for(circuit.constraints.len());
        if n_public != circuit.n_public() || n_wires != circuit.n_wires() || domain_size as usize != domain {
            return reader.fail("sizes in the header do not fit the circuit");
        }
        debug_assert!(n_wires <= WIRES_MAX);
        let expected = pk_bytes(n_wires as usize, domain);
        if data.len() != expected {
            return reader.fail(format!("{} bytes, expected {expected}", data.len()));
        }
        let r = &mut reader;
        let key = Self {
            circuit_digest,
            n_public,
            domain_size,
            alpha_1: pk_g1(r, "alpha_1")?,
            beta_1: pk_g1(r, "beta_1")?,
            delta_1: pk_g1(r, "delta_1")?,
            beta_2: pk_g2(r, "beta_2")?,
            delta_2: pk_g2(r, "delta_2")?,
            a: pk_list(r, n_wires, "A", pk_g1)?,
            b1: pk_list(r, n_wires, "B1", pk_g1)?,
            b2: pk_list(r, n_wires, "B2", pk_g2)?,
            k: pk_list(r, n_wires, "K", pk_g1)?,
            h: pk_list(r, domain_size, "H", pk_g1)?,
        };
        let fixed = [key.alpha_1, key.beta_1, key.delta_1].iter().any(G1Affine::is_zero)
            || [key.beta_2, key.delta_2].iter().any(G2Affine::is_zero);
        if fixed {
            return Err(Error::new(PK_CODE, "alpha, beta or delta is the point at infinity"));
        }
        reader.finish()?;
        Ok(key)
    }
}

fn pk_bytes(n_wires: usize, domain: usize) -> usize {
    8 + 1
        + 32
        + 12
        + (3 + 3 * n_wires + domain) * enc::G1_UNCOMPRESSED_BYTES
        + (2 + n_wires) * enc::G2_UNCOMPRESSED_BYTES
}

fn pk_list<'a, T>(
    reader: &mut Reader<'a>,
    count: u32,
    name: &str,
    read: fn(&mut Reader<'a>, &str) -> Result<T>,
) -> Result<Vec<T>> {
    (0..count).map(|_| read(reader, name)).collect()
}
