"""``sitsctl fieldbus check``: what is there and what is wrong, station by station, before a deployment is started."""

from __future__ import annotations

import asyncio
import json
import struct
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from fieldbus.capture import Protocol
from fieldbus.opcua import load_identity
from sitsedge.bridge.app import BridgeApp
from sitsedge.bridge.checks import StationReport, check_stations
from sitsedge.bridge.config import BridgeConfig
from sitsedge.bridge.main import deployed, main
from sitsedge.bridge.stations.opcua_client import trigger_name
from sitsedge.cli.main import app
from sitsedge.config.stations import OpcUaStation
from tests.fieldbus.fake_plc import running
from tests.sitsedge.bridge.controllers import LAYOUT, STOP, logix, logix_station, s7_cpu, s7_station, stamp
from tests.sitsedge.bridge.source_server import NAMESPACE
from tests.sitsedge.bridge.support import Bridge, Source, free_port, server_station
from tests.sitsedge.config.test_sources import GOOD


async def meet(folder: Path, *stations: dict[str, Any], **more: object) -> list[StationReport]:
    (folder / "state.xml").write_text(LAYOUT, encoding="utf-8")
    bridge = Bridge(folder, *stations)
    bridge.close()
    data = {**bridge.config, "skew_ms_max": 500.0, "source_age_ms_max": 1_000.0, "poll_ms": 500.0, **more}
    return await check_stations(BridgeConfig.model_validate(data), folder)


async def test_controllers_tell_who_they_are_and_every_tag(tmp_path: Path) -> None:
    async with running(Protocol.S7, s7_cpu().answer) as press, running(Protocol.CIP, logix().answer) as oven:
        first, second = await meet(tmp_path, s7_station(press), logix_station(oven))
    assert (first.ok, second.ok) == (True, True), (first.faults, second.faults)
    assert [(tag.name, tag.type, tag.value) for tag in first.tags] == [
        ("temperature", "Real", 72.5), ("speed", "Int", 1480), ("running", "Bool", True),
    ]  # fmt: skip
    assert (first.facts["mode"], first.facts["PDU"]) == ("run", "240 bytes")
    assert second.facts["controller"] == "1756-L61/B LOGIX5561, revision 20.11"
    assert first.warnings[0].startswith("no-security")


async def test_each_thing_that_is_wrong_with_a_controller_has_a_code(tmp_path: Path) -> None:
    cpu, controller = s7_cpu(), logix()
    stamp(cpu, 946_684_800 * 10**9)  # 2000-01-01: the clock was never set
    controller.tags["Temp"] = b"\xc4\0" + struct.pack("<i", 21)
    async with running(Protocol.S7, cpu.answer) as press, running(Protocol.CIP, controller.answer) as oven:
        block = s7_station(press, time_member="Stamp", zone="UTC")
        gone = {**logix_station(oven), "name": "gone", "port": free_port()}
        gone["tags"] = [{**tag, "name": f"gone_{tag['name']}"} for tag in gone["tags"]]
        first, second, third = await meet(tmp_path, block, logix_station(oven), gone)
        assert "plc-clock" in first.faults[0]
        assert second.faults == ["bad-tag: oven has status 0x80740000 (another type)"]
        assert (third.reached, third.faults[0].partition(":")[0]) == (False, "connect-failed")
        cpu.mode = STOP
        [stopped] = await meet(tmp_path, s7_station(press))
        assert {fault.partition(" has")[0] for fault in stopped.faults} == {
            "bad-tag: temperature", "bad-tag: speed", "bad-tag: running",
        }  # fmt: skip


async def test_a_server_tells_types_intervals_and_what_is_missing(source: Source, folder: Path) -> None:
    source.write(1_800_000_000 * 10**9, a=1.5, b=True, c=2.5)
    station = server_station(source.port)
    station["tags"].append({"name": "d", "path": "Plant/Missing", "unit": "1"})
    station["tags"].append({"name": "e", "path": "Plant/nsu=urn:tests:gone;Level", "unit": "1"})
    [report] = await meet(folder, station, source_age_ms_max=5.0)
    assert report.reached
    assert [(tag.name, tag.value) for tag in report.tags] == [
        ("a", 1.5), ("b", True), ("c", 2.5), ("d", None), ("e", None),
    ]  # fmt: skip
    codes = {fault.partition(":")[0] for fault in report.faults}
    assert codes == {"bad-tag", "node-missing", "namespace-missing", "item-refused", "latency-claim"}
    assert report.facts["publishing"] == "every 10 ms"
    assert report.facts["certificate (server)"].endswith("days left")
    stranger = {**station, "server_certificate": "other.der"}
    [report] = await meet(folder, stranger)
    assert (report.ok, report.faults[0].partition(":")[0]) == (False, "server-certificate")


def test_every_server_of_a_bridge_is_a_member_of_one_identity(folder: Path) -> None:
    stations = [{**server_station(free_port(), (name,)), "name": name, "renew": True} for name in ("one", "two")]
    bridge = Bridge(folder, *stations)
    bridge.close()
    data = {**bridge.config, "skew_ms_max": 500.0}
    whole = BridgeApp(BridgeConfig.model_validate(data), folder)
    whole._sender.close()
    assert whole._identity is not None
    assert len(whole._identity._members) == 2
    assert whole._identity.renewal is not None
    assert whole._identity.renewal.load() == whole._identity.current
    del stations[1]["renew"]
    with pytest.raises(ValidationError, match="'renew' the same"):
        BridgeConfig.model_validate(data)


def test_a_trigger_that_is_a_tag_is_subscribed_once() -> None:
    station = OpcUaStation.model_validate({**server_station(1), "trigger": f"nsu={NAMESPACE};Plant/nsu={NAMESPACE};b"})
    assert trigger_name(station) == "b"


def test_a_source_that_publishes_is_not_asked(mill: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["--config", str(mill), "--state-dir", str(mill.parent / "s")]
    checked = CliRunner().invoke(app, ["fieldbus", "check", *command])
    assert (checked.exit_code, "source-unbridged" in checked.stderr) == (2, True)
    assert main(command) == 2
    assert "source-unbridged" in capsys.readouterr().err


async def test_tags_of_several_times_are_named_where_a_sample_needs_one(source: Source, folder: Path) -> None:
    now = 1_800_000_000 * 10**9
    source.write_rows({"a": [1.0, 0, now], "b": [2.0, 0, now + 5 * 10**6], "c": [3.0, 0, now]})
    station = server_station(source.port)
    [report] = await meet(folder, station)
    assert [word for word in report.warnings if word.startswith("times-differ: a and b are 5.000 ms apart")]
    [report] = await meet(folder, {**station, "trigger": "Plant/a"})
    assert not any(word.startswith("times-differ") for word in report.warnings)
    source.write(now + 10**9, a=1.0, b=2.0, c=3.0)
    [report] = await meet(folder, station)
    assert not any(word.startswith("times-differ") for word in report.warnings)


async def test_the_clients_certificate_is_there_before_the_first_start(tmp_path: Path) -> None:
    (tmp_path / "gate.yaml").write_text("version: 1\n", encoding="utf-8")
    head, _, tail = GOOD.partition("source:")
    source = f"""source:
  protocol: opcua
  bridge_port: {free_port()}
  endpoint: opc.tcp://127.0.0.1:{free_port()}
  namespace: urn:x
  tags: [{{name: temperature, unit: "°C", path: T}}]
cycle:"""
    path = tmp_path / "deployment.yaml"
    path.write_text(head + source + tail.partition("cycle:")[2], encoding="utf-8")
    command = ["fieldbus", "check", "--config", str(path), "--state-dir", str(tmp_path / "s"), "--output", "json"]
    await asyncio.to_thread(CliRunner().invoke, app, command)
    assert load_identity(tmp_path / "s/pki/bridge.der", tmp_path / "s/pki/bridge.key.pem")


@pytest.mark.parametrize("output", ["text", "json"])
async def test_the_command_prints_what_was_found(tmp_path: Path, output: str) -> None:
    cpu = s7_cpu()
    async with running(Protocol.S7, cpu.answer) as plc:
        (tmp_path / "gate.yaml").write_text("version: 1\n", encoding="utf-8")
        (tmp_path / "state.xml").write_text(LAYOUT, encoding="utf-8")
        head, _, tail = GOOD.partition("source:")
        source = f"""source:
  protocol: s7
  bridge_port: {free_port()}
  host: 127.0.0.1
  port: {plc.port}
  layouts: [{{file: state.xml}}]
  tags:
    - {{name: temperature, unit: "°C", path: Temperature}}
cycle:"""
        path = tmp_path / "deployment.yaml"
        path.write_text(head + source + tail.partition("cycle:")[2], encoding="utf-8")
        command = ["fieldbus", "check", "--config", str(path), "--state-dir", str(tmp_path / "s"), "--output", output]
        good = await asyncio.to_thread(CliRunner().invoke, app, command)
        cpu.mode = STOP
        bad = await asyncio.to_thread(CliRunner().invoke, app, command)
    assert (good.exit_code, bad.exit_code) == (0, 1)
    config = deployed(path, tmp_path / "s")
    assert (config.order, config.trigger, config.poll_ms) == (["temperature"], "s7", 20.0)
    if output == "json":
        [station] = json.loads(good.stdout)["stations"]
        assert (station["ok"], station["tags"][0]["value"]) == (True, 72.5)
        assert json.loads(bad.stdout)["ok"] is False
    else:
        assert "temperature  Real  72.5 °C" in good.stdout
        assert (
            "FAULT bad-tag: temperature has status 0x808d0000 (the controller does not run its program)" in bad.stdout
        )
