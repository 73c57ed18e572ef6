//! Groth16 prover for one fixed circuit: everything that does not depend on the witness is tabulated at load.

use std::sync::{Arc, Mutex, PoisonError};

use ark_ec::CurveGroup;
use ark_ff::PrimeField;
use zeroize::{Zeroize, Zeroizing};

use crate::circuit::{Circuit, Op};
use crate::curve::Curve;
use crate::engine::{Engine, Job, TRANSFORMS, WITNESS_SUMS};
use crate::error::{Error, Result};
use crate::field::{fr_from_ctx, random_fr};
use crate::kernel::{normalize, with_multiply, Kernel, Single};
use crate::keys::ProvingKey;
use crate::rows;
use crate::sealed::FieldProgram;
use crate::tables::{Lookup, Slot};
use crate::team::{self, Team};
use crate::verifier::Proof;
use crate::witness::Witness;

/// Tabulated bytes of inputs and products: quantised values fit 16 bits, larger ones take the slow path.
const WIRE_BYTES: u32 = 2;
/// The last layer of a network need not be requantised.
const OUTPUT_BYTES: u32 = 3;
const CTX_BYTES: u32 = 31;
const BOOLEANS_PER_SLOT: usize = 8;

/// Parts of a proof, in the order of their work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Witness and rows.
    Rows,
    /// Four transforms. With several threads [`Self::WitnessSums`] is part of it.
    Transforms,
    /// A, B in both groups and K.
    WitnessSums,
    /// The product on the coset and H. With several threads [`Self::Blinding`] is part of it.
    QuotientSum,
    /// Blinding, and always the final inversions.
    Blinding,
}

pub struct Prover<C: Curve> {
    pub circuit: Circuit,
    /// Only for a sealed circuit.
    program: Option<FieldProgram<C::Fr>>,
    team: Team<Engine<C>>,
    /// Proofs take turns.
    turn: Mutex<()>,
}

/// A sealed statement's part of a proof.
pub struct SealedProof<C: Curve> {
    pub commitment: C::Fr,
    pub outputs: Vec<i64>,
    pub proof: Proof<C>,
}

/// Blinding values of one proof; erased when dropped, never stored.
pub(crate) struct Blinding<F: Zeroize> {
    pub r: Zeroizing<F>,
    pub s: Zeroizing<F>,
}

impl<F: PrimeField<BigInt = ark_ff::BigInt<4>>> Blinding<F> {
    fn fresh() -> Result<Self> {
        Ok(Self { r: Zeroizing::new(random_fr()?), s: Zeroizing::new(random_fr()?) })
    }
}

/// Erases the blinding values, and a sealed circuit's inputs, at the end of a proof, however it ends.
struct Eraser<'a, C: Curve> {
    engine: &'a Engine<C>,
    sealed: bool,
}

impl<C: Curve> Drop for Eraser<'_, C> {
    fn drop(&mut self) {
        self.engine.write().blinding.erase();
        if self.sealed {
            self.engine.erase();
        }
    }
}

impl<C: Curve> Prover<C> {
    /// Parses and checks both files and builds the tables; one thread.
    ///
    /// Errors: `circuit-…`, `curve-mismatch`, `pk-format`, `pk-circuit`, `kernel-…`.
    pub fn new(circuit: &[u8], proving_key: &[u8]) -> Result<Self> {
        Self::with_kernel(circuit, proving_key, Kernel::from_environment()?)
    }

    pub fn with_kernel(circuit: &[u8], proving_key: &[u8], kernel: Kernel) -> Result<Self> {
        Self::for_circuit(Circuit::parse(circuit)?, proving_key, kernel, 1)
    }

    /// `threads` counts the one that calls [`Self::prove`]. Errors: as above, `threads-range`, `threads-unavailable`.
    pub fn for_circuit(circuit: Circuit, proving_key: &[u8], kernel: Kernel, threads: usize) -> Result<Self> {
        team::check(threads)?;
        let key = ProvingKey::<C>::decode(proving_key, &circuit)?;
        let engine = Engine::new(&circuit, key, plan(&circuit), kernel, threads)?;
        let team = Team::new(Arc::new(engine), threads)?;
        Ok(Self { program: circuit.sealed.as_ref().map(FieldProgram::new), circuit, team, turn: Mutex::new(()) })
    }

    pub fn kernel(&self) -> Kernel {
        self.engine().kernel
    }

    pub fn threads(&self) -> usize {
        self.team.threads()
    }

    pub fn domain_size(&self) -> usize {
        self.engine().quotient.domain.size
    }

    pub fn table_bytes(&self) -> usize {
        self.engine().table_bytes()
    }

    /// Memory that proofs work in, kept between them; final after the first two.
    pub fn work_bytes(&self) -> usize {
        self.engine().work_bytes()
    }

    fn engine(&self) -> &Engine<C> {
        self.team.tasks()
    }

    fn require_open(&self) -> Result<()> {
        if self.program.is_none() {
            return Ok(());
        }
        Err(Error::new("circuit-sealed", "a sealed circuit is proven with a salt"))
    }

    fn sealed(&self) -> Result<&FieldProgram<C::Fr>> {
        self.program.as_ref().ok_or_else(|| Error::new("circuit-open", "an open circuit takes no salt"))
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
        self.sealed()?.fill(&self.circuit, &mut witness, salt)?;
        let wires = witness.to_field(&self.circuit);
        witness.erase();
        Ok(wires)
    }

    /// Commitment, outputs and a proof of a sealed circuit with fresh blinding; `salt` has 31 bytes.
    ///
    /// Errors: as [`Self::prove`], `salt-length`, and `circuit-open` if the circuit is none.
    pub fn prove_sealed(&self, inputs: &[i64], salt: &[u8], ctx: &[u8]) -> Result<SealedProof<C>> {
        self.prove_sealed_blinded(inputs, salt, ctx, &Blinding::fresh()?)
    }

    /// Never public, as [`Self::prove_blinded`].
    pub(crate) fn prove_sealed_blinded(
        &self,
        inputs: &[i64],
        salt: &[u8],
        ctx: &[u8],
        blinding: &Blinding<C::Fr>,
    ) -> Result<SealedProof<C>> {
        let program = self.sealed()?;
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let _eraser = Eraser { engine: self.engine(), sealed: true };
        let mut outputs = Vec::new();
        let rows = self.circuit.constraints.len();
        let commitment = {
            let job = &mut *self.engine().write();
            let [mut a, mut b] = self.engine().sides();
            job.witness.fill(&self.circuit, inputs, fr_from_ctx(ctx)?)?;
            program.fill(&self.circuit, &mut job.witness, salt)?;
            rows::fill(&self.circuit, &job.witness, &mut a.values, &mut b.values)?;
            program.rows(&self.circuit, &job.witness, &mut a.values[rows..], &mut b.values[rows..])?;
            job.witness.outputs(&self.circuit, &mut outputs)?;
            self.look_up(job, ctx);
            job.blinding.set(&blinding.r, &blinding.s);
            job.witness.commitment
        };
        let proof = self.run(&mut |_| ())?;
        Ok(SealedProof { commitment, outputs, proof })
    }

    /// Outputs and a proof with fresh blinding. Calls from several threads take turns.
    ///
    /// Errors: `input-count`, `ctx-length`, `witness-range`, `witness-overflow`, `witness-remainder`, `unsatisfied`,
    /// `randomness`.
    pub fn prove(&self, inputs: &[i64], ctx: &[u8]) -> Result<(Vec<i64>, Proof<C>)> {
        let mut outputs = Vec::new();
        let proof = self.prove_into(inputs, ctx, &mut outputs, &mut |_| ())?;
        Ok((outputs, proof))
    }

    /// [`Self::prove`] without an allocation, after the first two: the outputs replace what `outputs` held. Calls `done`
    /// with each phase's name when it ends (for measurements).
    pub fn prove_into(
        &self,
        inputs: &[i64],
        ctx: &[u8],
        outputs: &mut Vec<i64>,
        done: &mut dyn FnMut(Phase),
    ) -> Result<Proof<C>> {
        self.prove_blinded(inputs, ctx, &Blinding::fresh()?, outputs, done)
    }

    /// Never public: blinding that is not fresh and secret gives the witness away.
    pub(crate) fn prove_blinded(
        &self,
        inputs: &[i64],
        ctx: &[u8],
        blinding: &Blinding<C::Fr>,
        outputs: &mut Vec<i64>,
        done: &mut dyn FnMut(Phase),
    ) -> Result<Proof<C>> {
        self.require_open()?;
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let _eraser = Eraser { engine: self.engine(), sealed: false };
        {
            let job = &mut *self.engine().write();
            let [mut a, mut b] = self.engine().sides();
            job.witness.fill(&self.circuit, inputs, fr_from_ctx(ctx)?)?;
            rows::fill(&self.circuit, &job.witness, &mut a.values, &mut b.values)?;
            job.witness.outputs(&self.circuit, outputs)?;
            self.look_up(job, ctx);
            job.blinding.set(&blinding.r, &blinding.s);
        }
        done(Phase::Rows);
        self.run(done)
    }

    /// Both rounds and the final inversions.
    fn run(&self, done: &mut dyn FnMut(Phase)) -> Result<Proof<C>> {
        let (engine, alone) = (self.engine(), self.threads() == 1);
        let (quotient, blinding) = (engine.quotient_tasks(), engine.blinding_task());
        if alone {
            self.team.run(TRANSFORMS)?;
            done(Phase::Transforms);
            self.team.run(WITNESS_SUMS)?;
            done(Phase::WitnessSums);
            engine.multiply();
            self.team.run(quotient)?;
            done(Phase::QuotientSum);
            self.team.run(blinding)?;
        } else {
            self.team.run(TRANSFORMS.start..WITNESS_SUMS.end)?;
            done(Phase::Transforms);
            done(Phase::WitnessSums);
            engine.multiply();
            self.team.run(quotient.start..blinding.end)?;
            done(Phase::QuotientSum);
        }
        let points = engine.points();
        let both = [&points.a, &points.c].map(Single::<C::Base>::new);
        let [a, c] = with_multiply!(engine.kernel, k => normalize(&both, k)).map(|point| point.to_affine());
        let proof = Proof { a, b: points.b.into_affine(), c };
        done(Phase::Blinding);
        Ok(proof)
    }

    /// Cuts the witness into bytes; bytes that are zero add nothing and are left out.
    fn look_up(&self, job: &mut Job<C>, ctx: &[u8]) {
        job.lookups.clear();
        job.rest.clear();
        let (values, ctx_wire) = (&job.witness.values, self.circuit.ctx_wire());
        for (slot, what) in self.engine().plan.iter().enumerate() {
            let (byte, negate) = match what {
                Slot::Booleans(wires) => {
                    let byte = wires.iter().rev().fold(0u8, |acc, w| acc << 1 | (values[*w as usize] & 1) as u8);
                    (byte, false)
                }
                Slot::Byte { wire, index, .. } if *wire == ctx_wire => (ctx[ctx.len() - 1 - *index as usize], false),
                Slot::Byte { wire, index, last } => {
                    let value = values[*wire as usize];
                    let magnitude = value.unsigned_abs();
                    let beyond = magnitude >> (8 * (index + 1)) << (8 * (index + 1));
                    if *last && beyond != 0 {
                        let beyond = C::Fr::from(beyond);
                        job.rest.push((*wire, if value < 0 { -beyond } else { beyond }));
                    }
                    ((magnitude >> (8 * index)) as u8, value < 0)
                }
            };
            if byte != 0 {
                job.lookups.push(Lookup { slot: slot as u32, byte, negate });
            }
        }
    }
}

/// Slots for every wire but the constant.
fn plan(circuit: &Circuit) -> Vec<Slot> {
    let mut booleans = Vec::new();
    let outputs = (circuit.first_output()..).take(circuit.n_outputs as usize);
    let mut numbers: Vec<u32> = (circuit.first_input()..).take(circuit.n_inputs as usize).collect();
    for op in &circuit.ops {
        match op {
            Op::Bits { k, first, .. } => booleans.extend((0..u32::from(*k)).map(|i| first + i)),
            Op::Mul { wire, .. } => numbers.push(*wire),
            Op::Out { .. } => {}
        }
    }
    let bytes =
        |wire: u32, count: u32| (0..count).map(move |index| Slot::Byte { wire, index, last: index + 1 == count });
    let mut plan: Vec<Slot> = booleans.chunks(BOOLEANS_PER_SLOT).map(|wires| Slot::Booleans(wires.to_vec())).collect();
    plan.extend(numbers.into_iter().flat_map(|wire| bytes(wire, WIRE_BYTES)));
    plan.extend(outputs.flat_map(|wire| bytes(wire, OUTPUT_BYTES)));
    plan.extend(bytes(circuit.ctx_wire(), CTX_BYTES));
    plan
}
