"""Whatever happens to the TPM or on the way to it: a typed error, no key and no slot lost, and the next call works."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from tpm2_pytss import TSS2_Exception
from tpm2_pytss.constants import ESYS_TR, TPM2_ALG, TPM2_SE
from tpm2_pytss.types import TPM2B_SENSITIVE_CREATE, TPMS_SENSITIVE_CREATE

from attest.structures import RH_ENDORSEMENT, object_name, primary_qualified_name, rsa_template, tpm2b
from attest.tpm import (
    Swtpm,
    TpmBusy,
    TpmDeadline,
    TpmDevice,
    TpmError,
    TpmFailed,
    TpmFull,
    TpmLockout,
    TpmLost,
    TpmMissing,
    nv,
)
from attest.tpm.approval import Approval, approve, authority_point
from attest.tpm.counters import Counter
from attest.tpm.keys import FIRST_HANDLE
from attest.tpm.responses import error_of
from attest.tpm.sealing import Sealing
from attest.tpm.templates import EK
from tests.attest.tpm import proxy as wire
from tests.attest.tpm.proxy import Fault, FaultProxy
from tests.attest.tpm.rig import DEADLINE_S, fresh_swtpm

AUTHORITY = ec.derive_private_key(7, ec.SECP256R1())
POINT = authority_point(AUTHORITY.public_key())
DIGEST = bytes(range(32))
SECRET = b"a key for the ledger's disk"
CREATE, READ_PUBLIC = 0x153, 0x173
STRIDE = 10  # by default one command in ten; the marked rest covers the others
FIRST = [0, *(pytest.param(number, marks=pytest.mark.slow) for number in range(1, STRIDE))]
IDLE = {"transient": 0, "loaded sessions": 0}


class Scene:
    """A simulated TPM behind a wire that can fail, and a device at its end."""

    def __init__(self, simulator: Swtpm, proxy: FaultProxy) -> None:
        self.simulator, self.proxy = simulator, proxy

    @contextlib.contextmanager
    def device(self) -> Iterator[tuple[TpmDevice, Sealing]]:
        with TpmDevice(self.proxy.tcti, deadline_s=DEADLINE_S) as device:
            yield device, Sealing(device, POINT)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("faults")
    with fresh_swtpm(folder / "tpm") as simulator, FaultProxy(folder / "s", simulator.socket_path) as proxy:
        yield Scene(simulator, proxy)


def provision(device: TpmDevice, sealing: Sealing) -> bytes:
    """Everything a device makes once: AK, approval counter, signing key, storage key."""
    device.ak()
    sealing.seal(SECRET)
    return sealing.create_key().name


def wipe(device: TpmDevice) -> None:
    with device.connection.call() as esapi:
        for number in nv.handles(esapi, FIRST_HANDLE):
            if number < 0x81010000:
                esapi.evict_control(ESYS_TR.OWNER, esapi.tr_from_tpmpublic(number), number)
        if nv.exists(esapi, Counter.APPROVALS):
            esapi.nv_undefine_space(esapi.tr_from_tpmpublic(Counter.APPROVALS), auth_handle=ESYS_TR.OWNER)


def persistent(device: TpmDevice) -> tuple[int, ...]:
    with device.connection.call() as esapi:
        return nv.handles(esapi, FIRST_HANDLE)


@pytest.mark.parametrize("first", FIRST)
@pytest.mark.parametrize("fault", [wire.cut_before, wire.cut_after], ids=["before", "after"])
def test_provisioning_cut_at_any_command_is_finished_by_the_next_try(scene: Scene, fault: Fault, first: int) -> None:
    with scene.device() as (device, sealing):
        device.clock()
        wipe(device)
        scene.proxy.arm({})
        name = provision(device, sealing)
        count = len(scene.proxy.commands)
        handles = persistent(device)
        wipe(device)
    assert count > 20
    for number in range(first, count, STRIDE):
        with scene.device() as (device, sealing):
            device.clock()  # connected
            scene.proxy.arm({number: fault})
            with pytest.raises(TpmLost):
                provision(device, sealing)
            assert provision(device, sealing) == name
            assert persistent(device) == handles
            assert device.handles_in_use() == IDLE
            wipe(device)


@pytest.mark.parametrize("first", FIRST)
@pytest.mark.parametrize("fault", [wire.cut_after, wire.truncated, wire.garbled], ids=["cut", "truncated", "garbled"])
def test_use_disturbed_at_any_command_is_a_typed_error_and_works_again(scene: Scene, fault: Fault, first: int) -> None:
    with scene.device() as (device, sealing):
        approvals = _approvals(device, sealing)
        secret = sealing.seal(SECRET)
        scene.proxy.arm({})
        _use(sealing, approvals, secret)
        count, lost = len(scene.proxy.commands), 0
        for number in range(first, count, STRIDE):
            scene.proxy.arm({number: fault})
            try:
                _use(sealing, approvals, secret)
            except TpmError:
                lost += 1
            scene.proxy.arm({})
            with contextlib.suppress(TpmError):  # a garbled answer may have left a wrong handle behind, once
                _use(sealing, approvals, secret)
            _use(sealing, approvals, secret)
            assert device.handles_in_use() == IDLE
        if fault is wire.cut_after:  # a truncated or garbled answer may be one whose content does not matter
            assert lost == len(range(first, count, STRIDE))


def test_counter_whose_answer_was_lost_never_goes_back(scene: Scene) -> None:
    with scene.device() as (device, _):
        before = device.ledger_counter.create()
        scene.proxy.arm({})
        assert device.ledger_counter.increment() == before + 1
        for number in range(len(scene.proxy.commands)):
            before = device.ledger_counter.value()
            scene.proxy.arm({number: wire.cut_after})
            with pytest.raises(TpmLost):
                device.ledger_counter.increment()
            assert device.ledger_counter.value() in (before, before + 1)


def test_busy_tpm_is_asked_again(scene: Scene) -> None:
    with scene.device() as (device, _):
        device.clock()
        scene.proxy.arm({0: wire.busy, 1: wire.busy, 2: wire.busy})
        assert device.clock().reset_count
        assert len(scene.proxy.commands) == 4


def test_tpm_that_stays_busy_is_a_typed_error_and_nothing_was_done(scene: Scene) -> None:
    with scene.device() as (device, _):
        before = device.ledger_counter.create()
        scene.proxy.arm({})
        device.ledger_counter.increment()
        at = scene.proxy.commands.index(0x134)  # NV_Increment
        scene.proxy.arm(dict.fromkeys(range(at, at + 50), wire.busy))
        with pytest.raises(TpmBusy) as caught:
            device.ledger_counter.increment()
        assert caught.value.code == "tpm-busy"
        scene.proxy.arm({})
        assert device.ledger_counter.value() == before + 1


@pytest.mark.parametrize("number", range(7))
def test_signature_that_hangs_meets_the_deadline(scene: Scene, number: int) -> None:
    with scene.device() as (device, sealing):
        approvals, key = _approvals(device, sealing), sealing.create_key()
        sealing.sign(DIGEST, approvals)
        scene.proxy.arm({number: wire.hung})
        device.connection.deadline_s = 0.02
        with pytest.raises(TpmDeadline):
            sealing.sign(DIGEST, approvals)
        scene.proxy.released.set()
        device.connection.deadline_s = DEADLINE_S
        assert len(sealing.sign(DIGEST, approvals)) == 64
        assert sealing.create_key() == key
        assert device.handles_in_use() == IDLE


def test_full_slots_are_a_typed_error_and_empty_in_the_next_call(scene: Scene) -> None:
    with scene.device() as (device, sealing):
        approvals = _approvals(device, sealing)
        with device.connection.call() as esapi:
            for _ in range(3):
                esapi.create_primary(None, "ecc256")
        with pytest.raises(TpmFull) as caught:
            sealing.sign(DIGEST, approvals)
        assert caught.value.code == "tpm-full"
        assert len(sealing.sign(DIGEST, approvals)) == 64
        assert device.handles_in_use() == IDLE


def test_three_slots_are_enough_for_everything(scene: Scene) -> None:
    """With one transient object and one session of somebody else's, two of three are left, and we need no more."""
    with scene.device() as (device, sealing):
        approvals, secret = _approvals(device, sealing), sealing.seal(SECRET)
        with device.connection.call() as esapi:
            foreign = esapi.create_primary(None, "ecc256")[0]
            session = esapi.start_auth_session(ESYS_TR.NONE, ESYS_TR.NONE, TPM2_SE.HMAC, None, TPM2_ALG.SHA256)
        _use(sealing, approvals, secret)
        assert sealing.unseal(sealing.seal(SECRET), approvals) == SECRET
        assert device.quote([0], b"").attest
        with device.connection.call() as esapi:
            esapi.flush_context(foreign)
            esapi.flush_context(session)
        assert device.handles_in_use() == IDLE


def test_lockout_is_named_and_does_not_stop_our_keys(scene: Scene) -> None:
    with scene.device() as (device, sealing):
        approvals, secret = _approvals(device, sealing), sealing.seal(SECRET)
        before = device.ledger_counter.create()
        with pytest.raises(TpmLockout) as caught:
            _guess_until_lockout(device)
        assert caught.value.code == "tpm-lockout"
        _use(sealing, approvals, secret)
        assert device.quote([0], DIGEST).signature
        assert device.ledger_counter.increment() == before + 1
        with device.connection.call() as esapi:
            esapi.dictionary_attack_lock_reset(ESYS_TR.LOCKOUT)


def test_killed_tpm_gives_the_same_key_after_its_restart(tmp_path: Path) -> None:
    with (
        fresh_swtpm(tmp_path / "tpm") as simulator,
        TpmDevice(simulator.tcti, deadline_s=DEADLINE_S) as device,
    ):
        sealing = Sealing(device, POINT)
        approvals, key, secret = _approvals(device, sealing), sealing.create_key(), sealing.seal(SECRET)
        _use(sealing, approvals, secret)
        _kill(simulator)
        with pytest.raises(TpmMissing):
            sealing.sign(DIGEST, approvals)
        simulator.start()
        _use(sealing, approvals, secret)
        assert sealing.create_key() == key


def test_full_disk_is_a_failure_until_the_restart_and_loses_nothing(tmp_path: Path) -> None:
    with _small_disk(tmp_path / "disk") as disk:
        simulator = fresh_swtpm(disk / "tpm")
        simulator.start()
        with TpmDevice(simulator.tcti, deadline_s=DEADLINE_S) as device:
            name, counter = provision(device, Sealing(device, POINT)), device.ledger_counter
            before = counter.create()
            filler = disk / "filler"
            _fill(filler)
            with pytest.raises(TpmFailed) as caught:
                counter.increment()
            assert caught.value.code == "tpm-failure"
            filler.unlink()
            simulator.stop()
            simulator.start()
            assert counter.value() in (before, before + 1)
            assert counter.increment() > before
            assert provision(device, Sealing(device, POINT)) == name
        simulator.stop()


def test_somebody_on_the_bus_with_another_endorsement_key_gets_no_secret(scene: Scene) -> None:
    with scene.device() as (device, _):
        enrolled = object_name(device.ek().public)
    scene.proxy.arm(dict.fromkeys(range(1000), _impostor))
    with TpmDevice(scene.proxy.tcti, deadline_s=DEADLINE_S, trusted_ek=enrolled) as device:
        with pytest.raises(TpmError) as caught:
            Sealing(device, POINT).seal(SECRET)
        assert caught.value.code == "tpm-ek"
        assert CREATE not in scene.proxy.commands
    scene.proxy.arm({})
    with TpmDevice(scene.proxy.tcti, deadline_s=DEADLINE_S, trusted_ek=enrolled) as device:
        assert Sealing(device, POINT).seal(SECRET)
        assert CREATE in scene.proxy.commands


@pytest.mark.parametrize(
    ("rc", "kind", "code"),
    [
        (0x922, TpmBusy, "tpm-busy"),
        (0x90A, TpmBusy, "tpm-busy"),
        (0x923, TpmBusy, "tpm-busy"),
        (0x902, TpmFull, "tpm-full"),
        (0x903, TpmFull, "tpm-full"),
        (0x14B, TpmFull, "tpm-full"),
        (0x921, TpmLockout, "tpm-lockout"),
        (0x101, TpmFailed, "tpm-failure"),
        (0x100, TpmFailed, "tpm-failure"),
        (0x70007, TpmLost, "tpm-lost"),
        (0xA000A, TpmLost, "tpm-lost"),
        (0x9A2, TpmError, "tpm-refused"),
        (0x1C4, TpmError, "tpm-refused"),
    ],
)
def test_every_response_code_has_its_kind(rc: int, kind: type[TpmError], code: str) -> None:
    error = error_of(rc, "text")
    assert type(error) is kind
    assert (error.code, error.found) == (code, f"0x{rc:x} text")
    assert error.hint or code == "tpm-refused"


def _impostor(proxy: FaultProxy, command: bytes) -> bytes:
    """TPM2_ReadPublic of the EK shows a key of the impostor's, consistent in itself."""
    response = proxy.forward(command)
    if command[6:14] != READ_PUBLIC.to_bytes(4, "big") + EK["rsa2048"].handle.to_bytes(4, "big"):
        return response
    public = rsa_template(modulus=b"\xab" * 256)
    name = object_name(public)
    body = tpm2b(public) + tpm2b(name) + tpm2b(primary_qualified_name(RH_ENDORSEMENT, name))
    return response[:2] + (10 + len(body)).to_bytes(4, "big") + response[6:10] + body


def _approvals(device: TpmDevice, sealing: Sealing) -> list[Approval]:
    target, pcrs = sealing.target(), device.read_pcrs([0, 7])
    return [approve(target, label="x", use=use, pcrs=pcrs, authority=AUTHORITY) for use in ("sign", "unseal")]


def _use(sealing: Sealing, approvals: list[Approval], secret: bytes) -> None:
    assert len(sealing.sign(DIGEST, approvals)) == 64
    assert sealing.unseal(secret, approvals) == SECRET


def _guess_until_lockout(device: TpmDevice) -> None:
    """Wrong passwords for a key that is protected against guessing; ours are not, and have no password to guess."""
    with device.connection.call() as esapi:
        password = TPM2B_SENSITIVE_CREATE(TPMS_SENSITIVE_CREATE(userAuth=b"right"))
        key = esapi.create_primary(password, "ecc256", primary_handle=ESYS_TR.OWNER)[0]
        esapi.tr_set_auth(key, "wrong")
        try:
            for _ in range(64):
                try:
                    esapi.create(key, None, "ecc256")
                except TSS2_Exception as error:
                    if int(error.rc) == 0x921:
                        raise
        finally:
            esapi.flush_context(key)


def _kill(simulator: Swtpm) -> None:
    pid = simulator.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    simulator.stop()


@contextlib.contextmanager
def _small_disk(folder: Path) -> Iterator[Path]:
    folder.mkdir()
    mount = shutil.which("mount")
    done = mount and subprocess.run(
        [mount, "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if not done or done.returncode:
        pytest.skip("SKIPPED: this user may not mount a tmpfs; this test needs a disk that is full")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def _fill(filler: Path) -> None:
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
