"""``sitsctl attest revoke`` and ``revocations``: device records that no longer count."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from attest import cose
from attest.command import GateKey
from attest.evidence.errors import EnrolError
from attest.evidence.record import MAX_RECORD_BYTES, parse_record
from attest.evidence.revocation import MAX_LIST_BYTES, RevocationList, Revoked, parse_list
from sitsedge.cli import files
from sitsedge.cli.output import Output, OutputOption, emit, reported

NS_PER_DAY = 86_400 * 1_000_000_000
DAYS_MAX = 3650
ListOption = Annotated[Path, typer.Option("--list", help="the plant's revocation list; made where it does not exist")]


def register(app: typer.Typer) -> None:
    """Add the commands of this module to ``sitsctl attest``."""
    app.command("revoke")(revoke)
    app.command("revocations")(show)


def revoke(
    listed: ListOption,
    key: Annotated[Path, typer.Option("--key", help="the plant's policy key (PEM, mode 0600)")],
    days: Annotated[int, typer.Option("--days", min=1, max=DAYS_MAX, help="until a newer list is due")],
    record: Annotated[Path | None, typer.Argument(help="device record (none: only renew the list)")] = None,
    reason: Annotated[str, typer.Option("--reason", help="why, for the people who read refusals")] = "revoked",
    output: Output = OutputOption,
) -> None:
    """Add a device record to the signed list; put the list into every gate's trust folder as revocations.cose."""
    with reported(output):
        signer = GateKey.load(key)
        try:
            now = time.time_ns()
            current = _current(listed, signer.public)
            until = now + days * NS_PER_DAY
            if record is None:
                made = RevocationList(current.version + 1, now, until, current.entries)
            else:
                with files.signed_file(record):
                    parsed, message = parse_record(files.read_at_most(record, MAX_RECORD_BYTES))
                    cose.verify(message, public=signer.public)
                entry = Revoked(parsed.record_id, now, reason)
                made = current.revoke(entry, issued_ns=now, not_after_ns=until)
            files.replace(listed, made.sign(signer))
        finally:
            signer.erase()
        data = _data(made)
        emit(output, data, lambda: _print(data))


def show(
    listed: Annotated[Path, typer.Argument(metavar="LIST", help="revocation list")],
    output: Output = OutputOption,
) -> None:
    """What a revocation list says; its signature is checked by who uses it."""
    with reported(output):
        with files.signed_file(listed):
            parsed, _ = parse_list(files.read_at_most(listed, MAX_LIST_BYTES))
        data = _data(parsed)
        emit(output, data, lambda: _print(data))


def _current(path: Path, public: bytes) -> RevocationList:
    """The list as it is, signed by the key at hand; an empty one of version 0 where there is none."""
    if not path.exists():
        return RevocationList(0, 0, 0)
    with files.signed_file(path):
        parsed, message = parse_list(files.read_at_most(path, MAX_LIST_BYTES))
    try:
        cose.verify(message, public=public)
    except cose.CoseError as error:
        raise EnrolError(
            "revocation-list",
            found=f"{path}: {error.found}",
            expected="a list signed by this key",
            hint="a list is continued with the key that began it",
        ) from error
    return parsed


def _data(parsed: RevocationList) -> dict[str, Any]:
    return {
        "version": parsed.version,
        "issued_ns": parsed.issued_ns,
        "not_after_ns": parsed.not_after_ns,
        "revoked": [{"record_id": e.record_id, "at_ns": e.at_ns, "reason": e.reason} for e in parsed.entries],
    }


def _print(data: dict[str, Any]) -> None:
    print(f"version {data['version']}, a newer one is due at {_moment(data['not_after_ns'])}")
    if not data["revoked"]:
        print("no record is revoked")
    for entry in data["revoked"]:
        print(f"{entry['record_id'].hex()}  {_moment(entry['at_ns'])}  {entry['reason']}")


def _moment(ns: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(ns // 1_000_000_000))
