//! The circuit files `SITSR1C1` (open) and `SITSR1C2` (sealed): one strict parser, every limit checked before memory is
//! taken. Layouts in docs/interfaces.md.

use ark_ff::{BigInt, PrimeField};
use sha2::{Digest, Sha256};

use crate::circuit::{
    Circuit, Constraint, FieldConstraint, FieldLc, FieldMul, Lc, Op, Sealed, BITS_MAX, COMMITMENT_WIRE,
    CONSTRAINTS_MAX, FILE_BYTES_MAX, OPS_MAX, SHIFT_MAX, SIGNALS_MAX, TERMS_MAX, WIRES_MAX,
};
use crate::curve::{Curve, CurveId};
use crate::error::{Error, Result};
use crate::field::bigint_from_be;
use crate::kernel::Limbs;
use crate::reader::Reader;
use crate::with_curve;

const CODE: &str = "circuit-format";
const OPEN: &[u8] = b"SITSR1C1";
const SEALED: &[u8] = b"SITSR1C2";

const TERM_BYTES: usize = 12;
const FIELD_TERM_BYTES: usize = 36;
const OP_BYTES_MIN: usize = 1 + 2 + 4;
/// The commitment of no terms.
const SEALED_OP_BYTES_MIN: usize = 1 + 2;
const CONSTRAINT_BYTES_MIN: usize = 6;

struct Counts {
    ops: u32,
    constraints: u32,
    field_constraints: u32,
}

pub struct Parser<'a> {
    reader: Reader<'a>,
    /// Filled as the file is read; its counts are right from the start.
    circuit: Circuit,
    counts: Counts,
    modulus: BigInt<4>,
    terms: usize,
    /// Which wires have a value at this point of the program.
    defined: Vec<bool>,
}

impl<'a> Parser<'a> {
    pub fn new(data: &'a [u8]) -> Result<Self> {
        if data.len() > FILE_BYTES_MAX {
            return Err(Error::new("circuit-limit", format!("{} bytes, at most {FILE_BYTES_MAX}", data.len())));
        }
        let mut reader = Reader::new(data, CODE);
        let is_sealed = match reader.take(OPEN.len())? {
            OPEN => false,
            SEALED => true,
            _ => return reader.fail("wrong magic, expected SITSR1C1 or SITSR1C2"),
        };
        let curve = reader.u8()?;
        let Some(curve) = CurveId::from_byte(curve) else {
            return reader.fail(format!("unknown curve {curve}"));
        };
        let (n_inputs, n_outputs, n_witness) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let n_field = if is_sealed { reader.u32()? } else { 0 };
        let (ops, constraints) = (reader.u32()?, reader.u32()?);
        let counts = Counts { ops, constraints, field_constraints: if is_sealed { reader.u32()? } else { 0 } };
        check_signals(n_inputs, n_outputs)?;
        check_limits(&counts, n_witness, is_sealed.then_some(n_field), reader.left())?;
        // Bounded as they are, the counts cannot overflow the sums below.
        limit("wires", 2 + u32::from(is_sealed) + n_inputs + n_outputs + n_witness + n_field, 1, WIRES_MAX)?;
        let empty = || FieldLc(Vec::new());
        let sealed =
            is_sealed.then(|| Sealed { n_field, products: Vec::new(), commitment: empty(), constraints: Vec::new() });
        let circuit = Circuit {
            curve,
            n_inputs,
            n_outputs,
            n_witness,
            ops: Vec::with_capacity(ops as usize),
            constraints: Vec::with_capacity(constraints as usize),
            sealed,
            digest: Sha256::digest(data).into(),
        };
        let mut defined = vec![false; circuit.n_wires() as usize];
        defined[0] = true;
        defined[circuit.first_input() as usize..][..n_inputs as usize].fill(true);
        if is_sealed {
            defined[circuit.salt_wire() as usize] = true;
        }
        let modulus = with_curve!(curve, C => <<C as Curve>::Fr as PrimeField>::MODULUS);
        Ok(Self { reader, circuit, counts, modulus, terms: 0, defined })
    }

    pub fn run(mut self) -> Result<Circuit> {
        for _ in 0..self.counts.ops {
            self.op()?;
        }
        self.check_complete()?;
        for _ in 0..self.counts.constraints {
            let row = Constraint { a: self.lc()?, b: self.lc()?, c: self.lc()? };
            self.circuit.constraints.push(row);
        }
        for _ in 0..self.counts.field_constraints {
            let row = FieldConstraint { a: self.field_lc()?, b: self.field_lc()?, c: self.field_lc()? };
            self.sealed()?.constraints.push(row);
        }
        self.reader.finish()?;
        Ok(self.circuit)
    }

    fn sealed(&mut self) -> Result<&mut Sealed> {
        self.circuit.sealed.as_mut().ok_or_else(|| Error::new(CODE, "field operations in an open circuit"))
    }

    /// The number of terms that follow, with the bytes for them present.
    fn count(&mut self, term_bytes: usize) -> Result<usize> {
        let n = self.reader.u16()? as usize;
        self.terms += n;
        if self.terms > TERMS_MAX {
            return Err(Error::new("circuit-limit", format!("more than {TERMS_MAX} terms")));
        }
        if n * term_bytes > self.reader.left() {
            return self.reader.fail("truncated linear combination");
        }
        Ok(n)
    }

    /// The wire of the next term; `last` is the one before it.
    fn wire(&mut self, last: Option<u32>) -> Result<u32> {
        let wire = self.reader.u32()?;
        if wire >= self.circuit.n_wires() {
            return self.reader.fail(format!("wire {wire} of {}", self.circuit.n_wires()));
        }
        if last.is_some_and(|last| last >= wire) {
            return self.reader.fail("wires of a linear combination not strictly ascending");
        }
        Ok(wire)
    }

    fn lc(&mut self) -> Result<Lc> {
        let n = self.count(TERM_BYTES)?;
        let (is_sealed, salt) = (self.circuit.sealed.is_some(), self.circuit.salt_wire());
        let mut terms: Vec<(u32, i64)> = Vec::with_capacity(n);
        for _ in 0..n {
            let wire = self.wire(terms.last().map(|term| term.0))?;
            let coefficient = self.reader.i64()?;
            if coefficient == 0 {
                return self.reader.fail("zero coefficient");
            }
            if is_sealed && (wire == COMMITMENT_WIRE || wire >= salt) {
                return self.reader.fail(format!("field wire {wire} among integers"));
            }
            terms.push((wire, coefficient));
        }
        Ok(Lc(terms))
    }

    fn field_lc(&mut self) -> Result<FieldLc> {
        let n = self.count(FIELD_TERM_BYTES)?;
        let mut terms: Vec<(u32, Limbs<4>)> = Vec::with_capacity(n);
        for _ in 0..n {
            let wire = self.wire(terms.last().map(|term| term.0))?;
            let mut bytes = [0u8; 32];
            bytes.copy_from_slice(self.reader.take(32)?);
            let coefficient = bigint_from_be(&bytes);
            if coefficient == BigInt::zero() {
                return self.reader.fail("zero coefficient");
            }
            if coefficient >= self.modulus {
                return self.reader.fail("coefficient not below r");
            }
            terms.push((wire, coefficient.0));
        }
        Ok(FieldLc(terms))
    }

    fn require_defined(&self, wires: impl Iterator<Item = u32>) -> Result<()> {
        for wire in wires {
            if !self.defined[wire as usize] {
                return Err(Error::new("circuit-program", format!("reads wire {wire} before it has a value")));
            }
        }
        Ok(())
    }

    fn program_lc(&mut self) -> Result<Lc> {
        let lc = self.lc()?;
        self.require_defined(lc.0.iter().map(|term| term.0))?;
        Ok(lc)
    }

    fn program_field_lc(&mut self) -> Result<FieldLc> {
        let lc = self.field_lc()?;
        self.require_defined(lc.0.iter().map(|term| term.0))?;
        Ok(lc)
    }

    fn op(&mut self) -> Result<()> {
        let tag = self.reader.u8()?;
        let op = match tag {
            0x01 => self.bits()?,
            0x02 => self.mul()?,
            0x03 => self.out()?,
            0x04 | 0x05 if self.circuit.sealed.is_some() => return self.field_op(tag),
            other => return self.reader.fail(format!("unknown operation {other:#04x}")),
        };
        self.circuit.ops.push(op);
        Ok(())
    }

    fn bits(&mut self) -> Result<Op> {
        let (value, k, first) = (self.program_lc()?, self.reader.u8()?, self.reader.u32()?);
        if !(1..=BITS_MAX).contains(&k) {
            return self.reader.fail(format!("{k} bits, allowed 1 to {BITS_MAX}"));
        }
        for i in 0..u32::from(k) {
            self.define_integer(first.saturating_add(i))?;
        }
        Ok(Op::Bits { value, k, first })
    }

    fn mul(&mut self) -> Result<Op> {
        let (a, b) = (self.program_lc()?, self.program_lc()?);
        let (shift, wire) = (self.reader.u8()?, self.reader.u32()?);
        if shift > SHIFT_MAX {
            return self.reader.fail(format!("shift {shift}, at most {SHIFT_MAX}"));
        }
        self.define_integer(wire)?;
        Ok(Op::Mul { a, b, shift, wire })
    }

    fn out(&mut self) -> Result<Op> {
        let (value, index) = (self.program_lc()?, self.reader.u32()?);
        if index >= self.circuit.n_outputs {
            return self.reader.fail(format!("output {index} of {}", self.circuit.n_outputs));
        }
        self.define(self.circuit.first_output() + index)?;
        Ok(Op::Out { value, index })
    }

    fn field_op(&mut self, tag: u8) -> Result<()> {
        if tag == 0x04 {
            let (a, b, wire) = (self.program_field_lc()?, self.program_field_lc()?, self.reader.u32()?);
            self.define_between(wire, self.circuit.salt_wire(), self.circuit.n_wires())?;
            self.sealed()?.products.push(FieldMul { a, b, wire });
        } else {
            let value = self.program_field_lc()?;
            self.define(COMMITMENT_WIRE)?;
            self.sealed()?.commitment = value;
        }
        Ok(())
    }

    fn define_integer(&mut self, wire: u32) -> Result<()> {
        self.define_between(wire, self.circuit.first_witness(), self.circuit.salt_wire())
    }

    fn define_between(&mut self, wire: u32, first: u32, end: u32) -> Result<()> {
        if !(first..end).contains(&wire) {
            return Err(Error::new("circuit-program", format!("writes wire {wire}, allowed {first} to {end}")));
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
        let ctx = self.circuit.ctx_wire();
        match self.defined.iter().enumerate().find(|(wire, set)| !**set && *wire != ctx as usize) {
            Some((wire, _)) => Err(Error::new("circuit-program", format!("no operation writes wire {wire}"))),
            None => Ok(()),
        }
    }
}

fn limit(what: &str, found: u32, least: u32, most: u32) -> Result<()> {
    if (least..=most).contains(&found) {
        return Ok(());
    }
    Err(Error::new("circuit-limit", format!("{found} {what}, allowed {least} to {most}")))
}

fn check_signals(n_inputs: u32, n_outputs: u32) -> Result<()> {
    limit("inputs", n_inputs, 1, SIGNALS_MAX)?;
    limit("outputs", n_outputs, 1, SIGNALS_MAX)
}

/// `n_field` is none in an open circuit.
fn check_limits(counts: &Counts, n_witness: u32, n_field: Option<u32>, bytes_left: usize) -> Result<()> {
    limit("private wires", n_witness, 0, WIRES_MAX)?;
    limit("operations", counts.ops, 1, OPS_MAX)?;
    limit("constraints", counts.constraints, 1, CONSTRAINTS_MAX)?;
    let op_bytes = match n_field {
        None => OP_BYTES_MIN,
        Some(n_field) => {
            limit("field wires", n_field, 1, WIRES_MAX)?;
            limit("field constraints", counts.field_constraints, 1, CONSTRAINTS_MAX - counts.constraints)?;
            SEALED_OP_BYTES_MIN
        }
    };
    let rows = counts.constraints as usize + counts.field_constraints as usize;
    let least = counts.ops as usize * op_bytes + rows * CONSTRAINT_BYTES_MIN;
    if least > bytes_left {
        return Err(Error::new(CODE, format!("truncated: counts need at least {least} bytes, {bytes_left} left")));
    }
    Ok(())
}
