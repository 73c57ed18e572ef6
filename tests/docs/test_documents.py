"""What the documents promise exists: commands, options, codes, files."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from attest.command import CHECKS
from attest.evidence.verify import CHECKS as EVIDENCE_CHECKS
from sitsedge.cli.demo_commands import ATTACK_NAMES
from sitsedge.cli.output import Exit
from sitsedge.demo.attacks import ATTACKS

ROOT = Path(__file__).resolve().parent.parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
CLI = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
DOCUMENTS = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md")), *sorted(ROOT.glob("examples/*/README.md"))]


def shell_lines(text: str) -> list[str]:
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    joined = "\n".join(blocks).replace("\\\n", " ")
    return [line.split("#")[0].strip() for line in joined.splitlines() if line.split("#")[0].strip()]


def sitsctl_lines() -> list[str]:
    lines = [line for path in DOCUMENTS for line in shell_lines(path.read_text(encoding="utf-8"))]
    return sorted({line.removeprefix("./dev ") for line in lines if line.removeprefix("./dev ").startswith("sitsctl ")})


def help_of(words: list[str]) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "sitsedge.cli.entry", *words, "--help"],
        capture_output=True, text=True, timeout=60, check=False, env={"COLUMNS": "200", "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_two_commands_come_first() -> None:
    assert shell_lines(README)[:2] == ["./dev demo", "./dev test"]


@pytest.mark.parametrize("line", sitsctl_lines())
def test_every_documented_command_and_option_exists(line: str) -> None:
    words = shlex.split(line)[1:]
    command = [words[0]]
    if words[0] in ("module", "attest", "proof", "audit", "bench", "fieldbus", "gate", "server"):
        command.append(words[1])
    if words[:2] in (["attest", "policy"], ["fieldbus", "keys"], ["server", "users"], ["server", "trust"]):
        command.append(words[2])
    text = help_of(command)
    for option in [word for word in words if word.startswith("--")]:
        assert option in text, f"{option} is not an option of {command}"


def test_refusal_codes_are_the_gate_s_own() -> None:
    section = CLI.split("## Refusal codes of the gate")[1]
    listed = re.findall(r"`([a-z-]+)`", section.split("([why three]")[0])
    assert listed == list(CHECKS)


def test_exit_codes_are_the_ones_in_use() -> None:
    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", CLI, re.MULTILINE)}
    assert listed == {int(code) for code in Exit}


def test_attacks_are_listed_in_the_readme() -> None:
    assert tuple(ATTACKS) == ATTACK_NAMES
    assert all(name in README for name in ATTACK_NAMES)


def test_the_number_of_evidence_checks_is_right() -> None:
    assert len(EVIDENCE_CHECKS) == 24
    assert "all twenty-four checks" in CLI


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), target
