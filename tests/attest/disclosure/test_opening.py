"""Openings: only the command of the receipt, with its own inputs and salt, opens a commitment."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from attest import cbor
from attest.command import SessionKey, parse_command, sign_command
from attest.disclosure import DisclosureError, Opening, Openings, open_command
from attest.proof import Curve
from attest.proof.sealed import Salt
from tests.attest.disclosure.exports import Case, codes, export, report, trusting
from tests.attest.ledger.scenario import whole


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    folder = tmp_path_factory.mktemp("openings")
    return export(whole(folder / "ledgers", commands=4), folder)


def device(case: Case) -> Path:
    return case.ledgers / "device" / "ledger.db"


def opened(case: Case, name: str = "1-1") -> Opening:
    return open_command(case.openings, device(case), name)


def checked(case: Case, folder: Path, opening: Opening) -> set[str]:
    path = folder / "opening.cbor"
    path.write_bytes(opening.encode())
    return codes(case.out, openings=(path,))


def test_opening_shows_the_inputs_that_were_signed_and_committed(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "opening.cbor"
    path.write_bytes(opened(case).encode())
    found = report(case.out, openings=(path,), trust=trusting(case))
    assert (found.ok, found.openings_checked) == (True, 1)
    assert Opening.decode(path.read_bytes()).parsed().command.inputs == (1, 3)


def test_other_salt(case: Case, tmp_path: Path) -> None:
    assert checked(case, tmp_path, replace(opened(case), salt=opened(case, "2-1").salt)) == {"opening-wrong"}


def test_other_inputs_signed_by_another_key(case: Case, tmp_path: Path) -> None:
    command = replace(parse_command(opened(case).command, None).command, inputs=(3, 2))
    forged = sign_command(command, SessionKey.generate())
    assert checked(case, tmp_path, replace(opened(case), command=forged)) == {"opening-wrong"}


def test_other_inputs_signed_by_the_device_afterwards(case: Case, tmp_path: Path) -> None:
    """Even the right key cannot make another command of the receipt's digest."""
    command = replace(parse_command(opened(case, "2-1").command, None).command, inputs=(3, 2))
    forged = sign_command(command, case.scenario.session)
    assert checked(case, tmp_path, replace(opened(case, "2-1"), command=forged)) == {"opening-wrong"}


def test_unsalted(case: Case, tmp_path: Path) -> None:
    assert checked(case, tmp_path, replace(opened(case), salt=bytes(31))) == {"opening-wrong"}


def test_opening_of_a_command_outside_the_export(case: Case, tmp_path: Path) -> None:
    command = parse_command(opened(case, "2-1").command, None).command
    beyond = replace(command, header=replace(command.header, sequence=99))
    forged = Opening(sign_command(beyond, case.scenario.session), opened(case).salt)
    assert checked(case, tmp_path, forged) == {"opening-unknown"}


def test_no_opening_at_all(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "opening.cbor"
    for data in (b"", b"\xa0", cbor.dumps({1: 1, 2: b"x", 3: bytes(30)}), cbor.dumps({1: 2, 2: b"x", 3: bytes(31)})):
        path.write_bytes(data)
        assert codes(case.out, openings=(path,)) == {"openings-format"}
    assert codes(case.out, openings=(tmp_path / "none",)) == {"export-io"}


def test_command_that_is_none(case: Case, tmp_path: Path) -> None:
    assert checked(case, tmp_path, replace(opened(case), command=b"x")) == {"opening-wrong"}


def refusal(work: Callable[[], object]) -> str:
    with pytest.raises(DisclosureError) as caught:
        work()
    return caught.value.code


def test_opening_unknown(case: Case) -> None:
    assert refusal(lambda: opened(case, "1-9")) == "opening-unknown"


@pytest.fixture
def salts(case: Case, tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    path = tmp_path / "salts.json"
    return path, json.loads(case.openings.read_text())


def test_file_whose_record_is_another_command(case: Case, salts: tuple[Path, dict[str, Any]]) -> None:
    path, body = salts
    body["commands"]["1-1"]["record"] = body["commands"]["1-2"]["record"]
    path.write_text(json.dumps(body))
    assert refusal(lambda: open_command(path, device(case), "1-1")) == "opening-wrong"


def test_file_whose_record_is_no_command(case: Case, salts: tuple[Path, dict[str, Any]]) -> None:
    path, body = salts
    body["commands"]["1-1"]["record"] = 0
    path.write_text(json.dumps(body))
    assert refusal(lambda: open_command(path, device(case), "1-1")) == "opening-wrong"


def test_file_with_another_commitment(case: Case, salts: tuple[Path, dict[str, Any]]) -> None:
    path, body = salts
    body["commands"]["1-1"]["commitment"] = body["commands"]["1-2"]["commitment"]
    path.write_text(json.dumps(body))
    assert refusal(lambda: open_command(path, device(case), "1-1")) == "opening-wrong"


def test_file_with_one_salt_twice(case: Case, salts: tuple[Path, dict[str, Any]]) -> None:
    path, body = salts
    body["commands"]["1-1"]["salt"] = body["commands"]["1-2"]["salt"]
    path.write_text(json.dumps(body))
    assert refusal(lambda: open_command(path, device(case), "1-1")) == "salt-reused"


def test_salt_reused_while_exporting(tmp_path: Path) -> None:
    kept = Openings.create(tmp_path / "s", Curve.BN254)
    salt = Salt.generate()
    kept.add("1-1", record=0, commitment=bytes(32), salt=salt)
    assert refusal(lambda: kept.add("1-2", record=1, commitment=bytes(32), salt=salt)) == "salt-reused"
    assert refusal(lambda: kept.add("1-1", record=1, commitment=bytes(32), salt=Salt.generate())) == "salt-reused"


@pytest.mark.parametrize(
    "change",
    [
        lambda body: body | {"format": "other"},
        lambda body: body | {"more": 1},
        lambda body: body | {"curve": "p256"},
        lambda body: body | {"commands": []},
        lambda body: body | {"commands": {"1-1": {}}},
        lambda body: body | {"commands": {"1-1": body["commands"]["1-1"] | {"salt": "00"}}},
        lambda body: body | {"commands": {"1-1": body["commands"]["1-1"] | {"salt": None}}},
        lambda body: body | {"commands": {"1-1": body["commands"]["1-1"] | {"record": -1}}},
        lambda body: [],
    ],
)
def test_openings_format(case: Case, salts: tuple[Path, dict[str, Any]], change: Callable[[Any], Any]) -> None:
    path, body = salts
    path.write_text(json.dumps(change(body)))
    assert refusal(lambda: open_command(path, device(case), "1-1")) == "openings-format"


def test_name_of_a_command_in_the_file_is_checked(case: Case, salts: tuple[Path, dict[str, Any]]) -> None:
    path, body = salts
    body["commands"] = {"1-x": body["commands"]["1-1"]}
    path.write_text(json.dumps(body))
    assert refusal(lambda: open_command(path, device(case), "1-1")) == "export-format"
