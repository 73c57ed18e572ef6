//! A proof and its only encoding: A ‖ B ‖ C, compressed.

use ark_ec::AffineRepr;

use crate::curve::{Curve, G1Affine, G2Affine};
use crate::encoding as enc;
use crate::error::{Error, Result};

pub const PROOF_POINT: &str = "proof-point";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proof<C: Curve> {
    pub a: G1Affine<C>,
    pub b: G2Affine<C>,
    pub c: G1Affine<C>,
}

impl<C: Curve> Proof<C> {
    /// Two G1 points and one G2 point: 128 bytes on BN254, 192 on BLS12-381.
    pub const BYTES: usize = 4 * C::FQ_BYTES;

    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(Self::BYTES);
        enc::compress::<C, _>(&self.a, &mut out);
        enc::compress::<C, _>(&self.b, &mut out);
        enc::compress::<C, _>(&self.c, &mut out);
        out
    }

    /// Canonical encoding, curve, subgroup, not infinity.
    pub fn decode(data: &[u8]) -> Result<Self> {
        let fail = |detail: String| Err(Error::new(PROOF_POINT, detail));
        if data.len() != Self::BYTES {
            return fail(format!("{} bytes, expected {}", data.len(), Self::BYTES));
        }
        let named =
            |name: &'static str| move |f: enc::PointFault| Error::new(PROOF_POINT, format!("{name}: {}", f.text()));
        let (a, rest) = data.split_at(C::FQ_BYTES);
        let (b, c) = rest.split_at(2 * C::FQ_BYTES);
        let proof = Self {
            a: enc::decompress::<C, _>(a).map_err(named("A"))?,
            b: enc::decompress::<C, _>(b).map_err(named("B"))?,
            c: enc::decompress::<C, _>(c).map_err(named("C"))?,
        };
        if proof.a.is_zero() || proof.b.is_zero() || proof.c.is_zero() {
            return fail("a point at infinity".into());
        }
        Ok(proof)
    }
}
