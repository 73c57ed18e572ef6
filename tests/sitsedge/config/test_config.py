"""Every fault of a configuration file is found, with file, line and column; one vector per rule."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitsedge.config import ConfigError, load_deployment, load_gate_file
from sitsedge.config.source import FILE_BYTES_MAX

GOOD = """\
version: 1
name: mill
profile: development
device_id: edge-01
gate_id: gate-01
gate_file: gate.yaml
model: {bundle: bundle}
source:
  protocol: uadp-udp
  address: 127.0.0.1
  port: 14840
  publisher_id: 2201
  writer_group_id: 100
  data_set_writer_id: 1
  fields:
    - {name: thickness, unit: mm}
    - {name: force, unit: MN}
cycle: {period_ms: 10.0, deadline_ms: 10.0}
timing: {source_age_ms_max: 20.0, decision_age_ms_max: 20.0, future_ms_max: 2.0}
attestation: {allow_simulated: true}
mode: {initial: AUTO, approved_by: [anna, boris]}
"""

GATE = """\
version: 1
outputs:
  - {name: gap, unit: mm, limits: [-0.4, 0.4], max_rate: 8.0}
source_age_ms_max: 20.0
decision_age_ms_max: 20.0
future_ms_max: 2.0
"""

# rule: (replaced text, new text, line of the fault, words that the message must hold)
RULES = {
    "unknown-key": ("profile: development", "profile: development\ncolour: red", 4, "unknown key 'colour'"),
    "unknown-nested-key": ("address: 127.0.0.1", "adress: 127.0.0.1", 10, "unknown key 'adress'"),
    "missing-key": ("gate_id: gate-01\n", "", 1, "gate_id"),
    "wrong-type": ("port: 14840", "port: high", 11, "valid integer"),
    "number-as-text": ("port: 14840", "port: '14840'", 11, "valid integer"),
    "port-zero": ("port: 14840", "port: 0", 11, "greater than or equal to 1"),
    "bad-address": ("address: 127.0.0.1", "address: localhost", 10, "IP address"),
    "unknown-unit": ("unit: MN", "unit: tons", 17, "one of the units"),
    "nan": ("period_ms: 10.0", "period_ms: .nan", 18, "finite"),
    "negative-time": ("future_ms_max: 2.0", "future_ms_max: -2.0", 19, "greater than 0"),
    "ptp-without-asking": ("future_ms_max: 2.0", "future_ms_max: 2.0, time_quality_min: ptp-sw", 19, "'ptp' with"),
    "one-approval-for-auto": ("[anna, boris]", "[anna, anna]", 21, "2 different name"),
    "duplicate-key": ("device_id: edge-01", "device_id: edge-01\ndevice_id: edge-02", 5, "second time"),
    "anchor": ("device_id: edge-01", "device_id: &x edge-01", 4, "anchor"),
    "not-yaml": ("model: {bundle: bundle}", "model: {bundle: [", 9, "valid YAML"),
    "model-both-ways": ("{bundle: bundle}", "{bundle: bundle, onnx: m.onnx}", 7, "either 'bundle'"),
    "model-curve-of-a-bundle": ("{bundle: bundle}", "{bundle: bundle, curve: bls12-381}", 7, "a bundle brings its own"),
    "missing-file": ("bundle: bundle", "bundle: nowhere", 7, "no such file"),
    "production-simulated-tpm": ("profile: development", "profile: production", 1, "simulated TPM"),
    "unknown-profile": ("profile: development", "profile: test", 3, "'development' or 'production'"),
    "unknown-version": ("version: 1", "version: 2", 1, "1"),
    "version-of-true": ("version: 1", "version: true", 1, "integer"),
    "late-reattestation": (
        "allow_simulated: true}",
        "allow_simulated: true, epoch_s_max: 10, reattest_s: 6}",
        20,
        "half of",
    ),
    "application-pcr": ("allow_simulated: true}", "allow_simulated: true, application_pcr: 7}", 20, "16 or 23"),
    "revision-zero": ("version: 1", "version: 1\nrevision: 0", 2, "greater than or equal to 1"),
    "bad-device-id": ("edge-01", "Edge 01", 4, "pattern"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "gate.yaml").write_text(GATE)
    (tmp_path / "bundle").mkdir()
    return tmp_path


def test_a_good_file_is_read(folder: Path) -> None:
    (folder / "d.yaml").write_text(GOOD)
    deployment = load_deployment(folder / "d.yaml")
    assert deployment.field_names == ("thickness", "force")
    assert deployment.field_units == ("mm", "MN")
    assert load_gate_file(folder / "gate.yaml").outputs[0].limits == [-0.4, 0.4]


@pytest.mark.parametrize("rule", RULES)
def test_fault_is_named_with_its_line(rule: str, folder: Path) -> None:
    old, new, line, words = RULES[rule]
    assert old in GOOD
    (folder / "d.yaml").write_text(GOOD.replace(old, new, 1))
    with pytest.raises(ConfigError) as caught:
        load_deployment(folder / "d.yaml")
    hits = [fault for fault in caught.value.faults if words in str(fault)]
    assert [fault.line for fault in hits] == [line], str(caught.value)
    assert hits[0].column >= 1
    assert hits[0].file.endswith("d.yaml")


def test_all_faults_are_listed_not_only_the_first(folder: Path) -> None:
    (folder / "d.yaml").write_text(GOOD.replace("port: 14840", "port: 0").replace("unit: MN", "unit: tons"))
    with pytest.raises(ConfigError) as caught:
        load_deployment(folder / "d.yaml")
    assert [fault.line for fault in caught.value.faults] == [11, 17]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("[-0.4, 0.4]", "[0.4, 0.4]", "low < high"),
        ("[-0.4, 0.4]", "[0.4]", "at least 2"),
        ("max_rate: 8.0", "max_rate: 0.0", "greater than 0"),
        ("outputs:", "plc: {endpoint: 'http://x'}\noutputs:", "pattern"),
    ],
)
def test_gate_file_faults(old: str, new: str, words: str, folder: Path) -> None:
    (folder / "gate.yaml").write_text(GATE.replace(old, new, 1))
    with pytest.raises(ConfigError, match=words):
        load_gate_file(folder / "gate.yaml")


def test_missing_file_oversize_and_binary_are_typed(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        load_deployment(tmp_path / "none.yaml")
    (tmp_path / "big.yaml").write_bytes(b"#" * (FILE_BYTES_MAX + 1))
    with pytest.raises(ConfigError, match="at most"):
        load_deployment(tmp_path / "big.yaml")
    (tmp_path / "bin.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="UTF-8"):
        load_deployment(tmp_path / "bin.yaml")


def test_alias_bombs_and_deep_nesting_are_refused_at_once(tmp_path: Path) -> None:
    levels = "\n".join(f"k{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 40))
    (tmp_path / "bomb.yaml").write_text(f"k0: &a0 [x]\n{levels}\n")
    with pytest.raises(ConfigError, match="anchor"):
        load_deployment(tmp_path / "bomb.yaml")
    (tmp_path / "deep.yaml").write_text("a: " + "[" * 100_000)
    with pytest.raises(ConfigError):
        load_deployment(tmp_path / "deep.yaml")


@given(st.binary(max_size=300))
def test_any_bytes_give_a_value_or_a_config_error(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("any") / "d.yaml"
    path.write_bytes(data)
    with pytest.raises(ConfigError):
        load_deployment(path)
    path.write_bytes(GOOD.encode() + data)
    with contextlib.suppress(ConfigError):
        assert load_deployment(path).version == 1
