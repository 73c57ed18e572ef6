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
from attest.command.rules import GateRules, InputRule, OutputRule, Relation
from attest.command.state import GateState

__all__ = [
    "CHECKS",
    "Accepted",
    "Command",
    "CommandError",
    "CommandHeader",
    "GateKey",
    "GateRules",
    "GateState",
    "InputRule",
    "Mode",
    "OpenEpoch",
    "OutputRule",
    "ParsedCommand",
    "ProofKind",
    "ProofPolicy",
    "ProofVerifier",
    "ReadBack",
    "Refused",
    "Relation",
    "SessionKey",
    "TimeQuality",
    "judge",
    "parse_command",
    "sign_command",
]
