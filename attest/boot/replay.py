"""Replay a boot log, and IMA's list, against PCR values from a file: no TPM, no keys, no policy.

What is judged, bank by bank that both sides have:

1. every PCR that the log extends has the value the log gives it (``mismatched``; ``missing`` where the file lacks it);
2. no PCR of the firmware and the boot loader was extended although the log has nothing of it (``unexplained``);
3. no event says something else than was extended (``misdescribed``; only where the profile has the data measured);
4. PCR 10 is a prefix of IMA's list, and the list's ``boot_aggregate`` belongs to these PCRs;
5. at least one PCR matched: a log cut to nothing agrees with nothing.

The digests of programs and files cover the things, not the event's data: there the words (a path, an address) are a
claim, shown with ``measured`` null, and no replay can tell whether somebody rewrote them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from attest.boot import banks, eventlog, ima, logformat
from attest.boot.errors import PcrFileError
from attest.boot.eventlog import EventLog
from attest.boot.logformat import FullLog
from attest.structures import PCR_COUNT

MAX_PCR_FILE_BYTES: Final = 64 * 1024  # eight banks of 24 values are 30 KB
# Those whose every event is in this log (TCG PFP §3.3.4; UAPI Group, Linux TPM PCR Registry). 10 has its own list, 15
# and 23 belong to user space, 16 is for debugging, 17..22 for dynamic launches.
LOGGED_PCRS: Final = (*range(10), 11, 12, 13, 14)
_INDEX: Final = re.compile(r"0|[1-9][0-9]?")
_HEX: Final = re.compile(r"(?:0x)?((?:[0-9a-fA-F]{2})*)")

PcrValues = Mapping[int, Mapping[int, bytes]]
"""TPM algorithm of a bank → PCR → value."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One PCR of one bank: what the log gives and what the TPM held; None where the file has no value."""

    bank: int
    pcr: int
    computed: bytes
    found: bytes | None


@dataclass(frozen=True, slots=True)
class ImaResult:
    """IMA's list beside PCR 10. ``matched``: entries that PCR 10 vouches for, None without a value or a match."""

    log: ima.ImaLog
    matched: int | None
    padded: bool
    fault: str | None


@dataclass(frozen=True, slots=True)
class Replay:
    """A log, the PCRs it gives, and how they compare. Without values to compare with, nothing matched or failed."""

    log: FullLog
    computed: PcrValues
    compared: tuple[int, ...]
    matched: tuple[int, ...]
    mismatched: tuple[int, ...]
    missing: tuple[int, ...]
    unexplained: tuple[int, ...]
    misdescribed: tuple[int, ...]
    differences: tuple[Difference, ...]
    ima: ImaResult | None

    @property
    def ok(self) -> bool:
        """Whether everything that was given agrees; with values, at least one PCR has to match."""
        agrees = not (self.mismatched or self.missing or self.unexplained or self.misdescribed)
        return agrees and (bool(self.matched) or not self.compared) and (self.ima is None or self.ima.fault is None)


def replay(log: bytes, *, pcrs: PcrValues | None = None, ima_list: bytes | None = None) -> Replay:
    """Replay ``log`` and compare. Raises ``EventLogError``, ``ImaError``, or ``PcrFileError`` without a common bank."""
    full = logformat.read(log)
    views = {bank: eventlog.view(full, bank) for bank in full.banks}
    computed = {bank: view.replay() for bank, view in views.items()}
    compared = tuple(bank for bank in full.banks if pcrs is not None and bank in pcrs)
    if pcrs is not None and not compared:
        names = ", ".join(banks.NAMES[bank] for bank in pcrs)
        raise PcrFileError(found=f"PCR values of the banks {names}", expected=f"one of {_names(full.banks)}")
    values = pcrs or {}
    checked = None if ima_list is None else _check_ima(ima.parse(ima_list), computed, values, given=pcrs is not None)
    differences = tuple(
        Difference(bank, pcr, value, values[bank].get(pcr))
        for bank in compared
        for pcr, value in sorted(computed[bank].items())
        if values[bank].get(pcr) != value
    )
    missing = {item.pcr for item in differences if item.found is None}
    wrong = {item.pcr for item in differences} - missing
    touched = {pcr for bank in compared for pcr in computed[bank]}
    matched = touched - wrong - missing
    if checked is not None and checked.matched is not None:
        (matched if checked.fault is None else wrong).add(ima.PCR_IMA)
    elif checked is not None and checked.fault is not None:
        wrong.add(ima.PCR_IMA)
    return Replay(
        log=full,
        computed=computed,
        compared=compared,
        matched=tuple(sorted(matched - wrong)),
        mismatched=tuple(sorted(wrong)),
        missing=tuple(sorted(missing)),
        unexplained=tuple(sorted({pcr for bank in compared for pcr in _unexplained(views[bank], values[bank])})),
        misdescribed=_misdescribed(full, views),
        differences=differences,
        ima=checked,
    )


def _unexplained(log: EventLog, values: Mapping[int, bytes]) -> set[int]:
    """PCRs that were extended although the log has no event of theirs."""
    silent = set(LOGGED_PCRS) - set(log.replay())
    return {pcr for pcr in silent if values.get(pcr, log.initial(pcr)) != log.initial(pcr)}


def _misdescribed(full: FullLog, views: Mapping[int, EventLog]) -> tuple[int, ...]:
    numbers = [record.number for record in full.records if record.extends]
    wrong: set[int] = set()
    for view in views.values():
        extending = (event for event in view.events if event.extends)
        wrong |= {number for number, event in zip(numbers, extending, strict=True) if event.measured is False}
    return tuple(sorted(wrong))


def _check_ima(log: ima.ImaLog, computed: PcrValues, values: PcrValues, *, given: bool) -> ImaResult:
    """PCR 10 in every bank that has it, against the list; the boot aggregate against the values, or else the log."""
    if not given:
        fault = ima.aggregate_fault(log, len(log.entries), computed) if any(log.aggregate.digest) else None
        return ImaResult(log, None, False, fault)
    found: ima.PrefixMatch | None = None
    holding = [bank for bank in values if ima.PCR_IMA in values[bank]]
    for bank in holding:
        match = ima.match(log, values[bank][ima.PCR_IMA], bank=bank)
        if match is None or (found is not None and match.entries != found.entries):
            return ImaResult(log, None, False, f"PCR 10 of the bank {banks.NAMES[bank]} is no prefix of the list")
        found = match if found is None or match.padded else found
    if found is None:
        return ImaResult(log, None, False, "no value of PCR 10")
    return ImaResult(log, found.entries, found.padded, ima.aggregate_fault(log, found.entries, values))


def parse_pcrs(data: bytes) -> PcrValues:
    """PCR values from JSON: ``{"sha256": {"0": "hex", …}, …}``. Any bytes give values or a ``PcrFileError``."""
    if len(data) > MAX_PCR_FILE_BYTES:
        raise PcrFileError(found=f"{len(data)} bytes", expected=f"at most {MAX_PCR_FILE_BYTES}")
    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=_no_twins)
    except (ValueError, RecursionError) as error:
        raise PcrFileError(found=f"no JSON ({error})", expected='{"sha256": {"0": "hex", …}}') from error
    if not isinstance(value, dict) or not value:
        raise PcrFileError(found="no object with a bank", expected='{"sha256": {"0": "hex", …}}')
    return {_bank(name): _bank_values(name, held) for name, held in value.items()}


def _no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise PcrFileError(found="a name twice", expected="each bank and each PCR once")
    return found


def _bank(name: str) -> int:
    if name not in banks.IDS:
        raise PcrFileError(found=f"the bank {name[:32]!r}", expected=_names(banks.NAMES))
    return banks.IDS[name]


def _bank_values(name: str, held: object) -> dict[int, bytes]:
    if not isinstance(held, dict):
        raise PcrFileError(found=f"no values of {name}", expected="PCR values by index")
    values: dict[int, bytes] = {}
    for key, text in held.items():
        if not _INDEX.fullmatch(key) or int(key) >= PCR_COUNT:
            raise PcrFileError(found=f"PCR {key[:32]!r}", expected=f"0..{PCR_COUNT - 1}")
        match = _HEX.fullmatch(text) if isinstance(text, str) else None
        if match is None or len(match[1]) != 2 * banks.SIZES[banks.IDS[name]]:
            found = f"another value of PCR {key} in {name}"
            raise PcrFileError(found=found, expected=f"{banks.SIZES[banks.IDS[name]]} bytes in hex")
        values[int(key)] = bytes.fromhex(match[1])
    return values


def _names(algorithms: tuple[int, ...] | Mapping[int, str]) -> str:
    return ", ".join(banks.NAMES[bank] for bank in algorithms)
