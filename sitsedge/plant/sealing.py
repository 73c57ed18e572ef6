"""The simulated PLC's side of message security: it seals what it publishes under the current key of the key file."""

from __future__ import annotations

import time
from pathlib import Path

from fieldbus.uadp import KeyKeeper, SecureWriter, SecurityError
from sitsedge.config.uadp import UadpSecurity
from sitsedge.supervisor.groupkeys import MODES, policy_of


class Sealing:
    """Keys and writer of one publisher; for the plant's thread."""

    def __init__(self, security: UadpSecurity, base: Path) -> None:
        """``base``: where a relative key file is. Raises ``SecurityError`` of the key file, or ``keys-expired``."""
        assert security.keys is not None
        self._keeper = KeyKeeper(
            base / security.keys, group=security.group, policy=policy_of(security), now_ns=time.time_ns()
        )
        token_id = self._keeper.current
        if token_id is None:
            raise SecurityError("keys-expired", found="no key that is valid now", expected="a newer key file")
        self._token_id = token_id
        self.writer = SecureWriter(self._keeper.ring, MODES[security.mode], token_id)

    def follow(self, now_ns: int) -> None:
        """Change to the key that is current now; without one the old key serves until the keeper erases it."""
        self._keeper.poll(now_ns, used_token=self._token_id)
        current = self._keeper.current
        if current is not None and current > self._token_id:
            self.writer.rotate(current)
            self._token_id = current

    def close(self) -> None:
        """Erase the keys."""
        self._keeper.erase()
