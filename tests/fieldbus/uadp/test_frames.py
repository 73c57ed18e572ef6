"""Frames of open62541 1.5.7 from a wire, against the decoding by an independent strict decoder."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fieldbus.uadp import (
    DataSetMessage,
    DataValue,
    Field,
    NetworkMessage,
    Opened,
    SecureReader,
    SecureWriter,
    SecurityMode,
    SecurityPolicy,
    UadpError,
    Variant,
    decode,
    encode,
)
from tests.fieldbus.fuzz_uadp import attempt
from tests.fieldbus.uadp.keys import TOKEN_ID, ring

SECURED = {
    "sign128": (SecurityPolicy.AES128_CTR, SecurityMode.SIGN),
    "sign256": (SecurityPolicy.AES256_CTR, SecurityMode.SIGN),
    "enc256": (SecurityPolicy.AES256_CTR, SecurityMode.SIGN_AND_ENCRYPT),
    "eth_vlan_enc": (SecurityPolicy.AES128_CTR, SecurityMode.SIGN_AND_ENCRYPT),
}
UNCHANGED_DELTA = "dup delta index"
NOT_SHORTEST = {"no_pub_no_hdr"}  # sends ExtendedFlags1 with the type of a PublisherId it does not send


@pytest.fixture(scope="module")
def frames(fixtures_dir: Path) -> list[dict[str, Any]]:
    lines = (fixtures_dir / "uadp" / "frames.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def as_recorded(message: NetworkMessage) -> dict[str, Any]:
    """Our message in the recording's terms."""
    group = message.group
    return {
        "pid": message.publisher.value if message.publisher else None,
        "wg": group.writer_group_id if group else None,
        "gv": group.group_version if group else None,
        "nm": group.network_message_number if group else None,
        "sq": group.sequence if group else None,
        "ids": list(message.writer_ids) if message.writer_ids else None,
        "ts": message.timestamp,
        "sec": None,
        "ds": [message_as_recorded(item) for item in message.messages],
    }


def message_as_recorded(item: DataSetMessage) -> dict[str, Any]:
    entry: dict[str, Any] = {"valid": item.valid, "enc": int(item.encoding), "type": int(item.kind)}
    optional = {
        "seq": item.sequence,
        "ts": item.timestamp,
        "status": item.status,
        "maj": item.config_major,
        "min": item.config_minor,
        "raw": item.raw.hex() if item.raw is not None else None,
    }
    if item.config_major is not None or item.config_minor is not None:
        optional["status"] = item.status or 0
    entry |= {key: value for key, value in optional.items() if value is not None}
    if item.indices is not None:
        pairs = zip(item.indices, item.fields, strict=True)
        entry["delta"] = {str(index): field_as_recorded(field) for index, field in pairs}
    elif item.raw is None:
        entry["fields"] = [field_as_recorded(field) for field in item.fields]
    return entry


def field_as_recorded(field: Field) -> list[Any]:
    if isinstance(field, DataValue):
        assert isinstance(field.value, Variant)
        return [field_as_recorded(field.value), field.status or 0, field.source_ticks, field.server_ticks]
    value = list(field.value) if isinstance(field.value, tuple) else field.value
    return [int(field.type), value]


def same(found: Any, recorded: Any) -> bool:
    if isinstance(found, dict) and isinstance(recorded, dict):
        return found.keys() == recorded.keys() and all(same(found[key], recorded[key]) for key in found)
    if isinstance(found, list) and isinstance(recorded, list):
        return len(found) == len(recorded) and all(map(same, found, recorded))
    if isinstance(found, float) and isinstance(recorded, float) and math.isnan(recorded):
        return math.isnan(found)
    return bool(found == recorded)


def opened(frame: dict[str, Any]) -> Opened:
    """The plain message in a protected frame, by the keys it was recorded with (open62541 does not count nonces)."""
    policy, mode = SECURED[frame["label"]]
    return SecureReader(ring(policy), mode, counted_nonces=False).open(bytes.fromhex(frame["uadp"]))


def test_every_frame_decodes_as_recorded_or_is_refused_by_name(frames: list[dict[str, Any]]) -> None:
    outcome: Counter[str] = Counter()
    for frame in frames:
        data = bytes.fromhex(frame["uadp"])
        recorded = frame["decoded"]
        if frame["label"] in SECURED:
            refused = attempt(data)
            assert isinstance(refused, UadpError)
            assert refused.code == "secured"
            found = opened(frame)
            bits = found.security.signed | found.security.encrypted << 1
            assert recorded["sec"] == [bits, found.security.token_id, found.security.nonce.hex()]
            data, recorded = found.data, recorded | {"sec": None}
            outcome["opened"] += 1
        message = attempt(data)
        if isinstance(message, UadpError):
            outcome[message.code] += 1
            assert (message.code, frame["error"]) == ("delta-duplicate-index", UNCHANGED_DELTA)
            continue
        outcome["decoded"] += 1
        assert frame["error"] is None
        assert same(as_recorded(message), recorded), frame["label"]
        again = encode(message)
        if frame["label"] in NOT_SHORTEST:
            assert decode(again) == message
            assert len(again) < len(data)
        else:
            assert again == data, frame["label"]
    assert outcome == {"decoded": 130, "opened": 21, "delta-duplicate-index": 22}


def pinned(part: bytes) -> Callable[[int], bytes]:
    return lambda _: part


def test_protected_frames_are_sealed_to_the_same_bytes(frames: list[dict[str, Any]]) -> None:
    """With the recorded nonce; open62541's number in it is always 1, as in a first message of ours."""
    for frame in frames:
        if frame["label"] in SECURED:
            policy, mode = SECURED[frame["label"]]
            found = opened(frame)
            writer = SecureWriter(ring(policy), mode, TOKEN_ID, random=pinned(found.security.nonce[:4]))
            assert writer.seal(found.data).hex() == frame["uadp"]
