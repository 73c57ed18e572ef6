"""The device's ledger against the gate's.

The gate answers every command it was sent, so a command of the device without an answer, and an accepted one the
device does not have, are findings, except at the end of an epoch: what was decided after the gate's last witness but
one of the device's ledger may have been lost with a crash, and what was sent last may never have been answered. Those
commands must be the very last of their epoch, are bounded in number and are counted in the report. In an epoch whose
key closed the device's ledger in order nothing may be missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from attest.ledger.crossindex import DEVICE_COMMAND, GATE_COMMAND, GATE_RECEIPT, GATE_REFUSAL, CrossIndex
from attest.ledger.report import AuditReport

TAIL_COMMANDS_MAX: Final = 2048  # two seconds at 1 kHz: twice the longest time between two checkpoints


def reconcile(report: AuditReport, cross: CrossIndex, covered_before: Mapping[int, int], closed_epoch: int) -> None:
    """Compare the two; ``covered_before`` gives, by epoch, the index of the gate's last witness record but one.

    A command is on its way to gate and disk at once: the checkpoint that was being made when the gate accepted it need
    not hold it, the next one must. So only what was accepted before the last witness but one has to be there.
    ``closed_epoch`` is the epoch whose key closed the device's ledger, 0 if that ended in another way.
    """
    _missing_on_device(report, cross, covered_before, closed_epoch)
    _missing_on_gate(report, cross, closed_epoch if report.ledgers["gate"].closed else 0)


def _missing_on_device(
    report: AuditReport, cross: CrossIndex, covered_before: Mapping[int, int], closed_epoch: int
) -> None:
    ends: dict[int, int] = {}
    tails: Counter[int] = Counter()
    for epoch, sequence, index in cross.accepted_without_command():
        end = ends.setdefault(epoch, cross.last_sequence(epoch, DEVICE_COMMAND))
        if sequence <= end or index < covered_before.get(epoch, -1) or epoch == closed_epoch:
            found = f"no command {epoch}/{sequence}, which the gate accepted in its record {index}"
            report.add("ledger-cut", "device", None, found, "every accepted command")
            continue
        report.tail_device += 1
        tails[epoch] += 1
        if tails[epoch] == TAIL_COMMANDS_MAX + 1:
            found = f"over {TAIL_COMMANDS_MAX} accepted commands missing at the end of epoch {epoch}"
            report.add("ledger-cut", "device", None, found, "a tail of two seconds at most")


def _missing_on_gate(report: AuditReport, cross: CrossIndex, closed_epoch: int) -> None:
    ends: dict[int, tuple[int, int]] = {}
    tails: Counter[int] = Counter()
    for epoch, sequence, index in cross.receipts_lost_by_gate():
        found = f"no receipt {epoch}/{sequence}, which the device holds in its record {index}"
        report.add("ledger-cut", "gate", None, found, "every receipt it gave")
    for epoch, sequence, index, answered in cross.commands_without_answer():
        if answered:
            continue  # the receipt is missing, not the answer: reported above
        if epoch not in ends:
            end = cross.last_sequence(epoch, GATE_RECEIPT, GATE_REFUSAL, GATE_COMMAND)
            ends[epoch] = end, cross.last_sequence(epoch, DEVICE_COMMAND)
        end, last = ends[epoch]
        # A device that stops dead loses, with its later records, the one that says its last command was not sent.
        if epoch == closed_epoch or (sequence < end and sequence != last):
            report.add("unreconciled", "device", index, f"command {epoch}/{sequence} without an answer", "one")
            continue
        report.tail_gate += 1
        tails[epoch] += 1
        if tails[epoch] == TAIL_COMMANDS_MAX + 1:
            found = f"over {TAIL_COMMANDS_MAX} commands without an answer at the end of epoch {epoch}"
            report.add("unreconciled", "device", index, found, "a tail of two seconds at most")
