//! Small bridges between machine integers and the scalar field of BN254.

use ark_bn254::Fr;
use ark_ff::{AdditiveGroup, BigInteger, Field, PrimeField};
use zeroize::Zeroize;

use crate::error::{Error, Result};

/// Bytes of the command context: 248 bits, always below the field's modulus.
pub const CTX_BYTES: usize = 31;

pub fn fr_from_i128(value: i128) -> Fr {
    let magnitude = Fr::from(value.unsigned_abs());
    if value < 0 {
        -magnitude
    } else {
        magnitude
    }
}

pub fn fr_from_i64(value: i64) -> Fr {
    fr_from_i128(i128::from(value))
}

/// The 31 context bytes as a big-endian integer.
pub fn fr_from_ctx(ctx: &[u8]) -> Result<Fr> {
    if ctx.len() != CTX_BYTES {
        return Err(Error::new("ctx-length", format!("ctx has {} bytes, expected {CTX_BYTES}", ctx.len())));
    }
    Ok(Fr::from_be_bytes_mod_order(ctx))
}

/// 32 big-endian bytes, refused unless below the modulus.
pub fn fr_from_canonical(bytes: &[u8; 32]) -> Option<Fr> {
    Fr::from_bigint(bigint_from_be(bytes))
}

pub fn bigint_from_be(bytes: &[u8; 32]) -> ark_ff::BigInt<4> {
    let mut limbs = [0u64; 4];
    for (limb, chunk) in limbs.iter_mut().rev().zip(bytes.chunks_exact(8)) {
        let mut word = [0u8; 8];
        word.copy_from_slice(chunk);
        *limb = u64::from_be_bytes(word);
    }
    ark_ff::BigInt::new(limbs)
}

pub fn be_from_bigint(value: &ark_ff::BigInt<4>) -> [u8; 32] {
    let mut out = [0u8; 32];
    for (chunk, limb) in out.chunks_exact_mut(8).zip(value.0.iter().rev()) {
        chunk.copy_from_slice(&limb.to_be_bytes());
    }
    out
}

pub fn fr_to_be(value: &Fr) -> [u8; 32] {
    be_from_bigint(&value.into_bigint())
}

/// A uniform non-zero scalar from the operating system's generator.
///
/// 512 bits are reduced, so that the bias is below 2^-256; the buffer is erased.
pub fn random_fr() -> Result<Fr> {
    let mut wide = [0u8; 64];
    let mut value = Fr::ZERO;
    while value == Fr::ZERO {
        getrandom::fill(&mut wide)
            .map_err(|e| Error::new("randomness", format!("the system generator failed: {e}")))?;
        value = Fr::from_be_bytes_mod_order(&wide);
    }
    wide.zeroize();
    Ok(value)
}

/// x^e for a machine-word exponent.
pub fn pow(base: Fr, exponent: u64) -> Fr {
    base.pow([exponent])
}

/// Inverse, with a typed error instead of a panic on zero.
pub fn inverse(value: Fr) -> Result<Fr> {
    value.inverse().ok_or_else(|| Error::new("internal", "division by zero in the field"))
}

/// Bits of the modulus; digits of a scalar decomposition must cover one more for the carry.
pub fn modulus_bits() -> u32 {
    Fr::MODULUS.num_bits()
}
