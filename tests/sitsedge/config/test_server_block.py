"""The ``server`` part of a deployment: one vector a rule, with line and words; and what follows from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sitsedge.config import ConfigError, load_deployment
from sitsedge.config.server import POLICIES, ServerBlock
from tests.sitsedge.config.test_config import GATE, GOOD

BLOCK = """\
server:
  endpoint: opc.tcp://edge-7.plant.example:4840/sits
  bind: 10.0.0.7
  hosts: [edge-7, 10.1.0.7]
"""
LINE = GOOD.count("\n") + 1  # of 'server:'

# rule: (replaced text, new text, line after 'server:', words that the message must hold)
RULES = {
    "unknown-key": ("  hosts:", "  colour: red\n  hosts:", 3, "unknown key 'colour'"),
    "no-port": ("example:4840", "example", 1, "opc.tcp://HOST:PORT"),
    "port-range": (":4840", ":99999", 0, "port of 1 to 65535"),
    "another-scheme": ("opc.tcp", "https", 1, "opc.tcp://HOST:PORT"),
    "every-address-is-asked-for-by-bind": ("edge-7.plant.example", "0.0.0.0", 0, "'bind: 0.0.0.0'"),
    "a-host-name-needs-bind": ("  bind: 10.0.0.7\n", "", 0, "'bind'"),
    "bind-is-an-address": ("bind: 10.0.0.7", "bind: edge-7", 2, "IP address"),
    "bad-host": ("hosts: [edge-7,", "hosts: ['edge 7',", 3, "pattern"),
    "unknown-policy": ("  hosts:", "  policies: [Basic128Rsa15]\n  hosts:", 3, "'Basic256Sha256'"),
    "no-policy-at-all": ("  hosts:", "  policies: []\n  hosts:", 3, "at least 1"),
    "policy-twice": ("  hosts:", "  policies: [Basic256Sha256, Basic256Sha256]\n  hosts:", 3, "each policy once"),
    "none-is-no-policy": ("  hosts:", "  policies: [None]\n  hosts:", 3, "'Basic256Sha256'"),
    "looser-limit": ("  hosts:", "  limits: {sessions: 100000}\n  hosts:", 3, "sessions at most"),
    "looser-interval": ("  hosts:", "  limits: {publishing_ms_min: 1}\n  hosts:", 3, "publishing_ms_min at least"),
    "unknown-limit": ("  hosts:", "  limits: {happiness: 1}\n  hosts:", 3, "'happiness' is none"),
    "half-a-session": ("  hosts:", "  limits: {sessions: 1.5}\n  hosts:", 3, "sessions at most"),
    "machine-without-name": ("  hosts:", "  machine: {manufacturer: M}\n  hosts:", 3, "machine.name"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "gate.yaml").write_text(GATE, encoding="utf-8")
    (tmp_path / "bundle").mkdir()
    return tmp_path


def load(folder: Path, block: str) -> ServerBlock | None:
    path = folder / "deployment.yaml"
    path.write_text(GOOD + block, encoding="utf-8")
    return load_deployment(path).server


@pytest.mark.parametrize("rule", RULES)
def test_rule(rule: str, folder: Path) -> None:
    old, new, line, words = RULES[rule]
    assert old in BLOCK
    with pytest.raises(ConfigError) as caught:
        load(folder, BLOCK.replace(old, new, 1))
    (fault, *_) = caught.value.faults
    assert words in str(fault)
    assert fault.line in (LINE + line, LINE + line + 1), fault


def test_a_deployment_has_no_server_unless_it_says_so(folder: Path) -> None:
    assert load(folder, "") is None


def test_what_clients_see_and_where_it_listens(folder: Path) -> None:
    block = load(folder, BLOCK)
    assert block is not None
    assert (block.address, block.port, block.policies) == ("10.0.0.7", 4840, list(POLICIES))
    assert block.host_names == ("edge-7.plant.example", "edge-7", "10.1.0.7", "10.0.0.7")


def test_localhost_listens_at_loopback(folder: Path) -> None:
    block = load(folder, "server: {endpoint: 'opc.tcp://localhost:4840/sits', limits: {sessions: 4}}\n")
    assert block is not None
    assert (block.address, block.host_names) == ("127.0.0.1", ("localhost", "127.0.0.1"))
    assert block.limits == {"sessions": 4}


def test_every_address_when_asked_for(folder: Path) -> None:
    block = load(folder, BLOCK.replace("10.0.0.7", "0.0.0.0"))
    assert block is not None
    assert block.address == "0.0.0.0"
    assert "0.0.0.0" not in block.host_names
