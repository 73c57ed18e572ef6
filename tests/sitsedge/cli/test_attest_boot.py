"""``sitsctl attest replay``, ``explain`` and ``policy`` with files alone: answers, exit codes, no TPM."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from attest.boot import banks, eventlog, measure
from attest.boot.policy import parse_policy
from attest.boot.replay import replay
from attest.command import GateKey
from sitsedge.cli.main import app
from sitsedge.supervisor.keys import write_public
from tests.attest.boot import captures, made
from tests.attest.evidence import forge

LOG = made.logs()["sha1-sha256"]


def run(*words: object) -> Result:
    return CliRunner().invoke(app, ["attest", *map(str, words)])


def answer(*words: object, code: int = 0) -> dict[str, Any]:
    result = run(*words, "--output", "json")
    assert result.exit_code == code, result.output
    data = json.loads(result.stdout)
    assert isinstance(data, dict)
    return data


def pcr_file(log: bytes) -> str:
    return json.dumps(
        {banks.NAMES[b]: {str(p): v.hex() for p, v in held.items()} for b, held in replay(log).computed.items()}
    )


@pytest.fixture
def boot(tmp_path: Path) -> Path:
    """A folder with a log, its PCR values, a changed log with its values, and a policy key."""
    (tmp_path / "log").write_bytes(LOG)
    (tmp_path / "pcrs").write_text(pcr_file(LOG))
    parsed = eventlog.parse(LOG)
    other = eventlog.EventLog((*parsed.events, eventlog.text_event(11, "another kernel")), parsed.startup_locality)
    (tmp_path / "other").write_bytes(other.encode())
    (tmp_path / "other-pcrs").write_text(pcr_file(other.encode()))
    GateKey.create(tmp_path / "key")
    return tmp_path


@pytest.mark.parametrize("name", captures.NAMES)
def test_recorded_boots_replay(fixtures_dir: Path, name: str) -> None:
    folder = fixtures_dir / "boot"
    files = [folder / f"{name}.{part}" for part in ("eventlog.bin", "pcrs.json", "ima.bin")]
    data = answer("replay", files[0], "--pcrs", files[1], "--ima", files[2])
    expected = json.loads(files[1].read_text())["sha256"]
    assert data["ok"]
    assert data["mismatched"] == []
    assert data["pcrs"]["sha256"] == {pcr: expected[pcr] for pcr in data["pcrs"]["sha256"]}
    assert data["matched"] == sorted([*map(int, data["pcrs"]["sha256"]), 10])
    assert data["ima"]["ok"]
    assert [event["number"] for event in data["events"]] == list(range(1, len(data["events"]) + 1))
    text = run("replay", files[0], "--pcrs", files[1], "--ima", files[2])
    assert text.exit_code == 0
    assert text.stdout.endswith("the log matches\n")


def test_every_field_of_an_answer(boot: Path) -> None:
    data = answer("replay", boot / "log", "--pcrs", boot / "pcrs")
    assert set(data) == {
        "ok", "format", "banks", "compared_banks", "startup_locality", "pcrs", "matched", "mismatched", "missing",
        "unexplained", "misdescribed", "differences", "ima", "events",
    }  # fmt: skip
    assert (data["format"], data["banks"], data["startup_locality"]) == ("crypto-agile", ["sha1", "sha256"], 3)
    event = next(event for event in data["events"] if event["pcr"] == 7)
    assert event["type"] == "EV_EFI_VARIABLE_DRIVER_CONFIG"
    assert event["measured"] is True
    assert "SecureBoot: on" in event["text"]
    assert set(event["digests"]) == {"sha1", "sha256"}


def test_a_mismatch_is_named_and_exits_with_1(boot: Path) -> None:
    data = answer("replay", boot / "log", "--pcrs", boot / "other-pcrs", code=1)
    assert (data["ok"], data["mismatched"]) == (False, [11])
    assert [item["pcr"] for item in data["differences"]] == [11]
    text = run("replay", boot / "log", "--pcrs", boot / "other-pcrs")
    assert "mismatched" in text.stdout
    assert "the log does not match" in text.stdout


def test_words_for_what_is_missing_unexplained_and_misdescribed(boot: Path) -> None:
    values = json.loads((boot / "pcrs").read_text())
    del values["sha256"]["7"]
    values["sha256"]["3"] = "11" * 32
    (boot / "pcrs").write_text(json.dumps(values))
    wrong = eventlog.Event(4, eventlog.EV_SEPARATOR, bytes(32), bytes(4))
    parsed = eventlog.parse(LOG)
    (boot / "log").write_bytes(eventlog.EventLog((*parsed.events, wrong), parsed.startup_locality).encode())
    text = run("replay", boot / "log", "--pcrs", boot / "pcrs").stdout
    assert "no value to compare with" in text
    assert "PCR 3 was extended, and the log has no event of it" in text
    assert "says something else than was measured" in text


def test_without_values_it_shows_the_log(boot: Path) -> None:
    assert answer("replay", boot / "log")["matched"] == []
    assert "give --pcrs" in run("replay", boot / "log").stdout
    (boot / "old").write_bytes(made.legacy_log())
    assert answer("replay", boot / "old")["format"] == "sha1"
    (boot / "old-pcrs").write_text(pcr_file(made.legacy_log()))
    text = run("replay", boot / "old", "--pcrs", boot / "old-pcrs")
    assert (text.exit_code, "only SHA-1 was compared" in text.stdout) == (0, True)


def test_imas_list_in_words(boot: Path) -> None:
    values = json.loads((boot / "pcrs").read_text())
    (boot / "ima").write_bytes(made.aggregate(bytes(32)))
    assert "nothing to compare" in run("replay", boot / "log", "--ima", boot / "ima").stdout
    for bank, size in (("sha1", 20), ("sha256", 32)):
        values[bank]["10"] = "00" * size
    (boot / "pcrs").write_text(json.dumps(values))
    text = run("replay", boot / "log", "--pcrs", boot / "pcrs", "--ima", boot / "ima")
    assert text.exit_code == 0
    assert "IMA began without a TPM" in text.stdout
    (boot / "ima").write_bytes(made.ima_list())
    text = run("replay", boot / "log", "--pcrs", boot / "pcrs", "--ima", boot / "ima")
    assert text.exit_code == 1
    assert "PCR 10 was never extended, though IMA saw a TPM" in text.stdout


@pytest.mark.parametrize("part", ["log", "ima"])
def test_what_is_no_log_is_refused(boot: Path, part: str) -> None:
    (boot / "bad").write_bytes(b"\1" * 40)
    words = (boot / "bad",) if part == "log" else (boot / "log", "--ima", boot / "bad")
    data = answer("replay", *words, code=1)
    assert data["ok"] is False
    assert data["error"]["code"] == ("event-log" if part == "log" else "ima-list")
    assert run("replay", *words).exit_code == 1


def test_bad_values_and_missing_files_are_usage(boot: Path) -> None:
    (boot / "bad").write_text("{}")
    assert answer("replay", boot / "log", "--pcrs", boot / "bad", code=2)["error"]["code"] == "pcr-file"
    assert answer("replay", boot / "nothing", code=2)["error"]["code"] == "file-missing"


def make(boot: Path, *words: object, log: str = "log", code: int = 0, out: str = "policy") -> dict[str, Any]:
    pcrs = "pcrs" if log == "log" else "other-pcrs"
    fixed = ["--name", "mill", "--key", boot / "key", "--out", boot / out]
    return answer("policy", "make", *fixed, "--log", boot / log, "--pcrs", boot / pcrs, *words, code=code)


def test_explain_by_policy_and_by_log(boot: Path) -> None:
    make(boot)
    for approved in (("--policy", boot / "policy"), ("--approved", boot / "log")):
        assert answer("explain", boot / "log", *approved)["changes"] == []
        data = answer("explain", boot / "other", *approved, code=1)
        (change,) = data["changes"]
        assert (change["pcr"], change["kind"], change["after"]) == (11, "added", "another kernel")
        assert change["consequence"]
        assert change["action"]
    assert run("explain", boot / "log", "--approved", boot / "log").stdout == "nothing changed\n"
    assert run("explain", boot / "other", "--approved", boot / "log").stdout.startswith("PCR 11: new: another kernel. ")


def test_explain_wants_one_thing_to_compare_with(boot: Path) -> None:
    assert run("explain", boot / "log").exit_code == 2
    assert run("explain", boot / "log", "--policy", boot / "log", "--approved", boot / "log").exit_code == 2
    assert run("explain", "--approved", boot / "log").exit_code == 2
    (boot / "bad").write_bytes(b"x")
    assert run("explain", boot / "bad", "--approved", boot / "log").exit_code == 1


def test_a_policy_is_made_signed_and_shown(boot: Path) -> None:
    made_policy = make(boot, "--tpm", "hardware,swtpm", "--days", 2)
    parsed, _ = parse_policy((boot / "policy").read_bytes())
    assert parsed.version == 1
    assert parsed.tpm_kinds == ("hardware", "swtpm")
    assert 2 * 86_400 < (parsed.not_after_ns - parsed.not_before_ns) / 1e9 < 3 * 86_400
    touched = set(replay(LOG).computed[banks.SHA256])
    assert set(parsed.states[0].pcrs) == set(measure.QUOTED_PCRS) & touched
    for words in (("policy", boot / "policy"), ("policy", "show", boot / "policy")):
        assert answer(*words) == made_policy
    text = run("policy", boot / "policy").stdout
    assert "state           reference boot" in text


def test_an_update_window_and_its_end(boot: Path) -> None:
    make(boot, "--state", "old", "--pcr", "0,7,11")
    window = make(boot, "--base", boot / "policy", "--state", "new", "--pcr", "0,7,11", log="other", out="window")
    assert (window["version"], [state["label"] for state in window["states"]]) == (2, ["new", "old"])
    for log in ("log", "other"):
        assert answer("explain", boot / log, "--policy", boot / "window")["ok"]
    words = ("--base", boot / "window", "--state", "new", "--pcr", "0,7,11", "--drop", "old")
    closed = make(boot, *words, log="other", out="closed")
    assert (closed["version"], [state["label"] for state in closed["states"]]) == (3, ["new"])
    assert not answer("explain", boot / "log", "--policy", boot / "closed", code=1)["ok"]


def test_a_base_that_was_changed_after_it_was_signed_is_refused(boot: Path) -> None:
    value = make(boot, "--state", "old", "--pcr", "0,7,11")["states"][0]["pcrs"]["11"]
    signed = (boot / "policy").read_bytes()
    (boot / "policy").write_bytes(signed.replace(bytes.fromhex(value), bytes(32)))
    data = make(boot, "--base", boot / "policy", "--state", "new", log="other", out="next", code=2)
    assert data["error"]["code"] == "boot-policy-format"
    assert "a signature that does not verify" in data["error"]["message"]
    assert not (boot / "next").exists()


def test_a_base_of_another_key_needs_that_key(boot: Path) -> None:
    made_policy = make(boot, "--state", "old", "--pcr", "0,7,11")
    old = GateKey.load(boot / "key")
    write_public(old.public, boot / "old.pub")
    (boot / "key").unlink()
    GateKey.create(boot / "key")
    base = ("--base", boot / "policy", "--state", "new", "--pcr", "0,7,11")
    refused = make(boot, *base, log="other", out="next", code=2)["error"]
    assert refused["code"] == "boot-policy-format"
    assert "--base-key" in refused["hint"]
    window = make(boot, *base, "--base-key", boot / "old.pub", log="other", out="next")
    assert window["states"][1] == made_policy["states"][0]


def test_a_version_is_never_lowered(boot: Path) -> None:
    make(boot, "--version", 5)
    before = (boot / "policy").read_bytes()
    for version in (4, 5):
        data = make(boot, "--version", version, code=2)
        assert data["error"]["code"] == "boot-policy-version"
        data = make(boot, "--version", version, "--base", boot / "policy", code=2, out="new")
        assert data["error"]["code"] == "boot-policy-version"
    assert (boot / "policy").read_bytes() == before
    assert not (boot / "new").exists()
    assert make(boot)["version"] == 6


def test_pcrs_judged_by_events(boot: Path) -> None:
    data = make(boot, "--pcr", "0,7", "--by-event", "11")
    assert set(data["states"][0]["by_event"]) == {"11"}
    assert "any of 2 events" in run("policy", boot / "policy").stdout


def test_a_boot_that_does_not_replay_is_no_reference(boot: Path) -> None:
    (boot / "pcrs").write_text((boot / "other-pcrs").read_text())
    assert make(boot, "--pcr", "11", code=2)["error"]["code"] == "boot-policy-format"
    assert not (boot / "policy").exists()


def test_values_may_be_held_to_a_quote(boot: Path) -> None:
    values = replay(LOG).computed[banks.SHA256]
    quoted = {pcr: values[pcr] for pcr in (0, 7, 11)}
    (boot / "quote").write_bytes(made.quote(quoted))
    data = make(boot, "--quote", boot / "quote")
    assert set(data["states"][0]["pcrs"]) == {"0", "7", "11"}
    (boot / "quote").write_bytes(made.quote(quoted | {7: bytes(32)}))
    assert make(boot, "--quote", boot / "quote", code=2)["error"]["code"] == "boot-policy-format"


def test_evidence_is_a_reference_and_can_be_explained(boot: Path) -> None:
    (boot / "evidence").write_bytes(forge.Case().evidence())
    fixed = ("--name", "mill", "--key", boot / "key", "--out", boot / "policy")
    data = answer("policy", "make", *fixed, "--evidence", boot / "evidence")
    assert set(data["states"][0]["pcrs"]) == {str(pcr) for pcr in forge.PCRS}
    assert answer("explain", "--evidence", boot / "evidence", "--policy", boot / "policy")["ok"]
    forged = forge.Case(quoted={"pcr_digest": bytes(32)})
    (boot / "evidence").write_bytes(forged.evidence())
    assert answer("policy", "make", *fixed, "--evidence", boot / "evidence", code=2)["ok"] is False


def test_wrong_words_are_usage(boot: Path) -> None:
    fixed = ("policy", "make", "--name", "mill", "--key", boot / "key", "--out", boot / "policy")
    reference = ("--log", boot / "log", "--pcrs", boot / "pcrs")
    for words in (
        (),
        ("--log", boot / "log"),
        (*reference, "--evidence", boot / "log"),
        (*reference, "--pcr", "24"),
        (*reference, "--pcr", "x"),
        (*reference, "--tpm", "vtpm"),
        (*reference, "--base", boot / "nothing"),
    ):
        assert run(*fixed, *words).exit_code == 2, words
    (boot / "pcrs").write_text(json.dumps({"sha1": json.loads((boot / "pcrs").read_text())["sha1"]}))
    assert run(*fixed, *reference).exit_code == 2
    assert not (boot / "policy").exists()
