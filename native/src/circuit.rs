//! The circuit file `SITSR1C1`: strict parser with every limit checked before memory is taken.
//!
//! A parsed circuit is *complete*: its program writes every output and every private wire exactly once, and reads
//! only wires that already have a value. The witness generator relies on that.

use sha2::{Digest, Sha256};

use crate::curve::{Curve, CurveId};
use crate::error::{Error, Result};
use crate::reader::Reader;

const CODE: &str = "circuit-format";
const MAGIC: &[u8; 8] = b"SITSR1C1";

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

const TERM_BYTES: usize = 12;
const OP_BYTES_MIN: usize = 1 + 2 + 4;
const CONSTRAINT_BYTES_MIN: usize = 6;

/// Linear combination; wires strictly ascending, coefficients non-zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lc(pub Vec<(u32, i64)>);

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

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Circuit {
    pub curve: CurveId,
    pub n_inputs: u32,
    pub n_outputs: u32,
    pub n_witness: u32,
    pub ops: Vec<Op>,
    pub constraints: Vec<Constraint>,
    /// SHA-256 of the file; the proving key names it.
    pub digest: [u8; 32],
}

impl Circuit {
    /// Public signals, without the constant: inputs, outputs, ctx.
    pub fn n_public(&self) -> u32 {
        self.n_inputs + self.n_outputs + 1
    }

    pub fn first_output(&self) -> u32 {
        1 + self.n_inputs
    }

    pub fn ctx_wire(&self) -> u32 {
        self.first_output() + self.n_outputs
    }

    pub fn first_private(&self) -> u32 {
        self.ctx_wire() + 1
    }

    pub fn n_wires(&self) -> u32 {
        self.first_private() + self.n_witness
    }

    pub fn parse(data: &[u8]) -> Result<Self> {
        Parser::new(data)?.run(data)
    }

    /// Error `curve-mismatch` if the circuit is for another curve than `C`.
    pub fn check_curve<C: Curve>(&self) -> Result<()> {
        if self.curve.byte() == C::ID {
            return Ok(());
        }
        Err(Error::new("curve-mismatch", format!("the circuit is for {}, expected {}", self.curve.name(), C::NAME)))
    }
}

struct Header {
    n_inputs: u32,
    n_outputs: u32,
    n_witness: u32,
    n_ops: u32,
    n_constraints: u32,
}

struct Parser<'a> {
    reader: Reader<'a>,
    curve: CurveId,
    header: Header,
    n_wires: u32,
    terms: usize,
    /// Which wires have a value at this point of the program.
    defined: Vec<bool>,
}

impl<'a> Parser<'a> {
    fn new(data: &'a [u8]) -> Result<Self> {
        if data.len() > FILE_BYTES_MAX {
            return Err(Error::new("circuit-limit", format!("{} bytes, at most {FILE_BYTES_MAX}", data.len())));
        }
        let mut reader = Reader::new(data, CODE);
        reader.magic(MAGIC)?;
        let curve = reader.u8()?;
        let Some(curve) = CurveId::from_byte(curve) else {
            return reader.fail(format!("unknown curve {curve}"));
        };
        let header = Header {
            n_inputs: reader.u32()?,
            n_outputs: reader.u32()?,
            n_witness: reader.u32()?,
            n_ops: reader.u32()?,
            n_constraints: reader.u32()?,
        };
        header.check_limits(reader.left())?;
        let n_wires = 2 + header.n_inputs + header.n_outputs + header.n_witness;
        let mut defined = vec![false; n_wires as usize];
        defined[..=header.n_inputs as usize].fill(true);
        Ok(Self { reader, curve, header, n_wires, terms: 0, defined })
    }

    fn run(mut self, data: &[u8]) -> Result<Circuit> {
        let mut ops = Vec::with_capacity(self.header.n_ops as usize);
        for _ in 0..self.header.n_ops {
            ops.push(self.op()?);
        }
        self.check_complete()?;
        let mut constraints = Vec::with_capacity(self.header.n_constraints as usize);
        for _ in 0..self.header.n_constraints {
            constraints.push(Constraint { a: self.lc()?, b: self.lc()?, c: self.lc()? });
        }
        self.reader.finish()?;
        Ok(Circuit {
            curve: self.curve,
            n_inputs: self.header.n_inputs,
            n_outputs: self.header.n_outputs,
            n_witness: self.header.n_witness,
            ops,
            constraints,
            digest: Sha256::digest(data).into(),
        })
    }

    fn lc(&mut self) -> Result<Lc> {
        let n = self.reader.u16()? as usize;
        self.terms += n;
        if self.terms > TERMS_MAX {
            return Err(Error::new("circuit-limit", format!("more than {TERMS_MAX} terms")));
        }
        if n * TERM_BYTES > self.reader.left() {
            return self.reader.fail("truncated linear combination");
        }
        let mut terms: Vec<(u32, i64)> = Vec::with_capacity(n);
        for _ in 0..n {
            let (wire, coefficient) = (self.reader.u32()?, self.reader.i64()?);
            if wire >= self.n_wires {
                return self.reader.fail(format!("wire {wire} of {}", self.n_wires));
            }
            if terms.last().is_some_and(|(last, _)| *last >= wire) {
                return self.reader.fail("wires of a linear combination not strictly ascending");
            }
            if coefficient == 0 {
                return self.reader.fail("zero coefficient");
            }
            terms.push((wire, coefficient));
        }
        Ok(Lc(terms))
    }

    fn program_lc(&mut self) -> Result<Lc> {
        let lc = self.lc()?;
        for (wire, _) in &lc.0 {
            if !self.defined[*wire as usize] {
                return Err(Error::new("circuit-program", format!("reads wire {wire} before it has a value")));
            }
        }
        Ok(lc)
    }

    fn op(&mut self) -> Result<Op> {
        match self.reader.u8()? {
            0x01 => {
                let (value, k, first) = (self.program_lc()?, self.reader.u8()?, self.reader.u32()?);
                if !(1..=BITS_MAX).contains(&k) {
                    return self.reader.fail(format!("{k} bits, allowed 1 to {BITS_MAX}"));
                }
                for i in 0..u32::from(k) {
                    self.define_private(first.saturating_add(i))?;
                }
                Ok(Op::Bits { value, k, first })
            }
            0x02 => {
                let (a, b) = (self.program_lc()?, self.program_lc()?);
                let (shift, wire) = (self.reader.u8()?, self.reader.u32()?);
                if shift > SHIFT_MAX {
                    return self.reader.fail(format!("shift {shift}, at most {SHIFT_MAX}"));
                }
                self.define_private(wire)?;
                Ok(Op::Mul { a, b, shift, wire })
            }
            0x03 => {
                let (value, index) = (self.program_lc()?, self.reader.u32()?);
                if index >= self.header.n_outputs {
                    return self.reader.fail(format!("output {index} of {}", self.header.n_outputs));
                }
                self.define(1 + self.header.n_inputs + index)?;
                Ok(Op::Out { value, index })
            }
            other => self.reader.fail(format!("unknown operation {other:#04x}")),
        }
    }

    fn define_private(&mut self, wire: u32) -> Result<()> {
        let first_private = self.n_wires - self.header.n_witness;
        if wire < first_private || wire >= self.n_wires {
            return Err(Error::new("circuit-program", format!("writes wire {wire}, which is not private")));
        }
        self.define(wire)
    }

    fn define(&mut self, wire: u32) -> Result<()> {
        let slot = &mut self.defined[wire as usize];
        if *slot {
            return Err(Error::new("circuit-program", format!("writes wire {wire} twice")));
        }
        *slot = true;
        Ok(())
    }

    fn check_complete(&self) -> Result<()> {
        let ctx = 1 + self.header.n_inputs + self.header.n_outputs;
        match self.defined.iter().enumerate().find(|(wire, set)| !**set && *wire != ctx as usize) {
            Some((wire, _)) => Err(Error::new("circuit-program", format!("no operation writes wire {wire}"))),
            None => Ok(()),
        }
    }
}

impl Header {
    fn check_limits(&self, bytes_left: usize) -> Result<()> {
        let limit = |what: &str, found: u32, least: u32, most: u32| {
            if (least..=most).contains(&found) {
                Ok(())
            } else {
                Err(Error::new("circuit-limit", format!("{found} {what}, allowed {least} to {most}")))
            }
        };
        limit("inputs", self.n_inputs, 1, SIGNALS_MAX)?;
        limit("outputs", self.n_outputs, 1, SIGNALS_MAX)?;
        limit("private wires", self.n_witness, 0, WIRES_MAX - 2 - self.n_inputs - self.n_outputs)?;
        limit("operations", self.n_ops, 1, OPS_MAX)?;
        limit("constraints", self.n_constraints, 1, CONSTRAINTS_MAX)?;
        let least = self.n_ops as usize * OP_BYTES_MIN + self.n_constraints as usize * CONSTRAINT_BYTES_MIN;
        if least > bytes_left {
            return Err(Error::new(CODE, format!("truncated: counts need at least {least} bytes, {bytes_left} left")));
        }
        Ok(())
    }
}
