//! Points as bytes, in the four forms that the files and hashes use. Every decoder checks curve and subgroup.
//!
//! | form | bytes | used in |
//! |---|---|---|
//! | compressed | big-endian x, flags as in docs/interfaces.md | our transcripts |
//! | Montgomery | little-endian x, y times 2^(64·limbs); infinity is all zero | `.ptau` |
//! | plain | big-endian x, y, no flags | challenge hashes of `.ptau` |
//! | short | big-endian x, top bit for the larger y | response hashes of `.ptau` |
//!
//! Elements of the quadratic field: imaginary part first where big-endian, real part first where little-endian.

use std::marker::PhantomData;

use ark_ec::short_weierstrass::{Affine, SWCurveConfig};
use ark_ec::{AffineRepr, CurveGroup};
use ark_ff::{AdditiveGroup, Field, PrimeField};

use crate::ceremony::groups::double_and_add;
use crate::curve::Curve;
use crate::encoding::{self, PointFault};

/// The prime field below the coordinates.
type Base<P> = <<P as ark_ec::CurveConfig>::BaseField as Field>::BasePrimeField;
type Coordinate<P> = <P as ark_ec::CurveConfig>::BaseField;

const TOP: u8 = 0x80;
const SECOND: u8 = 0x40;
pub type Fault = &'static str;
const NOT_CANONICAL: Fault = "a coordinate not below the field modulus";
const OFF_CURVE: Fault = "not on the curve";
const SUBGROUP: Fault = "not in the prime-order subgroup";

/// Encodings of the points of one group.
pub struct Codec<C: Curve, P: SWCurveConfig> {
    to_montgomery: Base<P>,
    from_montgomery: Base<P>,
    /// Bytes of one element of the prime field.
    word: usize,
    degree: usize,
    group: PhantomData<(C, P)>,
}

impl<C: Curve, P: SWCurveConfig> Default for Codec<C, P> {
    fn default() -> Self {
        let word = Base::<P>::MODULUS.as_ref().len() * 8;
        let to_montgomery = Base::<P>::from(2u64).pow([8 * word as u64]);
        Self {
            to_montgomery,
            // A power of two is never zero in a field of odd order.
            from_montgomery: to_montgomery.inverse().unwrap_or(Base::<P>::ZERO),
            word,
            degree: Coordinate::<P>::extension_degree() as usize,
            group: PhantomData,
        }
    }
}

impl<C: Curve, P: SWCurveConfig> Codec<C, P> {
    pub fn compressed_bytes(&self) -> usize {
        self.word * self.degree
    }

    pub fn montgomery_bytes(&self) -> usize {
        2 * self.word * self.degree
    }

    fn write_big(&self, value: &Coordinate<P>, out: &mut Vec<u8>) {
        let words: Vec<Base<P>> = value.to_base_prime_field_elements().collect();
        for word in words.iter().rev() {
            out.extend(word.into_bigint().as_ref().iter().rev().flat_map(|limb| limb.to_be_bytes()));
        }
    }

    pub fn write_compressed(&self, point: &Affine<P>, out: &mut Vec<u8>) {
        encoding::compress::<C, P>(point, out);
    }

    pub fn read_compressed(&self, bytes: &[u8]) -> Result<Affine<P>, Fault> {
        encoding::decompress::<C, P>(bytes).map_err(PointFault::text)
    }

    pub fn write_montgomery(&self, point: &Affine<P>, out: &mut Vec<u8>) {
        let start = out.len();
        if let Some((x, y)) = point.xy() {
            for coordinate in [x, y] {
                for word in coordinate.to_base_prime_field_elements() {
                    let shifted = (word * self.to_montgomery).into_bigint();
                    out.extend(shifted.as_ref().iter().flat_map(|limb| limb.to_le_bytes()));
                }
            }
        }
        out.resize(start + self.montgomery_bytes(), 0);
    }

    pub fn read_montgomery(&self, bytes: &[u8]) -> Result<Affine<P>, Fault> {
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(Affine::zero());
        }
        let words = bytes.chunks_exact(self.word).map(|chunk| self.shifted(&limbs_le(chunk)));
        let words = words.collect::<Result<Vec<_>, _>>()?;
        let (x, y) = words.split_at(self.degree);
        let coordinate = |words: &[Base<P>]| {
            Coordinate::<P>::from_base_prime_field_elems(words.iter().copied()).ok_or(NOT_CANONICAL)
        };
        let point = Affine::<P>::new_unchecked(coordinate(x)?, coordinate(y)?);
        if !point.is_on_curve() {
            return Err(OFF_CURVE);
        }
        checked(point.x, point.y)
    }

    fn shifted(&self, limbs: &[u64]) -> Result<Base<P>, Fault> {
        let mut integer = <Base<P> as PrimeField>::BigInt::default();
        integer.as_mut().copy_from_slice(limbs);
        Ok(Base::<P>::from_bigint(integer).ok_or(NOT_CANONICAL)? * self.from_montgomery)
    }

    pub fn write_plain(&self, point: &Affine<P>, out: &mut Vec<u8>) {
        match point.xy() {
            None => out.resize(out.len() + self.montgomery_bytes(), 0),
            Some((x, y)) => [x, y].iter().for_each(|coordinate| self.write_big(coordinate, out)),
        }
    }

    pub fn write_short(&self, point: &Affine<P>, out: &mut Vec<u8>) {
        let start = out.len();
        match point.xy() {
            None => {
                out.resize(start + self.compressed_bytes(), 0);
                out[start] = SECOND;
            }
            Some((x, y)) => {
                self.write_big(&x, out);
                out[start] |= if is_larger(&y) { TOP } else { 0 };
            }
        }
    }

    /// A coordinate drawn from a stream of random bits, as ffjavascript does it: 64 bits at a time, high half first,
    /// least significant word first, cut to the modulus's bits, drawn again when not below it; Montgomery form.
    fn draw_coordinate(&self, random: &mut dyn FnMut() -> u32) -> Coordinate<P> {
        loop {
            let words: Vec<_> = (0..self.degree).map(|_| draw::<Base<P>>(random) * self.from_montgomery).collect();
            if let Some(value) = Coordinate::<P>::from_base_prime_field_elems(words) {
                return value;
            }
        }
    }

    /// A point drawn from a stream of random bits, multiplied by the cofactor; the same one that snarkjs draws.
    pub fn draw_point(&self, random: &mut dyn FnMut() -> u32) -> Affine<P> {
        loop {
            let x = self.draw_coordinate(random);
            let larger = random() & 1 == 1;
            if let Some((first, second)) = Affine::<P>::get_ys_from_x_unchecked(x) {
                let y = if is_larger(&first) == larger { first } else { second };
                return double_and_add(&Affine::new_unchecked(x, y), P::COFACTOR).into_affine();
            }
        }
    }
}

/// An integer below the modulus from a stream of random bits, not yet out of Montgomery form.
pub fn draw<F: PrimeField>(random: &mut dyn FnMut() -> u32) -> F {
    loop {
        let mut integer = F::BigInt::default();
        for limb in integer.as_mut().iter_mut() {
            let high = u64::from(random());
            *limb = high << 32 | u64::from(random());
        }
        let spare = 64 * integer.as_ref().len() as u32 - F::MODULUS_BIT_SIZE;
        if let Some(top) = integer.as_mut().last_mut() {
            *top &= u64::MAX >> spare;
        }
        if let Some(value) = F::from_bigint(integer) {
            return value;
        }
    }
}

fn eight(bytes: &[u8]) -> [u8; 8] {
    let mut out = [0u8; 8];
    out.copy_from_slice(bytes);
    out
}

fn limbs_le(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks_exact(8).map(|chunk| u64::from_le_bytes(eight(chunk))).collect()
}

/// Larger than its negative: by the imaginary part, or by the real one where that is zero.
fn is_larger<F: Field>(y: &F) -> bool {
    let words: Vec<F::BasePrimeField> = y.to_base_prime_field_elements().collect();
    words
        .iter()
        .rev()
        .find(|word| **word != F::BasePrimeField::ZERO)
        .is_some_and(|word| word.into_bigint() > F::BasePrimeField::MODULUS_MINUS_ONE_DIV_TWO)
}

fn checked<P: SWCurveConfig>(x: P::BaseField, y: P::BaseField) -> Result<Affine<P>, Fault> {
    let point = Affine::new_unchecked(x, y);
    if point.is_in_correct_subgroup_assuming_on_curve() {
        Ok(point)
    } else {
        Err(SUBGROUP)
    }
}
