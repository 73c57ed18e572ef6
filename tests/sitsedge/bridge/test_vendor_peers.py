"""One DataSet of three controllers that nobody here wrote, each in a process of its own; one of them dies."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from fieldbus.cip.client import CipClient
from fieldbus.slmp.client import SlmpClient
from fieldbus.slmp.devices import Device, Series
from sitsedge.bridge.checks import check_stations
from sitsedge.bridge.config import BridgeConfig
from sitsedge.bridge.sample import BAD_GONE
from tests.fieldbus.vendors import PROGRAMS, free_port, needs_peers, peer
from tests.sitsedge.bridge.rig import bridged, good

pytestmark = needs_peers


def station(name: str, port: int, tags: list[dict[str, Any]], **more: object) -> dict[str, Any]:
    common = {"name": name, "protocol": name, "host": "127.0.0.1", "port": port, "reconnect_ms_max": 200}
    return {**common, "tags": tags, "run_only": False, **more}


async def set_values(cip: int, slmp: int) -> None:
    logix = CipClient("127.0.0.1", cip)
    await logix.connect()
    await logix.write("Temp[2]", "REAL", 21.5)
    await logix.close()
    melsec = SlmpClient("127.0.0.1", slmp, series=Series.Q)
    await melsec.connect()
    await melsec.write_words(Device("D", 100), (1480,))
    await melsec.close()


async def test_siemens_rockwell_and_mitsubishi_peers_make_one_dataset(tmp_path: Path) -> None:
    s7, cip, slmp = free_port(), free_port(), free_port()
    cpppo = ("-m", "cpppo.server.enip", "--no-udp", "--no-config", "-a", f"127.0.0.1:{cip}", "Temp=REAL[10]")
    with contextlib.ExitStack() as peers:
        peers.enter_context(peer(s7, str(PROGRAMS / "snap7_peer.py"), str(s7)))
        peers.enter_context(peer(slmp, "-m", "virtual_plc", "--port", str(slmp), "--limit", "D:0-1000"))
        oven = peers.enter_context(contextlib.ExitStack())
        oven.enter_context(peer(cip, *cpppo))
        await set_values(cip, slmp)
        stations = (
            station("s7", s7, [{"name": "a", "unit": "°C", "path": "Temperature"}], layouts=[{"file": "state.xml"}]),
            station("cip", cip, [{"name": "b", "unit": "°C", "path": "Temp[2]", "type": "REAL"}]),
            station("slmp", slmp, [{"name": "c", "unit": "rpm", "device": "D100", "type": "int"}], series="q"),
        )
        async with bridged(tmp_path, *stations, skew_ms_max=2_000, source_age_ms_max=2_000, poll_ms=100) as rig:
            assert (await rig.until(good)).values == (72.5, 21.5, 1480.0)
            config = BridgeConfig.model_validate(rig.bridge.config)
            reports = await check_stations(config, tmp_path)
            assert [report.ok for report in reports] == [True] * 3, [report.faults for report in reports]
            oven.close()
            sample = await rig.until(lambda sample: sample.field_status[1] == BAD_GONE)
            assert sample.values == (72.5, None, 1480.0)
