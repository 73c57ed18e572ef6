"""Simulated TPMs for tests: set up once in a test process, copied for every test, each on a private socket."""

from __future__ import annotations

import atexit
import contextlib
import functools
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tpm2_pytss import ESAPI

from attest.tpm import Swtpm, TpmDevice
from attest.tpm.transport import DeadlineTcti

DEADLINE_S = 20.0  # far above what a loaded machine needs; tests of the deadline choose their own


@functools.cache
def template() -> Path:
    """State of a fresh TPM with EK certificates and a persistent AK."""
    if shutil.which("swtpm") is None or shutil.which("swtpm_setup") is None:
        pytest.skip("SKIPPED: swtpm and swtpm-tools are not installed; this test needs them")
    folder = Path(tempfile.mkdtemp(prefix="sits-tpm-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with Swtpm(folder / "tpm") as simulator:
        device = TpmDevice(simulator.tcti, deadline_s=DEADLINE_S)
        device.ak()
        device.close()
    return folder / "tpm"


def fresh_swtpm(folder: Path) -> Swtpm:
    """A TPM of its own in ``folder``, not yet started."""
    shutil.copytree(template(), folder)
    return Swtpm(folder)


@contextlib.contextmanager
def bare_esapi(simulator: Swtpm) -> Iterator[ESAPI]:
    """A bare ESAPI context, for what the device never does."""
    tcti = DeadlineTcti(simulator.tcti, deadline_s=DEADLINE_S)
    esapi = ESAPI(tcti)
    try:
        yield esapi
    finally:
        esapi.close()
        tcti.do_finalize()
