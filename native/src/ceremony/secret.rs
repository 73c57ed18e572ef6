//! Secrets of a contribution, and the public randomness that can end a ceremony.

use ark_ff::PrimeField;
use sha2::{Digest, Sha256, Sha512};
use zeroize::{Zeroize, Zeroizing};

use crate::error::{Error, Result};

/// snarkjs asks for at least 2^10 hashes of a beacon.
pub const BEACON_EXPONENT_MIN: u8 = 10;
/// 2^24 hashes take seconds; every verifier has to compute them.
pub const BEACON_EXPONENT_MAX: u8 = 24;
/// The length has one byte in both file formats.
pub const BEACON_BYTES_MAX: usize = 255;

/// A scalar other than 0 and 1 from the system's generator with the contributor's `entropy` hashed in. The result is as
/// unpredictable as the better of the two.
pub fn random_scalar<F: PrimeField>(entropy: &[u8]) -> Result<Zeroizing<F>> {
    let mut system = Zeroizing::new([0u8; 64]);
    loop {
        getrandom::fill(system.as_mut())
            .map_err(|e| Error::new("randomness", format!("the system generator failed: {e}")))?;
        let mut hash = Sha512::new();
        hash.update(b"sits-ceremony-secret");
        hash.update(system.as_ref());
        hash.update(entropy);
        let mut wide: [u8; 64] = hash.finalize().into();
        let scalar = Zeroizing::new(F::from_le_bytes_mod_order(&wide));
        wide.zeroize();
        if *scalar != F::ZERO && *scalar != F::ONE {
            return Ok(scalar);
        }
    }
}

/// Public randomness of a later date (a block's hash, a lottery draw), hashed 2^exponent times so that whoever
/// influences it cannot try many values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beacon {
    pub value: Vec<u8>,
    pub exponent: u8,
}

impl Beacon {
    pub fn new(value: Vec<u8>, exponent: u8) -> Result<Self> {
        let beacon = Self { value, exponent };
        beacon.check().map_err(|detail| Error::new("beacon", detail)).map(|()| beacon)
    }

    /// The limits, as text of what breaks them.
    pub fn check(&self) -> std::result::Result<(), String> {
        if !(BEACON_EXPONENT_MIN..=BEACON_EXPONENT_MAX).contains(&self.exponent) {
            return Err(format!("a beacon to be hashed 2^{} times", self.exponent));
        }
        if self.value.is_empty() || self.value.len() > BEACON_BYTES_MAX {
            return Err(format!("a beacon of {} bytes", self.value.len()));
        }
        Ok(())
    }

    pub fn digest(&self) -> [u8; 32] {
        let mut digest: [u8; 32] = Sha256::digest(&self.value).into();
        for _ in 1..1u64 << self.exponent {
            digest = Sha256::digest(digest).into();
        }
        digest
    }
}
