//! The innermost loops, behind a boundary that names no curve: many independent affine additions at once.
//!
//! A caller hands over pairs of points and gets their sums; one field inversion is shared by the whole batch
//! (P. Montgomery's trick), so an addition costs about six multiplications. A faster kernel for a particular
//! processor replaces [`add_pairs`] and nothing else.

mod portable;

use ark_ec::short_weierstrass::{Affine, SWCurveConfig};
use ark_ec::AffineRepr;
use ark_ff::Field;

pub use portable::add_pairs;

/// Affine point without a flag: (0, 0) is infinity, which lies on no curve y² = x³ + b with b ≠ 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Point<F> {
    pub x: F,
    pub y: F,
}

impl<F: Field> Point<F> {
    pub const INFINITY: Self = Self { x: F::ZERO, y: F::ZERO };

    pub fn is_infinity(&self) -> bool {
        self.x == F::ZERO && self.y == F::ZERO
    }

    pub fn from_affine<C: SWCurveConfig<BaseField = F>>(point: &Affine<C>) -> Self {
        point.xy().map_or(Self::INFINITY, |(x, y)| Self { x, y })
    }

    pub fn to_affine<C: SWCurveConfig<BaseField = F>>(self) -> Affine<C> {
        if self.is_infinity() {
            Affine::zero()
        } else {
            Affine::new_unchecked(self.x, self.y)
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
    pub fn load<F: Field>(self, table: &[Point<F>]) -> Point<F> {
        let point = table[(self.0 & !Self::NEGATE) as usize];
        if self.0 & Self::NEGATE == 0 {
            point
        } else {
            Point { x: point.x, y: -point.y }
        }
    }
}

/// `out[to]` becomes `left + right`.
#[derive(Debug, Clone, Copy)]
pub struct Pair {
    pub left: Ref,
    pub right: Ref,
    pub to: u32,
}

/// Memory of a batch, kept between calls.
#[derive(Debug)]
pub struct Scratch<F> {
    denominators: Vec<F>,
    prefixes: Vec<F>,
}

impl<F> Default for Scratch<F> {
    fn default() -> Self {
        Self { denominators: Vec::new(), prefixes: Vec::new() }
    }
}
