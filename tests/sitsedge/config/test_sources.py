"""Every fault of a bridged source is found without a connection, with line and column; one vector per rule."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from sitsedge.config import ConfigError, load_deployment

LAYOUT = """<Document><SW.Blocks.GlobalDB ID="0"><AttributeList><Interface>
<Sections xmlns="http://www.siemens.com/automation/Openness/SW/Interface/v5"><Section Name="Static">
<Member Name="Speed" Datatype="Int"/><Member Name="Running" Datatype="Bool"/><Member Name="For" Datatype="Time"/>
<Member Name="Text" Datatype="String[5]"/><Member Name="Stamp" Datatype="DTL"/></Section></Sections></Interface>
<MemoryLayout>Standard</MemoryLayout><Name>State</Name><Number>1</Number></AttributeList>
</SW.Blocks.GlobalDB></Document>"""

GOOD = """\
version: 1
name: press
profile: development
device_id: edge-01
gate_id: gate-01
gate_file: gate.yaml
source:
  protocol: bridge
  bridge_port: 14850
  trigger: press
  skew_ms_max: 100.0
  order: [speed, running, level, ready, temperature]
  stations:
    - name: press
      protocol: s7
      host: 192.0.2.7
      layouts: [{file: state.xml}]
      time_member: Stamp
      zone: Europe/Berlin
      tags:
        - {name: speed, unit: rpm, path: Speed}
        - {name: running, unit: "1", path: '"State".Running'}
    - name: tank
      protocol: slmp
      host: 192.0.2.8
      port: 5007
      series: q
      poll_ms: 50.0
      tags:
        - {name: level, unit: mm, device: D100, type: real}
        - {name: ready, unit: "1", device: M3}
    - name: oven
      protocol: cip
      host: 192.0.2.9
      route: [1, 0]
      poll_ms: 100.0
      tags:
        - {name: temperature, unit: "°C", path: "Program:Main.Temp[2]", type: REAL}
cycle: {period_ms: 20.0, deadline_ms: 20.0}
timing: {source_age_ms_max: 200.0, decision_age_ms_max: 200.0, future_ms_max: 2.0}
attestation: {allow_simulated: true}
mode: {initial: SHADOW}
"""

# rule: (replaced text, new text, line of the fault, words that the message must hold)
RULES = {
    "station-twice": ("name: tank", "name: press", 8, "each station's name once"),
    "station-name-of-ours": ("name: tank", "name: gate", 23, "a name other than"),
    "tag-twice": ("name: level", "name: speed", 8, "each tag's name once; speed"),
    "variable-twice": ("device: M3", "device: D100", 31, "each variable once"),
    "order-incomplete": ("[speed, running, level", "[speed, speed, level", 8, "every tag's name once in 'order'"),
    "no-trigger": ("  trigger: press\n", "", 8, "'trigger' and 'skew_ms_max'"),
    "no-skew": ("  skew_ms_max: 100.0\n", "", 8, "'trigger' and 'skew_ms_max'"),
    "unknown-trigger": ("trigger: press", "trigger: mill", 8, "one of press, tank, oven"),
    "unknown-protocol": ("protocol: slmp", "protocol: modbus", 24, "'opcua', 's7', 'cip', 'slmp'"),
    "layout-missing": ("file: state.xml", "file: nowhere.xml", 17, "No such file"),
    "layout-changed": ("file: state.xml", f"file: state.xml, sha256: {'f' * 64}", 17, "ffff"),
    "layout-no-block": ("file: state.xml", "file: gate.yaml", 17, "layout-xml"),
    "layout-twice": ("{file: state.xml}", "{file: state.xml}, {file: state.xml}", 17, "each block once"),
    "member-unknown": ("path: Speed", "path: Spede", 21, "a member of State"),
    "member-block": ('"State".Running', '"Other".Running', 22, '"State"'),
    "member-text": ("path: Speed", "path: Text", 21, "a member that is a number"),
    "member-bool-unit": ('"1", path', "mm, path", 22, "a Bool is 1 or 0"),
    "member-time-unit": ("path: Speed", "path: For", 21, "'ms'"),
    "time-member-kind": ("time_member: Stamp", "time_member: Speed", 18, "a DTL"),
    "time-member-unknown": ("time_member: Stamp", "time_member: Stump", 18, "a member of State"),
    "zone-missing": ("      zone: Europe/Berlin\n", "", 14, "the time zone of the CPU's clock"),
    "zone-unknown": ("Europe/Berlin", "Europe/Berlyn", 19, "UTC or a name"),
    "zone-without-time": ("      time_member: Stamp\n", "", 18, "no 'zone' without"),
    "tsap-and-slot": ("host: 192.0.2.7", "host: 192.0.2.7\n      slot: 2\n      tsap: '0301'", 14, "either 'tsap'"),
    "device-unknown": ("device: D100", "device: QQ100", 30, "device-name"),
    "device-radix": ("device: D100", "device: D1F", 30, "device-radix"),
    "bit-without-word": ("device: M3", "device: D3", 31, "a 'type' for a word device"),
    "bit-unit": ('"1", device', "mm, device", 31, "a bit is 1 or 0"),
    "route-odd": ("[1, 0]", "[1]", 35, "pairs of a port"),
    "cip-type": ("type: REAL", "type: STRING", 38, "a number"),
    "cip-path": ("Temp[2]", "Te mp", 38, "a name such as"),
    "poll-of-the-trigger": ("host: 192.0.2.7", "host: 192.0.2.7\n      poll_ms: 50.0", 17, "the cycle's period_ms, 20"),
    "poll-too-slow": ("poll_ms: 100.0", "poll_ms: 101.0", 36, "at most 100"),
    "host-with-port": ("192.0.2.8", "192.0.2.8/1", 25, "pattern"),
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "gate.yaml").write_text("version: 1\n", encoding="utf-8")
    (tmp_path / "state.xml").write_text(LAYOUT, encoding="utf-8")
    return tmp_path


def write(folder: Path, text: str) -> Path:
    path = folder / "deployment.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_several_stations_make_one_dataset_in_the_declared_order(folder: Path) -> None:
    digest = hashlib.sha256(LAYOUT.encode()).hexdigest()
    text = GOOD.replace("file: state.xml", f"file: state.xml, sha256: {digest}")
    deployment = load_deployment(write(folder, text))
    assert deployment.field_names == ("speed", "running", "level", "ready", "temperature")
    assert deployment.field_units == ("rpm", "1", "mm", "1", "°C")


def test_a_station_alone_is_a_source(folder: Path) -> None:
    alone = """\
  protocol: slmp
  bridge_port: 14850
  host: 192.0.2.8
  port: 5007
  series: iq-f
  tags:
    - {name: level, unit: mm, device: D100, type: real}
"""
    head, _, tail = GOOD.partition("  protocol: bridge")
    deployment = load_deployment(write(folder, f"{head}{alone}cycle:{tail.partition('cycle:')[2]}"))
    assert deployment.field_names == ("level",)


@pytest.mark.parametrize("rule", RULES)
def test_fault_of_a_source_has_a_place_and_a_reason(folder: Path, rule: str) -> None:
    old, new, line, words = RULES[rule]
    assert old in GOOD
    path = write(folder, GOOD.replace(old, new, 1))
    with pytest.raises(ConfigError) as caught:
        load_deployment(path)
    assert any(fault.line == line and words in str(fault) for fault in caught.value.faults), str(caught.value)


def test_a_production_profile_demands_approved_layouts(folder: Path) -> None:
    text = GOOD.replace("profile: development", "profile: production").replace("allow_simulated: true", "tpm: hardware")
    with pytest.raises(ConfigError, match="SHA-256 in a production profile"):
        load_deployment(write(folder, text))
