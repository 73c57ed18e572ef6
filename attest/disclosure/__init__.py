"""What a plant shows a third party of its commands without the inputs (evidence rules §3, sealed statement).

:mod:`write` makes a folder from a ledger, :mod:`verify` checks it with its files alone, :mod:`opening` reveals single
commands later. What such a folder shows and what it does not is said in docs/sealed.md.
"""

from attest.disclosure.errors import DisclosureError
from attest.disclosure.opening import Opening, Openings, open_command
from attest.disclosure.verify import SealedReport, Trust, verify_export
from attest.disclosure.write import Keys, Selection, write_export

__all__ = [
    "DisclosureError",
    "Keys",
    "Opening",
    "Openings",
    "SealedReport",
    "Selection",
    "Trust",
    "open_command",
    "verify_export",
    "write_export",
]
