//! The rows a·b = c on a witness: values for the transforms, and the check that every row holds.
//!
//! Nearly all rows are small integers, so they are evaluated as such and lifted into the field once. Rows that hold
//! the context, or leave 128 bits, are evaluated in the field.

use ark_ff::PrimeField;

use crate::circuit::{Circuit, Lc};
use crate::error::{Error, Result};
use crate::field::{fr_from_i128, fr_from_i64};
use crate::kernel::Element;
use crate::witness::{eval, Witness};

enum Value<F> {
    Integer(i128),
    Element(F),
}

impl<F: PrimeField> Value<F> {
    fn lift(&self) -> F {
        match self {
            Self::Integer(0) => F::ZERO,
            Self::Integer(1) => F::ONE,
            Self::Integer(v) => fr_from_i128(*v),
            Self::Element(v) => *v,
        }
    }
}

fn evaluate<F: PrimeField>(lc: &Lc, witness: &Witness<F>, ctx_wire: u32) -> Value<F> {
    if lc.0.binary_search_by_key(&ctx_wire, |(wire, _)| *wire).is_err() {
        if let Ok(value) = eval(lc, &witness.values) {
            return Value::Integer(value);
        }
    }
    let element = |wire: u32| if wire == ctx_wire { witness.ctx } else { fr_from_i128(witness.values[wire as usize]) };
    Value::Element(lc.0.iter().map(|(wire, c)| fr_from_i64::<F>(*c) * element(*wire)).sum())
}

fn holds<F: PrimeField>(a: &Value<F>, b: &Value<F>, c: &Value<F>) -> bool {
    if let (Value::Integer(a), Value::Integer(b), Value::Integer(c)) = (a, b, c) {
        if let Some(product) = a.checked_mul(*b) {
            return product == *c;
        }
    }
    a.lift() * b.lift() == c.lift()
}

/// Writes the rows' a and b values (zero beyond the last row). Error `unsatisfied` names the first row that fails.
pub fn fill<S: Element>(circuit: &Circuit, witness: &Witness<S::Field>, a: &mut [S], b: &mut [S]) -> Result<()> {
    let ctx_wire = circuit.ctx_wire();
    for (i, row) in circuit.constraints.iter().enumerate() {
        let left = evaluate(&row.a, witness, ctx_wire);
        let right = evaluate(&row.b, witness, ctx_wire);
        if !holds(&left, &right, &evaluate(&row.c, witness, ctx_wire)) {
            return Err(Error::new("unsatisfied", format!("constraint {i} does not hold for this witness")));
        }
        (a[i], b[i]) = (S::new(left.lift()), S::new(right.lift()));
    }
    a[circuit.constraints.len()..].fill(S::ZERO);
    b[circuit.constraints.len()..].fill(S::ZERO);
    Ok(())
}
