"""Key files of a security group: one format, read strictly, from files only their owner can read; keys that change."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldbus.uadp import (
    KeyFile,
    KeyKeeper,
    KeyRing,
    SecureReader,
    SecureWriter,
    SecurityError,
    SecurityMode,
    SecurityPolicy,
    decode,
    make_keys,
    parse_key_file,
    read_key_file,
    write_key_file,
)
from fieldbus.uadp.keyfile import FILE_BYTES_MAX, format_key_file
from fieldbus.uadp.keys import TOKENS_MAX
from tests.fieldbus.uadp.keys import key_data
from tests.fieldbus.uadp.strategies import PATIENT, patient

POLICY = SecurityPolicy.AES128_CTR
S = 1_000_000_000
NOW = 1_796_000_000 * S
HEX = key_data(POLICY).hex()
HEAD = "sits-pubsub-keys 1\ngroup mill\npolicy PubSub-Aes128-CTR\n"
TIMES = "next-key-at 2026-11-30T03:00:00Z\nkey-lifetime-s 3600\n"
GOOD = f"{HEAD}{TIMES}key 7 {HEX}\nkey 8 {key_data(POLICY, 1).hex()}\n"
PLAIN = bytes.fromhex("71070164000101000102000301 0302")
WHO = decode(PLAIN).publisher


def contents(first: int, count: int, *, ends_in_s: int | None = None, lifetime_s: int = 100) -> KeyFile:
    """Keys whose data says their token, so that a later file has the same ones."""
    keys = [bytearray(key_data(POLICY, (first + index) % 256)) for index in range(count)]
    if ends_in_s is None:
        return KeyFile("mill", POLICY, first, keys)
    return KeyFile("mill", POLICY, first, keys, NOW + ends_in_s * S, lifetime_s * S)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "mill.keys"


def keeper(path: Path, *, overlap_s: float = 10.0) -> KeyKeeper:
    return KeyKeeper(path, group="mill", policy=POLICY, now_ns=NOW, overlap_s=overlap_s)


def code_of(text: str | bytes) -> str:
    with pytest.raises(SecurityError) as caught:
        parse_key_file(bytearray(text if isinstance(text, bytes) else text.encode()))
    assert HEX[:12] not in str(caught.value)
    return caught.value.code


def test_a_key_file_is_read_as_it_was_written(path: Path) -> None:
    made = make_keys("mill", POLICY, first_token_id=7, count=3, lifetime_s=3600, now_ns=NOW)
    write_key_file(path, made)
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_key_file(path) == made
    assert len({bytes(key) for key in made.keys}) == 3
    assert (made.ends_ns(7), made.ends_ns(9)) == (NOW + 3600 * S, NOW + 3 * 3600 * S)
    assert [made.current(NOW + hours * 3600 * S) for hours in (0, 1, 2, 3)] == [7, 8, 9, None]
    made.erase()
    assert not any(any(key) for key in made.keys)


def test_the_text_of_the_format() -> None:
    found = parse_key_file(bytearray(GOOD.encode()))
    assert (found.group, found.policy, found.first_token_id, len(found.keys)) == ("mill", POLICY, 7, 2)
    assert format_key_file(found) == GOOD.encode()
    assert parse_key_file(bytearray(f"{HEAD}key 7 {HEX}\n".encode())).ends_ns(7) is None


BROKEN = {
    "empty": "",
    "another-version": GOOD.replace("keys 1", "keys 2"),
    "no-group": GOOD.replace("group mill\n", ""),
    "group-with-a-space": GOOD.replace("mill", "mill 1"),
    "unknown-policy": GOOD.replace("Aes128", "Aes512"),
    "time-alone": GOOD.replace("key-lifetime-s 3600\n", ""),
    "lifetime-alone": GOOD.replace("next-key-at 2026-11-30T03:00:00Z\n", ""),
    "lifetime-0": GOOD.replace("3600", "0"),
    "lifetime-of-centuries": GOOD.replace("3600", "9999999999"),
    "local-time": GOOD.replace("00Z", "00+01:00"),
    "no-such-day": GOOD.replace("11-30", "11-31"),
    "no-key": HEAD + TIMES,
    "tokens-apart": GOOD.replace("key 8", "key 9"),
    "token-twice": GOOD.replace("key 8", "key 7"),
    "token-0": GOOD.replace("key 7", "key 0"),
    "token-beyond-32-bits": GOOD.replace("key 7", "key 4294967296"),
    "token-with-a-zero": GOOD.replace("key 7", "key 07"),
    "upper-case": GOOD.replace(HEX, HEX.upper()),
    "not-hexadecimal": GOOD.replace(HEX, "x" + HEX[1:]),
    "carriage-returns": GOOD.replace("\n", "\r\n"),
    "a-line-more": GOOD + "comment\n",
    "an-empty-line": GOOD + "\n",
    "cut": GOOD[:-1],
    "too-many-keys": HEAD + "".join(f"key {token} {HEX}\n" for token in range(1, TOKENS_MAX + 2)),
}


@pytest.mark.parametrize("rule", BROKEN)
def test_what_is_not_the_format_is_refused(rule: str) -> None:
    assert code_of(BROKEN[rule]) == "key-file"


def test_a_key_of_another_size_is_refused() -> None:
    assert code_of(GOOD.replace(HEX, HEX[2:])) == code_of(GOOD.replace("Aes128", "Aes256")) == "key-size"


@patient
@given(st.one_of(st.binary(max_size=200), st.text(max_size=80).map(lambda text: (HEAD + text).encode())))
def test_any_bytes_give_keys_or_one_typed_error(data: bytes) -> None:
    if not data.startswith(HEAD.encode() + b"key "):
        assert code_of(data) in ("key-file", "key-size")


def test_a_file_that_others_can_read_a_link_and_one_that_is_too_long_are_refused(path: Path, tmp_path: Path) -> None:
    def code() -> str:
        with pytest.raises(SecurityError) as caught:
            read_key_file(path)
        return f"{caught.value.code} {caught.value.found}"

    assert code() == "key-file mill.keys: No such file or directory"
    path.write_text(GOOD)
    path.chmod(0o640)
    assert "mode 0640" in code()
    path.chmod(0o600)
    assert read_key_file(path).first_token_id == 7
    path.write_bytes(bytes(FILE_BYTES_MAX + 1))
    assert "over" in code()
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert "symbolic links" in code()
    path.unlink()
    os.mkfifo(path, 0o600)
    assert "regular file" in code()


def test_a_file_of_another_user_is_refused(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("SKIPPED: only root can give a file away")
    path.write_text(GOOD)
    path.chmod(0o600)
    os.chown(path, 65_534, -1)
    with pytest.raises(SecurityError, match="user 65534"):
        read_key_file(path)


def test_a_credential_of_systemd_is_readable_by_its_service_alone_though_its_mode_says_0440(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("SKIPPED: only root's files are credentials")
    path.write_text(GOOD)
    path.chmod(0o440)
    assert read_key_file(path, credential=True).first_token_id == 7
    for mode in (0o444, 0o460):
        path.chmod(mode)
        with pytest.raises(SecurityError, match="mode"):
            read_key_file(path, credential=True)


def test_a_replaced_file_brings_the_next_keys_and_the_old_one_stays_for_its_overlap(path: Path) -> None:
    write_key_file(path, contents(7, 2))
    keys = keeper(path)
    assert (keys.ring.token_ids, keys.current, keys.poll(NOW)) == ((7, 8), 7, [])
    write_key_file(path, contents(8, 2))
    assert [event.code for event in keys.poll(NOW + S)] == ["keys-read"]
    assert (keys.ring.token_ids, keys.current) == ((7, 8, 9), 8)
    assert keys.poll(NOW + 2 * S, used_token=8) == []
    assert keys.poll(NOW + 11 * S, used_token=8) == []
    assert [event.text for event in keys.poll(NOW + 12 * S, used_token=8)] == ["token 7"]
    write_key_file(path, contents(7, 3))  # a past key handed out again
    keys.poll(NOW + 13 * S, used_token=8)
    assert keys.ring.token_ids == (8, 9)


def test_keys_end_by_the_clock(path: Path) -> None:
    write_key_file(path, contents(7, 2, ends_in_s=50))
    keys = keeper(path)
    assert keys.poll(NOW + 59 * S) == []
    assert keys.current == 8
    assert [event.code for event in keys.poll(NOW + 60 * S)] == ["key-dropped"]
    events = keys.poll(NOW + 160 * S)
    assert [event.code for event in events] == ["key-dropped", "keys-expired"]
    assert keys.expired
    assert keys.current is None
    assert keys.summary()["problem"] == "keys-expired"
    assert keys.poll(NOW + 161 * S) == []
    write_key_file(path, contents(9, 1, ends_in_s=300))
    assert [event.code for event in keys.poll(NOW + 162 * S)] == ["keys-read"]
    assert (keys.ring.token_ids, keys.summary()["problem"]) == ((9,), None)


STEPS = st.lists(
    st.tuples(st.integers(0, 40), st.none() | st.tuples(st.integers(1, 9), st.integers(1, 4), st.integers(1, 60))),
    max_size=12,
)


@settings(max_examples=20, **PATIENT)
@given(STEPS)
def test_a_dropped_key_stays_away_and_the_current_one_is_there_whatever_files_come(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, tuple[int, int, int] | None]]
) -> None:
    path, now, gone = tmp_path_factory.mktemp("keys") / "mill.keys", NOW, set[int]()
    newest = 0
    write_key_file(path, contents(3, 2, ends_in_s=30, lifetime_s=30))
    keys = keeper(path, overlap_s=5.0)
    for seconds, file in steps:
        now += seconds * S
        if file is not None:
            first, count, left_s = file
            made = contents(first, count, ends_in_s=(now - NOW) // S + left_s, lifetime_s=60)
            write_key_file(path, made)
        before = set(keys.ring.token_ids)
        used = max([token for token in before if token <= (keys.current or 0)], default=0)
        keys.poll(now, used_token=used)
        held = set(keys.ring.token_ids)
        gone |= before - held
        assert not held & gone
        assert keys.expired == (not held)
        newest = max(newest, used)
        if keys.current is not None and keys.current >= newest and all(keys.current > token for token in gone):
            assert keys.current in held


@pytest.mark.parametrize(
    ("rule", "made"),
    [
        ("key-group", KeyFile("pump", POLICY, 8, [bytearray(key_data(POLICY))])),
        ("key-policy", KeyFile("mill", SecurityPolicy.AES256_CTR, 8, [bytearray(68)])),
        ("key-changed", KeyFile("mill", POLICY, 7, [bytearray(key_data(POLICY, 99))])),
        ("key-file", None),
    ],
)
def test_a_file_that_is_refused_leaves_the_old_keys_and_says_so(path: Path, rule: str, made: KeyFile | None) -> None:
    write_key_file(path, contents(7, 2))
    keys = keeper(path)
    if made is None:
        path.unlink()
    else:
        write_key_file(path, made)
    assert [event.code for event in keys.poll(NOW)] == ["keys-unread"]
    assert keys.poll(NOW) == []
    assert (keys.ring.token_ids, str(keys.summary()["problem"]).split(":")[0]) == ((7, 8), rule)
    write_key_file(path, contents(8, 2))
    keys.poll(NOW)
    assert (keys.ring.token_ids, keys.problem) == ((7, 8, 9), None)
    keys.erase()
    assert keys.expired


def test_a_group_of_another_deployment_is_refused_at_the_start(path: Path) -> None:
    write_key_file(path, contents(7, 1))
    with pytest.raises(SecurityError, match="key-group"):
        KeyKeeper(path, group="pump", policy=POLICY, now_ns=NOW)


def sealing(first: int = 7, token: int = 7) -> SecureWriter:
    ring = KeyRing(POLICY)
    ring.install(first, contents(first, 3).keys)
    return SecureWriter(ring, SecurityMode.SIGN, token)


def opening() -> SecureReader:
    ring = KeyRing(POLICY)
    ring.install(7, contents(7, 3).keys)
    return SecureReader(ring, SecurityMode.SIGN)


def test_what_was_taken_before_a_restart_is_not_taken_after_it() -> None:
    plain = PLAIN
    seal, before, after = sealing(), opening(), opening()
    taken = [seal.seal(plain) for _ in range(3)]
    for data in taken:
        before.open(data)
    after.resume(before.mark(WHO), WHO)
    for data in taken:
        with pytest.raises(SecurityError, match="nonce-replayed"):
            after.open(data)
    assert after.open(seal.seal(plain)).data == plain


def test_a_used_up_token_does_not_come_back_after_a_restart() -> None:
    plain = PLAIN
    before, after = opening(), opening()
    old = sealing().seal(plain)
    for token in (7, 8, 9):
        before.open(sealing(token=token).seal(plain))
    after.resume(before.mark(WHO), WHO)
    with pytest.raises(SecurityError, match="token-unknown"):
        after.open(old)
    assert after.current_token == 9
