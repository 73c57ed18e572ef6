"""Signed commands, the gate's judgement of them, and the records both sides sign."""

from attest.command.command import (
    Command,
    CommandHeader,
    ParsedCommand,
    parse_command,
    sign_command,
)
from attest.command.enums import Mode, ProofKind, ProofPolicy, ReadBack, TimeQuality
from attest.command.errors import CommandError
from attest.command.judge import CHECKS, Accepted, OpenEpoch, ProofVerifier, Refused, judge
from attest.command.keys import GateKey, SessionKey
from attest.command.records import (
    RECORDS,
    Alarm,
    CycleRefused,
    EpochClosed,
    EpochOpened,
    EpochRefused,
    LateProof,
    LedgerClosed,
    ModeChange,
    ParsedRecord,
    Receipt,
    Record,
    Refusal,
    Witness,
    line,
    parse_record,
    sign_record,
)
from attest.command.rules import GateRules, InputRule, OutputRule, Relation
from attest.command.state import GateState

__all__ = [
    "CHECKS",
    "RECORDS",
    "Accepted",
    "Alarm",
    "Command",
    "CommandError",
    "CommandHeader",
    "CycleRefused",
    "EpochClosed",
    "EpochOpened",
    "EpochRefused",
    "GateKey",
    "GateRules",
    "GateState",
    "InputRule",
    "LateProof",
    "LedgerClosed",
    "Mode",
    "ModeChange",
    "OpenEpoch",
    "OutputRule",
    "ParsedCommand",
    "ParsedRecord",
    "ProofKind",
    "ProofPolicy",
    "ProofVerifier",
    "ReadBack",
    "Receipt",
    "Record",
    "Refusal",
    "Refused",
    "Relation",
    "SessionKey",
    "TimeQuality",
    "Witness",
    "judge",
    "line",
    "parse_command",
    "parse_record",
    "sign_command",
    "sign_record",
]
