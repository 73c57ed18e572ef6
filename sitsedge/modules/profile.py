"""What a profile demands of a module."""

from __future__ import annotations

from sitsedge.errors import SitsError
from sitsedge.modules.config import BundleConfig

_HINT = "sitsctl proof setup, contribute, verify-setup; then sitsctl module build --keys CEREMONY"


def require_no_build(profile: str) -> None:
    """A module built on the spot has development keys, which a production profile refuses.

    Raises :class:`SitsError` ``development-key``.
    """
    if profile == "production":
        raise SitsError(
            "development-key",
            found="a model to be built on this machine and a production profile",
            expected="a bundle with keys from a set-up ceremony",
            hint=_HINT,
        )


def require_ceremony_keys(profile: str, config: BundleConfig) -> None:
    """A production profile refuses keys that nobody contributed to: whoever made them could forge proofs.

    Raises :class:`SitsError` ``development-key``.
    """
    if profile == "production" and config.proof.development:
        raise SitsError(
            "development-key",
            found=f"a development key in module {config.name} and a production profile",
            expected="keys from a set-up ceremony",
            hint=_HINT,
        )
