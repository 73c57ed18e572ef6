"""Deltas: the same module as from the whole bundle, from any base; and one hostile delta per rule."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sitsedge.modules import ModuleStore, PublisherTrust, make_delta
from tests.sitsedge.modules import bundles

SIGNER = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
TRUST = PublisherTrust((SIGNER.public_key(),))


@pytest.mark.parametrize("suffix", ["", ".sits"])
def test_imported_from_a_delta_it_is_the_whole_bundle_byte_for_byte(tmp_path: Path, suffix: str) -> None:
    bundles.make(tmp_path / "old", SIGNER)
    new = bundles.make(tmp_path / "new", SIGNER, mark="two")
    out = tmp_path / f"delta{suffix}"
    made = make_delta(out, base=tmp_path / "old", new=tmp_path / "new", trust=TRUST)
    store = ModuleStore(tmp_path / "store", TRUST)
    store.import_bundle(tmp_path / "old")
    assert store.import_bundle(out) == new == made.module
    whole = {p.relative_to(tmp_path / "new"): p.read_bytes() for p in (tmp_path / "new").rglob("*") if p.is_file()}
    folder = tmp_path / "store" / new.hex()
    assert {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()} == whole
    assert made.whole == sum(map(len, whole.values()))
