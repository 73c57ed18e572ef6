"""Typed refusals of bundles and of the module store."""

from __future__ import annotations

from sitsedge.errors import SitsError


class BundleError(SitsError):
    """A bundle breaks a rule of its format: ``bundle-layout``, ``bundle-json``, ``bundle-size``, ``bundle-digest``,
    ``bundle-content``, ``bundle-version``; of deltas ``bundle-delta`` (where a whole bundle is wanted),
    ``delta-content``, ``delta-patch``, ``delta-same``."""


class BundleSignatureError(BundleError):
    """No signature of a trusted publisher covers the bundle (``bundle-signature``)."""


class StoreError(SitsError):
    """The module store cannot do what was asked (``module-unknown``, ``module-active``, ``store-damaged``,
    ``delta-base-missing``, ``delta-base-damaged``)."""
