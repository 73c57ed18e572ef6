//! Groth16 over BN254 and BLS12-381 for fixed circuits. See docs/interfaces.md ("native") for the formats.

#[cfg(test)]
mod agreement;
pub mod ceremony;
pub mod circuit;
pub mod curve;
pub mod domain;
pub mod encoding;
pub mod error;
pub mod field;
pub mod kernel;
pub mod keys;
pub mod msm;
mod parser;
pub mod proof;
pub mod prover;
#[cfg(feature = "pyo3")]
mod python;
mod quotient;
mod reader;
mod rows;
mod sealed;
pub mod setup;
mod tables;
pub mod team;
pub mod verifier;
pub mod witness;
#[cfg(test)]
mod wrong_kernels;
