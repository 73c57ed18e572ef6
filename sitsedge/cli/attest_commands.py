"""``sitsctl attest``: enrol this device, make evidence, verify it, show or make a boot policy."""

from __future__ import annotations

import os
import time
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer

from attest import jsontext
from attest.boot.policy import MAX_POLICY_BYTES
from attest.command import GateKey, SessionKey
from attest.evidence.claims import MAX_EVIDENCE_BYTES
from attest.evidence.ear import attestation_result, sign_jwt
from attest.evidence.record import MAX_RECORD_BYTES, parse_record
from attest.evidence.revocation import MAX_LIST_BYTES
from attest.evidence.verdict import Verdict
from attest.evidence.verify import Seen, verify_evidence
from attest.policies import sealing_policy
from attest.tpm.authority import load_authority_point
from sitsedge.cli import (
    attest_boot_commands,
    attest_enroll_commands,
    attest_policy_commands,
    attest_predict_commands,
    attest_revoke_commands,
    attest_seal_commands,
)
from sitsedge.cli.common import StateOption
from sitsedge.cli.files import put, read_at_most, replace
from sitsedge.cli.output import Exit, Output, OutputOption, emit, note, reported
from sitsedge.loop.epoch import make_evidence
from sitsedge.supervisor.keys import read_public
from sitsedge.supervisor.prepare import load_files
from sitsedge.supervisor.session import Session, SessionOptions
from sitsedge.supervisor.state import state_dir_of

app = typer.Typer(name="attest", help="Enrolment, quotes and their verification.", no_args_is_help=True)
attest_boot_commands.register(app)
attest_revoke_commands.register(app)
app.add_typer(attest_enroll_commands.app)
attest_predict_commands.register(app)
app.add_typer(attest_seal_commands.app)
app.add_typer(attest_policy_commands.app, name="policy", help="Boot policies: show one, or make one.")

NONCE_BYTES = 32
POLICY = "boot-policy.cose"
ConfigArgument = Annotated[Path, typer.Option("--config", help="deployment file")]


@app.command("quote")
def quote(
    config: ConfigArgument,
    out: Annotated[Path, typer.Option("--out", help="file for the evidence")],
    nonce: Annotated[str | None, typer.Option("--nonce", help="hex from the verifier (default: fresh)")] = None,
    state_dir: StateOption = None,
) -> None:
    """Make evidence for one nonce with a throw-away session key."""
    value = os.urandom(NONCE_BYTES) if nonce is None else _hex(nonce, "--nonce")
    if len(value) != NONCE_BYTES:
        raise typer.BadParameter(f"--nonce wants {2 * NONCE_BYTES} hexadecimal digits, got {2 * len(value)}")
    with reported(), _session(config, state_dir) as session:
        session.prepare()
        key = SessionKey.generate()
        try:
            data = make_evidence(session.attestation_setup(), key=key, nonce=value)
        finally:
            key.erase()
        replace(out, data)
        note(f"evidence for nonce {value.hex()} written to {out}")
        print(value.hex())


@app.command("verify")
def verify(
    evidence: Annotated[Path, typer.Argument(help="evidence file")],
    nonce: Annotated[str, typer.Option("--nonce", help="the nonce that was given out, hex")],
    trust: Annotated[Path, typer.Option("--trust", help="folder with device record, boot policy and policy.pub")],
    module: Annotated[str, typer.Option("--module", help="expected module digest, hex")],
    deployment: Annotated[str, typer.Option("--deployment", help="expected deployment digest, hex")],
    last_reset: Annotated[
        int | None, typer.Option("--last-reset-count", min=0, help="of the last accepted evidence of this device")
    ] = None,
    least_policy: Annotated[
        int | None, typer.Option("--min-policy-version", min=1, help="of the last accepted boot policy")
    ] = None,
    revocations: Annotated[Path | None, typer.Option("--revocations", help="the plant's revocation list")] = None,
    application_pcr: Annotated[
        int | None, typer.Option("--application-pcr", help="PCR (16 or 23) that must hold module and deployment")
    ] = None,
    seal_authority: Annotated[
        Path | None,
        typer.Option("--seal-authority", help="public key (PEM) under whose policy the commands' key must be"),
    ] = None,
    ear: Annotated[Path | None, typer.Option("--ear", help="new file: the result as an EAR claims set (JSON)")] = None,
    ear_key: Annotated[
        Path | None, typer.Option("--ear-key", help="sign the EAR with this key: a JWT instead of JSON")
    ] = None,
    output: Output = OutputOption,
) -> None:
    """Verify evidence with files alone; every check is shown with what was found and expected."""
    with reported(output):
        data, policy_file = read_at_most(evidence, MAX_EVIDENCE_BYTES), read_at_most(trust / POLICY, MAX_POLICY_BYTES)
        record = read_at_most(trust / "device-record.cbor", MAX_RECORD_BYTES)
        now_ns, asked = time.time_ns(), _hex(nonce, "--nonce")
        verdict = verify_evidence(
            data,
            nonce=asked,
            record=record,
            policy=policy_file,
            policy_public=read_public(trust / "policy.pub"),
            expected_module=_hex(module, "--module"),
            expected_deployment=_hex(deployment, "--deployment"),
            now_ns=now_ns,
            seen=Seen(last_reset, least_policy),
            revocations=None if revocations is None else read_at_most(revocations, MAX_LIST_BYTES),
            application_pcr=application_pcr,
            signer_policy=None if seal_authority is None else _signer_policy(seal_authority, record),
        )
        if ear is not None:
            build = f"sitsedge {version('sitsedge')}"
            result = attestation_result(verdict, data, nonce=asked, policy=policy_file, build=build, now_ns=now_ns)
            put(ear, _result_file(result, ear_key))
        emit(output, _verdict(verdict), lambda: print("\n".join(map(str, verdict.checks))))
    raise typer.Exit(Exit.OK if verdict.ok else Exit.REFUSED)


def _signer_policy(authority: Path, record: bytes) -> bytes:
    """What the commands' key of the enrolled device must carry."""
    return sealing_policy(load_authority_point(authority), parse_record(record)[0].ak_name)


def _hex(text: str, option: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError as error:
        raise typer.BadParameter(f"{option} wants hexadecimal digits") from error


def _result_file(result: dict[str, Any], key: Path | None) -> bytes:
    """The EAR as JSON, or as a JWT where there is a key."""
    if key is None:
        return jsontext.dumps(result, indent=1, ensure_ascii=False).encode() + b"\n"
    signer = GateKey.load(key)
    try:
        return sign_jwt(result, signer).encode() + b"\n"
    finally:
        signer.erase()


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
