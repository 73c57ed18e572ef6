//! Small bridges between machine integers and a scalar field of four words.

use ark_ff::{BigInt, PrimeField};
use zeroize::Zeroize;

use crate::error::{Error, Result};

/// Bytes of the command context: 248 bits, always below the field's modulus.
pub const CTX_BYTES: usize = 31;

pub fn fr_from_i128<F: PrimeField>(value: i128) -> F {
    let magnitude = F::from(value.unsigned_abs());
    if value < 0 {
        -magnitude
    } else {
        magnitude
    }
}

pub fn fr_from_i64<F: PrimeField>(value: i64) -> F {
    fr_from_i128(i128::from(value))
}

/// The 31 context bytes as a big-endian integer.
pub fn fr_from_ctx<F: PrimeField>(ctx: &[u8]) -> Result<F> {
    if ctx.len() != CTX_BYTES {
        return Err(Error::new("ctx-length", format!("ctx has {} bytes, expected {CTX_BYTES}", ctx.len())));
    }
    Ok(F::from_be_bytes_mod_order(ctx))
}

/// 32 big-endian bytes, refused unless below the modulus.
pub fn fr_from_canonical<F: PrimeField<BigInt = BigInt<4>>>(bytes: &[u8; 32]) -> Option<F> {
    F::from_bigint(bigint_from_be(bytes))
}

pub fn bigint_from_be(bytes: &[u8; 32]) -> BigInt<4> {
    let mut limbs = [0u64; 4];
    for (limb, chunk) in limbs.iter_mut().rev().zip(bytes.chunks_exact(8)) {
        let mut word = [0u8; 8];
        word.copy_from_slice(chunk);
        *limb = u64::from_be_bytes(word);
    }
    BigInt::new(limbs)
}

pub fn fr_to_be<F: PrimeField<BigInt = BigInt<4>>>(value: &F) -> [u8; 32] {
    let mut out = [0u8; 32];
    for (chunk, limb) in out.chunks_exact_mut(8).zip(value.into_bigint().0.iter().rev()) {
        chunk.copy_from_slice(&limb.to_be_bytes());
    }
    out
}

/// A uniform non-zero scalar from the operating system's generator.
///
/// 512 bits are reduced, so that the bias is below 2^-256; the buffer is erased.
pub fn random_fr<F: PrimeField>() -> Result<F> {
    let mut wide = [0u8; 64];
    let mut value = F::ZERO;
    while value == F::ZERO {
        getrandom::fill(&mut wide)
            .map_err(|e| Error::new("randomness", format!("the system generator failed: {e}")))?;
        value = F::from_be_bytes_mod_order(&wide);
    }
    wide.zeroize();
    Ok(value)
}

/// x^e for a machine-word exponent.
pub fn pow<F: PrimeField>(base: F, exponent: u64) -> F {
    base.pow([exponent])
}

/// Inverse, with a typed error instead of a panic on zero.
pub fn inverse<F: PrimeField>(value: F) -> Result<F> {
    value.inverse().ok_or_else(|| Error::new("internal", "division by zero in the field"))
}
