"""``sitsctl attest``: enrol this device, make evidence, verify it, show or make a boot policy."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from attest.command import SessionKey
from attest.evidence.record import parse_record
from attest.evidence.verdict import Verdict
from attest.evidence.verify import NOTHING_SEEN, verify_evidence
from sitsedge.cli import attest_boot_commands, attest_policy_commands, attest_predict_commands
from sitsedge.cli.common import StateOption
from sitsedge.cli.output import Exit, Output, OutputOption, emit, note, reported
from sitsedge.loop.epoch import make_evidence
from sitsedge.supervisor.keys import read_public
from sitsedge.supervisor.prepare import load_files
from sitsedge.supervisor.session import Session, SessionOptions
from sitsedge.supervisor.state import state_dir_of

app = typer.Typer(name="attest", help="Enrolment, quotes and their verification.", no_args_is_help=True)
attest_boot_commands.register(app)
attest_predict_commands.register(app)
app.add_typer(attest_policy_commands.app, name="policy", help="Boot policies: show one, or make one.")

NONCE_BYTES = 32
ConfigArgument = Annotated[Path, typer.Option("--config", help="deployment file")]


@app.command("enroll")
def enroll(config: ConfigArgument, state_dir: StateOption = None, output: Output = OutputOption) -> None:
    """Bind this machine's TPM to a device record (development profile: with the keys made here)."""
    with reported(output), _session(config, state_dir) as session:
        prepared = session.prepare()
        record, _ = parse_record((prepared.state.trust / "device-record.cbor").read_bytes())
        data = {
            "device_id": record.device_id,
            "tpm_kind": record.tpm_kind,
            "ak_name": record.ak_name,
            "ek_name": record.ek_name,
            "enrolled_by": record.enrolled_by,
            "manufacturer": record.manufacturer,
        }
        emit(output, data, lambda: _fields(data))


@app.command("quote")
def quote(
    config: ConfigArgument,
    out: Annotated[Path, typer.Option("--out", help="file for the evidence")],
    nonce: Annotated[str | None, typer.Option("--nonce", help="hex from the verifier (default: fresh)")] = None,
    state_dir: StateOption = None,
) -> None:
    """Make evidence for one nonce with a throw-away session key."""
    with reported(), _session(config, state_dir) as session:
        session.prepare()
        value = os.urandom(NONCE_BYTES) if nonce is None else bytes.fromhex(nonce)
        key = SessionKey.generate()
        try:
            out.write_bytes(make_evidence(session.attestation_setup(), key=key, nonce=value))
        finally:
            key.erase()
        note(f"evidence for nonce {value.hex()} written to {out}")
        print(value.hex())


@app.command("verify")
def verify(
    evidence: Annotated[Path, typer.Argument(help="evidence file")],
    nonce: Annotated[str, typer.Option("--nonce", help="the nonce that was given out, hex")],
    trust: Annotated[Path, typer.Option("--trust", help="folder with device record, boot policy and policy.pub")],
    module: Annotated[str, typer.Option("--module", help="expected module digest, hex")],
    deployment: Annotated[str, typer.Option("--deployment", help="expected deployment digest, hex")],
    output: Output = OutputOption,
) -> None:
    """Verify evidence with files alone; every check is shown with what was found and expected."""
    with reported(output):
        verdict = verify_evidence(
            evidence.read_bytes(),
            nonce=bytes.fromhex(nonce),
            record=(trust / "device-record.cbor").read_bytes(),
            policy=(trust / "boot-policy.cose").read_bytes(),
            policy_public=read_public(trust / "policy.pub"),
            expected_module=bytes.fromhex(module),
            expected_deployment=bytes.fromhex(deployment),
            now_ns=time.time_ns(),
            seen=NOTHING_SEEN,
        )
        emit(output, _verdict(verdict), lambda: print("\n".join(map(str, verdict.checks))))
    raise typer.Exit(Exit.OK if verdict.ok else Exit.REFUSED)


def _session(config: Path, state_dir: Path | None) -> Session:
    deployment, _, _ = load_files(config)
    return Session(config, state_dir_of(deployment, state_dir), SessionOptions(), say=note)


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        "ok": verdict.ok,
        "failed": None if verdict.failed is None else verdict.failed.name,
        "checks": [
            {"number": c.number, "name": c.name, "ok": c.ok, "found": c.found, "expected": c.expected}
            for c in verdict.checks
        ],
        "tpm_kind": verdict.tpm_kind,
        "device_id": verdict.device_id,
    }


def _fields(data: dict[str, Any]) -> None:
    for key, value in data.items():
        print(f"{key:14}  {value.hex() if isinstance(value, bytes) else value}")
