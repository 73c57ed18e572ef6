//! 64-bit ARM: rows of several independent products in turn.
//!
//! A row needs its predecessor's lowest word before its own reduction can begin, and a core with few instructions in
//! flight sits idle meanwhile; the row of another product fills the gap. `mul` and `umulh` do not touch the flags, so
//! a row is four unbroken carry chains, where a compiler's code saves and restores the carry 26 times a product.
#![allow(unsafe_code)]

use core::arch::asm;

use ark_ff::MontConfig;

use super::lazy::Limbs;
use super::multiply::{Multiply, Portable};

/// Only base instructions: every such processor has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interleaved;

/// Rows of this many words; the lowest of the old `t` vanishes. −t₀·(p₀⁻¹)·p₀ has the low word −t₀, so adding it
/// carries unless t₀ is zero: its product need not be formed.
#[inline(always)]
fn row_4<const N: usize>(t: &mut Limbs<N>, a: &Limbs<N>, b: u64, p: &Limbs<N>, inverse: u64) {
    assert!(N == 4, "the caller chose by N");
    let (mut t0, mut t1, mut t2, mut t3) = (t[0], t[1], t[2], t[3]);
    // SAFETY: base instructions on the named registers, no memory.
    unsafe {
        asm!(
            // t += low halves of a·b
            "mul {x}, {a0}, {b}",
            "mul {y}, {a1}, {b}",
            "adds {t0}, {t0}, {x}",
            "mul {x}, {a2}, {b}",
            "mul {m}, {t0}, {inverse}",
            "adcs {t1}, {t1}, {y}",
            "mul {y}, {a3}, {b}",
            "adcs {t2}, {t2}, {x}",
            "umulh {x}, {a0}, {b}",
            "adcs {t3}, {t3}, {y}",
            "umulh {y}, {a1}, {b}",
            "adc {t4}, xzr, xzr",
            // t += high halves, one word up
            "adds {t1}, {t1}, {x}",
            "umulh {x}, {a2}, {b}",
            "adcs {t2}, {t2}, {y}",
            "umulh {y}, {a3}, {b}",
            "adcs {t3}, {t3}, {x}",
            "mul {x}, {m}, {p1}",
            "adc {t4}, {t4}, {y}",
            // t += low halves of m·p, beginning with the carry of the lowest word
            "cmp {t0}, #1",
            "mul {y}, {m}, {p2}",
            "adcs {t1}, {t1}, {x}",
            "mul {x}, {m}, {p3}",
            "adcs {t2}, {t2}, {y}",
            "umulh {y}, {m}, {p0}",
            "adcs {t3}, {t3}, {x}",
            "umulh {x}, {m}, {p1}",
            "adc {t4}, {t4}, xzr",
            // t += high halves, and one word down
            "adds {t0}, {t1}, {y}",
            "umulh {y}, {m}, {p2}",
            "adcs {t1}, {t2}, {x}",
            "umulh {x}, {m}, {p3}",
            "adcs {t2}, {t3}, {y}",
            "adc {t3}, {t4}, {x}",
            a0 = in(reg) a[0], a1 = in(reg) a[1], a2 = in(reg) a[2], a3 = in(reg) a[3], b = in(reg) b,
            p0 = in(reg) p[0], p1 = in(reg) p[1], p2 = in(reg) p[2], p3 = in(reg) p[3], inverse = in(reg) inverse,
            t0 = inout(reg) t0, t1 = inout(reg) t1, t2 = inout(reg) t2, t3 = inout(reg) t3, t4 = out(reg) _,
            x = out(reg) _, y = out(reg) _, m = out(reg) _,
            options(pure, nomem, nostack),
        );
    }
    (t[0], t[1], t[2], t[3]) = (t0, t1, t2, t3);
}

#[inline(always)]
fn row_6<const N: usize>(t: &mut Limbs<N>, a: &Limbs<N>, b: u64, p: &Limbs<N>, inverse: u64) {
    assert!(N == 6, "the caller chose by N");
    let (mut t0, mut t1, mut t2, mut t3, mut t4, mut t5) = (t[0], t[1], t[2], t[3], t[4], t[5]);
    // SAFETY: as above.
    unsafe {
        asm!(
            "mul {x}, {a0}, {b}",
            "mul {y}, {a1}, {b}",
            "adds {t0}, {t0}, {x}",
            "mul {x}, {a2}, {b}",
            "mul {m}, {t0}, {inverse}",
            "adcs {t1}, {t1}, {y}",
            "mul {y}, {a3}, {b}",
            "adcs {t2}, {t2}, {x}",
            "mul {x}, {a4}, {b}",
            "adcs {t3}, {t3}, {y}",
            "mul {y}, {a5}, {b}",
            "adcs {t4}, {t4}, {x}",
            "umulh {x}, {a0}, {b}",
            "adcs {t5}, {t5}, {y}",
            "umulh {y}, {a1}, {b}",
            "adc {t6}, xzr, xzr",
            "adds {t1}, {t1}, {x}",
            "umulh {x}, {a2}, {b}",
            "adcs {t2}, {t2}, {y}",
            "umulh {y}, {a3}, {b}",
            "adcs {t3}, {t3}, {x}",
            "umulh {x}, {a4}, {b}",
            "adcs {t4}, {t4}, {y}",
            "umulh {y}, {a5}, {b}",
            "adcs {t5}, {t5}, {x}",
            "mul {x}, {m}, {p1}",
            "adc {t6}, {t6}, {y}",
            "cmp {t0}, #1",
            "mul {y}, {m}, {p2}",
            "adcs {t1}, {t1}, {x}",
            "mul {x}, {m}, {p3}",
            "adcs {t2}, {t2}, {y}",
            "mul {y}, {m}, {p4}",
            "adcs {t3}, {t3}, {x}",
            "mul {x}, {m}, {p5}",
            "adcs {t4}, {t4}, {y}",
            "umulh {y}, {m}, {p0}",
            "adcs {t5}, {t5}, {x}",
            "umulh {x}, {m}, {p1}",
            "adc {t6}, {t6}, xzr",
            "adds {t0}, {t1}, {y}",
            "umulh {y}, {m}, {p2}",
            "adcs {t1}, {t2}, {x}",
            "umulh {x}, {m}, {p3}",
            "adcs {t2}, {t3}, {y}",
            "umulh {y}, {m}, {p4}",
            "adcs {t3}, {t4}, {x}",
            "umulh {x}, {m}, {p5}",
            "adcs {t4}, {t5}, {y}",
            "adc {t5}, {t6}, {x}",
            a0 = in(reg) a[0], a1 = in(reg) a[1], a2 = in(reg) a[2], a3 = in(reg) a[3], a4 = in(reg) a[4],
            a5 = in(reg) a[5], b = in(reg) b,
            p0 = in(reg) p[0], p1 = in(reg) p[1], p2 = in(reg) p[2], p3 = in(reg) p[3], p4 = in(reg) p[4],
            p5 = in(reg) p[5], inverse = in(reg) inverse,
            t0 = inout(reg) t0, t1 = inout(reg) t1, t2 = inout(reg) t2, t3 = inout(reg) t3, t4 = inout(reg) t4,
            t5 = inout(reg) t5, t6 = out(reg) _,
            x = out(reg) _, y = out(reg) _, m = out(reg) _,
            options(pure, nomem, nostack),
        );
    }
    (t[0], t[1], t[2], t[3], t[4], t[5]) = (t0, t1, t2, t3, t4, t5);
}

impl Multiply for Interleaved {
    #[inline(always)]
    fn product<M: MontConfig<N>, const N: usize>(self, a: &Limbs<N>, b: &Limbs<N>) -> Limbs<N> {
        let [out] = self.products::<M, N, 1>(&[*a], &[*b]);
        out
    }

    #[inline(always)]
    fn products<M: MontConfig<N>, const N: usize, const S: usize>(
        self,
        a: &[Limbs<N>; S],
        b: &[Limbs<N>; S],
    ) -> [Limbs<N>; S] {
        let p = &M::MODULUS.0;
        let mut t = [[0; N]; S];
        for word in 0..N {
            for i in 0..S {
                match N {
                    4 => row_4(&mut t[i], &a[i], b[i][word], p, M::INV),
                    6 => row_6(&mut t[i], &a[i], b[i][word], p, M::INV),
                    _ => return std::array::from_fn(|i| Portable.product::<M, N>(&a[i], &b[i])),
                }
            }
        }
        t
    }
}
