"""Renewal of our own certificate without losing the old one until every server trusts the new one.

Files of identity NAME: ``NAME.der`` and ``NAME.key.pem``. The rule:

1. ``days_before`` its end, a next certificate is made beside it: ``NAME.next.der``, under the same key, or with
   ``new_key`` under ``NAME.next.key.pem``. A person (or the server's own enrolment) has the server trust it.
2. Connections go on with the current certificate. Every ``probe_s``, and whenever the current one has ended or is
   refused, a session is tried under the next one.
3. Only when such a session was accepted the next one takes the current one's name; the current one stays as
   ``NAME.previous.der`` (and key) until the renewal after this one. With several servers: when each has accepted one
   (``own_identity``).

Step 3 is a rename, key first. Where power is lost between key and certificate, ``recover`` finds a key that belongs to
the next certificate and finishes the step.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fieldbus.opcua.certificates import (
    Identity,
    create_identity,
    issue,
    load_certificate,
    load_identity,
    parse_key,
    read_key,
)
from fieldbus.opcua.errors import CertificateError


@dataclass(frozen=True, slots=True)
class Renewal:
    """Where an identity lies and how it is renewed. ``hosts``: as for ``create_identity``."""

    directory: Path
    name: str
    days_before: int = 60
    days: int = 730
    new_key: bool = False
    probe_s: float = 3_600.0
    hosts: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not (0 < self.days_before < self.days and self.probe_s > 0):
            raise ValueError("a certificate is renewed after it begins and before it ends")

    def load(self) -> Identity:
        """The current identity, after a ``recover``. Raises as ``load_identity``."""
        self.recover()
        return load_identity(self._certificate, self._key)

    def following(self) -> Identity | None:
        """The next identity, if one is waiting. Raises as ``load_identity``."""
        if not self._next_certificate.exists():
            return None
        key = self._next_key if self._next_key.exists() else self._key
        return load_identity(self._next_certificate, key, quick=True)

    def prepare(self, current: Identity, *, now: dt.datetime | None = None) -> Identity | None:
        """Rule 1: the next identity, made if it is time; None before. Raises CertificateError."""
        waiting = self.following()
        if waiting is not None:
            return waiting
        now = now if now is not None else dt.datetime.now(dt.UTC)
        if current.certificate.not_valid_after_utc - now > dt.timedelta(days=self.days_before):
            return None
        if self.new_key:
            self._next_key.unlink(missing_ok=True)  # left over from a preparation that did not get to its certificate
            return create_identity(
                self.directory,
                f"{self.name}.next",
                application_uri=current.application_uri,
                hosts=self.hosts,
                days=self.days,
                not_before=None,
            )
        key = parse_key(read_key(self._key), label=str(self._key), quick=True)
        return issue(
            key,
            self._key,
            self._next_certificate,
            current.application_uri,
            name=self.name,
            hosts=self.hosts,
            days=self.days,
        )

    def promote(self) -> Identity:
        """Rule 3: the next identity becomes the current one. Raises CertificateError ``file-unwritable``."""
        try:
            _keep(self._certificate, self._file("previous.der"))
            if self._next_key.exists():
                _keep(self._key, self._file("previous.key.pem"))
                self._next_key.replace(self._key)
            self._next_certificate.replace(self._certificate)
            _sync(self.directory)
        except OSError as error:
            raise CertificateError(
                "file-unwritable", found=f"{self.directory}: {error.strerror}", expected="a writable folder"
            ) from error
        return load_identity(self._certificate, self._key, quick=True)

    def recover(self) -> bool:
        """Finish a promotion that was cut off between key and certificate; True if there was one."""
        if self._next_key.exists() or not self._next_certificate.exists():
            return False
        key = parse_key(read_key(self._key), label=str(self._key)).public_key()
        if load_certificate(self._certificate).public_key() == key:
            return False  # the next certificate is for the same key, and waits
        if load_certificate(self._next_certificate).public_key() != key:
            return False
        self.promote()
        return True

    def _file(self, ending: str) -> Path:
        return self.directory / f"{self.name}.{ending}"

    @property
    def _certificate(self) -> Path:
        return self._file("der")

    @property
    def _key(self) -> Path:
        return self._file("key.pem")

    @property
    def _next_certificate(self) -> Path:
        return self._file("next.der")

    @property
    def _next_key(self) -> Path:
        return self._file("next.key.pem")


def _keep(path: Path, previous: Path) -> None:
    """The file under a second name, which replaces an older one."""
    previous.unlink(missing_ok=True)
    os.link(path, previous)


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
