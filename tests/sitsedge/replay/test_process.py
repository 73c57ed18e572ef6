"""Replay and bridge as the two processes they are: every row arrives once, whole, and bad cells stay bad."""

from __future__ import annotations

import csv
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fieldbus.net import UdpReceiver
from fieldbus.uadp import DataSetSample, LayoutReader
from sitsedge.bridge.config import BridgeConfig
from sitsedge.bridge.sample import BAD_GONE
from sitsedge.config import load_model
from sitsedge.replay.__main__ import main
from tests.sitsedge.bridge.support import free_port
from tests.sitsedge.replay.support import write_csv

ROOT = Path(__file__).resolve().parents[3]
WAIT_S = 40.0
NO_DATA = 0x809B_0000
SENSOR_FAILURE = 0x808C_0000
ROWS = (
    "2020-03-09 10:14:33;1.5;32;0",
    "2020-03-09 10:14:34;1.5;32;0",
    "2020-03-09 10:14:35;;33;0",
    "2020-03-09 10:14:36;;nan;0",
    "2020-03-09 10:14:37;2.5;34;1",
)


@pytest.fixture
def site(tmp_path: Path, replay_pki: Path) -> Path:
    """A folder with certificates, two recordings and configurations of both processes."""
    folder = tmp_path / "site"
    shutil.copytree(replay_pki, folder)
    (folder / "run").mkdir()
    (folder / "set").mkdir()
    write_csv(folder / "set" / "1.csv", *ROWS)
    write_csv(folder / "set" / "2.csv", *ROWS[:2])
    endpoint = f"opc.tcp://127.0.0.1:{free_port()}/replay"
    _write(
        folder / "replay.json",
        {
            "version": 1,
            "recordings": ["set/1.csv", "set/2.csv"],
            "columns": [
                {"column": "P", "path": "Pump/P", "unit": "bar", "low": -3.0, "high": 6.0},
                {"column": "Q", "path": "Pump/Q", "unit": "l/min", "low": 0.0, "high": 200.0},
            ],
            "endpoint": endpoint,
            "namespace": "urn:tests:replay",
            "certificate": "server.der",
            "private_key": "server.key.pem",
            "trusted": "trusted",
            "speed": "max",
            "journal": "run/journal.csv",
            "run_dir": "run",
        },
    )
    _write(
        folder / "bridge.json",
        {
            "version": 2,
            "stations": [
                {
                    "name": "server",
                    "protocol": "opcua",
                    "endpoint": endpoint,
                    "namespace": "urn:tests:replay",
                    "server_certificate": "server.der",
                    "trigger": "Replay/Row",
                    "tags": [
                        {"name": "p", "unit": "bar", "path": "Pump/P"},
                        {"name": "q", "unit": "l/min", "path": "Pump/Q"},
                    ],
                }
            ],
            "trigger": "server",
            "order": ["p", "q"],
            "certificate": "bridge.der",
            "private_key": "bridge.key.pem",
            "poll_ms": 10,
            "source_age_ms_max": 20000,
            "send_to": {"port": 1},
            "run_dir": "run",
        },
    )
    return folder


def _write(path: Path, config: dict[str, Any]) -> None:
    path.write_text(json.dumps(config, indent=1), encoding="utf-8")


def _change(path: Path, **values: object) -> None:
    _write(path, {**json.loads(path.read_text(encoding="utf-8")), **values})


class Running:
    """Both processes."""

    def __init__(self, site: Path) -> None:
        self.site = site
        self.receiver = UdpReceiver("127.0.0.1", 0)
        _change(site / "bridge.json", send_to={"port": self.receiver.address[1]})
        self.processes = [
            subprocess.Popen(
                [sys.executable, "-m", module, "--config", str(site / name)],
                cwd=ROOT,
                stderr=subprocess.PIPE,
                text=True,
            )
            for module, name in (("sitsedge.replay", "replay.json"), ("sitsedge.bridge.main", "bridge.json"))
        ]

    def snapshot(self, state: str) -> dict[str, Any]:
        end = time.monotonic() + WAIT_S
        path = self.site / "run" / "plant.json"
        while time.monotonic() < end:
            if path.exists() and (body := json.loads(path.read_text(encoding="utf-8")))["state"] == state:
                assert isinstance(body, dict)
                return body
            assert self.processes[0].poll() is None, self.processes[0].communicate()
            time.sleep(0.01)
        raise AssertionError(path.read_text(encoding="utf-8"))

    def samples(self, count: int) -> list[DataSetSample]:
        reader = LayoutReader(load_model(self.site / "bridge.json", BridgeConfig).layout())
        found: list[DataSetSample] = []
        while len(found) < count and (frame := self.receiver.receive(WAIT_S)) is not None:
            sample = reader.read(frame.data)
            # On a busy machine the server may come after the bridge has begun to say that it is not there.
            found += [] if set(sample.field_status) == {BAD_GONE} else [sample]
        return found

    def stop(self) -> list[tuple[int, str]]:
        """The bridge first, so that it has nothing to say about the end of the server."""
        ends = []
        for process in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=WAIT_S)
            ends.append((process.returncode, errors))
        return ends


@pytest.fixture
def running(site: Path) -> Iterator[Running]:
    both = Running(site)
    yield both
    for process in both.processes:
        if process.poll() is None:
            process.kill()
            process.communicate(timeout=WAIT_S)
    both.receiver.close()


def test_every_row_arrives_once_with_its_journalled_time(running: Running) -> None:
    before, *samples = running.samples(8)
    assert before.values == (None, None)  # the counter before the first row: a cycle without values, said as such
    assert [s.values for s in samples] == [
        (1.5, 32.0), (1.5, 32.0), (None, 33.0), (None, None), (2.5, 34.0), (1.5, 32.0), (1.5, 32.0),
    ]  # fmt: skip
    assert samples[3].field_status == (NO_DATA, SENSOR_FAILURE)
    assert [s.good for s in samples] == [True, True, False, False, True, True, True]
    snapshot = running.snapshot("finished")
    assert (snapshot["rows_total"], snapshot["rows_played"], snapshot["bad_cells"]) == (7, 7, 3)
    assert snapshot["finished"] is True
    with (running.site / "run" / "journal.csv").open(encoding="utf-8") as file:
        journal = list(csv.DictReader(file))
    assert [int(line["t_source_ns"]) for line in journal] == [s.t_source_ns for s in samples]
    assert [(line["recording"], line["row"]) for line in journal] == [
        *(("set/1.csv", str(k)) for k in range(5)), *(("set/2.csv", str(k)) for k in range(2)),
    ]  # fmt: skip
    assert [code for code, _ in running.stop()] == [0, 0]
    assert running.receiver.receive(0.0) is None


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"speed": 0}, "speed"),
        ({"recordings": []}, "recordings"),
        ({"surprise": 1}, "unknown key 'surprise'"),
        ({"delimiter": '"'}, "no quote"),
        ({"columns": [{"column": "P", "path": "a/b", "low": 1.0, "high": 1.0}]}, "low < high"),
        (
            {"columns": [{"column": c, "path": "a/b", "low": 0.0, "high": 1.0} for c in "PQ"]},
            "each path once",
        ),
    ],
)
def test_a_wrong_configuration_is_refused_with_line_and_reason(
    site: Path, capsys: pytest.CaptureFixture[str], change: dict[str, object], text: str
) -> None:
    _change(site / "replay.json", **change)
    assert main(["--config", str(site / "replay.json")]) == 2
    error = capsys.readouterr().err
    assert text in error
    assert error.startswith(f"{site / 'replay.json'}:")


def test_a_malformed_recording_ends_the_process_with_file_and_line(site: Path) -> None:
    write_csv(site / "set" / "2.csv", ROWS[0], "2020-03-09 10:14:34;1;2")
    command = [sys.executable, "-m", "sitsedge.replay", "--config", str(site / "replay.json")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert done.returncode == 2
    assert f"{site}/set/2.csv:3: cells: got 3 cells, expected 4 as in the header" in done.stderr
    assert "Traceback" not in done.stderr
