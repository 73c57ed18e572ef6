//! The Python face (`attest._native`). Every failure becomes `NativeError(code, detail)`; nothing here panics on input.

use std::panic::{catch_unwind, AssertUnwindSafe};

use ark_ff::{BigInt, PrimeField};
use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PySequence};
use zeroize::Zeroizing;

use crate::circuit::Circuit;
use crate::curve::{Bls381, Bn254, Curve, CurveId};
use crate::error::Error;
use crate::field::{fr_from_canonical, fr_from_ctx, fr_to_be};
use crate::kernel::Kernel;
use crate::keys::{curve_of_verification_key, VerificationKey};
use crate::verifier::{Statement, BATCH_MAX, SIGNAL_RANGE};
use crate::with_curve;

pyo3::create_exception!(_native, NativeError, PyValueError, "Refused by the native core; args are (code, detail).");

impl From<Error> for PyErr {
    fn from(error: Error) -> Self {
        NativeError::new_err((error.code, error.detail))
    }
}

/// Runs `work` without the interpreter lock; a panic, which would be a bug, becomes an error instead of crossing over.
pub(crate) fn guarded<T: Send>(py: Python<'_>, work: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
    py.detach(|| catch_unwind(AssertUnwindSafe(work)))
        .unwrap_or_else(|_| Err(Error::new("internal", "the native core failed; please report this")))
}

/// Signed 64-bit integers; the length is checked before anything is copied.
fn integers(values: &Bound<'_, PySequence>, most: usize, code: &'static str) -> PyResult<Vec<i64>> {
    let length = values.len()?;
    if length > most {
        return Err(Error::new(code, format!("{length} integers, at most {most}")).into());
    }
    let mut out = Vec::with_capacity(length);
    for item in values.try_iter()? {
        if out.len() == most {
            return Err(Error::new(code, "the sequence grew while it was read").into());
        }
        let value = item?.extract::<i64>();
        out.push(value.map_err(|e| overflow_as(values.py(), e, "an integer does not fit 64 bits"))?);
    }
    Ok(out)
}

fn overflow_as(py: Python<'_>, error: PyErr, detail: &str) -> PyErr {
    if error.is_instance_of::<PyOverflowError>(py) {
        Error::new(SIGNAL_RANGE, detail).into()
    } else {
        error
    }
}

/// Non-negative Python integers below 2^256 as big-endian words.
fn words(values: &Bound<'_, PySequence>, most: usize) -> PyResult<Vec<[u8; 32]>> {
    let length = values.len()?;
    if length > most {
        return Err(Error::new("signal-count", format!("{length} integers, at most {most}")).into());
    }
    let mut out = Vec::with_capacity(length);
    for i in 0..length {
        let item = values.get_item(i)?.cast_into::<PyInt>()?;
        let bytes = item
            .call_method1("to_bytes", (32, "big"))
            .map_err(|e| overflow_as(values.py(), e, "an integer is negative or over 256 bits"))?
            .extract::<Vec<u8>>()?;
        let mut word = [0u8; 32];
        if bytes.len() != word.len() {
            return Err(Error::new(SIGNAL_RANGE, "an integer is not 32 bytes long").into());
        }
        word.copy_from_slice(&bytes);
        out.push(word);
    }
    Ok(out)
}

/// Big-endian words as Python integers.
fn python_ints<'py>(py: Python<'py>, values: &[[u8; 32]]) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let kind = py.get_type::<PyInt>();
    values.iter().map(|v| kind.call_method1("from_bytes", (PyBytes::new(py, v), "big"))).collect()
}

/// Keys for a circuit from the operating system's randomness: (proving key, verification key).
#[pyfunction]
fn setup<'py>(py: Python<'py>, circuit: &[u8]) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
    let (proving, verification) = guarded(py, || {
        let circuit = Circuit::parse(circuit)?;
        with_curve!(circuit.curve, C => {
            let (proving, verification) = crate::setup::setup::<C>(&circuit)?;
            Ok((proving.encode(), verification.encode()))
        })
    })?;
    Ok((PyBytes::new(py, &proving), PyBytes::new(py, &verification)))
}

/// Names of the kernels this machine can run for a curve, fastest first.
#[pyfunction]
fn kernels(curve: &str) -> PyResult<Vec<&'static str>> {
    CurveId::named(curve)?;
    Ok(Kernel::available().into_iter().map(Kernel::name).collect())
}

fn first_unsatisfied<F: PrimeField<BigInt = BigInt<4>>>(
    circuit: &Circuit,
    words: &[[u8; 32]],
) -> Result<Option<usize>, Error> {
    let values = words
        .iter()
        .map(|w| fr_from_canonical(w).ok_or_else(|| Error::new(SIGNAL_RANGE, "a wire is not below r")))
        .collect::<Result<Vec<F>, Error>>()?;
    Ok(crate::witness::first_unsatisfied(circuit, &values))
}

/// Index of the first constraint that `wires` (integers mod r, canonical) do not satisfy.
#[pyfunction]
fn check_circuit(py: Python<'_>, circuit: &[u8], wires: &Bound<'_, PySequence>) -> PyResult<Option<usize>> {
    let circuit = guarded(py, || Circuit::parse(circuit))?;
    let words = words(wires, circuit.n_wires() as usize)?;
    if words.len() != circuit.n_wires() as usize {
        return Err(Error::new("signal-count", format!("{} wires, expected {}", words.len(), circuit.n_wires())).into());
    }
    Ok(guarded(py, || with_curve!(circuit.curve, C => first_unsatisfied::<<C as Curve>::Fr>(&circuit, &words)))?)
}

/// Most rows of inputs of one `run_circuit`.
const RUN_ROWS_MAX: usize = 1 << 16;

/// Outputs of an open circuit for every row of inputs, every constraint checked; no key is needed.
#[pyfunction]
fn run_circuit(py: Python<'_>, circuit: &[u8], rows: &Bound<'_, PySequence>, ctx: &[u8]) -> PyResult<Vec<Vec<i64>>> {
    let circuit = guarded(py, || Circuit::parse(circuit))?;
    let length = rows.len()?;
    if length > RUN_ROWS_MAX {
        return Err(Error::new("row-count", format!("{length} rows, at most {RUN_ROWS_MAX}")).into());
    }
    let mut inputs = Vec::with_capacity(length);
    for i in 0..length {
        let row = rows.get_item(i)?.cast_into::<PySequence>()?;
        inputs.push(integers(&row, circuit.n_inputs as usize, "input-count")?);
    }
    Ok(guarded(
        py,
        || with_curve!(circuit.curve, C => crate::witness::run_rows(&circuit, &inputs, fr_from_ctx::<<C as Curve>::Fr>(ctx)?)),
    )?)
}

enum AnyProver {
    Bn254(crate::prover::Prover<Bn254>),
    Bls381(crate::prover::Prover<Bls381>),
}

/// Runs `$body` with `$p` as the prover or verifier of either curve.
macro_rules! either {
    ($kind:ident, $any:expr, $p:ident => $body:expr) => {
        match $any {
            $kind::Bn254($p) => $body,
            $kind::Bls381($p) => $body,
        }
    };
}

impl AnyProver {
    fn new(circuit: &[u8], proving_key: &[u8], kernel: Kernel, threads: usize) -> Result<Self, Error> {
        let circuit = Circuit::parse(circuit)?;
        Ok(match circuit.curve {
            CurveId::Bn254 => Self::Bn254(crate::prover::Prover::for_circuit(circuit, proving_key, kernel, threads)?),
            CurveId::Bls381 => Self::Bls381(crate::prover::Prover::for_circuit(circuit, proving_key, kernel, threads)?),
        })
    }
}

#[pyclass(frozen, module = "attest._native")]
struct Prover(AnyProver);

#[pymethods]
impl Prover {
    /// `kernel`: a name from `kernels`; None: the one SITS_KERNEL names, else the fastest. `threads`: 1 to 8, with the one
    /// that calls `prove`; the others belong to the prover and sleep between proofs.
    #[new]
    #[pyo3(signature = (circuit, proving_key, *, kernel = None, threads = 1))]
    fn new(py: Python<'_>, circuit: &[u8], proving_key: &[u8], kernel: Option<&str>, threads: usize) -> PyResult<Self> {
        let kernel = kernel.map_or_else(Kernel::from_environment, Kernel::named)?;
        Ok(Self(guarded(py, || AnyProver::new(circuit, proving_key, kernel, threads))?))
    }

    fn prove<'py>(
        &self,
        py: Python<'py>,
        inputs: &Bound<'py, PySequence>,
        ctx: &[u8],
    ) -> PyResult<(Vec<i64>, Bound<'py, PyBytes>)> {
        let inputs = integers(inputs, self.n_inputs(), "input-count")?;
        let (outputs, proof) = guarded(py, || {
            either!(AnyProver, &self.0, p => {
                let (outputs, proof) = p.prove(&inputs, ctx)?;
                Ok((outputs, proof.encode()))
            })
        })?;
        Ok((outputs, PyBytes::new(py, &proof)))
    }

    fn witness<'py>(
        &self,
        py: Python<'py>,
        inputs: &Bound<'py, PySequence>,
        ctx: &[u8],
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let inputs = integers(inputs, self.n_inputs(), "input-count")?;
        let words = guarded(
            py,
            || either!(AnyProver, &self.0, p => Ok(p.witness(&inputs, ctx)?.iter().map(fr_to_be).collect::<Vec<_>>())),
        )?;
        python_ints(py, &words)
    }

    /// Commitment (32 bytes), outputs and proof of a sealed circuit; `salt` has 31 bytes and serves one proof.
    fn prove_sealed<'py>(
        &self,
        py: Python<'py>,
        inputs: &Bound<'py, PySequence>,
        salt: &[u8],
        ctx: &[u8],
    ) -> PyResult<(Bound<'py, PyBytes>, Vec<i64>, Bound<'py, PyBytes>)> {
        let inputs = Zeroizing::new(integers(inputs, self.n_inputs(), "input-count")?);
        let (commitment, outputs, proof) = guarded(py, || {
            either!(AnyProver, &self.0, p => {
                let sealed = p.prove_sealed(&inputs, salt, ctx)?;
                Ok((fr_to_be(&sealed.commitment), sealed.outputs, sealed.proof.encode()))
            })
        })?;
        Ok((PyBytes::new(py, &commitment), outputs, PyBytes::new(py, &proof)))
    }

    /// The wires of a sealed circuit.
    fn witness_sealed<'py>(
        &self,
        py: Python<'py>,
        inputs: &Bound<'py, PySequence>,
        salt: &[u8],
        ctx: &[u8],
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let inputs = Zeroizing::new(integers(inputs, self.n_inputs(), "input-count")?);
        let words = guarded(py, || {
            either!(AnyProver, &self.0, p => {
                Ok(p.witness_sealed(&inputs, salt, ctx)?.iter().map(fr_to_be).collect::<Vec<_>>())
            })
        })?;
        python_ints(py, &words)
    }

    /// Whether the circuit is sealed.
    #[getter]
    fn sealed(&self) -> bool {
        either!(AnyProver, &self.0, p => p.circuit.sealed.is_some())
    }

    /// "bn254" or "bls12-381".
    #[getter]
    fn curve(&self) -> &'static str {
        either!(AnyProver, &self.0, p => p.circuit.curve.name())
    }

    /// How many threads work on a proof, with the one that asks for it.
    #[getter]
    fn threads(&self) -> usize {
        either!(AnyProver, &self.0, p => p.threads())
    }

    /// Bytes that proofs work in, kept between them; final after the first two.
    #[getter]
    fn work_bytes(&self) -> usize {
        either!(AnyProver, &self.0, p => p.work_bytes())
    }

    #[getter]
    fn n_inputs(&self) -> usize {
        either!(AnyProver, &self.0, p => p.circuit.n_inputs as usize)
    }

    #[getter]
    fn n_outputs(&self) -> usize {
        either!(AnyProver, &self.0, p => p.circuit.n_outputs as usize)
    }

    #[getter]
    fn n_constraints(&self) -> usize {
        either!(AnyProver, &self.0, p => p.circuit.n_rows())
    }

    #[getter]
    fn domain_size(&self) -> usize {
        either!(AnyProver, &self.0, p => p.domain_size())
    }

    /// One of `kernels`.
    #[getter]
    fn kernel(&self) -> &'static str {
        either!(AnyProver, &self.0, p => p.kernel().name())
    }

    #[getter]
    fn table_bytes(&self) -> usize {
        either!(AnyProver, &self.0, p => p.table_bytes())
    }
}

enum AnyVerifier {
    Bn254(Box<crate::verifier::Verifier<Bn254>>),
    Bls381(Box<crate::verifier::Verifier<Bls381>>),
}

fn read_verifier<C: Curve>(key: &[u8], fixed_gamma: bool) -> Result<Box<crate::verifier::Verifier<C>>, Error> {
    let key = VerificationKey::decode(key)?;
    let verifier = if fixed_gamma {
        crate::verifier::Verifier::with_fixed_gamma(&key)
    } else {
        crate::verifier::Verifier::new(&key)
    };
    verifier.map(Box::new)
}

impl AnyVerifier {
    fn new(key: &[u8], fixed_gamma: bool) -> Result<Self, Error> {
        Ok(match curve_of_verification_key(key)? {
            CurveId::Bn254 => Self::Bn254(read_verifier(key, fixed_gamma)?),
            CurveId::Bls381 => Self::Bls381(read_verifier(key, fixed_gamma)?),
        })
    }

    fn check_count(&self, found: usize) -> Result<(), Error> {
        either!(Self, self, v => v.check_count(found))
    }

    fn n_public(&self) -> usize {
        either!(Self, self, v => v.n_public())
    }
}

/// One statement of a batch as Python gives it.
type PyStatement<'py> = (Bound<'py, PySequence>, Bound<'py, PySequence>, Vec<u8>, Vec<u8>);

/// A statement of a batch, or the check that its numbers fail.
type Read = Result<(Vec<i64>, Vec<i64>), &'static str>;

#[pyclass(frozen, module = "attest._native")]
struct Verifier(AnyVerifier);

#[pymethods]
impl Verifier {
    /// `fixed_gamma` allows γ to be the generator, as keys of other tools have it; never for keys of our own.
    #[new]
    #[pyo3(signature = (verification_key, *, fixed_gamma = false))]
    fn new(py: Python<'_>, verification_key: &[u8], fixed_gamma: bool) -> PyResult<Self> {
        Ok(Self(guarded(py, || AnyVerifier::new(verification_key, fixed_gamma))?))
    }

    /// None if the proof verifies, else the name of the first check that failed.
    fn verify(
        &self,
        py: Python<'_>,
        inputs: &Bound<'_, PySequence>,
        outputs: &Bound<'_, PySequence>,
        ctx: &[u8],
        proof: &[u8],
    ) -> PyResult<Option<&'static str>> {
        match self.read(inputs, outputs)? {
            Ok((inputs, outputs)) => {
                verdict(guarded(py, || either!(AnyVerifier, &self.0, v => v.verify(&inputs, &outputs, ctx, proof))))
            }
            Err(code) => Ok(Some(code)),
        }
    }

    /// What `verify` says of each (inputs, outputs, ctx, proof), for less work where all or most verify.
    fn verify_batch(&self, py: Python<'_>, statements: &Bound<'_, PySequence>) -> PyResult<Vec<Option<&'static str>>> {
        if statements.len()? > BATCH_MAX {
            return Err(Error::new("batch-size", format!("more than {BATCH_MAX} proofs in a batch")).into());
        }
        let mut given: Vec<(Read, Vec<u8>, Vec<u8>)> = Vec::new();
        for statement in statements.try_iter()?.take(BATCH_MAX) {
            let (inputs, outputs, ctx, proof): PyStatement<'_> = statement?.extract()?;
            given.push((self.read(&inputs, &outputs)?, ctx, proof));
        }
        let readable: Vec<Statement<'_>> = given
            .iter()
            .filter_map(|(read, ctx, proof)| {
                let (inputs, outputs) = read.as_ref().ok()?;
                Some(Statement { inputs, outputs, ctx, proof })
            })
            .collect();
        let verdicts = guarded(py, || either!(AnyVerifier, &self.0, v => v.verify_batch(&readable)))?;
        let mut verdicts = verdicts.into_iter();
        let ended = || Err(Error::new("internal", "fewer verdicts than proofs"));
        given
            .iter()
            .map(|(read, ..)| match read {
                Ok(_) => verdict(verdicts.next().unwrap_or_else(ended)),
                Err(code) => Ok(Some(*code)),
            })
            .collect()
    }

    /// The same as `verify` on raw public signals (field elements as non-negative integers).
    fn verify_signals(
        &self,
        py: Python<'_>,
        signals: &Bound<'_, PySequence>,
        proof: &[u8],
    ) -> PyResult<Option<&'static str>> {
        if let Err(error) = self.0.check_count(signals.len()?) {
            return Ok(Some(error.code));
        }
        match words(signals, self.n_public()) {
            Ok(words) => verdict(guarded(py, || either!(AnyVerifier, &self.0, v => v.verify_signals(&words, proof)))),
            Err(error) => refusal_code(py, error).map(Some),
        }
    }

    /// "bn254" or "bls12-381".
    #[getter]
    fn curve(&self) -> &'static str {
        match &self.0 {
            AnyVerifier::Bn254(_) => Bn254::NAME,
            AnyVerifier::Bls381(_) => Bls381::NAME,
        }
    }

    #[getter]
    fn n_public(&self) -> usize {
        self.0.n_public()
    }

    #[getter]
    fn proof_bytes(&self) -> usize {
        match &self.0 {
            AnyVerifier::Bn254(_) => crate::proof::Proof::<Bn254>::BYTES,
            AnyVerifier::Bls381(_) => crate::proof::Proof::<Bls381>::BYTES,
        }
    }
}

impl Verifier {
    /// Inputs and outputs as machine integers, or the name of the check they fail.
    fn read(&self, inputs: &Bound<'_, PySequence>, outputs: &Bound<'_, PySequence>) -> PyResult<Read> {
        if let Err(error) = self.0.check_count(inputs.len()?.saturating_add(outputs.len()?).saturating_add(1)) {
            return Ok(Err(error.code));
        }
        let read = |values| integers(values, self.n_public(), "signal-count");
        match (read(inputs), read(outputs)) {
            (Ok(inputs), Ok(outputs)) => Ok(Ok((inputs, outputs))),
            (Err(error), _) | (_, Err(error)) => refusal_code(inputs.py(), error).map(Err),
        }
    }
}

/// A failed check is a result; a failure of the core itself must not pass for a verdict on the proof.
fn verdict(outcome: Result<(), Error>) -> PyResult<Option<&'static str>> {
    match outcome {
        Ok(()) => Ok(None),
        Err(error) if error.code == "internal" => Err(error.into()),
        Err(error) => Ok(Some(error.code)),
    }
}

/// A range refusal becomes a result; anything else (wrong type) stays an exception.
fn refusal_code(py: Python<'_>, error: PyErr) -> PyResult<&'static str> {
    if error.is_instance_of::<NativeError>(py) {
        Ok(SIGNAL_RANGE)
    } else {
        Err(error)
    }
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("NativeError", module.py().get_type::<NativeError>())?;
    module.add_class::<Prover>()?;
    module.add_class::<Verifier>()?;
    crate::ceremony::python::register(module)?;
    module.add_function(wrap_pyfunction!(setup, module)?)?;
    module.add_function(wrap_pyfunction!(kernels, module)?)?;
    module.add_function(wrap_pyfunction!(check_circuit, module)?)?;
    module.add_function(wrap_pyfunction!(run_circuit, module)?)
}
