//! A·B on the coset, which is all the quotient query needs (see setup.rs), by whichever transforms suit the processor.

use ark_ff::PrimeField;

use crate::curve::Curve;
use crate::domain::Domain;
use crate::error::Result;
#[cfg(target_arch = "x86_64")]
use crate::kernel::ifma::{Ifma, ScalarLanes};
use crate::kernel::{with_multiply, Element, Kernel, Limbs, Memory, Multiply};

pub struct Quotient<C: Curve> {
    pub domain: Domain<C>,
    kernel: Kernel,
    #[cfg(target_arch = "x86_64")]
    lanes: Option<(Ifma, <C::Scalar as ScalarLanes>::Transforms)>,
}

/// One of the two polynomials, and memory of its transforms, kept between calls.
pub struct Side<C: Curve> {
    /// Values on the domain: overwritten by [`Quotient::to_coset`].
    pub values: Vec<C::Scalar>,
    scratch: Vec<C::Scalar>,
    #[cfg(target_arch = "x86_64")]
    buffers: <C::Scalar as ScalarLanes>::Buffers,
}

impl<C: Curve> Side<C> {
    pub fn new(size: usize) -> Self {
        Self {
            values: vec![C::Scalar::ZERO; size],
            scratch: vec![C::Scalar::ZERO; size],
            #[cfg(target_arch = "x86_64")]
            buffers: Default::default(),
        }
    }
}

impl<C: Curve> Memory for Side<C> {
    fn bytes(&self) -> usize {
        #[cfg(target_arch = "x86_64")]
        return self.values.bytes() + self.scratch.bytes() + self.buffers.bytes();
        #[cfg(not(target_arch = "x86_64"))]
        return self.values.bytes() + self.scratch.bytes();
    }
}

impl<C: Curve> Quotient<C> {
    pub fn new(size: usize, kernel: Kernel) -> Result<Self> {
        let domain = Domain::<C>::new(size)?;
        #[cfg(target_arch = "x86_64")]
        let lanes = match kernel {
            Kernel::Ifma(ifma) => C::Scalar::transforms(ifma, size, domain.root, domain.shift)?.map(|t| (ifma, t)),
            _ => None,
        };
        Ok(Self {
            domain,
            kernel,
            #[cfg(target_arch = "x86_64")]
            lanes,
        })
    }

    /// From values on the domain to values on the coset, which stay in the side's memory.
    pub fn to_coset(&self, side: &mut Side<C>) {
        #[cfg(target_arch = "x86_64")]
        if let Some((ifma, transforms)) = &self.lanes {
            return C::Scalar::to_coset(*ifma, transforms, &side.values, &mut side.buffers);
        }
        with_multiply!(self.kernel, k => self.domain.to_coset(k, &mut side.values, &mut side.scratch));
    }

    /// The integers A·B mod r on the coset, each at most r.
    pub fn product(&self, a: &Side<C>, b: &Side<C>, out: &mut [Limbs<4>]) {
        self.multiply(a, b, out);
        #[cfg(test)]
        crate::kernel::faults::after_product(self.kernel, out);
    }

    fn multiply(&self, a: &Side<C>, b: &Side<C>, out: &mut [Limbs<4>]) {
        #[cfg(target_arch = "x86_64")]
        if let Some((ifma, transforms)) = &self.lanes {
            return C::Scalar::product(*ifma, transforms, &a.buffers, &b.buffers, out);
        }
        with_multiply!(self.kernel, k => multiply::<C, _>(&a.values, &b.values, out, k));
    }
}

fn multiply<C: Curve, K: Multiply>(a: &[C::Scalar], b: &[C::Scalar], out: &mut [Limbs<4>], kernel: K) {
    for ((a, b), out) in a.iter().zip(b).zip(out) {
        *out = a.times(*b, kernel).reduce().into_bigint().0;
    }
}
