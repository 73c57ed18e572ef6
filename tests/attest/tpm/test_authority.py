"""The authority's key files; one negative test per rule."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from attest.tpm import SealError
from attest.tpm.approval import authority_point
from attest.tpm.authority import create_authority, load_authority, load_authority_point, public_pem


@pytest.fixture
def key(tmp_path: Path) -> Path:
    create_authority(tmp_path / "key")
    return tmp_path / "key"


def code_of(path: Path, *, public: bool = False) -> str:
    with pytest.raises(SealError) as caught:
        load_authority_point(path) if public else load_authority(path)
    assert caught.value.code in ("seal-key-file", "seal-authority")
    assert "PRIVATE" not in str(caught.value)
    return caught.value.found


def test_key_is_written_once_and_read_again(key: Path) -> None:
    loaded = load_authority(key)
    pub = key.with_name("key.pub")
    pub.write_bytes(public_pem(loaded))
    assert load_authority_point(pub) == authority_point(loaded.public_key())
    assert key.stat().st_mode & 0o777 == 0o600
    with pytest.raises(SealError) as caught:
        create_authority(key)
    assert "exists" in caught.value.found


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_key_that_others_can_read_is_refused(key: Path, mode: int) -> None:
    key.chmod(mode)
    assert f"{mode:04o}" in code_of(key)


def test_link_is_refused(key: Path) -> None:
    link = key.with_name("link")
    link.symlink_to(key)
    code_of(link)


@pytest.mark.parametrize("public", [False, True])
def test_pipe_and_folder_and_nothing_are_refused(tmp_path: Path, public: bool) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "no regular file" in code_of(tmp_path / "pipe", public=public)
    assert code_of(tmp_path, public=public)
    assert code_of(tmp_path / "absent", public=public)


@pytest.mark.parametrize("public", [False, True])
def test_long_file_and_noise_are_refused(tmp_path: Path, public: bool) -> None:
    for name, data in (("long", bytes(5000)), ("noise", b"-----BEGIN PRIVATE KEY-----\nAAAA")):
        file = tmp_path / name
        file.write_bytes(data)
        file.chmod(0o600)
        assert code_of(file, public=public)


def test_other_kinds_of_key_are_refused(tmp_path: Path) -> None:
    others: list[ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey]
    others = [ed25519.Ed25519PrivateKey.generate(), ec.generate_private_key(ec.SECP384R1())]
    for number, other in enumerate(others):
        private, public = tmp_path / f"{number}.key", tmp_path / f"{number}.pub"
        private.write_bytes(other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        private.chmod(0o600)
        public.write_bytes(other.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
        assert "another kind of key" in code_of(private)
        assert "key" in code_of(public, public=True)
