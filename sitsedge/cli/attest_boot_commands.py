"""``sitsctl attest replay`` and ``explain``: boot logs of any machine, read with files alone and no TPM."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from attest.boot import banks
from attest.boot.errors import EventLogError, ImaError
from attest.boot.event_types import type_name
from attest.boot.eventlog import Event, EventLog, parse
from attest.boot.explain import explain, explain_policy, of_log
from attest.boot.logformat import MAX_LOG_BYTES, Record
from attest.boot.policy import MAX_POLICY_BYTES, parse_policy
from attest.boot.replay import MAX_PCR_FILE_BYTES, Replay, parse_pcrs, replay
from attest.evidence.claims import MAX_EVIDENCE_BYTES, parse_evidence
from sitsedge.cli.files import read_bounded
from sitsedge.cli.output import Exit, Output, OutputOption, complain, emit, reported

IMA_LIST_BYTES_MAX = 16 * 1024 * 1024
LogArgument = Annotated[Path, typer.Argument(help="boot event log (binary_bios_measurements)")]


def register(app: typer.Typer) -> None:
    """Add the commands of this module to ``sitsctl attest``."""
    app.command("replay")(replay_log)
    app.command("explain")(explain_log)


def replay_log(
    eventlog: LogArgument,
    pcrs: Annotated[Path | None, typer.Option("--pcrs", help='PCR values, JSON {"sha256": {"0": "hex", …}}')] = None,
    ima: Annotated[Path | None, typer.Option("--ima", help="IMA's binary_runtime_measurements")] = None,
    output: Output = OutputOption,
) -> None:
    """Replay a boot log, compare it with PCR values and IMA's list: exit 0 only if every PCR it touches matches."""
    with reported(output):
        try:
            result = replay(
                read_bounded(eventlog, MAX_LOG_BYTES),
                pcrs=None if pcrs is None else parse_pcrs(read_bounded(pcrs, MAX_PCR_FILE_BYTES)),
                ima_list=None if ima is None else read_bounded(ima, IMA_LIST_BYTES_MAX),
            )
        except (EventLogError, ImaError) as error:
            _refuse(output, error)
            raise typer.Exit(Exit.REFUSED) from None
        emit(output, replay_data(result), lambda: print("\n".join(_lines(result))))
    raise typer.Exit(Exit.OK if result.ok else Exit.REFUSED)


def _refuse(output: Output, error: EventLogError | ImaError) -> None:
    """A file that is no log is refused as one that does not match is."""
    message = f"{error.code}: got {error.found}, expected {error.expected}"
    data = {"ok": False, "error": {"code": error.code, "message": message, "hint": error.hint}}
    emit(output, data, lambda: complain(message, error.hint))


def explain_log(
    eventlog: Annotated[Path | None, typer.Argument(help="boot event log (binary_bios_measurements)")] = None,
    evidence: Annotated[Path | None, typer.Option("--evidence", help="or evidence, which carries the log")] = None,
    policy: Annotated[Path | None, typer.Option("--policy", help="approved states: boot-policy.cose")] = None,
    approved: Annotated[Path | None, typer.Option("--approved", help="or the log of an approved boot")] = None,
    output: Output = OutputOption,
) -> None:
    """Say in words what changed since the approved boot; exit 0 only if nothing did. The log is taken at its word."""
    with reported(output):
        _one_of("EVENTLOG or --evidence", eventlog, evidence)
        _one_of("--policy or --approved", policy, approved)
        try:
            current = _current_log(eventlog, evidence)
            if policy is not None:
                known, _ = parse_policy(read_bounded(policy, MAX_POLICY_BYTES))
                label, changes = explain_policy(known, current)
            else:
                assert approved is not None
                label = approved.name
                changes = explain(of_log(parse(read_bounded(approved, MAX_LOG_BYTES))), of_log(current))
        except EventLogError as error:
            _refuse(output, error)
            raise typer.Exit(Exit.REFUSED) from None
        data = {"ok": not changes, "approved": label, "changes": [asdict(change) for change in changes]}
        emit(output, data, lambda: print("\n".join([str(change) for change in changes] or ["nothing changed"])))
    raise typer.Exit(Exit.REFUSED if changes else Exit.OK)


def _one_of(names: str, *given: Path | None) -> None:
    if sum(path is not None for path in given) != 1:
        complain(names, "give one of the two")
        raise typer.Exit(Exit.USAGE)


def _current_log(log: Path | None, evidence: Path | None) -> EventLog:
    if log is not None:
        return parse(read_bounded(log, MAX_LOG_BYTES))
    assert evidence is not None
    claims, _ = parse_evidence(read_bounded(evidence, MAX_EVIDENCE_BYTES))
    return parse(claims.event_log)


def replay_data(result: Replay) -> dict[str, Any]:
    """The answer as plain data; the fields are documented in docs/cli.md."""
    return {
        "ok": result.ok,
        "format": "crypto-agile" if result.log.crypto_agile else "sha1",
        "banks": [banks.NAMES[bank] for bank in result.log.banks],
        "compared_banks": [banks.NAMES[bank] for bank in result.compared],
        "startup_locality": result.log.startup_locality,
        "pcrs": {
            banks.NAMES[bank]: {str(pcr): value for pcr, value in sorted(values.items())}
            for bank, values in result.computed.items()
        },
        "matched": list(result.matched),
        "mismatched": list(result.mismatched),
        "missing": list(result.missing),
        "unexplained": list(result.unexplained),
        "misdescribed": list(result.misdescribed),
        "differences": [
            {"bank": banks.NAMES[item.bank], "pcr": item.pcr, "computed": item.computed, "found": item.found}
            for item in result.differences
        ],
        "ima": _ima_data(result),
        "events": [_event_data(result, record) for record in result.log.records],
    }


def _ima_data(result: Replay) -> dict[str, Any] | None:
    checked = result.ima
    if checked is None:
        return None
    return {
        "ok": checked.fault is None,
        "fault": checked.fault,
        "entries": len(checked.log.entries),
        "matched_entries": checked.matched,
        "padded_sha1": checked.padded,
        "boot_aggregate": f"{checked.log.aggregate.algorithm}:{checked.log.aggregate.digest.hex()}",
    }


def _event_data(result: Replay, record: Record) -> dict[str, Any]:
    digests = zip(result.log.banks, record.digests, strict=True)
    event = _event(result, record)
    return {
        "number": record.number,
        "pcr": record.pcr,
        "type": type_name(record.kind),
        "digests": {banks.NAMES[bank]: digest for bank, digest in digests},
        "size": len(record.data),
        "text": event.describe(),
        "measured": event.measured if record.extends else None,
    }


def _event(result: Replay, record: Record) -> Event:
    """The record in the bank that is trusted most, SHA-256 where there is one."""
    position = result.log.banks.index(banks.SHA256) if banks.SHA256 in result.log.banks else 0
    return Event(record.pcr, record.kind, record.digests[position], record.data, result.log.banks[position])


def _lines(result: Replay) -> list[str]:
    lines = [f"{record.number:4}  PCR {record.pcr:2}  {_event(result, record).describe()}" for record in _shown(result)]
    for bank, values in result.computed.items():
        for pcr, value in sorted(values.items()):
            word = _word(result, pcr) if bank in result.compared else "not compared"
            lines.append(f"{banks.NAMES[bank]}  PCR {pcr:2}  {value.hex()}  {word}")
    lines += [f"PCR {pcr} was extended, and the log has no event of it" for pcr in result.unexplained]
    lines += [f"event {number} says something else than was measured" for number in result.misdescribed]
    if result.ima is not None:
        lines.append(_ima_line(result))
    if result.compared == (banks.SHA1,):
        lines.append("only SHA-1 was compared, which vouches for nothing any more")
    verdict = "matches" if result.ok else "does not match"
    lines.append(f"the log {verdict}" if result.compared else "nothing to compare with: give --pcrs")
    return lines


def _shown(result: Replay) -> list[Record]:
    return [record for record in result.log.records if record.extends]


def _word(result: Replay, pcr: int) -> str:
    if pcr in result.missing:
        return "no value to compare with"
    return "mismatched" if pcr in result.mismatched else "matched"


def _ima_line(result: Replay) -> str:
    checked = result.ima
    assert checked is not None
    total = len(checked.log.entries)
    if checked.fault is not None:
        return f"IMA: {checked.fault}"
    if checked.matched is None:
        return f"IMA: {total} entries, nothing to compare PCR 10 with"
    if checked.matched == 0:
        return f"IMA: PCR 10 vouches for none of {total} entries: IMA began without a TPM"
    return f"IMA: PCR 10 vouches for the first {checked.matched} of {total} entries, and they belong to this boot"
