"""``sitsctl server``: users by descriptor, trusted clients, the nodeset; passwords are in no output and no argument."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fieldbus.opcua import CertificateError, TrustList, create_identity, load_certificate
from fieldbus.opcua.server import Role, UserBook
from sitsedge.cli.main import app
from sitsedge.cli.secret_input import from_descriptor
from sitsedge.errors import SitsError

PASSWORD = b"correct horse battery"


def run(*arguments: str | Path, code: int = 0) -> dict[str, Any]:
    done = CliRunner().invoke(app, ["server", *map(str, arguments), "--output", "json"])
    assert done.exit_code == code, done.output
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def piped(data: bytes) -> int:
    reading, writing = os.pipe()
    os.write(writing, data)
    os.close(writing)
    return reading


def set_user(state: Path, name: str, role: str, password: bytes = PASSWORD, code: int = 0) -> dict[str, Any]:
    descriptor = piped(password)
    try:
        return run(
            "users", "set", name, "--role", role, "--password-fd", str(descriptor), "--state-dir", state, code=code
        )
    finally:
        os.close(descriptor)


def test_users_come_and_go(tmp_path: Path) -> None:
    assert run("users", "list", "--state-dir", tmp_path) == {"users": {}, "applications": {}}
    assert set_user(tmp_path, "olga", "operator", PASSWORD + b"\n") == {"user": "olga", "role": "operator"}
    set_user(tmp_path, "otto", "observer")
    path = tmp_path / "server" / "users.json"
    assert path.stat().st_mode & 0o777 == 0o600
    assert PASSWORD not in path.read_bytes()
    book = UserBook.load(path)
    assert book.verify("olga", bytearray(PASSWORD)) is not None  # without the end of the line
    assert book.users() == {"olga": Role.OPERATOR, "otto": Role.OBSERVER}
    assert run("users", "remove", "otto", "--state-dir", tmp_path) == {"removed": "otto"}
    assert run("users", "list", "--state-dir", tmp_path)["users"] == {"olga": "operator"}


@pytest.mark.parametrize(
    ("name", "role", "password", "code"),
    [
        ("olga", "operator", b"short", 2),
        ("ol ga", "operator", PASSWORD, 2),
        ("olga", "operator", b"x" * 300, 2),
        ("olga", "operator", b"", 2),
    ],
)
def test_what_is_no_user(tmp_path: Path, name: str, role: str, password: bytes, code: int) -> None:
    answer = set_user(tmp_path, name, role, password, code)
    assert password not in json.dumps(answer).encode() or not password
    assert not (tmp_path / "server" / "users.json").exists()


def test_wrong_use() -> None:
    assert CliRunner().invoke(app, ["server", "users", "set", "a", "--role", "king", "--state-dir", "x"]).exit_code == 2
    assert run("users", "remove", "nobody", "--state-dir", "x", code=2)["error"]["code"] == "user-unknown"
    assert run("users", "list", code=2)["error"]["code"] == "no-deployment"


def test_a_descriptor_that_is_none() -> None:
    with pytest.raises(SitsError, match="password-input"):
        from_descriptor(987)


ASK = """
from sitsedge.cli.secret_input import from_terminal
from sitsedge.errors import SitsError
try:
    print("GOT", len(from_terminal("password of olga")))
except SitsError as error:
    print("REFUSED", error)
"""


def typed(*words: bytes) -> bytes:
    """What a terminal shows when these words are typed, each after its prompt."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", ASK])
    shown = b""
    try:
        for prompt, word in zip((b"password of olga: ", b"again: "), words, strict=True):
            while not shown.endswith(prompt):
                shown += os.read(terminal, 1024)
            os.write(terminal, word + b"\n")
        while part := os.read(terminal, 1024):
            shown += part
    except OSError:
        pass  # the other end of a terminal that is gone
    os.waitpid(pid, 0)
    os.close(terminal)
    return shown


def test_asked_twice_at_a_terminal_without_echo() -> None:
    shown = typed(PASSWORD, PASSWORD)
    assert f"GOT {len(PASSWORD)}".encode() in shown
    assert PASSWORD not in shown
    assert b"REFUSED password-input: got two different passwords" in typed(b"one of them one", b"another of them")


def test_without_a_terminal_it_says_how() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ASK], stdin=subprocess.DEVNULL, capture_output=True, text=True, start_new_session=True,
        check=True,
    )  # fmt: skip
    assert "REFUSED" in done.stdout
    assert "--password-fd" in done.stdout


def test_trust(tmp_path: Path) -> None:
    assert run("trust", "list", "--state-dir", tmp_path) == {"trusted": []}
    identity = create_identity(tmp_path / "c", "scada", application_uri="urn:plant:scada")
    added = run("trust", "add", identity.certificate_path, "--state-dir", tmp_path)
    assert added["application"] == "urn:plant:scada"
    assert added["sha256"] == identity.thumbprint
    assert run("trust", "list", "--state-dir", tmp_path)["trusted"] == [added]
    TrustList(tmp_path / "pki" / "appliance-trusted").check(load_certificate(identity.certificate_path), label="it")


def test_trust_is_taken_back_by_fingerprint(tmp_path: Path) -> None:
    one, two = (create_identity(tmp_path / "c", name, application_uri=f"urn:{name}") for name in ("one", "two"))
    for identity in (one, two):
        run("trust", "add", identity.certificate_path, "--state-dir", tmp_path)
    folder = tmp_path / "pki" / "appliance-trusted"
    (folder / "key.pem").write_text("no certificate")
    for wrong in (one.thumbprint[:7], "", "00000000"):
        answer = run("trust", "remove", wrong, "--state-dir", tmp_path, code=2)
        assert answer["error"]["code"] == "certificate-unknown"
    assert (
        run("trust", "remove", one.thumbprint[:8].upper(), "--state-dir", tmp_path)["removed"]["application"]
        == "urn:one"
    )
    left = run("trust", "list", "--state-dir", tmp_path)
    assert ([item["application"] for item in left["trusted"]], left["unusable"]) == (["urn:two"], ["key.pem"])
    with pytest.raises(CertificateError):
        TrustList(folder).check(one.certificate, label="one")


def test_what_is_no_certificate(tmp_path: Path) -> None:
    (tmp_path / "x.der").write_bytes(b"nothing")
    for name in ("x.der", "none.der"):
        answer = run("trust", "add", tmp_path / name, "--state-dir", tmp_path, code=2)
        assert answer["error"]["code"] == "certificate-file"
    assert not (tmp_path / "pki").exists()


def test_nodeset(tmp_path: Path) -> None:
    out = tmp_path / "sits.xml"
    assert run("nodeset", "--out", out)["bytes"] == len(out.read_bytes())
    assert b"UANodeSet" in out.read_bytes()
    assert run("nodeset", "--out", out, code=2)["error"]["code"] == "file-exists"
