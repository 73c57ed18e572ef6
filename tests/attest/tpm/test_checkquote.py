"""tpm2_checkquote and our own reading of a quote agree on live quotes, good and changed."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from attest import structures
from attest.tpm import TpmDevice
from tests.attest.tpm.rig import DEADLINE_S, fresh_swtpm

NONCE = bytes(range(32))
CHOICES = [(0,), (0, 13), (7, 8, 15, 16, 23), tuple(range(9)), tuple(range(24))]


@dataclass(frozen=True)
class Claim:
    """A quote and what it is said to show."""

    attest: bytes
    signature: bytes
    values: dict[int, bytes]
    nonce: bytes
    ak: ec.EllipticCurvePublicKey


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TpmDevice]:
    if shutil.which("tpm2_checkquote") is None:
        pytest.skip("SKIPPED: tpm2-tools are not installed; this test needs tpm2_checkquote")
    with (
        fresh_swtpm(tmp_path_factory.mktemp("checkquote") / "tpm") as simulator,
        TpmDevice(simulator.tcti, deadline_s=DEADLINE_S) as device,
    ):
        for pcr in range(24):
            if not 17 <= pcr <= 22:
                device.extend(pcr, bytes([pcr]) * 32)
        yield device


def claim(device: TpmDevice, pcrs: tuple[int, ...]) -> Claim:
    quote = device.quote(pcrs, NONCE)
    point = structures.parse_ecc_public(device.ak().public).point
    ak = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
    return Claim(quote.attest, quote.signature, device.read_pcrs(pcrs), NONCE, ak)


def ours(case: Claim) -> bool:
    info = structures.parse_quote(case.attest)
    r, s = structures.parse_ecdsa_signature(case.signature)
    try:
        case.ak.verify(encode_dss_signature(r, s), case.attest, ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        return False
    return info.extra_data == case.nonce and info.pcr_digest == structures.composite_digest(case.values)


def values_file(values: dict[int, bytes]) -> bytes:
    """The serialized form of tpm2_pcrread: TPML_PCR_SELECTION and TPML_DIGESTs as C lays them out."""
    bits = structures.pcr_selection(values)
    bank = struct.pack("<HB3sxx", structures.ALG_SHA256, len(bits), bits)
    data = struct.pack("<I", 1) + bank.ljust(16 * len(bank), b"\0")
    digests = [struct.pack("<H64s", len(value), value) for _, value in sorted(values.items())]
    lists = [digests[start : start + 8] for start in range(0, len(digests), 8)]
    data += struct.pack("<I", len(lists))
    return data + b"".join(struct.pack("<I528s", len(digests), b"".join(digests)) for digests in lists)


def theirs(case: Claim, folder: Path) -> bool:
    (folder / "attest").write_bytes(case.attest)
    (folder / "signature").write_bytes(case.signature)
    (folder / "values").write_bytes(values_file(case.values))
    (folder / "ak.pem").write_bytes(case.ak.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    command = ["tpm2_checkquote", "-u", "ak.pem", "-m", "attest", "-s", "signature", "-g", "sha256"]
    command += ["-q", case.nonce.hex(), "-f", "values"]
    return subprocess.run(command, cwd=folder, check=False, capture_output=True).returncode == 0


@pytest.mark.parametrize("pcrs", CHOICES, ids=len)
def test_both_accept_a_live_quote(device: TpmDevice, tmp_path: Path, pcrs: tuple[int, ...]) -> None:
    case = claim(device, pcrs)
    assert ours(case)
    assert theirs(case, tmp_path)


@pytest.mark.parametrize("what", ["attest", "signature", "values", "nonce", "ak"])
def test_both_refuse_a_changed_one(device: TpmDevice, tmp_path: Path, what: str) -> None:
    case = claim(device, (0, 13))
    last = bytearray(case.attest)
    last[-1] ^= 1
    signature = bytearray(case.signature)
    signature[-1] ^= 1
    changed = {
        "attest": replace(case, attest=bytes(last)),
        "signature": replace(case, signature=bytes(signature)),
        "values": replace(case, values=case.values | {13: bytes(32)}),
        "nonce": replace(case, nonce=bytes(32)),
        "ak": replace(case, ak=ec.derive_private_key(9, ec.SECP256R1()).public_key()),
    }[what]
    assert not ours(changed)
    assert not theirs(changed, tmp_path)
