"""``sitsctl attest enroll``: bind a device's TPM to a signed record, here at once or with files that go both ways."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from attest.command import GateKey
from attest.evidence import enrol, enrol_files, paper
from attest.evidence.errors import EnrolError
from attest.evidence.record import MAX_RECORD_BYTES, DeviceRecord, parse_record
from attest.files import named
from sitsedge.cli.common import StateOption
from sitsedge.cli.files import put, read_at_most
from sitsedge.cli.output import Output, OutputOption, emit, note, reported
from sitsedge.supervisor.prepare import load_files
from sitsedge.supervisor.session import Session, SessionOptions
from sitsedge.supervisor.state import state_dir_of
from sitsedge.supervisor.tpm import opened_tpm

app = typer.Typer(
    name="enroll",
    help="Bind this machine's TPM to a device record: alone with --config, or with files through the four commands.",
    invoke_without_command=True,
)

ConfigOption = Annotated[Path, typer.Option("--config", help="deployment file of the device")]
PaperOption = Annotated[bool, typer.Option("--paper", help="write lines that people can type instead of bytes")]
REQUEST, CHALLENGE, ANSWER = "ENROL REQUEST", "ENROL CHALLENGE", "ENROL ANSWER"
CA_FILES_MAX = 64


@app.callback()
def enroll(
    context: typer.Context,
    config: Annotated[Path | None, typer.Option("--config", help="deployment file: enrol with the keys here")] = None,
    state_dir: StateOption = None,
    output: Output = OutputOption,
) -> None:
    """Enrol where the policy key lies on this machine; a development profile makes that key."""
    if context.invoked_subcommand is not None:
        return
    if config is None:
        raise typer.BadParameter("name a deployment with --config, or one of the commands request, challenge, …")
    with reported(output):
        deployment, _, _ = load_files(config)
        with Session(config, state_dir_of(deployment, state_dir), SessionOptions(), say=note) as session:
            prepared = session.prepare()
            record, _ = parse_record((prepared.state.trust / "device-record.cbor").read_bytes())
        data = record_data(record)
        emit(output, data, lambda: show(data))


@app.command("request")
def request(
    config: ConfigOption,
    out: Annotated[Path, typer.Option("--out", help="new file for the verifier")],
    on_paper: PaperOption = False,
    state_dir: StateOption = None,
) -> None:
    """1. On the device: EK, its certificates and AK."""
    with reported():
        deployment, _, _ = load_files(config)
        with opened_tpm(deployment, state_dir_of(deployment, state_dir), say=note) as tpm:
            data = enrol_files.encode_request(enrol.request(tpm))
        _write(out, data, REQUEST, on_paper)
        note(f"request written to {out}: take it to the person who holds the policy key")


@app.command("challenge")
def challenge(
    request_file: Annotated[Path, typer.Argument(metavar="REQUEST", help="file of the device")],
    ca: Annotated[Path, typer.Option("--ca", help="folder with the TPM makers' certificates (PEM or DER)")],
    out: Annotated[Path, typer.Option("--out", help="new file for the device")],
    pending: Annotated[Path, typer.Option("--pending", help="new file that stays here until the answer comes")],
    on_paper: PaperOption = False,
) -> None:
    """2. At the verifier: check the EK's chain, encrypt a secret that only that TPM can read, for that AK."""
    with reported():
        wish = enrol_files.parse_request(_read(request_file, REQUEST))
        with named(ca):
            roots = [
                read_at_most(path, enrol_files.MAX_FILE_BYTES)
                for path in sorted(ca.iterdir())[:CA_FILES_MAX]
                if path.is_file()
            ]
        credential, waiting = enrol.challenge(wish, ca_roots=roots, now_ns=time.time_ns())
        _write(out, enrol_files.encode_challenge(credential), CHALLENGE, on_paper)
        put(pending, enrol_files.encode_pending(waiting))
        identity = waiting.identity
        note(f"TPM of {identity.manufacturer or 'an unknown maker'}, {identity.kind}; challenge written to {out}")


@app.command("answer")
def answer(
    challenge_file: Annotated[Path, typer.Argument(metavar="CHALLENGE", help="file of the verifier")],
    config: ConfigOption,
    out: Annotated[Path, typer.Option("--out", help="new file for the verifier")],
    on_paper: PaperOption = False,
    state_dir: StateOption = None,
) -> None:
    """3. On the device: let the TPM open the challenge."""
    with reported():
        credential = enrol_files.parse_challenge(_read(challenge_file, CHALLENGE))
        deployment, _, _ = load_files(config)
        with opened_tpm(deployment, state_dir_of(deployment, state_dir), say=note) as tpm:
            secret = enrol.answer(tpm, credential)
        _write(out, enrol_files.encode_answer(secret), ANSWER, on_paper)
        note(f"answer written to {out}: it shows that this AK lives in the TPM of that EK")


@app.command("finish")
def finish(
    answer_file: Annotated[Path, typer.Argument(metavar="ANSWER", help="file of the device")],
    pending: Annotated[Path, typer.Option("--pending", help="file that challenge left here")],
    key: Annotated[Path, typer.Option("--key", help="the plant's policy key (PEM, mode 0600)")],
    device_id: Annotated[str, typer.Option("--device-id", help="name of the device, as in its deployment file")],
    enrolled_by: Annotated[str, typer.Option("--enrolled-by", help="who vouches for this machine")],
    out: Annotated[Path, typer.Option("--out", help="new file for the signed device record")],
    replaces: Annotated[
        Path | None, typer.Option("--replaces", help="record of the machine that this one takes over from")
    ] = None,
    output: Output = OutputOption,
) -> None:
    """4. At the verifier: the right secret makes a signed device record."""
    with reported(output):
        waiting = enrol_files.parse_pending(_read(pending, None))
        old = None if replaces is None else parse_record(read_at_most(replaces, MAX_RECORD_BYTES))[0]
        if old is not None and old.device_id != device_id:
            raise EnrolError(
                "record",
                found=f"a replacement {device_id!r} for {old.device_id!r}",
                expected="the same device id",
                hint="a spare part takes over the name of the device; another device is enrolled without --replaces",
            )
        signer = GateKey.load(key)
        try:
            signed = waiting.finish(
                enrol_files.parse_answer(_read(answer_file, ANSWER)),
                device_id=device_id,
                policy_signer=signer,
                enrolled_by=enrolled_by,
                now_ns=time.time_ns(),
                replaces=b"" if old is None else old.record_id,
            )
        finally:
            signer.erase()
        put(out, signed)
        record, _ = parse_record(signed)
        data = record_data(record)
        emit(output, data, lambda: show(data))
        if old is not None:
            note(f"now revoke the old record: sitsctl attest revoke {replaces} --reason 'replaced' …")


def record_data(record: DeviceRecord) -> dict[str, Any]:
    """What a person wants to know of a record."""
    return {
        "device_id": record.device_id,
        "record_id": record.record_id,
        "tpm_kind": record.tpm_kind,
        "ak_name": record.ak_name,
        "ek_name": record.ek_name,
        "enrolled_by": record.enrolled_by,
        "manufacturer": record.manufacturer,
        "replaces": record.replaces,
    }


def show(data: dict[str, Any]) -> None:
    """One line a field."""
    for name, value in data.items():
        print(f"{name:14}  {value.hex() if isinstance(value, bytes) else value}")


def _write(path: Path, data: bytes, title: str, on_paper: bool) -> None:
    put(path, paper.to_paper(data, title=title).encode() if on_paper else data)


def _read(path: Path, title: str | None) -> bytes:
    """The bytes of a message, typed in or copied. ``title`` None: a file that never goes on paper."""
    data = read_at_most(path, paper.MAX_TEXT)
    if title is None or not paper.is_paper(data):
        return data
    return paper.from_paper(data.decode("utf-8", errors="replace"), title=title)
