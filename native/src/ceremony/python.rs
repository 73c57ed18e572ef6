//! The ceremony's Python face: functions over files, because a phase 1 can have hundreds of megabytes.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read};
use std::path::{Path, PathBuf};

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use zeroize::Zeroizing;

use crate::ceremony::derive::power_for;
use crate::ceremony::phase1::{self, Contributor, Phase1};
use crate::ceremony::phase2::{self, Transcript};
use crate::ceremony::secret::Beacon;
use crate::ceremony::stream::{io_error, FILE_CODES};
use crate::ceremony::{ptau, transcript};
use crate::circuit::Circuit;
use crate::curve::{Curve, CurveId};
use crate::error::{Error, Result};
use crate::python::guarded;
use crate::with_curve;

/// (name, is a beacon, hash of the response)
type Contributors = Vec<(Option<String>, bool, Vec<u8>)>;
/// curve, power, ceremony power, SHA-256 of the file, contributors, whether the powers were hashed
type Phase1Report = (&'static str, u32, u32, Vec<u8>, Contributors, bool);

/// Errors of a file's own name the file.
fn named<T>(path: &Path, done: Result<T>) -> Result<T> {
    done.map_err(|error| match FILE_CODES.contains(&error.code) {
        true => Error::new(error.code, format!("{}: {}", path.display(), error.detail)),
        false => error,
    })
}

fn opened(path: &Path) -> std::io::Result<(BufReader<File>, u64)> {
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    Ok((BufReader::new(file), length))
}

fn open(path: &Path) -> Result<(BufReader<File>, u64)> {
    named(path, opened(path).map_err(|error| io_error(&error)))
}

/// What `write` puts into a new file: an existing one is never overwritten.
fn create<T>(path: &Path, write: impl FnOnce(BufWriter<File>) -> Result<T>) -> Result<T> {
    let file = File::create_new(path).map_err(|error| io_error(&error));
    named(path, file.and_then(|file| write(BufWriter::new(file))))
}

/// Magic and curve byte.
fn head(path: &Path) -> Result<Vec<u8>> {
    let (mut file, _) = open(path)?;
    let mut head = Vec::new();
    let read = file.by_ref().take(transcript::MAGIC.len() as u64 + 1).read_to_end(&mut head);
    named(path, read.map_err(|error| io_error(&error)))?;
    Ok(head)
}

fn phase1_curve(path: &Path) -> Result<CurveId> {
    transcript::curve(&head(path)?)
}

fn transcript_curve(path: &Path) -> Result<CurveId> {
    phase2::curve(&head(path)?)
}

fn load_transcript<C: Curve>(path: &Path) -> Result<Transcript<C>> {
    let (file, length) = open(path)?;
    named(path, Transcript::read(file, length))
}

fn load_phase1<C: Curve>(path: &Path) -> Result<(Phase1<C>, [u8; 32])> {
    let (file, length) = open(path)?;
    named(path, transcript::read(file, length))
}

fn listed(contributors: Vec<Contributor>) -> Contributors {
    contributors.into_iter().map(|c| (c.name, c.beacon, c.hash)).collect()
}

/// Writes the powers of τ = 1, to which nobody has contributed yet.
#[pyfunction]
fn phase1_new(py: Python<'_>, curve: &str, power: u32, out: PathBuf) -> PyResult<()> {
    let id = CurveId::named(curve)?;
    Ok(guarded(py, || {
        with_curve!(id, C => {
            let phase1 = Phase1::<C>::new(power)?;
            create(&out, |file| transcript::write(&phase1, file)).map(|_| ())
        })
    })?)
}

/// Contributes to `source`, or ends it with a beacon; returns the hash of the response.
#[pyfunction]
#[pyo3(signature = (source, out, *, name, entropy, beacon=None))]
fn phase1_contribute<'py>(
    py: Python<'py>,
    source: PathBuf,
    out: PathBuf,
    name: &str,
    entropy: &[u8],
    beacon: Option<(Vec<u8>, u8)>,
) -> PyResult<Bound<'py, PyBytes>> {
    let entropy = Zeroizing::new(entropy.to_vec());
    let hash = guarded(py, || {
        with_curve!(phase1_curve(&source)?, C => {
            let (mut phase1, _) = load_phase1::<C>(&source)?;
            match beacon {
                None => phase1.contribute(name, &entropy)?,
                Some((value, exponent)) => phase1.end_with_beacon(name, Beacon::new(value, exponent)?)?,
            }
            let hash = phase1.last_hash()?;
            create(&out, |file| transcript::write(&phase1, file))?;
            Ok(hash)
        })
    })?;
    Ok(PyBytes::new(py, &hash))
}

/// Checks everything; see `Phase1::verify` for the codes.
#[pyfunction]
fn phase1_verify(py: Python<'_>, source: PathBuf) -> PyResult<Phase1Report> {
    Ok(guarded(py, || {
        with_curve!(phase1_curve(&source)?, C => {
            let (phase1, digest) = load_phase1::<C>(&source)?;
            report(&phase1, digest)
        })
    })?)
}

fn report<C: Curve>(phase1: &Phase1<C>, digest: [u8; 32]) -> Result<Phase1Report> {
    described(phase1, digest, phase1.verify()?)
}

fn described<C: Curve>(phase1: &Phase1<C>, digest: [u8; 32], found: phase1::Report) -> Result<Phase1Report> {
    let contributors = listed(found.contributors);
    Ok((C::NAME, phase1.power, phase1.ceremony_power, digest.to_vec(), contributors, found.powers_hashed))
}

/// Takes over a `.ptau` file (its first 2^power powers) after checking it; also says whether it was prepared.
#[pyfunction]
#[pyo3(signature = (source, out, *, power=None))]
fn ptau_import(py: Python<'_>, source: PathBuf, out: PathBuf, power: Option<u32>) -> PyResult<(Phase1Report, bool)> {
    Ok(guarded(py, || {
        let (file, length) = open(&source)?;
        let mut sections = named(&source, ptau::Sections::open(file, length))?;
        let prepared = sections.prepared();
        with_curve!(named(&source, sections.header())?.curve, C => {
            let phase1 = named(&source, sections.read::<C>(power))?;
            let mut found = report(&phase1, [0; 32])?;
            found.3 = create(&out, |file| transcript::write(&phase1, file))?.to_vec();
            Ok((found, prepared))
        })
    })?)
}

/// Writes a phase 1 as an (unprepared) `.ptau` file.
#[pyfunction]
fn ptau_export(py: Python<'_>, source: PathBuf, out: PathBuf) -> PyResult<()> {
    Ok(guarded(py, || {
        with_curve!(phase1_curve(&source)?, C => {
            let (phase1, _) = load_phase1::<C>(&source)?;
            create(&out, |file| ptau::write(&phase1, file))
        })
    })?)
}

/// Starts phase 2 of `circuit` from a phase 1 file, which is verified first.
#[pyfunction]
fn phase2_start(py: Python<'_>, circuit: &[u8], phase1: PathBuf, out: PathBuf) -> PyResult<()> {
    Ok(guarded(py, || {
        let circuit = Circuit::parse(circuit)?;
        with_curve!(phase1_curve(&phase1)?, C => {
            circuit.check_curve::<C>()?;
            let (powers, digest) = load_phase1::<C>(&phase1)?;
            let transcript = Transcript::start(&circuit, &powers, digest)?;
            create(&out, |file| transcript.write(file))
        })
    })?)
}

/// Contributes to a transcript of phase 2, or ends it with a beacon; returns the running hash after it.
#[pyfunction]
#[pyo3(signature = (source, out, *, name, entropy, beacon=None))]
fn phase2_contribute<'py>(
    py: Python<'py>,
    source: PathBuf,
    out: PathBuf,
    name: &str,
    entropy: &[u8],
    beacon: Option<(Vec<u8>, u8)>,
) -> PyResult<Bound<'py, PyBytes>> {
    let entropy = Zeroizing::new(entropy.to_vec());
    let hash = guarded(py, || {
        with_curve!(transcript_curve(&source)?, C => {
            let mut transcript = load_transcript::<C>(&source)?;
            let hash = match beacon {
                None => transcript.contribute(name, &entropy)?,
                Some((value, exponent)) => transcript.end_with_beacon(name, Beacon::new(value, exponent)?)?,
            };
            create(&out, |file| transcript.write(file))?;
            Ok(hash)
        })
    })?;
    Ok(PyBytes::new(py, &hash))
}

/// Curve, SHA-256 of circuit and phase 1, and the contributions, whose proofs are checked; not the keys.
#[pyfunction]
fn phase2_contributions(py: Python<'_>, source: PathBuf) -> PyResult<(&'static str, Vec<u8>, Vec<u8>, Contributors)> {
    Ok(guarded(py, || {
        with_curve!(transcript_curve(&source)?, C => {
            let transcript = load_transcript::<C>(&source)?;
            let contributors = listed(transcript.verify_steps()?.0);
            Ok((C::NAME, transcript.header.circuit.to_vec(), transcript.header.phase1.to_vec(), contributors))
        })
    })?)
}

type Keys = (Vec<u8>, Vec<u8>, Contributors, Phase1Report);

/// Recomputes everything; see `Transcript::verify` for the codes. Proving key, verification key, who contributed.
#[pyfunction]
fn phase2_verify<'py>(
    py: Python<'py>,
    circuit: &[u8],
    phase1: PathBuf,
    source: PathBuf,
) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>, Contributors, Phase1Report)> {
    let (proving, verification, contributors, report) = guarded(py, || -> Result<Keys> {
        let circuit = Circuit::parse(circuit)?;
        with_curve!(transcript_curve(&source)?, C => {
            let (powers, digest) = load_phase1::<C>(&phase1)?;
            let found = load_transcript::<C>(&source)?.verify(&circuit, &powers, digest)?;
            let report = described(&powers, digest, found.phase1)?;
            let (proving, verification) = (found.proving_key.encode(), found.verification_key.encode());
            Ok((proving, verification, listed(found.contributors), report))
        })
    })?;
    Ok((PyBytes::new(py, &proving), PyBytes::new(py, &verification), contributors, report))
}

/// The smallest power of a phase 1 that holds `circuit`.
#[pyfunction]
fn phase1_power_for(py: Python<'_>, circuit: &[u8]) -> PyResult<u32> {
    Ok(guarded(py, || {
        let circuit = Circuit::parse(circuit)?;
        with_curve!(circuit.curve, C => Ok(power_for::<C>(circuit.n_rows())))
    })?)
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(phase1_new, module)?)?;
    module.add_function(wrap_pyfunction!(phase1_contribute, module)?)?;
    module.add_function(wrap_pyfunction!(phase1_verify, module)?)?;
    module.add_function(wrap_pyfunction!(ptau_import, module)?)?;
    module.add_function(wrap_pyfunction!(ptau_export, module)?)?;
    module.add_function(wrap_pyfunction!(phase1_power_for, module)?)?;
    module.add_function(wrap_pyfunction!(phase2_start, module)?)?;
    module.add_function(wrap_pyfunction!(phase2_contribute, module)?)?;
    module.add_function(wrap_pyfunction!(phase2_contributions, module)?)?;
    module.add_function(wrap_pyfunction!(phase2_verify, module)?)
}
