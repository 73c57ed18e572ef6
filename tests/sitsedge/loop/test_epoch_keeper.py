"""Re-attestation beside the loop with a real simulated TPM that hangs, dies and comes back."""

from __future__ import annotations

import os
import queue
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from attest.boot import measure
from attest.boot.measure import QUOTED_PCRS
from attest.command import GateKey, SessionKey
from attest.evidence.application import application_value, quoted_application_pcr
from attest.evidence.claims import parse_evidence
from attest.evidence.enrol import enrol_locally
from attest.tpm import Swtpm, TpmBusy, TpmDevice
from sitsedge.loop.epoch import AttestationSetup, EpochKeeper, KeeperState, OpenedEpoch, make_evidence
from sitsedge.loop.pipeline import EpochContext
from tests.attest.tpm.rig import fresh_swtpm

MODULE, DEPLOYED = b"m" * 32, b"d" * 32
HANG_DEADLINE_S = 0.4  # what a hanging TPM costs the keeper's thread in these tests
WAIT_S = 60.0


@pytest.fixture
def swtpm(tmp_path: Path) -> Iterator[Swtpm]:
    simulator = fresh_swtpm(tmp_path / "tpm")
    simulator.start()
    yield simulator
    simulator.stop()


@pytest.fixture
def setup(swtpm: Swtpm, tmp_path: Path) -> AttestationSetup:
    key = GateKey.create(tmp_path / "policy.key")
    with TpmDevice(swtpm.tcti) as tpm:
        measure.measure_software(tpm, log_path=tmp_path / "log.bin")
        roots = [path.read_bytes() for path in swtpm.ca_certificates()]
        record = enrol_locally(
            tpm, policy_signer=key, ca_roots=roots, device_id="edge", enrolled_by="test", now_ns=time.time_ns()
        )
    return AttestationSetup(
        mode="tpm2",
        device_id="edge",
        gate_id="gate",
        module_digest=MODULE,
        deployment_digest=DEPLOYED,
        gate_socket=tmp_path / "none.sock",
        ledger=tmp_path / "none.db",
        tcti=swtpm.tcti,
        record=record,
        event_log=tmp_path / "log.bin",
    )


def attempt(setup: AttestationSetup) -> OpenedEpoch:
    """The device's half of opening an epoch; what a gate says to it has its own tests."""
    key, nonce = SessionKey.generate(), os.urandom(32)
    evidence = make_evidence(setup, key=key, nonce=nonce)
    context = EpochContext(1, 0, key, "edge", "gate", MODULE, DEPLOYED)
    return OpenedEpoch(context, b"", evidence, 0, 0)


@dataclass
class Watched:
    keeper: EpochKeeper
    refused: queue.SimpleQueue[tuple[str, str, str]]

    def opened(self) -> OpenedEpoch:
        """The next epoch, asked for as the loop does: without ever waiting in the keeper."""
        deadline = time.monotonic() + WAIT_S
        while (found := self.keeper.poll()) is None:
            assert time.monotonic() < deadline, self.keeper.state
            time.sleep(0.005)
        return found


@pytest.fixture
def watched(setup: AttestationSetup) -> Iterator[Callable[[float], Watched]]:
    made: list[Watched] = []

    def make(deadline_s: float) -> Watched:
        refused: queue.SimpleQueue[tuple[str, str, str]] = queue.SimpleQueue()
        patient = replace(setup, tpm_deadline_s=deadline_s)
        keeper = EpochKeeper(patient, on_refused=lambda *why: refused.put(why), attempt=attempt)
        made.append(Watched(keeper, refused))
        return made[-1]

    yield make
    for one in made:
        one.keeper.close()


def test_a_tpm_that_hangs_is_named_and_used_again_when_it_answers(
    watched: Callable[[float], Watched], swtpm: Swtpm
) -> None:
    rig = watched(HANG_DEADLINE_S)
    pid = swtpm.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        rig.keeper.want()
        assert rig.refused.get(timeout=WAIT_S)[0] == "tpm-deadline"
        assert rig.keeper.poll() is None
        assert rig.refused.get(timeout=WAIT_S)[0] == "tpm-deadline"
        state = rig.keeper.state
        assert state.attempts >= 1
        assert state.error is not None
        assert state.since_ns > 0
    finally:
        os.kill(pid, signal.SIGCONT)
    parse_evidence(rig.opened().evidence)
    assert rig.keeper.state == KeeperState()


def test_a_tpm_that_dies_is_named_and_used_again_after_its_restart(
    watched: Callable[[float], Watched], swtpm: Swtpm, setup: AttestationSetup
) -> None:
    rig = watched(20.0)
    rig.keeper.want()
    first, _ = parse_evidence(rig.opened().evidence)
    swtpm.stop()
    rig.keeper.want()
    assert rig.refused.get(timeout=WAIT_S)[0] == "tpm-unreachable"
    swtpm.start()
    with TpmDevice(swtpm.tcti) as tpm:
        measure.measure_software(tpm, log_path=setup.event_log)
    second, _ = parse_evidence(rig.opened().evidence)
    assert second.reset_count == first.reset_count + 1
    assert second.ak_public == first.ak_public


def test_evidence_files_that_vanish_are_a_reason_too(
    watched: Callable[[float], Watched], setup: AttestationSetup
) -> None:
    log = setup.event_log.read_bytes()
    setup.event_log.unlink()
    rig = watched(20.0)
    rig.keeper.want()
    assert rig.refused.get(timeout=WAIT_S)[0] == "evidence-file"
    setup.event_log.write_bytes(log)
    rig.opened()


def test_a_keeper_closes_while_the_tpm_hangs(watched: Callable[[float], Watched], swtpm: Swtpm) -> None:
    rig = watched(HANG_DEADLINE_S)
    pid = swtpm.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        rig.keeper.want()
        rig.refused.get(timeout=WAIT_S)
        rig.keeper.close()
    finally:
        os.kill(pid, signal.SIGCONT)
    assert rig.keeper.poll() is None


def test_the_application_measurement_is_quoted_where_the_deployment_wants_it(
    setup: AttestationSetup, swtpm: Swtpm
) -> None:
    with TpmDevice(swtpm.tcti) as tpm:
        tpm.measure_application(23, module_digest=MODULE, deployment_digest=DEPLOYED)
    evidence = attempt(replace(setup, application_pcr=23)).evidence
    claims, _ = parse_evidence(evidence)
    assert set(claims.pcrs) == {*QUOTED_PCRS, 23}
    assert claims.pcrs[23] == application_value(module_digest=MODULE, deployment_digest=DEPLOYED)
    assert quoted_application_pcr(evidence) == 23
    assert quoted_application_pcr(attempt(setup).evidence) is None
    assert quoted_application_pcr(b"no evidence") is None


def test_the_kernel_s_list_goes_along_where_the_deployment_wants_it(
    setup: AttestationSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sitsedge.loop.epoch.ima_list", lambda: b"list")
    claims, _ = parse_evidence(attempt(replace(setup, ima=True)).evidence)
    assert claims.ima_log == b"list"
    assert set(claims.pcrs) >= set(range(11))
    assert parse_evidence(attempt(setup).evidence)[0].ima_log is None


def test_a_tpm_that_is_not_measured_yet_makes_no_evidence(setup: AttestationSetup, tmp_path: Path) -> None:
    mark = tmp_path / "restarting"
    marked = replace(setup, restarting=mark)
    attempt(marked)
    mark.touch()
    with pytest.raises(TpmBusy, match="tpm-restarting"):
        attempt(marked)
    mark.unlink()
    attempt(marked)
