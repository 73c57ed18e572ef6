"""An older deployment file does not start on a machine whose TPM has seen a newer one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tpm2_pytss.constants import ESYS_TR

from attest.tpm import TpmDevice
from attest.tpm.counters import MAX_ADVANCE, Counter
from sitsedge.config import Deployment, load_deployment
from sitsedge.errors import SitsError
from sitsedge.supervisor.revision import check_revision, commit_revision
from tests.attest.tpm.rig import DEADLINE_S, fresh_swtpm
from tests.sitsedge.conftest import replace


@pytest.fixture
def tpm(tmp_path: Path) -> Iterator[TpmDevice]:
    with fresh_swtpm(tmp_path / "tpm") as simulator, TpmDevice(simulator.tcti, deadline_s=DEADLINE_S) as device:
        yield device


def revision(mill: Path, number: int | None) -> Deployment:
    return load_deployment(mill).model_copy(update={"revision": number})


def refused(tpm: TpmDevice, deployment: Deployment) -> str:
    with pytest.raises(SitsError) as caught:
        check_revision(tpm, deployment)
    return caught.value.code


def test_the_file_says_its_revision(mill: Path) -> None:
    assert load_deployment(mill).revision is None
    replace(mill, "version: 1\n", "version: 1\nrevision: 7\n")
    assert load_deployment(mill).revision == 7


def test_an_older_deployment_is_refused_once_a_newer_one_was_started(tpm: TpmDevice, mill: Path) -> None:
    first = tpm.deployment_counter.create()
    newer, older = revision(mill, first + 5), revision(mill, first + 4)
    check_revision(tpm, older)
    commit_revision(tpm, older)
    check_revision(tpm, newer)
    check_revision(tpm, older)  # a check alone changes nothing: the newer one may have faults
    commit_revision(tpm, newer)
    assert refused(tpm, older) == "deployment-rollback"
    check_revision(tpm, newer)
    commit_revision(tpm, newer)
    assert tpm.deployment_counter.value() == first + 5


def test_a_file_without_revision_is_older_than_any_with_one(tpm: TpmDevice, mill: Path) -> None:
    check_revision(tpm, revision(mill, None))
    commit_revision(tpm, revision(mill, None))
    check_revision(tpm, revision(mill, 100))
    assert refused(tpm, revision(mill, None)) == "deployment-rollback"


def test_a_leap_that_no_counter_follows_is_refused_before_anything_starts(tpm: TpmDevice, mill: Path) -> None:
    first = tpm.deployment_counter.create()
    check_revision(tpm, revision(mill, first + MAX_ADVANCE))
    assert refused(tpm, revision(mill, first + MAX_ADVANCE + 1)) == "deployment-revision"


def test_the_first_revision_is_told_where_a_tpm_has_counted_before(tpm: TpmDevice, mill: Path) -> None:
    tpm.ledger_counter.create()
    tpm.ledger_counter.advance_to(5)
    with tpm.connection.call() as esapi:
        esapi.nv_undefine_space(esapi.tr_from_tpmpublic(int(Counter.LEDGER)), auth_handle=ESYS_TR.OWNER)
    with pytest.raises(SitsError, match="begin with that revision") as caught:
        check_revision(tpm, revision(mill, 1))
    assert caught.value.code == "deployment-rollback"
