"""What a deployment says of its UADP publisher: name, form of the messages, message security; one test a rule."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from fieldbus.net import ReceivedFrame
from fieldbus.uadp import BuiltinType, FieldEncoding, LayoutWriter, PublisherId, PublisherIdType
from sitsedge.config import ConfigError, Deployment, load_deployment
from sitsedge.config.uadp import MessageForm
from sitsedge.loop.ingest import Ingest, layout_of
from tests.sitsedge.conftest import replace

SECURITY = "security: {mode: sign, policy: PubSub-Aes128-CTR, group: mill, keys: mill.keys}"
RAW = "message: {encoding: raw, group_version: 7}"


def changed(mill: Path, *lines: str, simulated: bool = False, production: bool = False) -> Deployment:
    """The example with more lines in its source."""
    text = mill.read_text(encoding="utf-8").replace("  fields:", "".join(f"  {line}\n" for line in lines) + "  fields:")
    if not simulated:
        text = text[: text.index("simulation:")]
    if production:
        text = text.replace("profile: development", "profile: production").replace("allow_simulated: true", "ima: true")
    mill.write_text(text, encoding="utf-8")
    return load_deployment(mill)


REFUSED = {
    "mode": (SECURITY.replace("mode: sign", "mode: none"),),
    "policy": (SECURITY.replace("Aes128", "Aes192"),),
    "group-with-a-space": (SECURITY.replace("group: mill", "group: 'a mill'"),),
    "keys-nowhere": (SECURITY.replace(", keys: mill.keys", ""),),
    "keys-in-two-places": (SECURITY.replace("keys:", "credential: mill, keys:"),),
    "credential-that-is-a-path": (SECURITY.replace("keys: mill.keys", "credential: ../mill"),),
    "overlap-without-end": (SECURITY.replace("group", "overlap_s: .inf, group"),),
    "secured-and-excused": (SECURITY, "unsecured_because: the cable is short"),
    "excuse-too-short": ("unsecured_because: none",),
    "raw-without-a-version": ("message: {encoding: raw}",),
    "receive-time-unsecured": ("message: {source_time: receive}",),
    "receive-time-with-random-nonces": (
        "message: {source_time: receive}", SECURITY.replace("keys:", "nonces: random, keys:"),
    ),
    "unknown-encoding": ("message: {encoding: json}",),
}  # fmt: skip


@pytest.mark.parametrize("rule", REFUSED)
def test_refused(mill: Path, rule: str) -> None:
    with pytest.raises(ConfigError):
        changed(mill, *REFUSED[rule])


@pytest.mark.parametrize("field", ["{name: roll_force_dev, type: string, unused: true}", "{name: x, unused: true}"])
def test_a_name_twice_and_an_unused_field_without_its_type_are_refused(mill: Path, field: str) -> None:
    text = mill.read_text(encoding="utf-8")
    mill.write_text(text.replace("    - {name: entry_th", f"    - {field}\n    - {{name: entry_th"), encoding="utf-8")
    with pytest.raises(ConfigError):
        changed(mill)


@pytest.mark.parametrize(
    "publisher", ["{type: byte, value: 256}", "{type: uint32, value: four}", "{type: string, value: 4}", "70000", "{}"]
)
def test_a_publisher_id_that_does_not_fit_its_type_is_refused(mill: Path, publisher: str) -> None:
    replace(mill, "publisher_id: 1001", f"publisher_id: {publisher}")
    with pytest.raises(ConfigError):
        changed(mill)


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("2201", PublisherIdType.UINT16, 2201),
        ("{type: byte, value: 7}", PublisherIdType.BYTE, 7),
        ("{type: uint32, value: 70000}", PublisherIdType.UINT32, 70_000),
        ("{type: uint64, value: 18446744073709551615}", PublisherIdType.UINT64, 2**64 - 1),
        ("{type: string, value: stand-4}", PublisherIdType.STRING, "stand-4"),
    ],
)
def test_a_publisher_id_of_any_type(mill: Path, text: str, kind: PublisherIdType, value: int | str) -> None:
    replace(mill, "publisher_id: 1001", f"publisher_id: {text}")
    assert layout_of(changed(mill)).publisher == PublisherId(kind, value)


def test_the_form_of_the_messages_is_that_of_the_layout(mill: Path) -> None:
    replace(mill, "unit: MN}", "unit: MN, type: float}")
    form = "{encoding: raw, config_version: {major: 3, minor: 4}, group_version: 9, fixed: true, source_time: receive}"
    layout = layout_of(changed(mill, f"message: {form}", SECURITY))
    assert layout.fields[2] == ("roll_force_dev", BuiltinType.FLOAT)
    assert {kind for _, kind in layout.fields} == {BuiltinType.DOUBLE, BuiltinType.FLOAT}
    assert (layout.encoding, layout.config_version, layout.group_version) == (FieldEncoding.RAW, (3, 4), 9)
    assert layout.fixed
    assert layout.receive_time


def test_fields_that_are_no_inputs_and_inputs_in_another_order(mill: Path) -> None:
    original = mill.read_text(encoding="utf-8")
    extra = "- {name: state, type: string, unused: true}"
    mill.write_text(original.replace("    - {name: entry_th", f"    {extra}\n    - {{name: entry_th"), encoding="utf-8")
    names = re.findall(r"- {name: (\w+), unit", original)
    turned = ", ".join(reversed(names))
    deployment = changed(mill, f"order: [{turned}]")
    assert list(deployment.field_names) == names[::-1]
    assert next(iter(deployment.source.dataset())).key == f"source.fields.{len(names)}"
    layout = layout_of(deployment)
    assert layout.fields[0] == ("state", BuiltinType.STRING)
    writer = LayoutWriter(layout)
    data = writer.write(t_source_ns=time.time_ns(), values=("rolling", *map(float, range(len(names)))))
    sample = Ingest(deployment).decode(ReceivedFrame(data, time.time_ns(), "kernel", 0, ("127.0.0.1", 1)))
    assert sample.values == tuple(map(float, reversed(range(len(names)))))
    bad = writer.write(
        t_source_ns=time.time_ns(), values=(None, *sample.values), field_status=(0x8000_0000, *[0] * len(names))
    )
    assert not Ingest(deployment).decode(ReceivedFrame(bad, time.time_ns(), "kernel", 0, ("127.0.0.1", 1))).good
    for lines in (("order: [state]",), (f"order: [{turned}, {names[0]}]",)):
        mill.write_text(original, encoding="utf-8")
        with pytest.raises(ConfigError, match="order"):
            changed(mill, *lines)


def test_nothing_said_is_an_ordinary_message(mill: Path) -> None:
    source = changed(mill).source
    assert getattr(source, "message") == MessageForm()  # noqa: B009 - of a union
    layout = layout_of(load_deployment(mill))
    assert not layout.fixed
    assert not layout.receive_time


@pytest.mark.parametrize(
    "lines", [(RAW,), (SECURITY.replace("keys: mill.keys", "credential: mill"),), ("message: {fixed: true}",)]
)
def test_the_simulated_mill_sends_in_its_own_form_alone(mill: Path, lines: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match="simulated mill"):
        changed(mill, *lines, simulated=True)


def test_production_demands_message_security_or_a_reason(mill: Path, tmp_path: Path) -> None:
    original = mill.read_text(encoding="utf-8")
    with pytest.raises(ConfigError, match="unsecured_because"):
        changed(mill, production=True)
    for lines in ((SECURITY,), ("unsecured_because: a cable of two metres in one cabinet",)):
        mill.write_text(original, encoding="utf-8")
        assert changed(mill, *lines, production=True).profile == "production"
