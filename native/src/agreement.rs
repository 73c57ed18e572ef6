//! All kernels make the same proof, bit for bit, when the blinding is the same.
#![allow(clippy::unwrap_used)]

use ark_bn254::Fr;
use zeroize::Zeroizing;

use crate::circuit::Circuit;
use crate::field::{pow, random_fr};
use crate::kernel::{Kernel, Scalar};
use crate::prover::{Blinding, Prover};
use crate::quotient::{Quotient, QuotientWork};
use crate::setup::setup;
use crate::verifier::{Proof, Verifier};

/// Writes a circuit file: bits of the inputs, then products of random combinations of earlier wires.
struct Writer {
    random: u64,
    ops: Vec<u8>,
    n_ops: u32,
    rows: Vec<u8>,
    n_rows: u32,
}

const INPUTS: u32 = 3;
const OUTPUTS: u32 = 2;
const FIRST: u32 = INPUTS + OUTPUTS + 2;
/// Inputs from −128 to 127: seven bits and the top one.
const BITS: u32 = 7;

type Terms = Vec<(u32, i64)>;

fn lc(out: &mut Vec<u8>, terms: &Terms) {
    out.extend((terms.len() as u16).to_be_bytes());
    for (wire, coefficient) in terms {
        out.extend(wire.to_be_bytes());
        out.extend(coefficient.to_be_bytes());
    }
}

impl Writer {
    fn next(&mut self, below: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % below
    }

    fn row(&mut self, a: &Terms, b: &Terms, c: &Terms) {
        [a, b, c].iter().for_each(|side| lc(&mut self.rows, side));
        self.n_rows += 1;
    }

    /// Up to four of the inputs and bits, so that products stay far below 128 bits.
    fn combination(&mut self) -> Terms {
        let pool: Vec<u32> = (0..=INPUTS).chain(FIRST..FIRST + INPUTS * BITS).collect();
        let mut terms = std::collections::BTreeMap::new();
        for _ in 0..=self.next(4) {
            let wire = pool[self.next(pool.len() as u64) as usize];
            terms.insert(wire, self.next(1 << 20) as i64 * 2 - (1 << 20) + 1);
        }
        terms.into_iter().collect()
    }

    fn circuit(seed: u64, rows: u32) -> Vec<u8> {
        let mut w = Self { random: seed, ops: Vec::new(), n_ops: 0, rows: Vec::new(), n_rows: 0 };
        for input in 0..INPUTS {
            let (first, value) = (FIRST + input * BITS, vec![(0, 1 << BITS), (1 + input, 1)]);
            w.ops.push(1);
            lc(&mut w.ops, &value);
            w.ops.push(BITS as u8);
            w.ops.extend(first.to_be_bytes());
            w.n_ops += 1;
            for bit in first..first + BITS {
                w.row(&vec![(bit, 1)], &vec![(0, 1), (bit, -1)], &vec![]);
            }
        }
        for public in 1..FIRST - OUTPUTS {
            let wire = if public > INPUTS { public + OUTPUTS } else { public };
            w.row(&vec![(wire, 1)], &vec![], &vec![]);
        }
        let mut wire = FIRST + INPUTS * BITS;
        while w.n_rows < rows - OUTPUTS {
            let (a, b) = (w.combination(), w.combination());
            w.ops.push(2);
            lc(&mut w.ops, &a);
            lc(&mut w.ops, &b);
            w.ops.push(0);
            w.ops.extend(wire.to_be_bytes());
            w.n_ops += 1;
            w.row(&a, &b, &vec![(wire, 1)]);
            wire += 1;
        }
        for index in 0..OUTPUTS {
            let value = vec![(1, 3), (wire - 1 - index, 1)];
            w.ops.push(3);
            lc(&mut w.ops, &value);
            w.ops.extend(index.to_be_bytes());
            w.n_ops += 1;
            let (y, mut terms) = (1 + INPUTS + index, value.clone());
            terms.insert(1, (y, -1));
            w.row(&terms, &vec![(0, 1)], &vec![]);
        }
        let mut out = b"SITSR1C1\x01".to_vec();
        for number in [INPUTS, OUTPUTS, wire - FIRST, w.n_ops, w.n_rows] {
            out.extend(number.to_be_bytes());
        }
        out.extend(w.ops);
        out.extend(w.rows);
        out
    }

    fn inputs(&mut self) -> Vec<i64> {
        (0..INPUTS).map(|_| self.next(256) as i64 - 128).collect()
    }
}

fn prove(prover: &Prover, inputs: &[i64], ctx: &[u8], r: u64, s: u64) -> (Vec<i64>, Proof) {
    let blinding = Blinding { r: Zeroizing::new(pow(Fr::from(5u64), r)), s: Zeroizing::new(pow(Fr::from(7u64), s)) };
    prover.prove_blinded(inputs, ctx, &blinding, &mut |_| ()).unwrap()
}

/// Sizes with and without vector transforms: 36, 64, 72, 128, 192, 576, 768.
#[test]
fn proofs_on_random_circuits_are_identical_and_verify() {
    for (seed, rows) in [(1, 36), (2, 63), (3, 70), (4, 100), (5, 190), (6, 570), (7, 750)] {
        let file = Writer::circuit(seed, rows);
        let (pk, vk) = setup(&Circuit::parse(&file).unwrap()).unwrap();
        let (pk, verifier) = (pk.encode(), Verifier::new(&vk).unwrap());
        let scalar = Prover::with_kernel(&file, &pk, Kernel::Scalar).unwrap();
        let fastest = Prover::with_kernel(&file, &pk, Kernel::fastest()).unwrap();
        let mut draw = Writer { random: seed, ops: vec![], n_ops: 0, rows: vec![], n_rows: 0 };
        for round in 0..12u64 {
            let (inputs, ctx) = (draw.inputs(), [draw.next(256) as u8; 31]);
            let expected = prove(&scalar, &inputs, &ctx, round + 1, round * 3 + 1);
            let found = prove(&fastest, &inputs, &ctx, round + 1, round * 3 + 1);
            assert_eq!(found.0, expected.0);
            assert_eq!(found.1.encode(), expected.1.encode(), "{rows} rows, {inputs:?}");
            assert_eq!(verifier.verify(&inputs, &found.0, &ctx, &found.1.encode()), Ok(()));
        }
    }
}

#[test]
fn other_blinding_makes_another_proof() {
    let file = Writer::circuit(1, 36);
    let (pk, _) = setup(&Circuit::parse(&file).unwrap()).unwrap();
    let prover = Prover::with_kernel(&file, &pk.encode(), Kernel::fastest()).unwrap();
    let proof = |r, s| prove(&prover, &[1, 2, 3], &[0; 31], r, s).1.encode();
    assert_eq!(proof(1, 1), proof(1, 1));
    assert_ne!(proof(1, 1), proof(2, 1));
    assert_ne!(proof(1, 1), proof(1, 2));
}

/// Values that no circuit gives: random, all zero, all r − 1, one single one.
#[test]
fn quotients_are_identical() {
    for size in [2, 8, 36, 64, 128, 192, 256, 576, 768, 1024, 1152] {
        let (scalar, fastest) =
            (Quotient::new(size, Kernel::Scalar).unwrap(), Quotient::new(size, Kernel::fastest()).unwrap());
        let random = || (0..size).map(|_| Scalar::new(random_fr().unwrap())).collect::<Vec<_>>();
        let all = |v: Fr| vec![Scalar::new(v); size];
        let mut single = all(Fr::from(0u64));
        single[size - 1] = Scalar::ONE;
        let minus_one = all(-Fr::from(1u64));
        for (a, b) in [
            (random(), random()),
            (all(Fr::from(0u64)), random()),
            (minus_one.clone(), minus_one),
            (single.clone(), single.clone()),
            (single, random()),
        ] {
            let run = |quotient: &Quotient| {
                let mut work = QuotientWork::new(size);
                work.a.copy_from_slice(&a);
                work.b.copy_from_slice(&b);
                quotient.run(&mut work);
                work.product.iter().map(canonical).collect::<Vec<_>>()
            };
            assert_eq!(run(&fastest), run(&scalar), "size {size}");
        }
    }
}

/// An integer up to r, which may stand for 0.
fn canonical(limbs: &[u64; 4]) -> Fr {
    let r = <Fr as ark_ff::PrimeField>::MODULUS;
    assert!(ark_ff::BigInt::new(*limbs) <= r);
    let bytes: Vec<u8> = limbs.iter().flat_map(|w| w.to_le_bytes()).collect();
    <Fr as ark_ff::PrimeField>::from_le_bytes_mod_order(&bytes)
}

#[test]
fn names_choose_the_kernel() {
    assert_eq!(Kernel::named("scalar").unwrap(), Kernel::Scalar);
    for name in ["", "IFMA", "avx2", "scalar "] {
        assert_eq!(Kernel::named(name).unwrap_err().code, "kernel-unknown", "{name:?}");
    }
    match Kernel::named("ifma") {
        Ok(kernel) => assert_eq!(kernel.name(), "ifma"),
        Err(error) => assert_eq!(error.code, "kernel-unavailable"),
    }
}
