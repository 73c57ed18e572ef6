//! Exact integer witness: the circuit's program on i128, every overflow an error.

use ark_ff::{BigInt, PrimeField};
use zeroize::Zeroize;

use crate::circuit::{Circuit, Constraint, Lc, Op, COMMITMENT_WIRE};
use crate::error::{Error, Result};
use crate::field::fr_from_i128;

/// Every wire's value; wires that hold field elements are zero in `values`.
#[derive(Debug, Clone)]
pub struct Witness<F> {
    pub values: Vec<i128>,
    pub ctx: F,
    /// Of a sealed circuit, as are `field`: salt and products (sealed.rs writes them).
    pub commitment: F,
    pub field: Vec<F>,
    ctx_wire: usize,
}

fn overflow() -> Error {
    Error::new("witness-overflow", "a value left the 128-bit range")
}

/// Σ coefficient · value over i128.
pub fn eval(lc: &Lc, values: &[i128]) -> Result<i128> {
    let mut sum = 0i128;
    for (wire, coefficient) in &lc.0 {
        let (coefficient, value) = (i128::from(*coefficient), values[*wire as usize]);
        // Two 64-bit factors cannot overflow; the general check costs a library call.
        let product = match i64::try_from(value) {
            Ok(small) => coefficient * i128::from(small),
            Err(_) => coefficient.checked_mul(value).ok_or_else(overflow)?,
        };
        sum = sum.checked_add(product).ok_or_else(overflow)?;
    }
    Ok(sum)
}

impl<F: PrimeField> Witness<F> {
    pub fn new(circuit: &Circuit) -> Self {
        let n_field = circuit.n_wires() - circuit.salt_wire();
        Self {
            values: vec![0; circuit.n_wires() as usize],
            ctx: F::ZERO,
            commitment: F::ZERO,
            field: vec![F::ZERO; n_field as usize],
            ctx_wire: circuit.ctx_wire() as usize,
        }
    }

    /// Runs the program for `inputs`; reuses the allocation.
    pub fn fill(&mut self, circuit: &Circuit, inputs: &[i64], ctx: F) -> Result<()> {
        if inputs.len() != circuit.n_inputs as usize {
            return Err(Error::new(
                "input-count",
                format!("{} inputs, the circuit takes {}", inputs.len(), circuit.n_inputs),
            ));
        }
        self.values.fill(0);
        self.values[0] = 1;
        for (slot, input) in self.values[circuit.first_input() as usize..].iter_mut().zip(inputs) {
            *slot = i128::from(*input);
        }
        self.ctx = ctx;
        for op in &circuit.ops {
            self.step(circuit, op)?;
        }
        Ok(())
    }

    fn step(&mut self, circuit: &Circuit, op: &Op) -> Result<()> {
        match op {
            Op::Bits { value, k, first } => {
                let number = eval(value, &self.values)?;
                if number < 0 || number >> (k + 1) != 0 {
                    return Err(Error::new(
                        "witness-range",
                        format!("{number} is outside 0 to 2^{}: an input is outside the circuit's box", k + 1),
                    ));
                }
                for (i, slot) in self.values[*first as usize..].iter_mut().take(usize::from(*k)).enumerate() {
                    *slot = (number >> i) & 1;
                }
            }
            Op::Mul { a, b, shift, wire } => {
                let (a, b) = (eval(a, &self.values)?, eval(b, &self.values)?);
                let product = a.checked_mul(b).ok_or_else(overflow)?;
                let quotient = product >> shift;
                if quotient << shift != product {
                    return Err(Error::new("witness-remainder", format!("{product} is not a multiple of 2^{shift}")));
                }
                self.values[*wire as usize] = quotient;
            }
            Op::Out { value, index } => {
                self.values[(circuit.first_output() + index) as usize] = eval(value, &self.values)?;
            }
        }
        Ok(())
    }

    /// Writes the outputs as the signed 64-bit integers a command carries.
    pub fn outputs(&self, circuit: &Circuit, out: &mut Vec<i64>) -> Result<()> {
        let first = circuit.first_output() as usize;
        out.clear();
        for value in &self.values[first..first + circuit.n_outputs as usize] {
            let small = i64::try_from(*value);
            out.push(small.map_err(|_| Error::new("witness-overflow", format!("output {value} needs over 64 bits")))?);
        }
        Ok(())
    }

    pub fn to_field(&self, circuit: &Circuit) -> Vec<F> {
        let mut out: Vec<F> = self.values.iter().map(|v| fr_from_i128(*v)).collect();
        out[self.ctx_wire] = self.ctx;
        if circuit.sealed.is_some() {
            out[COMMITMENT_WIRE as usize] = self.commitment;
            out[circuit.salt_wire() as usize..].copy_from_slice(&self.field);
        }
        out
    }

    /// A wire of a sealed circuit as a field element; `first` is the first field wire.
    pub fn element(&self, wire: usize, first: usize) -> F {
        if wire >= first {
            self.field[wire - first]
        } else if wire == COMMITMENT_WIRE as usize {
            self.commitment
        } else if wire == self.ctx_wire {
            self.ctx
        } else {
            fr_from_i128(self.values[wire])
        }
    }

    /// Index of the first row of an open circuit that the values do not satisfy.
    fn first_violated(&self, circuit: &Circuit) -> Option<usize> {
        let ctx = circuit.ctx_wire();
        let bound = |lc: &Lc| lc.0.binary_search_by_key(&ctx, |term| term.0).is_ok();
        circuit.constraints.iter().position(|Constraint { a, b, c }| {
            let exact = if bound(a) || bound(b) || bound(c) { None } else { self.exact(a, b, c) };
            !exact.unwrap_or_else(|| self.sum(a) * self.sum(b) == self.sum(c))
        })
    }

    /// Whether a·b = c over the integers, None where i128 does not hold one of them.
    fn exact(&self, a: &Lc, b: &Lc, c: &Lc) -> Option<bool> {
        let [a, b, c] = [a, b, c].map(|lc| eval(lc, &self.values).ok());
        Some(a?.checked_mul(b?)? == c?)
    }

    /// In the field, for a circuit without field wires.
    fn sum(&self, lc: &Lc) -> F {
        let value = |wire: usize| if wire == self.ctx_wire { self.ctx } else { fr_from_i128(self.values[wire]) };
        lc.0.iter().map(|(wire, c)| value(*wire as usize) * fr_from_i128::<F>(i128::from(*c))).sum()
    }

    /// Overwrites every value.
    pub fn erase(&mut self) {
        self.values.iter_mut().zeroize();
        self.field.iter_mut().zeroize();
        self.commitment.zeroize();
    }
}

/// Runs an open circuit on every row of inputs: the outputs of each, or the first failure.
///
/// All rows of the circuit are checked for every input. A row is a statement about integers as long as no sum leaves
/// i128, and then holds in the field as well; what the context enters, or what is larger, is computed in the field.
pub fn run_rows<F: PrimeField<BigInt = BigInt<4>>>(
    circuit: &Circuit,
    inputs: &[Vec<i64>],
    ctx: F,
) -> Result<Vec<Vec<i64>>> {
    if circuit.sealed.is_some() {
        return Err(Error::new("circuit-sealed", "a sealed circuit has no public inputs to run on"));
    }
    let mut witness = Witness::<F>::new(circuit);
    let mut found = Vec::with_capacity(inputs.len());
    for (index, row) in inputs.iter().enumerate() {
        witness.fill(circuit, row, ctx)?;
        if let Some(at) = witness.first_violated(circuit) {
            return Err(Error::new("unsatisfied", format!("constraint {at} for row {index}")));
        }
        let mut outputs = Vec::with_capacity(circuit.n_outputs as usize);
        witness.outputs(circuit, &mut outputs)?;
        found.push(outputs);
    }
    Ok(found)
}

/// Index of the first row the wires do not satisfy.
pub fn first_unsatisfied<F: PrimeField<BigInt = BigInt<4>>>(circuit: &Circuit, wires: &[F]) -> Option<usize> {
    let sum = |side: &Vec<(u32, F)>| -> F { side.iter().map(|(wire, c)| wires[*wire as usize] * c).sum() };
    circuit.rows::<F>().position(|[a, b, c]| sum(&a) * sum(&b) != sum(&c))
}
