"""A module that came as a delta is swapped into a running loop like any other: it is the same module."""

from __future__ import annotations

import hashlib
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from attest.command import Accepted, GateState, Refused
from attest.proof import development_setup
from sitsedge.modules import Bundle, ModuleStore, PublisherTrust, make_delta, oci, strict_json, write_bundle
from tests.sitsedge.conftest import EXAMPLE
from tests.sitsedge.loop.test_pipeline import Rig


def layers_of(bundle: Bundle) -> dict[str, bytes]:
    found = {name: getattr(bundle, name) for name in oci.LAYERS if name not in ("limits", "report")}
    return found | {"limits": (EXAMPLE / "limits.yaml").read_bytes(), "report": strict_json.encode(bundle.report)}


def test_the_loop_goes_on_with_a_module_that_came_as_a_delta(mill: Path, mill_bundle: Bundle, tmp_path: Path) -> None:
    signer = Ed25519PrivateKey.generate()
    trust = PublisherTrust((signer.public_key(),))
    layers = layers_of(mill_bundle)
    write_bundle(tmp_path / "old", mill_bundle.config, layers, signer=signer)
    proving, verification = development_setup(mill_bundle.circuit)
    proof = mill_bundle.config.proof.model_copy(
        update={"pk_sha256": hashlib.sha256(proving).hexdigest(), "vk_sha256": hashlib.sha256(verification).hexdigest()}
    )
    changed = layers | {"proving_key": proving, "verification_key": verification}
    config = mill_bundle.config.model_copy(update={"proof": proof})
    new = write_bundle(tmp_path / "new", config, changed, signer=signer)
    made = make_delta(tmp_path / "delta.sits", base=tmp_path / "old", new=tmp_path / "new", trust=trust)
    assert set(made.patched) == {"proving_key", "verification_key"}

    store = ModuleStore(tmp_path / "store", trust)
    store.activate(store.import_bundle(tmp_path / "old"))
    before = Rig(mill, store.load_active())
    assert isinstance(before.judge(before.run(before.frame()).data, GateState(1)), Accepted)
    store.activate(store.import_bundle(tmp_path / "delta.sits"))
    after = Rig(mill, store.load_active())
    verdict = after.judge(after.run(after.frame()).data, GateState(1))
    assert isinstance(verdict, Accepted), verdict
    assert verdict.parsed.command.header.module_digest == new
    assert verdict.proof_verified

    late = before.run(before.frame())
    before.bundle = after.bundle
    stale = before.judge(late.data, GateState(1))
    assert isinstance(stale, Refused)
    assert stale.code == "module-digest"

    whole = ModuleStore(tmp_path / "whole", trust)
    assert whole.load(whole.import_bundle(tmp_path / "new")) == after.bundle
