"""The state folder of one deployment: the only place where the appliance keeps anything."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from sitsedge.config import Deployment
from sitsedge.errors import SitsError

UNIX_PATH_MAX = 107  # sun_path of unix(7), without the closing zero
MARK_BYTES_MAX = 500  # one line for people
FOLDERS = (
    "pki",
    "keys",
    "trust",
    "modules",
    "tpm",
    "ledger/device",
    "ledger/gate",
    "ledger/anchors",
    "proofs",
    "server",
    "run",
    "logs",
)


@dataclass(frozen=True, slots=True)
class StateDir:
    """Paths below one state folder."""

    root: Path

    @property
    def pki(self) -> Path:
        return self.root / "pki"

    @property
    def keys(self) -> Path:
        return self.root / "keys"

    @property
    def trust(self) -> Path:
        return self.root / "trust"

    @property
    def modules(self) -> Path:
        return self.root / "modules"

    @property
    def tpm(self) -> Path:
        return self.root / "tpm"

    @property
    def ledger(self) -> Path:
        return self.root / "ledger"

    @property
    def device_ledger(self) -> Path:
        return self.ledger / "device" / "ledger.db"

    @property
    def gate_ledger(self) -> Path:
        return self.ledger / "gate" / "ledger.db"

    @property
    def anchors(self) -> Path:
        return self.ledger / "anchors"

    @property
    def proof_queue(self) -> Path:
        return self.root / "proofs" / "queue.db"

    @property
    def server(self) -> Path:
        """What the appliance's own OPC UA server keeps: its users, and what was acknowledged."""
        return self.root / "server"

    @property
    def users(self) -> Path:
        """Its book of users, where the deployment names no other."""
        return self.server / "users.json"

    @property
    def appliance_trusted(self) -> Path:
        """Applications that may connect to it, where the deployment names no other folder."""
        return self.pki / "appliance-trusted"

    @property
    def run(self) -> Path:
        return self.root / "run"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def gate_socket(self) -> Path:
        return self.run / "gate.sock"

    @property
    def gate_control(self) -> Path:
        return self.run / "gate-control.sock"

    @property
    def attestation_failed(self) -> Path:
        """Exists after a failed ``--verify-on-boot`` until a later one succeeds; holds the reason."""
        return self.run / "attestation-failed"

    @property
    def tpm_restarting(self) -> Path:
        """Exists while a simulated TPM is restarted and not yet measured: what it would quote is nobody's boot."""
        return self.run / "tpm-restarting"

    @property
    def replay_mark(self) -> Path:
        """What the loop has seen of protected messages: so that none of them counts again after a restart."""
        return self.root / "replay-mark.json"

    @property
    def event_log(self) -> Path:
        return self.tpm / "event-log.bin"

    def create(self) -> None:
        """Make the folders, readable by this user only. Raises :class:`SitsError` ``state-dir``."""
        longest = str(self.gate_control.resolve())
        if len(longest.encode()) > UNIX_PATH_MAX:
            raise SitsError(
                "state-dir",
                found=f"a state folder whose socket path has {len(longest)} bytes",
                expected=f"at most {UNIX_PATH_MAX}",
                hint="choose a shorter --state-dir",
            )
        try:
            for name in FOLDERS:
                (self.root / name).mkdir(parents=True, exist_ok=True, mode=0o700)
            self.root.chmod(0o700)
        except OSError as error:
            raise SitsError(
                "state-dir",
                found=f"{self.root}: {error.strerror}",
                expected="a folder this user can write",
                hint="choose another one with --state-dir",
            ) from error


def read_mark(path: Path) -> str | None:
    """The text of a mark, ``None`` where there is none; one that cannot be read still counts."""
    try:
        return path.read_bytes()[:MARK_BYTES_MAX].decode(errors="replace") or "no reason given"
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"unreadable mark: {error.strerror}"


def deferred_lane(deployment: Deployment, state: StateDir) -> bool:
    """Whether this deployment proves beside the loop, or an earlier one left proofs owed in the queue."""
    return deployment.cycle.proof == "deferred" or state.proof_queue.exists()


def state_dir_of(deployment: Deployment, override: Path | None) -> StateDir:
    """``override``, else ``SITS_STATE_DIR``, else the place for the profile: /var/lib/sits or the user's own."""
    if override is not None:
        return StateDir(override.absolute())
    if base := os.environ.get("SITS_STATE_DIR"):
        return StateDir(Path(base).absolute() / deployment.name)
    if deployment.profile == "production":
        return StateDir(Path("/var/lib/sits") / deployment.name)
    home = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    return StateDir(home / "sits" / deployment.name)
