"""One record of every kind, with every optional part used or left out somewhere."""

from __future__ import annotations

from dataclasses import replace

from attest.command import (
    Alarm,
    CycleRefused,
    EpochClosed,
    EpochOpened,
    EpochRefused,
    LateProof,
    LedgerClosed,
    Mode,
    ModeChange,
    ProofKind,
    ProofReceipt,
    ProofStatus,
    ReadBack,
    Receipt,
    Record,
    Refusal,
    Witness,
)
from tests.attest.command.cases import DEPLOYMENT, DEVICE, GATE, MODULE, T0, key

_D = bytes(range(32))

_OPENED = EpochOpened(
    gate_id=GATE,
    device_id=DEVICE,
    epoch=7,
    evidence_digest=_D,
    nonce=b"n" * 32,
    session_public=key("session").public,
    module_digest=MODULE,
    deployment_digest=DEPLOYMENT,
    rules_digest=_D,
    vk_digest=_D,
    record_digest=b"",
    policy_digest=b"",
    t_opened_ns=T0,
    expires_ns=T0 + 1,
    ak_name=b"\x00\x0b" + _D,
    tpm_kind="swtpm",
    boot_policy="plant v1: état normal",
    reset_count=3,
    plant_outputs=None,
)
RESIDENT = replace(_OPENED, command_public=b"\x04" + 2 * _D)  # kept apart: one vector for each kind of record

RECORDS: tuple[Record, ...] = (
    Receipt(GATE, 7, 100, _D, (5, -5), (5, -5), (), ReadBack.PENDING, True, T0, T0 + 1, 0),
    Refusal(GATE, 0, 0, "malformed", 1, "nothing", "a command", _D, b"\x00\xff", T0),
    _OPENED,
    EpochRefused(GATE, _D, b"", b"", "quote-qualifying", 9, "an old quote", "ours", T0),
    EpochClosed(GATE, 7, "stop", T0),
    ModeChange(GATE, Mode.SUPERVISED, Mode.AUTO, ("Ann", "Bob"), "start of shift", T0),
    Alarm(GATE, 7, 100, "not-applied", "sequence 99", "sequence 100", T0),
    Witness(GATE, "sits/device", 12, _D, T0),
    CycleRefused(DEVICE, 7, 0, "stale", "70 ms", "50 ms", 3, T0),
    LateProof(DEVICE, 7, 100, _D, ProofKind.GROTH16_BN254, bytes(128), T0),
    ProofReceipt(GATE, 7, 100, _D, _D, True, T0),
    ProofStatus(GATE, False, "proof-deadline", 12, "a proof 3 ms late", "one in 60000 ms", T0),
    LedgerClosed("sits/device", 12, "stop", T0),
)
