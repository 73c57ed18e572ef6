"""Key files for reading protected UADP captures: a JSON array of ``{"policy", "token", "key"}``.

``policy``: ``aes128-ctr`` or ``aes256-ctr``; ``token``: SecurityTokenId; ``key``: signing key, AES key and key nonce as
GetSecurityKeys returns them, in hexadecimal.
"""

from __future__ import annotations

import json

from fieldbus.capture.errors import CaptureError
from fieldbus.uadp import KeyFile, KeyRing, SecurityPolicy, parse_key_file
from fieldbus.uadp.keyfile import MAGIC

KEY_FILE_BYTES_MAX = 65_536
_POLICIES = {"aes128-ctr": SecurityPolicy.AES128_CTR, "aes256-ctr": SecurityPolicy.AES256_CTR}


def parse_keys(data: bytes) -> tuple[KeyRing, ...]:
    """A ring for every key in the file: where all are read offline none gives way to a newer one. A key file of a
    security group (``fieldbus.uadp.keyfile``) serves as well as the array.

    Raises CaptureError ``capture-keys`` (shows no key), SecurityError.
    """
    if data.startswith(MAGIC.encode()) and len(data) <= KEY_FILE_BYTES_MAX:
        return _of_group(parse_key_file(bytearray(data)))
    try:
        entries = json.loads(data) if len(data) <= KEY_FILE_BYTES_MAX else None
    except (ValueError, RecursionError):
        entries = None
    if not isinstance(entries, list):
        raise _wrong("another file", "a key file or a JSON array")
    rings: list[KeyRing] = []
    for entry in entries:
        if not isinstance(entry, dict) or set(entry) != {"policy", "token", "key"}:
            raise _wrong("another entry", "objects of policy, token and key")
        policy, token, key = entry["policy"], entry["token"], entry["key"]
        if policy not in _POLICIES or not isinstance(token, int) or not isinstance(key, str):
            raise _wrong("another policy or type", f"{' or '.join(_POLICIES)}, a number, hexadecimal text")
        try:
            raw = bytes.fromhex(key)
        except ValueError:
            raise _wrong("a key that is no hexadecimal text", "digits in pairs") from None
        rings.append(KeyRing(_POLICIES[policy]))
        rings[-1].install(token, [raw])
    return tuple(rings)


def _of_group(contents: KeyFile) -> tuple[KeyRing, ...]:
    rings: list[KeyRing] = []
    for token_id, key in enumerate(contents.keys, contents.first_token_id):
        rings.append(KeyRing(contents.policy))
        rings[-1].install(token_id, [key])
    contents.erase()
    return tuple(rings)


def _wrong(found: str, expected: str) -> CaptureError:
    return CaptureError("capture-keys", found=found, expected=expected)
