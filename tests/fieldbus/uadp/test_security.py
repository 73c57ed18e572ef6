"""Message security: every step of SecureReader refuses for its own reason; nonces once; keys rotate and are erased."""

from __future__ import annotations

import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldbus.uadp import (
    BuiltinType,
    DataSetLayout,
    LayoutReader,
    LayoutWriter,
    NetworkMessage,
    PublisherId,
    PublisherIdType,
    SecureReader,
    SecureWriter,
    SecurityError,
    SecurityMode,
    SecurityPolicy,
    UadpError,
    decode,
    encode,
)
from fieldbus.uadp.keys import SIGNATURE_BYTES, TOKENS_MAX, GroupKey
from fieldbus.uadp.nonces import MEMORY, WINDOW, NonceMemory, NonceWindow
from fieldbus.uadp.security import PUBLISHERS_MAX
from tests.fieldbus.uadp.keys import TOKEN_ID, key_data, ring
from tests.fieldbus.uadp.strategies import PATIENT, network_messages, patient

SIGN, ENCRYPT = SecurityMode.SIGN, SecurityMode.SIGN_AND_ENCRYPT
POLICY = SecurityPolicy.AES256_CTR
PLAIN = bytes.fromhex("71070164000101000102000301 0302")
VECTORS = sorted((Path(__file__).parent / "secured").glob("*.json"))


def writer(mode: SecurityMode = ENCRYPT, *, tokens: int = 1, token_id: int = TOKEN_ID) -> SecureWriter:
    return SecureWriter(ring(POLICY, tokens=tokens), mode, token_id)


def reader(mode: SecurityMode = ENCRYPT, *, tokens: int = 1, counted_nonces: bool = True) -> SecureReader:
    return SecureReader(ring(POLICY, tokens=tokens), mode, counted_nonces=counted_nonces)


def refused(receiver: SecureReader, data: bytes) -> str:
    with pytest.raises(SecurityError) as caught:
        receiver.open(data)
    return caught.value.code


@patient
@given(network_messages(), st.sampled_from(SecurityMode), st.sampled_from(SecurityPolicy))
def test_what_is_sealed_opens_to_the_same_message(
    message: NetworkMessage, mode: SecurityMode, policy: SecurityPolicy
) -> None:
    plain = encode(message)
    sealed = SecureWriter(ring(policy), mode, TOKEN_ID).seal(plain)
    opened = SecureReader(ring(policy), mode).open(sealed)
    if message.security is None:
        assert opened.data == plain
    assert decode(opened.data).messages == message.messages
    assert (opened.security.signed, opened.security.encrypted) == (True, mode is ENCRYPT)
    with pytest.raises(UadpError, match="secured"):
        decode(sealed)


@settings(max_examples=60, **PATIENT)
@given(st.data())
def test_any_changed_bit_is_refused(data: Any) -> None:
    sealed = bytearray(writer().seal(PLAIN))
    sealed[data.draw(st.integers(0, len(sealed) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(UadpError):
        reader().open(bytes(sealed))


def outcome(receiver: SecureReader, data: bytes) -> Any:
    try:
        return receiver.open(data)
    except UadpError as error:
        return error.code, error.found, error.expected, error.offset


@patient
@given(network_messages(), st.sampled_from(SecurityMode), st.data())
def test_a_reader_that_knows_the_shape_says_what_a_new_one_says(
    message: NetworkMessage, mode: SecurityMode, data: Any
) -> None:
    sender, knowing = writer(mode), reader(mode, counted_nonces=False)
    plain = encode(message)
    knowing.open(sender.seal(plain))
    sealed = bytearray(sender.seal(plain))
    again = bytes(sealed)
    for _ in range(data.draw(st.integers(0, 2))):
        sealed[data.draw(st.integers(0, min(len(sealed) - 1, 60)))] = data.draw(st.integers(0, 255))
    cut = bytes(sealed[: data.draw(st.sampled_from([len(sealed), len(sealed) - 1, len(sealed) // 2, 20]))])
    assert outcome(knowing, cut) == outcome(reader(mode, counted_nonces=False), cut)
    if cut != again:
        assert outcome(knowing, again) == outcome(reader(mode, counted_nonces=False), again)


@patient
@given(st.binary(max_size=120))
def test_any_bytes_give_a_message_or_one_typed_error(data: bytes) -> None:
    with pytest.raises(UadpError):
        reader().open(data)  # nobody guesses an HMAC


@pytest.mark.parametrize("path", VECTORS, ids=lambda path: path.stem)
def test_vector_is_refused_for_its_own_reason(path: Path) -> None:
    vector = json.loads(path.read_text())
    assert set(vector) == {"rule", "comment", "mode", "hex", "result", "code"}
    assert (vector["rule"], vector["result"]) == (path.stem, "invalid")
    assert refused(reader(SecurityMode(vector["mode"])), bytes.fromhex(vector["hex"])) == vector["code"]


def test_every_refusal_of_one_datagram_has_a_vector() -> None:
    codes = {json.loads(path.read_text())["code"] for path in VECTORS}
    assert codes == {"unsecured", "security-mode", "token-unknown", "nonce-length", "signature"}


def test_a_replayed_message_is_refused_and_order_does_not_matter() -> None:
    sender, receiver = writer(), reader()
    sealed = [sender.seal(PLAIN) for _ in range(5)]
    for index in (0, 3, 1, 4, 2):
        assert receiver.open(sealed[index]).data == PLAIN
    for again in sealed:
        assert refused(receiver, again) == "nonce-replayed"


def test_uncounted_nonces_are_remembered() -> None:
    """open62541 1.5.7 sends number 1 for ever: a counting window would take one message and no more."""
    first, second = writer().seal(PLAIN), writer().seal(PLAIN)
    receiver = reader(counted_nonces=False)
    assert receiver.open(first).data == receiver.open(second).data == PLAIN
    assert refused(receiver, first) == refused(receiver, second) == "nonce-replayed"
    counting = reader()
    counting.open(first)
    assert refused(counting, second) == "nonce-replayed"


def test_a_forged_message_uses_up_no_nonce() -> None:
    sealed = writer().seal(PLAIN)
    receiver = reader()
    assert refused(receiver, sealed[:-1] + bytes((sealed[-1] ^ 1,))) == "signature"
    assert receiver.open(sealed).data == PLAIN


def test_publishers_count_apart() -> None:
    receiver = reader()
    for number in range(PUBLISHERS_MAX):
        message = decode(PLAIN)
        other = encode(NetworkMessage(PublisherId(PublisherIdType.UINT16, number), messages=message.messages))
        assert receiver.open(writer().seal(other)).data == other
    assert refused(receiver, writer().seal(PLAIN)) == "publishers-too-many"


def test_keys_rotate_by_token() -> None:
    sender, receiver = writer(tokens=3), reader(tokens=3)
    old = sender.seal(PLAIN)
    sender.rotate(TOKEN_ID + 1)
    assert receiver.open(sender.seal(PLAIN)).security.token_id == TOKEN_ID + 1
    assert receiver.current_token == TOKEN_ID + 1
    assert receiver.open(old).security.token_id == TOKEN_ID  # late, under a key that is still held
    newest = writer(tokens=3, token_id=TOKEN_ID + 2)
    assert receiver.open(newest.seal(PLAIN)).security.token_id == receiver.current_token == TOKEN_ID + 2
    assert receiver.open(sender.seal(PLAIN)).security.token_id == TOKEN_ID + 1
    assert refused(receiver, writer().seal(PLAIN)) == "token-unknown"  # two keys ago: erased
    with pytest.raises(SecurityError, match="token-unknown"):
        sender.rotate(TOKEN_ID)
    with pytest.raises(SecurityError, match="token-reused"):
        sender.rotate(TOKEN_ID + 1)
    with pytest.raises(SecurityError, match="token-unknown"):
        sender.rotate(TOKEN_ID + 3)


def test_a_key_that_was_used_up_does_not_come_back() -> None:
    """A key service may hand out past keys again; what was sent under them is known to whoever recorded it."""
    keys = ring(POLICY, tokens=3)
    receiver, old = SecureReader(keys, ENCRYPT), writer().seal(PLAIN)
    for token_id in range(TOKEN_ID, TOKEN_ID + 3):
        receiver.open(writer(tokens=3, token_id=token_id).seal(PLAIN))
    assert keys.token_ids == (TOKEN_ID + 1, TOKEN_ID + 2)
    keys.install(TOKEN_ID, [key_data(POLICY)])
    assert refused(receiver, old) == "token-unknown"


def test_a_forced_key_reset_erases_the_other_keys() -> None:
    sender = writer(tokens=3)
    late = sender.seal(PLAIN)
    sender.rotate(TOKEN_ID + 1)
    keys = ring(POLICY, tokens=3)
    old = keys.get(TOKEN_ID)
    receiver = SecureReader(keys, ENCRYPT)
    assert receiver.open(sender.seal(PLAIN, force_key_reset=True)).security.force_key_reset
    assert keys.token_ids == (TOKEN_ID + 1,)
    assert refused(receiver, late) == "token-unknown"
    assert old is not None
    assert old.erased


def test_erased_keys_sign_nothing() -> None:
    keys = ring(POLICY, tokens=2)
    held = [keys.get(token_id) for token_id in keys.token_ids]
    sender = SecureWriter(keys, ENCRYPT, TOKEN_ID)
    keys.erase()
    assert keys.token_ids == ()
    for key in held:
        assert key is not None
        with pytest.raises(SecurityError, match="key-erased"):
            key.signature(b"")
    with pytest.raises(SecurityError, match="token-unknown"):
        sender.seal(PLAIN)


def test_a_key_ring_is_bounded_and_never_loses_the_current_key() -> None:
    keys = ring(POLICY, tokens=TOKENS_MAX + 3)
    assert keys.token_ids == tuple(range(TOKEN_ID, TOKEN_ID + TOKENS_MAX))  # the others are too far ahead
    before = keys.get(TOKEN_ID + 2)
    past = keys.get(TOKEN_ID)
    keys.install(TOKEN_ID + 2, [key_data(POLICY, 99)] * TOKENS_MAX)
    assert keys.token_ids == tuple(range(TOKEN_ID + 2, TOKEN_ID + 2 + TOKENS_MAX))
    assert keys.get(TOKEN_ID + 2) is before
    assert past is not None
    assert past.erased


def test_a_writer_erases_the_key_it_has_used_up() -> None:
    keys = ring(POLICY, tokens=2)
    SecureWriter(keys, ENCRYPT, TOKEN_ID).rotate(TOKEN_ID + 1)
    assert keys.token_ids == (TOKEN_ID + 1,)


@pytest.mark.parametrize(
    ("code", "token_id", "data"),
    [
        ("key-size", 1, bytes(67)),
        ("key-size", 1, bytes(69)),
        ("token-id", 0, bytes(68)),
        ("token-id", 2**32, bytes(68)),
    ],
)
def test_unusable_keys_are_refused(code: str, token_id: int, data: bytes) -> None:
    with pytest.raises(SecurityError) as caught:
        ring(POLICY).install(token_id, [data])
    assert caught.value.code == code


def test_a_key_stops_before_its_counter_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    sender = writer()
    monkeypatch.setattr("fieldbus.uadp.security._COUNT_MAX", 2)
    sender.seal(PLAIN)
    sender.seal(PLAIN)
    with pytest.raises(SecurityError, match="key-exhausted"):
        sender.seal(PLAIN)


def test_nothing_is_sealed_twice_or_too_long() -> None:
    with pytest.raises(SecurityError, match="already-secured"):
        writer().seal(writer().seal(PLAIN))
    with pytest.raises(SecurityError, match="message-too-long"):
        writer().seal(b"\x01\x03" + bytes(65_470))


def test_counter_mode_and_hmac_are_the_textbooks() -> None:
    """AES-CTR with block key nonce ‖ nonce ‖ 1 equals the block cipher on that block; HMAC equals the library's."""
    data = key_data(POLICY)
    key, nonce = GroupKey(POLICY, data), bytes(range(8))
    blocks = b"".join(data[64:] + nonce + number.to_bytes(4, "big") for number in (1, 2))
    expected = Cipher(algorithms.AES(data[32:64]), modes.ECB()).encryptor().update(blocks)
    assert key.crypt(bytes(32), nonce) == expected
    assert key.signature(b"abc") == hmac.digest(data[:32], b"abc", hashlib.sha256)


@settings(max_examples=60, **PATIENT)
@given(st.lists(st.integers(0, 3 * WINDOW), max_size=40))
def test_the_window_takes_each_number_once_and_none_behind_it(numbers: list[int]) -> None:
    window, seen = NonceWindow(), set[int]()
    for number in numbers:
        new = number > 0 and number not in seen and number > max(seen, default=0) - WINDOW
        assert window.first_time(bytes(4) + number.to_bytes(4, "little")) is new
        seen.add(number)


def test_the_memory_of_nonces_is_bounded() -> None:
    memory = NonceMemory()
    for number in range(MEMORY + 10):
        assert memory.first_time(number.to_bytes(8, "big"))
    assert not memory.first_time((10).to_bytes(8, "big"))
    assert memory.first_time((0).to_bytes(8, "big"))  # forgotten: timestamps must stop a replay this old


LAYOUT = DataSetLayout(
    PublisherId(PublisherIdType.BYTE, 7), 100, 1, (("a", BuiltinType.DOUBLE), ("b", BuiltinType.BOOLEAN))
)


@pytest.mark.parametrize("mode", list(SecurityMode))
def test_a_layout_reads_what_its_writer_sealed_and_nothing_unprotected(mode: SecurityMode) -> None:
    sender = LayoutWriter(LAYOUT, security=writer(mode))
    receiver = LayoutReader(LAYOUT, security=reader(mode))
    for step in range(3):
        data = sender.write(t_source_ns=10**18 + step * 100, values=(step / 2, True))
        sample = receiver.read(data)
        assert (sample.sequence, sample.values) == (step, (step / 2, True))
        with pytest.raises(SecurityError, match="nonce-replayed"):
            receiver.read(data)
    with pytest.raises(SecurityError, match="unsecured"):
        receiver.read(LayoutWriter(LAYOUT).write(t_source_ns=10**18, values=(1.0, False)))


def test_the_fast_path_is_taken_behind_security(monkeypatch: pytest.MonkeyPatch) -> None:
    sender, receiver = LayoutWriter(LAYOUT, security=writer()), LayoutReader(LAYOUT, security=reader())
    receiver.read(sender.write(t_source_ns=10**18, values=(1.0, True)))

    def never(_: bytes) -> NetworkMessage:
        raise AssertionError("the general decoder was asked")

    monkeypatch.setattr("fieldbus.uadp.reader.decode", never)
    assert receiver.read(sender.write(t_source_ns=10**18, values=(2.0, False))).values == (2.0, False)


def test_the_signature_is_the_last_32_bytes_over_all_before() -> None:
    sealed = writer(SIGN).seal(PLAIN)
    assert GroupKey(POLICY, key_data(POLICY)).signature(sealed[:-SIGNATURE_BYTES]) == sealed[-SIGNATURE_BYTES:]
