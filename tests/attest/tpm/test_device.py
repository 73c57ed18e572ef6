"""One TPM: keys, quotes, PCRs, counters, and what happens when it dies, hangs or talks nonsense."""

from __future__ import annotations

import os
import signal
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tpm2_pytss import TPM2B_PUBLIC
from tpm2_pytss.constants import ESYS_TR

from attest import structures
from attest.evidence.credential import make_credential
from attest.evidence.ek import parse_ek
from attest.tpm import Swtpm, TpmDeadline, TpmDevice, TpmError, TpmLost, TpmMissing
from attest.tpm.keys import FIRST_HANDLE
from attest.tpm.nv import split_der
from attest.tpm.templates import EK
from tests.attest.tpm.rig import DEADLINE_S, bare_esapi

DIGEST = bytes(range(32))


def test_keys_have_the_agreed_templates(device: TpmDevice) -> None:
    ek = structures.parse_rsa_public(device.ek().public)
    assert (ek.attributes, ek.policy) == (structures.EK_ATTRIBUTES, structures.EK_POLICY)
    ak = device.ak()
    parsed = structures.parse_ecc_public(ak.public)
    assert (parsed.attributes, parsed.policy) == (structures.AK_ATTRIBUTES, structures.AK_MARKER)
    assert ak.name == structures.object_name(ak.public)
    assert structures.ak_template(x=parsed.x, y=parsed.y) == ak.public
    assert device.kind == "swtpm"


def test_ak_is_kept_and_found_again(swtpm: Swtpm, device: TpmDevice) -> None:
    first = device.ak()
    assert first.handle == FIRST_HANDLE
    device.close()
    again = TpmDevice(swtpm.tcti, deadline_s=DEADLINE_S)
    assert again.ak() == first
    again.close()


def test_foreign_object_at_the_first_handle_is_not_overwritten(swtpm: Swtpm) -> None:
    with bare_esapi(swtpm) as esapi:
        esapi.evict_control(ESYS_TR.OWNER, esapi.tr_from_tpmpublic(FIRST_HANDLE), FIRST_HANDLE)
        srk = esapi.create_primary(None, "rsa2048:aes128cfb")[0]
        foreign = bytes(esapi.read_public(srk)[1])
        esapi.evict_control(ESYS_TR.OWNER, srk, FIRST_HANDLE)
        esapi.flush_context(srk)
    device = TpmDevice(swtpm.tcti, deadline_s=DEADLINE_S)
    assert device.ak().handle == FIRST_HANDLE + 1
    device.close()
    with bare_esapi(swtpm) as esapi:
        assert bytes(esapi.read_public(esapi.tr_from_tpmpublic(FIRST_HANDLE))[1]) == foreign


def test_same_template_under_another_hierarchy_is_not_ours(swtpm: Swtpm) -> None:
    with bare_esapi(swtpm) as esapi:
        esapi.evict_control(ESYS_TR.OWNER, esapi.tr_from_tpmpublic(FIRST_HANDLE), FIRST_HANDLE)
        public = TPM2B_PUBLIC(publicArea=_unmarshal(structures.ak_template()))
        key = esapi.create_primary(None, public, primary_handle=ESYS_TR.OWNER)[0]
        esapi.evict_control(ESYS_TR.OWNER, key, FIRST_HANDLE)
        esapi.flush_context(key)
    device = TpmDevice(swtpm.tcti, deadline_s=DEADLINE_S)
    assert device.ak().handle == FIRST_HANDLE + 1
    device.close()


def test_absent_ek_is_made_again_and_is_the_same(swtpm: Swtpm, device: TpmDevice) -> None:
    before = device.ek()
    device.close()
    with bare_esapi(swtpm) as esapi:
        esapi.evict_control(ESYS_TR.OWNER, esapi.tr_from_tpmpublic(EK["rsa2048"].handle), EK["rsa2048"].handle)
    again = TpmDevice(swtpm.tcti, deadline_s=DEADLINE_S)
    assert again.ek() == before
    assert again.handles_in_use() == {"transient": 0, "loaded sessions": 0}
    again.close()


def test_ak_is_the_same_after_it_was_evicted(swtpm: Swtpm, device: TpmDevice) -> None:
    before = device.ak()
    device.close()
    with bare_esapi(swtpm) as esapi:
        esapi.evict_control(ESYS_TR.OWNER, esapi.tr_from_tpmpublic(FIRST_HANDLE), FIRST_HANDLE)
    again = TpmDevice(swtpm.tcti, deadline_s=DEADLINE_S)
    assert again.ak() == before
    again.close()


def test_quote_shows_what_it_was_asked_for(device: TpmDevice) -> None:
    device.extend(13, DIGEST)
    info = structures.parse_quote(device.quote([0, 13, 23], b"qualifying").attest)
    assert (info.pcrs, info.extra_data) == ((0, 13, 23), b"qualifying")
    assert info.pcr_digest == structures.composite_digest(device.read_pcrs([23, 13, 0]))
    assert info.reset_count == device.clock().reset_count


def test_ak_removed_by_another_program_comes_back_the_same(device: TpmDevice) -> None:
    ak = device.ak()
    with device.connection.call() as esapi:
        esapi.evict_control(ESYS_TR.OWNER, esapi.tr_from_tpmpublic(ak.handle), ak.handle)
    with pytest.raises(TpmError):
        device.quote([0], b"")
    assert structures.parse_quote(device.quote([0], b"x").attest).extra_data == b"x"
    assert device.ak() == ak


def test_all_pcrs_in_batches(device: TpmDevice) -> None:
    values = device.read_pcrs(range(24))
    assert sorted(values) == list(range(24))
    assert values[17] == b"\xff" * 32
    device.extend(8, DIGEST)
    assert device.read_pcrs([8])[8] == structures.extend(values[8], DIGEST)


@pytest.mark.parametrize(("pcr", "digest"), [(24, DIGEST), (-1, DIGEST), (13, b"short")])
def test_extend_refuses_bad_arguments(device: TpmDevice, pcr: int, digest: bytes) -> None:
    with pytest.raises(TpmError) as caught:
        device.extend(pcr, digest)
    assert caught.value.code == "tpm-argument"


def test_reset_count_rises_with_every_power_up(swtpm: Swtpm, device: TpmDevice) -> None:
    before = device.clock().reset_count
    device.close()
    swtpm.stop()
    swtpm.start()
    again = TpmDevice(swtpm.tcti, deadline_s=DEADLINE_S)
    assert again.clock().reset_count > before
    again.close()


def test_refusal_of_the_tpm_keeps_the_context(device: TpmDevice) -> None:
    ek = parse_ek(device.ek().public)
    other = make_credential(ek, ak_name=structures.object_name(b"another key"), value=DIGEST, random=os.urandom)
    with pytest.raises(TpmError) as caught:
        device.activate(credential=other.blob, secret=other.secret)
    assert caught.value.code == "tpm-refused"
    assert not isinstance(caught.value, TpmLost)
    assert device.handles_in_use() == {"transient": 0, "loaded sessions": 0}
    assert device.quote([0], b"").attest


def test_secret_that_no_key_made_does_not_stop_the_device(device: TpmDevice) -> None:
    """A simulated TPM calls bad OAEP padding a failure, for this one command."""
    with pytest.raises(TpmError) as caught:
        device.activate(credential=b"\0\x20" + bytes(32) + bytes(34), secret=bytes(1) + b"\x55" * 255)
    assert caught.value.code in ("tpm-failure", "tpm-refused")
    assert device.handles_in_use() == {"transient": 0, "loaded sessions": 0}
    assert device.quote([0], b"").attest


def test_hierarchy_password_gives_a_hint(swtpm: Swtpm) -> None:
    with bare_esapi(swtpm) as esapi:
        esapi.hierarchy_change_auth(ESYS_TR.OWNER, "secret")
    device = TpmDevice(swtpm.tcti, deadline_s=DEADLINE_S)
    with pytest.raises(TpmError) as caught:
        device.deployment_counter.create()
    assert "password" in caught.value.hint
    device.close()
    owner = TpmDevice(swtpm.tcti, deadline_s=DEADLINE_S, owner_auth=b"secret")
    assert owner.deployment_counter.create() >= 1
    owner.close()


def test_many_threads_share_one_device(device: TpmDevice) -> None:
    with ThreadPoolExecutor(8) as pool:
        quotes = list(pool.map(lambda n: device.quote([0], n.to_bytes(4, "big")), range(64)))
    assert [structures.parse_quote(q.attest).extra_data for q in quotes] == [n.to_bytes(4, "big") for n in range(64)]


def test_killed_tpm_is_missing_and_then_found_again(swtpm: Swtpm, device: TpmDevice) -> None:
    ak = device.ak()
    pid = swtpm.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    for _ in range(2):
        with pytest.raises(TpmMissing) as missing:
            device.quote([0], b"")
        assert missing.value.code == "tpm-unreachable"
    swtpm.stop()
    swtpm.start()
    assert device.ak() == ak
    assert structures.parse_quote(device.quote([0], b"x").attest).extra_data == b"x"


def test_hung_tpm_meets_the_deadline_and_recovers(swtpm: Swtpm) -> None:
    device = TpmDevice(swtpm.tcti, deadline_s=DEADLINE_S)
    device.ak()
    device.connection.deadline_s = 0.05
    assert swtpm.pid is not None
    os.kill(swtpm.pid, signal.SIGSTOP)
    with pytest.raises(TpmDeadline) as caught:
        device.quote([0], b"")
    assert caught.value.code == "tpm-deadline"
    os.kill(swtpm.pid, signal.SIGCONT)
    device.connection.deadline_s = DEADLINE_S
    assert structures.parse_quote(device.quote([0], b"y").attest).extra_data == b"y"
    assert device.handles_in_use() == {"transient": 0, "loaded sessions": 0}
    device.close()


def test_leftovers_of_a_killed_predecessor_are_flushed(swtpm: Swtpm) -> None:
    with bare_esapi(swtpm) as esapi:
        for _ in range(3):
            esapi.create_primary(None, "ecc256")
    device = TpmDevice(swtpm.tcti, deadline_s=DEADLINE_S)
    assert device.handles_in_use()["transient"] == 0
    device.close()


def test_occupied_connection_meets_the_deadline(swtpm: Swtpm, device: TpmDevice) -> None:
    device.clock()
    second = TpmDevice(swtpm.tcti, deadline_s=0.05)
    with pytest.raises(TpmDeadline) as caught:
        second.clock()
    assert "another process" in caught.value.hint
    second.close()


def test_closed_device_says_so(device: TpmDevice) -> None:
    device.close()
    with pytest.raises(TpmError) as caught:
        device.clock()
    assert caught.value.code == "tpm-closed"


@pytest.mark.parametrize("tcti", ["swtpm:path=/nonexistent/s", "device:/nonexistent", "mssim:", "device:"])
def test_unreachable_tpm_is_missing(tcti: str) -> None:
    with pytest.raises(TpmMissing):
        TpmDevice(tcti).clock()


@pytest.mark.parametrize(
    ("response", "code"),
    [
        (b"", "tpm-lost"),
        (b"\x80\x01\x00\x00", "tpm-lost"),
        (b"\x80\x01\x00\x00\x00\x05\x00\x00\x00\x00", "tpm-lost"),
        (b"\x80\x01\xff\xff\xff\xff\x00\x00\x00\x00", "tpm-lost"),
        (b"\x80\x01\x00\x00\x00\x0a\x00\x00\x00\x00extra", "tpm-lost"),
        (b"\x80\x01\x00\x00\x00\x0c\x00\x00\x00\x00\xff\xff", "tpm-lost"),
    ],
    ids=["nothing", "short-header", "size-too-small", "size-too-large", "trailing", "truncated-parameters"],
)
def test_garbage_from_a_tpm_is_a_typed_error(tmp_path: Path, response: bytes, code: str) -> None:
    with _talker(tmp_path / "s", response) as path:
        device = TpmDevice(f"swtpm:path={path}", deadline_s=DEADLINE_S)
        with pytest.raises(TpmError) as caught:
            device.clock()
        assert caught.value.code == code
        device.close()


def test_certificates_in_nv_are_split_and_padding_dropped() -> None:
    one, two = b"\x30\x82\x00\x04abcd", b"\x30\x82\x00\x02xy"
    assert split_der(one + two + bytes(20), two) == (one, two, two)
    assert split_der(b"", b"\xff" * 16) == ()
    with pytest.raises(TpmError) as caught:
        split_der(b"\x30\x82\x01\x00abcd")
    assert caught.value.code == "tpm-certificate"


def _unmarshal(data: bytes) -> object:
    from tpm2_pytss import TPMT_PUBLIC

    return TPMT_PUBLIC.unmarshal(data)[0]


class _talker:
    """A peer that answers the first command with given bytes and closes."""

    def __init__(self, path: Path, response: bytes) -> None:
        self._path, self._response = path, response
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(path))
        self._server.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def _serve(self) -> None:
        connection, _ = self._server.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(self._response)

    def __enter__(self) -> Path:
        self._thread.start()
        return self._path

    def __exit__(self, *_: object) -> None:
        self._server.close()
        self._thread.join(10)
