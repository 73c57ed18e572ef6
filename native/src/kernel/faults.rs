//! A kernel made wrong on purpose: the tests that compare kernels must notice every one of these.

use std::cell::Cell;

use super::{Element, Kernel, Pair, Point, Term, Words};

/// What is wrong with a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// One lane of a batch of additions has another x.
    Lane,
    /// P + P is taken for P − P.
    Doubling,
    /// P − P is P.
    Cancelling,
    /// Infinity has y = p, which is 0, but not in the representation 0.
    InfinityOffByP,
    /// A point handed back for exact formulas gets lost.
    LostTerm,
    /// One value on the coset is one too large.
    Coset,
}

thread_local! {
    static FAULT: Cell<Option<Fault>> = const { Cell::new(None) };
}

/// Runs `work` where the fastest kernel of this machine has a fault, on this thread.
pub fn with<T>(fault: Fault, work: impl FnOnce() -> T) -> T {
    struct Reset;
    impl Drop for Reset {
        fn drop(&mut self) {
            FAULT.set(None);
        }
    }
    FAULT.set(Some(fault));
    let _reset = Reset;
    work()
}

fn has(kernel: Kernel, fault: Fault) -> bool {
    FAULT.get() == Some(fault) && kernel == Kernel::fastest()
}

pub fn after_add_pairs<F: Element>(kernel: Kernel, table: &[Point<F>], pairs: &[Pair], out: &mut [Point<F>]) {
    if has(kernel, Fault::Lane) && pairs.len() > 3 {
        let sum = &mut out[pairs[3].to as usize];
        sum.x = sum.x + F::ONE;
    }
    for pair in pairs {
        let (left, right, sum) = (pair.left.load(table), pair.right.load(table), &mut out[pair.to as usize]);
        let same_x = !left.is_infinity() && !right.is_infinity() && (left.x - right.x).is_zero();
        let same = same_x && (left.y - right.y).is_zero();
        if same && has(kernel, Fault::Doubling) {
            *sum = Point::INFINITY;
        }
        if same_x && !same && has(kernel, Fault::Cancelling) {
            *sum = left;
        }
        if sum.is_infinity() && has(kernel, Fault::InfinityOffByP) {
            sum.y = p();
        }
    }
}

/// The representation p of zero: −1 plus 1 as words.
fn p<F: Element>() -> F {
    let minus_one: F::Field = -<F::Field as From<u64>>::from(1);
    let mut words = F::Words::ZERO;
    // p − 1 is even and ends in a zero bit, so that adding 1 does not carry.
    for (word, limb) in words.as_mut().iter_mut().zip(ark_ff::PrimeField::into_bigint(minus_one).as_ref()) {
        *word = *limb;
    }
    words.as_mut()[0] += 1;
    F::from_words(words)
}

pub fn after_sum<W: Words, const D: usize>(kernel: Kernel, left: &mut Vec<Term<W, D>>) {
    if has(kernel, Fault::LostTerm) {
        left.pop();
    }
}

pub fn after_product(kernel: Kernel, product: &mut [[u64; 4]]) {
    if has(kernel, Fault::Coset) {
        product[0][0] ^= 1;
    }
}
