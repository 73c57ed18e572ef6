//! The innermost loops, behind one boundary: field arithmetic and many independent affine additions at once.
//!
//! A caller hands over pairs of points and gets their sums; one field inversion is shared by the whole batch
//! (P. Montgomery's trick), so an addition costs about six multiplications.
//!
//! How a kernel is added: a scalar one is a [`Multiply`], whose values prove that the processor has what it needs, a
//! variant of [`Kernel`], and an arm in each `match` on it, here and in `quotient.rs`, that hands the value to the
//! loops every scalar kernel shares (`portable::add_pairs`, `Domain::to_coset`). A vector kernel brings whole loops of
//! its own, as `ifma` does by its traits `GroupLanes` and `ScalarLanes`. Tests run over [`Kernel::available`].

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod adx;
mod element;
#[cfg(test)]
pub(crate) mod faults;
mod group;
#[cfg(target_arch = "x86_64")]
pub mod ifma;
mod inverse;
mod lazy;
mod multiply;
mod portable;
mod words;

use ark_ec::short_weierstrass::{Affine, SWCurveConfig};
use ark_ec::AffineRepr;

use crate::error::{Error, Result};

#[cfg(target_arch = "aarch64")]
pub use aarch64::Interleaved;
#[cfg(target_arch = "x86_64")]
pub use adx::Adx;
pub use element::{Coordinate, Element, GroupElement, ScalarElement, Words};
pub use group::{normalize, Endomorphism, Single};
pub use lazy::{Lazy, Limbs};
pub use multiply::{Multiply, Portable};

/// Affine G1 point without a flag. Infinity has y = 0, in the representation 0: the group has odd order, so no
/// other point has y = 0.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Point<F: Element> {
    pub x: F,
    pub y: F,
    align: [<F::Words as Words>::Align; 0],
}

impl<F: Element> Point<F> {
    pub const INFINITY: Self = Self::new(F::ZERO, F::ZERO);

    #[inline(always)]
    pub const fn new(x: F, y: F) -> Self {
        Self { x, y, align: [] }
    }

    #[inline(always)]
    pub fn is_infinity(&self) -> bool {
        self.y.has_zero_limbs()
    }

    pub fn from_affine<P: SWCurveConfig<BaseField = F::Field>>(point: &Affine<P>) -> Self {
        point.xy().map_or(Self::INFINITY, |(x, y)| Self::new(F::new(x), F::new(y)))
    }

    pub fn to_affine<P: SWCurveConfig<BaseField = F::Field>>(self) -> Affine<P> {
        if self.is_infinity() {
            Affine::zero()
        } else {
            Affine::new_unchecked(self.x.reduce(), self.y.reduce())
        }
    }
}

/// Index into a point table; the top bit asks for the negated point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ref(u32);

impl Ref {
    const NEGATE: u32 = 1 << 31;
    /// Largest table a reference can address.
    pub const INDEX_MAX: usize = (Self::NEGATE - 1) as usize;

    /// `index` is at most [`Self::INDEX_MAX`]: tables are bounded far below when they are built.
    pub fn new(index: usize, negate: bool) -> Self {
        debug_assert!(index <= Self::INDEX_MAX);
        Self(index as u32 | if negate { Self::NEGATE } else { 0 })
    }

    #[inline(always)]
    fn index(self) -> usize {
        (self.0 & !Self::NEGATE) as usize
    }

    #[inline(always)]
    fn negates(self) -> bool {
        self.0 & Self::NEGATE != 0
    }

    #[inline(always)]
    pub fn load<F: Element>(self, table: &[Point<F>]) -> Point<F> {
        let point = &table[self.index()];
        Point::new(point.x, point.y.negate_if(self.negates()))
    }
}

/// `out[to]` becomes `left + right`.
#[derive(Debug, Clone, Copy)]
pub struct Pair {
    pub left: Ref,
    pub right: Ref,
    pub to: u32,
}

/// x and y, canonical, of a point that is not infinity, and whether to subtract it.
#[derive(Debug, Clone, Copy)]
pub struct Term<W, const D: usize> {
    pub x: [W; D],
    pub y: [W; D],
    pub negate: bool,
}

/// Jacobian coordinates.
pub type Jacobian<W, const D: usize> = [[W; D]; 3];

/// Memory of a batch, kept between calls.
pub struct Scratch<F: GroupElement> {
    portable: portable::Scratch<F>,
    #[cfg(target_arch = "x86_64")]
    ifma: F::Scratch,
}

impl<F: GroupElement> Default for Scratch<F> {
    fn default() -> Self {
        Self {
            portable: portable::Scratch::default(),
            #[cfg(target_arch = "x86_64")]
            ifma: F::Scratch::default(),
        }
    }
}

/// Names the kernel to use instead of the fastest one.
pub const KERNEL_VARIABLE: &str = "SITS_KERNEL";

/// Names of all kernels, on whatever processor.
const NAMES: [&str; 4] = ["ifma", "adx", "aarch64", "scalar"];

/// Which code runs the innermost loops. All kernels give the same sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    Scalar,
    #[cfg(target_arch = "x86_64")]
    Adx(Adx),
    #[cfg(target_arch = "x86_64")]
    Ifma(ifma::Ifma),
    #[cfg(target_arch = "aarch64")]
    Interleaved(Interleaved),
}

/// Runs `$body` with `$k` as the kernel's way to multiply single elements.
macro_rules! with_multiply {
    ($kernel:expr, $k:ident => $body:expr) => {
        match $kernel {
            $crate::kernel::Kernel::Scalar => {
                let $k = $crate::kernel::Portable;
                $body
            }
            #[cfg(target_arch = "x86_64")]
            $crate::kernel::Kernel::Adx($k) => $body,
            #[cfg(target_arch = "x86_64")]
            $crate::kernel::Kernel::Ifma(ifma) => {
                let $k = ifma.scalar();
                $body
            }
            #[cfg(target_arch = "aarch64")]
            $crate::kernel::Kernel::Interleaved($k) => $body,
        }
    };
}
pub(crate) use with_multiply;

impl Kernel {
    /// Those this processor can run, fastest first; the last one is [`Self::Scalar`].
    pub fn available() -> Vec<Self> {
        let mut kernels = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            kernels.extend(ifma::Ifma::detect().map(Self::Ifma));
            kernels.extend(Adx::detect().map(Self::Adx));
        }
        #[cfg(target_arch = "aarch64")]
        kernels.push(Self::Interleaved(Interleaved));
        kernels.push(Self::Scalar);
        kernels
    }

    pub fn fastest() -> Self {
        Self::available()[0]
    }

    /// Errors: `kernel-unknown`, `kernel-unavailable` on this processor.
    pub fn named(name: &str) -> Result<Self> {
        if !NAMES.contains(&name) {
            return Err(Error::new("kernel-unknown", format!("kernel {name:?}, expected one of {}", NAMES.join(", "))));
        }
        Self::available()
            .into_iter()
            .find(|kernel| kernel.name() == name)
            .ok_or_else(|| Error::new("kernel-unavailable", format!("this processor cannot run kernel {name}")))
    }

    /// The one [`KERNEL_VARIABLE`] names, else the fastest.
    pub fn from_environment() -> Result<Self> {
        match std::env::var_os(KERNEL_VARIABLE) {
            None => Ok(Self::fastest()),
            Some(name) => Self::named(&name.to_string_lossy()),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            #[cfg(target_arch = "x86_64")]
            Self::Adx(_) => "adx",
            #[cfg(target_arch = "x86_64")]
            Self::Ifma(_) => "ifma",
            #[cfg(target_arch = "aarch64")]
            Self::Interleaved(_) => "aarch64",
        }
    }

    /// A few sums that add up to that of all `terms`, but for those put into `left`, which the caller adds.
    pub fn sum<F: GroupElement, const D: usize>(
        self,
        terms: impl Iterator<Item = Term<F::Words, D>>,
        left: &mut Vec<Term<F::Words, D>>,
    ) -> impl Iterator<Item = Jacobian<F::Words, D>> {
        let lanes = match self {
            #[cfg(target_arch = "x86_64")]
            Self::Ifma(ifma) => F::sum(ifma, terms, left),
            _ => {
                left.extend(terms);
                None
            }
        };
        #[cfg(test)]
        faults::after_sum(self, left);
        lanes.into_iter().flat_map(<[Jacobian<F::Words, D>; 8]>::into_iter)
    }

    /// `out[pair.to] = table[pair.left] + table[pair.right]` for all pairs, with one inversion.
    pub fn add_pairs<F: GroupElement>(
        self,
        table: &[Point<F>],
        pairs: &[Pair],
        out: &mut [Point<F>],
        scratch: &mut Scratch<F>,
    ) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Ifma(ifma) => F::add_pairs(ifma, table, pairs, out, &mut scratch.ifma),
            _ => with_multiply!(self, k => portable::add_pairs(k, table, pairs, out, &mut scratch.portable)),
        }
        #[cfg(test)]
        faults::after_add_pairs(self, table, pairs, out);
    }
}

#[cfg(test)]
pub(crate) mod tests;
