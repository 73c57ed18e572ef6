"""From a view to one reading a variable: value, StatusCode, source time. Pure, so that every rule can be tested alone.

The rules (codes of OPC 10000-4, 7.39.2, and OPC 10000-8, 6.3):

* never heard of: Bad_WaitingForInitialData;
* heard of, but this value is not known: Bad_NoData, never a zero;
* its process is silent: Uncertain_NoCommunicationLastUsableValue, the last value with the time it was said at;
* its process is gone: Bad_NoCommunication, without a value;
* said, and not what this type of value can be: Bad_OutOfRange.

What is read from a ledger is a record of the past and stays Good, with its own time. ``Verified`` is this server's own
judgement: once the gate has been heard of it is Good, and false whenever the gate does not speak or the machine is not
attested, so that nobody who forgets to look at a StatusCode reads an old "true".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final

from asyncua import ua

from sitsedge.server.model.checks import flag, number, plain, text
from sitsedge.server.model.rows import (
    BRIDGE,
    COMMAND,
    EPOCH,
    GATE,
    HEALTH,
    LOOP,
    OPEN_EPOCH,
    PROCESS,
    PROVER,
    REFUSAL,
    Row,
)
from sitsedge.server.model.view import (
    BridgeView,
    CommandView,
    EpochView,
    GateView,
    HealthView,
    LoopView,
    ProcessView,
    ProverView,
    Reach,
    RefusalView,
    View,
)

GOOD: Final = ua.StatusCodes.Good
WAITING: Final = ua.StatusCodes.BadWaitingForInitialData
NO_DATA: Final = ua.StatusCodes.BadNoData
SILENT: Final = ua.StatusCodes.UncertainNoCommunicationLastUsableValue
GONE: Final = ua.StatusCodes.BadNoCommunication
OUT_OF_RANGE: Final = ua.StatusCodes.BadOutOfRange
NOT_ATTESTED: Final = ("ended", "failed")  # phases of the gate's watch in which no command is accepted
Speaker = GateView | LoopView | BridgeView | ProverView
"""What a process says of itself."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One variable's value now; ``value`` is None where ``status`` is Bad."""

    path: str
    value: Any
    status: int
    t_ns: int


def readings(view: View, *, outputs: tuple[str, ...], processes: tuple[str, ...]) -> Iterator[Reading]:
    """One reading for every variable of the appliance that is not fixed."""
    now = view.t_ns
    yield from _said(GATE, view.gate, now)
    yield from _verified(view.gate, now)
    yield from _said(LOOP, view.loop, now)
    if "bridge" in processes:
        yield from _said(BRIDGE, view.bridge, now)
    if "prover" in processes:
        yield from _said(PROVER, view.prover, now)
    yield from _recorded(EPOCH, view.epoch, now)
    yield from _open_epoch(view.gate, view.epoch, now)
    yield from _recorded(HEALTH, view.health, now)
    yield from _recorded(COMMAND, view.command, now)
    yield from _outputs(view.command, outputs, now)
    yield from _recorded(REFUSAL, view.refusal, now)
    for name in processes:
        for reading in _recorded(PROCESS, view.processes.get(name), now):
            yield Reading(f"Processes.{name}.{reading.path}", reading.value, reading.status, reading.t_ns)


def _said(rows: tuple[Row, ...], source: Speaker | None, now: int) -> Iterator[Reading]:
    """What a process said of itself."""
    if source is None:
        yield from _nothing(rows, now)
        return
    word = source.word
    for row in rows:
        if word.reach is Reach.GONE:
            yield Reading(row.path, None, GONE, word.t_ns)
        else:
            yield _read(row, source, word.t_ns, SILENT if word.reach is Reach.SILENT else GOOD)


def _recorded(
    rows: tuple[Row, ...],
    source: EpochView | CommandView | RefusalView | HealthView | ProcessView | None,
    now: int,
) -> Iterator[Reading]:
    if source is None:
        yield from _nothing(rows, now)
        return
    for row in rows:
        yield _read(row, source, source.t_ns, GOOD)


def _verified(gate: GateView | None, now: int) -> Iterator[Reading]:
    """As ``sitsctl status`` judges."""
    rows = (Row("Verified", lambda v: v[0], flag), Row("VerifiedReason", lambda v: v[1], text))
    if gate is None:
        yield from _nothing(rows, now)
        return
    t_ns = gate.word.t_ns
    judged: tuple[object, object]
    if gate.word.reach is not Reach.FRESH:
        judged, t_ns = (False, "no running gate"), now
    elif gate.attestation_phase in NOT_ATTESTED:
        judged = (False, f"the machine is not attested now: {gate.attestation_phase}")
    else:
        judged = (gate.verified, gate.verified_reason or "")
    for row in rows:
        yield _read(row, judged, t_ns, GOOD)


def _open_epoch(gate: GateView | None, epoch: EpochView | None, now: int) -> Iterator[Reading]:
    """Of the record of the epoch that the gate says is open; that of an older one would be about another."""
    if gate is None or epoch is None:
        yield from _nothing(OPEN_EPOCH, now)
    elif gate.epoch != epoch.number:
        yield from (Reading(row.path, None, NO_DATA, gate.word.t_ns) for row in OPEN_EPOCH)
    else:
        yield from _recorded(OPEN_EPOCH, epoch, now)


def _nothing(rows: tuple[Row, ...], now: int) -> Iterator[Reading]:
    for row in rows:
        yield Reading(row.path, None, WAITING, now)


def _read(row: Row, source: Any, t_ns: int, status: int) -> Reading:
    value = row.take(source)
    if value is None:
        value = row.none
    if value is None:
        return Reading(row.path, None, NO_DATA, t_ns)
    try:
        return Reading(row.path, row.check(value), status, t_ns)
    except ValueError:
        return Reading(row.path, None, OUT_OF_RANGE, t_ns)


def _outputs(command: CommandView | None, names: tuple[str, ...], now: int) -> Iterator[Reading]:
    """Each output and what became of it; a command with another number of outputs is another module's."""
    for position, name in enumerate(names):
        path = f"LastCommand.Outputs.{name}"
        if command is None:
            rows = tuple(Row(f"{path}{part}", plain, plain) for part in ("", ".Applied", ".ReadBack"))
            yield from _nothing(rows, now)
            continue
        for part, values in (("", command.outputs), (".Applied", command.applied), (".ReadBack", command.read_back)):
            fits = values is not None and len(values) == len(names)
            row = Row(f"{path}{part}", itemgetter(position) if fits else _none, number)
            yield _read(row, values, command.t_ns, GOOD)


def _none(_: object) -> None:
    return None
