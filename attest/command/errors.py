"""Errors of commands, gate rules and records."""

from __future__ import annotations

from attest.errors import AttestError


class CommandError(AttestError):
    """A command or record that cannot be made, parsed or authenticated.

    Codes: ``malformed``, ``gate-id``, ``signature``, ``key-erased``, ``key-file``, ``unknown-record``.
    """
