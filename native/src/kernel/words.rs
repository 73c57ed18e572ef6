//! Sums and differences of words modulo a bound, and negation, without a branch.
//!
//! On field elements a borrow is a coin toss, so a branch on it is mispredicted half the time, which costs more than
//! half a multiplication. Compilers turn masks and selections by a borrow back into branches, and break carry chains
//! up; hence assembly where there is some. The constants are in memory, the bound and as many zeros behind it: which
//! of the two is added back is a choice of addresses on x86-64, of registers on 64-bit ARM.
#![allow(unsafe_code)]

use super::lazy::Limbs;

/// Values are below `bound`, and twice the bound fits the words.
#[repr(C)]
pub struct Bound<const N: usize> {
    pub bound: Limbs<N>,
    pub zero: Limbs<N>,
}

impl<const N: usize> Bound<N> {
    pub const fn new(bound: Limbs<N>) -> Self {
        Self { bound, zero: [0; N] }
    }

    /// a + b, less the bound if it is not below it.
    #[inline(always)]
    pub fn add(&self, a: &Limbs<N>, b: &Limbs<N>) -> Limbs<N> {
        match N {
            4 => assembly::add_4(self, a, b),
            6 => assembly::add_6(self, a, b),
            _ => plain::add(self, a, b),
        }
    }

    /// a − b, plus the bound if it is negative.
    #[inline(always)]
    pub fn sub(&self, a: &Limbs<N>, b: &Limbs<N>) -> Limbs<N> {
        match N {
            4 => assembly::sub_4(self, a, b),
            6 => assembly::sub_6(self, a, b),
            _ => plain::sub(self, a, b),
        }
    }

    /// 0 − a, plus the bound if it is negative, or a.
    #[inline(always)]
    pub fn negate_if(&self, a: &Limbs<N>, negate: bool) -> Limbs<N> {
        match N {
            4 => assembly::negate_if_4(self, a, negate),
            6 => assembly::negate_if_6(self, a, negate),
            _ => plain::negate_if(self, a, negate),
        }
    }
}

/// Plain Rust: any processor, any number of words.
#[cfg_attr(any(target_arch = "x86_64", target_arch = "aarch64"), allow(dead_code))]
mod plain {
    use super::{Bound, Limbs};

    #[inline(always)]
    fn add_words<const N: usize>(a: &Limbs<N>, b: &Limbs<N>) -> Limbs<N> {
        let (mut out, mut carry) = ([0; N], 0);
        for i in 0..N {
            let t = u128::from(a[i]) + u128::from(b[i]) + carry;
            (out[i], carry) = (t as u64, t >> 64);
        }
        out
    }

    /// a − b and whether it borrowed.
    #[inline(always)]
    fn sub_words<const N: usize>(a: &Limbs<N>, b: &Limbs<N>) -> (Limbs<N>, bool) {
        let (mut out, mut borrow) = ([0; N], false);
        for i in 0..N {
            let (t, b1) = a[i].overflowing_sub(b[i]);
            let (t, b2) = t.overflowing_sub(u64::from(borrow));
            (out[i], borrow) = (t, b1 | b2);
        }
        (out, borrow)
    }

    #[inline(always)]
    fn masked<const N: usize>(a: &Limbs<N>, keep: bool) -> Limbs<N> {
        a.map(|word| word & u64::from(keep).wrapping_neg())
    }

    #[inline(always)]
    pub fn add<const N: usize>(c: &Bound<N>, a: &Limbs<N>, b: &Limbs<N>) -> Limbs<N> {
        let (less, borrow) = sub_words(&add_words(a, b), &c.bound);
        add_words(&less, &masked(&c.bound, borrow))
    }

    #[inline(always)]
    pub fn sub<const N: usize>(c: &Bound<N>, a: &Limbs<N>, b: &Limbs<N>) -> Limbs<N> {
        let (difference, borrow) = sub_words(a, b);
        add_words(&difference, &masked(&c.bound, borrow))
    }

    #[inline(always)]
    pub fn negate_if<const N: usize>(c: &Bound<N>, a: &Limbs<N>, negate: bool) -> Limbs<N> {
        let negative = sub(c, &c.zero, a);
        let (negative, positive) = (masked(&negative, negate), masked(a, !negate));
        std::array::from_fn(|i| negative[i] | positive[i])
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod assembly {
    pub use super::plain::{
        add as add_4, add as add_6, negate_if as negate_if_4, negate_if as negate_if_6, sub as sub_4, sub as sub_6,
    };
}

#[cfg(target_arch = "x86_64")]
mod assembly {
    use core::arch::asm;

    use super::{Bound, Limbs};

    #[inline(always)]
    pub fn add_4<const N: usize>(c: &Bound<N>, a: &Limbs<N>, b: &Limbs<N>) -> Limbs<N> {
        assert!(N == 4, "the caller chose by N");
        let mut t = *a;
        // SAFETY: base instructions; they read N words from each address and write to the named registers only.
        unsafe {
            asm!(
                "add {t0}, qword ptr [{b} + 0]",
                "adc {t1}, qword ptr [{b} + 8]",
                "adc {t2}, qword ptr [{b} + 16]",
                "adc {t3}, qword ptr [{b} + 24]",
                "sub {t0}, qword ptr [{c} + 0]",
                "sbb {t1}, qword ptr [{c} + 8]",
                "sbb {t2}, qword ptr [{c} + 16]",
                "sbb {t3}, qword ptr [{c} + 24]",
                "cmovnc {c}, {zero}",
                "add {t0}, qword ptr [{c} + 0]",
                "adc {t1}, qword ptr [{c} + 8]",
                "adc {t2}, qword ptr [{c} + 16]",
                "adc {t3}, qword ptr [{c} + 24]",
                t0 = inout(reg) t[0], t1 = inout(reg) t[1], t2 = inout(reg) t[2], t3 = inout(reg) t[3],
                b = in(reg) b.as_ptr(),
                c = inout(reg) c.bound.as_ptr() => _,
                zero = in(reg) c.zero.as_ptr(),
                options(pure, readonly, nostack),
            );
        }
        t
    }

    #[inline(always)]
    pub fn sub_4<const N: usize>(c: &Bound<N>, a: &Limbs<N>, b: &Limbs<N>) -> Limbs<N> {
        assert!(N == 4, "the caller chose by N");
        let mut t = *a;
        // SAFETY: base instructions; they read N words from each address and write to the named registers only.
        unsafe {
            asm!(
                "sub {t0}, qword ptr [{b} + 0]",
                "sbb {t1}, qword ptr [{b} + 8]",
                "sbb {t2}, qword ptr [{b} + 16]",
                "sbb {t3}, qword ptr [{b} + 24]",
                "cmovnc {c}, {zero}",
                "add {t0}, qword ptr [{c} + 0]",
                "adc {t1}, qword ptr [{c} + 8]",
                "adc {t2}, qword ptr [{c} + 16]",
                "adc {t3}, qword ptr [{c} + 24]",
                t0 = inout(reg) t[0], t1 = inout(reg) t[1], t2 = inout(reg) t[2], t3 = inout(reg) t[3],
                b = in(reg) b.as_ptr(),
                c = inout(reg) c.bound.as_ptr() => _,
                zero = in(reg) c.zero.as_ptr(),
                options(pure, readonly, nostack),
            );
        }
        t
    }

    #[inline(always)]
    pub fn negate_if_4<const N: usize>(c: &Bound<N>, a: &Limbs<N>, negate: bool) -> Limbs<N> {
        assert!(N == 4, "the caller chose by N");
        let mut t = c.zero;
        // SAFETY: base instructions; they read N words from each address and write to the named registers only.
        unsafe {
            asm!(
                "sub {t0}, qword ptr [{a} + 0]",
                "sbb {t1}, qword ptr [{a} + 8]",
                "sbb {t2}, qword ptr [{a} + 16]",
                "sbb {t3}, qword ptr [{a} + 24]",
                "cmovnc {c}, {zero}",
                "add {t0}, qword ptr [{c} + 0]",
                "adc {t1}, qword ptr [{c} + 8]",
                "adc {t2}, qword ptr [{c} + 16]",
                "adc {t3}, qword ptr [{c} + 24]",
                "test {negate:e}, {negate:e}",
                "cmovz {t0}, qword ptr [{a} + 0]",
                "cmovz {t1}, qword ptr [{a} + 8]",
                "cmovz {t2}, qword ptr [{a} + 16]",
                "cmovz {t3}, qword ptr [{a} + 24]",
                t0 = inout(reg) t[0], t1 = inout(reg) t[1], t2 = inout(reg) t[2], t3 = inout(reg) t[3],
                a = in(reg) a.as_ptr(),
                c = inout(reg) c.bound.as_ptr() => _,
                zero = in(reg) c.zero.as_ptr(),
                negate = in(reg) u32::from(negate),
                options(pure, readonly, nostack),
            );
        }
        t
    }

    #[inline(always)]
    pub fn add_6<const N: usize>(c: &Bound<N>, a: &Limbs<N>, b: &Limbs<N>) -> Limbs<N> {
        assert!(N == 6, "the caller chose by N");
        let mut t = *a;
        // SAFETY: base instructions; they read N words from each address and write to the named registers only.
        unsafe {
            asm!(
                "add {t0}, qword ptr [{b} + 0]",
                "adc {t1}, qword ptr [{b} + 8]",
                "adc {t2}, qword ptr [{b} + 16]",
                "adc {t3}, qword ptr [{b} + 24]",
                "adc {t4}, qword ptr [{b} + 32]",
                "adc {t5}, qword ptr [{b} + 40]",
                "sub {t0}, qword ptr [{c} + 0]",
                "sbb {t1}, qword ptr [{c} + 8]",
                "sbb {t2}, qword ptr [{c} + 16]",
                "sbb {t3}, qword ptr [{c} + 24]",
                "sbb {t4}, qword ptr [{c} + 32]",
                "sbb {t5}, qword ptr [{c} + 40]",
                "cmovnc {c}, {zero}",
                "add {t0}, qword ptr [{c} + 0]",
                "adc {t1}, qword ptr [{c} + 8]",
                "adc {t2}, qword ptr [{c} + 16]",
                "adc {t3}, qword ptr [{c} + 24]",
                "adc {t4}, qword ptr [{c} + 32]",
                "adc {t5}, qword ptr [{c} + 40]",
                t0 = inout(reg) t[0], t1 = inout(reg) t[1], t2 = inout(reg) t[2], t3 = inout(reg) t[3], t4 = inout(reg) t[4], t5 = inout(reg) t[5],
                b = in(reg) b.as_ptr(),
                c = inout(reg) c.bound.as_ptr() => _,
                zero = in(reg) c.zero.as_ptr(),
                options(pure, readonly, nostack),
            );
        }
        t
    }

    #[inline(always)]
    pub fn sub_6<const N: usize>(c: &Bound<N>, a: &Limbs<N>, b: &Limbs<N>) -> Limbs<N> {
        assert!(N == 6, "the caller chose by N");
        let mut t = *a;
        // SAFETY: base instructions; they read N words from each address and write to the named registers only.
        unsafe {
            asm!(
                "sub {t0}, qword ptr [{b} + 0]",
                "sbb {t1}, qword ptr [{b} + 8]",
                "sbb {t2}, qword ptr [{b} + 16]",
                "sbb {t3}, qword ptr [{b} + 24]",
                "sbb {t4}, qword ptr [{b} + 32]",
                "sbb {t5}, qword ptr [{b} + 40]",
                "cmovnc {c}, {zero}",
                "add {t0}, qword ptr [{c} + 0]",
                "adc {t1}, qword ptr [{c} + 8]",
                "adc {t2}, qword ptr [{c} + 16]",
                "adc {t3}, qword ptr [{c} + 24]",
                "adc {t4}, qword ptr [{c} + 32]",
                "adc {t5}, qword ptr [{c} + 40]",
                t0 = inout(reg) t[0], t1 = inout(reg) t[1], t2 = inout(reg) t[2], t3 = inout(reg) t[3], t4 = inout(reg) t[4], t5 = inout(reg) t[5],
                b = in(reg) b.as_ptr(),
                c = inout(reg) c.bound.as_ptr() => _,
                zero = in(reg) c.zero.as_ptr(),
                options(pure, readonly, nostack),
            );
        }
        t
    }

    #[inline(always)]
    pub fn negate_if_6<const N: usize>(c: &Bound<N>, a: &Limbs<N>, negate: bool) -> Limbs<N> {
        assert!(N == 6, "the caller chose by N");
        let mut t = c.zero;
        // SAFETY: base instructions; they read N words from each address and write to the named registers only.
        unsafe {
            asm!(
                "sub {t0}, qword ptr [{a} + 0]",
                "sbb {t1}, qword ptr [{a} + 8]",
                "sbb {t2}, qword ptr [{a} + 16]",
                "sbb {t3}, qword ptr [{a} + 24]",
                "sbb {t4}, qword ptr [{a} + 32]",
                "sbb {t5}, qword ptr [{a} + 40]",
                "cmovnc {c}, {zero}",
                "add {t0}, qword ptr [{c} + 0]",
                "adc {t1}, qword ptr [{c} + 8]",
                "adc {t2}, qword ptr [{c} + 16]",
                "adc {t3}, qword ptr [{c} + 24]",
                "adc {t4}, qword ptr [{c} + 32]",
                "adc {t5}, qword ptr [{c} + 40]",
                "test {negate:e}, {negate:e}",
                "cmovz {t0}, qword ptr [{a} + 0]",
                "cmovz {t1}, qword ptr [{a} + 8]",
                "cmovz {t2}, qword ptr [{a} + 16]",
                "cmovz {t3}, qword ptr [{a} + 24]",
                "cmovz {t4}, qword ptr [{a} + 32]",
                "cmovz {t5}, qword ptr [{a} + 40]",
                t0 = inout(reg) t[0], t1 = inout(reg) t[1], t2 = inout(reg) t[2], t3 = inout(reg) t[3], t4 = inout(reg) t[4], t5 = inout(reg) t[5],
                a = in(reg) a.as_ptr(),
                c = inout(reg) c.bound.as_ptr() => _,
                zero = in(reg) c.zero.as_ptr(),
                negate = in(reg) u32::from(negate),
                options(pure, readonly, nostack),
            );
        }
        t
    }
}

#[cfg(target_arch = "aarch64")]
mod assembly {
    use core::arch::asm;

    use super::{Bound, Limbs};

    #[inline(always)]
    pub fn add_4<const N: usize>(c: &Bound<N>, a: &Limbs<N>, b: &Limbs<N>) -> Limbs<N> {
        assert!(N == 4, "the caller chose by N");
        let mut t = *a;
        // SAFETY: base instructions on the named registers, no memory.
        unsafe {
            asm!(
                "adds {t0}, {t0}, {b0}",
                "adcs {t1}, {t1}, {b1}",
                "adcs {t2}, {t2}, {b2}",
                "adc {t3}, {t3}, {b3}",
                "subs {c0}, {t0}, {c0}",
                "sbcs {c1}, {t1}, {c1}",
                "sbcs {c2}, {t2}, {c2}",
                "sbcs {c3}, {t3}, {c3}",
                "csel {t0}, {t0}, {c0}, lo",
                "csel {t1}, {t1}, {c1}, lo",
                "csel {t2}, {t2}, {c2}, lo",
                "csel {t3}, {t3}, {c3}, lo",
                t0 = inout(reg) t[0], t1 = inout(reg) t[1], t2 = inout(reg) t[2], t3 = inout(reg) t[3],
                b0 = in(reg) b[0], b1 = in(reg) b[1], b2 = in(reg) b[2], b3 = in(reg) b[3],
                c0 = inout(reg) c.bound[0] => _, c1 = inout(reg) c.bound[1] => _, c2 = inout(reg) c.bound[2] => _, c3 = inout(reg) c.bound[3] => _,
                options(pure, nomem, nostack),
            );
        }
        t
    }

    #[inline(always)]
    pub fn sub_4<const N: usize>(c: &Bound<N>, a: &Limbs<N>, b: &Limbs<N>) -> Limbs<N> {
        assert!(N == 4, "the caller chose by N");
        let mut t = *a;
        // SAFETY: base instructions on the named registers, no memory.
        unsafe {
            asm!(
                "subs {t0}, {t0}, {b0}",
                "sbcs {t1}, {t1}, {b1}",
                "sbcs {t2}, {t2}, {b2}",
                "sbcs {t3}, {t3}, {b3}",
                "csel {c0}, {c0}, xzr, lo",
                "csel {c1}, {c1}, xzr, lo",
                "csel {c2}, {c2}, xzr, lo",
                "csel {c3}, {c3}, xzr, lo",
                "adds {t0}, {t0}, {c0}",
                "adcs {t1}, {t1}, {c1}",
                "adcs {t2}, {t2}, {c2}",
                "adc {t3}, {t3}, {c3}",
                t0 = inout(reg) t[0], t1 = inout(reg) t[1], t2 = inout(reg) t[2], t3 = inout(reg) t[3],
                b0 = in(reg) b[0], b1 = in(reg) b[1], b2 = in(reg) b[2], b3 = in(reg) b[3],
                c0 = inout(reg) c.bound[0] => _, c1 = inout(reg) c.bound[1] => _, c2 = inout(reg) c.bound[2] => _, c3 = inout(reg) c.bound[3] => _,
                options(pure, nomem, nostack),
            );
        }
        t
    }

    #[inline(always)]
    pub fn negate_if_4<const N: usize>(c: &Bound<N>, a: &Limbs<N>, negate: bool) -> Limbs<N> {
        assert!(N == 4, "the caller chose by N");
        let mut t = [0; N];
        // SAFETY: base instructions on the named registers, no memory.
        unsafe {
            asm!(
                "subs {t0}, xzr, {a0}",
                "sbcs {t1}, xzr, {a1}",
                "sbcs {t2}, xzr, {a2}",
                "sbcs {t3}, xzr, {a3}",
                "csel {c0}, {c0}, xzr, lo",
                "csel {c1}, {c1}, xzr, lo",
                "csel {c2}, {c2}, xzr, lo",
                "csel {c3}, {c3}, xzr, lo",
                "adds {t0}, {t0}, {c0}",
                "adcs {t1}, {t1}, {c1}",
                "adcs {t2}, {t2}, {c2}",
                "adc {t3}, {t3}, {c3}",
                "cmp {negate:w}, #0",
                "csel {t0}, {a0}, {t0}, eq",
                "csel {t1}, {a1}, {t1}, eq",
                "csel {t2}, {a2}, {t2}, eq",
                "csel {t3}, {a3}, {t3}, eq",
                t0 = out(reg) t[0], t1 = out(reg) t[1], t2 = out(reg) t[2], t3 = out(reg) t[3],
                a0 = in(reg) a[0], a1 = in(reg) a[1], a2 = in(reg) a[2], a3 = in(reg) a[3],
                c0 = inout(reg) c.bound[0] => _, c1 = inout(reg) c.bound[1] => _, c2 = inout(reg) c.bound[2] => _, c3 = inout(reg) c.bound[3] => _,
                negate = in(reg) u32::from(negate),
                options(pure, nomem, nostack),
            );
        }
        t
    }

    #[inline(always)]
    pub fn add_6<const N: usize>(c: &Bound<N>, a: &Limbs<N>, b: &Limbs<N>) -> Limbs<N> {
        assert!(N == 6, "the caller chose by N");
        let mut t = *a;
        // SAFETY: base instructions on the named registers, no memory.
        unsafe {
            asm!(
                "adds {t0}, {t0}, {b0}",
                "adcs {t1}, {t1}, {b1}",
                "adcs {t2}, {t2}, {b2}",
                "adcs {t3}, {t3}, {b3}",
                "adcs {t4}, {t4}, {b4}",
                "adc {t5}, {t5}, {b5}",
                "subs {c0}, {t0}, {c0}",
                "sbcs {c1}, {t1}, {c1}",
                "sbcs {c2}, {t2}, {c2}",
                "sbcs {c3}, {t3}, {c3}",
                "sbcs {c4}, {t4}, {c4}",
                "sbcs {c5}, {t5}, {c5}",
                "csel {t0}, {t0}, {c0}, lo",
                "csel {t1}, {t1}, {c1}, lo",
                "csel {t2}, {t2}, {c2}, lo",
                "csel {t3}, {t3}, {c3}, lo",
                "csel {t4}, {t4}, {c4}, lo",
                "csel {t5}, {t5}, {c5}, lo",
                t0 = inout(reg) t[0], t1 = inout(reg) t[1], t2 = inout(reg) t[2], t3 = inout(reg) t[3], t4 = inout(reg) t[4], t5 = inout(reg) t[5],
                b0 = in(reg) b[0], b1 = in(reg) b[1], b2 = in(reg) b[2], b3 = in(reg) b[3], b4 = in(reg) b[4], b5 = in(reg) b[5],
                c0 = inout(reg) c.bound[0] => _, c1 = inout(reg) c.bound[1] => _, c2 = inout(reg) c.bound[2] => _, c3 = inout(reg) c.bound[3] => _, c4 = inout(reg) c.bound[4] => _, c5 = inout(reg) c.bound[5] => _,
                options(pure, nomem, nostack),
            );
        }
        t
    }

    #[inline(always)]
    pub fn sub_6<const N: usize>(c: &Bound<N>, a: &Limbs<N>, b: &Limbs<N>) -> Limbs<N> {
        assert!(N == 6, "the caller chose by N");
        let mut t = *a;
        // SAFETY: base instructions on the named registers, no memory.
        unsafe {
            asm!(
                "subs {t0}, {t0}, {b0}",
                "sbcs {t1}, {t1}, {b1}",
                "sbcs {t2}, {t2}, {b2}",
                "sbcs {t3}, {t3}, {b3}",
                "sbcs {t4}, {t4}, {b4}",
                "sbcs {t5}, {t5}, {b5}",
                "csel {c0}, {c0}, xzr, lo",
                "csel {c1}, {c1}, xzr, lo",
                "csel {c2}, {c2}, xzr, lo",
                "csel {c3}, {c3}, xzr, lo",
                "csel {c4}, {c4}, xzr, lo",
                "csel {c5}, {c5}, xzr, lo",
                "adds {t0}, {t0}, {c0}",
                "adcs {t1}, {t1}, {c1}",
                "adcs {t2}, {t2}, {c2}",
                "adcs {t3}, {t3}, {c3}",
                "adcs {t4}, {t4}, {c4}",
                "adc {t5}, {t5}, {c5}",
                t0 = inout(reg) t[0], t1 = inout(reg) t[1], t2 = inout(reg) t[2], t3 = inout(reg) t[3], t4 = inout(reg) t[4], t5 = inout(reg) t[5],
                b0 = in(reg) b[0], b1 = in(reg) b[1], b2 = in(reg) b[2], b3 = in(reg) b[3], b4 = in(reg) b[4], b5 = in(reg) b[5],
                c0 = inout(reg) c.bound[0] => _, c1 = inout(reg) c.bound[1] => _, c2 = inout(reg) c.bound[2] => _, c3 = inout(reg) c.bound[3] => _, c4 = inout(reg) c.bound[4] => _, c5 = inout(reg) c.bound[5] => _,
                options(pure, nomem, nostack),
            );
        }
        t
    }

    #[inline(always)]
    pub fn negate_if_6<const N: usize>(c: &Bound<N>, a: &Limbs<N>, negate: bool) -> Limbs<N> {
        assert!(N == 6, "the caller chose by N");
        let mut t = [0; N];
        // SAFETY: base instructions on the named registers, no memory.
        unsafe {
            asm!(
                "subs {t0}, xzr, {a0}",
                "sbcs {t1}, xzr, {a1}",
                "sbcs {t2}, xzr, {a2}",
                "sbcs {t3}, xzr, {a3}",
                "sbcs {t4}, xzr, {a4}",
                "sbcs {t5}, xzr, {a5}",
                "csel {c0}, {c0}, xzr, lo",
                "csel {c1}, {c1}, xzr, lo",
                "csel {c2}, {c2}, xzr, lo",
                "csel {c3}, {c3}, xzr, lo",
                "csel {c4}, {c4}, xzr, lo",
                "csel {c5}, {c5}, xzr, lo",
                "adds {t0}, {t0}, {c0}",
                "adcs {t1}, {t1}, {c1}",
                "adcs {t2}, {t2}, {c2}",
                "adcs {t3}, {t3}, {c3}",
                "adcs {t4}, {t4}, {c4}",
                "adc {t5}, {t5}, {c5}",
                "cmp {negate:w}, #0",
                "csel {t0}, {a0}, {t0}, eq",
                "csel {t1}, {a1}, {t1}, eq",
                "csel {t2}, {a2}, {t2}, eq",
                "csel {t3}, {a3}, {t3}, eq",
                "csel {t4}, {a4}, {t4}, eq",
                "csel {t5}, {a5}, {t5}, eq",
                t0 = out(reg) t[0], t1 = out(reg) t[1], t2 = out(reg) t[2], t3 = out(reg) t[3], t4 = out(reg) t[4], t5 = out(reg) t[5],
                a0 = in(reg) a[0], a1 = in(reg) a[1], a2 = in(reg) a[2], a3 = in(reg) a[3], a4 = in(reg) a[4], a5 = in(reg) a[5],
                c0 = inout(reg) c.bound[0] => _, c1 = inout(reg) c.bound[1] => _, c2 = inout(reg) c.bound[2] => _, c3 = inout(reg) c.bound[3] => _, c4 = inout(reg) c.bound[4] => _, c5 = inout(reg) c.bound[5] => _,
                negate = in(reg) u32::from(negate),
                options(pure, nomem, nostack),
            );
        }
        t
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<const N: usize>(bound: Limbs<N>) {
        let c = Bound::new(bound);
        let mut one = c.zero;
        one[0] = 1;
        let most = plain::sub(&c, &c.zero, &one);
        let mut samples = vec![c.zero, one, most, plain::sub(&c, &most, &one)];
        let mut x = 1u64;
        for _ in 0..60 {
            let words = std::array::from_fn(|_| {
                x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                // Words of all ones and all zeros carry far.
                [x, u64::MAX, 0][(x >> 60) as usize % 3]
            });
            // A smaller top word brings any number below the bound.
            let mut words: Limbs<N> = words;
            words[N - 1] %= bound[N - 1];
            samples.push(words);
        }
        for a in &samples {
            assert_eq!(c.negate_if(a, false), *a);
            assert_eq!(c.negate_if(a, true), plain::negate_if(&c, a, true));
            for b in &samples {
                assert_eq!(c.add(a, b), plain::add(&c, a, b), "{a:x?} + {b:x?}");
                assert_eq!(c.sub(a, b), plain::sub(&c, a, b), "{a:x?} - {b:x?}");
            }
        }
    }

    #[test]
    fn assembly_equals_plain_code() {
        check([5, 0, u64::MAX, 1 << 62]);
        check([u64::MAX, u64::MAX, u64::MAX, u64::MAX >> 1]);
        check([0x3c20_8c16_d87c_fd47, 0x9781_6a91_6871_ca8d, 0xb850_45b6_8181_585d, 0x3064_4e72_e131_a029]);
        check([1, 2, 3, 4, 5, 1 << 61]);
        check([u64::MAX; 6].map(|word| word >> 1));
    }
}
