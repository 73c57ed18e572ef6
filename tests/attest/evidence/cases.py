"""Every way evidence can be wrong, by name, with the checks it must fail (all of them, in order)."""

from __future__ import annotations

from dataclasses import replace

from attest import cbor, cose, structures
from attest.boot.eventlog import EventLog, text_event
from attest.evidence import claims
from attest.evidence.none import build_none
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
    digest,
    ecc_key,
    signer,
)

HONEST = Case()
OTHER_AK = ecc_key("another ak")
OTHER_LOG = EventLog((LOG.events[0], text_event(13, "sits:component attest 2")))
UNQUOTED = {pcr: LOG.value(pcr) for pcr in (0, 11)}


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
    "boot-policy",
    "tpm-kind",
    "reset-count",
    "module-digest",
    "deployment-digest",
)
_NO_QUOTE = ("quote-magic", "quote-qualifying", "pcr-selection", "quote-pcr-digest", "reset-count")
_NO_POLICY = ("pcr-selection", "boot-policy-signature", "boot-policy-validity", "boot-policy", "tpm-kind")

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
    "mode-none": build_none(
        signer=SESSION,
        nonce=HONEST.nonce,
        module_digest=HONEST.module,
        deployment_digest=HONEST.deployment,
    ),
}

CASES: dict[str, tuple[Case, tuple[str, ...]]] = {
    "honest": (HONEST, ()),
    "honest-first-contact": (Case(last_reset_count=None), ()),
    "honest-after-reset": (Case(last_reset_count=6), ()),
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
    "reset-count-went-back": (Case(last_reset_count=8), ("reset-count",)),
    "reset-count-claims-more": (Case(claims={"reset_count": 9}), ("reset-count",)),
    "restart-count-claims-more": (Case(claims={"restart_count": 9}), ("reset-count",)),
    "module-digest-other-module": (Case(module=digest("another module")), ("module-digest",)),
    "module-digest-relabelled": (
        Case(claims={"module_digest": digest("another module")}),
        ("quote-qualifying", "module-digest"),
    ),
    "deployment-digest-other-deployment": (Case(deployment=digest("another deployment")), ("deployment-digest",)),
}
