"""Which events changed since the approved boot, in words a plant engineer can act on.

Both boots are lists of (digest, description) by PCR; the approved one comes out of a policy's reference or of another
log. Equal digests are equal events; what is left is paired by its subject (the description up to the first colon), so
that a changed value is one line and not a removal and an addition. Each line names the consequence and what to do.
"""

from __future__ import annotations

import difflib
import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from attest.boot import advice, efi
from attest.boot import event_types as types
from attest.boot.eventlog import Event, EventLog
from attest.boot.policy import BootPolicy, BootState

_PAIRS_MAX: Final = 40_000  # of events whose longest common course is looked for; larger rests are paired in order
_ENTRIES_SHOWN: Final = 4
_TYPED: Final = re.compile(r"EV_\w+ (?:(['\"])(.*)\1|(?!\()(.+))")  # the words in quotes or without
_OWN: Final = re.compile(r"(sits:component \S+|sits:\w+) (.+)")  # measured boot in software: what, then which


@dataclass(frozen=True, slots=True)
class Item:
    """One event of one PCR: digest and description, and the event itself where the log is at hand."""

    digest: bytes
    text: str
    event: Event | None = None

    @property
    def subject(self) -> str:
        """What the event is about; stays the same when the value changes."""
        return self._parts()[0]

    @property
    def value(self) -> str:
        """What it says about its subject, or everything it says."""
        return self._parts()[1]

    @property
    def plain(self) -> str:
        """The description without the event type, which only readers of the profile know."""
        match = _TYPED.fullmatch(self.text)
        return self.text if match is None else (match[2] if match[2] is not None else match[3])

    @property
    def kind(self) -> str:
        """The event type's name."""
        return self.text.split(" ", 1)[0]

    def _parts(self) -> tuple[str, str]:
        own = _OWN.fullmatch(self.plain)
        if own is not None:
            return own[1], own[2]
        subject, separator, value = self.plain.partition(": ")
        return (subject, value) if separator else (self.plain, self.plain)


@dataclass(frozen=True, slots=True)
class Change:
    """One difference: ``kind`` is changed, replaced, added, removed or moved; ``before`` and ``after`` as they read."""

    pcr: int
    kind: str
    subject: str
    before: str
    after: str
    consequence: str
    action: str

    def __str__(self) -> str:
        """One line."""
        what = {
            "changed": f"{self.subject} changed from {self.before} to {self.after}",
            "replaced": f"{self.before} was replaced by {self.after}",
            "added": f"new: {self.after}",
            "removed": f"missing: {self.before}",
            "moved": f"{self.subject} comes at another place",
        }[self.kind]
        return f"PCR {self.pcr}: {what}. {self.consequence}. {self.action}."


def of_log(log: EventLog) -> dict[int, tuple[Item, ...]]:
    """The events of a log by PCR."""
    pcrs = sorted({event.pcr for event in log.events if event.extends})
    return {pcr: tuple(Item(e.digest, e.describe(), e) for e in log.of(pcr)) for pcr in pcrs}


def of_state(state: BootState) -> dict[int, tuple[Item, ...]]:
    """The reference events of a policy's state by PCR."""
    return {pcr: tuple(Item(digest, text) for digest, text in events) for pcr, events in state.reference.items()}


def explain(
    approved: Mapping[int, Sequence[Item]], current: Mapping[int, Sequence[Item]], *, pcrs: Iterable[int] | None = None
) -> tuple[Change, ...]:
    """Every difference, PCR by PCR in the order of the events; ``pcrs``: only these (default: all of either)."""
    chosen = sorted(set(approved) | set(current) if pcrs is None else set(pcrs))
    return tuple(change for pcr in chosen for change in _changes(pcr, approved.get(pcr, ()), current.get(pcr, ())))


def explain_policy(policy: BootPolicy, log: EventLog) -> tuple[str, tuple[Change, ...]]:
    """The allowed state this log is in or nearest to, and what differs from it; PCRs that no state names are left out.

    The log is taken at its word: whether the TPM holds these values is for the verifier.
    """
    values = {pcr: log.value(pcr) for pcr in policy.pcrs}
    found = policy.match(values, log)
    if isinstance(found, BootState):
        return found.label, ()
    state = next(state for state in policy.states if state.label == found.state)
    current, approved = of_log(log), of_state(state)
    changes: list[Change] = []
    for pcr in sorted(state.covered):
        items = current.get(pcr, ())
        if pcr in state.allowed_events:
            changes += [_change(pcr, "added", None, i) for i in items if i.digest not in state.allowed_events[pcr]]
            if not items:
                changes.append(_unexplained(pcr, "at least one allowed event", "no event"))
        elif values[pcr] != state.pcrs[pcr]:
            found_changes = _changes(pcr, approved[pcr], items) if pcr in approved else []
            changes += found_changes or [_unexplained(pcr, state.pcrs[pcr].hex()[:16], values[pcr].hex()[:16])]
    return state.label, tuple(changes)


def _unexplained(pcr: int, before: str, after: str) -> Change:
    consequence, action = advice.advise(pcr, "", after)
    return Change(pcr, "changed", "the value", before, after, consequence, action)


def _changes(pcr: int, before: Sequence[Item], after: Sequence[Item]) -> list[Change]:
    old, new = _left_over(before, after)
    rest = _Rest(new)
    changes: list[Change] = []
    for item in old:
        match = rest.partner(item)
        kind = "removed" if match is None else "moved" if match.digest == item.digest else "changed"
        if match is not None and kind == "changed" and match.subject != item.subject:
            kind = "replaced"
        changes.append(_change(pcr, kind, item, match))
    changes += [_change(pcr, "added", None, item) for item in rest.left()]
    return list(dict.fromkeys(changes))  # the stub measures a section's name and content: two events, one thing


class _Rest:
    """Events that are not paired yet, found by what they have in common with another; each is given away once."""

    __slots__ = ("_items", "_keys", "_taken")

    def __init__(self, items: Sequence[Item]) -> None:
        self._items = items
        self._taken: set[int] = set()
        self._keys: dict[tuple[str, object], deque[int]] = {}
        for at, item in enumerate(items):
            for key in self._of(item):
                self._keys.setdefault(key, deque()).append(at)

    @staticmethod
    def _of(item: Item) -> tuple[tuple[str, object], ...]:
        """From the closest kinship to the loosest."""
        return (("digest", item.digest), ("text", item.text), ("subject", item.subject), ("kind", item.kind))

    def partner(self, item: Item) -> Item | None:
        """The event that takes the place of ``item``: the same at another place, the same thing, or the same type."""
        for key in self._of(item):
            waiting = self._keys.get(key, deque())
            while waiting:
                at = waiting.popleft()
                if at not in self._taken:
                    self._taken.add(at)
                    return self._items[at]
        return None

    def left(self) -> list[Item]:
        return [item for at, item in enumerate(self._items) if at not in self._taken]


def _left_over(before: Sequence[Item], after: Sequence[Item]) -> tuple[list[Item], list[Item]]:
    """What is left of both when their longest common course is taken out."""
    head = 0
    while head < min(len(before), len(after)) and before[head].digest == after[head].digest:
        head += 1
    tail = 0
    while tail < min(len(before), len(after)) - head and before[-1 - tail].digest == after[-1 - tail].digest:
        tail += 1
    old, new = list(before[head : len(before) - tail]), list(after[head : len(after) - tail])
    if len(old) * len(new) > _PAIRS_MAX:
        return old, new
    matcher = difflib.SequenceMatcher(None, [i.digest for i in old], [i.digest for i in new], autojunk=False)
    gone = {at for tag, low, high, _, _ in matcher.get_opcodes() if tag != "equal" for at in range(low, high)}
    come = {at for tag, _, _, low, high in matcher.get_opcodes() if tag != "equal" for at in range(low, high)}
    return [old[at] for at in sorted(gone)], [new[at] for at in sorted(come)]


def _change(pcr: int, kind: str, before: Item | None, after: Item | None) -> Change:
    either = after or before
    assert either is not None
    old, new = before.plain if before else "", after.plain if after else ""
    if kind == "changed" and before is not None and after is not None:
        old, new = _contrast(before, after)
    consequence, action = advice.advise(pcr, either.subject, new)
    return Change(pcr, kind, either.subject, old, new, consequence, action)


def _contrast(before: Item, after: Item) -> tuple[str, str]:
    """Both values so that the difference shows: entries of a signature list, else texts, else digests."""
    old, new = _entries(before), _entries(after)
    if old is not None and new is not None:
        gone, come = [text for text in old if text not in new], [text for text in new if text not in old]
        if gone or come:
            return _some(gone), _some(come)
    if before.value != after.value:
        return before.value, after.value
    return f"content {before.digest.hex()[:16]}", f"content {after.digest.hex()[:16]}"


def _entries(item: Item) -> list[str] | None:
    """The entries of a Secure Boot list, where the log is at hand."""
    if item.event is None or item.event.kind != types.EV_EFI_VARIABLE_DRIVER_CONFIG:
        return None
    parsed = efi.variable(item.event.data)
    if parsed is None or parsed.name not in advice.SECURE_BOOT_LISTS:
        return None
    entries = efi.signatures(parsed.value)
    return None if entries is None else [f"{entry.text} ({entry.sha256[:16]})" for entry in entries]


def _some(texts: Sequence[str]) -> str:
    if not texts:
        return "nothing"
    more = f" and {len(texts) - _ENTRIES_SHOWN} more" if len(texts) > _ENTRIES_SHOWN else ""
    return "; ".join(texts[:_ENTRIES_SHOWN]) + more
