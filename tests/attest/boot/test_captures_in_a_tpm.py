"""Recorded boots replayed into a simulated TPM: the recorded PCRs come out, and a change is refused and explained."""

from __future__ import annotations

from pathlib import Path

import pytest

from attest.boot import banks, ima
from attest.boot.approve import approve_boot, next_policy
from attest.boot.eventlog import EventLog, parse, text_event
from attest.boot.explain import explain_policy
from attest.boot.policy import BootState, Mismatch
from attest.boot.replay import replay
from attest.tpm import TpmDevice
from tests.attest.boot import captures

PCRS = (0, 1, 2, 3, 4, 5, 6, 7, 9, 11)


@pytest.mark.parametrize("name", captures.NAMES)
def test_a_recorded_boot_in_a_tpm(fixtures_dir: Path, device: TpmDevice, name: str) -> None:
    capture = captures.load(fixtures_dir, name)
    log, measured = parse(capture.log), ima.parse(capture.ima)
    vouched = replay(capture.log, pcrs={banks.SHA256: capture.values()}, ima_list=capture.ima).ima
    assert vouched is not None
    assert vouched.matched is not None
    for event in log.events:
        device.extend(event.pcr, event.digest)
    for entry in measured.entries[: vouched.matched]:
        device.extend(ima.PCR_IMA, entry.measured(banks.SHA256, padded=False))
    values = device.read_pcrs(range(24))
    assert values == capture.values()

    state = approve_boot(name, log=log, values=values, pcrs=PCRS)
    policy = next_policy(name="mill", state=state, not_before_ns=0, not_after_ns=1, tpm_kinds=["swtpm"])
    assert policy.match(values, log) == state
    assert explain_policy(policy, log) == (name, ())

    device.extend(4, text_event(4, "a bootkit").digest)
    after = EventLog((*log.events, text_event(4, "a bootkit")))
    changed = device.read_pcrs(range(24))
    assert not replay(capture.log, pcrs={banks.SHA256: changed}).ok, "hidden from the log"
    assert replay(after.encode(), pcrs={banks.SHA256: changed}).ok, "shown in the log"
    assert isinstance(policy.match(changed, after), Mismatch)
    assert not isinstance(policy.match(changed, log), BootState)
    _, (change,) = explain_policy(policy, after)
    assert str(change).startswith("PCR 4: new: a bootkit. Another boot loader or kernel was started. ")
