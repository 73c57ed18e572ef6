from __future__ import annotations

from pathlib import Path

from attest.ledger import audit
from tests.attest.ledger.scenario import whole


def test_a_whole_ledger_verifies(tmp_path: Path) -> None:
    whole(tmp_path)
    report = audit.verify(tmp_path)
    assert report.findings == []
    print(report.to_dict())
