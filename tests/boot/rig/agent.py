"""The agent that runs in the booted image: our own package, driven by the verifier through a virtio-serial port.

Messages are CBOR maps, each after its length in four bytes (big-endian). The agent speaks first:
``hello`` {request}, then answers ``enrol`` {blob, secret} with ``answer`` {value}, and ``evidence``
{nonce, module, deployment, record, pcrs, ima} with ``evidence`` {evidence}; ``stop`` ends it. Any fault goes out as
``fault`` {text}, because nobody reads the console.
"""

from __future__ import annotations

import os
import struct
import time
import traceback
from collections.abc import Mapping
from pathlib import Path

from attest import cbor
from attest.boot import measure
from attest.cbor import CborKey, CborValue
from attest.command import SessionKey
from attest.evidence import build, enrol
from attest.evidence.builder import ima_list
from attest.evidence.credential import Credential
from attest.tpm import TpmDevice

PORT = "sits.boot"
LOG = Path("/run/sits-boot.log")
DEADLINE_S = 60.0  # the processor is emulated
PORT_S = 20.0
MAX_MESSAGE = 4 << 20


class Channel:
    """Messages over the virtio-serial port named ``PORT``."""

    def __init__(self) -> None:
        self._fd = os.open(_port(), os.O_RDWR)

    def send(self, kind: str, **fields: object) -> None:
        """One message."""
        data = cbor.dumps({"t": kind, **fields})
        view = memoryview(struct.pack(">I", len(data)) + data)
        while view:
            view = view[os.write(self._fd, view) :]

    def receive(self) -> Mapping[CborKey, CborValue]:
        """The next message."""
        (size,) = struct.unpack(">I", self._exactly(4))
        if size > MAX_MESSAGE:
            raise ValueError(f"a message of {size} bytes")
        message = cbor.loads(self._exactly(size), max_bytes=MAX_MESSAGE)
        assert isinstance(message, dict)
        return message

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            chunk = os.read(self._fd, size - len(data))
            if not chunk:
                time.sleep(0.02)  # the host has not connected yet: the port reads as ended until it does
            data += chunk
        return data


def _port() -> str:
    until = time.monotonic() + PORT_S
    while time.monotonic() < until:
        for name in Path("/sys/class/virtio-ports").glob("*/name"):
            if name.read_text().strip() == PORT:
                return f"/dev/{name.parent.name}"
        time.sleep(0.05)
    raise FileNotFoundError(f"no virtio-serial port {PORT}")


def serve(channel: Channel, tpm: TpmDevice) -> None:
    """Measure our packages, then do what the verifier asks until it says stop."""
    firmware = measure.read_firmware_log()
    log = measure.measure_software(tpm, log_path=LOG, firmware_log=firmware)
    wish = enrol.request(tpm)
    channel.send(
        "hello",
        uptime_ms=time.monotonic_ns() // 1_000_000,
        firmware_log=firmware is not None,
        ek_public=wish.ek_public,
        ek_certificates=list(wish.ek_certificates),
        ak_public=wish.ak_public,
    )
    while True:
        message = channel.receive()
        if message["t"] == "stop":
            return
        if message["t"] == "enrol":
            credential = Credential(blob=_octets(message, "blob"), secret=_octets(message, "secret"))
            channel.send("answer", value=enrol.answer(tpm, credential))
        elif message["t"] == "evidence":
            channel.send("evidence", evidence=_evidence(tpm, message, log))


def _evidence(tpm: TpmDevice, message: Mapping[CborKey, CborValue], log: bytes) -> bytes:
    pcrs = message["pcrs"]
    assert isinstance(pcrs, tuple)
    chosen = [pcr for pcr in pcrs if isinstance(pcr, int)]
    key = SessionKey.generate()
    try:
        return build(
            tpm,
            signer=key,
            nonce=_octets(message, "nonce"),
            module_digest=_octets(message, "module"),
            deployment_digest=_octets(message, "deployment"),
            event_log=log,
            record=_octets(message, "record"),
            pcrs=chosen,
            read_ima=ima_list if message["ima"] else None,
        )
    finally:
        key.erase()


def _octets(message: Mapping[CborKey, CborValue], key: str) -> bytes:
    value = message[key]
    assert isinstance(value, bytes)
    return value


def main() -> None:
    """Open the port, open the TPM, serve; whatever goes wrong is reported through the port."""
    channel = Channel()
    try:
        with TpmDevice("device:/dev/tpmrm0", deadline_s=DEADLINE_S) as tpm:
            serve(channel, tpm)
    except Exception:
        channel.send("fault", text=traceback.format_exc()[-2000:])
        channel.receive()
        raise


if __name__ == "__main__":
    main()
