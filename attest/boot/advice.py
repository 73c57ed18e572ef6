"""What a changed measurement means for a plant, and what to do about it, by PCR and subject.

Sources: TCG PC Client Platform Firmware Profile 1.06 §3.3.4 (PCR 0..7), UAPI Group, Linux TPM PCR Registry (8..15).
"""

from __future__ import annotations

from typing import Final

SECURE_BOOT_LISTS: Final = ("PK", "KEK", "db", "dbx", "dbt", "dbr")
APPROVE: Final = "if this was planned, approve it with sitsctl attest policy make"
_STOP: Final = "If nobody planned this, keep the machine out of control and have it examined"
_PLANNED: Final = f"{_STOP}; {APPROVE}"

#: The first words that fit the PCR (None: any) and the subject decide: (PCR, part of the subject, consequence, action).
_RULES: Final[tuple[tuple[int | None, str, str, str], ...]] = (
    (None, "variable PK", "Another owner decides about Secure Boot on this machine", _PLANNED),
    (None, "variable KEK", "Others may change which programs this machine starts", _PLANNED),
    (None, "variable dbx", "The list of forbidden programs is another one, as after a firmware or system update",
     f"Check that an update was made; {APPROVE}"),
    (None, "variable db", "The machine trusts other signers of boot programs than before", _PLANNED),
    (7, "authority", "A boot program was allowed by another certificate than before", _PLANNED),
    (7, "variable", "A Secure Boot setting is another one", _PLANNED),
    (1, "variable BootOrder", "The machine tries its boot entries in another order",
     f"Put the order back in the firmware's set-up, or {APPROVE}"),
    (1, "variable Boot", "A boot entry is another one: the machine may start from another disk or file",
     f"Compare it in the firmware's set-up; {APPROVE}"),
    (12, "cmdline", "The kernel starts with other options, which can switch protections off", _PLANNED),
    (None, "kernel command line", "The kernel starts with other options, which can switch protections off", _PLANNED),
    (None, "kernel_cmdline", "The kernel starts with other options, which can switch protections off", _PLANNED),
    (None, ".cmdline", "The kernel starts with other options, which can switch protections off", _PLANNED),
    (None, "initrd", "Other programs run while the system starts", _PLANNED),
    (None, "MokList", "The machine trusts other signers of kernels than before (shim's own list)", _PLANNED),
    (13, "sits:component", "Another version of our software runs, or its files were changed", _PLANNED),
    (None, "sits:kernel", "Another kernel runs, as after a system update", f"Check that an update was made; {APPROVE}"),
    (None, "sits:cmdline", "The kernel starts with other options, which can switch protections off", _PLANNED),
    (None, "error while starting", "The firmware met an error", "Read the firmware's messages, repair, restart"),
)  # fmt: skip
_BY_PCR: Final = {
    0: ("The firmware is another version", f"Check that a firmware update was made; {APPROVE}"),
    1: ("The firmware's settings or the hardware's configuration changed", f"Compare the set-up; {APPROVE}"),
    2: ("Firmware of a plugged-in card is another one", f"Check for new or exchanged cards; {APPROVE}"),
    3: ("The configuration of a plugged-in card changed", f"Check for new or exchanged cards; {APPROVE}"),
    4: ("Another boot loader or kernel was started", _PLANNED),
    5: ("The disk is partitioned otherwise, or the start took another course",
        f"Check for an exchanged disk; {APPROVE}"),
    6: ("The maker's own part of the start changed", f"Ask the machine's maker; {APPROVE}"),
    7: ("Secure Boot is in another state", _PLANNED),
    8: ("The boot loader executed other commands", _PLANNED),
    9: ("The boot loader or kernel read other files", _PLANNED),
    11: ("Another kernel image runs, as after a system update", f"Check that an update was made; {APPROVE}"),
    12: ("The kernel starts with other options", _PLANNED),
    13: ("Other extensions or applications were measured", _PLANNED),
    14: ("Shim trusts other keys", _PLANNED),
}  # fmt: skip
_UNKNOWN: Final = ("Something else was measured", _PLANNED)


def advise(pcr: int, subject: str, value: str) -> tuple[str, str]:
    """Consequence and action for a change of ``subject`` in this PCR; ``value`` is what it says now, if anything."""
    if "SecureBoot" in subject:
        if not value or value.endswith(("off", "empty")):
            return "Secure Boot is off: the machine starts programs that nobody signed", f"Turn it on again; {APPROVE}"
        return "Secure Boot is on", f"Good, if it was planned; {APPROVE}"
    for index, part, consequence, action in _RULES:
        if index in (None, pcr) and part in subject:
            return consequence, action
    return _BY_PCR.get(pcr, _UNKNOWN)
