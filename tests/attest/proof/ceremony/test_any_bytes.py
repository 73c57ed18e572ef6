"""Any bytes as a ceremony's file: a value or a typed error, whatever the header promises."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attest.proof import Curve, ceremony
from attest.proof.ceremony import CeremonyError
from tests.attest.proof.support import toy_circuit

U32 = st.integers(0, 2**32 - 1).map(lambda value: value.to_bytes(4, "big"))
PHASE1 = st.tuples(st.just(b"SITSPT01"), st.binary(min_size=3, max_size=3), U32, st.binary(max_size=4000))
TRANSCRIPT = st.tuples(
    st.just(b"SITSCT01"), st.sampled_from([b"\1", b"\2", b"\3"]), st.binary(min_size=64, max_size=64), U32, U32, U32,
    st.binary(max_size=4000),
)  # fmt: skip
PRIMES = {curve: curve.parameters.p for curve in Curve}


@st.composite
def ptau(draw: st.DrawFn) -> bytes:
    """The container is right, its sections are not."""
    prime = PRIMES[draw(st.sampled_from(list(Curve)))]
    size = (prime.bit_length() + 63) // 64 * 8
    head = struct.pack("<I", size) + prime.to_bytes(size, "little")
    head += struct.pack("<II", draw(st.integers(0, 30)), draw(st.integers(0, 2**32 - 1)))
    bodies = [(1, head)] + [(kind, draw(st.binary(max_size=600))) for kind in range(2, 8)]
    lengths = [draw(st.sampled_from([len(body), len(body), len(body), 2**40, 2**64 - 1])) for _, body in bodies]
    sections = [struct.pack("<IQ", kind, n) + body for (kind, body), n in zip(bodies, lengths, strict=True)]
    return struct.pack("<4sII", b"ptau", 1, len(sections)) + b"".join(sections)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bytes") / "file"


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.one_of(PHASE1.map(b"".join), TRANSCRIPT.map(b"".join), ptau(), st.binary(max_size=200)))
def test_hostile_headers(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    out = path.with_name("out")
    for read in (
        lambda: ceremony.verify_phase1(path),
        lambda: ceremony.contributions(path),
        lambda: ceremony.import_ptau(path, out),
        lambda: ceremony.verify(toy_circuit().encode(), path, path),
        lambda: ceremony.contribute(path, out, name="x"),
    ):
        with pytest.raises(CeremonyError):
            read()
    assert not out.exists()
