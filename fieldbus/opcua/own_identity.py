"""Who we are towards one server, and who we are to be next (the rule is in ``renewal``)."""

from __future__ import annotations

import asyncio
import logging

from fieldbus.opcua.certificates import CertificateTerm, Identity, term
from fieldbus.opcua.errors import CertificateError
from fieldbus.opcua.findings import Finding
from fieldbus.opcua.renewal import Renewal

_log = logging.getLogger(__name__)

REFUSED_CERTIFICATE = frozenset(
    {"certificate-expired", "certificate-invalid", "untrusted-certificate", "security-checks-failed"}
)
"""Codes after which our next certificate may do where this one does not."""


class OwnIdentity:
    """The current identity and the one that waits for the server's trust, without file access but where it says so."""

    def __init__(self, current: Identity, renewal: Renewal | None) -> None:
        self.current = current
        self.following: Identity | None = None
        self._renewal = renewal

    def look(self) -> None:
        """Read whether a next identity waits. Raises CertificateError."""
        if self._renewal is not None:
            self.following = self._renewal.following()

    async def prepare(self) -> Identity | None:
        """The next identity, made if it is time; in a thread, since a new key takes a good part of a second."""
        if self._renewal is not None:
            self.following = await asyncio.to_thread(self._renewal.prepare, self.current)
        return self.following

    def promote(self) -> None:
        """The server has accepted a session under the next identity: it is the current one from now on."""
        following, renewal = self.following, self._renewal
        if renewal is None or following is None:
            return
        try:
            self.current, self.following = renewal.promote(), None
        except CertificateError as error:
            # It is used all the same; the files stay as they are, and the finding stays.
            self.current = following
            _log.warning("the next certificate cannot take its place: %s", error)
        _log.info("our certificate is now %s", self.current.thumbprint)

    @property
    def terms(self) -> tuple[CertificateTerm, ...]:
        """``own`` and ``own-next``."""
        own = term(self.current.certificate, label="own")
        return (own,) if self.following is None else (own, term(self.following.certificate, label="own-next"))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """``certificate-renewal`` while the next identity waits."""
        if self.following is None:
            return ()
        text = "the server does not trust our next certificate yet: "
        text += f"{self.following.certificate_path.name}, SHA-256 {self.following.thumbprint}"
        return (Finding("certificate-renewal", text),)
