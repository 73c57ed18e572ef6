"""The types that an appliance is made of: enumerations, latencies, processes, outputs, the event of a refusal."""

from __future__ import annotations

from typing import Final

from asyncua import ua

from attest.command import Mode, ProofKind
from sitsedge.server.model.declare import enumeration, own_type, properties, variable, variables
from sitsedge.server.model.device_integration import FUNCTIONAL_GROUP
from sitsedge.server.model.names import sits, sits_name
from sitsedge.server.model.spec import (
    ANALOG_UNIT_RANGE,
    BOOLEAN,
    DOUBLE,
    DURATION,
    EU_INFORMATION,
    HAS_SUBTYPE,
    OPTIONAL,
    RANGE,
    STRING,
    UA,
    UINT32,
    UINT64,
    UTC_TIME,
    EnumValue,
    Name,
    Node,
    base,
)

LATENCY_TYPE: Final = sits("LatencyType")
PROCESS_TYPE: Final = sits("ProcessType")
COMMAND_REFUSED: Final = sits("CommandRefusedEventType")
OUTPUT_TYPE: Final = sits("OutputType")
OPERATING_MODE: Final = sits("OperatingMode")
PROOF_KIND: Final = sits("ProofKind")
_MODES: Final = {
    Mode.OFF: "Nothing is decided.",
    Mode.SHADOW: "Decides and records; nothing is written.",
    Mode.ADVISORY: "Decides; a person accepts each command.",
    Mode.SUPERVISED: "Writes inside a narrow band, for a limited time.",
    Mode.AUTO: "Writes inside the gate's limits.",
}
_PROOFS: Final = {
    ProofKind.NONE: "No proof.",
    ProofKind.GROTH16_BN254: "Groth16 on BN254, 128 bytes.",
    ProofKind.GROTH16_BLS12_381: "Groth16 on BLS12-381, 192 bytes.",
    ProofKind.COMMITMENT: "SHA-256 of the statement; the proof follows.",
}


def _enumerations() -> list[Node]:
    modes = tuple(EnumValue(int(mode), mode.name, meaning) for mode, meaning in _MODES.items())
    kinds = tuple(EnumValue(int(kind), kind.name, meaning) for kind, meaning in _PROOFS.items())
    return [
        *enumeration(OPERATING_MODE, "OperatingMode", "What may reach the plant without a person, rising.", modes),
        *enumeration(PROOF_KIND, "ProofKind", "What a command carries as its proof.", kinds),
    ]


def _latency() -> list[Node]:
    group = FUNCTIONAL_GROUP
    return [
        own_type("LatencyType", group, "Raw durations of the newest cycles: nothing subtracted, nothing smoothed."),
        *variables(
            "LatencyType",
            ("P50", DURATION, "Half of them took at most this long (ms)."),
            ("P99", DURATION, "99 of 100 took at most this long (ms)."),
        ),
        variable("LatencyType.P999", DURATION, "999 of 1,000 took at most this long (ms).", rule=OPTIONAL),
        variable("LatencyType.Max", DURATION, "The longest one (ms).", rule=OPTIONAL),
    ]


def _process() -> list[Node]:
    return [
        own_type("ProcessType", FUNCTIONAL_GROUP, "One process of the appliance."),
        *variables(
            "ProcessType",
            ("State", STRING, "What it says of itself (running, …), or what is seen from outside: silent, dead."),
            ("Alive", BOOLEAN, "Whether it exists and has spoken lately."),
            ("LastSeen", UTC_TIME, "When it last said something."),
            ("ProcessId", UINT32, "Its process identifier."),
        ),
    ]


def _output() -> list[Node]:
    top = Node(
        OUTPUT_TYPE,
        sits_name("OutputType"),
        ua.NodeClass.VariableType,
        "One output: what was commanded, in physical units, and what the plant made of it.",
        ANALOG_UNIT_RANGE,
        HAS_SUBTYPE,
        data_type=DOUBLE,
    )
    return [
        top,
        *properties(
            "OutputType",
            (Name(UA, "EURange"), RANGE, "The gate's limits."),
            (Name(UA, "EngineeringUnits"), EU_INFORMATION, "Unit of all its values."),
        ),
        *variables(
            "OutputType",
            ("Applied", DOUBLE, "What the gate wrote; Bad_NoData where it wrote nothing."),
            ("ReadBack", DOUBLE, "What the plant showed afterwards; Bad_NoData while nothing was read."),
        ),
    ]


def _events() -> list[Node]:
    """Events are types with properties (OPC 10000-3, 9)."""
    name = "CommandRefusedEventType"
    return [
        own_type(name, base(ua.ObjectIds.SystemEventType), "The gate refused a command."),
        *properties(
            name,
            (sits_name("Code"), STRING, "The rule that was broken."),
            (sits_name("Found"), STRING, "What was found."),
            (sits_name("Expected"), STRING, "What was expected."),
            (sits_name("Epoch"), UINT64, "Epoch that the command claimed; 0 where it could not be read."),
            (sits_name("Sequence"), UINT64, "Number that the command claimed; 0 where it could not be read."),
            (sits_name("LedgerIndex"), UINT64, "Where the record is in the gate's ledger: what FetchRecord takes."),
        ),
    ]


def part_types() -> list[Node]:
    """All of them, parents before children."""
    return [*_enumerations(), *_latency(), *_process(), *_output(), *_events()]
