"""Signed module bundles and the store they live in."""

from __future__ import annotations

from sitsedge.modules.archive import write_archive
from sitsedge.modules.bundle import Bundle, read_bundle, write_bundle
from sitsedge.modules.config import BundleConfig, Signal
from sitsedge.modules.delta import DeltaSummary, make_delta
from sitsedge.modules.errors import BundleError, BundleSignatureError, StoreError
from sitsedge.modules.limits import Limits, read_limits
from sitsedge.modules.statement import PublisherTrust, key_id
from sitsedge.modules.store import ModuleStore

__all__ = [
    "Bundle",
    "BundleConfig",
    "BundleError",
    "BundleSignatureError",
    "DeltaSummary",
    "Limits",
    "ModuleStore",
    "PublisherTrust",
    "Signal",
    "StoreError",
    "key_id",
    "make_delta",
    "read_bundle",
    "read_limits",
    "write_archive",
    "write_bundle",
]
