"""Boot policy: which boot states a plant allows, signed with its policy key.

The payload is CDDL ``boot-policy.cddl``, the envelope COSE_Sign1 (EdDSA). A policy allows several states, so that
an update can be approved before it is rolled out. A state fixes PCRs by value, or by the set of events that may
appear in them (for PCRs whose order varies), and carries the reference events only to name what differs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from attest import cbor, cose
from attest.boot.errors import PolicyError
from attest.boot.eventlog import Event, EventLog
from attest.structures import DIGEST_BYTES, PCR_COUNT

CONTENT_TYPE: Final = "application/vnd.sits.boot-policy+cbor"
FORMAT: Final = 1
TPM_KINDS: Final = ("hardware", "swtpm")
MAX_STATES: Final = 32  # old, new and a few variants of firmware
MAX_EVENTS_PER_PCR: Final = 1024
MAX_POLICY_BYTES: Final = 1024 * 1024
_NAME_CHARS: Final = 128
_TEXT_CHARS: Final = 256


@dataclass(frozen=True, slots=True)
class BootState:
    """One allowed state.

    ``pcrs``: PCR → SHA-256 value. ``allowed_events``: PCR → digests, every event of that PCR must be one of
    them and there must be at least one event. ``reference``: PCR → (digest, description), for explanations.
    """

    label: str
    pcrs: Mapping[int, bytes]
    allowed_events: Mapping[int, frozenset[bytes]] = field(default_factory=dict)
    reference: Mapping[int, tuple[tuple[bytes, str], ...]] = field(default_factory=dict)

    @property
    def covered(self) -> frozenset[int]:
        """The PCRs this state says anything about."""
        return frozenset(self.pcrs) | frozenset(self.allowed_events)


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Why no state matched: the nearest state, its first wrong PCR, and the first event there that differs."""

    state: str
    pcr: int
    found: str
    expected: str
    event: str


@dataclass(frozen=True, slots=True)
class BootPolicy:
    """A parsed policy; whether its signature holds is ``cose.verify``'s business."""

    name: str
    version: int
    not_before_ns: int
    not_after_ns: int
    tpm_kinds: tuple[str, ...]
    states: tuple[BootState, ...]

    @property
    def pcrs(self) -> tuple[int, ...]:
        """Every PCR a quote must cover for this policy."""
        return tuple(sorted(frozenset().union(*(state.covered for state in self.states))))

    def valid_at(self, now_ns: int) -> bool:
        """Whether ``now_ns`` lies in [not before, not after)."""
        return self.not_before_ns <= now_ns < self.not_after_ns

    def match(self, values: Mapping[int, bytes], log: EventLog) -> BootState | Mismatch:
        """The first allowed state these PCR values and this log are in, or what keeps them out of the nearest."""
        best: tuple[int, Mismatch] | None = None
        for state in self.states:
            misses = [miss for miss in (_compare(state, pcr, values, log) for pcr in sorted(state.covered)) if miss]
            if not misses:
                return state
            if best is None or len(misses) < best[0]:
                best = (len(misses), misses[0])
        assert best is not None  # a policy has at least one state
        return best[1]

    def encode(self) -> bytes:
        """The payload, deterministic CBOR."""
        return cbor.dumps(
            {
                1: FORMAT,
                2: self.name,
                3: self.version,
                4: self.not_before_ns,
                5: self.not_after_ns,
                6: list(self.tpm_kinds),
                7: [_encode_state(state) for state in self.states],
            }
        )

    def sign(self, signer: cose.Signer) -> bytes:
        """The signed policy file."""
        return cose.sign1(self.encode(), signer=signer, content_type=CONTENT_TYPE)


def reference_state(label: str, *, log: EventLog, values: Mapping[int, bytes], pcrs: Iterable[int]) -> BootState:
    """A state from a reference boot: the PCR values it showed, explained by its log.

    Raises ``PolicyError`` where the log does not replay to the values: such a boot is no reference.
    """
    chosen = tuple(sorted(set(pcrs)))
    for pcr in chosen:
        if pcr not in values:
            raise PolicyError(found=f"no value for PCR {pcr}", expected="a value for every chosen PCR")
        if log.value(pcr) != values[pcr]:
            raise PolicyError(
                found=f"PCR {pcr} = {values[pcr].hex()}",
                expected=f"{log.value(pcr).hex()} as the event log says",
                hint="something extended this PCR without a log; leave it out or restart the machine",
            )
    return BootState(
        label=label,
        pcrs={pcr: values[pcr] for pcr in chosen},
        reference={
            pcr: tuple((e.digest, e.describe()[:_TEXT_CHARS]) for e in log.of(pcr)[:MAX_EVENTS_PER_PCR])
            for pcr in chosen
            if log.of(pcr)
        },
    )


def make_policy(
    *,
    name: str,
    version: int,
    states: Sequence[BootState],
    not_before_ns: int,
    not_after_ns: int,
    tpm_kinds: Sequence[str],
) -> BootPolicy:
    """A policy whose parts agree. Raises ``PolicyError``."""
    if not not_before_ns < not_after_ns:
        raise PolicyError(found=f"{not_before_ns}..{not_after_ns}", expected="a validity that ends after it begins")
    policy = BootPolicy(name, version, not_before_ns, not_after_ns, tuple(sorted(set(tpm_kinds))), tuple(states))
    return parse_payload(policy.encode())  # the parser's rules are the maker's rules


def parse_policy(data: bytes) -> tuple[BootPolicy, cose.Sign1]:
    """Parse a signed policy; the caller verifies the returned envelope. Raises ``AttestError`` subclasses."""
    message = cose.parse_sign1(data, content_type=CONTENT_TYPE, max_bytes=MAX_POLICY_BYTES)
    return parse_payload(message.payload), message


def parse_payload(data: bytes) -> BootPolicy:
    """Parse the payload. Raises ``CborError`` or ``PolicyError``."""
    fields = cbor.Fields(cbor.loads(data, max_bytes=MAX_POLICY_BYTES), "boot policy")
    fields.integer(1, low=FORMAT, high=FORMAT)
    name = fields.text(2, high=_NAME_CHARS)
    version = fields.integer(3, low=1, high=2**32 - 1)
    not_before, not_after = fields.integer(4), fields.integer(5)
    kinds = fields.array(6, low=1, high=len(TPM_KINDS))
    states = tuple(_parse_state(item) for item in fields.array(7, low=1, high=MAX_STATES))
    fields.done()
    texts = tuple(kind for kind in kinds if isinstance(kind, str) and kind in TPM_KINDS)
    if texts != kinds or list(texts) != sorted(set(texts)):
        raise PolicyError(found=f"TPM kinds {kinds!r}", expected=f"ascending, out of {', '.join(TPM_KINDS)}")
    if not not_before < not_after:
        raise PolicyError(found=f"{not_before}..{not_after}", expected="a validity that ends after it begins")
    covered = states[0].covered
    if any(state.covered != covered for state in states):
        raise PolicyError(found="states about different PCRs", expected="the same PCRs in every state")
    return BootPolicy(name, version, not_before, not_after, texts, states)


def _encode_state(state: BootState) -> dict[int, object]:
    encoded: dict[int, object] = {1: state.label, 2: dict(state.pcrs)}
    if state.allowed_events:
        encoded[3] = {pcr: sorted(digests) for pcr, digests in state.allowed_events.items()}
    if state.reference:
        encoded[4] = {pcr: [list(entry) for entry in entries] for pcr, entries in state.reference.items()}
    return encoded


def _parse_state(value: cbor.CborValue) -> BootState:
    fields = cbor.Fields(value, "boot state")
    label = fields.text(1, high=_NAME_CHARS)
    pcrs = {pcr: _digest(item) for pcr, item in _by_pcr(fields.take(2))}
    allowed = {pcr: _digests(item) for pcr, item in _by_pcr(fields.take(3))} if fields.has(3) else {}
    reference = {pcr: _reference(item) for pcr, item in _by_pcr(fields.take(4))} if fields.has(4) else {}
    fields.done()
    if not pcrs and not allowed:
        raise PolicyError(found=f"state {label!r} without PCRs", expected="at least one")
    if set(pcrs) & set(allowed):
        raise PolicyError(found=f"state {label!r}: a PCR by value and by events", expected="one of the two")
    if not set(reference) <= set(pcrs):
        raise PolicyError(found=f"state {label!r}: reference events of a PCR without value", expected="none")
    return BootState(label, pcrs, allowed, reference)


def _by_pcr(value: cbor.CborValue) -> list[tuple[int, cbor.CborValue]]:
    if not isinstance(value, dict):
        raise PolicyError(found="no map", expected="a map by PCR")
    entries: list[tuple[int, cbor.CborValue]] = []
    for key, item in value.items():
        if not isinstance(key, int) or not 0 <= key < PCR_COUNT:
            raise PolicyError(found=f"PCR {key!r}", expected=f"0..{PCR_COUNT - 1}")
        entries.append((key, item))
    return entries


def _digest(value: cbor.CborValue) -> bytes:
    if not isinstance(value, bytes) or len(value) != DIGEST_BYTES:
        raise PolicyError(found="another digest", expected=f"{DIGEST_BYTES} bytes")
    return value


def _digests(value: cbor.CborValue) -> frozenset[bytes]:
    if not isinstance(value, tuple) or not 1 <= len(value) <= MAX_EVENTS_PER_PCR:
        raise PolicyError(found="no list of digests", expected=f"1..{MAX_EVENTS_PER_PCR}")
    digests = [_digest(item) for item in value]
    if digests != sorted(set(digests)):
        raise PolicyError(found="digests out of order or twice", expected="ascending digests")
    return frozenset(digests)


def _reference(value: cbor.CborValue) -> tuple[tuple[bytes, str], ...]:
    if not isinstance(value, tuple) or len(value) > MAX_EVENTS_PER_PCR:
        raise PolicyError(found="no list of events", expected=f"at most {MAX_EVENTS_PER_PCR}")
    entries: list[tuple[bytes, str]] = []
    for item in value:
        if not isinstance(item, tuple) or len(item) != 2 or not isinstance(item[1], str):
            raise PolicyError(found="another reference event", expected="[digest, text]")
        if len(item[1]) > _TEXT_CHARS:
            raise PolicyError(found=f"a text of {len(item[1])} characters", expected=f"at most {_TEXT_CHARS}")
        entries.append((_digest(item[0]), item[1]))
    return tuple(entries)


def _compare(state: BootState, pcr: int, values: Mapping[int, bytes], log: EventLog) -> Mismatch | None:
    found = values.get(pcr)
    if found is None:
        return Mismatch(state.label, pcr, "not quoted", "a quoted value", "")
    if pcr in state.allowed_events:
        events = log.of(pcr)
        strange = next((event for event in events if event.digest not in state.allowed_events[pcr]), None)
        if strange is not None:
            return Mismatch(state.label, pcr, strange.digest.hex(), "an allowed event", strange.describe())
        return None if events else Mismatch(state.label, pcr, "no event", "at least one allowed event", "")
    expected = state.pcrs[pcr]
    if found == expected:
        return None
    event = _first_difference(state.reference.get(pcr, ()), log.of(pcr))
    return Mismatch(state.label, pcr, found.hex(), expected.hex(), event)


def _first_difference(reference: Sequence[tuple[bytes, str]], events: Sequence[Event]) -> str:
    for position, (digest, text) in enumerate(reference):
        if position >= len(events):
            return f"event {position + 1} is missing: {text}"
        if events[position].digest != digest:
            return f"event {position + 1} is {events[position].describe()}, not {text}"
    if len(events) > len(reference):
        return f"event {len(reference) + 1} is one too many: {events[len(reference)].describe()}"
    return "the logged events are those of the reference"
