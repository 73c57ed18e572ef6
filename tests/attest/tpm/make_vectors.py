"""Write the vectors of sealing's files: ``python -m tests.attest.tpm.make_vectors``. The same bytes each time."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec

from attest import cbor
from attest.tpm.approval import MAX_APPROVALS, Approval, SealTarget, authority_point, encode_approvals
from attest.tpm.secret import SealedSecret

VECTORS = Path(__file__).with_name("vectors")
AUTHORITY = ec.derive_private_key(7, ec.SECP256R1())
DEVICE = b"\x00\x0b" + hashlib.sha256(b"device").digest()
COUNTER = b"\x00\x0b" + hashlib.sha256(b"counter").digest()
PCRS = {pcr: hashlib.sha256(bytes([pcr])).digest() for pcr in (0, 4, 7)}
# ECDSA by AUTHORITY, made once: it holds for the two golden approvals' signed digests.
SIGNATURES = {
    "sign": bytes.fromhex(
        "62d6483df017a05a0b29374332a44fdfd77aa179a084bb0a669da5dbf52b8fa0"
        "8cf7bec9c614aad01c69c59ba74055057aa6764dfafa00544fc350784c621cad"
    ),
    "unseal": bytes.fromhex(
        "ff17cc901cd8707a3234123a1801c3e17d34471b7f9ea2b5763127294d39daf9"
        "8b304ddb4c3d568faeba869d0e109aac2465d18952d060a4fc6497dd62cfa70a"
    ),
}

TARGET = SealTarget(device=DEVICE, counter=COUNTER, generation=3)
SIGN, UNSEAL = (
    Approval(
        label="reference boot",
        use=use,
        device=DEVICE,
        counter=COUNTER,
        generation=4,
        pcrs=PCRS,
        authority=authority_point(AUTHORITY.public_key()),
        signature=SIGNATURES[use],
    )
    for use in ("sign", "unseal")
)
SECRET = SealedSecret(authority=SIGN.authority, unique=hashlib.sha256(b"unique").digest(), private=bytes(range(200)))
GOLDEN = {
    "target": ("target", TARGET.encode()),
    "approvals": ("approvals", encode_approvals([SIGN, UNSEAL])),
    "secret": ("secret", SECRET.encode()),
}
Change = Callable[[dict[Any, Any]], object]


def _first(change: Change) -> Change:
    return lambda file: change(file[1][0])


def _set(key: int, value: object) -> Change:
    return lambda map_: map_.update({key: value})


CHANGES: dict[str, tuple[str, Change]] = {
    "target-of-another-name": ("target", _set(0, "sits-seal-target-2")),
    "target-without-name": ("target", lambda file: file.pop(0)),
    "target-name-is-a-number": ("target", _set(0, 1)),
    "target-device-short": ("target", _set(1, DEVICE[:-1])),
    "target-counter-long": ("target", _set(2, COUNTER + b"\0")),
    "target-generation-negative": ("target", _set(3, -1)),
    "target-unknown-key": ("target", _set(4, 0)),
    "approvals-of-another-name": ("approvals", _set(0, "sits-seal-target-1")),
    "approvals-none": ("approvals", _set(1, [])),
    "approvals-too-many": ("approvals", lambda file: file.update({1: file[1][:1] * (MAX_APPROVALS + 1)})),
    "approvals-not-a-list": ("approvals", lambda file: file.update({1: file[1][0]})),
    "approvals-item-not-a-map": ("approvals", _set(1, [1])),
    "approvals-unknown-key": ("approvals", _set(2, 0)),
    "approval-label-empty": ("approvals", _first(_set(1, ""))),
    "approval-label-long": ("approvals", _first(_set(1, "x" * 513))),
    "approval-use-unknown": ("approvals", _first(_set(2, "decrypt"))),
    "approval-device-short": ("approvals", _first(_set(3, DEVICE[:-1]))),
    "approval-counter-missing": ("approvals", _first(lambda item: item.pop(4))),
    "approval-generation-not-a-number": ("approvals", _first(_set(5, "4"))),
    "approval-pcrs-none": ("approvals", _first(_set(6, {}))),
    "approval-pcrs-a-list": ("approvals", _first(_set(6, [PCRS[0]]))),
    "approval-pcr-24": ("approvals", _first(_set(6, {24: PCRS[0]}))),
    "approval-pcr-value-short": ("approvals", _first(_set(6, {0: PCRS[0][:-1]}))),
    "approval-authority-with-a-prefix": ("approvals", _first(_set(7, b"\x04" + SIGN.authority))),
    "approval-signature-short": ("approvals", _first(_set(8, SIGN.signature[:-1]))),
    "approval-unknown-key": ("approvals", _first(_set(9, 0))),
    "secret-of-another-name": ("secret", _set(0, "sits-sealed-secret-2")),
    "secret-authority-short": ("secret", _set(1, SIGN.authority[:-1])),
    "secret-unique-short": ("secret", _set(2, bytes(31))),
    "secret-private-empty": ("secret", _set(3, b"")),
    "secret-private-long": ("secret", _set(3, bytes(513))),
    "secret-unknown-key": ("secret", _set(4, 0)),
}


def thaw(value: Any) -> Any:
    """Decoded CBOR that can be changed."""
    if isinstance(value, dict):
        return {key: thaw(item) for key, item in value.items()}
    return [thaw(item) for item in value] if isinstance(value, tuple) else value


def everything() -> dict[str, dict[str, str]]:
    """All vectors by name: kind of file, result and bytes in hex."""
    vectors = {name: _vector(kind, "valid", data) for name, (kind, data) in GOLDEN.items()}
    for name, (kind, change) in CHANGES.items():
        file = thaw(cbor.loads(GOLDEN[kind][1]))
        change(file)
        vectors[name] = _vector(kind, "invalid", cbor.dumps(file))
    for kind, (_, data) in GOLDEN.items():
        vectors[f"{kind}-truncated"] = _vector(kind, "invalid", data[:-1])
        vectors[f"{kind}-trailing-byte"] = _vector(kind, "invalid", data + b"\0")
    target = GOLDEN["target"][1]
    vectors["target-long-form-of-a-number"] = _vector("target", "invalid", target[:-1] + b"\x18" + target[-1:])
    return vectors


def _vector(kind: str, result: str, data: bytes) -> dict[str, str]:
    return {"schema": "sits-sealing-1", "kind": kind, "result": result, "data": data.hex()}


def main() -> None:
    VECTORS.mkdir(exist_ok=True)
    for old in VECTORS.glob("*.json"):
        old.unlink()
    for name, vector in everything().items():
        (VECTORS / f"{name}.json").write_text(json.dumps(vector, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
