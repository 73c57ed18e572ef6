"""Layout files of S7 data blocks, as a station names them."""

from __future__ import annotations

import hashlib
from pathlib import Path

from fieldbus.s7.layout import BlockLayout, parse_layout
from fieldbus.s7.limits import LAYOUT_BYTES_MAX
from sitsedge.config.stations import LayoutFile
from sitsedge.errors import SitsError


class LayoutFileError(SitsError):
    """A layout file that is not there (``layout-file``) or not the approved one (``layout-sha256``)."""


def read_layout(layout: LayoutFile, base: Path) -> BlockLayout:
    """The block that ``layout.file``, relative to ``base``, describes. Raises LayoutFileError, S7Error."""
    path = base / layout.file
    try:
        with path.open("rb") as stream:
            data = stream.read(LAYOUT_BYTES_MAX + 1)
    except OSError as error:
        raise LayoutFileError(
            "layout-file",
            found=f"{layout.file!r}: {error.strerror}",
            expected="a data block's export from TIA Portal",
            hint="export the block as Openness XML",
        ) from None
    digest = hashlib.sha256(data).hexdigest()
    if layout.sha256 not in (None, digest):
        raise LayoutFileError(
            "layout-sha256",
            found=f"{digest} of {layout.file!r}",
            expected=str(layout.sha256),
            hint="the block's layout is not the one that was approved; approve another with a new revision",
        )
    return parse_layout(data)
