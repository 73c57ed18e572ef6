"""Measured boot for real: QEMU, UEFI firmware and a simulated TPM boot our agent; the host verifies its evidence.

Run with ``pytest --runslow tests/boot``; times and what each boot shows are in docs/boot-rig.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from attest.boot import pe, predict
from attest.boot.eventlog import EventLog
from attest.boot.explain import explain, of_log
from attest.boot.policy import BootState, reference_state
from attest.cose import Ed25519Signer
from tests.boot.rig import machine, secureboot, uki
from tests.boot.rig.needs import AARCH64, X86_64, Arch, missing
from tests.boot.rig.scene import Files, Scene, log, quoted, values
from tests.boot.rig.verifier import PCRS, Shown, reference

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

CONSOLES = {X86_64: "ttyS0", AARCH64: "ttyAMA0"}
CHANGES: dict[str, Callable[[Files], Files]] = {
    "kernel": Files.with_kernel_changed,
    "initrd": Files.with_initrd_changed,
    "command-line": Files.with_cmdline_changed,
    "package": Files.with_package_changed,
}
PROGRAM, OPTIONS, INITRD = (4, "program"), (9, "kernel command line"), (9, "initrd")
DIRECT_TRACES = {
    "kernel": {PROGRAM},
    "initrd": {INITRD},
    "command-line": {OPTIONS},
    "package": {(13, "sits:component sitsedge")},
}
UNIFIED_TRACES = {
    "kernel": {PROGRAM, (11, ".linux")},
    "initrd": {PROGRAM, INITRD, (11, ".initrd")},
    "command-line": {PROGRAM, OPTIONS, (11, ".cmdline")},
}


@dataclass(frozen=True, slots=True)
class Reference:
    """A scene whose reference boot was enrolled and approved."""

    scene: Scene
    shown: Shown
    state: BootState


def _scene(arch: Arch, folder: Path, cmdline: str) -> Scene:
    line = missing(arch)
    if line:
        pytest.skip(f"SKIPPED: the boot rig needs: {line}")
    return Scene.make(arch, folder, cmdline=cmdline.format(console=CONSOLES[arch]))


def _approved(scene: Scene, setup: machine.Setup) -> Reference:
    shown = scene.show("reference", setup, enrol=True)
    state = reference(shown)
    scene.verifier.approve(state)
    verdict = scene.verifier.judge(shown)
    assert verdict.ok, verdict.failed
    return Reference(scene, shown, state)


@pytest.fixture(scope="module", params=[X86_64, AARCH64], ids=str)
def direct(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Reference:
    """The reference boot of a kernel with initrd and command line."""
    scene = _scene(
        request.param, tmp_path_factory.mktemp(f"direct-{request.param}"), "console={console} panic=-1 rig.mark=a"
    )
    return _approved(scene, scene.direct(scene.files))


@pytest.fixture(scope="module")
def unified(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    """The reference boot of a unified kernel image from a disk, Secure Boot off; its command line needs tidying."""
    scene = _scene(X86_64, tmp_path_factory.mktemp("uki"), " console={console}\tpanic=-1  rig.mark=a \n")
    return _approved(scene, scene.disk(scene.files, scene.uki(scene.files)))


@dataclass(frozen=True, slots=True)
class Secured:
    """A reference boot with Secure Boot on, and the key that may sign."""

    base: Reference
    key: secureboot.Key

    def signed(self, image: bytes) -> bytes:
        """The image with this plant's signature."""
        folder = self.base.scene.folder / "sign"
        return uki.sign(image, key=self.key.key, certificate=self.key.certificate, folder=folder)


@pytest.fixture(scope="module", params=[X86_64, AARCH64], ids=str)
def secured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Secured:
    """The reference boot of a signed unified kernel image, with keys of our own and sections that are handed on."""
    folder = tmp_path_factory.mktemp(f"secure-{request.param}")
    scene = _scene(request.param, folder, "console={console} panic=-1 rig.mark=a")
    scene.extras = uki.EXTRAS
    key = scene.enable_secure_boot()
    image = uki.sign(
        scene.uki(scene.files), key=key.key, certificate=key.certificate, folder=scene.folder / "sign-first"
    )
    return Secured(_approved(scene, scene.disk(scene.files, image)), key)


def refused(base: Reference, shown: Shown, traces: set[tuple[int, str]]) -> None:
    """The boot policy, and nothing else, refuses; the explanation names these events and no others."""
    base.scene.verifier.approve(base.state)
    verdict = base.scene.verifier.judge(shown)
    assert [check.name for check in verdict.checks if not check.ok] == ["boot-policy"]
    assert verdict.failed is not None
    first, subject = min(traces)
    assert verdict.failed.found.startswith(f"PCR {first} = ")
    assert subject in verdict.failed.found, verdict.failed.found
    changes = explain(of_log(base.shown.log), of_log(shown.log))
    assert {(change.pcr, change.subject.strip("'")) for change in changes} == traces, "\n".join(map(str, changes))
    assert all(change.kind == "changed" for change in changes)
    log.info("refused: %s", "; ".join(map(str, changes)))


def test_another_boot_of_the_same_files_is_accepted(direct: Reference) -> None:
    scene = direct.scene
    again = scene.show("again", scene.direct(scene.files))
    verdict = scene.verifier.judge(again)
    assert verdict.ok, verdict.failed
    assert verdict.boot_state == "reference"
    assert again.evidence.reset_count > direct.shown.evidence.reset_count


@pytest.mark.parametrize("change", CHANGES)
def test_one_changed_byte_is_refused_explained_and_predicted(direct: Reference, change: str) -> None:
    scene = direct.scene
    files = CHANGES[change](scene.files)
    planned = scene.predict_direct(files, direct.shown.log)
    shown = scene.show(change, scene.direct(files))
    refused(direct, shown, DIRECT_TRACES[change])
    assert values(planned) == quoted(shown)
    update = reference_state("update", log=planned, values=planned.replay() | _unused(planned), pcrs=PCRS)
    scene.verifier.approve(direct.state, update)
    verdict = scene.verifier.judge(shown)
    assert verdict.ok, verdict.failed
    assert verdict.boot_state == "update"


def test_another_device_cannot_answer_for_this_one(direct: Reference) -> None:
    scene = direct.scene
    scene.verifier.approve(direct.state)
    data = direct.shown.evidence.sign(Ed25519Signer.generate())
    forged = Shown(data, direct.shown.nonce, direct.shown.evidence, direct.shown.log)
    assert not scene.verifier.judge(forged).ok


def test_another_boot_of_the_same_image_is_accepted(unified: Reference) -> None:
    scene = unified.scene
    scene.verifier.approve(unified.state)
    again = scene.show("again", scene.disk(scene.files, scene.uki(scene.files)))
    verdict = scene.verifier.judge(again)
    assert verdict.ok, verdict.failed


@pytest.mark.parametrize("change", UNIFIED_TRACES)
def test_one_changed_byte_in_a_unified_image_is_refused_explained_and_predicted(
    unified: Reference, change: str
) -> None:
    scene = unified.scene
    files = CHANGES[change](scene.files)
    image = scene.uki(files)
    planned = predict.predict(predict.uki_boot(image, secure_boot=False), reference=unified.shown.log)
    shown = scene.show(change, scene.disk(files, image))
    assert values(planned) == quoted(shown)
    refused(unified, shown, UNIFIED_TRACES[change])


def test_command_line_from_a_boot_entry_is_predicted_in_pcr_12(unified: Reference) -> None:
    scene = unified.scene
    image = scene.uki(scene.files)
    passed = "console=ttyS0 panic=-1 rig.mark=entry"
    path = secureboot.device_path_of(unified.shown.log)
    store = secureboot.add_boot_entry(scene.firmware_vars, path=path, options=passed)
    planned = predict.predict(predict.uki_boot(image, secure_boot=False, passed=passed), reference=unified.shown.log)
    shown = scene.show("passed", scene.disk(scene.files, image, firmware_vars=store))
    for number in (9, 11, 12):
        assert planned.value(number) == shown.evidence.pcrs[number], number
    assert [e.digest for e in planned.of(4)[-2:]] == [e.digest for e in shown.log.of(4)[-2:]]


def test_secure_boot_is_on_and_its_keys_are_in_the_evidence(secured: Secured) -> None:
    boot = secured.base.shown.log
    assert predict.secure_boot_in(boot)
    authority = [event for event in boot.of(7) if event.data.find(secured.key.der) >= 0]
    assert len(authority) >= 2  # the db variable, and the entry of it that let the image start


def test_unsigned_image_is_refused_by_the_firmware(secured: Secured) -> None:
    scene = secured.base.scene
    setup = scene.disk(scene.files, scene.uki(scene.files))
    line = machine.refusal(setup, tpm=scene.tpm, folder=scene.folder / "boots" / "unsigned")
    assert "NVMe" in line


def test_image_changed_after_signing_is_refused_by_the_firmware(secured: Secured) -> None:
    scene = secured.base.scene
    image = secured.signed(scene.uki(scene.files))
    changed = Files(image, image, "", {}).with_kernel_changed().kernel
    line = machine.refusal(scene.disk(scene.files, changed), tpm=scene.tpm, folder=scene.folder / "boots" / "altered")
    assert "Access Denied" in line


def test_other_image_with_a_good_signature_starts_and_is_refused_by_the_policy(secured: Secured) -> None:
    scene = secured.base.scene
    files = scene.files.with_cmdline_changed()
    image = secured.signed(scene.uki(files))
    assert pe.parse(image).digest == pe.parse(scene.uki(files)).digest
    planned = predict.predict(predict.uki_boot(image, secure_boot=True), reference=secured.base.shown.log)
    shown = scene.show("signed-other", scene.disk(files, image))
    assert values(planned) == quoted(shown)
    refused(secured.base, shown, UNIFIED_TRACES["command-line"])


def test_boot_aggregate_of_the_running_kernel_is_in_the_evidence(unified: Reference) -> None:
    evidence = unified.shown.evidence
    assert evidence.ima_log is not None
    aggregate = hashlib.sha256(b"".join(evidence.pcrs[pcr] for pcr in range(10))).digest()
    assert aggregate in evidence.ima_log


def _unused(planned: EventLog) -> dict[int, bytes]:
    return {pcr: planned.initial(pcr) for pcr in PCRS if not planned.of(pcr)}
