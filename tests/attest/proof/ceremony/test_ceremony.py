"""Keys from a ceremony prove and verify; whatever is done to its files is found, and names the step."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

from attest.proof import Curve, Groth16Prover, NativeVerifier, PyEccVerifier, ceremony, failed_check, key_hash
from attest.proof.ceremony import Beacon, CeremonyError, Contributor
from attest.proof.ceremony_files import locked, place
from attest.proof.ceremony_folder import CeremonyFolder
from tests.attest.proof.ceremony.support import Made
from tests.attest.proof.support import CTX, model, toy_circuit

X = (3, -5)
STEP_BYTES = {Curve.BN254: 32 * 2 + 64 * 3 + 2 * 32, Curve.BLS12_381: 48 * 2 + 96 * 3 + 2 * 32}
"""Of a contribution, behind name and beacon byte: two points of G1, three of G2, two scalars."""
COUNT_AT = 8 + 1 + 32 + 32 + 12 + 32


def steps(data: bytes, curve: Curve) -> tuple[bytes, list[bytes], bytes]:
    """A transcript cut into what comes before the contributions, each of them, and the keys after them."""
    at, out = COUNT_AT + 2, []
    for _ in range(int.from_bytes(data[COUNT_AT:at], "big")):
        length = 1 + data[at] + 1 + STEP_BYTES[curve]
        out.append(data[at : at + length])
        at += length
    return data[:COUNT_AT], out, data[at:]


def joined(head: bytes, contributions: list[bytes], keys: bytes) -> bytes:
    return head + len(contributions).to_bytes(2, "big") + b"".join(contributions) + keys


def test_keys_of_a_ceremony_prove_and_verify(made: Made, curve: Curve) -> None:
    keys = made.folder.verify(made.circuit)
    assert keys.contributions == 2
    assert [(c.name, c.beacon) for c in keys.contributors] == [("vendor", False), ("operator", False)]
    assert tuple(c.hash for c in keys.contributors) == made.second
    assert tuple(c.hash for c in keys.phase1.contributors) == made.first
    assert (keys.phase1.curve, keys.phase1.powers_hashed) == (curve, True)
    proven = Groth16Prover(made.circuit, keys.proving_key).prove(X, CTX)
    assert proven.outputs == (model(X),)
    pinned = key_hash(keys.verification_key)
    for engine in (NativeVerifier, PyEccVerifier):
        verifier = engine(keys.verification_key, vk_sha256=pinned)
        assert failed_check(verifier, X, proven.outputs, CTX, proven.proof) is None
        assert failed_check(verifier, X, (model(X) + 1,), CTX, proven.proof) == "proof-pairing"


def test_another_contribution_makes_other_keys(made: Made, copy: CeremonyFolder) -> None:
    before = copy.verify()
    ceremony.contribute(copy.transcript, name="auditor", entropy=b"coins")
    after = copy.verify()
    assert after.contributions == 3
    assert after.contributors[:2] == before.contributors
    assert after.verification_key != before.verification_key
    proof = Groth16Prover(made.circuit, before.proving_key).prove(X, CTX)
    verifier = NativeVerifier(after.verification_key, vk_sha256=key_hash(after.verification_key))
    assert failed_check(verifier, X, proof.outputs, CTX, proof.proof) == "proof-pairing"


def test_secrets_are_fresh(made: Made, tmp_path: Path) -> None:
    """The same name and the same entropy twice: the system's randomness makes the difference."""
    hashes = {
        ceremony.contribute(made.folder.transcript, tmp_path / str(i), name="x", entropy=b"same") for i in range(3)
    }
    assert len(hashes) == 3


def test_a_beacon_is_nobody_s_contribution(copy: CeremonyFolder) -> None:
    digest = ceremony.contribute(copy.transcript, name="block 900000", beacon=Beacon(bytes(32), 10))
    keys = copy.verify()
    assert keys.contributions == 2
    assert keys.contributors[2] == Contributor("block 900000", True, digest)


@pytest.mark.parametrize(
    ("what", "code"),
    [
        ("reordered", "setup-proof"),
        ("first-missing", "setup-proof"),
        ("last-missing", "setup-ic"),
        ("all-missing", "setup-empty"),
        ("replayed", "setup-identity"),
        ("renamed", "setup-proof"),
        ("keys-changed", "setup-h"),
        ("other-circuit-named", "setup-circuit"),
        ("other-phase-1-named", "setup-phase1"),
        ("start-changed", "setup-origin"),
    ],
)
def test_a_tampered_transcript_is_refused(copy: CeremonyFolder, curve: Curve, what: str, code: str) -> None:
    data = copy.transcript.read_bytes()
    head, (one, two), keys = steps(data, curve)
    size = 32 if curve is Curve.BN254 else 48
    changed = {
        "reordered": joined(head, [two, one], keys),
        "first-missing": joined(head, [two], keys),
        "last-missing": joined(head, [one], keys),
        "all-missing": joined(head, [], keys),
        "replayed": joined(head, [one, two, two], keys),
        "renamed": joined(head, [one.replace(b"vendor", b"Vendor"), two], keys),
        "keys-changed": joined(head, [one, two], keys[: -2 * size] + keys[-size:] + keys[-2 * size : -size]),
        "other-circuit-named": data[:9] + bytes([data[9] ^ 1]) + data[10:],
        "other-phase-1-named": data[:41] + bytes([data[41] ^ 1]) + data[42:],
        "start-changed": data[: COUNT_AT - 1] + bytes([data[COUNT_AT - 1] ^ 1]) + data[COUNT_AT:],
    }[what]
    assert changed != data
    copy.transcript.write_bytes(changed)
    with pytest.raises(CeremonyError) as refused:
        copy.verify()
    assert refused.value.code == code
    assert refused.value.refusal


def test_a_contributor_s_point_at_infinity_is_refused(copy: CeremonyFolder, curve: Curve) -> None:
    head, (one, two), keys = steps(copy.transcript.read_bytes(), curve)
    size, flag = (32, 0x40) if curve is Curve.BN254 else (48, 0xC0)
    at = 1 + len("vendor") + 1
    copy.transcript.write_bytes(
        joined(head, [one[:at] + bytes([flag]) + bytes(size - 1) + one[at + size :], two], keys)
    )
    with pytest.raises(CeremonyError, match=r"delta.* infinity") as refused:
        copy.verify()
    assert refused.value.code == "transcript-format"


def test_nobody_can_replay_a_contribution_elsewhere(made: Made, copy: CeremonyFolder, curve: Curve) -> None:
    """Two ceremonies of one circuit from one phase 1 begin alike; a third contributor's record fits only the one."""
    other = CeremonyFolder.create(copy.path.with_name("other"), circuit=made.circuit, phase1=made.phase1)
    ceremony.contribute(other.transcript, name="vendor")
    head, (_, two), keys = steps(copy.transcript.read_bytes(), curve)
    _, (foreign,), _ = steps(other.transcript.read_bytes(), curve)
    copy.transcript.write_bytes(joined(head, [foreign, two], keys))
    with pytest.raises(CeremonyError) as refused:
        copy.verify()
    assert refused.value.code == "setup-proof"
    assert "contribution 2" in refused.value.found
    assert "operator" in refused.value.found


def test_a_transcript_shows_its_contributors_by_itself(made: Made, curve: Curve) -> None:
    found = ceremony.contributions(made.folder.transcript)
    assert (found.curve, [c.name for c in found.contributors]) == (curve, ["vendor", "operator"])
    assert found.phase1_sha256 == made.folder.verify().phase1.sha256


def test_a_ceremony_for_another_circuit(made: Made, curve: Curve) -> None:
    other = Curve.BLS12_381 if curve is Curve.BN254 else Curve.BN254
    with pytest.raises(CeremonyError) as refused:
        made.folder.verify(toy_circuit(other).encode())
    assert refused.value.code == "setup-circuit"
    with pytest.raises(CeremonyError, match=r"mismatch|curve"):
        ceremony.start(toy_circuit(other).encode(), made.phase1, made.phase1.with_name("nothing"))
    assert not made.phase1.with_name("nothing").exists()


def test_a_phase_1_that_went_on_is_another_one(copy: CeremonyFolder) -> None:
    """The transcript is bound to the file it was started from, not to whatever came of it."""
    ceremony.contribute(copy.phase1, name="late")
    with pytest.raises(CeremonyError) as refused:
        copy.verify()
    assert refused.value.code == "setup-phase1"


def test_a_failed_start_leaves_nothing(tmp_path: Path, curve: Curve) -> None:
    small = tmp_path / "small"
    ceremony.new_phase1(small, curve=curve, power=2)
    circuit = toy_circuit(curve).encode()
    with pytest.raises(CeremonyError) as refused:
        CeremonyFolder.create(tmp_path / "folder", circuit=circuit, phase1=small)
    assert refused.value.code == "phase1-empty"
    ceremony.contribute(small, name="ann")
    with pytest.raises(CeremonyError) as refused:
        CeremonyFolder.create(tmp_path / "folder", circuit=circuit, phase1=small)
    assert refused.value.code == "phase1-small"
    assert f"needs {ceremony.power_for(circuit)}" in refused.value.found
    assert [path.name for path in tmp_path.iterdir()] == ["small"]


def test_nothing_is_overwritten_and_nothing_left_half(made: Made, copy: CeremonyFolder, tmp_path: Path) -> None:
    before = copy.transcript.read_bytes()
    for again in (
        lambda: ceremony.contribute(copy.transcript, copy.phase1, name="x"),
        lambda: ceremony.new_phase1(copy.phase1, curve=Curve.BN254, power=4),
        lambda: ceremony.export_ptau(made.phase1, copy.circuit),
        lambda: CeremonyFolder.create(copy.path, circuit=made.circuit, phase1=made.phase1),
    ):
        with pytest.raises(CeremonyError) as refused:
            again()
        assert refused.value.code == "file-exists"
        assert not refused.value.refusal
    with pytest.raises(CeremonyError) as refused:
        ceremony.contribute(copy.transcript, name="line\nbreak")
    assert refused.value.code == "name"
    assert copy.transcript.read_bytes() == before
    assert not list(tmp_path.rglob("*.part"))


def test_two_contributions_at_once_lose_none(copy: CeremonyFolder) -> None:
    """As many processes as it takes at one transcript: every hash that was told is in the result."""
    script = (
        "import sys; from pathlib import Path; from attest.proof import ceremony\n"
        "try: print(ceremony.contribute(Path(sys.argv[1]), name=sys.argv[2]).hex())\n"
        "except ceremony.CeremonyError as error: print(error.code)\n"
    )
    made = [
        subprocess.Popen([sys.executable, "-c", script, str(copy.transcript), f"p{i}"], stdout=subprocess.PIPE)
        for i in range(4)
    ]
    said = [process.communicate()[0].decode().strip() for process in made]
    told = {line for line in said if line != "file-busy"}
    found = {c.hash.hex() for c in ceremony.contributions(copy.transcript).contributors}
    assert told
    assert told <= found
    assert len(found) == 2 + len([line for line in said if line != "file-busy"])


def test_a_contribution_waits_for_no_other(copy: CeremonyFolder, made: Made) -> None:
    before = copy.transcript.read_bytes()
    with locked(copy.transcript), pytest.raises(CeremonyError) as refused:
        ceremony.contribute(copy.transcript, name="x")
    assert (refused.value.code, str(copy.transcript) in refused.value.found) == ("file-busy", True)
    assert copy.transcript.read_bytes() == before
    with locked(copy.transcript):
        ceremony.contribute(copy.transcript, copy.path / "elsewhere", name="x")
    ceremony.contribute(copy.transcript, name="x")


def test_a_file_replaced_before_it_was_locked_is_opened_again(
    copy: CeremonyFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, others = fcntl.flock, []

    def flock(file: IO[bytes], operation: int) -> None:
        if not others:
            others.append(copy.path / "new")
            others[0].write_bytes(copy.transcript.read_bytes())
            others[0].replace(copy.transcript)
        real(file, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    with locked(copy.transcript):
        monkeypatch.undo()
        with pytest.raises(CeremonyError, match="file-busy"), locked(copy.transcript):
            pass


def test_two_at_once_to_one_new_file(copy: CeremonyFolder) -> None:
    """The second to finish finds the name taken."""
    out = copy.path / "out"

    def write(part: Path) -> None:
        part.write_bytes(b"mine")
        out.write_bytes(b"theirs")

    with pytest.raises(CeremonyError) as refused:
        place(out, write)
    assert (refused.value.code, out.read_bytes()) == ("file-exists", b"theirs")
    assert not list(copy.path.glob("*.part"))


def test_a_medium_without_hard_links(copy: CeremonyFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(source: Path, target: Path) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    digest = ceremony.contribute(copy.transcript, copy.path / "out", name="x")
    assert ceremony.contributions(copy.path / "out").contributors[-1].hash == digest


def test_limits(copy: CeremonyFolder, tmp_path: Path) -> None:
    for power in (0, 1, 21, 2**32 - 1):
        with pytest.raises(CeremonyError) as refused:
            ceremony.new_phase1(tmp_path / "p", curve=Curve.BN254, power=power)
        assert refused.value.code == "phase1-power"
    with pytest.raises(CeremonyError) as refused:
        ceremony.contribute(copy.transcript, name="x", entropy=bytes(ceremony.ENTROPY_BYTES_MAX + 1))
    assert refused.value.code == "entropy"
    for beacon in (Beacon(b"", 10), Beacon(bytes(256), 10), Beacon(b"x", 9), Beacon(b"x", 25)):
        with pytest.raises(CeremonyError) as refused:
            ceremony.contribute(copy.transcript, name="x", beacon=beacon)
        assert refused.value.code == "beacon"
    for name in ("", "x" * 65, "ü" * 33, "a\tb"):
        with pytest.raises(CeremonyError) as refused:
            ceremony.contribute(copy.transcript, name=name)
        assert refused.value.code == "name"


def test_other_files_are_no_ceremony(tmp_path: Path, made: Made) -> None:
    for name, data in (("empty", b""), ("text", b"hello, world"), ("circuit", made.circuit)):
        path = tmp_path / name
        path.write_bytes(data)
        with pytest.raises(CeremonyError) as refused:
            ceremony.contribute(path, name="x")
        assert refused.value.code == "file-kind"
    with pytest.raises(CeremonyError) as refused:
        ceremony.verify_phase1(made.folder.transcript)
    assert refused.value.code == "file-kind"
    with pytest.raises(CeremonyError) as refused:
        ceremony.verify_phase1(tmp_path / "missing")
    assert refused.value.code == "file-missing"


def test_every_code_is_documented() -> None:
    native = Path(__file__).resolve().parents[4] / "native" / "src" / "ceremony"
    used = {
        code
        for path in native.glob("*.rs")
        if path.name != "tests.rs"
        for code in re.findall(r'"((?:phase1|setup|ptau|transcript)-[a-z0-9]+)"', path.read_text(encoding="utf-8"))
    }
    assert used
    assert {code for code in used if f"``{code}``" not in (CeremonyError.__doc__ or "")} == set()
