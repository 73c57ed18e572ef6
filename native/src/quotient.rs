//! A·B on the coset, which is all the quotient query needs (see setup.rs), by whichever transforms suit the processor.

use ark_ff::PrimeField;

use crate::domain::Domain;
use crate::error::Result;
#[cfg(target_arch = "x86_64")]
use crate::kernel::ifma;
use crate::kernel::{Kernel, Limbs, Scalar};

pub struct Quotient {
    pub domain: Domain,
    #[cfg(target_arch = "x86_64")]
    lanes: Option<(ifma::Ifma, ifma::Transforms)>,
}

/// Memory of one quotient, kept between calls.
pub struct QuotientWork {
    /// Values on the domain: overwritten by [`Quotient::run`].
    pub a: Vec<Scalar>,
    pub b: Vec<Scalar>,
    /// Values on the coset as integers, each at most r.
    pub product: Vec<Limbs>,
    scratch: Vec<Scalar>,
    #[cfg(target_arch = "x86_64")]
    buffers: ifma::Buffers,
}

impl QuotientWork {
    pub fn new(size: usize) -> Self {
        Self {
            a: vec![Scalar::ZERO; size],
            b: vec![Scalar::ZERO; size],
            product: vec![[0; 4]; size],
            scratch: vec![Scalar::ZERO; size],
            #[cfg(target_arch = "x86_64")]
            buffers: ifma::Buffers::default(),
        }
    }
}

impl Quotient {
    pub fn new(size: usize, kernel: Kernel) -> Result<Self> {
        let domain = Domain::new(size)?;
        #[cfg(target_arch = "x86_64")]
        let lanes = match kernel {
            Kernel::Ifma(ifma) => ifma.transforms(&domain)?.map(|transforms| (ifma, transforms)),
            Kernel::Scalar => None,
        };
        #[cfg(not(target_arch = "x86_64"))]
        let Kernel::Scalar = kernel;
        Ok(Self {
            domain,
            #[cfg(target_arch = "x86_64")]
            lanes,
        })
    }

    pub fn run(&self, work: &mut QuotientWork) {
        #[cfg(target_arch = "x86_64")]
        if let Some((ifma, transforms)) = &self.lanes {
            return ifma.product_on_coset(transforms, &work.a, &work.b, &mut work.buffers, &mut work.product);
        }
        self.domain.to_coset(&mut work.a, &mut work.scratch);
        self.domain.to_coset(&mut work.b, &mut work.scratch);
        for ((a, b), out) in work.a.iter().zip(&work.b).zip(&mut work.product) {
            *out = (*a * *b).reduce().into_bigint().0;
        }
    }
}
