"""docs/opcua-server.md names what is there: nodes, methods with their arguments, status codes, fields of the event."""

from __future__ import annotations

import re
from pathlib import Path

from asyncua import ua

from sitsedge.server.model.appliance import appliance_types
from sitsedge.server.model.device_integration import device_integration
from sitsedge.server.model.machines import machines
from sitsedge.server.model.names import SITS
from sitsedge.server.model.nodeset import FILE_NAME
from sitsedge.server.model.view import Health

PAGE = (Path(__file__).resolve().parents[4] / "docs" / "opcua-server.md").read_text(encoding="utf-8")
NODES = [*device_integration(), *machines(), *appliance_types()]
NAMES = {node.name.text for node in NODES}


def test_every_name_of_the_tree_is_a_browse_name() -> None:
    tree = PAGE.split("```")[1]
    lines = [line.split("├─ ")[-1].split("└─ ")[-1] for line in tree.splitlines() if "─ " in line]
    names = [re.sub(r"^\d:", "", word) for line in lines for word in re.split(r"\s{2,}", line)[0].split(", ")]
    shown = [name for name in names if not name.startswith("<")]
    assert len(shown) > 25
    assert set(shown) <= NAMES


def test_methods_have_the_arguments_that_the_table_says() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([^|]*) \| ([^|]*) \|$", PAGE, re.MULTILINE)
    methods = {"FetchRecord", "FetchProof", "StepDown"}
    rows = [row for row in rows if row[0] in methods]  # another table of three columns tells of the alarms
    assert {row[0] for row in rows} == methods
    for name, *columns in rows:
        for column, kind in zip(columns, ("InputArguments", "OutputArguments"), strict=True):
            path = f"ApplianceType.{name}.{kind}"
            (node,) = [node for node in NODES if node.id.identifier == path and node.id.namespace == SITS]
            words = re.sub(r"\([^)]*\)", "", column).split(";")[0].split(",")
            assert [word.strip() for word in words] == [argument.name for argument in node.arguments]


def test_status_codes_exist() -> None:
    codes = re.findall(r"\b((?:Bad|Uncertain)_\w+)", PAGE)
    assert len(codes) > 4
    assert all(hasattr(ua.StatusCodes, code.replace("_", "")) for code in codes)


def test_namespace_file_event_and_health_are_as_said() -> None:
    assert f"`{SITS}`" in PAGE
    assert FILE_NAME in PAGE
    fields = re.search(r"`CommandRefusedEventType` \(([^:]*):", PAGE)
    assert fields is not None
    event = "CommandRefusedEventType."
    own = [str(node.id.identifier).removeprefix(event) for node in NODES if str(node.id.identifier).startswith(event)]
    assert fields[1].split(", ") == own
    assert all(health.name in PAGE for health in Health)
