//! The Python face (`attest._native`). Every failure becomes `NativeError(code, detail)`; nothing here panics on input.

use std::panic::{catch_unwind, AssertUnwindSafe};

use ark_bn254::Fr;
use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PySequence};

use crate::circuit::Circuit;
use crate::error::Error;
use crate::field::{fr_from_canonical, fr_to_be};
use crate::keys::VerificationKey;
use crate::verifier::SIGNAL_RANGE;

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

fn python_ints<'py>(py: Python<'py>, values: &[Fr]) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let kind = py.get_type::<PyInt>();
    values.iter().map(|v| kind.call_method1("from_bytes", (PyBytes::new(py, &fr_to_be(v)), "big"))).collect()
}

/// Keys for a circuit from the operating system's randomness: (proving key, verification key).
#[pyfunction]
fn setup<'py>(py: Python<'py>, circuit: &[u8]) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
    let (proving, verification) = guarded(py, || {
        let (proving, verification) = crate::setup::setup(&Circuit::parse(circuit)?)?;
        Ok((proving.encode(), verification.encode()))
    })?;
    Ok((PyBytes::new(py, &proving), PyBytes::new(py, &verification)))
}

/// Index of the first constraint that `wires` (integers mod r, canonical) do not satisfy.
#[pyfunction]
fn check_circuit(py: Python<'_>, circuit: &[u8], wires: &Bound<'_, PySequence>) -> PyResult<Option<usize>> {
    let circuit = guarded(py, || Circuit::parse(circuit))?;
    let words = words(wires, circuit.n_wires() as usize)?;
    if words.len() != circuit.n_wires() as usize {
        return Err(Error::new("signal-count", format!("{} wires, expected {}", words.len(), circuit.n_wires())).into());
    }
    let values = words
        .iter()
        .map(|w| fr_from_canonical(w).ok_or_else(|| Error::new(SIGNAL_RANGE, "a wire is not below r")))
        .collect::<Result<Vec<Fr>, Error>>()?;
    Ok(guarded(py, || Ok(crate::witness::first_unsatisfied(&circuit.constraints, &values)))?)
}

#[pyclass(frozen, module = "attest._native")]
struct Prover(crate::prover::Prover);

#[pymethods]
impl Prover {
    #[new]
    fn new(py: Python<'_>, circuit: &[u8], proving_key: &[u8]) -> PyResult<Self> {
        Ok(Self(guarded(py, || crate::prover::Prover::new(circuit, proving_key))?))
    }

    fn prove<'py>(
        &self,
        py: Python<'py>,
        inputs: &Bound<'py, PySequence>,
        ctx: &[u8],
    ) -> PyResult<(Vec<i64>, Bound<'py, PyBytes>)> {
        let inputs = integers(inputs, self.n_inputs(), "input-count")?;
        let (outputs, proof) = guarded(py, || self.0.prove(&inputs, ctx))?;
        Ok((outputs, PyBytes::new(py, &proof.encode())))
    }

    fn witness<'py>(
        &self,
        py: Python<'py>,
        inputs: &Bound<'py, PySequence>,
        ctx: &[u8],
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let inputs = integers(inputs, self.n_inputs(), "input-count")?;
        python_ints(py, &guarded(py, || self.0.witness(&inputs, ctx))?)
    }

    #[getter]
    fn n_inputs(&self) -> usize {
        self.0.circuit.n_inputs as usize
    }

    #[getter]
    fn n_outputs(&self) -> usize {
        self.0.circuit.n_outputs as usize
    }

    #[getter]
    fn n_constraints(&self) -> usize {
        self.0.circuit.constraints.len()
    }

    #[getter]
    fn domain_size(&self) -> usize {
        self.0.domain_size()
    }

    /// "scalar" or "ifma".
    #[getter]
    fn kernel(&self) -> &'static str {
        self.0.kernel().name()
    }

    #[getter]
    fn table_bytes(&self) -> usize {
        self.0.table_bytes()
    }
}

#[pyclass(frozen, module = "attest._native")]
struct Verifier(crate::verifier::Verifier);

#[pymethods]
impl Verifier {
    #[new]
    fn new(py: Python<'_>, verification_key: &[u8]) -> PyResult<Self> {
        Ok(Self(guarded(py, || crate::verifier::Verifier::new(&VerificationKey::decode(verification_key)?))?))
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
        if let Err(error) = self.0.check_count(inputs.len()?.saturating_add(outputs.len()?).saturating_add(1)) {
            return Ok(Some(error.code));
        }
        let read = |values| integers(values, self.0.n_public(), "signal-count");
        match (read(inputs), read(outputs)) {
            (Ok(inputs), Ok(outputs)) => verdict(guarded(py, || self.0.verify(&inputs, &outputs, ctx, proof))),
            (Err(error), _) | (_, Err(error)) => refusal_code(py, error),
        }
    }

    /// The same on raw public signals (field elements as non-negative integers).
    fn verify_signals(
        &self,
        py: Python<'_>,
        signals: &Bound<'_, PySequence>,
        proof: &[u8],
    ) -> PyResult<Option<&'static str>> {
        if let Err(error) = self.0.check_count(signals.len()?) {
            return Ok(Some(error.code));
        }
        match words(signals, self.0.n_public()) {
            Ok(words) => verdict(guarded(py, || self.0.verify_signals(&words, proof))),
            Err(error) => refusal_code(py, error),
        }
    }

    #[getter]
    fn n_public(&self) -> usize {
        self.0.n_public()
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
fn refusal_code(py: Python<'_>, error: PyErr) -> PyResult<Option<&'static str>> {
    if error.is_instance_of::<NativeError>(py) {
        Ok(Some(SIGNAL_RANGE))
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
    module.add_function(wrap_pyfunction!(check_circuit, module)?)
}
