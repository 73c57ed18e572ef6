"""Every way evidence can be wrong, by name, with the checks it must fail (all of them, in order)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace

from attest import cbor, cose, structures
from attest.boot.eventlog import EventLog, text_event
from attest.boot.policy import reference_state
from attest.evidence import claims
from attest.evidence.application import application_value
from attest.evidence.none import build_none
from attest.evidence.revocation import RevocationList, Revoked
from attest.evidence.seen import NOTHING_SEEN, Seen
from tests.attest.evidence.forge import (
    LOG,
    NOW_NS,
    PCRS,
    POLICY,
    POLICY_SIGNER,
    RECORD,
    SESSION,
    YEAR_NS,
    Case,
    command_key,
    digest,
    ecc_key,
    ima_case,
    ima_entry,
    signer,
)

HONEST = Case()
OTHER_AK = ecc_key("another ak")
OTHER_LOG = EventLog((LOG.events[0], text_event(13, "sits:component attest 2")))
UNQUOTED = {pcr: LOG.value(pcr) for pcr in (0, 11)}


SEALING = digest("sealing policy")


def _resident(key: claims.CommandKey) -> Case:
    """A verifier that demands a command key, and a device that shows this one."""
    return Case(claims={"command_key": key}, signer_policy=SEALING)


def _flip(data: bytes, at: int = -1) -> bytes:
    changed = bytearray(data)
    changed[at] ^= 1
    return bytes(changed)


def _claims(drop: tuple[int, ...] = (), **changes: object) -> bytes:
    """Honest evidence whose payload map was edited by key (``k10`` is claim 10, ``n70001`` claim -70001)."""
    payload = cbor.loads(cose.parse_sign1(HONEST.evidence()).payload)
    assert isinstance(payload, dict)
    edited: dict[object, object] = {key: value for key, value in payload.items() if key not in drop}
    edited |= {int(name[1:]) * (-1 if name[0] == "n" else 1): value for name, value in changes.items()}
    return cose.sign1(cbor.dumps(edited), signer=SESSION, content_type=claims.CONTENT_TYPE)


def _reencoded(change: Callable[[bytes], bytes]) -> bytes:
    """Honest claims in an encoding that means the same but is not the canonical one, signed by the session key."""
    payload = cose.parse_sign1(HONEST.evidence()).payload
    changed = change(payload)
    assert changed != payload
    return cose.sign1(changed, signer=SESSION, content_type=claims.CONTENT_TYPE)


def _swap_first_two(payload: bytes) -> bytes:
    """The claims 8 and 10 in the other order."""
    cnf = cbor.dumps({claims.CNF: claims.session_confirmation(SESSION.public)})[1:]
    nonce = cbor.dumps({claims.EAT_NONCE: HONEST.nonce})[1:]
    return payload.replace(cnf + nonce, nonce + cnf, 1)


def _long_nonce_length(payload: bytes) -> bytes:
    return payload.replace(b"\x0a\x58\x20" + HONEST.nonce, b"\x0a\x59\x00\x20" + HONEST.nonce, 1)


def _twice(payload: bytes) -> bytes:
    """Claim 10 twice; the map's head counts one more."""
    nonce = cbor.dumps({claims.EAT_NONCE: HONEST.nonce})[1:]
    return bytes([payload[0] + 1]) + payload[1:].replace(nonce, nonce + nonce, 1)


def _unrestricted() -> tuple[bytes, bytes]:
    """An enrolled AK that signs anything: public area and record."""
    public = RECORD.ak_public.replace(
        structures.u32(structures.AK_ATTRIBUTES), structures.u32(structures.AK_ATTRIBUTES & ~structures.RESTRICTED)
    )
    record = replace(RECORD, ak_public=public, ak_name=structures.object_name(public))
    return public, record.encode()


_PUBLIC, _ = _unrestricted()
_LOOSE_RECORD = replace(RECORD, ak_public=_PUBLIC, ak_name=structures.object_name(_PUBLIC))
_UNREADABLE = tuple(name for name in ("signature", "nonce", "record-id", "ak-name", "quote-signature", "quote-magic"))
_NO_EVIDENCE = (
    "format",
    *_UNREADABLE,
    "quote-qualifying",
    "pcr-selection",
    "quote-pcr-digest",
    "event-log-replay",
    "ima-log",
    "application-measurement",
    "boot-policy",
    "tpm-kind",
    "reset-count",
    "module-digest",
    "deployment-digest",
    "command-key",
)
_NO_QUOTE = ("quote-magic", "quote-qualifying", "pcr-selection", "quote-pcr-digest", "reset-count")
_NO_POLICY = (
    "pcr-selection",
    "boot-policy-signature",
    "boot-policy-validity",
    "boot-policy-version",
    "boot-policy",
    "tpm-kind",
)

HONEST_VALUES = {pcr: LOG.value(pcr) for pcr in PCRS}
LOG_OF_TWO = EventLog((text_event(13, "sits:component attest 1"), text_event(13, "sits:component fieldbus 1")))
_VALUES_OF_TWO = {pcr: LOG_OF_TWO.value(pcr) for pcr in PCRS}
_POLICY_OF_TWO = replace(
    POLICY, states=(reference_state("reference", log=LOG_OF_TWO, values=_VALUES_OF_TWO, pcrs=PCRS),)
).sign(POLICY_SIGNER)
_FILES = (ima_entry("/bin/sh", "sh"), ima_entry("/usr/bin/python3", "python"))
_REPLACEMENT = replace(RECORD, replaces=digest("the record before"))


def _revoked(
    record_id: bytes, *, at_ns: int = NOW_NS - 1, not_after_ns: int = NOW_NS + YEAR_NS, by: str = "policy"
) -> bytes:
    """A signed list that names one record."""
    made = RevocationList(1, NOW_NS - YEAR_NS, not_after_ns, (Revoked(record_id, at_ns, "replaced by a spare part"),))
    return made.sign(signer(by))


def _ima_with(change: Callable[[bytes], bytes]) -> Case:
    """An honest quote over PCR 10 with a list that somebody edited."""
    honest = ima_case(_FILES)
    log = honest.claims["ima_log"]
    changed = change(log)
    assert changed != log
    return replace(honest, claims={"ima_log": changed})


def _other_aggregate() -> Case:
    """A whole list, in PCR 10 as it should be, whose boot aggregate is of other PCR values."""
    aggregate = ima_entry("boot_aggregate", "another boot")
    honest = ima_case(_FILES)
    assert honest.values is not None
    values = dict(honest.values) | {10: bytes(32)}
    for entry in (aggregate, *_FILES):
        values[10] = structures.extend(values[10], hashlib.sha256(entry[38:]).digest())
    return replace(honest, values=values, claims={"ima_log": b"".join((aggregate, *_FILES))})


def _application(module: bytes) -> Case:
    """A device that measured ``module`` into PCR 23, for a verifier that demands it there."""
    value = application_value(module_digest=module, deployment_digest=digest("deployment"))
    values = HONEST_VALUES | {23: value}
    return Case(values=values, quoted={"select": structures.pcr_selection(values)}, application_pcr=23)


MALFORMED = {
    "format-empty": b"",
    "format-garbage": b"\xd2garbage",
    "format-truncated": HONEST.evidence()[:-1],
    "format-trailing": HONEST.evidence() + b"\0",
    "format-content-type": cose.sign1(b"\xa0", signer=SESSION, content_type="application/other"),
    "format-no-map": cose.sign1(b"\x80", signer=SESSION, content_type=claims.CONTENT_TYPE),
    "format-unknown-claim": _claims(k11=1),
    "format-profile": _claims(k265="urn:other"),
    "format-nonce-short": _claims(k10=bytes(15)),
    "format-nonce-missing": _claims(drop=(10,)),
    "format-session-key-type": _claims(k8={1: {1: 2, -1: 6, -2: bytes(32)}}),
    "format-session-key-extra": _claims(k8={1: {1: 1, -1: 6, -2: bytes(32), 4: 1}}),
    "format-digest-size": _claims(n70001=bytes(31)),
    "format-pcrs-empty": _claims(n70007={}),
    "format-pcrs-range": _claims(n70007={24: bytes(32)}),
    "format-pcrs-size": _claims(n70007={0: bytes(20)}),
    "format-kind": _claims(n70010="vtpm"),
    "format-reset-count": _claims(k267=2**32),
    "format-keys-out-of-order": _reencoded(_swap_first_two),
    "format-length-not-shortest": _reencoded(_long_nonce_length),
    "format-claim-twice": _reencoded(_twice),
    "format-indefinite-map": _reencoded(lambda payload: b"\xbf" + payload[1:] + b"\xff"),
    "format-float": _reencoded(lambda payload: payload.replace(b"\x19\x01\x0b\x07", b"\x19\x01\x0b\xf9\x47\x00", 1)),
    "format-payload-trailing": _reencoded(lambda payload: payload + b"\0"),
    "mode-none": build_none(
        signer=SESSION,
        nonce=HONEST.nonce,
        module_digest=HONEST.module,
        deployment_digest=HONEST.deployment,
    ),
}

CASES: dict[str, tuple[Case, tuple[str, ...]]] = {
    "honest": (HONEST, ()),
    "honest-first-contact": (Case(seen=NOTHING_SEEN), ()),
    "honest-after-reset": (Case(seen=Seen(reset_count=6)), ()),
    **{name: (Case(raw=raw), _NO_EVIDENCE) for name, raw in MALFORMED.items()},
    "signature-flipped": (Case(raw=_flip(HONEST.evidence())), ("signature",)),
    "signature-other-key": (Case(envelope=signer("thief")), ("signature",)),
    "nonce-old-evidence": (Case(expected_nonce=digest("new nonce")), ("nonce", "quote-qualifying")),
    "old-quote-in-new-evidence": (Case(quote_nonce=digest("old nonce")), ("quote-qualifying",)),
    "quote-for-another-session-key": (Case(quoted={"extra": digest("other session")}), ("quote-qualifying",)),
    "quote-qualifying-empty": (Case(quoted={"extra": b""}), ("quote-qualifying",)),
    "record-signature-other-key": (Case(record=RECORD.sign(signer("thief"))), ("record-signature",)),
    "record-signature-flipped": (Case(record=_flip(RECORD.sign(POLICY_SIGNER))), ("record-signature",)),
    "record-unreadable": (
        Case(record=b"\xd2\x80"),
        ("record-signature", "record-id", "ak-name", "tpm-kind"),
    ),
    "record-id-of-another-device": (Case(record_id=digest("another record")), ("record-id",)),
    "ak-not-enrolled": (Case(ak=OTHER_AK), ("ak-name",)),
    "ak-not-restricted": (
        Case(
            claims={"ak_public": _PUBLIC},
            record=_LOOSE_RECORD.sign(POLICY_SIGNER),
            record_id=_LOOSE_RECORD.record_id,
        ),
        ("ak-name",),
    ),
    "ak-unreadable": (Case(claims={"ak_public": b"\0\x01"}), ("ak-name", "quote-signature")),
    "ak-no-point": (
        Case(claims={"ak_public": structures.ak_template(x=b"\1" * 32, y=b"\1" * 32)}),
        ("ak-name", "quote-signature"),
    ),
    "quote-signature-of-other-key": (Case(ak=OTHER_AK, claims={"ak_public": RECORD.ak_public}), ("quote-signature",)),
    "quote-signature-zero": (
        Case(claims={"quote_signature": b"\0\x18\0\x0b\0\1\0\0\1\0"}),
        ("quote-signature",),
    ),
    "quote-signature-scheme": (Case(claims={"quote_signature": b"\0\x14\0\x0b\0\1\1"}), ("quote-signature",)),
    "quote-magic-not-from-a-tpm": (Case(quoted={"magic": 0x12345678}), ("quote-magic",)),
    "quote-kind-certify": (Case(quoted={"kind": 0x8017}), _NO_QUOTE),
    "quote-trailing": (Case(quoted={"trailing": b"\0"}), _NO_QUOTE),
    "quote-two-banks": (Case(quoted={"banks": 2}), _NO_QUOTE),
    "quote-sha1-bank": (Case(quoted={"bank": 4}), _NO_QUOTE),
    "quote-select-size": (Case(quoted={"select": bytes(4)}), _NO_QUOTE),
    "quote-safe-flag": (Case(quoted={"safe": 2}), _NO_QUOTE),
    "pcr-selection-policy-needs-more": (
        Case(values=UNQUOTED, quoted={"select": structures.pcr_selection(UNQUOTED)}),
        ("pcr-selection", "boot-policy"),
    ),
    "pcr-selection-shown-but-not-quoted": (
        Case(quoted={"select": structures.pcr_selection((0, 11))}),
        ("pcr-selection",),
    ),
    "quote-pcr-digest-other-values": (
        Case(quoted={"pcr_digest": digest("other values")}),
        ("quote-pcr-digest",),
    ),
    "event-log-cut": (
        Case(log=EventLog(LOG.events[:1]), values={pcr: LOG.value(pcr) for pcr in PCRS}),
        ("event-log-replay",),
    ),
    "event-log-unreadable": (Case(claims={"event_log": b"garbage"}), ("event-log-replay", "boot-policy")),
    "event-log-misdescribed": (
        Case(log=EventLog((LOG.events[0], replace(LOG.events[1], data=b"sits:component attest 9")))),
        ("event-log-replay",),
    ),
    "event-log-empty": (Case(claims={"event_log": b""}), ("event-log-replay", "boot-policy")),
    "boot-policy-signature-other-key": (Case(policy=POLICY.sign(signer("thief"))), ("boot-policy-signature",)),
    "boot-policy-unreadable": (Case(policy=b"\xd2"), _NO_POLICY),
    "boot-policy-not-yet-valid": (Case(now_ns=NOW_NS - 2 * YEAR_NS), ("boot-policy-validity",)),
    "boot-policy-expired": (Case(now_ns=POLICY.not_after_ns), ("boot-policy-validity",)),
    "boot-policy-unapproved-component": (Case(log=OTHER_LOG), ("boot-policy",)),
    "boot-policy-one-event-too-many": (
        Case(log=EventLog((*LOG.events, text_event(13, "sits:component implant")))),
        ("boot-policy",),
    ),
    "policy-key-of-another-plant": (
        Case(policy_public=signer("another plant").public),
        ("record-signature", "boot-policy-signature"),
    ),
    "policy-key-of-wrong-size": (Case(policy_public=b""), ("record-signature", "boot-policy-signature")),
    "tpm-kind-not-as-enrolled": (Case(claims={"tpm_kind": "hardware"}), ("tpm-kind",)),
    "tpm-kind-not-allowed": (
        Case(policy=replace(POLICY, tpm_kinds=("hardware",)).sign(POLICY_SIGNER)),
        ("tpm-kind",),
    ),
    "reset-count-went-back": (Case(seen=Seen(reset_count=8)), ("reset-count",)),
    "reset-count-claims-more": (Case(claims={"reset_count": 9}), ("reset-count",)),
    "restart-count-claims-more": (Case(claims={"restart_count": 9}), ("reset-count",)),
    "boot-policy-downgraded": (Case(seen=Seen(reset_count=7, policy_version=2)), ("boot-policy-version",)),
    "event-log-of-another-boot": (Case(log=OTHER_LOG, values=HONEST_VALUES), ("event-log-replay",)),
    "honest-with-two-components": (Case(log=LOG_OF_TWO, policy=_POLICY_OF_TWO), ()),
    "event-log-reordered": (
        Case(log=EventLog(LOG_OF_TWO.events[::-1]), values=_VALUES_OF_TWO, policy=_POLICY_OF_TWO),
        ("event-log-replay",),
    ),
    "session-key-swapped": (
        Case(claims={"session_public": signer("thief").public}, envelope=signer("thief")),
        ("quote-qualifying",),
    ),
    "honest-with-revocation-list": (Case(revocations=_revoked(digest("another record"))), ()),
    "honest-before-revocation": (Case(revocations=_revoked(RECORD.record_id, at_ns=NOW_NS + 1)), ()),
    "record-revoked": (Case(revocations=_revoked(RECORD.record_id)), ("record-revocation",)),
    "record-revocation-list-expired": (
        Case(revocations=_revoked(digest("another record"), not_after_ns=NOW_NS)),
        ("record-revocation",),
    ),
    "record-revocation-list-of-another-plant": (
        Case(revocations=_revoked(digest("another record"), by="another plant")),
        ("record-revocation",),
    ),
    "record-revocation-list-unreadable": (Case(revocations=b"\xd2"), ("record-revocation",)),
    "honest-replacement-device": (
        Case(record=_REPLACEMENT.sign(POLICY_SIGNER), record_id=_REPLACEMENT.record_id),
        (),
    ),
    "honest-with-ima": (ima_case(_FILES), ()),
    "honest-with-ima-that-grew": (ima_case(_FILES, vouched=2), ()),
    "ima-log-missing": (ima_case(_FILES, claims={"ima_log": None}), ("event-log-replay", "ima-log")),
    "ima-log-without-its-pcr": (Case(claims={"ima_log": _FILES[0]}), ("ima-log",)),
    "ima-log-entry-changed": (_ima_with(lambda log: log.replace(digest("sh"), digest("evil sh"))), ("ima-log",)),
    "ima-log-entry-forged": (
        _ima_with(lambda log: log.replace(_FILES[0], ima_entry("/bin/sh", "evil sh"))),
        ("ima-log",),
    ),
    "ima-log-reordered": (_ima_with(lambda log: log.replace(b"".join(_FILES), b"".join(_FILES[::-1]))), ("ima-log",)),
    "ima-log-cut": (_ima_with(lambda log: log.removesuffix(_FILES[1])), ("ima-log",)),
    "ima-log-truncated": (_ima_with(lambda log: log[:-1]), ("ima-log",)),
    "ima-log-first-entry-missing": (_ima_with(lambda log: log[-len(b"".join(_FILES)) :]), ("ima-log",)),
    "ima-log-of-another-boot": (_other_aggregate(), ("ima-log",)),
    "honest-with-application-measurement": (_application(digest("module")), ()),
    "application-measurement-other-module": (_application(digest("another module")), ("application-measurement",)),
    "application-measurement-not-quoted": (Case(application_pcr=23), ("application-measurement",)),
    "application-measurement-in-a-boot-pcr": (
        Case(application_pcr=13),
        ("application-measurement",),
    ),
    "module-digest-other-module": (Case(module=digest("another module")), ("module-digest",)),
    "module-digest-relabelled": (
        Case(claims={"module_digest": digest("another module")}),
        ("quote-qualifying", "module-digest"),
    ),
    "deployment-digest-other-deployment": (Case(deployment=digest("another deployment")), ("deployment-digest",)),
    "honest-with-command-key": (_resident(command_key()), ()),
    "command-key-missing": (Case(signer_policy=SEALING), ("command-key",)),
    "command-key-not-demanded": (Case(claims={"command_key": command_key()}), ("command-key",)),
    "command-key-certified-by-another-ak": (_resident(command_key(ak=OTHER_AK)), ("command-key",)),
    "command-key-certificate-of-another-key": (
        _resident(replace(command_key(), public=command_key(key=OTHER_AK).public)),
        ("command-key",),
    ),
    "command-key-certificate-of-an-old-epoch": (_resident(command_key(nonce=digest("old nonce"))), ("command-key",)),
    "command-key-magic-not-from-a-tpm": (_resident(command_key(magic=0)), ("command-key",)),
    "command-key-for-any-state": (_resident(command_key(policy=bytes(32))), ("command-key",)),
    "command-key-with-a-password": (
        _resident(command_key(attributes=structures.COMMAND_KEY_ATTRIBUTES | structures.USER_WITH_AUTH)),
        ("command-key",),
    ),
    "command-key-exportable": (
        _resident(command_key(attributes=structures.COMMAND_KEY_ATTRIBUTES & ~structures.FIXED_TPM)),
        ("command-key",),
    ),
    "command-key-unreadable": (_resident(replace(command_key(), public=b"key")), ("command-key",)),
    "command-key-certificate-is-a-quote": (
        _resident(replace(command_key(), attest=claims.parse_evidence(HONEST.evidence())[0].quote_attest)),
        ("command-key",),
    ),
}
