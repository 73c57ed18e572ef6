"""What can go wrong between us and a TPM, told apart by what the caller can do about it."""

from __future__ import annotations

from attest.errors import AttestError


class TpmError(AttestError):
    """The TPM answered with a refusal, or was asked for something it cannot do."""


class TpmMissing(TpmError):
    """There is no TPM to talk to: not installed, not allowed, or no permission."""


class TpmLost(TpmError):
    """The connection broke or the context is unusable; the next call opens a fresh one."""


class TpmDeadline(TpmLost):
    """The TPM did not answer in time; the next call opens a fresh context."""


class TpmBusy(TpmError):
    """The TPM asked to be asked again later, several times. Code ``tpm-busy``; the command was not carried out."""


class TpmFull(TpmError):
    """No room for another object, session or index. Code ``tpm-full``; the next call starts with empty slots."""


class TpmLockout(TpmError):
    """Too many wrong passwords. Code ``tpm-lockout``; keys without dictionary-attack protection, as ours, go on."""


class TpmFailed(TpmError):
    """The TPM says it failed: this command alone, or all until it is restarted. Code ``tpm-failure``."""


class SealError(TpmError):
    """A sealed key or secret stays closed.

    Codes, in the order of the checks: ``seal-approvals`` (none), ``seal-authority`` (signed by another authority),
    ``seal-device`` (made for another device), ``seal-use`` (for signing, not unsealing, or the other way round),
    ``seal-counter`` (names another counter), ``seal-stale`` (withdrawn by a later generation), ``seal-state`` (this
    is not the approved boot state), ``seal-signature`` (the approval was changed).
    Of a secret: ``seal-secret`` (sealed by another TPM, or changed), ``seal-size`` (too long).
    Of a file: ``seal-file`` (no approval, target or sealed secret), ``seal-pcrs`` (fixes no boot state),
    ``seal-key-file`` (no key, or one that others can read).
    """
