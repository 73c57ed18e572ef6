//! Canonical point encodings (see "Proof and key bytes" in docs/interfaces.md).
//!
//! Big-endian coordinates; the two top bits of the first byte are the flags: 10 smaller y, 11 larger y,
//! 01 infinity, 00 uncompressed (proving keys only). G2 puts the imaginary part first and compares y by its
//! imaginary part, then its real part. Every decoder accepts exactly one encoding of each point and checks the
//! curve equation and the subgroup.

use ark_bn254::{Fq, Fq2, G1Affine, G2Affine};
use ark_ec::AffineRepr;
use ark_ff::{AdditiveGroup, PrimeField};

use crate::field::{be_from_bigint, bigint_from_be};

pub const G1_BYTES: usize = 32;
pub const G2_BYTES: usize = 64;
pub const G1_UNCOMPRESSED_BYTES: usize = 64;
pub const G2_UNCOMPRESSED_BYTES: usize = 128;

const FLAGS: u8 = 0b1100_0000;
const FLAG_SMALLER: u8 = 0b1000_0000;
const FLAG_LARGER: u8 = 0b1100_0000;
const FLAG_INFINITY: u8 = 0b0100_0000;

/// Why bytes are not a point; the text goes into error messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PointFault {
    Flags,
    NotCanonical,
    OffCurve,
    Subgroup,
}

impl PointFault {
    pub fn text(self) -> &'static str {
        match self {
            Self::Flags => "flag bits or infinity encoding not allowed here",
            Self::NotCanonical => "coordinate not below the field modulus",
            Self::OffCurve => "not on the curve",
            Self::Subgroup => "not in the prime-order subgroup",
        }
    }
}

type PointResult<T> = std::result::Result<T, PointFault>;

fn fq_to_be(value: &Fq) -> [u8; 32] {
    be_from_bigint(&value.into_bigint())
}

fn fq_from_be(bytes: &[u8], mask_flags: bool) -> PointResult<Fq> {
    let mut word = [0u8; 32];
    word.copy_from_slice(&bytes[..32]);
    if mask_flags {
        word[0] &= !FLAGS;
    }
    Fq::from_bigint(bigint_from_be(&word)).ok_or(PointFault::NotCanonical)
}

fn fq_is_larger(y: &Fq) -> bool {
    y.into_bigint() > (-*y).into_bigint()
}

fn fq2_is_larger(y: &Fq2) -> bool {
    if y.c1 == Fq::ZERO {
        fq_is_larger(&y.c0)
    } else {
        fq_is_larger(&y.c1)
    }
}

fn infinity_or_fault<T>(bytes: &[u8], point: T) -> PointResult<T> {
    if bytes[0] == FLAG_INFINITY && bytes[1..].iter().all(|b| *b == 0) {
        Ok(point)
    } else {
        Err(PointFault::Flags)
    }
}

pub fn g1_compress(point: &G1Affine) -> [u8; G1_BYTES] {
    let mut out = [0u8; G1_BYTES];
    match point.xy() {
        None => out[0] = FLAG_INFINITY,
        Some((x, y)) => {
            out = fq_to_be(&x);
            out[0] |= if fq_is_larger(&y) { FLAG_LARGER } else { FLAG_SMALLER };
        }
    }
    out
}

/// G1 has cofactor 1: on the curve is in the group.
pub fn g1_decompress(bytes: &[u8; G1_BYTES]) -> PointResult<G1Affine> {
    match bytes[0] & FLAGS {
        FLAG_INFINITY => infinity_or_fault(bytes, G1Affine::zero()),
        FLAG_SMALLER | FLAG_LARGER => {
            let x = fq_from_be(bytes, true)?;
            let greatest = bytes[0] & FLAGS == FLAG_LARGER;
            let (a, b) = G1Affine::get_ys_from_x_unchecked(x).ok_or(PointFault::OffCurve)?;
            Ok(G1Affine::new_unchecked(x, if fq_is_larger(&a) == greatest { a } else { b }))
        }
        _ => Err(PointFault::Flags),
    }
}

pub fn g2_compress(point: &G2Affine) -> [u8; G2_BYTES] {
    let mut out = [0u8; G2_BYTES];
    match point.xy() {
        None => out[0] = FLAG_INFINITY,
        Some((x, y)) => {
            out[..32].copy_from_slice(&fq_to_be(&x.c1));
            out[32..].copy_from_slice(&fq_to_be(&x.c0));
            out[0] |= if fq2_is_larger(&y) { FLAG_LARGER } else { FLAG_SMALLER };
        }
    }
    out
}

pub fn g2_decompress(bytes: &[u8; G2_BYTES]) -> PointResult<G2Affine> {
    match bytes[0] & FLAGS {
        FLAG_INFINITY => infinity_or_fault(bytes, G2Affine::zero()),
        FLAG_SMALLER | FLAG_LARGER => {
            let x = Fq2::new(fq_from_be(&bytes[32..], false)?, fq_from_be(&bytes[..32], true)?);
            let greatest = bytes[0] & FLAGS == FLAG_LARGER;
            let (a, b) = G2Affine::get_ys_from_x_unchecked(x).ok_or(PointFault::OffCurve)?;
            let y = if fq2_is_larger(&a) == greatest { a } else { b };
            let point = G2Affine::new_unchecked(x, y);
            if point.is_in_correct_subgroup_assuming_on_curve() {
                Ok(point)
            } else {
                Err(PointFault::Subgroup)
            }
        }
        _ => Err(PointFault::Flags),
    }
}

pub fn g1_write_uncompressed(point: &G1Affine, out: &mut Vec<u8>) {
    let mut bytes = [0u8; G1_UNCOMPRESSED_BYTES];
    match point.xy() {
        None => bytes[0] = FLAG_INFINITY,
        Some((x, y)) => {
            bytes[..32].copy_from_slice(&fq_to_be(&x));
            bytes[32..].copy_from_slice(&fq_to_be(&y));
        }
    }
    out.extend_from_slice(&bytes);
}

pub fn g1_read_uncompressed(bytes: &[u8]) -> PointResult<G1Affine> {
    match bytes[0] & FLAGS {
        FLAG_INFINITY => infinity_or_fault(bytes, G1Affine::zero()),
        0 => {
            let point = G1Affine::new_unchecked(fq_from_be(&bytes[..32], false)?, fq_from_be(&bytes[32..], false)?);
            if point.is_on_curve() {
                Ok(point)
            } else {
                Err(PointFault::OffCurve)
            }
        }
        _ => Err(PointFault::Flags),
    }
}

pub fn g2_write_uncompressed(point: &G2Affine, out: &mut Vec<u8>) {
    let mut bytes = [0u8; G2_UNCOMPRESSED_BYTES];
    match point.xy() {
        None => bytes[0] = FLAG_INFINITY,
        Some((x, y)) => {
            for (chunk, coordinate) in bytes.chunks_exact_mut(32).zip([&x.c1, &x.c0, &y.c1, &y.c0]) {
                chunk.copy_from_slice(&fq_to_be(coordinate));
            }
        }
    }
    out.extend_from_slice(&bytes);
}

pub fn g2_read_uncompressed(bytes: &[u8]) -> PointResult<G2Affine> {
    match bytes[0] & FLAGS {
        FLAG_INFINITY => infinity_or_fault(bytes, G2Affine::zero()),
        0 => {
            let coordinate = |i: usize| fq_from_be(&bytes[32 * i..32 * (i + 1)], false);
            let x = Fq2::new(coordinate(1)?, coordinate(0)?);
            let y = Fq2::new(coordinate(3)?, coordinate(2)?);
            let point = G2Affine::new_unchecked(x, y);
            if !point.is_on_curve() {
                Err(PointFault::OffCurve)
            } else if !point.is_in_correct_subgroup_assuming_on_curve() {
                Err(PointFault::Subgroup)
            } else {
                Ok(point)
            }
        }
        _ => Err(PointFault::Flags),
    }
}
