"""The user book, the delays after failures, roles: without a server."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest
from asyncua import ua
from asyncua.common.utils import ServiceError
from asyncua.crypto.security_policies import SecurityPolicyBasic256Sha256
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from hypothesis import given
from hypothesis import strategies as st

from fieldbus.opcua import Identity, OpcUaError
from fieldbus.opcua.server import Access, Caller, Limits, Role, UserBook
from fieldbus.opcua.server.rate import Rate
from fieldbus.opcua.server.signin import SignIn, password_of
from fieldbus.opcua.server.throttle import APPLICATION_FREE, DELAY_S_MAX, FORGET_S, USER_FREE, Throttle
from fieldbus.opcua.server.users import PASSWORD_BYTES_MAX, PASSWORD_BYTES_MIN, USERS_MAX

PASSWORD = "correct horse"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved book with user olga."""
    book = UserBook()
    book.set("olga", bytearray(PASSWORD.encode()), Role.OPERATOR)
    book.set_application("urn:tests:panel", Role.ENGINEER)
    path = tmp_path_factory.mktemp("book") / "users.json"
    book.save(path)
    return path


def test_roles_are_ordered_by_what_they_may_do() -> None:
    assert sorted(Role, reverse=True) == [Role.ENGINEER, Role.OPERATOR, Role.OBSERVER]
    assert Role.OBSERVER < Role.OPERATOR < Role.ENGINEER
    assert Role.ENGINEER >= Role.ENGINEER
    assert Role.OBSERVER <= Role.OBSERVER
    assert Role.ENGINEER > Role.OPERATOR


def test_a_book_is_read_back_and_its_passwords_verified_and_erased(path: Path) -> None:
    book = UserBook.load(path)
    assert book.users() == {"olga": Role.OPERATOR}
    assert book.applications() == {"urn:tests:panel": Role.ENGINEER}
    assert book.application_role("urn:tests:panel") is Role.ENGINEER
    assert book.application_role("urn:tests:other") is Role.OBSERVER
    right, wrong, nobody = (bytearray(text.encode()) for text in (PASSWORD, PASSWORD + "!", PASSWORD))
    assert book.verify("olga", right) == book.user("olga")
    assert book.verify("olga", wrong) is None
    assert book.verify("nobody", nobody) is None
    assert not any(right) and not any(wrong) and not any(nobody)  # noqa: PT018
    assert PASSWORD not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_book_follows_its_file_and_knows_nobody_while_that_is_broken(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "users.json"
    copy.write_bytes(path.read_bytes())
    copy.chmod(0o600)
    book = UserBook.load(copy)
    changed = UserBook.load(path)
    changed.remove("olga")
    changed.remove_application("urn:tests:panel")
    changed.save(copy)
    book.refresh()
    assert book.users() == {}
    copy.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(OpcUaError):
        book.refresh()
    copy.write_bytes(path.read_bytes())
    book.refresh()
    assert book.users() == {"olga": Role.OPERATOR}
    copy.unlink()
    with pytest.raises(OpcUaError) as error:
        book.refresh()
    assert error.value.code == "users-unreadable"
    assert book.user("olga") is None


ENTRY = {"role": "operator", "salt": "00" * 16, "hash": "00" * 32}
BROKEN = {
    "no JSON": "{",
    "no object": "[]",
    "deep": "[" * 100_000,
    "a key twice": '{"version": 1, "version": 1, "users": {}, "applications": {}}',
    "a user twice": '{"version": 1, "users": {"a": %s, "a": %s}, "applications": {}}' % ((json.dumps(ENTRY),) * 2),
    "another version": '{"version": 2, "users": {}, "applications": {}}',
    "a version that is no integer": '{"version": true, "users": {}, "applications": {}}',
    "another key": '{"version": 1, "users": {}, "applications": {}, "more": 1}',
    "no users": '{"version": 1, "applications": {}}',
    "users as a list": '{"version": 1, "users": [], "applications": {}}',
    "a user with more": json.dumps({"version": 1, "users": {"a": ENTRY | {"n": 2}}, "applications": {}}),
    "a user as text": json.dumps({"version": 1, "users": {"a": "b"}, "applications": {}}),
    "an unknown role": json.dumps({"version": 1, "users": {"a": ENTRY | {"role": "root"}}, "applications": {}}),
    "a short salt": json.dumps({"version": 1, "users": {"a": ENTRY | {"salt": "00"}}, "applications": {}}),
    "a long hash": json.dumps({"version": 1, "users": {"a": ENTRY | {"hash": "00" * 33}}, "applications": {}}),
    "upper-case hex": json.dumps({"version": 1, "users": {"a": ENTRY | {"salt": "AA" * 16}}, "applications": {}}),
    "a name with a space": json.dumps({"version": 1, "users": {"a b": ENTRY}, "applications": {}}),
    "an empty URI": json.dumps({"version": 1, "users": {}, "applications": {"": "operator"}}),
    "a role that is no text": json.dumps({"version": 1, "users": {}, "applications": {"urn:a": 1}}),
    "too many": json.dumps(
        {"version": 1, "users": {}, "applications": {f"urn:{n}": "observer" for n in range(USERS_MAX + 1)}}
    ),
    "too large": " " * 200_000,
}


def test_a_book_that_is_not_in_order_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "users.json"
    for name, text in BROKEN.items():
        path.write_text(text)
        path.chmod(0o600)
        with pytest.raises(OpcUaError) as error:
            UserBook.load(path)
        assert error.value.code == "users-format", name
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(OpcUaError, match="users-format"):
        UserBook.load(path)


def test_a_book_others_can_read_or_that_is_no_file_is_refused(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "users.json"
    copy.write_bytes(path.read_bytes())
    copy.chmod(0o640)
    with pytest.raises(OpcUaError, match="users-permissions"):
        UserBook.load(copy)
    link = tmp_path / "link.json"
    link.symlink_to(path)
    with pytest.raises(OpcUaError, match="users-unreadable"):
        UserBook.load(link)
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(OpcUaError, match="users-permissions"):
        UserBook.load(tmp_path / "pipe")
    with pytest.raises(OpcUaError, match="users-unwritable"):
        UserBook().save(tmp_path / "missing" / "users.json")


@given(st.binary(max_size=200))
def test_any_bytes_are_a_book_or_one_error(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.json"
    path.write_bytes(data)
    path.chmod(0o600)
    with pytest.raises(OpcUaError):
        UserBook.load(path)


def test_names_passwords_and_uris_have_bounds() -> None:
    book = UserBook()
    for size in (PASSWORD_BYTES_MIN - 1, PASSWORD_BYTES_MAX + 1):
        password = bytearray(b"x" * size)
        with pytest.raises(OpcUaError, match="password-length"):
            book.set("olga", password, Role.OPERATOR)
        assert not any(password)
    for name in ("", "a b", "-a", "a" * 65, "é", "a\n"):
        with pytest.raises(OpcUaError, match="user-name"):
            book.set(name, bytearray(b"long enough"), Role.OPERATOR)
    for uri in ("", "urn:a b", "urn:" + "a" * 300, "urn:\n"):
        with pytest.raises(OpcUaError, match="application-uri"):
            book.set_application(uri, Role.OPERATOR)
    with pytest.raises(OpcUaError, match="user-unknown"):
        book.remove("olga")
    with pytest.raises(OpcUaError, match="application-unknown"):
        book.remove_application("urn:a")


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def test_delays_grow_hold_for_one_user_at_one_application_and_end() -> None:
    clock = Clock()
    throttle = Throttle(clock)
    waits = []
    for _ in range(USER_FREE + 9):
        throttle.begin("olga", "urn:evil")
        waits.append(throttle.wait_s("olga", "urn:evil"))
        clock.now += waits[-1]
    assert waits == [0.0] * USER_FREE + [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]
    clock.now -= 1.0
    assert throttle.wait_s("olga", "urn:evil") > 0.0
    assert throttle.wait_s("olga", "urn:panel") == 0.0  # nobody locks olga out from elsewhere
    throttle.succeeded("olga", "urn:evil")
    assert throttle.wait_s("olga", "urn:evil") == 0.0


def test_guessing_many_names_at_one_application_is_delayed_too_and_own_successes_do_not_help() -> None:
    clock = Clock()
    throttle = Throttle(clock)
    for number in range(APPLICATION_FREE):
        throttle.begin(f"user{number}", "urn:evil")
        throttle.begin("own", "urn:evil")
        throttle.succeeded("own", "urn:evil")
    assert throttle.wait_s("fresh", "urn:evil") == 0.0
    throttle.begin("one more", "urn:evil")
    assert throttle.wait_s("fresh", "urn:evil") > 0.0
    assert throttle.wait_s("fresh", "urn:panel") == 0.0
    clock.now += FORGET_S + DELAY_S_MAX
    throttle.begin("one more", "urn:evil")
    assert throttle.wait_s("fresh", "urn:evil") == 0.0


async def test_a_right_password_within_the_delay_is_refused_and_only_for_that_user_at_that_application(
    path: Path,
) -> None:
    clock, book = Clock(), UserBook.load(path)
    sign_in = SignIn(book, Throttle(clock))

    async def admits(name: str, password: str, application: str) -> bool:
        secret = bytearray(password.encode())
        try:
            grant = await sign_in.check(name, lambda: secret, application)
        except ServiceError as error:
            return bool(error.code != ua.StatusCodes.BadUserAccessDenied)
        assert not any(secret)
        return grant.name == name

    for _ in range(USER_FREE + 1):
        assert not await admits("olga", "a guess", "urn:evil")
    assert not await admits("olga", PASSWORD, "urn:evil")
    assert await admits("olga", PASSWORD, "urn:panel")
    clock.now += 1.0
    assert await admits("olga", PASSWORD, "urn:evil")


async def test_who_hangs_up_before_the_answer_has_guessed_too(path: Path) -> None:
    clock = Clock()
    throttle = Throttle(clock)
    sign_in = SignIn(UserBook.load(path), throttle)
    for _ in range(USER_FREE + 1):
        attempt = asyncio.ensure_future(sign_in.check("olga", lambda: bytearray(b"a guess"), "urn:evil"))
        await asyncio.sleep(0)
        attempt.cancel()
        await asyncio.gather(attempt, return_exceptions=True)
    assert throttle.wait_s("olga", "urn:evil") > 0.0


def test_an_encrypted_password_is_taken_only_whole_fresh_and_by_the_policy(people: dict[str, Identity]) -> None:
    key = load_pem_private_key(people["plc"].key_path.read_bytes(), None)
    assert isinstance(key, rsa.RSAPrivateKey)
    policy, nonce = SecurityPolicyBasic256Sha256, bytes(range(32))
    oaep = padding.OAEP(padding.MGF1(SHA1()), SHA1(), None)

    def found(clear: bytes, algorithm: str | None = policy.AsymmetricEncryptionURI, cut: int = 0) -> bytes | None:
        blocks = [key.public_key().encrypt(clear[at : at + 200], oaep) for at in range(0, len(clear), 200)]
        blob = b"".join(blocks)
        token = ua.UserNameIdentityToken(Password=blob[: len(blob) - cut], EncryptionAlgorithm=algorithm)
        try:
            return bytes(password_of(token, nonce=nonce, key=key, policy_uri=policy.URI))
        except ServiceError as error:
            return None if error.code == ua.StatusCodes.BadIdentityTokenInvalid else b"another error"

    def secret(password: bytes, nonce: bytes = nonce) -> bytes:
        return (len(password) + len(nonce)).to_bytes(4, "little") + password + nonce

    good = secret(b"operator-pass")
    assert found(good) == b"operator-pass"
    assert found(good + bytes(100)) == b"operator-pass"  # open62541 fills the block
    assert found(secret(b"")) == b""
    assert found(secret(b"x" * PASSWORD_BYTES_MAX)) == b"x" * PASSWORD_BYTES_MAX
    assert found(secret(b"x" * (PASSWORD_BYTES_MAX + 1))) is None
    assert found(good + b"\1") is None
    assert found(good[:-1]) is None
    assert found(secret(b"operator-pass", bytes(32))) is None
    assert found((2**32 - 1).to_bytes(4, "little") + b"operator-pass" + nonce) is None
    assert found(b"\1\0") is None
    assert found(good, None) is None
    assert found(good, "http://www.w3.org/2001/04/xmlenc#rsa-1_5") is None
    assert found(good, cut=1) is None
    assert found(good, cut=256) is None
    assert found(good + bytes(1_000)) is None


async def test_no_password_gets_into_the_log(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    sign_in = SignIn(UserBook.load(path), Throttle(Clock()))
    for name in ("olga", "typed-into-the-wrong-box"):
        with pytest.raises(ServiceError):
            await sign_in.check(name, lambda: bytearray(b"typed-into-the-wrong-box"), "urn:a")
    await sign_in.check("olga", lambda: bytearray(PASSWORD.encode()), "urn:a")
    assert "olga" in caplog.text
    assert "typed-into-the-wrong-box" not in caplog.text
    assert PASSWORD not in caplog.text


def test_counts_are_bounded() -> None:
    throttle = Throttle(Clock())
    for number in range(3_000):
        throttle.begin(f"user{number}", f"urn:{number}")
    assert len(throttle._users) == len(throttle._applications) == 1_024


@given(st.lists(st.floats(0.0, 5.0), max_size=50))
def test_a_rate_never_lets_more_through_than_burst_and_time_allow(steps: list[float]) -> None:
    rate, now, taken = Rate(per_s=2.0, burst=3.0), 0.0, 0
    for step in steps:
        now += step
        taken += rate.take(now)
        assert taken <= 3.0 + 2.0 * now + 1e-6


def test_rules_decide_by_role_name_and_writer() -> None:
    access = Access()
    access.require("look", Role.OBSERVER)
    access.require("act", Role.OPERATOR)
    access.require("fetch", Role.ENGINEER, changes=False)
    observer, machine, olga = (
        Caller("", Role.OBSERVER, "urn:a"),
        Caller("", Role.ENGINEER, "urn:a"),
        Caller("olga", Role.OPERATOR, "urn:a"),
    )
    assert access.allows("look", observer)
    assert not access.allows("look", olga, writes=True, writer=False)
    assert not access.allows("act", machine)
    assert access.allows("act", olga)
    assert not access.allows("act", olga, writer=False)
    assert access.allows("fetch", machine)
    assert not access.allows("fetch", olga)
    assert not access.allows("unknown", olga)
    with pytest.raises(OpcUaError, match="no-caller"):
        access.caller()
    with pytest.raises(OpcUaError, match="not-guarded"):
        Access.of(type("Server", (), {"iserver": None})())


def test_limits_below_sense_are_refused() -> None:
    for change in ({"sessions": 0}, {"chunk_bytes": 8_000}, {"stalled_s": float("nan")}):
        with pytest.raises(OpcUaError, match="limit"):
            Limits(**change)  # type: ignore[arg-type]
