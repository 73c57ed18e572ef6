"""Which TPM is used, and which never silently."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import attest.tpm
from attest.tpm import TpmMissing, find_tcti


def test_auto_prefers_hardware(tmp_path: Path) -> None:
    hardware = tmp_path / "tpmrm0"
    hardware.touch()
    choice = find_tcti("auto", allow_simulated=True, state_dir=tmp_path, hardware=hardware)
    assert (choice.kind, choice.tcti) == ("hardware", f"device:{hardware}")


def test_auto_simulates_only_where_allowed(tmp_path: Path) -> None:
    absent = tmp_path / "absent"
    choice = find_tcti("auto", allow_simulated=True, state_dir=tmp_path, hardware=absent)
    assert (choice.kind, choice.tcti) == ("swtpm", f"swtpm:path={tmp_path}/tpm.sock")
    with pytest.raises(TpmMissing) as caught:
        find_tcti("auto", allow_simulated=False, state_dir=tmp_path, hardware=absent)
    assert caught.value.code == "tpm-none"


def test_closed_hardware_is_not_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hardware = tmp_path / "tpmrm0"
    hardware.touch()
    monkeypatch.setattr("attest.tpm.choice.os.access", lambda *_: False)
    with pytest.raises(TpmMissing) as caught:
        find_tcti("auto", allow_simulated=True, state_dir=tmp_path, hardware=hardware)
    assert caught.value.code == "tpm-permission"


def test_explicit_wishes(tmp_path: Path) -> None:
    device = tmp_path / "tpm"
    device.touch()
    assert find_tcti(f"device:{device}", allow_simulated=False, state_dir=tmp_path).kind == "hardware"
    assert find_tcti("swtpm:path=/x/s", allow_simulated=True, state_dir=tmp_path).tcti == "swtpm:path=/x/s"
    assert find_tcti("swtpm", allow_simulated=True, state_dir=tmp_path).kind == "swtpm"


@pytest.mark.parametrize(
    ("wish", "code"),
    [
        ("swtpm", "tpm-not-allowed"),
        ("swtpm:path=/x", "tpm-not-allowed"),
        ("hardware", "tpm-none"),
        ("device:{tmp}/absent", "tpm-none"),
        ("mssim:host=x", "tpm-tcti"),
    ],
)
def test_refused_wishes(tmp_path: Path, wish: str, code: str) -> None:
    with pytest.raises(TpmMissing) as caught:
        find_tcti(wish.format(tmp=tmp_path), allow_simulated=False, state_dir=tmp_path, hardware=tmp_path / "absent")
    assert caught.value.code == code


def test_missing_library_is_a_typed_error_and_the_launcher_still_works() -> None:
    program = (
        "import sys; sys.modules['tpm2_pytss'] = None\n"
        "import attest.tpm as t; assert t.Swtpm and t.find_tcti\n"
        "try:\n    t.TpmDevice\nexcept t.TpmMissing as error:\n    print(error.code, error.hint)\n"
    )
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run([sys.executable, "-c", program], cwd=root, check=True, capture_output=True, text=True)
    assert done.stdout.startswith("tpm-library ")
    assert "sitsedge[tpm]" in done.stdout


def test_package_has_no_other_names() -> None:
    with pytest.raises(AttributeError):
        _ = attest.tpm.nonsense
