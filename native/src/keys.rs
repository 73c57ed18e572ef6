//! Proving and verification keys: binary forms, checks at load, lint.
//!
//! Verification key `SITSVK01`: see docs/interfaces.md. Proving key `SITSPK01` (big-endian): u8 curve, 32 bytes
//! SHA-256 of the circuit file, u32 n_public, u32 n_wires, u32 domain size, then uncompressed points alpha_1,
//! beta_1, delta_1, beta_2, delta_2, A[n_wires] (G1), B1[n_wires] (G1), B2[n_wires] (G2), K[n_wires] (G1),
//! H[domain] (G1). The length follows from the header, so nothing is allocated before it is known to be right.

use ark_ec::short_weierstrass::{Affine, SWCurveConfig};
use ark_ec::AffineRepr;

use crate::circuit::{Circuit, SIGNALS_MAX, WIRES_MAX};
use crate::curve::{Curve, CurveId, G1Affine, G2Affine};
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
pub struct VerificationKey<C: Curve> {
    pub alpha: G1Affine<C>,
    pub beta: G2Affine<C>,
    pub gamma: G2Affine<C>,
    pub delta: G2Affine<C>,
    /// One point for the constant and one per public signal.
    pub ic: Vec<G1Affine<C>>,
}

pub struct ProvingKey<C: Curve> {
    pub circuit_digest: [u8; 32],
    pub n_public: u32,
    pub domain_size: u32,
    pub alpha_1: G1Affine<C>,
    pub beta_1: G1Affine<C>,
    pub delta_1: G1Affine<C>,
    pub beta_2: G2Affine<C>,
    pub delta_2: G2Affine<C>,
    pub a: Vec<G1Affine<C>>,
    pub b1: Vec<G1Affine<C>>,
    pub b2: Vec<G2Affine<C>>,
    /// (βA + αB + C − Z(τ)/Z(g)·C)/δ for private wires, −Z(τ)/Z(g)·C/δ for public ones.
    pub k: Vec<G1Affine<C>>,
    /// Lagrange basis of the coset at τ, times Z(τ)/(Z(g)·δ).
    pub h: Vec<G1Affine<C>>,
}

fn point_error(code: &'static str, what: &str, fault: PointFault) -> Error {
    Error::new(code, format!("{what}: {}", fault.text()))
}

fn check_curve<C: Curve>(reader: &mut Reader<'_>) -> Result<()> {
    match reader.u8()? {
        id if id == C::ID => Ok(()),
        other => reader.fail(format!("curve {other}, expected {} ({})", C::ID, C::NAME)),
    }
}

/// The curve a verification key is for, from its first bytes.
pub fn curve_of_verification_key(data: &[u8]) -> Result<CurveId> {
    let mut reader = Reader::new(data, VK_CODE);
    reader.magic(VK_MAGIC)?;
    let curve = reader.u8()?;
    CurveId::from_byte(curve).map_or_else(|| reader.fail(format!("unknown curve {curve}")), Ok)
}

impl<C: Curve> VerificationKey<C> {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(13 + (7 + self.ic.len()) * C::FQ_BYTES);
        out.extend_from_slice(VK_MAGIC);
        out.push(C::ID);
        out.extend_from_slice(&((self.ic.len() - 1) as u32).to_be_bytes());
        enc::compress::<C, _>(&self.alpha, &mut out);
        for point in [&self.beta, &self.gamma, &self.delta] {
            enc::compress::<C, _>(point, &mut out);
        }
        self.ic.iter().for_each(|point| enc::compress::<C, _>(point, &mut out));
        out
    }

    /// Points are checked for curve and subgroup; infinity is left to [`Self::lint`].
    pub fn decode(data: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(data, VK_CODE);
        reader.magic(VK_MAGIC)?;
        check_curve::<C>(&mut reader)?;
        let n_public = reader.u32()?;
        if !(1..=PUBLIC_MAX).contains(&n_public) {
            return reader.fail(format!("{n_public} public signals, allowed 1 to {PUBLIC_MAX}"));
        }
        let expected = (1 + 3 * 2 + n_public as usize + 1) * C::FQ_BYTES;
        if reader.left() != expected {
            return reader.fail(format!("{} bytes of points, expected {expected}", reader.left()));
        }
        Ok(Self {
            alpha: vk_point::<C, _>(&mut reader, "alpha")?,
            beta: vk_point::<C, _>(&mut reader, "beta")?,
            gamma: vk_point::<C, _>(&mut reader, "gamma")?,
            delta: vk_point::<C, _>(&mut reader, "delta")?,
            ic: (0..=n_public).map(|i| vk_point::<C, _>(&mut reader, &format!("IC[{i}]"))).collect::<Result<_>>()?,
        })
    }

    /// The key lint of the evidence rules: γ ≠ δ, nothing at infinity or equal to a generator,
    /// IC points non-zero and distinct (up to sign: opposite points would let two signals trade places).
    pub fn lint(&self) -> Result<()> {
        self.lint_gamma(false)
    }

    /// [`Self::lint`], but γ may be the generator, as set-ups after S. Bowe, A. Gabizon, I. Miers, "Scalable
    /// Multi-party Computation for zk-SNARK Parameters in the Random Beacon Model" (2017) have it. For keys of other
    /// tools only.
    pub fn lint_fixed_gamma(&self) -> Result<()> {
        self.lint_gamma(true)
    }

    fn lint_gamma(&self, fixed: bool) -> Result<()> {
        let fail = |detail: String| Err(Error::new("key-lint", detail));
        if self.gamma == self.delta || self.gamma == -self.delta {
            return fail("gamma equals delta up to sign: anyone can forge proofs under this key".into());
        }
        if is_trivial(&self.alpha) {
            return fail("alpha is infinity or a generator".into());
        }
        for (name, point, fixed) in
            [("beta", &self.beta, false), ("gamma", &self.gamma, fixed), ("delta", &self.delta, false)]
        {
            if is_trivial(point) && !(fixed && *point == G2Affine::<C>::generator()) {
                return fail(format!("{name} is infinity or a generator"));
            }
        }
        let mut seen = std::collections::HashSet::new();
        for (i, point) in self.ic.iter().enumerate() {
            if is_trivial(point) {
                return fail(format!("IC[{i}] is infinity or a generator"));
            }
            if !seen.insert(point.x) {
                return fail(format!("IC[{i}] repeats another IC point up to sign"));
            }
        }
        Ok(())
    }
}

/// Infinity, or the group's generator or its opposite.
fn is_trivial<P: SWCurveConfig>(point: &Affine<P>) -> bool {
    point.is_zero() || *point == Affine::generator() || *point == -Affine::<P>::generator()
}

fn vk_point<C: Curve, P: SWCurveConfig>(reader: &mut Reader<'_>, what: &str) -> Result<Affine<P>> {
    let bytes = reader.take(enc::compressed_bytes::<C, P>())?;
    enc::decompress::<C, P>(bytes).map_err(|fault| point_error(VK_CODE, what, fault))
}

fn pk_point<C: Curve, P: SWCurveConfig>(reader: &mut Reader<'_>, what: &str) -> Result<Affine<P>> {
    let bytes = reader.take(2 * enc::compressed_bytes::<C, P>())?;
    enc::read_uncompressed::<C, P>(bytes).map_err(|fault| point_error(PK_CODE, what, fault))
}

fn pk_list<C: Curve, P: SWCurveConfig>(reader: &mut Reader<'_>, count: u32, name: &str) -> Result<Vec<Affine<P>>> {
    (0..count).map(|_| pk_point::<C, P>(reader, name)).collect()
}

/// Bytes of a proving key, from the sizes of its lists.
fn pk_bytes<C: Curve>(n_wires: usize, domain: usize) -> usize {
    let g1 = 2 * enc::compressed_bytes::<C, C::G1>();
    let g2 = 2 * enc::compressed_bytes::<C, C::G2>();
    8 + 1 + 32 + 12 + (3 + 3 * n_wires + domain) * g1 + (2 + n_wires) * g2
}

impl<C: Curve> ProvingKey<C> {
    pub fn encode(&self) -> Vec<u8> {
        let n_wires = self.a.len();
        let mut out = Vec::with_capacity(pk_bytes::<C>(n_wires, self.h.len()));
        out.extend_from_slice(PK_MAGIC);
        out.push(C::ID);
        out.extend_from_slice(&self.circuit_digest);
        for number in [self.n_public, n_wires as u32, self.domain_size] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        for point in [&self.alpha_1, &self.beta_1, &self.delta_1] {
            enc::write_uncompressed::<C, _>(point, &mut out);
        }
        for point in [&self.beta_2, &self.delta_2] {
            enc::write_uncompressed::<C, _>(point, &mut out);
        }
        self.a.iter().chain(&self.b1).for_each(|p| enc::write_uncompressed::<C, _>(p, &mut out));
        self.b2.iter().for_each(|p| enc::write_uncompressed::<C, _>(p, &mut out));
        self.k.iter().chain(&self.h).for_each(|p| enc::write_uncompressed::<C, _>(p, &mut out));
        out
    }

    /// Strict decoding against the circuit the key must belong to.
    pub fn decode(data: &[u8], circuit: &Circuit) -> Result<Self> {
        circuit.check_curve::<C>()?;
        let mut reader = Reader::new(data, PK_CODE);
        reader.magic(PK_MAGIC)?;
        check_curve::<C>(&mut reader)?;
        let mut circuit_digest = [0u8; 32];
        circuit_digest.copy_from_slice(reader.take(32)?);
        let (n_public, n_wires, domain_size) = (reader.u32()?, reader.u32()?, reader.u32()?);
        if circuit_digest != circuit.digest {
            return Err(Error::new("pk-circuit", "the proving key was made for another circuit"));
        }
        let domain = size_for::<C>(circuit.n_rows());
        if n_public != circuit.n_public() || n_wires != circuit.n_wires() || domain_size as usize != domain {
            return reader.fail("sizes in the header do not fit the circuit");
        }
        debug_assert!(n_wires <= WIRES_MAX);
        let expected = pk_bytes::<C>(n_wires as usize, domain);
        if data.len() != expected {
            return reader.fail(format!("{} bytes, expected {expected}", data.len()));
        }
        let r = &mut reader;
        let key = Self {
            circuit_digest,
            n_public,
            domain_size,
            alpha_1: pk_point::<C, _>(r, "alpha_1")?,
            beta_1: pk_point::<C, _>(r, "beta_1")?,
            delta_1: pk_point::<C, _>(r, "delta_1")?,
            beta_2: pk_point::<C, _>(r, "beta_2")?,
            delta_2: pk_point::<C, _>(r, "delta_2")?,
            a: pk_list::<C, _>(r, n_wires, "A")?,
            b1: pk_list::<C, _>(r, n_wires, "B1")?,
            b2: pk_list::<C, _>(r, n_wires, "B2")?,
            k: pk_list::<C, _>(r, n_wires, "K")?,
            h: pk_list::<C, _>(r, domain_size, "H")?,
        };
        let fixed = [key.alpha_1, key.beta_1, key.delta_1].iter().any(|p| p.is_zero())
            || [key.beta_2, key.delta_2].iter().any(|p| p.is_zero());
        if fixed {
            return Err(Error::new(PK_CODE, "alpha, beta or delta is the point at infinity"));
        }
        reader.finish()?;
        Ok(key)
    }
}
