"""What can be wrong with a boot's record or with what is expected of it."""

from __future__ import annotations

from attest.errors import AttestError


class EventLogError(AttestError):
    """Bytes that are no TCG event log. Code ``event-log``."""

    def __init__(self, *, found: str, expected: str) -> None:
        super().__init__("event-log", found=found, expected=expected)


class PolicyError(AttestError):
    """A boot policy that cannot be read or made. Code ``boot-policy-format``."""

    CODE = "boot-policy-format"

    def __init__(self, *, found: str, expected: str, hint: str = "") -> None:
        super().__init__(self.CODE, found=found, expected=expected, hint=hint)


class PolicyVersionError(PolicyError):
    """A boot policy whose version is not above that of the one before. Code ``boot-policy-version``."""

    CODE = "boot-policy-version"


class MeasureError(AttestError):
    """The PCRs hold what no log of ours explains. Code ``boot-measure``."""

    def __init__(self, *, found: str, expected: str, hint: str = "") -> None:
        super().__init__("boot-measure", found=found, expected=expected, hint=hint)


class ImaError(AttestError):
    """Bytes that are no measurement list of IMA, or a list that cannot be judged. Code ``ima-list``."""

    def __init__(self, *, found: str, expected: str) -> None:
        super().__init__("ima-list", found=found, expected=expected)


class PcrFileError(AttestError):
    """A file of PCR values that cannot be read. Code ``pcr-file``."""

    def __init__(self, *, found: str, expected: str) -> None:
        super().__init__("pcr-file", found=found, expected=expected)


class PredictError(AttestError):
    """A boot that cannot be predicted from these files. Code ``boot-prediction``."""

    def __init__(self, *, found: str, expected: str, hint: str = "") -> None:
        super().__init__("boot-prediction", found=found, expected=expected, hint=hint)
