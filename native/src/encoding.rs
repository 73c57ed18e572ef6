//! Canonical point encodings (see "Proof and key bytes" in docs/interfaces.md).
//!
//! Big-endian coordinates, the imaginary part of G2's first; the top bits of the first byte are flags that say whether
//! y is the larger of the two (compared by its imaginary part, then its real part) and whether the point is infinity:
//! see [`PointFlags`]. Every decoder accepts exactly one encoding of each point and checks the curve equation and the
//! subgroup.

use ark_ec::short_weierstrass::{Affine, SWCurveConfig};
use ark_ec::AffineRepr;
use ark_ff::{AdditiveGroup, BigInteger, Field, PrimeField};

use crate::curve::{Curve, PointFlags};

/// Why bytes are not a point; the text goes into error messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PointFault {
    Length,
    Flags,
    NotCanonical,
    OffCurve,
    Subgroup,
}

impl PointFault {
    pub fn text(self) -> &'static str {
        match self {
            Self::Length => "wrong number of bytes",
            Self::Flags => "flag bits or infinity encoding not allowed here",
            Self::NotCanonical => "coordinate not below the field modulus",
            Self::OffCurve => "not on the curve",
            Self::Subgroup => "not in the prime-order subgroup",
        }
    }
}

type PointResult<T> = std::result::Result<T, PointFault>;

/// Bytes of a point of group `P` of curve `C`, compressed; the uncompressed form has twice as many.
pub fn compressed_bytes<C: Curve, P: SWCurveConfig>() -> usize {
    C::FQ_BYTES * P::BaseField::extension_degree() as usize
}

/// Whether y is the larger of y and −y: the parts from the last to the first, the first one that is not zero decides.
fn is_larger<F: Field>(y: &F) -> bool {
    y.to_base_prime_field_elements().fold(false, |before, part| {
        if part == F::BasePrimeField::ZERO {
            before
        } else {
            part.into_bigint() > (-part).into_bigint()
        }
    })
}

/// The last part first, each big-endian in `size` bytes.
fn write_field<F: Field>(value: &F, size: usize, out: &mut Vec<u8>) {
    let start = out.len();
    for part in value.to_base_prime_field_elements() {
        out.extend_from_slice(&part.into_bigint().to_bytes_le()[..size]);
    }
    // Little-endian from the first part on is big-endian from the last on, backwards.
    out[start..].reverse();
}

/// `mask` has the bits of the first byte that are flags.
fn read_field<F: Field>(bytes: &[u8], size: usize, mask: u8) -> PointResult<F> {
    let mut parts = Vec::with_capacity(F::extension_degree() as usize);
    for (i, chunk) in bytes.chunks_exact(size).enumerate().rev() {
        let mut number = <F::BasePrimeField as PrimeField>::BigInt::default();
        let words = number.as_mut();
        for (at, byte) in chunk.iter().rev().enumerate() {
            let byte = if i == 0 && at + 1 == size { byte & !mask } else { *byte };
            words[at / 8] |= u64::from(byte) << (8 * (at % 8));
        }
        parts.push(F::BasePrimeField::from_bigint(number).ok_or(PointFault::NotCanonical)?);
    }
    F::from_base_prime_field_elems(parts).ok_or(PointFault::Length)
}

fn infinity<P: SWCurveConfig>(bytes: &[u8], flag: u8) -> PointResult<Affine<P>> {
    if bytes[0] == flag && bytes[1..].iter().all(|b| *b == 0) {
        Ok(Affine::zero())
    } else {
        Err(PointFault::Flags)
    }
}

/// Nothing to check in a group that is the whole curve.
fn in_subgroup<P: SWCurveConfig>(point: Affine<P>) -> PointResult<Affine<P>> {
    if P::cofactor_is_one() || point.is_in_correct_subgroup_assuming_on_curve() {
        Ok(point)
    } else {
        Err(PointFault::Subgroup)
    }
}

pub fn compress<C: Curve, P: SWCurveConfig>(point: &Affine<P>, out: &mut Vec<u8>) {
    let PointFlags { smaller_y, larger_y, infinity, .. } = C::FLAGS;
    let start = out.len();
    match point.xy() {
        None => {
            out.resize(start + compressed_bytes::<C, P>(), 0);
            out[start] = infinity;
        }
        Some((x, y)) => {
            write_field(&x, C::FQ_BYTES, out);
            out[start] |= if is_larger(&y) { larger_y } else { smaller_y };
        }
    }
}

pub fn decompress<C: Curve, P: SWCurveConfig>(bytes: &[u8]) -> PointResult<Affine<P>> {
    if bytes.len() != compressed_bytes::<C, P>() {
        return Err(PointFault::Length);
    }
    let flags = bytes[0] & C::FLAGS.mask;
    if flags == C::FLAGS.infinity {
        return infinity(bytes, flags);
    }
    let larger = flags == C::FLAGS.larger_y;
    if !larger && flags != C::FLAGS.smaller_y {
        return Err(PointFault::Flags);
    }
    let x: P::BaseField = read_field(bytes, C::FQ_BYTES, C::FLAGS.mask)?;
    let (a, b) = Affine::<P>::get_ys_from_x_unchecked(x).ok_or(PointFault::OffCurve)?;
    in_subgroup(Affine::new_unchecked(x, if is_larger(&a) == larger { a } else { b }))
}

pub fn write_uncompressed<C: Curve, P: SWCurveConfig>(point: &Affine<P>, out: &mut Vec<u8>) {
    let start = out.len();
    match point.xy() {
        None => {
            out.resize(start + 2 * compressed_bytes::<C, P>(), 0);
            out[start] = C::FLAGS.infinity_uncompressed;
        }
        Some((x, y)) => {
            write_field(&x, C::FQ_BYTES, out);
            write_field(&y, C::FQ_BYTES, out);
        }
    }
}

pub fn read_uncompressed<C: Curve, P: SWCurveConfig>(bytes: &[u8]) -> PointResult<Affine<P>> {
    let size = compressed_bytes::<C, P>();
    if bytes.len() != 2 * size {
        return Err(PointFault::Length);
    }
    let flags = bytes[0] & C::FLAGS.mask;
    if flags == C::FLAGS.infinity_uncompressed {
        return infinity(bytes, flags);
    }
    if flags != 0 {
        return Err(PointFault::Flags);
    }
    let coordinate = |bytes| read_field::<P::BaseField>(bytes, C::FQ_BYTES, 0);
    let point = Affine::<P>::new_unchecked(coordinate(&bytes[..size])?, coordinate(&bytes[size..])?);
    // The library takes the coordinates (0, 0) for infinity; on these curves they are no point, and infinity has its flag.
    if point.is_zero() || !point.is_on_curve() {
        return Err(PointFault::OffCurve);
    }
    in_subgroup(point)
}
