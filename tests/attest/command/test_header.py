"""The header on its own, as a sealed export shows it: exactly the bytes that ctx is the hash of."""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest import cbor
from attest.command import CommandError, parse_header
from tests.attest.command.cases import HONEST

HEADER = HONEST.header


def test_header_round_trips_and_hashes_to_ctx() -> None:
    data = HEADER.encode()
    assert parse_header(data) == HEADER
    assert hashlib.sha256(data).digest()[:31] == HEADER.ctx()


def test_header_holds_neither_inputs_nor_outputs() -> None:
    assert list(cbor.loads(HEADER.encode())) == [1, 2, 3, 4, 5, 6, 7, 8, 9, 12]  # type: ignore[arg-type]


@given(st.binary(max_size=400))
def test_any_bytes_give_a_header_or_one_typed_error(data: bytes) -> None:
    header = None
    with contextlib.suppress(CommandError):
        header = parse_header(data)
    assert header is None or header.encode() == data


@pytest.mark.parametrize(
    "payload",
    [
        {},
        dict(enumerate(range(10), 1)),
        (1, 2),
        cbor.loads(HEADER.encode()) | {12: 99},  # type: ignore[operator]
        cbor.loads(HEADER.encode()) | {13: 1},  # type: ignore[operator]
        cbor.loads(replace(HEADER, epoch=0).encode()),
        cbor.loads(replace(HEADER, device_id="a b").encode()),
    ],
)
def test_malformed_header(payload: object) -> None:
    with pytest.raises(CommandError) as caught:
        parse_header(cbor.dumps(payload))
    assert caught.value.code == "malformed"
