"""The whole way on a real simulated TPM: enrol, measure, quote, verify; and the attacks that are possible there."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pycddl
import pytest

from attest import cose
from attest.boot import banks, eventlog, ima
from attest.boot.eventlog import text_event
from attest.boot.measure import QUOTED_PCRS, SystemState, measure_software
from attest.boot.policy import make_policy, reference_state
from attest.cose import Ed25519Signer
from attest.evidence import build
from attest.evidence.builder import ima_list
from attest.evidence.claims import MAX_IMA_BYTES
from attest.evidence.enrol import enrol_locally
from attest.evidence.errors import EvidenceError
from attest.evidence.none import build_none, verify_none
from attest.evidence.verdict import Verdict
from attest.evidence.verify import NOTHING_SEEN, Seen, verify_evidence
from attest.structures import Ak, Quote
from attest.tpm import Swtpm, TpmDevice
from tests.attest.evidence.forge import HONEST_DIGESTS, POLICY_SIGNER, digest, signer
from tests.attest.tpm.rig import DEADLINE_S

CDDL = Path(__file__).resolve().parents[3] / "attest" / "evidence"
STATE = SystemState("Linux 6.1 x86_64", "quiet", {"attest": b"\1" * 32})
MODULE, DEPLOYMENT = HONEST_DIGESTS
YEAR_NS = 365 * 86_400 * 10**9


@dataclass
class Plant:
    """An enrolled device with a policy made from its reference boot."""

    simulator: Swtpm
    device: TpmDevice
    log_path: Path
    record: bytes
    policy: bytes
    log: bytes

    def evidence(self, nonce: bytes, session: Ed25519Signer, log: bytes | None = None) -> bytes:
        return build(
            self.device,
            signer=session,
            nonce=nonce,
            module_digest=MODULE,
            deployment_digest=DEPLOYMENT,
            event_log=log or self.log,
            record=self.record,
        )

    def verdict(self, evidence: bytes, nonce: bytes, seen: Seen = NOTHING_SEEN) -> Verdict:
        return verify_evidence(
            evidence,
            nonce=nonce,
            record=self.record,
            policy=self.policy,
            policy_public=POLICY_SIGNER.public,
            expected_module=MODULE,
            expected_deployment=DEPLOYMENT,
            now_ns=time.time_ns(),
            seen=seen,
        )


@pytest.fixture
def plant(swtpm: Swtpm, device: TpmDevice, tmp_path: Path) -> Plant:
    now = time.time_ns()
    log = measure_software(device, log_path=tmp_path / "boot.log", state=STATE)
    values = device.read_pcrs(QUOTED_PCRS)
    state = reference_state("reference", log=eventlog.parse(log), values=values, pcrs=QUOTED_PCRS)
    policy = make_policy(
        name="mill",
        version=1,
        states=[state],
        not_before_ns=now,
        not_after_ns=now + YEAR_NS,
        tpm_kinds=["swtpm"],
    )
    record = enrol_locally(
        device,
        policy_signer=POLICY_SIGNER,
        ca_roots=[path.read_bytes() for path in swtpm.ca_certificates()],
        device_id="mill-1",
        enrolled_by="operator",
        now_ns=now,
    )
    return Plant(swtpm, device, tmp_path / "boot.log", record, policy.sign(POLICY_SIGNER), log)


def test_approved_device_verifies(plant: Plant) -> None:
    session = Ed25519Signer.generate()
    evidence = plant.evidence(digest("n"), session)
    verdict = plant.verdict(evidence, digest("n"))
    assert verdict.ok, verdict.failed
    assert verdict.session_public == session.public
    assert verdict.reset_count == plant.device.clock().reset_count
    pycddl.Schema((CDDL / "evidence.cddl").read_text()).validate_cbor(cose.parse_sign1(evidence).payload)


def test_old_evidence_does_not_answer_a_new_nonce(plant: Plant) -> None:
    evidence = plant.evidence(digest("old"), Ed25519Signer.generate())
    failed = plant.verdict(evidence, digest("new")).failed
    assert failed is not None
    assert failed.name == "nonce"


def test_same_machine_verifies_again_after_a_reboot(plant: Plant) -> None:
    before = plant.verdict(plant.evidence(digest("n"), signer("s")), digest("n")).reset_count
    plant.simulator.stop()
    plant.simulator.start()
    plant.device.close()
    plant.device = TpmDevice(plant.simulator.tcti, deadline_s=DEADLINE_S)
    log = measure_software(plant.device, log_path=plant.log_path, state=STATE)
    verdict = plant.verdict(plant.evidence(digest("m"), signer("s"), log), digest("m"), Seen(reset_count=before))
    assert verdict.ok, verdict.failed
    assert verdict.reset_count > before
    rolled_back = plant.verdict(
        plant.evidence(digest("m"), signer("s"), log), digest("m"), Seen(reset_count=verdict.reset_count + 1)
    )
    assert rolled_back.failed is not None
    assert rolled_back.failed.name == "reset-count"
    plant.device.close()


def test_changed_software_is_not_approved(plant: Plant) -> None:
    changed = SystemState(STATE.kernel, STATE.cmdline, {"attest": b"\7" * 32})
    log = measure_software(plant.device, log_path=plant.log_path, state=changed)
    failed = plant.verdict(plant.evidence(digest("n"), signer("s"), log), digest("n")).failed
    assert failed is not None
    assert failed.name == "boot-policy"
    assert "07070707" in failed.found


def test_hidden_extend_is_seen(plant: Plant) -> None:
    plant.device.extend(13, text_event(13, "implant").digest)
    failed = plant.verdict(plant.evidence(digest("n"), signer("s")), digest("n")).failed
    assert failed is not None
    assert failed.name == "event-log-replay"


@pytest.mark.parametrize("capture", ["x86_64-direct-crb", "x86_64-uki-nosb", "x86_64-uki-secureboot", "aarch64-direct"])
def test_real_capture_replayed_into_a_tpm(plant: Plant, fixtures_dir: Path, capture: str) -> None:
    """The fast way to a UEFI boot: extend what the captured logs say, then quote and verify it, IMA's list as well."""
    captured = (fixtures_dir / "boot" / f"{capture}.eventlog.bin").read_bytes()
    listed = (fixtures_dir / "boot" / f"{capture}.ima.bin").read_bytes()
    plant.simulator.stop()
    plant.simulator.start()
    plant.device.close()
    plant.device = TpmDevice(plant.simulator.tcti, deadline_s=DEADLINE_S)
    log, entries = eventlog.parse(captured), ima.parse(listed).entries
    for event in log.events:
        if event.extends:
            plant.device.extend(event.pcr, event.digest)
    # IMA of the aarch64 capture began before its TPM was there: nothing reached PCR 10, and the list says so.
    for entry in entries if any(entries[0].digest) else ():
        plant.device.extend(ima.PCR_IMA, entry.measured(banks.SHA256, padded=False))
    values = plant.device.read_pcrs(QUOTED_PCRS)
    state = reference_state("uefi", log=log, values=values, pcrs=QUOTED_PCRS)
    plant.policy = make_policy(
        name="uefi", version=1, states=[state], not_before_ns=0, not_after_ns=2**63, tpm_kinds=["swtpm"]
    ).sign(POLICY_SIGNER)
    evidence = build(
        plant.device,
        signer=signer("s"),
        nonce=digest("n"),
        module_digest=MODULE,
        deployment_digest=DEPLOYMENT,
        event_log=captured,
        record=plant.record,
        read_ima=lambda: listed,
    )
    verdict = plant.verdict(evidence, digest("n"))
    assert verdict.ok, verdict.failed
    assert verdict.boot_state == "uefi"
    found = {check.name: check.found for check in verdict.checks}["ima-log"]
    assert found == f"{len(entries) if any(entries[0].digest) else 0} of {len(entries)} entries vouched for"
    pycddl.Schema((CDDL / "evidence.cddl").read_text()).validate_cbor(cose.parse_sign1(evidence).payload)
    without = plant.verdict(plant.evidence(digest("n"), signer("s"), captured), digest("n"))
    assert without.ok, without.failed
    plant.device.close()


def test_the_kernel_s_list_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "binary_runtime_measurements"
    path.write_bytes(b"x" * MAX_IMA_BYTES)
    assert len(ima_list(path)) == MAX_IMA_BYTES
    path.write_bytes(b"x" * (MAX_IMA_BYTES + 1))
    with pytest.raises(EvidenceError) as caught:
        ima_list(path)
    assert caught.value.code == "ima-list"
    assert caught.value.hint


class Restless:
    """A TPM whose PCR 13 is extended between quote and read, a given number of times."""

    kind = "swtpm"

    def __init__(self, device: TpmDevice, times: int) -> None:
        self._device, self._times = device, times

    def ak(self) -> Ak:
        return self._device.ak()

    def quote(self, pcrs: Iterable[int], qualifying: bytes) -> Quote:
        quote = self._device.quote(pcrs, qualifying)
        if self._times:
            self._times -= 1
            self._device.extend(13, b"\1" * 32)
        return quote

    def read_pcrs(self, pcrs: Iterable[int]) -> dict[int, bytes]:
        return self._device.read_pcrs(pcrs)


def test_race_with_an_extend_is_repeated_then_reported(plant: Plant) -> None:
    plant.device, device = Restless(plant.device, 2), plant.device  # type: ignore[assignment]
    verdict = plant.verdict(plant.evidence(digest("n"), signer("s")), digest("n"))
    assert {check.name: check.ok for check in verdict.checks}["quote-pcr-digest"]
    plant.device = Restless(device, 3)  # type: ignore[assignment]
    with pytest.raises(EvidenceError) as caught:
        plant.evidence(digest("n"), signer("s"))
    assert caught.value.code == "evidence-race"


def _none(**changes: object) -> Verdict:
    arguments = {
        "nonce": digest("n"),
        "expected_module": MODULE,
        "expected_deployment": DEPLOYMENT,
        "development_profile": True,
    } | changes
    data = arguments.pop("data", None)
    made = build_none(signer=signer("s"), nonce=digest("n"), module_digest=MODULE, deployment_digest=DEPLOYMENT)
    return verify_none(data if isinstance(data, bytes) else made, **arguments)  # type: ignore[arg-type]


def test_mode_none_binds_the_epoch_in_a_development_profile() -> None:
    verdict = _none()
    assert verdict.ok
    assert (verdict.tpm_kind, verdict.session_public) == ("none", signer("s").public)
    made = build_none(signer=signer("s"), nonce=digest("n"), module_digest=MODULE, deployment_digest=DEPLOYMENT)
    pycddl.Schema((CDDL / "evidence-none.cddl").read_text()).validate_cbor(cose.parse_sign1(made).payload)


@pytest.mark.parametrize(
    ("changes", "failed"),
    [
        ({"development_profile": False}, "development-profile"),
        ({"nonce": digest("other")}, "nonce"),
        ({"expected_module": digest("other")}, "module-digest"),
        ({"expected_deployment": digest("other")}, "deployment-digest"),
        ({"data": b""}, "format"),
        ({"data": cose.sign1(b"\xa0", signer=signer("s"), content_type="application/other")}, "format"),
    ],
)
def test_mode_none_refused(changes: dict[str, object], failed: str) -> None:
    verdict = _none(**changes)
    assert verdict.failed is not None
    assert verdict.failed.name == failed
    assert verdict.session_public == b""


def test_mode_none_with_another_signature() -> None:
    made = bytearray(
        build_none(signer=signer("s"), nonce=digest("n"), module_digest=MODULE, deployment_digest=DEPLOYMENT)
    )
    made[-1] ^= 1
    verdict = _none(data=bytes(made))
    assert verdict.failed is not None
    assert verdict.failed.name == "signature"
