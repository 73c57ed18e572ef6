//! The records of a phase 1: who contributed, with which proof of knowledge, on top of what.
//!
//! A contribution multiplies τ, α and β by secrets. For each secret x it publishes s·G₁, sx·G₁ and x·R, where R is a
//! point of G₂ hashed from the challenge (the hash of the state before) and the other two: only who knows x can make
//! x·R (Bowe, Gabizon, Miers 2017, §3). Hashes and points are those of snarkjs, so that its files are ours and ours its.

use ark_ec::short_weierstrass::SWCurveConfig;
use ark_ec::CurveGroup;
use ark_ff::PrimeField;
use zeroize::Zeroizing;

use crate::ceremony::blake2b::{Blake2b, DIGEST_BYTES, STATE_BYTES};
use crate::ceremony::chacha::ChaCha;
use crate::ceremony::groups::{generator_1, generator_2, same_ratio};
use crate::ceremony::points::{draw, Codec};
use crate::ceremony::secret::{random_scalar, Beacon};
use crate::curve::{Bn254, Curve, G1Affine, G2Affine};
use crate::error::{Error, Result};

pub const HISTORY: &str = "phase1-history";
/// More than ten times the longest public ceremony.
pub const CONTRIBUTIONS_MAX: u32 = 1024;
/// The field has one byte for the length; snarkjs cuts at 64 characters.
pub const NAME_BYTES_MAX: usize = 64;

/// The secrets in the order of the files; also the tags of their hashed points.
pub const SECRETS: [&str; 3] = ["tau", "alpha", "beta"];

pub type Challenge = [u8; DIGEST_BYTES];

/// The points that show what a contribution made of the previous ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Marks<C: Curve> {
    pub tau_1: G1Affine<C>,
    pub tau_2: G2Affine<C>,
    pub alpha_1: G1Affine<C>,
    pub beta_1: G1Affine<C>,
    pub beta_2: G2Affine<C>,
}

impl<C: Curve> Marks<C> {
    pub fn start() -> Self {
        let (first, second) = (generator_1::<C>(), generator_2::<C>());
        Self { tau_1: first, tau_2: second, alpha_1: first, beta_1: first, beta_2: second }
    }
}

/// s·G₁, sx·G₁, x·R.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyProof<C: Curve> {
    pub base: G1Affine<C>,
    pub product: G1Affine<C>,
    pub product_2: G2Affine<C>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Contribution<C: Curve> {
    pub marks: Marks<C>,
    pub keys: [KeyProof<C>; 3],
    /// Hash state of the response before the public key.
    pub state: [u8; STATE_BYTES],
    pub next_challenge: Challenge,
    pub name: Option<String>,
    pub beacon: Option<Beacon>,
}

/// Secrets with the proofs that they are known.
pub struct Keys<C: Curve> {
    pub secrets: [Zeroizing<C::Fr>; 3],
    pub proofs: [KeyProof<C>; 3],
}

/// The encodings of both groups, made once.
pub struct Codecs<C: Curve> {
    pub first: Codec<C, C::G1>,
    pub second: Codec<C, C::G2>,
}

impl<C: Curve> Default for Codecs<C> {
    fn default() -> Self {
        Self { first: Codec::default(), second: Codec::default() }
    }
}

impl<C: Curve> Codecs<C> {
    fn plain(&self, points: &[G1Affine<C>]) -> Vec<u8> {
        let mut out = Vec::new();
        points.iter().for_each(|point| self.first.write_plain(point, &mut out));
        out
    }

    /// R of a proof: a point nobody knows the logarithm of, fixed by everything before.
    fn hashed_point(&self, tag: u8, challenge: &Challenge, base: &G1Affine<C>, product: &G1Affine<C>) -> G2Affine<C> {
        let seed = Blake2b::digest(&[&[tag], challenge, &self.plain(&[*base, *product])]);
        let mut random = ChaCha::new(&seed);
        self.second.draw_point(&mut || random.next_word())
    }

    fn proof(&self, tag: usize, challenge: &Challenge, base: G1Affine<C>, secret: &C::Fr) -> KeyProof<C> {
        let product = (base * secret).into_affine();
        let hashed = self.hashed_point(tag as u8, challenge, &base, &product);
        KeyProof { base, product, product_2: (hashed * secret).into_affine() }
    }

    /// Hash of the whole response: the stored state, then the public key.
    pub fn response(&self, contribution: &Contribution<C>) -> Result<Challenge> {
        let mut hash = Blake2b::restore(&contribution.state)?;
        hash.update(&self.key_bytes(&contribution.keys));
        Ok(hash.finish())
    }

    pub fn key_bytes(&self, keys: &[KeyProof<C>; 3]) -> Vec<u8> {
        let mut out = self.plain(&keys.map(|key| [key.base, key.product]).concat());
        keys.iter().for_each(|key| self.second.write_plain(&key.product_2, &mut out));
        out
    }

    /// Fresh secrets from the system and the contributor's `entropy`.
    pub fn fresh_keys(&self, challenge: &Challenge, entropy: &[u8]) -> Result<Keys<C>> {
        let secrets = [random_scalar(entropy)?, random_scalar(entropy)?, random_scalar(entropy)?];
        let mut proofs = Vec::with_capacity(SECRETS.len());
        for (tag, secret) in secrets.iter().enumerate() {
            let blind: Zeroizing<C::Fr> = random_scalar(entropy)?;
            proofs.push(self.proof(tag, challenge, (generator_1::<C>() * *blind).into_affine(), secret));
        }
        Ok(Keys { secrets, proofs: [proofs[0], proofs[1], proofs[2]] })
    }

    /// The public "secrets" of a beacon.
    pub fn beacon_keys(&self, challenge: &Challenge, beacon: &Beacon) -> Keys<C> {
        let mut random = ChaCha::new(&beacon.digest());
        let from_montgomery = from_montgomery::<C::Fr>();
        let mut scalar = || Zeroizing::new(draw::<C::Fr>(&mut || random.next_word()) * from_montgomery);
        let secrets = [scalar(), scalar(), scalar()];
        let mut tag = 0;
        let proofs = [(); 3].map(|()| {
            let base = self.first.draw_point(&mut || random.next_word());
            tag += 1;
            self.proof(tag - 1, challenge, base, &secrets[tag - 1])
        });
        Keys { secrets, proofs }
    }

    /// The keys of a contribution of ones, for tests.
    #[cfg(test)]
    pub fn identity_keys(&self, challenge: &Challenge, base: G1Affine<C>) -> [KeyProof<C>; 3] {
        [0, 1, 2].map(|tag| self.proof(tag, challenge, base, &C::Fr::from(1u64)))
    }

    /// One link of the chain: the proofs of knowledge against the challenge, and every mark against the one before.
    /// `number` counts from 1. Error `phase1-history`.
    pub fn check_link(
        &self,
        number: usize,
        before: &Marks<C>,
        challenge: &Challenge,
        contribution: &Contribution<C>,
    ) -> Result<()> {
        let fail = |what: &str| {
            let name = contribution.name.as_deref().unwrap_or("no name");
            Err(Error::new(HISTORY, format!("contribution {number} ({name:?}): {what}")))
        };
        if let Some(beacon) = &contribution.beacon {
            if self.beacon_keys(challenge, beacon).proofs != contribution.keys {
                return fail("the keys are not those of its beacon");
            }
        }
        let mut hashed = Vec::with_capacity(SECRETS.len());
        for (tag, key) in contribution.keys.iter().enumerate() {
            let point = self.hashed_point(tag as u8, challenge, &key.base, &key.product);
            if key.base == key.product {
                return fail(&format!("{} is multiplied by one", SECRETS[tag]));
            }
            if !same_ratio::<C>(&key.base, &key.product, &point, &key.product_2) {
                return fail(&format!("no valid proof of knowledge for {}", SECRETS[tag]));
            }
            hashed.push(point);
        }
        let [tau, alpha, beta] = &contribution.keys;
        let after = &contribution.marks;
        for (what, holds) in [
            ("tau in G1", same_ratio::<C>(&before.tau_1, &after.tau_1, &hashed[0], &tau.product_2)),
            ("tau in G2", same_ratio::<C>(&tau.base, &tau.product, &before.tau_2, &after.tau_2)),
            ("alpha", same_ratio::<C>(&before.alpha_1, &after.alpha_1, &hashed[1], &alpha.product_2)),
            ("beta in G1", same_ratio::<C>(&before.beta_1, &after.beta_1, &hashed[2], &beta.product_2)),
            ("beta in G2", same_ratio::<C>(&beta.base, &beta.product, &before.beta_2, &after.beta_2)),
        ] {
            if !holds {
                return fail(&format!("{what} does not follow from the contribution before"));
            }
        }
        Ok(())
    }
}

/// 1 / 2^(64·limbs).
fn from_montgomery<F: PrimeField>() -> F {
    let bits = 64 * F::MODULUS.as_ref().len() as u64;
    F::from(2u64).pow([bits]).inverse().unwrap_or(F::ZERO)
}

/// What a hash over 103 GB gives for BN254 and 2^28, the size of the public ceremony that most files are cut from.
const FIRST_BN254_28: &str = "93da91920d5a54a8a0fde55cd9dc3a10c4f3eef768b62c0948741370864254b4\
                              c1920f3f29d4ebc0ef3acecf2e2db63a755713d77e1ed77347a56fbc317c7a93";

/// The challenge of the first contribution: a hash over the powers of τ = 1.
pub fn first_challenge<C: Curve>(power: u32) -> Challenge {
    if (C::ID, power) == (Bn254::ID, 28) {
        let mut out = [0; DIGEST_BYTES];
        for (byte, digits) in out.iter_mut().zip(FIRST_BN254_28.as_bytes().chunks_exact(2)) {
            *byte = digits.iter().fold(0, |byte, digit| byte << 4 | (*digit as char).to_digit(16).unwrap_or(0) as u8);
        }
        return out;
    }
    hash_of_ones::<C>(power)
}

fn hash_of_ones<C: Curve>(power: u32) -> Challenge {
    let codecs = Codecs::<C>::default();
    let mut hash = Blake2b::default();
    hash.update(&Blake2b::digest(&[]));
    let n = 1usize << power;
    let (mut first, mut second) = (Vec::new(), Vec::new());
    codecs.first.write_plain(&C::G1::GENERATOR, &mut first);
    codecs.second.write_plain(&C::G2::GENERATOR, &mut second);
    for (bytes, count) in [(&first, 2 * n - 1), (&second, n), (&first, n), (&first, n), (&second, 1)] {
        (0..count).for_each(|_| hash.update(bytes));
    }
    hash.finish()
}

/// Error `name`: too long, empty, or with characters that no line of a report should hold.
pub fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(Error::new("name", format!("a contributor's name of {} bytes", name.len())));
    }
    if name.chars().any(char::is_control) {
        return Err(Error::new("name", "a contributor's name with control characters"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Minutes of hashing; the constant was computed with another implementation (hashlib's).
    #[test]
    #[ignore]
    fn the_stored_first_challenge_is_the_computed_one() {
        assert_eq!(first_challenge::<Bn254>(28), hash_of_ones::<Bn254>(28));
    }
}
