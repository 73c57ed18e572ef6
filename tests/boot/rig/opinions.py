"""Second opinions on a boot's evidence: Debian's tpm2-tools read the same log and check the same quote."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from attest import structures
from attest.evidence.claims import Evidence, qualifying_data

_PCR_LINE = re.compile(r"^ +(\d+) *: 0x([0-9a-f]{64})$", re.MULTILINE)


def pcrs_by_tpm2_eventlog(log: bytes, folder: Path) -> dict[int, str]:
    """The SHA-256 values that ``tpm2_eventlog`` computes."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "log.bin").write_bytes(log)
    shown = subprocess.run(["tpm2_eventlog", "log.bin"], cwd=folder, capture_output=True, check=True, text=True).stdout
    return {int(pcr): value for pcr, value in _PCR_LINE.findall(shown.rpartition("\npcrs:")[2])}


def tpm2_checkquote(evidence: Evidence, *, nonce: bytes, folder: Path) -> bool:
    """Whether ``tpm2_checkquote`` accepts the quote: signature by the AK, magic, and the qualifying data."""
    folder.mkdir(parents=True, exist_ok=True)
    point = structures.parse_ecc_public(evidence.ak_public).point
    key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
    (folder / "ak.pem").write_bytes(key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    (folder / "quote.bin").write_bytes(evidence.quote_attest)
    (folder / "signature.bin").write_bytes(evidence.quote_signature)
    qualifying = qualifying_data(
        nonce=nonce,
        session_public=evidence.session_public,
        module_digest=evidence.module_digest,
        deployment_digest=evidence.deployment_digest,
    )
    command = ["tpm2_checkquote", "-u", "ak.pem", "-m", "quote.bin", "-s", "signature.bin", "-g", "sha256"]
    done = subprocess.run([*command, "-q", qualifying.hex()], cwd=folder, capture_output=True, check=False)
    return done.returncode == 0
