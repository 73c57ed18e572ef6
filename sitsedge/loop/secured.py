"""The protected messages of the deployment's publisher: reader, keys, and what is remembered over a restart."""

from __future__ import annotations

import logging
from pathlib import Path

from attest import jsontext
from fieldbus.uadp import PublisherId, ReplayMark, SecureReader
from sitsedge.config import Deployment
from sitsedge.loop.ingest import layout_of
from sitsedge.supervisor.groupkeys import MODES, open_keeper, security_of
from sitsedge.supervisor.state import StateDir

FORGED_MAX = 16
"""Frames waiting at once of which the newest authentic one is looked for: a tenth of a millisecond of forgeries."""

SAVE_NS = 5_000_000_000
"""How much of what was seen a power cut may make forgotten. Times in the messages bound what can be replayed then."""

MARK_BYTES_MAX = 4_096
UINT32_MAX = 2**32 - 1
log = logging.getLogger("sitsedge.loop")


class Secured:
    """Reader and keys of one security group; for the loop's thread."""

    def __init__(self, deployment: Deployment, state: StateDir, *, now_ns: int) -> None:
        """Raises ``SitsError`` and ``SecurityError`` where the keys cannot be read."""
        security = security_of(deployment)
        assert security is not None
        self._group = security.group
        self._path = state.replay_mark
        self._publisher: PublisherId = layout_of(deployment).publisher
        self._mode = security.mode
        self._keeper = open_keeper(security, state, now_ns=now_ns)
        self.reader = SecureReader(self._keeper.ring, MODES[security.mode], counted_nonces=security.nonces == "counted")
        self._remembered = read_mark(self._path, self._group)
        if self._remembered is not None:
            self.reader.resume(self._remembered, self._publisher)
        self._saved_ns = now_ns

    @classmethod
    def of(cls, deployment: Deployment, state: StateDir, *, now_ns: int) -> Secured | None:
        """None for a deployment whose source has no message security."""
        return None if security_of(deployment) is None else cls(deployment, state, now_ns=now_ns)

    def poll(self, now_ns: int) -> None:
        """Follow the key file and the clock, and now and then write down what was seen."""
        for event in self._keeper.poll(now_ns, used_token=self.reader.current_token):
            bad = event.code in ("keys-unread", "keys-expired")
            log.log(logging.ERROR if bad else logging.INFO, "%s: %s", event.code, event.text)
        if not 0 <= now_ns - self._saved_ns < SAVE_NS:
            self._save(now_ns)

    def summary(self) -> dict[str, object]:
        """Plain data for the snapshot."""
        return {"mode": self._mode, **self._keeper.summary()}

    def close(self, now_ns: int) -> None:
        """Write down what was seen and erase the keys."""
        self._save(now_ns)
        self._keeper.erase()

    def _save(self, now_ns: int) -> None:
        self._saved_ns = now_ns
        mark = self.reader.mark(self._publisher)
        if mark == self._remembered:
            return
        try:
            write_mark(self._path, self._group, mark)
        except OSError as error:
            log.warning("what came in is not remembered over a restart: %s", error)
        else:
            self._remembered = mark


def write_mark(path: Path, group: str, mark: ReplayMark) -> None:
    """Replace the file; raises OSError. Not forced to the disk: the loop does not wait for disks."""
    body = {
        "group": group,
        "oldest": mark.oldest,
        "current": mark.current_token,
        "tops": {str(token): top for token, top in mark.tops},
    }
    part = path.with_name(f".{path.name}.part")
    part.write_text(jsontext.dumps(body), encoding="utf-8")
    part.replace(path)


def read_mark(path: Path, group: str) -> ReplayMark | None:
    """What an earlier loop wrote of this group; None where nothing is known (the log says why)."""
    try:
        with path.open("rb") as file:
            body = jsontext.loads(file.read(MARK_BYTES_MAX))
        if body["group"] != group:
            log.warning("what came in before was of another security group: nothing of it is remembered")
            return None
        tops = tuple((_uint32(int(token)), _uint32(top)) for token, top in body["tops"].items())
        return ReplayMark(_uint32(body["oldest"]), _uint32(body["current"]), tops)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        log.warning("what came in before this start is not known (%s: %s)", path.name, type(error).__name__)
        return None


def _uint32(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= UINT32_MAX:
        raise ValueError("not a UInt32")
    return value
