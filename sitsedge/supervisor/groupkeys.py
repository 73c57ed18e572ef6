"""Where the keys of a secured UADP source are, and the ones a development profile makes for its own simulated plant."""

from __future__ import annotations

import os
from pathlib import Path

from fieldbus.uadp import KeyKeeper, SecurityMode, SecurityPolicy, make_keys, read_key_file, write_key_file
from fieldbus.uadp.keyfile import POLICIES
from sitsedge.config import Deployment
from sitsedge.config.sources import UadpPublisher
from sitsedge.config.uadp import UadpSecurity
from sitsedge.errors import SitsError
from sitsedge.supervisor.state import StateDir

CREDENTIALS_DIRECTORY = "CREDENTIALS_DIRECTORY"
MODES = {"sign": SecurityMode.SIGN, "sign-encrypt": SecurityMode.SIGN_AND_ENCRYPT}


def policy_of(security: UadpSecurity) -> SecurityPolicy:
    """The codec's policy of that name."""
    return POLICIES[security.policy]


def security_of(deployment: Deployment) -> UadpSecurity | None:
    """The message security of the deployment's publisher, where it has one."""
    return deployment.source.security if isinstance(deployment.source, UadpPublisher) else None


def key_path(security: UadpSecurity, state: StateDir) -> Path:
    """The key file: below the state folder's ``keys`` unless absolute, or the systemd credential of that name.

    Raises :class:`SitsError` ``no-credential`` where the service was given no credentials.
    """
    if security.keys is not None:
        return state.keys / security.keys
    assert security.credential is not None
    folder = os.environ.get(CREDENTIALS_DIRECTORY)
    if not folder:
        raise SitsError(
            "no-credential",
            found=f"no {CREDENTIALS_DIRECTORY}",
            expected=f"the credential {security.credential}",
            hint="LoadCredential= or LoadCredentialEncrypted= in the unit",
        )
    return Path(folder) / security.credential


def open_keeper(security: UadpSecurity, state: StateDir, *, now_ns: int) -> KeyKeeper:
    """The keys, followed from now on. Raises :class:`SitsError` and ``SecurityError`` of the key file."""
    return KeyKeeper(
        key_path(security, state),
        group=security.group,
        policy=policy_of(security),
        now_ns=now_ns,
        overlap_s=security.overlap_s,
        credential=security.credential is not None,
    )


def ensure_group_keys(deployment: Deployment, state: StateDir, *, now_ns: int) -> None:
    """Check the key file before anything starts. Only the keys of a simulated plant are made here: fresh ones at every
    start, because it counts its nonces from 1 again.

    Raises :class:`SitsError` and ``SecurityError`` of the key file.
    """
    security = security_of(deployment)
    if security is None:
        return
    path = key_path(security, state)
    if deployment.simulation is not None:
        made = make_keys(security.group, policy_of(security), first_token_id=_next_token(path))
        write_key_file(path, made)
        made.erase()
    open_keeper(security, state, now_ns=now_ns).erase()


def _next_token(path: Path) -> int:
    if not path.exists():
        return 1
    before = read_key_file(path)
    before.erase()
    return before.first_token_id + len(before.keys)
