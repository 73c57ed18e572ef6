"""``sitsctl attest policy``: show a boot policy, or make one from a reference boot."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from attest import cose
from attest.boot import banks, eventlog, measure
from attest.boot.approve import approve_boot, next_policy, quoted_values
from attest.boot.errors import PcrFileError, PolicyError
from attest.boot.eventlog import EventLog
from attest.boot.logformat import MAX_LOG_BYTES
from attest.boot.policy import MAX_POLICY_BYTES, TPM_KINDS, BootPolicy, parse_policy
from attest.boot.replay import MAX_PCR_FILE_BYTES, parse_pcrs
from attest.command import GateKey
from attest.evidence.claims import MAX_EVIDENCE_BYTES, parse_evidence
from attest.files import named
from attest.structures import MAX_STRUCTURE_BYTES, PCR_COUNT, parse_quote
from sitsedge.cli.files import read_bounded, signed_file
from sitsedge.cli.output import Exit, Output, OutputOption, complain, emit, reported
from sitsedge.supervisor.keys import read_public

NS_PER_S = 1_000_000_000
DAY_S = 86_400
CLOCK_SLACK_S = 3600  # a policy begins this much earlier: the verifier's clock may be behind
DAYS_MAX = 3650


class ShowByDefault(TyperGroup):
    """``policy FILE`` is ``policy show FILE``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        first = next((word for word in args if not word.startswith("-")), None)
        if first is not None and first not in self.commands:
            args = ["show", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(cls=ShowByDefault, no_args_is_help=True)


@app.command("show")
def show(
    path: Annotated[Path, typer.Argument(help="boot-policy.cose")],
    output: Output = OutputOption,
) -> None:
    """Show a boot policy: name, version, validity, allowed states. Its signature is checked by who uses it."""
    with reported(output):
        data = policy_data(_policy(path))
        emit(output, data, lambda: _fields(data))


@app.command("make")
def make(
    name: Annotated[str, typer.Option("--name", help="name of the policy; stays the same over versions")],
    key: Annotated[Path, typer.Option("--key", help="policy key, PEM of mode 0600")],
    out: Annotated[Path, typer.Option("--out", help="file for the signed policy")],
    label: Annotated[str, typer.Option("--state", help="label of the allowed state")] = "reference boot",
    log: Annotated[Path | None, typer.Option("--log", help="event log of the reference boot")] = None,
    pcrs: Annotated[Path | None, typer.Option("--pcrs", help="its PCR values, JSON")] = None,
    quote: Annotated[Path | None, typer.Option("--quote", help="TPMS_ATTEST that must cover those values")] = None,
    evidence: Annotated[Path | None, typer.Option("--evidence", help="or verified evidence of that boot")] = None,
    pcr: Annotated[str, typer.Option("--pcr", help="PCRs to fix by value, as 0,2,4,7 (default: those quoted)")] = "",
    by_event: Annotated[str, typer.Option("--by-event", help="PCRs to judge by their events, in any order")] = "",
    base: Annotated[Path | None, typer.Option("--base", help="policy before this: its states stay allowed")] = None,
    base_key: Annotated[
        Path | None, typer.Option("--base-key", help="policy.pub that signed --base (default: it is --key's)")
    ] = None,
    drop: Annotated[list[str] | None, typer.Option("--drop", help="label of a state of --base to take out")] = None,
    version: Annotated[int | None, typer.Option("--version", help="default: one more than --base")] = None,
    days: Annotated[int, typer.Option("--days", min=1, max=DAYS_MAX, help="validity from now")] = 365,
    kinds: Annotated[str, typer.Option("--tpm", help="allowed TPM kinds: hardware, swtpm or both")] = "hardware",
    output: Output = OutputOption,
) -> None:
    """Approve a boot: sign a policy that allows its state, beside the states of --base (an update window)."""
    with reported(output):
        events, values = _reference(log, pcrs, quote, evidence)
        judged = set(_numbers("--by-event", by_event))
        default = [index for index in measure.QUOTED_PCRS if index in values]
        state = approve_boot(
            label,
            log=events,
            values=values,
            pcrs=set(_numbers("--pcr", pcr) or default) - judged,
            by_event=judged,
        )
        signer = GateKey.load(key)
        now_ns = time.time_ns()
        policy = next_policy(
            name=name,
            state=state,
            not_before_ns=now_ns - CLOCK_SLACK_S * NS_PER_S,
            not_after_ns=now_ns + days * DAY_S * NS_PER_S,
            tpm_kinds=_kinds(kinds),
            version=version,
            previous=None
            if base is None
            else _base(base, signer.public if base_key is None else read_public(base_key)),
            floor=_policy(out).version if out.exists() else 0,
            drop=tuple(drop or ()),
        )
        _write(out, policy.sign(signer))
        data = policy_data(policy)
        emit(output, data, lambda: _fields(data))


def _reference(
    log: Path | None, pcrs: Path | None, quote: Path | None, evidence: Path | None
) -> tuple[EventLog, dict[int, bytes]]:
    """The reference boot: a log with PCR values (those that ``quote`` covers), or evidence, which carries all."""
    if evidence is not None and log is pcrs is quote is None:
        claims, _ = parse_evidence(read_bounded(evidence, MAX_EVIDENCE_BYTES))
        return eventlog.parse(claims.event_log), dict(quoted_values(claims.pcrs, claims.quote_attest))
    if log is None or pcrs is None or evidence is not None:
        complain("--log and --pcrs, or --evidence alone", "give one reference boot")
        raise typer.Exit(Exit.USAGE)
    banked = parse_pcrs(read_bounded(pcrs, MAX_PCR_FILE_BYTES))
    if banks.SHA256 not in banked:
        raise PcrFileError(found="no values of the SHA-256 bank", expected="them")
    values = dict(banked[banks.SHA256])
    if quote is not None:
        attest = read_bounded(quote, MAX_STRUCTURE_BYTES)
        covered = parse_quote(attest).pcrs
        values = dict(quoted_values({pcr: value for pcr, value in values.items() if pcr in covered}, attest))
    return eventlog.parse(read_bounded(log, MAX_LOG_BYTES)), values


def _policy(path: Path) -> BootPolicy:
    with signed_file(path):
        return parse_policy(read_bounded(path, MAX_POLICY_BYTES))[0]


def _base(path: Path, public: bytes) -> BootPolicy:
    """The policy to go on from. Its states are signed anew, so it must be signed by people who may approve them:
    whoever can put a file in its place could otherwise have any boot approved. Raises ``PolicyError``."""
    with signed_file(path):
        policy, message = parse_policy(read_bounded(path, MAX_POLICY_BYTES))
    try:
        cose.verify(message, public=public)
    except cose.CoseError as error:
        raise PolicyError(
            found=f"{path}: {error.found}",
            expected=f"a policy signed by key {cose.key_id(public).hex()}",
            hint="take the policy that was approved; after a change of the policy key give the old one with --base-key",
        ) from error
    return policy


def _numbers(option: str, text: str) -> list[int]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not all(word.isascii() and word.isdigit() and len(word) < 3 and int(word) < PCR_COUNT for word in words):
        complain(f"{option} {text}", f"numbers 0..{PCR_COUNT - 1} with commas between")
        raise typer.Exit(Exit.USAGE)
    return [int(word) for word in words]


def _kinds(text: str) -> list[str]:
    words = [word.strip() for word in text.split(",")]
    if not set(words) <= set(TPM_KINDS):
        complain(f"--tpm {text}", f"out of {', '.join(TPM_KINDS)}, with a comma between")
        raise typer.Exit(Exit.USAGE)
    return words


def _write(path: Path, data: bytes) -> None:
    """All of the new policy or the old file, whatever happens in between."""
    temporary = path.with_name(f".{path.name}.new")
    with named(path):
        with temporary.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)


def policy_data(policy: BootPolicy) -> dict[str, Any]:
    """A policy as plain data."""
    return {
        "name": policy.name,
        "version": policy.version,
        "not_before_ns": policy.not_before_ns,
        "not_after_ns": policy.not_after_ns,
        "tpm_kinds": list(policy.tpm_kinds),
        "states": [
            {
                "label": state.label,
                "pcrs": {str(pcr): value for pcr, value in sorted(state.pcrs.items())},
                "by_event": {str(pcr): sorted(held) for pcr, held in sorted(state.allowed_events.items())},
            }
            for state in policy.states
        ],
    }


def _moment(ns: int) -> str:
    """UTC to the second; a time no calendar of this machine has, in nanoseconds."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(ns // NS_PER_S))
    except (OverflowError, OSError, ValueError):
        return f"{ns} ns"


def _fields(data: dict[str, Any]) -> None:
    for key, value in data.items():
        if key.endswith("_ns"):
            print(f"{key.removesuffix('_ns'):14}  {_moment(value)}")
        elif key != "states":
            print(f"{key:14}  {', '.join(value) if isinstance(value, list) else value}")
    for state in data["states"]:
        print(f"state           {state['label']}")
        for pcr, value in state["pcrs"].items():
            print(f"  PCR {pcr:>2}        {value.hex()}")
        for pcr, held in state["by_event"].items():
            print(f"  PCR {pcr:>2}        any of {len(held)} events")
