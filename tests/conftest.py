"""What every test may use: the shared recordings (or a clear skip) and the `slow` switch."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts background jobs with interrupts ignored, and so would everything the tests start and interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)

FIXTURES = Path(__file__).resolve().parent.parent.parent / "shared" / "fixtures"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--runslow", action="store_true", help="run the tests marked slow as well")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--runslow"):
        return
    skip = pytest.mark.skip(reason="takes over 30 s; run with --runslow")
    for item in items:
        if "slow" in item.keywords:
            item.add_marker(skip)


@pytest.fixture(scope="session")
def fixtures_dir() -> Path:
    """Folder of third-party recordings beside the checkout; tests that need it skip where it is absent."""
    if not FIXTURES.is_dir():
        pytest.skip(f"SKIPPED: the recordings are not at {FIXTURES}; this test needs them")
    return FIXTURES
