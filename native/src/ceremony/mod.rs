//! The set-up ceremony: keys that nobody can forge under as long as one contributor erased its secrets.
//!
//! Phase 1 (any circuit): powers of τ with α and β, in the scheme and with the records of Bowe, Gabizon, Miers,
//! "Scalable Multi-party Computation for zk-SNARK Parameters in the Random Beacon Model" (2017), as the `.ptau` files
//! of snarkjs hold them, so that a ceremony passes between the two tools with its history.
//! Phase 2 (one circuit): each contributor multiplies δ and γ by secrets of its own and proves that it knows them
//! (Schnorr, bound to the hash of everything before). Kohlweiss, Maller, Siim, Volkhov, "Snarky Ceremonies" (ASIACRYPT
//! 2021) show that Groth16 stays sound under such updates. γ is updated as well because our key rules refuse a
//! generator there.
//!
//! Secrets come from the system's generator, with the contributor's own text hashed in, live in memory only and are
//! erased. Point arithmetic on them is not constant-time: contribute on a machine that nobody else uses.

pub mod blake2b;
pub mod chacha;
pub mod chain;
pub mod derive;
pub mod groups;
pub mod phase1;
pub mod phase2;
pub mod points;
pub mod ptau;
#[cfg(feature = "pyo3")]
pub mod python;
pub mod record;
pub mod secret;
pub mod stream;
#[cfg(test)]
mod tests;
pub mod transcript;
