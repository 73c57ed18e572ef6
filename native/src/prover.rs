//! Groth16 prover for one fixed circuit: everything that does not depend on the witness is tabulated at load.

use std::sync::Mutex;

use ark_ec::{AffineRepr, CurveGroup};
use ark_ff::{BigInt, PrimeField};
use zeroize::{Zeroize, Zeroizing};

use crate::circuit::{Circuit, Op};
use crate::curve::{Curve, G1Affine, G1Projective, G2Projective};
use crate::error::{Error, Result};
use crate::field::{fr_from_ctx, fr_to_be, random_fr};
use crate::kernel::{normalize, with_multiply, Element, Endomorphism, Kernel, Limbs, Multiply, Single};
use crate::keys::ProvingKey;
use crate::msm::{FixedMsm, MsmWork};
use crate::quotient::{Quotient, QuotientWork};
use crate::rows;
use crate::sealed::{FieldProgram, FullSizeSums};
use crate::tables::{Lookup, QueryTables, Slot};
use crate::verifier::Proof;
use crate::witness::Witness;

/// Tabulated bytes of inputs, outputs and products: quantised values fit 16 bits, larger ones take the slow path.
const WIRE_BYTES: u32 = 2;
const CTX_BYTES: u32 = 31;
const SCALAR_BYTES: u32 = 32;
const BOOLEANS_PER_SLOT: usize = 8;

type G1Tables<C> = QueryTables<<C as Curve>::Base, <C as Curve>::G1, 1>;
type G2Tables<C> = QueryTables<<C as Curve>::Base, <C as Curve>::G2, 2>;

/// Parts of a proof, in the order of their work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Witness and rows.
    Rows,
    /// Four transforms and the product on the coset.
    Transforms,
    /// A, B in both groups and K.
    WitnessSums,
    /// H.
    QuotientSum,
    /// Blinding and the final inversions.
    Blinding,
}

pub struct Prover<C: Curve> {
    pub circuit: Circuit,
    kernel: Kernel,
    quotient: Quotient<C>,
    plan: Vec<Slot>,
    a: G1Tables<C>,
    b1: G1Tables<C>,
    b2: G2Tables<C>,
    k: G1Tables<C>,
    delta_1: G1Tables<C>,
    delta_2: G2Tables<C>,
    h: FixedMsm<C>,
    endomorphism: Endomorphism<C>,
    /// α + A[0], β + B[0] and K[0]: the constant wire is always 1.
    start: Start<C>,
    /// Only for a sealed circuit.
    sealed: Option<SealedParts<C>>,
    work: Mutex<Work<C>>,
}

struct Start<C: Curve> {
    a: G1Projective<C>,
    b1: G1Projective<C>,
    b2: G2Projective<C>,
    k: G1Projective<C>,
}

struct SealedParts<C: Curve> {
    program: FieldProgram<C::Fr>,
    sums: FullSizeSums<C>,
}

/// A sealed statement's part of a proof.
pub struct SealedProof<C: Curve> {
    pub commitment: C::Fr,
    pub outputs: Vec<i64>,
    pub proof: Proof<C>,
}

/// Memory of one proof, kept between proofs.
struct Work<C: Curve> {
    witness: Witness<C::Fr>,
    quotient: QuotientWork<C>,
    lookups: Vec<Lookup>,
    rest: Vec<(u32, C::Fr)>,
    msm: MsmWork<C>,
    /// Wires of full size as integers.
    scalars: Vec<Limbs<4>>,
}

impl<C: Curve> Work<C> {
    /// Overwrites inputs, salt and the rows' values. What the transforms and the bucket sorting hold is overwritten by
    /// the next proof.
    fn erase(&mut self) {
        self.witness.erase();
        self.quotient.a.fill(C::Scalar::ZERO);
        self.quotient.b.fill(C::Scalar::ZERO);
        self.quotient.product.fill([0; 4]);
        self.lookups.fill(Lookup { slot: 0, byte: 0, negate: false });
        self.rest.fill((0, C::Fr::from(0u64)));
    }
}

/// Blinding values of one proof; erased when dropped, never stored.
pub(crate) struct Blinding<F: Zeroize> {
    pub r: Zeroizing<F>,
    pub s: Zeroizing<F>,
}

impl<C: Curve> Prover<C> {
    /// Parses and checks both files and builds the tables.
    ///
    /// Errors: `circuit-…`, `curve-mismatch`, `pk-format`, `pk-circuit`, `kernel-…`.
    pub fn new(circuit: &[u8], proving_key: &[u8]) -> Result<Self> {
        Self::with_kernel(circuit, proving_key, Kernel::from_environment()?)
    }

    pub fn with_kernel(circuit: &[u8], proving_key: &[u8], kernel: Kernel) -> Result<Self> {
        Self::for_circuit(Circuit::parse(circuit)?, proving_key, kernel)
    }

    pub fn for_circuit(circuit: Circuit, proving_key: &[u8], kernel: Kernel) -> Result<Self> {
        let key = ProvingKey::<C>::decode(proving_key, &circuit)?;
        let quotient = Quotient::new(key.domain_size as usize, kernel)?;
        let plan = plan(&circuit);
        let scalar_plan: Vec<Slot> = (0..SCALAR_BYTES).map(|index| Slot::Byte { wire: 0, index }).collect();
        let start = Start {
            a: key.a[0].into_group() + key.alpha_1,
            b1: key.b1[0].into_group() + key.beta_1,
            b2: key.b2[0].into_group() + key.beta_2,
            k: key.k[0].into_group(),
        };
        let work = Work {
            witness: Witness::new(&circuit),
            quotient: QuotientWork::new(key.domain_size as usize),
            lookups: Vec::with_capacity(plan.len()),
            rest: Vec::new(),
            msm: MsmWork::default(),
            scalars: Vec::new(),
        };
        let sealed = match &circuit.sealed {
            None => None,
            Some(part) => {
                Some(SealedParts { program: FieldProgram::new(part), sums: FullSizeSums::new(&circuit, &key, kernel)? })
            }
        };
        Ok(Self {
            a: QueryTables::new(key.a, &plan, kernel)?,
            b1: QueryTables::new(key.b1, &plan, kernel)?,
            b2: QueryTables::new(key.b2, &plan, kernel)?,
            k: QueryTables::new(key.k, &plan, kernel)?,
            delta_1: QueryTables::new(vec![key.delta_1], &scalar_plan, kernel)?,
            delta_2: QueryTables::new(vec![key.delta_2], &scalar_plan, kernel)?,
            h: FixedMsm::new(&key.h, kernel)?,
            endomorphism: Endomorphism::default(),
            circuit,
            kernel,
            quotient,
            plan,
            start,
            sealed,
            work: Mutex::new(work),
        })
    }

    pub fn kernel(&self) -> Kernel {
        self.kernel
    }

    pub fn domain_size(&self) -> usize {
        self.quotient.domain.size
    }

    pub fn table_bytes(&self) -> usize {
        let g1: usize = [&self.a, &self.b1, &self.k, &self.delta_1].iter().map(|t| t.bytes()).sum();
        let full = self.sealed.as_ref().map_or(0, |part| part.sums.table_bytes());
        g1 + self.b2.bytes() + self.delta_2.bytes() + self.h.table_bytes() + full
    }

    fn require_open(&self) -> Result<()> {
        if self.sealed.is_none() {
            return Ok(());
        }
        Err(Error::new("circuit-sealed", "a sealed circuit is proven with a salt"))
    }

    /// All wires as field elements.
    pub fn witness(&self, inputs: &[i64], ctx: &[u8]) -> Result<Vec<C::Fr>> {
        self.require_open()?;
        let mut witness = Witness::new(&self.circuit);
        witness.fill(&self.circuit, inputs, fr_from_ctx(ctx)?)?;
        Ok(witness.to_field(&self.circuit))
    }

    /// All wires of a sealed circuit as field elements. Errors as [`Self::prove_sealed`].
    pub fn witness_sealed(&self, inputs: &[i64], salt: &[u8], ctx: &[u8]) -> Result<Vec<C::Fr>> {
        let mut witness = Witness::new(&self.circuit);
        witness.fill(&self.circuit, inputs, fr_from_ctx(ctx)?)?;
        self.sealed()?.program.fill(&self.circuit, &mut witness, salt)?;
        let wires = witness.to_field(&self.circuit);
        witness.erase();
        Ok(wires)
    }

    fn sealed(&self) -> Result<&SealedParts<C>> {
        self.sealed.as_ref().ok_or_else(|| Error::new("circuit-open", "an open circuit takes no salt"))
    }

    /// Commitment, outputs and a proof of a sealed circuit with fresh blinding; `salt` has 31 bytes.
    ///
    /// Errors: as [`Self::prove`], `salt-length`, and `circuit-open` if the circuit is none.
    pub fn prove_sealed(&self, inputs: &[i64], salt: &[u8], ctx: &[u8]) -> Result<SealedProof<C>> {
        let blinding = Blinding { r: Zeroizing::new(random_fr()?), s: Zeroizing::new(random_fr()?) };
        self.prove_sealed_blinded(inputs, salt, ctx, &blinding)
    }

    /// Never public, as [`Self::prove_blinded`].
    pub(crate) fn prove_sealed_blinded(
        &self,
        inputs: &[i64],
        salt: &[u8],
        ctx: &[u8],
        blinding: &Blinding<C::Fr>,
    ) -> Result<SealedProof<C>> {
        let part = self.sealed()?;
        let mut guard = self.work.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let work = &mut *guard;
        let proven = self.prove_sealed_into(work, part, (inputs, salt, ctx), blinding);
        work.erase();
        proven
    }

    fn prove_sealed_into(
        &self,
        work: &mut Work<C>,
        part: &SealedParts<C>,
        (inputs, salt, ctx): (&[i64], &[u8], &[u8]),
        blinding: &Blinding<C::Fr>,
    ) -> Result<SealedProof<C>> {
        let rows = self.circuit.constraints.len();
        work.witness.fill(&self.circuit, inputs, fr_from_ctx(ctx)?)?;
        part.program.fill(&self.circuit, &mut work.witness, salt)?;
        rows::fill(&self.circuit, &work.witness, &mut work.quotient.a, &mut work.quotient.b)?;
        let (a, b) = (&mut work.quotient.a[rows..], &mut work.quotient.b[rows..]);
        part.program.rows(&self.circuit, &work.witness, a, b)?;
        let (commitment, outputs) = (work.witness.commitment, work.witness.outputs(&self.circuit)?);
        self.quotient.run(&mut work.quotient);
        self.look_up(work, ctx);
        let proof = self.combine(work, blinding, &mut |_| ());
        Ok(SealedProof { commitment, outputs, proof })
    }

    /// Outputs and a proof with fresh blinding. Calls from several threads take turns.
    ///
    /// Errors: `input-count`, `ctx-length`, `witness-range`, `witness-overflow`, `witness-remainder`, `unsatisfied`,
    /// `randomness`.
    pub fn prove(&self, inputs: &[i64], ctx: &[u8]) -> Result<(Vec<i64>, Proof<C>)> {
        self.prove_observed(inputs, ctx, &mut |_| ())
    }

    /// [`Self::prove`], calling `done` with each phase's name when it ends (for measurements).
    pub fn prove_observed(
        &self,
        inputs: &[i64],
        ctx: &[u8],
        done: &mut dyn FnMut(Phase),
    ) -> Result<(Vec<i64>, Proof<C>)> {
        let blinding = Blinding { r: Zeroizing::new(random_fr()?), s: Zeroizing::new(random_fr()?) };
        self.prove_blinded(inputs, ctx, &blinding, done)
    }

    /// Never public: blinding that is not fresh and secret gives the witness away.
    pub(crate) fn prove_blinded(
        &self,
        inputs: &[i64],
        ctx: &[u8],
        blinding: &Blinding<C::Fr>,
        done: &mut dyn FnMut(Phase),
    ) -> Result<(Vec<i64>, Proof<C>)> {
        self.require_open()?;
        // A panic elsewhere cannot leave the buffers in a harmful state: every proof overwrites them.
        let mut guard = self.work.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let work = &mut *guard;
        work.witness.fill(&self.circuit, inputs, fr_from_ctx(ctx)?)?;
        rows::fill(&self.circuit, &work.witness, &mut work.quotient.a, &mut work.quotient.b)?;
        let outputs = work.witness.outputs(&self.circuit)?;
        done(Phase::Rows);
        self.quotient.run(&mut work.quotient);
        done(Phase::Transforms);
        self.look_up(work, ctx);
        Ok((outputs, self.combine(work, blinding, done)))
    }

    /// Cuts the witness into bytes; bytes that are zero add nothing and are left out.
    fn look_up(&self, work: &mut Work<C>, ctx: &[u8]) {
        work.lookups.clear();
        work.rest.clear();
        let (values, ctx_wire) = (&work.witness.values, self.circuit.ctx_wire());
        for (slot, what) in self.plan.iter().enumerate() {
            let (byte, negate) = match what {
                Slot::Booleans(wires) => {
                    let byte = wires.iter().rev().fold(0u8, |acc, w| acc << 1 | (values[*w as usize] & 1) as u8);
                    (byte, false)
                }
                Slot::Byte { wire, index } if *wire == ctx_wire => (ctx[ctx.len() - 1 - *index as usize], false),
                Slot::Byte { wire, index } => {
                    let value = values[*wire as usize];
                    let magnitude = value.unsigned_abs();
                    let beyond = magnitude >> (8 * WIRE_BYTES) << (8 * WIRE_BYTES);
                    if *index == 0 && beyond != 0 {
                        let beyond = C::Fr::from(beyond);
                        work.rest.push((*wire, if value < 0 { -beyond } else { beyond }));
                    }
                    ((magnitude >> (8 * index)) as u8, value < 0)
                }
            };
            if byte != 0 {
                work.lookups.push(Lookup { slot: slot as u32, byte, negate });
            }
        }
    }

    /// A = α + Σ + rδ, B = β + Σ + sδ, C = K + H + sA + rB − rsδ.
    fn combine(&self, work: &mut Work<C>, blinding: &Blinding<C::Fr>, done: &mut dyn FnMut(Phase)) -> Proof<C> {
        let (r, s) = (&*blinding.r, &*blinding.s);
        let Start { mut a, mut b1, mut b2, k: mut c } = self.start;
        self.a.accumulate(&mut a, &work.lookups, &work.rest);
        self.b1.accumulate(&mut b1, &work.lookups, &work.rest);
        self.b2.accumulate(&mut b2, &work.lookups, &work.rest);
        self.k.accumulate(&mut c, &work.lookups, &work.rest);
        if let Some(part) = &self.sealed {
            let full = part.sums.run(&work.witness, &mut work.scalars, &mut work.msm);
            a += full.a;
            b1 += full.b1;
            b2 += full.b2;
            c += full.k;
        }
        done(Phase::WitnessSums);
        c += self.h.run(&work.quotient.product, &mut work.msm);
        done(Phase::QuotientSum);
        // With A = A₀ + rδ and B = B₀ + sδ: sA + rB − rsδ = sA₀ + rB₀ + rsδ.
        c += with_multiply!(self.kernel, k => self.endomorphism.multiply_two(&[a, b1], [s, r], k));
        let mut digits = ScalarDigits::default();
        let product = Zeroizing::new(*r * s);
        self.delta_1.accumulate(&mut c, digits.set(&*product), &[]);
        self.delta_1.accumulate(&mut a, digits.set(r), &[]);
        self.delta_2.accumulate(&mut b2, digits.set(s), &[]);
        let [a, c] = with_multiply!(self.kernel, k => affine::<C, _>([&a, &c], k));
        let proof = Proof { a, b: b2.into_affine(), c };
        done(Phase::Blinding);
        proof
    }
}

fn affine<C: Curve, K: Multiply>(points: [&G1Projective<C>; 2], kernel: K) -> [G1Affine<C>; 2] {
    normalize(&points.map(Single::<C::Base>::new), kernel).map(|point| point.to_affine())
}

/// Base-256 digits of a secret scalar; erased when dropped.
#[derive(Default)]
struct ScalarDigits(Vec<Lookup>);

impl ScalarDigits {
    fn set<F: PrimeField<BigInt = BigInt<4>>>(&mut self, scalar: &F) -> &[Lookup] {
        let bytes = Zeroizing::new(fr_to_be(scalar));
        self.erase();
        self.0.extend(bytes.iter().rev().enumerate().map(|(i, byte)| Lookup {
            slot: i as u32,
            byte: *byte,
            negate: false,
        }));
        &self.0
    }

    fn erase(&mut self) {
        self.0.iter_mut().for_each(|lookup| lookup.byte.zeroize());
        self.0.clear();
    }
}

impl Drop for ScalarDigits {
    fn drop(&mut self) {
        self.erase();
    }
}

/// Slots for every wire but the constant.
fn plan(circuit: &Circuit) -> Vec<Slot> {
    let mut booleans = Vec::new();
    let inputs = (circuit.first_input()..).take(circuit.n_inputs as usize);
    let outputs = (circuit.first_output()..).take(circuit.n_outputs as usize);
    let mut numbers: Vec<u32> = inputs.chain(outputs).collect();
    for op in &circuit.ops {
        match op {
            Op::Bits { k, first, .. } => booleans.extend((0..u32::from(*k)).map(|i| first + i)),
            Op::Mul { wire, .. } => numbers.push(*wire),
            Op::Out { .. } => {}
        }
    }
    let bytes = |wire: u32, count: u32| (0..count).map(move |index| Slot::Byte { wire, index });
    let mut plan: Vec<Slot> = booleans.chunks(BOOLEANS_PER_SLOT).map(|wires| Slot::Booleans(wires.to_vec())).collect();
    plan.extend(numbers.into_iter().flat_map(|wire| bytes(wire, WIRE_BYTES)));
    plan.extend(bytes(circuit.ctx_wire(), CTX_BYTES));
    plan
}
