//! The innermost loops, behind one boundary: field arithmetic and many independent affine additions at once.
//!
//! A caller hands over pairs of points and gets their sums; one field inversion is shared by the whole batch
//! (P. Montgomery's trick), so an addition costs about six multiplications. A faster kernel for a particular
//! processor replaces [`add_pairs`] and nothing else.

mod lazy;
mod portable;

use ark_bn254::{FqConfig, FrConfig, G1Affine};
use ark_ec::AffineRepr;

pub use lazy::Lazy;
pub use portable::add_pairs;

pub type Fp = Lazy<FqConfig>;
pub type Scalar = Lazy<FrConfig>;

/// Affine G1 point without a flag. Infinity has y = 0, in the representation 0: the group has odd order, so no
/// other point has y = 0.
///
/// Aligned to a cache line, which it fills.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub struct Point {
    pub x: Fp,
    pub y: Fp,
}

impl Point {
    pub const INFINITY: Self = Self { x: Fp::ZERO, y: Fp::ZERO };

    #[inline(always)]
    pub fn is_infinity(&self) -> bool {
        self.y.has_zero_limbs()
    }

    pub fn from_affine(point: &G1Affine) -> Self {
        point.xy().map_or(Self::INFINITY, |(x, y)| Self { x: Fp::new(x), y: Fp::new(y) })
    }

    pub fn to_affine(self) -> G1Affine {
        if self.is_infinity() {
            G1Affine::zero()
        } else {
            G1Affine::new_unchecked(self.x.reduce(), self.y.reduce())
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
    pub fn load(self, table: &[Point]) -> Point {
        let point = &table[(self.0 & !Self::NEGATE) as usize];
        Point { x: point.x, y: point.y.negate_if(self.0 & Self::NEGATE != 0) }
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
#[derive(Default)]
pub struct Scratch {
    denominators: Vec<Fp>,
    prefixes: Vec<Fp>,
}
