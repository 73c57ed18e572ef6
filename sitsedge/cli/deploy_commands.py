"""``sitsctl deploy``: verify, start, watch, stop."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from sitsedge.cli.common import StateOption, parse_duration
from sitsedge.cli.output import Exit, Output, OutputOption, complain, emit, note, reported
from sitsedge.config import GateFile
from sitsedge.config.consistency import check
from sitsedge.config.deployment import Deployment, ReplayPlant
from sitsedge.errors import SitsError
from sitsedge.gate.plc.make import check_block
from sitsedge.modules import Signal
from sitsedge.supervisor.bootline import BootVerdict
from sitsedge.supervisor.prepare import check_mode, check_ports, load_files
from sitsedge.supervisor.sealfiles import MODES
from sitsedge.supervisor.serverpart import check_server_files, server_words
from sitsedge.supervisor.session import Session, SessionOptions
from sitsedge.supervisor.state import state_dir_of

POLL_S = 0.2
TRUTH = ("true", "false")


ConfigArgument = Annotated[Path, typer.Option("--config", help="deployment file")]
ModeOption = Annotated[
    str, typer.Option("--attestation-mode", help="tpm2, tpm2-resident for slow loops, none in development")
]
# Text, since the option takes a word: a flag could not be set to false in the form that deployments document.
VerifyOption = Annotated[str, typer.Option("--verify-on-boot", help="true or false")]


def deploy(
    config: ConfigArgument,
    attestation_mode: ModeOption = "tpm2",
    verify_on_boot: VerifyOption = "true",
    state_dir: StateOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="check files, ports and module; start nothing")] = False,
    for_: Annotated[str | None, typer.Option("--for", help="stop by itself after 30s, 2m, …")] = None,
    recording: Annotated[list[Path] | None, typer.Option("--recording", help="file to replay; may be repeated")] = None,
    speed: Annotated[float | None, typer.Option("--speed", help="recorded seconds per second of a replay")] = None,
    bundle: Annotated[Path | None, typer.Option("--bundle", help="module bundle, if the file names none")] = None,
    publisher: Annotated[Path | None, typer.Option("--publisher", help="PEM public key to trust for it")] = None,
    output: Output = OutputOption,
) -> None:
    """Attest the machine, print the Verified line, start the processes, and keep them until Ctrl-C or SIGTERM."""
    for option, value, allowed in (
        ("--attestation-mode", attestation_mode, MODES),
        ("--verify-on-boot", verify_on_boot, TRUTH),
    ):
        if value not in allowed:
            complain(f"{option} {value}", f"one of {', '.join(allowed)}")
            raise typer.Exit(Exit.USAGE)
    seconds = None if for_ is None else parse_duration(for_)
    with reported(output):
        if dry_run:
            _dry_run(config, attestation_mode, state_dir, output)
            return
        deployment, _, _ = load_files(config)
        _check_recordings(deployment, recording or [])
        options = SessionOptions(
            attestation_mode=attestation_mode,
            verify_on_boot=verify_on_boot == "true",
            recordings=tuple(recording or ()),
            replay_speed=speed,
            bundle=bundle,
            publisher=publisher,
        )
        state = state_dir_of(deployment, state_dir)
        stop = StopFlag()
        with Session(config, state, options, say=note) as session:
            with stop.raising():
                session.prepare()
                show_verdict(output, session.verify_boot() if options.verify_on_boot else None)
                session.start()
            note(f"running; state in {state.root}; stop with Ctrl-C")
            run_until(session, stop, seconds)
            note("stopping: the plant goes to MAN with the last applied value" if session.has_plc else "stopping")


def _check_recordings(deployment: Deployment, recordings: list[Path]) -> None:
    replay = isinstance(deployment.simulation, ReplayPlant)
    if replay and not recordings:
        raise SitsError(
            "recording-missing",
            found="no --recording",
            expected="at least one recorded file",
            hint="--recording FILE.csv",
        )
    for path in recordings:
        if not replay or not path.is_file():
            found = f"no file {path}" if replay else f"--recording {path}"
            raise SitsError("recording", found=found, expected="a recorded file and a deployment that replays it")


class StopFlag:
    """Turns SIGINT and SIGTERM into an orderly end; a second signal changes nothing.

    Inside ``raising()`` the first signal interrupts what is being done, so that a start-up stops at once.
    """

    def __init__(self) -> None:
        self.set = False
        self._raise = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)

    @contextlib.contextmanager
    def raising(self) -> Iterator[None]:
        """A stretch that a signal breaks off with ``KeyboardInterrupt``."""
        self._raise = True
        try:
            yield
        finally:
            self._raise = False

    def _on_signal(self, _: int, __: FrameType | None) -> None:
        first, self.set = not self.set, True
        if first and self._raise:
            raise KeyboardInterrupt


def run_until(session: Session, stop: StopFlag, seconds: float | None) -> None:
    """Until a signal, the end of ``seconds``, or the death of a process (raised as ``ChildError``)."""
    end = None if seconds is None else time.monotonic() + seconds
    while not stop.set and (end is None or time.monotonic() < end):
        session.check()
        time.sleep(POLL_S)


def show_verdict(output: Output, verdict: BootVerdict | None) -> None:
    """The line of architecture §10, or the same as one JSON object."""
    if verdict is None:
        emit(output, {"verified": None}, lambda: print("Verified: [NOT CHECKED] (--verify-on-boot false)", flush=True))
        return
    data = {
        "verified": verdict.ok,
        "line": verdict.line,
        "checks": [
            {"number": c.number, "name": c.name, "ok": c.ok, "found": c.found, "expected": c.expected}
            for c in verdict.checks
        ],
    }
    emit(output, data, lambda: print(verdict.line, flush=True))


def _dry_run(config: Path, attestation_mode: str, state_dir: Path | None, output: Output) -> None:
    deployment, gate, gate_path = load_files(config)
    check_mode(deployment, attestation_mode)
    check_ports(deployment, gate)
    state = state_dir_of(deployment, state_dir)
    check_server_files(deployment, config, state)
    simulated = "allowed" if deployment.attestation.allow_simulated else "refused"
    steps = [
        f"deployment {deployment.name} ({deployment.profile}), mode {deployment.mode.initial}",
        f"source {deployment.source.protocol} with {len(deployment.field_names)} fields",
        f"attestation {attestation_mode}, simulated TPM {simulated}",
        f"proof {deployment.cycle.proof}, PLC {'none' if gate.plc is None else gate.plc.endpoint}",
        *server_words(deployment, config, state),
        _try_module(deployment, config, gate, gate_path),
    ]

    def text() -> None:
        for step in steps:
            print(step)
        print("the files are valid and the ports are free; nothing was started")

    emit(output, {"ok": True, "started": False, "steps": steps}, text)


def _try_module(deployment: Deployment, config: Path, gate: GateFile, gate_path: Path) -> str:
    """Compile the model as a start would, without keys, and compare its signals with both files."""
    model = deployment.model
    if model.onnx is None or model.calibration is None or model.limits is None:
        return "module not checked: a bundle is verified when it is imported"
    base = config.parent
    from sitsedge.compiler import compile_model  # loads the compiler: not for the other commands

    compiled = compile_model(base / model.onnx, base / model.calibration, base / model.limits)
    inputs = [Signal.of(signal) for signal in compiled.limits.inputs]
    outputs = [Signal.of(signal) for signal in compiled.limits.outputs]
    check(deployment, config, gate, gate_path, inputs=inputs, outputs=outputs)
    check_block(gate, gate_path, outputs)
    return (
        f"module compiles: {len(inputs)} inputs, {len(outputs)} outputs, {compiled.artefacts.constraints} constraints"
    )
