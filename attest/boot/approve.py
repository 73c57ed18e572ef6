"""Making boot policies: a reference boot becomes an allowed state, beside the states of the policy before.

While an update is rolled out, both the old and the new state are allowed (the update window): begin with the old
policy, add the new state, and take the old one out with the next policy. Versions only ascend, names stay: a machine
that remembers the highest version it has seen refuses to go back, so a lower version would only lock plants out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from attest import structures
from attest.boot.errors import PolicyError, PolicyVersionError
from attest.boot.eventlog import EventLog
from attest.boot.policy import BootPolicy, BootState, make_policy, reference_state

VERSION_MAX: Final = 2**32 - 1


def approve_boot(
    label: str, *, log: EventLog, values: Mapping[int, bytes], pcrs: Iterable[int], by_event: Collection[int] = ()
) -> BootState:
    """A state from a reference boot; PCRs in ``by_event`` are judged by their events, in any order and number.

    Raises ``PolicyError`` where the log does not give these values, where an event says something else than was
    extended, or where a PCR that is to be judged by events has none.
    """
    wrong = log.misdescribed()
    if wrong is not None:
        raise PolicyError(
            found=f"an event that claims to be {wrong.describe()}",
            expected="events that say what was extended",
            hint="the log was changed, or the firmware breaks the profile: this boot is no reference",
        )
    state = reference_state(label, log=log, values=values, pcrs={*pcrs, *by_event})
    allowed = {pcr: frozenset(event.digest for event in log.of(pcr)) for pcr in by_event}
    empty = sorted(pcr for pcr, digests in allowed.items() if not digests)
    if empty:
        raise PolicyError(found=f"no event of PCR {empty[0]}", expected="events to judge it by")
    return replace(
        state,
        pcrs={pcr: value for pcr, value in state.pcrs.items() if pcr not in allowed},
        allowed_events=allowed,
        reference={pcr: events for pcr, events in state.reference.items() if pcr not in allowed},
    )


def quoted_values(pcrs: Mapping[int, bytes], quote: bytes) -> Mapping[int, bytes]:
    """The PCR values shown beside a quote, if they are the quoted ones. Raises ``PolicyError``, ``StructureError``.

    The quote's signature and nonce are the verifier's business: verify evidence before approving what it shows.
    """
    info = structures.parse_quote(quote)
    if info.pcrs != tuple(sorted(pcrs)) or info.pcr_digest != structures.composite_digest(pcrs):
        raise PolicyError(found="PCR values that are not the quoted ones", expected="evidence that verifies")
    return pcrs


def next_policy(
    *,
    name: str,
    state: BootState,
    not_before_ns: int,
    not_after_ns: int,
    tpm_kinds: Sequence[str],
    version: int | None = None,
    previous: BootPolicy | None = None,
    floor: int = 0,
    drop: Collection[str] = (),
) -> BootPolicy:
    """The policy after ``previous``: its states without those labelled ``drop``, and ``state`` in front.

    A state with the same label is replaced. ``version`` must be above that of ``previous`` and ``floor``, the highest
    that is known to be in use, and defaults to the next. Raises ``PolicyError``.
    """
    before = max(floor, 0 if previous is None else previous.version)
    chosen = before + 1 if version is None else version
    if not before < chosen <= VERSION_MAX:
        raise PolicyVersionError(
            found=f"version {chosen}",
            expected=f"above {before}, that of the policy before",
            hint="versions only ascend: a lower one is refused as a downgrade by machines that saw the higher",
        )
    if previous is not None and previous.name != name:
        raise PolicyError(found=f"the name {name!r}", expected=f"{previous.name!r}, that of the policy before")
    old = () if previous is None else previous.states
    unknown = sorted(set(drop) - {item.label for item in old})
    if unknown:
        raise PolicyError(found=f"no state {unknown[0]!r} to drop", expected=", ".join(repr(s.label) for s in old))
    kept = [item for item in old if item.label not in drop and item.label != state.label]
    strange = next((item for item in kept if item.covered != state.covered), None)
    if strange is not None:
        raise PolicyError(
            found=f"state {state.label!r} about PCRs {_numbers(state.covered)}",
            expected=f"{_numbers(strange.covered)} as in state {strange.label!r}",
            hint="choose the same PCRs, or drop the old states",
        )
    return make_policy(
        name=name,
        version=chosen,
        states=[state, *kept],
        not_before_ns=not_before_ns,
        not_after_ns=not_after_ns,
        tpm_kinds=tpm_kinds,
    )


def _numbers(pcrs: Iterable[int]) -> str:
    return ",".join(str(pcr) for pcr in sorted(pcrs))
