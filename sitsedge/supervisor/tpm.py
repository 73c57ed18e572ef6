"""One TPM for one command: the machine's own, or the simulated one of a state folder, started for as long."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from attest.tpm import Swtpm, TpmDevice, find_tcti
from sitsedge.config import Deployment
from sitsedge.supervisor.state import StateDir


@contextmanager
def opened_tpm(deployment: Deployment, state: StateDir, *, say: Callable[[str], None]) -> Iterator[TpmDevice]:
    """The TPM that ``deployment`` would use. Raises ``TpmError`` subclasses and ``SitsError``."""
    rules = deployment.attestation
    state.create()
    choice = find_tcti(rules.tpm, allow_simulated=rules.allow_simulated, state_dir=state.tpm)
    simulator = Swtpm(state.tpm) if choice.kind == "swtpm" else None
    if simulator is not None:
        say("starting a simulated TPM (swtpm): it shows the protocol, it protects nothing")
        simulator.start()
    try:
        if simulator is not None:
            simulator.export_ca(state.trust / "tpm-ca")
        with TpmDevice(choice.tcti) as device:
            yield device
    finally:
        if simulator is not None:
            simulator.stop()
