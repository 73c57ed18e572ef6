"""Opening an epoch: nonce from the gate, fresh session key, quote, evidence, answer."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from attest.boot.measure import QUOTED_PCRS
from attest.command import SessionKey
from attest.errors import AttestError
from attest.evidence import build
from attest.evidence.builder import ima_list
from attest.evidence.claims import CommandKey
from attest.evidence.none import build_none
from attest.ledger import Ledger
from attest.tpm import Sealing, TpmBusy, TpmDevice
from sitsedge.errors import SitsError
from sitsedge.gate.link import GateLink, LinkError, Message
from sitsedge.loop.pipeline import EpochContext
from sitsedge.loop.resident import ResidentSigner

TPM_DEADLINE_S = 5.0  # a hardware TPM needs up to about 1 s for a quote
ANSWER_TIMEOUT_S = 20.0  # a hardware TPM may take a second; a busy one some more
CLOSE_S = 2.0
BACKOFF_FIRST_S = 0.2
BACKOFF_MAX_S = 5.0

log = logging.getLogger(__name__)


class EpochRefused(SitsError):
    """The gate did not open an epoch; ``code`` is the check that failed."""


@dataclass(frozen=True, slots=True)
class AttestationSetup:
    """Everything that does not change between two epochs."""

    mode: str
    device_id: str
    gate_id: str
    module_digest: bytes
    deployment_digest: bytes
    gate_socket: Path
    ledger: Path
    tcti: str | None
    record: bytes
    event_log: Path
    ima: bool = False
    application_pcr: int | None = None
    tpm_deadline_s: float = TPM_DEADLINE_S
    restarting: Path | None = None  # a mark: the TPM is being restarted and holds nobody's measurements
    seal_authority: bytes | None = None  # x ‖ y; where a key of the TPM signs the commands
    signer: ResidentSigner | None = None  # that key, where this process signs with it; evidence uses its connection


@dataclass(frozen=True, slots=True)
class OpenedEpoch:
    """A new epoch and the gate's signed record of it, with the evidence that opened it.

    ``witnessed`` is the size of this device's ledger that the gate has vouched for so far, ``change`` the number of the
    change that ``mode`` came with.
    """

    context: EpochContext
    record: bytes
    evidence: bytes
    mode: int
    witnessed: int
    change: int = 0


def make_evidence(setup: AttestationSetup, *, key: SessionKey, nonce: bytes) -> bytes:
    """Evidence for one nonce. The TPM is opened for this call only: a simulated one serves one client at a time.

    Raises ``AttestError``.
    """
    if setup.mode == "none":
        return build_none(
            signer=key,
            nonce=nonce,
            module_digest=setup.module_digest,
            deployment_digest=setup.deployment_digest,
        )
    _refuse_unmeasured(setup)
    with _opened(setup) as tpm:
        evidence = build(
            tpm,
            signer=key,
            nonce=nonce,
            module_digest=setup.module_digest,
            deployment_digest=setup.deployment_digest,
            event_log=setup.event_log.read_bytes(),
            record=setup.record,
            pcrs=QUOTED_PCRS if setup.application_pcr is None else (*QUOTED_PCRS, setup.application_pcr),
            read_ima=ima_list if setup.ima else None,
            certify=_certifier(setup, tpm),
        )
    _refuse_unmeasured(setup)
    return evidence


def _refuse_unmeasured(setup: AttestationSetup) -> None:
    if setup.restarting is not None and setup.restarting.exists():
        hint = "the supervisor measures it first"
        raise TpmBusy("tpm-restarting", found="a TPM just started", expected="a measured one", hint=hint)


@contextlib.contextmanager
def _opened(setup: AttestationSetup) -> Iterator[TpmDevice]:
    """The connection of the signer, which stays open, or one for this call."""
    if setup.signer is not None:
        yield setup.signer.device
        return
    assert setup.tcti is not None
    with TpmDevice(setup.tcti, deadline_s=setup.tpm_deadline_s) as tpm:
        yield tpm


def _certifier(setup: AttestationSetup, tpm: TpmDevice) -> Callable[[bytes], CommandKey] | None:
    if setup.signer is not None:
        return setup.signer.certify
    return None if setup.seal_authority is None else Sealing(tpm, setup.seal_authority).certify_key


def ledger_head(path: Path, witnessed: int) -> Message:
    """Size and root of the device's ledger now, with the proof that it extends what the gate has vouched for."""
    ledger = Ledger.open_readonly(path)
    try:
        size = ledger.size
        known = min(witnessed, size)
        return {
            "ledger": {"size": size, "root": ledger.root(size)},
            "consistency": ledger.consistency(known, size),
        }
    finally:
        ledger.close()


def open_epoch(setup: AttestationSetup) -> OpenedEpoch:
    """Run the protocol once. Raises :class:`EpochRefused`, ``LinkError`` or ``AttestError``."""
    link = GateLink(setup.gate_socket)
    try:
        challenge = link.ask({"t": "challenge"}, answers=("nonce",))
        key = SessionKey.generate()
        evidence = make_evidence(setup, key=key, nonce=challenge["nonce"])
        head = ledger_head(setup.ledger, challenge["witnessed"])
        message = {"t": "evidence", "nonce": challenge["nonce"], "evidence": evidence, **head}
        answer = link.ask(message, answers=("epoch", "refused"), timeout_s=ANSWER_TIMEOUT_S)
    finally:
        link.close()
    if answer["t"] == "refused":
        key.erase()
        raise EpochRefused(answer["code"], found=answer["found"], expected=answer["expected"])
    context = EpochContext(
        number=answer["epoch"],
        expires_ns=answer["expires_ns"],
        key=key,
        device_id=setup.device_id,
        gate_id=setup.gate_id,
        module_digest=setup.module_digest,
        deployment_digest=setup.deployment_digest,
        command_key=setup.signer,
    )
    return OpenedEpoch(context, answer["record"], evidence, answer["mode"], challenge["witnessed"], answer["change"])


@dataclass(frozen=True, slots=True)
class KeeperState:
    """How re-attestation goes: attempts that failed since the last that did not, and why the newest did."""

    attempts: int = 0
    error: str | None = None
    since_ns: int = 0

    def summary(self) -> dict[str, Any]:
        """For the snapshot."""
        return {"failing": self.attempts, "error": self.error, "since_ns": self.since_ns or None}


class EpochKeeper:
    """Opens epochs on its own thread, so that neither the TPM nor the gate's checks touch the loop's latency.

    ``want`` asks for a new epoch; the result is collected with ``poll``. Refusals are repeated with back-off and
    reported through ``on_refused``. A TPM that hangs costs this thread its deadline, again and again, in ``poll(2)``
    and without the interpreter's lock; one that answers again is used at the next attempt.
    """

    def __init__(
        self,
        setup: AttestationSetup,
        *,
        on_refused: Callable[[str, str, str], None],
        attempt: Callable[[AttestationSetup], OpenedEpoch] = open_epoch,
    ) -> None:
        self._setup = setup
        self._on_refused = on_refused
        self._attempt = attempt
        self.state = KeeperState()
        self._wanted = threading.Event()
        self._stop = threading.Event()
        self._results: SimpleQueue[OpenedEpoch] = SimpleQueue()
        self._thread = threading.Thread(target=self._main, name="epoch", daemon=True)
        self._thread.start()

    def want(self) -> None:
        """Ask for a new epoch; asking again while one is being opened changes nothing."""
        self._wanted.set()

    def poll(self) -> OpenedEpoch | None:
        """A newly opened epoch, if there is one."""
        try:
            return self._results.get_nowait()
        except Empty:
            return None

    def close(self) -> None:
        """Stop the thread; an attempt that still waits for TPM or gate is left to end with the process."""
        self._stop.set()
        self._wanted.set()
        self._thread.join(CLOSE_S)

    def _main(self) -> None:
        while True:
            self._wanted.wait()
            if self._stop.is_set():
                return
            opened = self._attempt_until_open()
            if opened is None:
                return
            self._wanted.clear()
            self._results.put(opened)

    def _failed(self, code: str, found: str, expected: str) -> None:
        log.error("no epoch: %s: found %s; expected %s", code, found, expected)
        since_ns = self.state.since_ns or time.time_ns()
        self.state = KeeperState(self.state.attempts + 1, f"{code}: {found}", since_ns)
        self._on_refused(code, found, expected)

    def _attempt_until_open(self) -> OpenedEpoch | None:
        wait_s = BACKOFF_FIRST_S
        while not self._stop.is_set():
            try:
                opened = self._attempt(self._setup)
            except (EpochRefused, LinkError, AttestError) as error:
                self._failed(error.code, error.found, error.expected)
            except OSError as error:
                self._failed("evidence-file", str(error), "readable evidence files")
            else:
                self.state = KeeperState()
                return opened
            self._stop.wait(wait_s)
            wait_s = min(2 * wait_s, BACKOFF_MAX_S)
        return None
