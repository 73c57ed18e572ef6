//! All kernels make the same proof, bit for bit, when the blinding is the same.
#![allow(clippy::unwrap_used)]

use ark_ff::{AdditiveGroup, PrimeField};
use zeroize::Zeroizing;

use crate::circuit::Circuit;
use crate::curve::{Bls381, Bn254, Curve};
use crate::field::{pow, random_fr};
use crate::kernel::{Element, Kernel};
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

    fn circuit<C: Curve>(seed: u64, rows: u32) -> Vec<u8> {
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
        let mut out = b"SITSR1C1".to_vec();
        out.push(C::ID);
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

fn prove<C: Curve>(prover: &Prover<C>, inputs: &[i64], ctx: &[u8], r: u64, s: u64) -> (Vec<i64>, Proof<C>) {
    let blinding =
        Blinding { r: Zeroizing::new(pow(C::Fr::from(5u64), r)), s: Zeroizing::new(pow(C::Fr::from(7u64), s)) };
    prover.prove_blinded(inputs, ctx, &blinding, &mut |_| ()).unwrap()
}

pub(crate) fn check_proofs<C: Curve>(sizes: &[(u64, u32)]) {
    for (seed, rows) in sizes.iter().copied() {
        let file = Writer::circuit::<C>(seed, rows);
        let (pk, vk) = setup::<C>(&Circuit::parse(&file).unwrap()).unwrap();
        let (pk, verifier) = (pk.encode(), Verifier::new(&vk).unwrap());
        let scalar = Prover::<C>::with_kernel(&file, &pk, Kernel::Scalar).unwrap();
        for kernel in Kernel::available() {
            let prover = Prover::<C>::with_kernel(&file, &pk, kernel).unwrap();
            let mut draw = Writer { random: seed, ops: vec![], n_ops: 0, rows: vec![], n_rows: 0 };
            for round in 0..8u64 {
                let (inputs, ctx) = (draw.inputs(), [draw.next(256) as u8; 31]);
                let expected = prove(&scalar, &inputs, &ctx, round + 1, round * 3 + 1);
                let found = prove(&prover, &inputs, &ctx, round + 1, round * 3 + 1);
                assert_eq!(found.0, expected.0);
                assert_eq!(found.1.encode(), expected.1.encode(), "{} {}, {rows} rows", C::NAME, kernel.name());
                assert_eq!(verifier.verify(&inputs, &found.0, &ctx, &found.1.encode()), Ok(()));
            }
        }
    }
}

/// Sizes with and without vector transforms: 36 (48), 64, 72 (96), 128, 192, 576, 768.
#[test]
fn proofs_on_random_circuits_are_identical_and_verify() {
    check_proofs::<Bn254>(&[(1, 36), (2, 63), (3, 70), (4, 100), (5, 190), (6, 570), (7, 750)]);
    check_proofs::<Bls381>(&[(1, 36), (2, 63), (3, 70), (4, 100), (5, 190), (7, 750)]);
}

fn check_blinding<C: Curve>() {
    let file = Writer::circuit::<C>(1, 36);
    let (pk, _) = setup::<C>(&Circuit::parse(&file).unwrap()).unwrap();
    let prover = Prover::<C>::with_kernel(&file, &pk.encode(), Kernel::fastest()).unwrap();
    let proof = |r, s| prove(&prover, &[1, 2, 3], &[0; 31], r, s).1.encode();
    assert_eq!(proof(1, 1), proof(1, 1));
    assert_ne!(proof(1, 1), proof(2, 1));
    assert_ne!(proof(1, 1), proof(1, 2));
}

#[test]
fn other_blinding_makes_another_proof() {
    check_blinding::<Bn254>();
    check_blinding::<Bls381>();
}

#[test]
fn a_circuit_for_one_curve_is_refused_on_the_other() {
    let file = Writer::circuit::<Bls381>(1, 36);
    let circuit = Circuit::parse(&file).unwrap();
    assert_eq!(setup::<Bn254>(&circuit).err().unwrap().code, "curve-mismatch");
    let (pk, _) = setup::<Bls381>(&circuit).unwrap();
    let refused = Prover::<Bn254>::with_kernel(&file, &pk.encode(), Kernel::Scalar).err().unwrap();
    assert_eq!(refused.code, "curve-mismatch");
}

pub(crate) fn check_quotients<C: Curve>(sizes: &[usize]) {
    for size in sizes.iter().copied() {
        let random = || (0..size).map(|_| C::Scalar::new(random_fr().unwrap())).collect::<Vec<_>>();
        let all = |v: C::Fr| vec![C::Scalar::new(v); size];
        let mut single = all(C::Fr::ZERO);
        single[size - 1] = C::Scalar::ONE;
        let minus_one = all(-C::Fr::from(1u64));
        let pairs = [
            (random(), random()),
            (all(C::Fr::ZERO), random()),
            (minus_one.clone(), minus_one),
            (single.clone(), single.clone()),
            (single, random()),
        ];
        let run = |kernel: Kernel, a: &[C::Scalar], b: &[C::Scalar]| {
            let (quotient, mut work) = (Quotient::<C>::new(size, kernel).unwrap(), QuotientWork::<C>::new(size));
            work.a.copy_from_slice(a);
            work.b.copy_from_slice(b);
            quotient.run(&mut work);
            work.product.iter().map(canonical::<C::Fr>).collect::<Vec<_>>()
        };
        for (a, b) in &pairs {
            let expected = run(Kernel::Scalar, a, b);
            for kernel in Kernel::available() {
                assert_eq!(run(kernel, a, b), expected, "{} {}, size {size}", C::NAME, kernel.name());
            }
        }
    }
}

/// Values that no circuit gives: random, all zero, all r − 1, one single one.
#[test]
fn quotients_are_identical() {
    check_quotients::<Bn254>(&[2, 8, 36, 64, 128, 192, 256, 576, 768, 1024, 1152]);
    check_quotients::<Bls381>(&[2, 8, 12, 64, 128, 192, 256, 768, 1024, 1536]);
}

/// An integer up to r, which may stand for 0.
fn canonical<F: PrimeField<BigInt = ark_ff::BigInt<4>>>(limbs: &[u64; 4]) -> F {
    assert!(ark_ff::BigInt::new(*limbs) <= F::MODULUS);
    let bytes: Vec<u8> = limbs.iter().flat_map(|w| w.to_le_bytes()).collect();
    F::from_le_bytes_mod_order(&bytes)
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
