"""The anchors folder: growth, conflicts, and files that are not what their names say."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from attest.command import SessionKey
from attest.ledger import LedgerError
from attest.ledger.anchors import load_anchors, write_anchors
from tests.attest.command.cases import RULES

GATE, POLICY = SessionKey.generate().public, SessionKey.generate().public
BASE: dict[str, Any] = {
    "profile": "production",
    "gate_id": "gate-1",
    "device_id": "device-1",
    "gate_origin": "sits/gate",
    "device_origin": "sits/device",
    "gate_public": GATE,
    "policy_public": POLICY,
    "module_digest": b"m" * 32,
    "deployment_digest": b"d" * 32,
    "rules": RULES,
    "verification_key": b"a key",
    "development_key": False,
    "device_record": b"a record",
    "boot_policy": b"a policy",
}


def test_deployments_add_up(tmp_path: Path) -> None:
    write_anchors(tmp_path, **BASE)
    write_anchors(tmp_path, **BASE)
    other = replace(RULES, future_ms_max=1)
    write_anchors(
        tmp_path,
        **BASE | {"module_digest": b"n" * 32, "deployment_digest": b"e" * 32, "rules": other},
    )
    write_anchors(tmp_path, **BASE | {"module_digest": b"o" * 32, "verification_key": None, "boot_policy": b"second"})
    anchors = load_anchors(tmp_path)
    assert set(anchors.modules) == {b"m" * 32, b"n" * 32, b"o" * 32}
    assert anchors.modules[b"m" * 32].verification_key == b"a key"
    assert anchors.modules[b"o" * 32].vk_sha256 == b""
    assert anchors.deployments == {b"d" * 32, b"e" * 32}
    assert set(anchors.rules) == {RULES.digest(), other.digest()}
    assert set(anchors.boot_policies.values()) == {b"a policy", b"second"}
    assert set(anchors.device_records.values()) == {b"a record"}
    assert (anchors.gate_public, anchors.policy_public) == (GATE, POLICY)
    assert (anchors.profile, anchors.gate_origin) == ("production", "sits/gate")


@pytest.mark.parametrize("change", ["gate_id", "device_id", "gate_origin", "profile", "gate_public"])
def test_anchors_of_something_else_are_not_mixed(tmp_path: Path, change: str) -> None:
    write_anchors(tmp_path, **BASE)
    other = POLICY if change == "gate_public" else "development" if change == "profile" else "other"
    with pytest.raises(LedgerError, match="anchors"):
        write_anchors(tmp_path, **BASE | {change: other})


def edit(key: str, value: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        text = json.loads((folder / "anchors.json").read_text())
        text[key] = value
        (folder / "anchors.json").write_text(json.dumps(text))

    return change


def write(name: str, data: bytes) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        for path in folder.glob(name):
            path.write_bytes(data)

    return change


WRONG: dict[str, Callable[[Path], None]] = {
    "json-missing": lambda folder: (folder / "anchors.json").unlink(),
    "json-broken": write("anchors.json", b"{"),
    "json-list": write("anchors.json", b"[]"),
    "json-too-deep": write("anchors.json", b"[" * 100_000),
    "json-unknown-key": edit("extra", 1),
    "json-other-version": edit("version", 2),
    "json-other-profile": edit("profile", "test"),
    "json-origins": edit("origins", {"device": "x"}),
    "json-name-number": edit("gate_id", 5),
    "json-deployments": edit("deployments", ["xyz"]),
    "json-modules": edit("modules", {"ff" * 32: {"vk_sha256": "", "development": 1}}),
    "json-module-name": edit("modules", {"short": {"vk_sha256": "", "development": True}}),
    "key-altered": write("modules/*/verification_key.bin", b"another key"),
    "key-oversized": write("modules/*/verification_key.bin", bytes(5_000_000)),
    "rules-altered": write("rules/*.cbor", b"\xa0"),
    "record-altered": write("device-records/*.cbor", b"other"),
    "gate-key-no-pem": write("gate.pub", b"no pem"),
    "gate-key-missing": lambda folder: (folder / "gate.pub").unlink(),
    "seal-authority-no-hex": write("seal-authority.pub", b"xy" * 64),
    "seal-authority-short": write("seal-authority.pub", b"00" * 63),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_anchors(tmp_path: Path, name: str) -> None:
    write_anchors(tmp_path, **BASE, seal_authority=bytes(64))
    WRONG[name](tmp_path)
    with pytest.raises(LedgerError, match="anchors"):
        load_anchors(tmp_path)


def test_rules_that_are_named_right_and_say_nothing(tmp_path: Path) -> None:
    write_anchors(tmp_path, **BASE)
    data = b"\xa0"
    (tmp_path / "rules" / f"{hashlib.sha256(data).hexdigest()}.cbor").write_bytes(data)
    (tmp_path / "rules" / "half.cbor.part").write_bytes(b"x")
    with pytest.raises(LedgerError, match="anchors"):
        load_anchors(tmp_path)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "rules").write_bytes(b"a file where a folder should be")
    with pytest.raises(LedgerError, match="anchors"):
        write_anchors(tmp_path, **BASE)


def test_the_authority_of_sealed_keys_is_kept_where_a_deployment_has_one(tmp_path: Path) -> None:
    write_anchors(tmp_path, **BASE)
    assert load_anchors(tmp_path).seal_authority is None
    write_anchors(tmp_path, **BASE, seal_authority=bytes(range(64)))
    assert load_anchors(tmp_path).seal_authority == bytes(range(64))
