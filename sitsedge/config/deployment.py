"""The deployment file: one appliance, one model, one source, its clock and proof rules.

The SHA-256 of the file's bytes is the deployment digest of the evidence: both ``sitsd`` and the gate
compute it from their own copy, so a changed deployment cannot open an epoch at a gate that was not given the change.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from attest.command.rules import PROOF_BACKLOG_MAX, PROOF_DEADLINE_MS_MAX
from attest.proof.circuit import CurveName
from sitsedge.config.server import ServerBlock
from sitsedge.config.source import ConfigError, ConfigFault, VersionOne, load_model, positions_of
from sitsedge.config.source_check import check_source
from sitsedge.config.sources import OpcUaSource, Source, SourceField, UadpPublisher, UadpSource
from sitsedge.config.strict import FIELDS_MAX, Identifier, Milliseconds, Strict
from sitsedge.config.uadp import MessageForm

ProofDeadline = Annotated[int, Field(ge=1, le=PROOF_DEADLINE_MS_MAX)]
ProofBacklog = Annotated[int, Field(ge=1, le=PROOF_BACKLOG_MAX)]
PROOF_DEADLINE_MS = 60_000
PROOF_BACKLOG = 6_000  # the same minute at 100 Hz
PROOF_THREADS_MAX = 8
QUEUE_MARGIN = 256  # as many commands as the loop remembers without an answer


class ModelFiles(Strict):
    """What the module is built from, or the bundle that already is: paths relative to the deployment file.

    Empty where the bundle is named on the command line (``--bundle``), because it does not belong to the folder.
    """

    onnx: str | None = None
    calibration: str | None = None
    limits: str | None = None
    bundle: str | None = None
    curve: CurveName | None = None
    """Of the proofs of a module built here (default BN254); a bundle brings its own."""

    @model_validator(mode="after")
    def _one_way(self) -> ModelFiles:
        parts = (self.onnx, self.calibration, self.limits)
        given = [part for part in parts if part is not None]
        if (self.bundle is not None and given) or len(given) not in (0, len(parts)):
            raise ValueError("either 'bundle', or all of 'onnx', 'calibration' and 'limits'")
        if self.curve is not None and self.onnx is None:
            raise ValueError("'curve' only where the module is built from 'onnx': a bundle brings its own")
        return self


class Cycle(Strict):
    """How often, how long, and whether the command carries its proof or, ``deferred``, a commitment to what is proven.

    A deferred proof has ``proof_deadline_ms`` from the acceptance of its command, and ``proof_backlog_max`` may be owed
    at a time; the gate has limits of its own, which these must not exceed. ``proof_threads`` of ``sits-prover`` share
    the work of one proof.

    ``fifo_priority`` asks for SCHED_FIFO for the loop and, one below, the gate. Both sleep while they wait, so the
    kernel's 95 % limit for real-time tasks is far away; where it is not permitted they run without and say so.
    """

    trigger: Literal["frame"] = "frame"
    period_ms: Milliseconds
    deadline_ms: Milliseconds
    proof: Literal["inline", "deferred", "off"] = "inline"
    proof_deadline_ms: ProofDeadline = PROOF_DEADLINE_MS
    proof_backlog_max: ProofBacklog = PROOF_BACKLOG
    proof_threads: Annotated[int, Field(ge=1, le=PROOF_THREADS_MAX)] = 1
    fifo_priority: Annotated[int, Field(ge=2, le=80)] | None = None

    @property
    def proof_queue_max(self) -> int:
        """Jobs the queue on disk takes: the backlog, and commands whose answer is still on its way."""
        return self.proof_backlog_max + QUEUE_MARGIN


class Ptp(Strict):
    """Where the state of PTP is asked and what it must be to count (rules: ``fieldbus.clock.discipline``).

    ``socket``: ptp4l's ``uds_address``. Holdover ends after ``holdover_s_max`` or when the error, growing by
    ``drift_ppm_max``, may have passed ``error_us_max``. ``free_running``: ptp4l only measures. ``grandmasters``: EUI-64
    of those admitted (default: any). With ``w_sync_ms_max`` no command is made while W_sync is above it or unknown.
    """

    socket: Annotated[str, Field(pattern=r"^/.{1,106}$")] = "/var/run/ptp4l"
    domain: Annotated[int, Field(ge=0, le=127)] = 0
    error_us_max: Annotated[float, Field(gt=0, le=1_000_000, allow_inf_nan=False)] = 100.0
    holdover_s_max: Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)] = 5.0
    drift_ppm_max: Annotated[float, Field(ge=0, le=500, allow_inf_nan=False)] = 10.0
    sync_silence_s_max: Annotated[float, Field(gt=0, le=60, allow_inf_nan=False)] = 2.0
    free_running: bool = False
    grandmasters: Annotated[list[Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]], Field(max_length=16)] | None = None
    w_sync_ms_max: Milliseconds | None = None


class Timing(Strict):
    """Age limits by this machine's clock, and the least clock quality that may lead to a write.

    ``ptp-sw`` and ``ptp-hw`` can only be met where ``ptp`` says how to ask.
    """

    source_age_ms_max: Milliseconds
    decision_age_ms_max: Milliseconds
    future_ms_max: Milliseconds
    time_quality_min: Literal["free", "ntp", "ptp-sw", "ptp-hw"] = "free"
    ptp: Ptp | None = None

    @model_validator(mode="after")
    def _askable(self) -> Timing:
        if self.time_quality_min.startswith("ptp") and self.ptp is None:
            raise ValueError(f"'ptp' with time_quality_min {self.time_quality_min}: nothing else can show it")
        return self


class Attestation(Strict):
    """Which TPM may speak for this device and for how long an epoch lasts.

    The loop attests again after ``reattest_s`` (default: half of ``epoch_s_max``, and never later: what is left is the
    time a TPM may hang before the plant notices). ``application_pcr`` has module and deployment measured into that PCR
    and the gate demand it; ``ima`` adds the kernel's list of measured files to the evidence.
    """

    tpm: Literal["auto", "hardware", "swtpm"] = "auto"
    allow_simulated: bool = False
    epoch_s_max: Annotated[int, Field(ge=1, le=86_400)] = 3600
    policy_days: Annotated[int, Field(ge=1, le=3650)] = 365
    reattest_s: Annotated[int, Field(ge=1, le=43_200)] | None = None
    application_pcr: Literal[16, 23] | None = None
    ima: bool = False

    @model_validator(mode="after")
    def _in_time(self) -> Attestation:
        if self.reattest_s is not None and 2 * self.reattest_s > self.epoch_s_max:
            raise ValueError("reattest_s of at most half of epoch_s_max")
        return self

    @property
    def renewal_s(self) -> float:
        """From the opening of an epoch to the request for the next one."""
        return self.epoch_s_max / 2 if self.reattest_s is None else float(self.reattest_s)


class Mode(Strict):
    """The mode asked for at start and who approved it (architecture: AUTO needs two names)."""

    initial: Literal["OFF", "SHADOW", "ADVISORY", "SUPERVISED", "AUTO"]
    approved_by: list[Annotated[str, Field(min_length=1, max_length=64)]] = Field(default_factory=list)

    @model_validator(mode="after")
    def _approvals(self) -> Mode:
        need = {"AUTO": 2, "SUPERVISED": 1, "ADVISORY": 1}.get(self.initial, 0)
        if len(set(self.approved_by)) < need:
            raise ValueError(f"at least {need} different name(s) in approved_by for {self.initial}")
        return self


class LedgerRules(Strict):
    """How often the ledgers are checkpointed while commands flow; an audit takes longer gaps for missing ones."""

    checkpoint_ms: Annotated[float, Field(ge=100, le=5000, allow_inf_nan=False)] = 1000.0


class RollingMillPlant(Strict):
    """The simulated mill started beside the appliance; never in a production profile."""

    kind: Literal["rolling-mill"]
    seed: Annotated[int, Field(ge=0, le=2**32 - 1)]
    publish_hz: Annotated[int, Field(ge=10, le=1000)] = 100


class ReplayColumn(Strict):
    """One column of a recording and the variable it is played to; ``low``/``high`` become its EURange."""

    column: Annotated[str, Field(min_length=1, max_length=255)]
    path: Annotated[str, Field(min_length=1, max_length=255)]
    unit: str = ""
    low: Annotated[float, Field(allow_inf_nan=False)]
    high: Annotated[float, Field(allow_inf_nan=False)]


class ReplayPlant(Strict):
    """Recorded sensor files published through a real OPC UA server in a process of its own.

    Which files is said on the command line (``--recording``), since recordings do not belong to the deployment.
    """

    kind: Literal["replay"]
    columns: Annotated[list[ReplayColumn], Field(min_length=1, max_length=FIELDS_MAX)]
    time_column: str = "datetime"
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] = ";"
    speed: Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False)] | Literal["max"] = 1.0
    gap_s_max: Annotated[float, Field(gt=0, le=3600, allow_inf_nan=False)] = 5.0


class Deployment(Strict):
    """A whole deployment file, version 1.

    ``revision`` counts the changes of this machine's deployment: a TPM counter keeps the highest that ran, and an older
    file is refused from then on.
    """

    version: VersionOne
    revision: Annotated[int, Field(ge=1, le=2**53)] | None = None
    name: Identifier
    profile: Literal["development", "production"]
    device_id: Identifier
    gate_id: Identifier
    gate_file: str
    model: ModelFiles = ModelFiles()
    source: Source
    cycle: Cycle
    timing: Timing
    attestation: Attestation = Attestation()
    mode: Mode
    ledger: LedgerRules = LedgerRules()
    engine: Literal["jit", "pulley"] = "jit"
    server: ServerBlock | None = None
    simulation: Annotated[RollingMillPlant | ReplayPlant, Field(discriminator="kind")] | None = None

    @model_validator(mode="after")
    def _production(self) -> Deployment:
        if self.profile == "production":
            if self.cycle.proof == "off":
                raise ValueError("cycle.proof other than 'off' in a production profile")
            if self.attestation.allow_simulated or self.attestation.tpm == "swtpm":
                raise ValueError("no simulated TPM in a production profile")
            if self.simulation is not None:
                raise ValueError("no 'simulation' in a production profile")
            source = self.source
            if isinstance(source, UadpPublisher) and source.security is None and source.unsecured_because is None:
                raise ValueError("source.security in a production profile, or source.unsecured_because: why not")
        return self

    @model_validator(mode="after")
    def _heard(self) -> Deployment:
        if isinstance(self.simulation, RollingMillPlant) and not isinstance(self.source, UadpSource):
            raise ValueError("the simulated mill only with a 'uadp-udp' source, which is how it publishes")
        if isinstance(self.simulation, RollingMillPlant):
            assert isinstance(self.source, UadpSource)
            source = self.source
            plain = source.message == MessageForm() and all(
                isinstance(field, SourceField) and field.type == "double" for field in source.fields
            )
            if not plain or not isinstance(self.source.publisher_id, int):
                raise ValueError("the simulated mill sends Variants of Doubles with a UInt16 as its PublisherId")
            if self.source.security is not None and self.source.security.credential is not None:
                raise ValueError("security.keys with the simulated mill, which shares the file")
        if isinstance(self.simulation, ReplayPlant) and not isinstance(self.source, OpcUaSource):
            raise ValueError("a replay only with an 'opcua' source, which is how it publishes")
        return self

    @property
    def device_origin(self) -> str:
        """Name of the device's log in its checkpoints."""
        return f"sits/{self.name}/device/{self.device_id}"

    @property
    def gate_origin(self) -> str:
        """Name of the gate's log in its checkpoints."""
        return f"sits/{self.name}/gate/{self.gate_id}"

    @property
    def field_names(self) -> tuple[str, ...]:
        """Names of the DataSet's fields in wire order."""
        return tuple(place.name for place in self.source.dataset())

    @property
    def field_units(self) -> tuple[str, ...]:
        """Units in the same order."""
        return tuple(place.unit for place in self.source.dataset())


def load_deployment(path: Path) -> Deployment:
    """Read and check a deployment file and the presence of the files it names.

    Raises :class:`ConfigError` with every fault's file, line and column.
    """
    deployment = load_model(path, Deployment)
    faults = []
    model = deployment.model
    named = {
        "model.onnx": model.onnx,
        "model.calibration": model.calibration,
        "model.limits": model.limits,
        "model.bundle": model.bundle,
        "gate_file": deployment.gate_file,
    }
    for key, name in named.items():
        if name is not None and not (path.parent / name).exists():
            line, column = locate(path, key)
            faults.append(ConfigFault(str(path), line, column, key, f"no such file {name!r}", "an existing file"))
    faults += check_source(path, deployment)
    if faults:
        raise ConfigError(faults)
    return deployment


def locate(path: Path, dotted_key: str) -> tuple[int, int]:
    """Line and column of a key such as ``outputs.0.unit`` (1, 1 when it is not there)."""
    parts = tuple(int(part) if part.isdigit() else part for part in dotted_key.split("."))
    return positions_of(path).get(parts, (1, 1))


def deployment_digest(path: Path) -> bytes:
    """SHA-256 of the file's bytes (32 bytes)."""
    return hashlib.sha256(path.read_bytes()).digest()
