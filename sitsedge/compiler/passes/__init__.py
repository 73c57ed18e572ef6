"""Passes over the float graph: each keeps what the network computes, and is checked on random inputs every time."""

from __future__ import annotations

from sitsedge.compiler.passes.runner import Pass, PassCount, PassError, multiplications, require_known, simplify

__all__ = ["Pass", "PassCount", "PassError", "multiplications", "require_known", "simplify"]
