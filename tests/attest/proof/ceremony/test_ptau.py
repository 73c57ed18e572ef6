"""``.ptau`` files: snarkjs accepts ours and we take over its, with their history; hostile ones are refused."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from attest.proof import Curve, ceremony
from attest.proof.ceremony import Beacon, CeremonyError
from tests.attest.proof.ceremony.support import Made
from tests.support.snarkjs import ENTROPY, find_snarkjs

NAMES = {Curve.BN254: "bn128", Curve.BLS12_381: "bls12381"}
Sections = list[tuple[int, bytes]]


def test_snarkjs_accepts_ours(made: Made, tmp_path: Path) -> None:
    peer = find_snarkjs()
    ended = tmp_path / "ended"
    ceremony.contribute(made.phase1, ended, name="draw of a lottery", beacon=Beacon(bytes(range(32)), 10))
    ceremony.export_ptau(ended, tmp_path / "ours.ptau")
    text = peer.run("powersoftau", "verify", "ours.ptau", cwd=tmp_path)
    assert "Powers of Tau Ok!" in text
    for name in ("ann", "bob", "draw of a lottery", "Beacon generator"):
        assert name in text


def test_we_take_over_snarkjs_s_and_both_go_on(made: Made, curve: Curve, tmp_path: Path) -> None:
    """Ours, theirs, and then either their beacon, which ends it, or ours again; and the prepared file of that."""
    peer = find_snarkjs()
    ceremony.export_ptau(made.phase1, tmp_path / "0.ptau")
    peer.run("powersoftau", "contribute", "0.ptau", "1.ptau", "--name=carl", f"-e={ENTROPY}", cwd=tmp_path)
    peer.run("powersoftau", "beacon", "1.ptau", "2.ptau", "0102030405060708", "10", "-n=draw", cwd=tmp_path)
    report, prepared = ceremony.import_ptau(tmp_path / "2.ptau", tmp_path / "theirs")
    assert (report.curve, report.powers_hashed, prepared) == (curve, True, False)
    names = [(c.name, c.beacon) for c in report.contributors]
    assert names == [("ann", False), ("bob", False), ("carl", False), ("draw", True)]
    assert tuple(c.hash for c in report.contributors[:2]) == made.first
    with pytest.raises(CeremonyError) as refused:
        ceremony.contribute(tmp_path / "theirs", name="late")
    assert refused.value.code == "phase1-ended"
    ceremony.import_ptau(tmp_path / "1.ptau", tmp_path / "open")
    ceremony.contribute(tmp_path / "open", tmp_path / "ours", name="dora")
    ceremony.export_ptau(tmp_path / "ours", tmp_path / "3.ptau")
    assert "Powers of Tau Ok!" in peer.run("powersoftau", "verify", "3.ptau", cwd=tmp_path)
    peer.run("powersoftau", "prepare", "phase2", "3.ptau", "4.ptau", cwd=tmp_path)
    report, prepared = ceremony.import_ptau(tmp_path / "4.ptau", tmp_path / "prepared")
    assert prepared
    assert (tmp_path / "prepared").read_bytes() == (tmp_path / "ours").read_bytes()
    peer.run("powersoftau", "truncate", "4.ptau", cwd=tmp_path)
    cut, _ = ceremony.import_ptau(tmp_path / "4_03.ptau", tmp_path / "cut")
    assert (cut.power, cut.ceremony_power, cut.powers_hashed) == (3, report.power, False)
    assert cut.contributors == report.contributors


def test_ptau_and_back_is_the_same_file(made: Made, tmp_path: Path) -> None:
    ceremony.export_ptau(made.phase1, tmp_path / "out.ptau")
    report, _ = ceremony.import_ptau(tmp_path / "out.ptau", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == made.phase1.read_bytes()
    assert report == ceremony.verify_phase1(made.phase1)


def test_a_file_cut_down(made: Made, tmp_path: Path) -> None:
    ceremony.export_ptau(made.phase1, tmp_path / "out.ptau")
    whole = ceremony.verify_phase1(made.phase1)
    report, _ = ceremony.import_ptau(tmp_path / "out.ptau", tmp_path / "small", power=2)
    assert (report.power, report.ceremony_power, report.powers_hashed) == (2, whole.power, False)
    assert report.contributors == whole.contributors
    with pytest.raises(CeremonyError) as refused:
        ceremony.contribute(tmp_path / "small", name="late")
    assert refused.value.code == "phase1-reduced"
    with pytest.raises(CeremonyError) as refused:
        ceremony.import_ptau(tmp_path / "out.ptau", tmp_path / "larger", power=whole.power + 1)
    assert refused.value.code == "phase1-power"


def parse(data: bytes) -> Sections:
    magic, version, count = struct.unpack_from("<4sII", data)
    assert (magic, version) == (b"ptau", 1)
    at, out = 12, []
    for _ in range(count):
        kind, size = struct.unpack_from("<IQ", data, at)
        out.append((kind, data[at + 12 : at + 12 + size]))
        at += 12 + size
    assert at == len(data)
    return out


def build(sections: Sections, *, magic: bytes = b"ptau", version: int = 1, count: int | None = None) -> bytes:
    head = struct.pack("<4sII", magic, version, len(sections) if count is None else count)
    return head + b"".join(struct.pack("<IQ", kind, len(body)) + body for kind, body in sections)


def body(kind: int, change: Callable[[bytes], bytes]) -> Callable[[Sections], bytes]:
    return lambda sections: build([(k, change(data) if k == kind else data) for k, data in sections])


def flip_state(data: bytes) -> bytes:
    """The last word of the newest contribution's hash state, which is always zero."""
    at = data.rindex(b"\x01\x03bob") - 8 - 64 - 1
    return data[:at] + b"\x01" + data[at + 1 :]


HOSTILE: dict[str, Callable[[Sections], bytes]] = {
    "magic": lambda s: build(s, magic=b"zkey"),
    "version": lambda s: build(s, version=2),
    "too-many-sections": lambda s: build(s, count=33),
    "fewer-sections-than-said": lambda s: build(s, count=8),
    "more-sections-than-said": lambda s: build(s, count=6),
    "section-missing": lambda s: build([item for item in s if item[0] != 6]),
    "section-twice": lambda s: build([*s, s[0]]),
    "section-unknown": lambda s: build([*s, (9, b"")]),
    "section-beyond-the-file": lambda s: build(s) + struct.pack("<IQ", 12, 1 << 62),
    "section-length-overflow": lambda s: build(s, count=8) + struct.pack("<IQ", 12, (1 << 64) - 1),
    "prime": body(1, lambda data: data[:4] + bytes([data[4] ^ 1]) + data[5:]),
    "prime-length": body(1, lambda data: struct.pack("<I", 1 << 31) + data[4:]),
    "header-long": body(1, lambda data: data + bytes(64)),
    "power-zero": body(1, lambda data: data[:-8] + struct.pack("<II", 0, 0)),
    "power-huge": body(1, lambda data: data[:-8] + struct.pack("<II", 1 << 31, 1 << 31)),
    "power-too-large-for-the-sections": body(1, lambda data: data[:-8] + struct.pack("<II", 20, 20)),
    "ceremony-power-smaller": body(1, lambda data: data[:-4] + struct.pack("<I", 1)),
    "points-missing": body(2, lambda data: data[:-64]),
    "points-too-many": body(4, lambda data: data + bytes(96)),
    "point-not-canonical": body(2, lambda data: b"\xff" * 32 + data[32:]),
    "point-off-curve": body(2, lambda data: bytes([data[0] ^ 1]) + data[1:]),
    "point-at-infinity": body(3, lambda data: bytes(192) + data[192:]),
    "contributions-huge": body(7, lambda data: struct.pack("<I", (1 << 32) - 1) + data[4:]),
    "contributions-fewer-than-said": body(7, lambda data: struct.pack("<I", 3) + data[4:]),
    "contributions-more-than-said": body(7, lambda data: struct.pack("<I", 1) + data[4:]),
    "contributions-empty": body(7, lambda _: b""),
    "parameters-unordered": body(7, lambda data: data.replace(b"\x01\x03bob", b"\x00\x03bob")),
    "parameters-unknown": body(7, lambda data: data.replace(b"\x01\x03bob", b"\x04\x03bob")),
    "parameters-too-long": body(7, lambda data: data.replace(b"\x01\x03bob", b"\x01\xffbob")),
    "parameters-half-a-beacon": body(7, lambda data: data.replace(b"\x01\x03bob", b"\x02\x0a\x03\x01b")),
    "name-not-utf-8": body(7, lambda data: data.replace(b"\x01\x03bob", b"\x01\x03\xffob")),
    "hash-state-impossible": body(7, flip_state),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_ptau_is_refused(made: Made, tmp_path: Path, what: str) -> None:
    ceremony.export_ptau(made.phase1, tmp_path / "good.ptau")
    data = (tmp_path / "good.ptau").read_bytes()
    sections = parse(data)
    assert build(sections) == data
    hostile = HOSTILE[what](sections)
    assert hostile != data
    (tmp_path / "bad.ptau").write_bytes(hostile)
    with pytest.raises(CeremonyError) as refused:
        ceremony.import_ptau(tmp_path / "bad.ptau", tmp_path / "out")
    expected = ("file-kind",) if what == "magic" else ("ptau-format", "phase1-format")
    assert refused.value.code in expected, refused.value
    assert not (tmp_path / "out").exists()
