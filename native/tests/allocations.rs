//! A proof allocates nothing once the first two have completed the prover's memory, which `work_bytes` states.
#![allow(clippy::unwrap_used, unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use _native::circuit::Circuit;
use _native::curve::{Bls381, Bn254, Curve};
use _native::kernel::Kernel;
use _native::prover::Prover;
use _native::setup::setup;

/// Counts what all threads of this process allocate.
struct Counting;

static COUNT: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is left to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::SeqCst);
        // SAFETY: as our caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as our caller promised.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::SeqCst);
        // SAFETY: as our caller promised.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const INPUTS: u32 = 12;
const BITS: u32 = 4;

fn lc(out: &mut Vec<u8>, terms: &[(u32, i64)]) {
    out.extend((terms.len() as u16).to_be_bytes());
    for (wire, coefficient) in terms {
        out.extend(wire.to_be_bytes());
        out.extend(coefficient.to_be_bytes());
    }
}

fn row(out: &mut Vec<u8>, sides: [&[(u32, i64)]; 3]) {
    sides.iter().for_each(|side| lc(out, side));
}

/// Twelve inputs of four bits, and y = Σ 1000003·x_i, which is beyond the tables of outputs for the larger x. With
/// `extra` more rows, so that both kinds of domains occur: those that suit eight lanes and those that do not.
fn circuit(curve: u8, extra: u32) -> Vec<u8> {
    let (y, ctx, bits) = (INPUTS + 1, INPUTS + 2, INPUTS + 3);
    let (mut ops, mut rows, mut n_rows) = (Vec::new(), Vec::new(), 0);
    for input in 0..INPUTS {
        let (x, first) = (input + 1, bits + input * (BITS - 1));
        // The top bit stays a linear expression.
        ops.push(1);
        lc(&mut ops, &[(x, 1)]);
        ops.push(BITS as u8 - 1);
        ops.extend(first.to_be_bytes());
        for bit in first..first + BITS - 1 {
            row(&mut rows, [&[(bit, 1)], &[(0, 1), (bit, -1)], &[]]);
        }
        let top = [(x, 1), (first, -1), (first + 1, -2), (first + 2, -4)];
        let rest = [(0, 8), (x, -1), (first, 1), (first + 1, 2), (first + 2, 4)];
        row(&mut rows, [&top, &rest, &[]]);
        row(&mut rows, [&[(x, 1)], &[], &[]]);
        n_rows += BITS + 1;
    }
    let sum: Vec<(u32, i64)> = (1..=INPUTS).map(|x| (x, 1_000_003)).collect();
    ops.push(3);
    lc(&mut ops, &sum);
    ops.extend(0u32.to_be_bytes());
    let tied: Vec<(u32, i64)> = sum.iter().copied().chain([(y, -1)]).collect();
    row(&mut rows, [&tied, &[(0, 1)], &[]]);
    row(&mut rows, [&[(ctx, 1)], &[], &[]]);
    n_rows += 2;
    for _ in 0..extra {
        row(&mut rows, [&[(0, 1)], &[(0, 1)], &[(0, 1)]]);
        n_rows += 1;
    }
    let mut out = b"SITSR1C1".to_vec();
    out.push(curve);
    for number in [INPUTS, 1, INPUTS * (BITS - 1), INPUTS + 1, n_rows] {
        out.extend(number.to_be_bytes());
    }
    out.extend([ops, rows].concat());
    out
}

fn check<C: Curve>(extra: u32) {
    let file = circuit(C::ID, extra);
    let (pk, _) = setup::<C>(&Circuit::parse(&file).unwrap()).unwrap();
    let pk = pk.encode();
    for kernel in Kernel::available() {
        for threads in [1, 2] {
            let prover = Prover::<C>::for_circuit(Circuit::parse(&file).unwrap(), &pk, kernel, threads).unwrap();
            let mut outputs = Vec::new();
            let mut work_bytes = 0;
            for proof in 1..=20i64 {
                let inputs: [i64; INPUTS as usize] = std::array::from_fn(|i| (proof * 7 + i as i64 * 5) % 16);
                let before = COUNT.load(Ordering::SeqCst);
                prover.prove_into(&inputs, &[proof as u8; 31], &mut outputs, &mut |_| ()).unwrap();
                let allocated = COUNT.load(Ordering::SeqCst) - before;
                let what = format!("{} {} {threads} threads, proof {proof}", C::NAME, kernel.name());
                if proof > 2 {
                    assert_eq!(allocated, 0, "{what}");
                    assert_eq!(prover.work_bytes(), work_bytes, "{what}");
                }
                work_bytes = prover.work_bytes();
                assert_eq!(outputs, [inputs.iter().sum::<i64>() * 1_000_003]);
            }
            assert!(work_bytes > prover.domain_size() * 32);
        }
    }
}

/// One test alone: others in this process would allocate meanwhile.
#[test]
fn proofs_allocate_nothing_after_the_first_two() {
    check::<Bn254>(0);
    check::<Bls381>(0);
    check::<Bn254>(40);
    check::<Bls381>(40);
}
