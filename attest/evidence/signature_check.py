"""One COSE signature as one check of a list."""

from __future__ import annotations

from attest import cose
from attest.evidence.verdict import Checklist


def check_signature(checks: Checklist, name: str, message: cose.Sign1, public: bytes) -> None:
    """Judge ``name``: the signature of ``message`` by the key ``public``."""
    expected = f"one by key {cose.key_id(public).hex()}"
    try:
        cose.verify(message, public=public)
    except cose.CoseError as error:
        checks.judge(name, False, found=error.found, expected=expected)
    else:
        checks.judge(name, True, found="a signature that verifies", expected=expected)
