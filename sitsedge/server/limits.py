"""The limits of a deployment's server: the product's, tightened where the deployment file says."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from fieldbus.opcua.server import Limits


def limits_of(tighter: Mapping[str, float]) -> Limits:
    """``tighter`` has been checked by :class:`sitsedge.config.server.ServerBlock`; whole numbers stay whole."""
    product = Limits()
    changed = {name: type(getattr(product, name))(value) for name, value in tighter.items()}
    return dataclasses.replace(product, **changed)
