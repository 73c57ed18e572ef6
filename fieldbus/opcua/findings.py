"""What a server made of a request, and what is wrong with that: findings for snapshots and people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fieldbus.opcua.options import SubscriptionOptions

NAMES_MAX = 8
"""Tags a finding names; more are counted."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something a person should know. ``code`` is stable; nothing in ``text`` is secret."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class ItemRevision:
    """What the server made of one tag: sampling interval in ms (0: by exception), queue length."""

    sampling_ms: float
    queue: int


@dataclass(frozen=True, slots=True)
class Revisions:
    """What the server made of a subscription; times in ms, counts in publishing intervals."""

    publishing_ms: float
    keep_alive_count: int
    lifetime_count: int
    items: Mapping[str, ItemRevision] = field(default_factory=dict)

    @property
    def keep_alive_ms(self) -> float:
        """Longest time without any answer of a server that lives."""
        return self.publishing_ms * self.keep_alive_count

    @property
    def lifetime_ms(self) -> float:
        """How long the server keeps the subscription without hearing of us."""
        return self.publishing_ms * self.lifetime_count

    @property
    def latency_ms(self) -> float:
        """Age of a change when it is published, at worst: slowest sampling and one publishing interval.

        The network and this machine come on top; so does everything before the server's own sampling.
        """
        return self.publishing_ms + max((item.sampling_ms for item in self.items.values()), default=0.0)


def named(tags: Sequence[str]) -> str:
    """Tags for a person: the first few by name, the rest as a number."""
    more = f" and {len(tags) - NAMES_MAX} more" if len(tags) > NAMES_MAX else ""
    return ", ".join(tags[:NAMES_MAX]) + more


def judge(options: SubscriptionOptions, revisions: Revisions) -> list[Finding]:
    """``latency-claim``, ``publishing-revised``, ``sampling-revised``, ``queue-revised``, ``lifetime-short``."""
    found: list[Finding] = []
    if options.latency_ms_max is not None and revisions.latency_ms > options.latency_ms_max:
        sampling = revisions.latency_ms - revisions.publishing_ms
        text = (
            f"a change may be {revisions.latency_ms:g} ms old when published ({sampling:g} ms sampling + "
            f"{revisions.publishing_ms:g} ms publishing, as the server revised them), claimed are at most "
            f"{options.latency_ms_max:g} ms"
        )
        found.append(Finding("latency-claim", text))
    if revisions.publishing_ms > options.publishing_ms:
        text = f"the server publishes every {revisions.publishing_ms:g} ms, asked were {options.publishing_ms:g} ms"
        found.append(Finding("publishing-revised", text))
    # A sampling interval of 0 asks for the fastest there is, so any answer to it is one.
    slower = [
        tag
        for tag, item in revisions.items.items()
        if item.sampling_ms > (options.of(tag).sampling_ms or max(options.publishing_ms, revisions.publishing_ms))
    ]
    if slower:
        slowest = max(revisions.items[tag].sampling_ms for tag in slower)
        found.append(Finding("sampling-revised", f"the server samples {named(slower)} only every {slowest:g} ms"))
    shorter = [tag for tag, item in revisions.items.items() if item.queue < (options.of(tag).queue or 1)]
    if shorter:
        least = min(revisions.items[tag].queue for tag in shorter)
        found.append(Finding("queue-revised", f"the server keeps only {least} values of {named(shorter)}"))
    if revisions.lifetime_count < 3 * revisions.keep_alive_count:
        text = (
            f"lifetime of {revisions.lifetime_count} intervals for a keep-alive each {revisions.keep_alive_count}: "
            "the standard demands three times as many"
        )
        found.append(Finding("lifetime-short", text))
    return found
