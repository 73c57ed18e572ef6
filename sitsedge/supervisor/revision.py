"""Anti-rollback of deployments: a file's ``revision`` against a counter in the TPM that only goes up.

Whoever owns the disk can put an older deployment file back, with everything that belongs to it; the counter does not
follow. It moves to a file's revision when that deployment is started, after everything about it was checked, so that
one with faults locks nobody out. A simulated TPM keeps its counter on the same disk: it shows the protocol and protects
nothing.
"""

from __future__ import annotations

from attest.tpm import TpmDevice, TpmError
from attest.tpm.counters import MAX_ADVANCE
from sitsedge.config import Deployment
from sitsedge.errors import SitsError


def check_revision(tpm: TpmDevice, deployment: Deployment) -> None:
    """Refuse a deployment older than the newest that ran here. Raises :class:`SitsError`, or ``TpmError``.

    Codes: ``deployment-rollback`` (an older revision, or none where there was one before), ``deployment-revision`` (one
    too far ahead to count up to).
    """
    newest = _newest(tpm)
    revision = deployment.revision
    if revision is None:
        if newest is not None:
            raise SitsError(
                "deployment-rollback",
                found="a deployment file without 'revision'",
                expected=f"revision {newest} or more: one has run on this machine",
            )
        return
    if newest is None:
        newest = tpm.deployment_counter.create()  # a TPM begins above every counter it ever had
        hint = f"the counter of this TPM begins at {newest}: begin with that revision"
    else:
        hint = "an older file was put back; to return to it on purpose, give its text a new revision"
    if revision < newest:
        raise SitsError("deployment-rollback", found=f"revision {revision}", expected=f"{newest} or more", hint=hint)
    if revision - newest > MAX_ADVANCE:
        raise SitsError(
            "deployment-revision", found=f"revision {revision}", expected=f"{newest} to {newest + MAX_ADVANCE}"
        )


def commit_revision(tpm: TpmDevice, deployment: Deployment) -> None:
    """This deployment is started: older ones are refused from now on. Raises ``TpmError``."""
    if deployment.revision is not None:
        tpm.deployment_counter.advance_to(deployment.revision)


def _newest(tpm: TpmDevice) -> int | None:
    try:
        return tpm.deployment_counter.value()
    except TpmError as error:
        if error.code != "tpm-counter":
            raise
        return None
