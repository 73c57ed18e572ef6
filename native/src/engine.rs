//! The parts of a proof that can be worked on at the same time, and the memory each of them keeps.
//!
//! Tasks share nothing but what they read: every one has its own memory and leaves its result there. Locks are never
//! contended; they say which memory belongs to whom. A proof is two rounds: transforms and sums over the witness, then
//! the quotient's sum in as many parts as there are threads, and the blinding of C.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use zeroize::Zeroize;

use crate::circuit::Circuit;
use crate::curve::{Curve, G1Projective, G2Projective};
use crate::error::Result;
use crate::field::fr_to_be;
use crate::kernel::{with_multiply, Element, Endomorphism, Kernel, Limbs, Memory, Term};
use crate::keys::ProvingKey;
use crate::msm::{FixedMsm, MsmWork};
use crate::quotient::{Quotient, Side};
use crate::sealed::{FullSizeParts, FullSizeSums};
use crate::tables::{Lookup, QueryTables, Slot};
use crate::team::Tasks;
use crate::witness::Witness;

pub const SCALAR_BYTES: usize = 32;

type G1Tables<C> = QueryTables<<C as Curve>::Base, <C as Curve>::G1, 1>;
type G2Tables<C> = QueryTables<<C as Curve>::Base, <C as Curve>::G2, 2>;
type Words<C> = <<C as Curve>::Base as Element>::Words;

/// Tasks of the first round, the longest first.
pub const TRANSFORMS: Range<usize> = 0..2;
pub const WITNESS_SUMS: Range<usize> = 2..7;
const SIDE_A: usize = 0;
const SIDE_B: usize = 1;
const SUM_B2: usize = 2;
const SUM_FULL: usize = 3;
const SUM_A: usize = 4;
const SUM_B1: usize = 5;
const SUM_K: usize = 6;
/// Tasks of the second round: parts of the quotient's sum from here on, then the blinding.
const QUOTIENT: usize = 7;

/// Base-256 digits of a secret scalar.
pub type Digits = [Lookup; SCALAR_BYTES];

/// What the tasks of the proof under way read.
pub struct Job<C: Curve> {
    pub witness: Witness<C::Fr>,
    pub lookups: Vec<Lookup>,
    pub rest: Vec<(u32, C::Fr)>,
    /// A·B on the coset as integers, between the rounds.
    pub product: Vec<Limbs<4>>,
    pub blinding: Secrets<C::Fr>,
}

/// The blinding values and the digits of r, s and r·s; zero between proofs.
pub struct Secrets<F> {
    r: F,
    s: F,
    r_digits: Digits,
    s_digits: Digits,
    product_digits: Digits,
}

impl<F: ark_ff::PrimeField<BigInt = ark_ff::BigInt<4>>> Secrets<F> {
    fn new() -> Self {
        let none = [Lookup { slot: 0, byte: 0, negate: false }; SCALAR_BYTES];
        Self { r: F::ZERO, s: F::ZERO, r_digits: none, s_digits: none, product_digits: none }
    }

    pub fn set(&mut self, r: &F, s: &F) {
        let mut product = *r * s;
        (self.r, self.s) = (*r, *s);
        write_digits(r, &mut self.r_digits);
        write_digits(s, &mut self.s_digits);
        write_digits(&product, &mut self.product_digits);
        product.zeroize();
    }

    pub fn erase(&mut self) {
        self.r.zeroize();
        self.s.zeroize();
        for digits in [&mut self.r_digits, &mut self.s_digits, &mut self.product_digits] {
            digits.iter_mut().for_each(|digit| digit.byte.zeroize());
        }
    }
}

fn write_digits<F: ark_ff::PrimeField<BigInt = ark_ff::BigInt<4>>>(scalar: &F, digits: &mut Digits) {
    let mut bytes = fr_to_be(scalar);
    for (i, (digit, byte)) in digits.iter_mut().zip(bytes.iter().rev()).enumerate() {
        *digit = Lookup { slot: i as u32, byte: *byte, negate: false };
    }
    bytes.zeroize();
}

/// A sum over the witness, and memory of it.
struct Sum<P, W, const D: usize> {
    plain: P,
    /// With the multiple of δ that hides it.
    blinded: P,
    left: Vec<Term<W, D>>,
}

impl<P: Copy, W, const D: usize> Sum<P, W, D> {
    fn new(start: P, lookups: usize) -> Mutex<Self> {
        Mutex::new(Self { plain: start, blinded: start, left: Vec::with_capacity(lookups.max(SCALAR_BYTES)) })
    }
}

/// Sums over the wires of full size of a sealed circuit.
struct Full<C: Curve> {
    sums: FullSizeSums<C>,
    work: Mutex<FullWork<C>>,
}

struct FullWork<C: Curve> {
    scalars: Vec<Limbs<4>>,
    msm: MsmWork<C>,
    parts: FullSizeParts<C>,
}

/// α + A[0], β + B[0] and K[0]: the constant wire is always 1.
struct Start<C: Curve> {
    a: G1Projective<C>,
    b1: G1Projective<C>,
    b2: G2Projective<C>,
    k: G1Projective<C>,
}

pub struct Engine<C: Curve> {
    pub kernel: Kernel,
    pub quotient: Quotient<C>,
    pub plan: Vec<Slot>,
    a: G1Tables<C>,
    b1: G1Tables<C>,
    b2: G2Tables<C>,
    k: G1Tables<C>,
    delta_1: G1Tables<C>,
    delta_2: G2Tables<C>,
    h: FixedMsm<C>,
    endomorphism: Endomorphism<C>,
    start: Start<C>,
    full: Option<Full<C>>,
    job: RwLock<Job<C>>,
    sides: [Mutex<Side<C>>; 2],
    sum_a: Mutex<Sum<G1Projective<C>, Words<C>, 1>>,
    sum_b1: Mutex<Sum<G1Projective<C>, Words<C>, 1>>,
    sum_b2: Mutex<Sum<G2Projective<C>, Words<C>, 2>>,
    sum_k: Mutex<Sum<G1Projective<C>, Words<C>, 1>>,
    parts: Vec<Mutex<(G1Projective<C>, MsmWork<C>)>>,
    blind: Mutex<Sum<G1Projective<C>, Words<C>, 1>>,
}

/// The points of a proof before they are affine.
pub struct Points<C: Curve> {
    pub a: G1Projective<C>,
    pub b: G2Projective<C>,
    pub c: G1Projective<C>,
}

/// A panic cannot leave memory in a harmful state: every proof overwrites it.
fn lock<T>(memory: &Mutex<T>) -> MutexGuard<'_, T> {
    memory.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<C: Curve> Engine<C> {
    /// `parts`: in how many parts the quotient's sum is formed.
    pub fn new(circuit: &Circuit, key: ProvingKey<C>, plan: Vec<Slot>, kernel: Kernel, parts: usize) -> Result<Self> {
        use ark_ec::AffineRepr;

        let size = key.domain_size as usize;
        let start = Start {
            a: key.a[0].into_group() + key.alpha_1,
            b1: key.b1[0].into_group() + key.beta_1,
            b2: key.b2[0].into_group() + key.beta_2,
            k: key.k[0].into_group(),
        };
        let full = circuit.sealed.as_ref().map(|_| Full::new(FullSizeSums::new(circuit, &key, kernel)?)).transpose()?;
        let scalar_plan: Vec<Slot> =
            (0..SCALAR_BYTES as u32).map(|index| Slot::Byte { wire: 0, index, last: false }).collect();
        let h = FixedMsm::new(&key.h, kernel)?;
        let n = plan.len();
        let job = Job {
            witness: Witness::new(circuit),
            lookups: Vec::with_capacity(n),
            rest: Vec::with_capacity(n),
            product: vec![[0; 4]; size],
            blinding: Secrets::new(),
        };
        Ok(Self {
            kernel,
            quotient: Quotient::new(size, kernel)?,
            a: QueryTables::new(key.a, &plan, kernel)?,
            b1: QueryTables::new(key.b1, &plan, kernel)?,
            b2: QueryTables::new(key.b2, &plan, kernel)?,
            k: QueryTables::new(key.k, &plan, kernel)?,
            delta_1: QueryTables::new(vec![key.delta_1], &scalar_plan, kernel)?,
            delta_2: QueryTables::new(vec![key.delta_2], &scalar_plan, kernel)?,
            endomorphism: Endomorphism::default(),
            plan,
            full,
            job: RwLock::new(job),
            sides: [Mutex::new(Side::new(size)), Mutex::new(Side::new(size))],
            sum_a: Sum::new(start.a, n),
            sum_b1: Sum::new(start.b1, n),
            sum_b2: Sum::new(start.b2, n),
            sum_k: Sum::new(start.k, n),
            parts: (0..parts).map(|_| Mutex::new((start.k, MsmWork::of(&h)))).collect(),
            blind: Sum::new(start.k, 0),
            h,
            start,
        })
    }

    pub fn table_bytes(&self) -> usize {
        let g1: usize = [&self.a, &self.b1, &self.k, &self.delta_1].iter().map(|t| t.bytes()).sum();
        let full = self.full.as_ref().map_or(0, |full| full.sums.table_bytes());
        g1 + self.b2.bytes() + self.delta_2.bytes() + self.h.table_bytes() + full
    }

    /// Memory of proofs, which the first ones complete.
    pub fn work_bytes(&self) -> usize {
        let job = self.read();
        let inputs = job.witness.values.bytes() + job.witness.field.bytes() + job.lookups.bytes();
        let sides: usize = self.sides.iter().map(|side| lock(side).bytes()).sum();
        let sums = [&self.sum_a, &self.sum_b1, &self.sum_k, &self.blind].map(|sum| lock(sum).left.bytes());
        let sums = sums.iter().sum::<usize>() + lock(&self.sum_b2).left.bytes();
        let parts: usize = self.parts.iter().map(|part| lock(part).1.bytes()).sum();
        let full = self.full.as_ref().map_or(0, |full| {
            let work = lock(&full.work);
            work.scalars.bytes() + work.msm.bytes()
        });
        inputs + job.rest.bytes() + job.product.bytes() + sides + sums + parts + full
    }

    pub fn write(&self) -> RwLockWriteGuard<'_, Job<C>> {
        self.job.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self) -> RwLockReadGuard<'_, Job<C>> {
        self.job.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rows' values, for the thread that writes them before the first round.
    pub fn sides(&self) -> [MutexGuard<'_, Side<C>>; 2] {
        self.sides.each_ref().map(lock)
    }

    /// Between the rounds: A·B on the coset.
    pub fn multiply(&self) {
        let [a, b] = self.sides();
        self.quotient.product(&a, &b, &mut self.write().product);
    }

    pub fn quotient_tasks(&self) -> Range<usize> {
        QUOTIENT..QUOTIENT + self.parts.len()
    }

    pub fn blinding_task(&self) -> Range<usize> {
        self.quotient_tasks().end..self.quotient_tasks().end + 1
    }

    /// After both rounds. A = α + Σ + rδ, B = β + Σ + sδ, C = K + H + sA + rB − rsδ.
    pub fn points(&self) -> Points<C> {
        let mut c = lock(&self.sum_k).plain + lock(&self.blind).blinded;
        for part in &self.parts {
            c += lock(part).0;
        }
        let (mut a, mut b) = (lock(&self.sum_a).blinded, lock(&self.sum_b2).blinded);
        if let Some(full) = &self.full {
            let work = lock(&full.work);
            a += work.parts.a;
            b += work.parts.b2;
            c += work.parts.k;
        }
        Points { a, b, c }
    }

    /// Overwrites inputs, salt and the rows' values. Points stay until the next proof.
    pub fn erase(&self) {
        let job = &mut *self.write();
        job.witness.erase();
        job.product.fill([0; 4]);
        job.lookups.fill(Lookup { slot: 0, byte: 0, negate: false });
        job.rest.fill((0, C::Fr::from(0u64)));
        for mut side in self.sides() {
            side.values.fill(C::Scalar::ZERO);
        }
        self.parts.iter().for_each(|part| lock(part).1.erase());
        if let Some(full) = &self.full {
            lock(&full.work).msm.erase();
        }
    }

    fn sum_g1(
        &self,
        tables: &G1Tables<C>,
        start: G1Projective<C>,
        sum: &Mutex<Sum<G1Projective<C>, Words<C>, 1>>,
        digits: impl Fn(&Secrets<C::Fr>) -> Option<&Digits>,
    ) {
        let (job, sum) = (self.read(), &mut *lock(sum));
        sum.plain = tables.sum(start, &job.lookups, &job.rest, &mut sum.left);
        if let Some(digits) = digits(&job.blinding) {
            sum.blinded = self.delta_1.sum(sum.plain, digits, &[], &mut sum.left);
        }
    }

    fn sum_b2(&self) {
        let (job, sum) = (self.read(), &mut *lock(&self.sum_b2));
        sum.plain = self.b2.sum(self.start.b2, &job.lookups, &job.rest, &mut sum.left);
        sum.blinded = self.delta_2.sum(sum.plain, &job.blinding.s_digits, &[], &mut sum.left);
    }

    fn sum_full(&self) {
        if let Some(full) = &self.full {
            let work = &mut *lock(&full.work);
            work.parts = full.sums.run(&self.read().witness, &mut work.scalars, &mut work.msm);
        }
    }

    fn quotient_part(&self, part: usize) {
        let (job, memory) = (self.read(), &mut *lock(&self.parts[part]));
        memory.0 = self.h.run_part(&job.product, part, self.parts.len(), &mut memory.1);
    }

    /// With A = A₀ + rδ and B = B₀ + sδ: sA + rB − rsδ = sA₀ + rB₀ + rsδ.
    fn blind(&self) {
        let (job, sum) = (self.read(), &mut *lock(&self.blind));
        let (mut a, mut b) = (lock(&self.sum_a).plain, lock(&self.sum_b1).plain);
        if let Some(full) = &self.full {
            let work = lock(&full.work);
            a += work.parts.a;
            b += work.parts.b1;
        }
        let Secrets { r, s, product_digits, .. } = &job.blinding;
        sum.plain = with_multiply!(self.kernel, k => self.endomorphism.multiply_two(&[a, b], [s, r], k));
        sum.blinded = self.delta_1.sum(sum.plain, product_digits, &[], &mut sum.left);
    }
}

impl<C: Curve> Full<C> {
    fn new(sums: FullSizeSums<C>) -> Result<Self> {
        let work = FullWork { scalars: Vec::new(), msm: MsmWork::default(), parts: FullSizeParts::zero() };
        Ok(Self { sums, work: Mutex::new(work) })
    }
}

impl<C: Curve> Tasks for Engine<C> {
    fn run(&self, task: usize) {
        match task {
            SIDE_A | SIDE_B => self.quotient.to_coset(&mut lock(&self.sides[task])),
            SUM_B2 => self.sum_b2(),
            SUM_FULL => self.sum_full(),
            SUM_A => self.sum_g1(&self.a, self.start.a, &self.sum_a, |secrets| Some(&secrets.r_digits)),
            SUM_B1 => self.sum_g1(&self.b1, self.start.b1, &self.sum_b1, |_| None),
            SUM_K => self.sum_g1(&self.k, self.start.k, &self.sum_k, |_| None),
            _ if self.quotient_tasks().contains(&task) => self.quotient_part(task - QUOTIENT),
            _ => self.blind(),
        }
    }
}
