"""The plant as its own process: configuration, frames, snapshot, record, exit codes."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fieldbus.net import UdpReceiver
from fieldbus.opcua import TrustList, create_identity
from fieldbus.uadp import LayoutReader
from sitsedge.plant.picture import Curve, draw
from sitsedge.plant.record import load_record
from sitsedge.plant.signals import dataset_layout
from sitsedge.plant.simulate import simulate
from tests.sitsedge.plant.test_plc import free_port

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def site(tmp_path: Path) -> dict[str, Any]:
    """A plant file in ``tmp_path`` as a dictionary to be changed and written."""
    create_identity(tmp_path, "plc", application_uri="urn:test:plc", hosts=["127.0.0.1"])
    gate = create_identity(tmp_path, "gate", application_uri="urn:test:gate")
    TrustList(tmp_path / "trusted").add(gate.certificate)
    (tmp_path / "run").mkdir()
    return {
        "version": 1,
        "seed": 21,
        "publish": {"address": "127.0.0.1", "port": 1, "hz": 100},
        "opcua": {
            "endpoint": f"opc.tcp://127.0.0.1:{free_port()}/plc",
            "certificate": "plc.der",
            "private_key": "plc.key.pem",
            "trusted": "trusted",
        },
        "run_dir": "run",
        "record": "plant.npz",
    }


def start(folder: Path, config: dict[str, Any]) -> subprocess.Popen[str]:
    path = folder / "plant.json"
    path.write_text(json.dumps(config, indent=1), encoding="utf-8")
    command = [sys.executable, "-m", "sitsedge.plant", "--config", str(path)]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)


def test_process_publishes_and_stops_cleanly(tmp_path: Path, site: dict[str, Any]) -> None:
    with UdpReceiver("127.0.0.1", 0) as receiver:
        site["publish"]["port"] = receiver.address[1]
        process = start(tmp_path, site)
        frames = [receiver.receive(30.0) for _ in range(50)]
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0, process.communicate()
    reader = LayoutReader(dataset_layout())
    samples = [reader.read(frame.data) for frame in frames if frame is not None]
    assert len(samples) == 50
    # The same seed gives the same strip: the live frames are the first rows of a simulation.
    rows = simulate(None, 5.0, 21).measured
    skipped = 0
    for k, sample in enumerate(samples):
        while tuple(rows[k + skipped]) != sample.values:
            skipped += 1  # a cycle the machine was too busy to publish in time
    snapshot = json.loads((tmp_path / "run" / "plant.json").read_text(encoding="utf-8"))
    assert (snapshot["state"], snapshot["mode"]) == ("stopped", "MAN")
    assert snapshot["published"] >= 50
    record = load_record(tmp_path / "plant.npz")
    assert len(record["time_s"]) == snapshot["published"] + snapshot["publish_skipped"]


def test_duration_ends_the_process(tmp_path: Path, site: dict[str, Any]) -> None:
    process = start(tmp_path, {**site, "duration_s": 0.2, "record": None})
    assert process.wait(60) == 0
    assert not (tmp_path / "plant.npz").exists()


def test_unknown_key_names_line_and_column(tmp_path: Path, site: dict[str, Any]) -> None:
    process = start(tmp_path, {**site, "sed": 1})
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "plant.json:" in errors
    assert "sed" in errors


@pytest.mark.parametrize("hz", [7, 300, 2000])
def test_rate_that_is_no_whole_step_is_refused(tmp_path: Path, site: dict[str, Any], hz: int) -> None:
    site["publish"]["hz"] = hz
    process = start(tmp_path, site)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "publish.hz" in errors


def test_port_in_use_is_one_line(tmp_path: Path, site: dict[str, Any]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        site["opcua"]["endpoint"] = f"opc.tcp://127.0.0.1:{taken.getsockname()[1]}/plc"
        site["log_dir"] = "."
        process = start(tmp_path, site)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "plc-listen" in errors
    assert "Traceback" not in errors


def test_key_that_is_missing_is_one_line(tmp_path: Path, site: dict[str, Any]) -> None:
    (tmp_path / "plc.key.pem").unlink()
    process = start(tmp_path, {**site, "log_dir": "."})
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "plc.key.pem" in errors
    assert "Traceback" not in errors


def test_picture_is_a_png(tmp_path: Path) -> None:
    trace = simulate(None, 2.0, 1)
    curve = Curve(trace.time_s, trace.exit_true_mm)
    draw(tmp_path / "picture.png", with_controller=curve, without_controller=curve)
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
