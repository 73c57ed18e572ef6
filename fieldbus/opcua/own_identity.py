"""Who we are towards servers, and who we are to be next (the rule is in ``renewal``).

Several servers may be talked to with one certificate. Each has a mind of its own: one trusts our next certificate
today, another when somebody comes by. So every client is a *member* of one ``SharedIdentity``, and:

* a member whose server has accepted a session under the next certificate uses that one from then on, and the current
  one where it is refused after all;
* every other member goes on with the current one, and tries the next where the current one has ended or is refused;
* the files change (``Renewal.promote``) when the servers of all members have accepted the next certificate, and not
  before: a restart in between finds both, and asks each server again.

A client that is closed stays a member: its server has not said that it trusts the next certificate.
"""

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
"""Codes after which our next certificate may do where this one does not, or the other way round."""


class SharedIdentity:
    """One certificate of ours for several clients of one event loop; hand it to each as its ``identity``.

    ``look_only``: a next certificate that is there is tried where the current one is refused; none is made, and none
    takes over.
    """

    def __init__(self, current: Identity, renewal: Renewal | None, *, look_only: bool = False) -> None:
        self.current = current
        self.following: Identity | None = None
        self.renewal = renewal
        self.look_only = look_only
        self._members: list[OwnIdentity] = []
        self._accepted: set[OwnIdentity] = set()
        self._one_at_a_time = asyncio.Lock()

    def join(self) -> OwnIdentity:
        """A new member, for one server."""
        member = OwnIdentity(self)
        self._members.append(member)
        return member

    def has_accepted(self, member: OwnIdentity) -> bool:
        """Whether the member's server has accepted a session under the next certificate."""
        return member in self._accepted

    async def look(self) -> None:
        """Read whether a next identity waits. Raises CertificateError."""
        if self.renewal is not None:
            async with self._one_at_a_time:
                self._now_follows(self.renewal.following())

    async def prepare(self) -> Identity | None:
        """The next identity, made if it is time; in a thread, since a new key takes a good part of a second."""
        if self.renewal is not None and not self.look_only:
            async with self._one_at_a_time:
                self._now_follows(await asyncio.to_thread(self.renewal.prepare, self.current))
        return self.following

    async def accepted(self, member: OwnIdentity, identity: Identity) -> None:
        """The member's server has accepted a session under ``identity``; where all have, it is the current one."""
        async with self._one_at_a_time:
            if self.renewal is None or self.following is None or identity != self.following:
                return  # another one follows by now, or it is the current one already
            self._accepted.add(member)
            if len(self._accepted) == len(self._members) and not self.look_only:
                self._promote(self.renewal, self.following)

    def withdraw(self, member: OwnIdentity) -> None:
        """The member's server refuses the next certificate after all."""
        self._accepted.discard(member)

    def _now_follows(self, following: Identity | None) -> None:
        if following != self.following:
            self._accepted.clear()  # what was accepted was another certificate
        self.following = following

    def _promote(self, renewal: Renewal, following: Identity) -> None:
        self._accepted.clear()
        try:
            self.current, self.following = renewal.promote(), None
        except CertificateError as error:
            # It is used all the same; the files stay as they are, and the finding stays.
            self.current = following
            _log.warning("the next certificate cannot take its place: %s", error)
        _log.info("our certificate is now %s", self.current.thumbprint)


class OwnIdentity:
    """One server's view of who we are, without file access but where it says so."""

    def __init__(self, shared: SharedIdentity) -> None:
        self._shared = shared

    @property
    def renewal(self) -> Renewal | None:
        """How the certificate is renewed, if it is."""
        return None if self._shared.look_only else self._shared.renewal

    @property
    def current(self) -> Identity:
        """Who we are towards this server."""
        return self.choices()[0]

    def choices(self) -> tuple[Identity, ...]:
        """The identities to connect as: the second where the first is refused."""
        current, following = self._shared.current, self._shared.following
        if following is None:
            return (current,)
        return (following, current) if self.has_accepted else (current, following)

    @property
    def has_accepted(self) -> bool:
        """Whether this server has accepted our next certificate while others have not."""
        return self._shared.has_accepted(self)

    async def look(self) -> None:
        """As ``SharedIdentity.look``."""
        await self._shared.look()

    async def prepare(self) -> Identity | None:
        """As ``SharedIdentity.prepare``."""
        return await self._shared.prepare()

    async def accepted(self, identity: Identity) -> None:
        """As ``SharedIdentity.accepted``, of this server."""
        await self._shared.accepted(self, identity)

    def refused(self, identity: Identity) -> None:
        """This server refuses ``identity``."""
        if identity == self._shared.following:
            self._shared.withdraw(self)

    @property
    def terms(self) -> tuple[CertificateTerm, ...]:
        """``own`` and ``own-next``: as the files have them."""
        current, following = self._shared.current, self._shared.following
        own = term(current.certificate, label="own")
        return (own,) if following is None else (own, term(following.certificate, label="own-next"))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """``certificate-renewal`` while the next identity waits for this server."""
        following = self._shared.following
        if following is None or self.has_accepted:
            return ()
        text = "the server does not trust our next certificate yet: "
        text += f"{following.certificate_path.name}, SHA-256 {following.thumbprint}"
        return (Finding("certificate-renewal", text),)
