//! Circuits as values: the open ones of `SITSR1C1` and the sealed ones of `SITSR1C2` (parser.rs reads the files).
//!
//! A parsed circuit is *complete*: its program writes every output and every private wire exactly once, and reads
//! only wires that already have a value. The witness generator relies on that.
//!
//! Wires of an open circuit: 1, inputs, outputs, ctx | integer wires. Of a sealed one: 1, commitment, outputs, ctx |
//! inputs, integer wires, field wires, the salt first among these. Those before the bar are public.

use ark_ff::{BigInt, PrimeField};

use crate::curve::{Curve, CurveId};
use crate::error::{Error, Result};
use crate::field::fr_from_i64;
use crate::kernel::Limbs;
use crate::parser::Parser;

/// The whole file is hashed and kept in memory: 64 MiB is ten times the largest network measured.
pub const FILE_BYTES_MAX: usize = 64 << 20;
/// A command with more signals would not fit one Ethernet frame.
pub const SIGNALS_MAX: u32 = 1024;
pub const WIRES_MAX: u32 = 1 << 20;
pub const CONSTRAINTS_MAX: u32 = 1 << 20;
/// Each operation writes at least one wire, so more could never be complete.
pub const OPS_MAX: u32 = WIRES_MAX;
pub const TERMS_MAX: usize = 1 << 24;
/// The top bit's weight 2^k must fit the i64 coefficients.
pub const BITS_MAX: u8 = 63;
/// Shifts act on i128 values.
pub const SHIFT_MAX: u8 = 126;

/// Linear combination; wires strictly ascending, coefficients non-zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lc(pub Vec<(u32, i64)>);

impl Lc {
    pub fn terms<F: PrimeField>(&self) -> Vec<(u32, F)> {
        self.0.iter().map(|(wire, c)| (*wire, fr_from_i64(*c))).collect()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    Bits { value: Lc, k: u8, first: u32 },
    Mul { a: Lc, b: Lc, shift: u8, wire: u32 },
    Out { value: Lc, index: u32 },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Constraint {
    pub a: Lc,
    pub b: Lc,
    pub c: Lc,
}

/// Linear combination with coefficients of full size, in [1, r) as plain integers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldLc(pub Vec<(u32, Limbs<4>)>);

impl FieldLc {
    /// The parser has checked that coefficients are below r.
    pub fn terms<F: PrimeField<BigInt = BigInt<4>>>(&self) -> Vec<(u32, F)> {
        self.0.iter().map(|(wire, c)| (*wire, F::from_bigint(BigInt::new(*c)).unwrap_or(F::ZERO))).collect()
    }
}

/// `wire` = a·b in the field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldMul {
    pub a: FieldLc,
    pub b: FieldLc,
    pub wire: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldConstraint {
    pub a: FieldLc,
    pub b: FieldLc,
    pub c: FieldLc,
}

/// What a sealed circuit has beside its integer part, which never reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed {
    /// Salt and results of `products`.
    pub n_field: u32,
    pub products: Vec<FieldMul>,
    /// The value of the commitment.
    pub commitment: FieldLc,
    /// They follow the integer rows.
    pub constraints: Vec<FieldConstraint>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Circuit {
    pub curve: CurveId,
    pub n_inputs: u32,
    pub n_outputs: u32,
    pub n_witness: u32,
    pub ops: Vec<Op>,
    /// The integer rows.
    pub constraints: Vec<Constraint>,
    /// None in an open circuit.
    pub sealed: Option<Sealed>,
    /// SHA-256 of the file; the proving key names it.
    pub digest: [u8; 32],
}

pub const COMMITMENT_WIRE: u32 = 1;

impl Circuit {
    /// Public signals, without the constant: (inputs or commitment), outputs, ctx.
    pub fn n_public(&self) -> u32 {
        self.ctx_wire()
    }

    /// Rows in the order of their domain points: integer rows, then field rows.
    pub fn n_rows(&self) -> usize {
        self.constraints.len() + self.sealed.as_ref().map_or(0, |s| s.constraints.len())
    }

    /// All rows as field elements: [a, b, c] of each, as (wire, coefficient).
    pub fn rows<F: PrimeField<BigInt = BigInt<4>>>(&self) -> impl Iterator<Item = [Vec<(u32, F)>; 3]> + '_ {
        let integers = self.constraints.iter().map(|row| [&row.a, &row.b, &row.c].map(Lc::terms));
        let sealed = self.sealed.iter().flat_map(|sealed| &sealed.constraints);
        integers.chain(sealed.map(|row| [&row.a, &row.b, &row.c].map(FieldLc::terms)))
    }

    pub fn first_output(&self) -> u32 {
        if self.sealed.is_some() {
            COMMITMENT_WIRE + 1
        } else {
            1 + self.n_inputs
        }
    }

    pub fn ctx_wire(&self) -> u32 {
        self.first_output() + self.n_outputs
    }

    pub fn first_private(&self) -> u32 {
        self.ctx_wire() + 1
    }

    pub fn first_input(&self) -> u32 {
        if self.sealed.is_some() {
            self.first_private()
        } else {
            1
        }
    }

    /// The first wire that an operation on integers may write, apart from the outputs.
    pub fn first_witness(&self) -> u32 {
        self.first_private() + if self.sealed.is_some() { self.n_inputs } else { 0 }
    }

    /// The first field wire; the end of the wires in an open circuit.
    pub fn salt_wire(&self) -> u32 {
        self.first_witness() + self.n_witness
    }

    pub fn n_wires(&self) -> u32 {
        self.salt_wire() + self.sealed.as_ref().map_or(0, |s| s.n_field)
    }

    pub fn parse(data: &[u8]) -> Result<Self> {
        Parser::new(data)?.run()
    }

    /// Error `curve-mismatch` if the circuit is for another curve than `C`.
    pub fn check_curve<C: Curve>(&self) -> Result<()> {
        if self.curve.byte() == C::ID {
            return Ok(());
        }
        Err(Error::new("curve-mismatch", format!("the circuit is for {}, expected {}", self.curve.name(), C::NAME)))
    }
}
