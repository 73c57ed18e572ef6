"""The file of a sealed secret (``seal-files.cddl``): of use to the TPM that made it only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from attest import cbor
from attest.policies import POINT_BYTES
from attest.structures import DIGEST_BYTES
from attest.tpm.approval import open_file

_NAME: Final = "sits-sealed-secret-1"
_MAX_PRIVATE: Final = 512  # a sealed secret of 128 bytes has some 200


@dataclass(frozen=True, slots=True)
class SealedSecret:
    """The authority whose approvals open it, and what the TPM needs: ``unique`` of the public area, TPM2B_PRIVATE."""

    authority: bytes
    unique: bytes
    private: bytes

    def encode(self) -> bytes:
        """The file."""
        return cbor.dumps({0: _NAME, 1: self.authority, 2: self.unique, 3: self.private})


def parse_secret(data: bytes) -> SealedSecret:
    """The secret in a file. Raises ``SealError`` (``seal-file``) or ``CborError``."""
    fields = open_file(data, _NAME)
    secret = SealedSecret(
        authority=fields.octets(1, size=POINT_BYTES),
        unique=fields.octets(2, size=DIGEST_BYTES),
        private=fields.octets(3, low=1, high=_MAX_PRIVATE),
    )
    fields.done()
    return secret
