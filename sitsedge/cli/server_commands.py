"""``sitsctl server``: who may look at the appliance over OPC UA, and the description of what they see."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated, Any

import typer
from cryptography.hazmat.primitives import hashes

from fieldbus.opcua import CertificateError, TrustList, load_certificate
from fieldbus.opcua.certificates import application_uris, check_validity
from fieldbus.opcua.server.roles import Role
from fieldbus.opcua.server.users import UserBook
from sitsedge.cli.common import ConfigOption, StateOption
from sitsedge.cli.files import put
from sitsedge.cli.output import Exit, Output, OutputOption, complain, emit, reported
from sitsedge.cli.secret_input import from_descriptor, from_terminal
from sitsedge.config import load_deployment
from sitsedge.errors import SitsError
from sitsedge.supervisor.serverpart import trusted_folder, users_file
from sitsedge.supervisor.state import StateDir, state_dir_of

app = typer.Typer(
    name="server", help="The appliance's own OPC UA server: users, trusted clients, nodeset.", no_args_is_help=True
)
users = typer.Typer(name="users", help="The book of users; a running server follows it.", no_args_is_help=True)
trust = typer.Typer(
    name="trust", help="Applications that may connect; a running server follows it.", no_args_is_help=True
)
app.add_typer(users, name="users")
app.add_typer(trust, name="trust")

FINGERPRINT_DIGITS_MIN = 8
"""Digits that name a certificate: 32 bits tell a few hundred apart."""

RoleOption = Annotated[str, typer.Option("--role", help="observer, operator or engineer")]
NameArgument = Annotated[str, typer.Argument(help="name of the user")]


@users.command("set")
def set_user(
    name: NameArgument,
    role: RoleOption,
    password_fd: Annotated[
        int | None, typer.Option("--password-fd", min=0, help="read the password from this descriptor, not a terminal")
    ] = None,
    config: ConfigOption = None,
    state_dir: StateOption = None,
    output: Output = OutputOption,
) -> None:
    """Add a user, or give one a new password and role."""
    chosen = _role(role)
    with reported(output):
        path = _users(config, state_dir)
        book = _load(path)
        secret = from_terminal(f"password of {name}") if password_fd is None else from_descriptor(password_fd)
        book.set(name, secret, chosen)
        _save(book, path)
        emit(output, {"user": name, "role": str(chosen)}, lambda: print(f"{name} is {chosen}"))


@users.command("list")
def list_users(config: ConfigOption = None, state_dir: StateOption = None, output: Output = OutputOption) -> None:
    """Names and roles; of applications, too, that nobody has to sign in at."""
    with reported(output):
        book = _load(_users(config, state_dir))
        known = {name: str(role) for name, role in book.users().items()}
        applications = {uri: str(role) for uri, role in book.applications().items()}

        def text() -> None:
            for name, role in (known | applications).items():
                print(f"{role:9} {name}")
            if not known:
                print("nobody can sign in: sitsctl server users set NAME --role operator")

        emit(output, {"users": known, "applications": applications}, text)


@users.command("remove")
def remove_user(
    name: NameArgument, config: ConfigOption = None, state_dir: StateOption = None, output: Output = OutputOption
) -> None:
    """Take a user out; living sessions of theirs may do nothing more."""
    with reported(output):
        path = _users(config, state_dir)
        book = _load(path)
        book.remove(name)
        _save(book, path)
        emit(output, {"removed": name}, lambda: print(f"{name} is removed"))


@trust.command("add")
def add_trust(
    certificate: Annotated[Path, typer.Argument(help="application certificate, DER or PEM")],
    config: ConfigOption = None,
    state_dir: StateOption = None,
    output: Output = OutputOption,
) -> None:
    """Let an application connect and look. Compare the fingerprint with its owner's first."""
    with reported(output):
        loaded = _certificate(certificate)
        folder = _trusted(config, state_dir)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        TrustList(folder).add(loaded)
        data = _described(loaded)
        emit(output, data, lambda: print(f"trusted: {data['application']}\nSHA-256: {data['sha256']}"))


@trust.command("list")
def list_trust(config: ConfigOption = None, state_dir: StateOption = None, output: Output = OutputOption) -> None:
    """Every trusted application with its fingerprint and the end of its certificate."""
    with reported(output):
        folder = _trusted(config, state_dir)
        paths = sorted(folder.iterdir()) if folder.is_dir() else []
        known, unusable = [], []
        for path in paths:
            try:
                known.append(_described(load_certificate(path)))
            except CertificateError:
                unusable.append(path.name)

        def text() -> None:
            for name in unusable:
                print(f"{name} is no certificate: nobody is trusted for it, and it should not be there")
            for item in known:
                print(f"{item['sha256']}  until {item['until']}  {item['application']}")
            if not known:
                print("no application is trusted: sitsctl server trust add CERT")

        emit(output, {"trusted": known} | ({"unusable": unusable} if unusable else {}), text)


@trust.command("remove")
def remove_trust(
    fingerprint: Annotated[str, typer.Argument(help="SHA-256 of the certificate, or its first 8 digits or more")],
    config: ConfigOption = None,
    state_dir: StateOption = None,
    output: Output = OutputOption,
) -> None:
    """Let an application connect no more; its living connections end within seconds."""
    with reported(output):
        folder = _trusted(config, state_dir)
        found = {}
        for path in TrustList(folder).files() if folder.is_dir() else []:
            with contextlib.suppress(CertificateError):
                found[path] = _described(load_certificate(path))
        wanted = fingerprint.lower().replace(":", "")
        chosen = [path for path, data in found.items() if data["sha256"].startswith(wanted)]
        removed = {found[path]["sha256"] for path in chosen}
        if len(wanted) < FINGERPRINT_DIGITS_MIN or len(removed) != 1:
            raise SitsError(
                "certificate-unknown",
                found=f"{fingerprint!r}, which names {len(removed)} of {len(found)} trusted certificates",
                expected=f"one of them by {FINGERPRINT_DIGITS_MIN} digits or more of its SHA-256",
                hint="sitsctl server trust list",
            )
        for path in chosen:
            path.unlink()
        data = found[chosen[0]]
        emit(output, {"removed": data}, lambda: print(f"no longer trusted: {data['application']}"))


@app.command("nodeset")
def nodeset(
    out: Annotated[Path, typer.Option("--out", help="file to write; must not exist")], output: Output = OutputOption
) -> None:
    """Write the information model as a UANodeSet file, for tools that import one."""
    from sitsedge.server.model.nodeset import nodeset_xml  # loads asyncua: only for this command

    with reported(output):
        data = nodeset_xml()
        put(out, data)
        emit(output, {"file": str(out), "bytes": len(data)}, lambda: print(f"wrote {out}"))


def _certificate(path: Path) -> Any:
    try:
        loaded = load_certificate(path)
        check_validity(loaded, label=str(path))
    except CertificateError as error:
        raise SitsError(
            "certificate-file", found=f"{error.code}: {error.found}", expected=error.expected, hint=error.hint
        ) from error
    return loaded


def _described(certificate: Any) -> dict[str, str]:
    uris = application_uris(certificate)
    return {
        "application": uris[0] if uris else "(no application URI)",
        "sha256": certificate.fingerprint(hashes.SHA256()).hex(),
        "until": f"{certificate.not_valid_after_utc:%Y-%m-%d}",
    }


def _place(config: Path | None, state_dir: Path | None) -> StateDir:
    if state_dir is not None:
        return StateDir(state_dir.absolute())
    if config is not None:
        return state_dir_of(load_deployment(config), None)
    raise SitsError("no-deployment", found="neither --config nor --state-dir", expected="one of them")


def _users(config: Path | None, state_dir: Path | None) -> Path:
    state = _place(config, state_dir)
    return state.users if config is None else users_file(load_deployment(config), config, state)


def _trusted(config: Path | None, state_dir: Path | None) -> Path:
    state = _place(config, state_dir)
    return state.appliance_trusted if config is None else trusted_folder(load_deployment(config), config, state)


def _load(path: Path) -> UserBook:
    return UserBook.load(path) if path.exists() else UserBook()


def _save(book: UserBook, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    book.save(path)


def _role(text: str) -> Role:
    try:
        return Role(text)
    except ValueError:
        complain(f"--role {text}", "observer, operator or engineer")
        raise typer.Exit(Exit.USAGE) from None
