"""The packaged systemd units start programs and options that exist, and give them no more than they need."""

from __future__ import annotations

import configparser
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
UNITS = sorted((ROOT / "yocto" / "units").glob("*.service"))
SCRIPTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
HARDENING = ("NoNewPrivileges", "ProtectSystem", "CapabilityBoundingSet", "SystemCallFilter", "RestrictNamespaces")


class Unit(configparser.RawConfigParser):
    """An ini file whose keys keep their case and may repeat."""

    def optionxform(self, optionstr: str) -> str:
        return optionstr


def service(path: Path) -> configparser.SectionProxy:
    unit = Unit(strict=False)
    unit.read(path)
    return unit["Service"]


def test_there_are_units() -> None:
    assert {path.stem for path in UNITS} == {"sitsd", "sits-gate", "sits-bridge", "sits-prover", "sits-server"}


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_the_program_and_its_options_exist(path: Path) -> None:
    program, *arguments = shlex.split(service(path)["ExecStart"])
    module = SCRIPTS[Path(program).name].split(":")[0]
    done = subprocess.run(
        [sys.executable, "-m", module, "--help"], capture_output=True, text=True, timeout=60, check=True
    )
    for option in [argument for argument in arguments if argument.startswith("--")]:
        assert option in done.stdout


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_units_are_hardened_and_unprivileged(path: Path) -> None:
    section = service(path)
    assert section["User"] == "sits"
    # what is measured is source: bytecode from elsewhere must not be what runs
    assert section["Environment"] == f"PYTHONPYCACHEPREFIX=/run/{path.stem}/bytecode"
    assert (section["RuntimeDirectory"], section["RuntimeDirectoryMode"]) == (path.stem, "0700")
    assert all(key in section for key in HARDENING)
    if path.stem == "sitsd":
        assert section["DeviceAllow"] == "/dev/tpmrm0 rw"
    else:
        assert section["PrivateDevices"] == "yes"


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_notify_units_really_notify(path: Path) -> None:
    program = Path(shlex.split(service(path)["ExecStart"])[0]).name
    package = ROOT.joinpath(*SCRIPTS[program].split(":")[0].split(".")[:-1])
    notifies = any('notify("READY=1")' in file.read_text(encoding="utf-8") for file in package.glob("*.py"))
    assert notifies == (service(path)["Type"] == "notify")
