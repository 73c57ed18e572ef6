"""Properties of the codec, of the rules and of the gate's memory."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path

import pycddl
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from hypothesis import given, settings
from hypothesis import strategies as st

import attest.command
from attest import cbor
from attest.command import (
    Accepted,
    Command,
    CommandError,
    CommandHeader,
    GateKey,
    GateRules,
    GateState,
    InputRule,
    Mode,
    OpenEpoch,
    OutputRule,
    ProofKind,
    ProofPolicy,
    Refused,
    Relation,
    SessionKey,
    TimeQuality,
    judge,
    line,
    parse_command,
    parse_record,
    sign_command,
    sign_record,
)
from attest.command.enums import PROOF_BYTES
from attest.command.state import RUNS_MAX
from tests.attest.command.cases import EPOCH, HONEST, KEYED, RULES, SESSION, STRANGER, T0, at, committed
from tests.attest.command.samples import RECORDS, RESIDENT

identifiers = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=64)
counters = st.integers(0, 2**63 - 1)
positives = st.integers(1, 2**63 - 1)
digests = st.binary(min_size=32, max_size=32)
values = st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=12).map(tuple)
headers = st.builds(
    CommandHeader,
    version=st.just(1),
    device_id=identifiers,
    gate_id=identifiers,
    epoch=positives,
    sequence=positives,
    t_source_ns=counters,
    t_decided_ns=counters,
    module_digest=digests,
    deployment_digest=digests,
    mode=st.sampled_from(Mode),
)
proofs = st.sampled_from(ProofKind).flatmap(
    lambda kind: st.tuples(st.just(kind), st.binary(min_size=PROOF_BYTES[kind], max_size=PROOF_BYTES[kind]))
)
commands = st.builds(
    lambda header, inputs, outputs, proof, quality: Command(header, inputs, outputs, *proof, quality),
    headers,
    values,
    values,
    proofs,
    st.sampled_from(TimeQuality),
)


class Verifies:
    def verify(self, *_: object) -> str | None:
        return None


def judged(
    command: Command, state: GateState, rules: GateRules = RULES, now_ns: int = T0, epoch: OpenEpoch = EPOCH
) -> Accepted | Refused:
    data = sign_command(command, SESSION)
    return judge(data, rules, state, epoch, now_ns, gate_mode=command.header.mode, verifier=Verifies())


@given(commands)
def test_what_is_signed_is_what_is_parsed(command: Command) -> None:
    data = sign_command(command, SESSION)
    parsed = parse_command(data, command.header.gate_id)
    assert parsed.command == command
    assert parsed.kid == SESSION.kid
    parsed.verify(SESSION.public)
    with pytest.raises(CommandError, match="signature"):
        parsed.verify(STRANGER.public)
    assert len(command.header.ctx()) == 31


@given(st.binary(max_size=200))
def test_any_bytes_give_one_typed_error(data: bytes) -> None:
    for parse in (lambda: parse_command(data, None), lambda: parse_record(data), lambda: GateRules.decode(data)):
        with pytest.raises(CommandError):
            parse()


@settings(max_examples=300)
@given(st.data())
def test_no_altered_command_is_accepted(data: st.DataObject) -> None:
    """Flips, cuts, insertions and swaps anywhere in an honest command."""
    honest = sign_command(HONEST, SESSION)
    at_byte = data.draw(st.integers(0, len(honest) - 1))
    kind = data.draw(st.sampled_from(["flip", "cut", "insert", "copy"]))
    extra = data.draw(st.binary(min_size=1, max_size=4))
    changed = {
        "flip": honest[:at_byte] + bytes([honest[at_byte] ^ extra[0] or 1]) + honest[at_byte + 1 :],
        "cut": honest[:at_byte] + honest[at_byte + len(extra) :],
        "insert": honest[:at_byte] + extra + honest[at_byte:],
        "copy": honest[:at_byte] + honest[-at_byte:],
    }[kind]
    if changed == honest:
        return
    state = GateState(7, (0, 0))
    result = judge(changed, RULES, state, EPOCH, T0, gate_mode=Mode.AUTO, verifier=Verifies())
    assert isinstance(result, Refused)
    assert result.code in {"malformed", "signature", "gate-id", "device-id", "epoch-unknown"}
    assert state == GateState(7, (0, 0))


@given(headers, st.data())
def test_ctx_depends_on_every_part_of_the_header(header: CommandHeader, data: st.DataObject) -> None:
    other = data.draw(headers)
    name = data.draw(st.sampled_from([name for name in CommandHeader.__slots__ if name != "version"]))
    changed = replace(header, **{name: getattr(other, name)})
    assert (changed.ctx() == header.ctx()) == (changed == header)


def test_a_command_of_the_loop_fits_one_frame() -> None:
    assert len(sign_command(HONEST, SESSION)) < 1300


@pytest.mark.parametrize(
    "bad",
    [at(sequence=0), at(device_id="a b"), at(inputs=()), at(outputs=[1]), at(proof=b""), at(inputs=(2**31,))],
)
def test_signing_refuses_what_parsing_would(bad: Command) -> None:
    with pytest.raises(CommandError, match="malformed"):
        sign_command(bad, SESSION)


@pytest.mark.parametrize("record", [*RECORDS, RESIDENT], ids=lambda record: record.KIND)
def test_records_round_trip_and_refuse_strangers(record: object) -> None:
    data = sign_record(record, SESSION)  # type: ignore[arg-type]
    parsed = parse_record(data)
    assert parsed.record == record
    parsed.verify(SESSION.public)
    with pytest.raises(CommandError, match="signature"):
        parsed.verify(STRANGER.public)
    for at_byte in range(len(data)):
        changed = data[:at_byte] + bytes([data[at_byte] ^ 0x55]) + data[at_byte + 1 :]
        with pytest.raises(CommandError):
            parse_record(changed).verify(SESSION.public)


@pytest.mark.parametrize(
    ("index", "changes"),
    [
        (0, {"gate_id": "a b"}),
        (0, {"epoch": 0}),
        (0, {"command_digest": b"short"}),
        (0, {"accepted": (2**31,)}),
        (0, {"proof_verified": 1}),
        (1, {"found": ""}),
        (1, {"refused": bytes(2049)}),
        (1, {"expected": "x" * 513}),
        (2, {"vk_digest": b"12"}),
        (2, {"plant_outputs": (True,)}),
        (5, {"approvers": tuple("abcdefghi")}),
        (5, {"approvers": (1,)}),
    ],
)
def test_records_out_of_range_cannot_be_signed(index: int, changes: dict[str, object]) -> None:
    with pytest.raises(CommandError, match="malformed"):
        sign_record(replace(RECORDS[index], **changes), SESSION)  # type: ignore[arg-type]


def test_a_command_is_no_record() -> None:
    with pytest.raises(CommandError, match="unknown-record"):
        parse_record(sign_command(HONEST, SESSION))


def test_line_cuts_and_never_is_empty() -> None:
    assert len(line("x" * 9999)) == 512
    assert line("") == "(nothing)"


# --- rules and state -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"gate_id": "a b"},
        {"inputs": ()},
        {"outputs": (OutputRule("y", 5, 4),)},
        {"inputs": (InputRule("x", 0, 2**31),)},
        {"inputs": (InputRule("x", 0, 1, -1),)},
        {"inputs": (InputRule("", 0, 1),)},
        {"outputs": (OutputRule("y", 0, 4, supervised=(0, 5)),)},
        {"outputs": (OutputRule("y", 0, 4, first_step_max=-1),)},
        {"relations": (Relation("r", ((8, 1),), (), 0),)},
        {"relations": (Relation("r", ((0, 1), (0, 1)), (), 0),)},
        {"relations": (Relation("r", ((0, 2**54),), (), 0),)},
        {"relations": (Relation("", (), (), 0),)},
        {"relations": (Relation("r", (), (), 0),) * 257},
        {"source_age_ms_max": 0},
        {"future_ms_max": -1},
        {"rate_interval_ms_min": 0},
        {"modes": frozenset()},
        {"modes": frozenset({Mode.OFF, Mode.AUTO})},
        {"proof_kind": ProofKind.COMMITMENT},
        {"proof_deadline_ms": 0},
        {"proof_deadline_ms": 86_400_001},
        {"proof_backlog_max": 0},
        {"proof_backlog_max": 100_001},
    ],
)
def test_rules_no_gate_should_run_with(changes: dict[str, object]) -> None:
    with pytest.raises(CommandError, match="malformed"):
        replace(RULES, **changes)  # type: ignore[arg-type]


def test_rules_have_one_encoding() -> None:
    encoded = RULES.encode()
    assert GateRules.decode(encoded) == RULES
    for wrong in (encoded + b"\0", encoded.replace(b"\x0d\x82\x03\x04", b"\x0d\x82\x04\x03"), b"\xa0", b"\x80"):
        with pytest.raises(CommandError, match="malformed"):
            GateRules.decode(wrong)


def test_deadline_and_backlog_belong_to_the_deferred_policy_alone() -> None:
    deferred = replace(RULES, proof_policy=ProofPolicy.DEFERRED, proof_deadline_ms=2000, proof_backlog_max=50)
    encoded = deferred.encode()
    assert GateRules.decode(encoded) == deferred
    schema = pycddl.Schema((Path(attest.command.__file__).parent / "formats" / "gate-rules.cddl").read_text())
    schema.validate_cbor(encoded)
    assert replace(RULES, proof_deadline_ms=2000).digest() == RULES.digest()
    inline = encoded.replace(b"\x68deferred", b"\x66inline")
    assert inline != encoded
    with pytest.raises(CommandError, match="malformed"):
        GateRules.decode(inline)
    with pytest.raises(pycddl.ValidationError):
        schema.validate_cbor(inline)
    keyless = cbor.dumps({key: value for key, value in cbor.loads(encoded).items() if key < 15})  # type: ignore[union-attr]
    with pytest.raises(CommandError, match="malformed"):
        GateRules.decode(keyless)


def test_the_first_command_of_an_epoch_has_no_input_rate() -> None:
    assert isinstance(judged(at(inputs=(10, *(1000,) * 7), outputs=(0, 0)), GateState(7)), Accepted)


def test_two_commands_on_one_sample_may_differ_by_what_a_millisecond_allows() -> None:
    state = GateState(7)
    assert isinstance(judged(HONEST, state), Accepted)
    same = at(sequence=101, inputs=tuple(value + 2 for value in HONEST.inputs), outputs=(6, -5))
    assert isinstance(judged(same, state), Accepted)  # 1 count per ms, and one for rounding on inputs


@given(st.integers(0, 50), st.integers(-80, 80))
def test_an_output_moves_no_faster_than_its_rate(ms: int, change: int) -> None:
    state = GateState(7)
    assert isinstance(judged(at(outputs=(0, 0)), state), Accepted)
    later = at(ms=ms, sequence=101, outputs=(change, 0))
    result = judged(later, state, now_ns=T0 + ms * 1_000_000)
    allowed = max(ms, 1)  # 1,000 counts per second
    assert isinstance(result, Accepted) == (abs(change) <= min(allowed, 100))


def test_a_deferred_policy_takes_a_commitment_and_off_takes_nothing() -> None:
    deferred = replace(RULES, proof_policy=ProofPolicy.DEFERRED)
    off = replace(RULES, proof_policy=ProofPolicy.OFF)
    nothing = at(proof_kind=ProofKind.NONE, proof=b"")
    for rules, command in ((deferred, committed()), (off, nothing)):
        result = judged(command, GateState(7), rules, epoch=KEYED)
        assert isinstance(result, Accepted)
        assert not result.proof_verified
    assert isinstance(judged(HONEST, GateState(7), deferred), Accepted)


def test_a_proof_without_a_key_is_refused() -> None:
    data = sign_command(HONEST, SESSION)
    result = judge(data, RULES, GateState(7), EPOCH, T0, gate_mode=Mode.AUTO)
    assert isinstance(result, Refused)
    assert result.code == "proof-kind"


@given(st.lists(st.integers(1, 6), min_size=1, max_size=60))
def test_the_state_remembers_which_sequences_it_accepted(steps: list[int]) -> None:
    state, accepted, sequence = GateState(1), set(), 0
    for step in steps:
        sequence += step
        accepted.add(sequence)
        state.accept(sequence=sequence, inputs=(0,), outputs=(0,), t_source_ns=0, t_decided_ns=0, proof_digest=None)
    assert {number for number in range(1, sequence + 1) if state.accepted(number)} == accepted


def test_the_state_stays_bounded_and_calls_the_forgotten_a_replay() -> None:
    state = GateState(1)
    for number in range(1, 2 * RUNS_MAX + 3):
        state.accept(
            sequence=2 * number,
            inputs=(0,),
            outputs=(0,),
            t_source_ns=0,
            t_decided_ns=0,
            proof_digest=number.to_bytes(32, "big"),
        )
    assert state.accepted(2)
    assert state.accepted(3)  # forgotten: refused under the safer name
    assert not state.accepted(4 * RUNS_MAX - 1)
    assert state.proof_seen((1).to_bytes(32, "big")) is None
    assert state.proof_seen((2 * RUNS_MAX).to_bytes(32, "big")) == 4 * RUNS_MAX


# --- keys ----------------------------------------------------------------------------------------------------


def test_an_erased_key_signs_nothing() -> None:
    key = SessionKey.generate()
    key.erase()
    key.erase()
    with pytest.raises(CommandError, match="key-erased"):
        key.sign(b"x")
    assert key.kid.hex()[:16] in repr(key)


def test_key_files_keep_their_mode_and_their_key(tmp_path: Path) -> None:
    path = tmp_path / "gate.key"
    made = GateKey.create(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert GateKey.load(path).public == made.public
    with pytest.raises(CommandError, match="key-file"):
        GateKey.create(path)


def test_a_full_disk_leaves_no_half_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        GateKey.create(tmp_path / "gate.key")
    assert list(tmp_path.iterdir()) == []


def test_key_files_that_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "gate.key"
    GateKey.create(path)
    other = ec.generate_private_key(ec.SECP256R1())
    p256 = tmp_path / "p256"
    p256.write_bytes(other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    (tmp_path / "garbage").write_bytes(b"garbage")
    (tmp_path / "large").write_bytes(bytes(5000))
    (tmp_path / "link").symlink_to(path)
    for name in ("p256", "garbage", "large"):
        (tmp_path / name).chmod(0o600)
    for name in ("p256", "garbage", "large", "link", "missing"):
        with pytest.raises(CommandError, match="key-file"):
            GateKey.load(tmp_path / name)
    path.chmod(0o640)
    with pytest.raises(CommandError, match="chmod 600"):
        GateKey.load(path)
    assert os.stat(path).st_size < 4096  # noqa: PTH116


class TpmKey:
    """Signs as a TPM does: ECDSA on P-256, r ‖ s."""

    def __init__(self, number: int) -> None:
        self._private = ec.derive_private_key(number, ec.SECP256R1())
        self.public = self._private.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)

    def sign(self, data: bytes, /) -> bytes:
        r, s = decode_dss_signature(self._private.sign(data, ec.ECDSA(SHA256())))
        return r.to_bytes(32, "big") + s.to_bytes(32, "big")


def outcome(signer: SessionKey | TpmKey, epoch: OpenEpoch) -> str:
    state = GateState(epoch.number)
    verdict = judge(sign_command(HONEST, signer), RULES, state, epoch, T0, gate_mode=Mode.AUTO, verifier=Never())
    return verdict.code if isinstance(verdict, Refused) else "accepted"


class Never:
    """A verifier that finds nothing wrong."""

    def verify(self, inputs: object, outputs: object, ctx: bytes, proof: bytes, /) -> None:
        return None


def test_an_epoch_with_a_key_of_the_tpm_takes_its_signature_and_no_other() -> None:
    key = TpmKey(7)
    resident = replace(EPOCH, command_public=key.public)
    assert outcome(key, resident) == "accepted"
    assert outcome(TpmKey(8), resident) == "signature"
    assert outcome(SESSION, resident) == "signature"  # the session key of such an epoch signs no commands
    assert outcome(key, EPOCH) == "signature"
    assert outcome(SESSION, EPOCH) == "accepted"


def test_a_record_names_the_key_of_the_commands_or_has_no_such_field() -> None:
    assert RESIDENT.command_key == RESIDENT.command_public
    plain = replace(RESIDENT, command_public=b"")
    assert plain.command_key == plain.session_public
    assert len(sign_record(RESIDENT, SESSION)) == len(sign_record(plain, SESSION)) + 68
    with pytest.raises(CommandError, match="malformed"):
        sign_record(replace(RESIDENT, command_public=b"\x04"), SESSION)
