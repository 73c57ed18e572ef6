"""``module build``: ONNX file, calibration data and limits file → one signed bundle.

Stages: import, quantise, emit three artefacts, make keys, self-test, report, bundle. Each stage is a pure
function of the ones before it except key generation, which takes randomness from the operating system.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from attest.proof.ceremony_folder import CeremonyFolder
from attest.proof.circuit import Curve
from attest.proof.prover import development_setup
from sitsedge.compiler.artefacts import Artefacts, emit
from sitsedge.compiler.bounds.properties import check_properties, describe, require_none_refuted
from sitsedge.compiler.calibration import Calibration, read_calibration
from sitsedge.compiler.errors import CompileError
from sitsedge.compiler.imported import ImportedNetwork, import_network
from sitsedge.compiler.quantise import Goal, Scales
from sitsedge.compiler.quantiser.search import Prefer, quantise_graph
from sitsedge.compiler.quantiser.trial import QuantisedGraph
from sitsedge.compiler.reference import Ints
from sitsedge.compiler.report import make_report
from sitsedge.compiler.report_html import render
from sitsedge.compiler.selftest import SelfTest, run_selftest
from sitsedge.compiler.wasm_check import memory_pages
from sitsedge.modules import strict_json
from sitsedge.modules.bundle import write_bundle
from sitsedge.modules.config import BundleConfig, Guest, Proof, Signal, Source
from sitsedge.modules.limits import Limits, read_limits
from sitsedge.sandbox.limits import PAGE

GUEST_MEMORY_BYTES = 1 << 20
"""A control network uses one or two 64 KiB pages; the limit leaves room without inviting growth. Larger networks get
what they have."""


@dataclass(frozen=True, slots=True, eq=False)
class Compiled:
    """Everything before packaging."""

    name: str
    network: ImportedNetwork
    limits: Limits
    calibration: Calibration
    quantised: QuantisedGraph
    artefacts: Artefacts
    curve: Curve

    @property
    def wasm(self) -> bytes:
        return self.artefacts.wasm

    @property
    def wasm_relaxed(self) -> bytes:
        return self.artefacts.wasm_relaxed

    @property
    def integer_onnx(self) -> bytes:
        return self.artefacts.integer_onnx

    @property
    def circuit(self) -> bytes:
        return self.artefacts.circuit


@dataclass(frozen=True, slots=True, eq=False)
class BuildResult:
    """A written bundle: its folder, module digest, config and report."""

    path: Path
    digest: bytes
    config: BundleConfig
    report: dict[str, Any]
    compiled: Compiled


def compile_model(
    onnx_path: Path,
    calibration_csv: Path,
    limits_path: Path,
    *,
    name: str | None = None,
    goal: Goal | None = None,
    prefer: Prefer = "rows",
    curve: Curve = Curve.BN254,
) -> Compiled:
    """Import, quantise and emit, without keys and without writing anything.

    ``curve`` is the one the module's proofs will be on. ``name`` defaults to the name of the folder the ONNX file lies
    in. Raises ``CompileError`` and its subclasses, and ``sitsedge.config.source.ConfigError`` for the limits file.
    """
    limits = read_limits(limits_path)
    network = import_network(onnx_path, n_outputs=len(limits.outputs))
    for what, found, expected in (
        ("inputs", network.n_inputs, len(limits.inputs)),
        ("outputs", network.n_outputs, len(limits.outputs)),
    ):
        if found != expected:
            raise CompileError(
                "signals",
                found=f"a network of {found} {what}",
                expected=f"{expected} as {limits_path.name} lists",
                hint="the limits file names every element of the model's tensors, in order",
            )
    if network.is_class and limits.outputs[0].scale != 1.0:
        raise CompileError(
            "signals",
            found=f"a class index with the scale {limits.outputs[0].scale:g}",
            expected="the scale 1",
            hint="classes are counted from 0",
        )
    calibration = read_calibration(calibration_csv, limits)
    scales = Scales(
        inputs=np.array([signal.scale for signal in limits.inputs]),
        outputs=np.array([signal.scale for signal in limits.outputs]),
        box_low=limits.box[0],
        box_high=limits.box[1],
    )
    quantised = quantise_graph(
        network.graph,
        scales,
        calibration.fit_counts,
        calibration.fit_raw,
        goal=goal or Goal(),
        prefer=prefer,
        class_output=network.is_class,
    )
    chosen = name if name is not None else _default_name(onnx_path)
    artefacts = emit(quantised.graph, chosen, curve=curve)
    return Compiled(chosen, network, limits, calibration, quantised, artefacts, curve)


def _default_name(onnx_path: Path) -> str:
    text = re.sub(r"[^A-Za-z0-9_.-]", "-", onnx_path.resolve().parent.name)[:64]
    return text if text[:1].isalpha() else f"m-{text}"[:64]


def build(
    onnx_path: Path,
    calibration_csv: Path,
    limits_path: Path,
    out: Path,
    *,
    signer: Ed25519PrivateKey,
    name: str | None = None,
    goal: Goal | None = None,
    prefer: Prefer = "rows",
    curve: Curve = Curve.BN254,
    ceremony: CeremonyFolder | None = None,
    allow_refuted: bool = False,
) -> BuildResult:
    """Build and sign a bundle at ``out``, which must not exist; nothing is written unless all of it is.

    With ``ceremony`` the keys are that ceremony's, recomputed and checked for this model's circuit; else they are
    development keys. A property of the limits file that an input breaks refuses the build unless ``allow_refuted``.
    Raises what ``compile_model`` raises, ``PropertyError``, ``SelfTestError``, ``StoreError`` (``output-exists``), and
    ``CeremonyError``.
    """
    compiled = compile_model(onnx_path, calibration_csv, limits_path, name=name, goal=goal, prefer=prefer, curve=curve)
    rows = np.concatenate([compiled.calibration.fit_counts, compiled.calibration.held_counts])
    properties = _properties(compiled, rows, allow_refuted=allow_refuted)
    made = None if ceremony is None else ceremony.verify(compiled.circuit)
    keys = development_setup(compiled.circuit) if made is None else (made.proving_key, made.verification_key)
    selftest = run_selftest(
        compiled.quantised.model,
        wasm=compiled.wasm,
        wasm_relaxed=compiled.wasm_relaxed,
        graph=compiled.integer_onnx,
        circuit=compiled.circuit,
        keys=keys,
        rows=rows,
    )
    layers = {
        "wasm": compiled.wasm,
        "wasm_relaxed": compiled.wasm_relaxed,
        "integer_onnx": compiled.integer_onnx,
        "circuit": compiled.circuit,
        "proving_key": keys[0],
        "verification_key": keys[1],
        "limits": limits_path.read_bytes(),
    }
    digests = {part: _sha256(data) for part, data in layers.items()}
    source = Source(
        onnx_sha256=_sha256(onnx_path.read_bytes()),
        calibration_sha256=_sha256(calibration_csv.read_bytes()),
        limits_sha256=digests["limits"],
    )
    report = make_report(
        name=compiled.name,
        network=compiled.network,
        limits=compiled.limits,
        calibration=compiled.calibration,
        quantised=compiled.quantised,
        artefacts=compiled.artefacts,
        goal=goal or Goal(),
        selftest=selftest,
        digests=digests | source.model_dump(include={"onnx_sha256", "calibration_sha256"}),
        sizes={part: len(data) for part, data in layers.items()},
        ceremony=made,
        properties=properties,
    )
    config = _config(compiled, selftest, digests, source, contributors=made.contributions if made is not None else 0)
    layers |= {"report": strict_json.encode(report), "report_html": render(report)}
    digest = write_bundle(out, config, layers, signer=signer)
    return BuildResult(out, digest, config, report, compiled)


def _properties(compiled: Compiled, rows: Ints, *, allow_refuted: bool) -> list[dict[str, Any]]:
    """Report entries of the limits file's properties; raises ``PropertyError`` where one is refuted."""
    model, limits = compiled.quantised.model, compiled.limits
    findings = check_properties(model, limits, rows)
    if not allow_refuted:
        require_none_refuted(findings, limits, model)
    return [describe(finding, limits, model) for finding in findings]


def _config(
    compiled: Compiled, selftest: SelfTest, digests: dict[str, str], source: Source, *, contributors: int
) -> BundleConfig:
    return BundleConfig(
        schema_version=2,
        name=compiled.name,
        compiler=f"sitsedge {_version()}",
        inputs=tuple(map(Signal.of, compiled.limits.inputs)),
        outputs=tuple(map(Signal.of, compiled.limits.outputs)),
        guest=Guest(
            abi=1,
            memory_bytes=max(
                GUEST_MEMORY_BYTES,
                *(memory_pages(wasm) * PAGE for wasm in (compiled.wasm, compiled.wasm_relaxed)),
            ),
            fuel_per_call=max(selftest.fuel_per_call, selftest.fuel_per_call_relaxed),
        ),
        proof=Proof(
            curve=compiled.curve.text,
            vk_sha256=digests["verification_key"],
            pk_sha256=digests["proving_key"],
            contributors=contributors,
            development=contributors == 0,
            constraints=selftest.constraints,
        ),
        source=source,
    )


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _version() -> str:
    try:
        return version("sitsedge")
    except PackageNotFoundError:
        return "unpackaged"
