"""Attestation mode ``tpm2-resident``: commands signed in the TPM, in approved boot states, in loops slow enough."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from attest import cose
from attest.command import EpochOpened, parse_command, parse_record
from attest.evidence.application import quoted_application_pcr
from attest.ledger import Ledger, RecordKind
from attest.ledger.audit import verify
from attest.tpm import SealError, Sealing, Swtpm, TpmDevice, TpmError
from attest.tpm.approval import approve, authority_point
from sitsedge.config import load_deployment
from sitsedge.errors import SitsError
from sitsedge.loop.resident import ResidentSigner
from sitsedge.supervisor.keys import KeyFileError
from sitsedge.supervisor.resident import SignTime, prepare_resident, require_speed
from sitsedge.supervisor.sealfiles import AUTHORITY_KEY, AUTHORITY_PUBLIC, RESIDENT, seal_authority
from sitsedge.supervisor.session import Session, SessionOptions
from sitsedge.supervisor.state import StateDir
from tests.attest.tpm.rig import DEADLINE_S, fresh_swtpm
from tests.sitsedge.conftest import replace

AUTHORITY = ec.derive_private_key(7, ec.SECP256R1())
PCRS = (0, 23)  # 23 can be changed and reset


@pytest.fixture
def swtpm(tmp_path: Path) -> Iterator[Swtpm]:
    simulator = fresh_swtpm(tmp_path / "tpm")
    simulator.start()
    yield simulator
    simulator.stop()


def resident(swtpm: Swtpm, *, deadline_s: float = DEADLINE_S) -> ResidentSigner:
    """A signer whose present state is approved."""
    point = authority_point(AUTHORITY.public_key())
    with TpmDevice(swtpm.tcti, deadline_s=DEADLINE_S) as tpm:
        sealing = Sealing(tpm, point)
        pcrs = tpm.read_pcrs(PCRS)
        approval = approve(sealing.target(), label="now", use="sign", pcrs=pcrs, authority=AUTHORITY)
    return ResidentSigner(
        swtpm.tcti, authority=point, approvals=[approval], deadline_s=deadline_s, tpm_deadline_s=DEADLINE_S
    )


def check(signer: ResidentSigner, signed: bytes) -> None:
    cose.verify(cose.parse_sign1(signed), public=signer.public)


def test_what_the_tpm_signs_verifies_as_es256(swtpm: Swtpm) -> None:
    with contextlib.closing(resident(swtpm)) as signer:
        check(signer, cose.sign1(b"payload", signer=signer, content_type="test", alg=cose.ES256))


def test_a_state_that_changes_while_running_ends_the_signing(swtpm: Swtpm) -> None:
    with contextlib.closing(resident(swtpm)) as signer:
        signer.sign(b"before")
        signer.device.extend(23, bytes(32))
        with pytest.raises(SealError) as caught:
            signer.sign(b"after")
    assert caught.value.code == "seal-state"


def test_a_tpm_that_hangs_costs_a_cycle_its_deadline_and_the_next_nothing(swtpm: Swtpm) -> None:
    pid = swtpm.pid
    assert pid is not None
    with contextlib.closing(resident(swtpm)) as signer:
        signer.sign(b"everything looked up")
        signer._deadline_s = 0.2
        os.kill(pid, signal.SIGSTOP)
        try:
            for code in ("tpm-deadline", "tpm-busy"):
                with pytest.raises(TpmError) as caught:
                    signer.sign(b"hung")
                assert caught.value.code == code
        finally:
            os.kill(pid, signal.SIGCONT)
        assert signer._pending is not None
        signer._pending.result(DEADLINE_S)  # the signature under way comes, too late for its cycle
        signer._deadline_s = DEADLINE_S
        check(signer, cose.sign1(b"again", signer=signer, content_type="test", alg=cose.ES256))


def test_a_loop_faster_than_the_tpm_is_refused_with_the_figures(mill: Path) -> None:
    deployment = load_deployment(mill)
    require_speed(SignTime(3.0, 5.0), deployment)
    with pytest.raises(SitsError, match=r"5\.1 ms for a signature .*median 3\.0 ms.*at most 5 ms") as caught:
        require_speed(SignTime(3.0, 5.1), deployment)
    assert caught.value.code == "tpm-too-slow"


def test_a_production_device_holds_no_key_that_could_approve_its_states(
    swtpm: Swtpm, mill: Path, tmp_path: Path
) -> None:
    state = StateDir(tmp_path / "s")
    state.create()
    deployment = load_deployment(mill).model_copy(update={"profile": "production"})
    pem = AUTHORITY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (state.keys / AUTHORITY_KEY).write_bytes(pem)
    with TpmDevice(swtpm.tcti) as tpm:
        with pytest.raises(KeyFileError, match="on a device in production"):
            prepare_resident(tpm, deployment, state, say=lambda _: None)
        (state.keys / AUTHORITY_KEY).unlink()
        with pytest.raises(SealError, match=AUTHORITY_PUBLIC):
            prepare_resident(tpm, deployment, state, say=lambda _: None)
        public = AUTHORITY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        (state.trust / AUTHORITY_PUBLIC).write_bytes(public)
        assert seal_authority(state) == authority_point(AUTHORITY.public_key())
        with pytest.raises(SealError, match="seal-approvals"):
            prepare_resident(tpm, deployment, state, say=lambda _: None)


def slow_mill(mill: Path) -> Path:
    """Time for a TPM in every limit, on a busy machine too; the frames still come ten times a second."""
    for old, new in (
        ("period_ms: 10.0", "period_ms: 1000.0"),
        ("deadline_ms: 15.0", "deadline_ms: 900.0"),
        ("source_age_ms_max: 20.0", "source_age_ms_max: 2000.0"),
        ("decision_age_ms_max: 20.0", "decision_age_ms_max: 2000.0"),
        ("publish_hz: 100", "publish_hz: 10"),
        ("version: 1\n", "version: 1\nrevision: 5\n"),
        ("  epoch_s_max: 3600\n", "  epoch_s_max: 3600\n  application_pcr: 23\n"),
    ):
        replace(mill, old, new)
    # and what else a deployment can ask of its TPM
    for old in ("source_age_ms_max: 25.0", "decision_age_ms_max: 25.0"):
        replace(mill.parent / "gate.yaml", old, old.replace("25.0", "2500.0"))
    return mill


def test_every_command_of_a_slow_loop_is_signed_in_the_tpm_and_audits(mill: Path, tmp_path: Path) -> None:
    state = StateDir(tmp_path / "s")
    said: list[str] = []
    options = SessionOptions(attestation_mode=RESIDENT)
    with Session(slow_mill(mill), state, options, say=said.append) as session:
        session.prepare()
        assert session.verify_boot().ok
        session.start()
        session.wait_for_commands(10)
    assert any("commands are signed in the TPM" in line for line in said)
    ledger = Ledger.open_readonly(state.gate_ledger)
    leaves = list(ledger.iterate())
    ledger.close()
    opened = [parse_record(leaf.data).record for leaf in leaves if leaf.kind is RecordKind.EPOCH_OPENED]
    commands = [parse_command(leaf.data, None) for leaf in leaves if leaf.kind is RecordKind.COMMAND]
    [epoch] = opened
    assert isinstance(epoch, EpochOpened)
    assert len(epoch.command_public) == 65
    assert len(commands) >= 10
    for command in commands:
        assert command.envelope.alg == cose.ES256
        command.verify(epoch.command_public)
    evidence = [leaf.data for leaf in leaves if leaf.kind is RecordKind.EVIDENCE]
    assert [quoted_application_pcr(data) for data in evidence] == [23]
    report = verify(state.ledger, proofs=3)
    assert report.ok, report.findings

    replace(mill, "revision: 5\n", "revision: 4\n")
    with Session(mill, state, options, say=said.append) as session, pytest.raises(SitsError, match="revision 4"):
        session.prepare()

    (state.anchors / "seal-authority.pub").write_text("00" * 64 + "\n")
    report = verify(state.ledger, proofs=0)
    assert not report.ok  # an authority that approved nothing vouches for no key
    assert "evidence" in {finding.code for finding in report.findings}
