//! The one routine a scalar kernel replaces: Montgomery products on words.

use ark_ff::MontConfig;

use super::lazy::Limbs;

/// Montgomery products. A value of such a type proves that this processor can run them.
pub trait Multiply: Copy + Send + Sync + 'static {
    /// a·b/2^(64·N) mod p, below (a·b/(p·2^(64·N)) + 1)·p: below 2p where a and b are elements.
    fn product<M: MontConfig<N>, const N: usize>(self, a: &Limbs<N>, b: &Limbs<N>) -> Limbs<N>;

    #[inline(always)]
    fn square<M: MontConfig<N>, const N: usize>(self, a: &Limbs<N>) -> Limbs<N> {
        self.product::<M, N>(a, a)
    }

    /// Several products that do not wait for each other.
    #[inline(always)]
    fn products<M: MontConfig<N>, const N: usize, const S: usize>(
        self,
        a: &[Limbs<N>; S],
        b: &[Limbs<N>; S],
    ) -> [Limbs<N>; S] {
        std::array::from_fn(|i| self.product::<M, N>(&a[i], &b[i]))
    }
}

/// Plain Rust, any processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Portable;

/// a + b·c + carry as (low, high); cannot overflow.
#[inline(always)]
fn mac(a: u64, b: u64, c: u64, carry: u64) -> (u64, u64) {
    let t = u128::from(a) + u128::from(b) * u128::from(c) + u128::from(carry);
    (t as u64, (t >> 64) as u64)
}

impl Multiply for Portable {
    /// Operand scanning; the sum of the two carries fits a word because p's top word is below 2^63 − 1.
    #[inline(always)]
    fn product<M: MontConfig<N>, const N: usize>(self, a: &Limbs<N>, b: &Limbs<N>) -> Limbs<N> {
        let (p, mut t) = (&M::MODULUS.0, [0u64; N]);
        for b in *b {
            let (low, mut carry) = mac(t[0], a[0], b, 0);
            let m = low.wrapping_mul(M::INV);
            let (_, mut reduction) = mac(low, m, p[0], 0);
            for j in 1..N {
                let (low, high) = mac(t[j], a[j], b, carry);
                carry = high;
                let (low, high) = mac(low, m, p[j], reduction);
                reduction = high;
                t[j - 1] = low;
            }
            t[N - 1] = carry.wrapping_add(reduction);
        }
        t
    }
}
