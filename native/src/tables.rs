//! Sums of query points for small wire values, nearly free: wires are cut into bytes and every byte has a table.
//!
//! Eight boolean wires share one 256-entry table of subset sums; any other wire has one table per byte of its
//! magnitude. A value beyond its tables is still exact, only slower.

use std::marker::PhantomData;

use ark_ec::short_weierstrass::{Affine, Projective, SWCurveConfig};
use ark_ec::{AdditiveGroup, AffineRepr, CurveGroup};
use ark_ff::{Field, PrimeField};

use crate::error::{Error, Result};
use crate::kernel::{Coordinate, GroupElement, Kernel, Term};
use crate::msm::TABLE_BYTES_MAX;

const BYTE_VALUES: usize = 256;

/// A table entry without the library's infinity flag and its padding; (0, 0) is infinity.
#[derive(Clone, Copy)]
struct Entry<F> {
    x: F,
    y: F,
}

impl<F: Field> Entry<F> {
    fn new<C: SWCurveConfig<BaseField = F>>(point: &Affine<C>) -> Self {
        let (x, y) = point.xy().unwrap_or((F::ZERO, F::ZERO));
        Self { x, y }
    }
}

/// 256 subset sums of eight points; entry m is the sum of the points whose bit is set in m.
fn subset_sums<C: SWCurveConfig>(points: &[Projective<C>; 8]) -> Vec<Entry<C::BaseField>> {
    let mut sums = vec![Projective::<C>::ZERO; BYTE_VALUES];
    for (i, point) in points.iter().enumerate() {
        for m in 0..1usize << i {
            sums[(1 << i) + m] = sums[m] + point;
        }
    }
    Projective::normalize_batch(&sums).iter().map(Entry::new).collect()
}

/// The tables of one query.
///
/// `D` is the degree of the group's coordinates: 1 for G1, 2 for G2.
pub struct QueryTables<F, C: SWCurveConfig, const D: usize> {
    kernel: Kernel,
    /// The field the kernel computes in.
    field: PhantomData<F>,
    entries: Vec<Entry<C::BaseField>>,
    /// Per slot of the plan: the table's offset in `entries`, or none if all its points are infinity.
    offsets: Vec<Option<u32>>,
    /// The query's points, for values beyond their tables.
    points: Vec<Affine<C>>,
}

/// Which byte a slot reads: eight booleans, or one byte of a wire's magnitude.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Slot {
    Booleans(Vec<u32>),
    /// `last`: what is beyond this byte has no table.
    Byte {
        wire: u32,
        index: u32,
        last: bool,
    },
}

/// One lookup of a proof: entry `byte` of slot `slot`, negated or not.
#[derive(Debug, Clone, Copy)]
pub struct Lookup {
    pub slot: u32,
    pub byte: u8,
    pub negate: bool,
}

impl<F: GroupElement, C: SWCurveConfig<BaseField: Coordinate<F, D>>, const D: usize> QueryTables<F, C, D> {
    pub fn new(points: Vec<Affine<C>>, plan: &[Slot], kernel: Kernel) -> Result<Self> {
        let mut tables =
            Self { kernel, field: PhantomData, entries: Vec::new(), offsets: Vec::with_capacity(plan.len()), points };
        for slot in plan {
            let bases = tables.bases(slot);
            if bases.iter().all(|p| *p == Projective::ZERO) {
                tables.offsets.push(None);
                continue;
            }
            let offset = tables.entries.len();
            if tables.bytes() > TABLE_BYTES_MAX {
                return Err(Error::new("circuit-limit", format!("tables over {TABLE_BYTES_MAX} bytes")));
            }
            tables.entries.extend(subset_sums(&bases));
            tables.offsets.push(Some(offset as u32));
        }
        Ok(tables)
    }

    pub fn bytes(&self) -> usize {
        self.entries.len() * size_of::<Entry<C::BaseField>>()
    }

    fn bases(&self, slot: &Slot) -> [Projective<C>; 8] {
        let mut bases = [Projective::<C>::ZERO; 8];
        match slot {
            Slot::Booleans(wires) => {
                for (base, wire) in bases.iter_mut().zip(wires) {
                    *base = self.points[*wire as usize].into_group();
                }
            }
            Slot::Byte { wire, index, .. } => {
                let mut point = self.points[*wire as usize].into_group();
                (0..8 * index).for_each(|_| {
                    point.double_in_place();
                });
                for base in &mut bases {
                    *base = point;
                    point.double_in_place();
                }
            }
        }
        bases
    }

    /// The looked-up entries and the rest, which is (wire, scalar), added to `start`. `left` is memory.
    pub fn sum(
        &self,
        start: Projective<C>,
        lookups: &[Lookup],
        rest: &[(u32, C::ScalarField)],
        left: &mut Vec<Term<F::Words, D>>,
    ) -> Projective<C> {
        let mut sum = start;
        left.clear();
        for [x, y, z] in self.kernel.sum::<F, D>(lookups.iter().filter_map(|l| self.term(l)), left) {
            let [x, y, z] = [x, y, z].map(C::BaseField::from_words);
            sum += Projective::new_unchecked(x, y, z);
        }
        for term in left {
            let point = Affine::new_unchecked(C::BaseField::from_words(term.x), C::BaseField::from_words(term.y));
            if term.negate {
                sum -= point;
            } else {
                sum += point;
            }
        }
        for (wire, scalar) in rest {
            let point = self.points[*wire as usize];
            if !point.is_zero() {
                // Bit by bit: the library's faster way allocates.
                sum += point.mul_bigint(scalar.into_bigint());
            }
        }
        sum
    }

    /// None if the entry is infinity.
    fn term(&self, lookup: &Lookup) -> Option<Term<F::Words, D>> {
        let offset = self.offsets[lookup.slot as usize]?;
        let Entry { x, y } = self.entries[offset as usize + usize::from(lookup.byte)];
        let finite = x != C::BaseField::ZERO || y != C::BaseField::ZERO;
        finite.then(|| Term { x: x.to_words(), y: y.to_words(), negate: lookup.negate })
    }
}
