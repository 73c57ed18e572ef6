//! A·B on the coset, which is all the quotient query needs (see setup.rs), by whichever transforms suit the processor.

use ark_ff::PrimeField;

use crate::curve::Curve;
use crate::domain::Domain;
use crate::error::Result;
#[cfg(target_arch = "x86_64")]
use crate::kernel::ifma::{Ifma, ScalarLanes};
use crate::kernel::{with_multiply, Element, Kernel, Limbs, Multiply};

pub struct Quotient<C: Curve> {
    pub domain: Domain<C>,
    kernel: Kernel,
    #[cfg(target_arch = "x86_64")]
    lanes: Option<(Ifma, <C::Scalar as ScalarLanes>::Transforms)>,
}

/// Memory of one quotient, kept between calls.
pub struct QuotientWork<C: Curve> {
    /// Values on the domain: overwritten by [`Quotient::run`].
    pub a: Vec<C::Scalar>,
    pub b: Vec<C::Scalar>,
    /// Values on the coset as integers, each at most r.
    pub product: Vec<Limbs<4>>,
    scratch: Vec<C::Scalar>,
    #[cfg(target_arch = "x86_64")]
    buffers: <C::Scalar as ScalarLanes>::Buffers,
}

impl<C: Curve> QuotientWork<C> {
    pub fn new(size: usize) -> Self {
        Self {
            a: vec![C::Scalar::ZERO; size],
            b: vec![C::Scalar::ZERO; size],
            product: vec![[0; 4]; size],
            scratch: vec![C::Scalar::ZERO; size],
            #[cfg(target_arch = "x86_64")]
            buffers: Default::default(),
        }
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

    pub fn run(&self, work: &mut QuotientWork<C>) {
        self.multiply(work);
        #[cfg(test)]
        crate::kernel::faults::after_product(self.kernel, &mut work.product);
    }

    fn multiply(&self, work: &mut QuotientWork<C>) {
        #[cfg(target_arch = "x86_64")]
        if let Some((ifma, transforms)) = &self.lanes {
            let QuotientWork { a, b, buffers, product, .. } = work;
            return C::Scalar::product_on_coset(*ifma, transforms, a, b, buffers, product);
        }
        with_multiply!(self.kernel, k => self.run_scalar(k, work));
    }

    fn run_scalar<K: Multiply>(&self, kernel: K, work: &mut QuotientWork<C>) {
        self.domain.to_coset(kernel, &mut work.a, &mut work.scratch);
        self.domain.to_coset(kernel, &mut work.b, &mut work.scratch);
        for ((a, b), out) in work.a.iter().zip(&work.b).zip(&mut work.product) {
            *out = a.times(*b, kernel).reduce().into_bigint().0;
        }
    }
}
