"""``sitsctl fieldbus keys``: the key file of a PubSub security group, made, changed and looked at; never its keys."""

from __future__ import annotations

import datetime as dt
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from fieldbus.uadp import KeyFile, make_keys, read_key_file, write_key_file
from fieldbus.uadp.keyfile import LIFETIME_S_MAX, NS_PER_S, POLICIES
from fieldbus.uadp.keys import TOKENS_MAX
from sitsedge.cli.common import parse_duration
from sitsedge.cli.output import Output, OutputOption, emit, reported
from sitsedge.errors import SitsError

app = typer.Typer(help="Key files of PubSub security groups.", no_args_is_help=True)
FileArgument = Annotated[Path, typer.Argument(help="the key file")]
CountOption = Annotated[int, typer.Option("--count", min=1, max=TOKENS_MAX, help="keys in the file")]


class Policy(StrEnum):
    """The policies of OPC 10000-7 for UADP."""

    AES128 = "PubSub-Aes128-CTR"
    AES256 = "PubSub-Aes256-CTR"


@app.command("new")
def new_command(
    file: FileArgument,
    group: Annotated[str, typer.Option("--group", help="security group id")],
    policy: Annotated[Policy, typer.Option("--policy", help="how messages are protected")] = Policy.AES256,
    count: CountOption = 2,
    lifetime: Annotated[str | None, typer.Option("--lifetime", help="of each key: 12h, 90m, … (default: none)")] = None,
    first_token: Annotated[int, typer.Option("--first-token", min=1, max=2**31, help="id of the first key")] = 1,
    output: Output = OutputOption,
) -> None:
    """Make fresh keys in a new file of mode 0600; the first is current from now on."""
    seconds = None if lifetime is None else _whole_seconds(lifetime)
    with reported(output):
        if file.exists():
            raise SitsError("file-exists", found=str(file), expected="a new file", hint="keys next adds to a key file")
        made = make_keys(
            group,
            POLICIES[policy],
            first_token_id=first_token,
            count=count,
            lifetime_s=seconds,
            now_ns=time.time_ns(),
        )
        _write(file, made)
    emit(output, _data(made), lambda: _show(made))


@app.command("next")
def next_command(file: FileArgument, output: Output = OutputOption) -> None:
    """Make the next key the current one and add a fresh one behind the last; the file is replaced as a whole."""
    with reported(output):
        before = read_key_file(file)
        fresh = make_keys(before.group, before.policy, first_token_id=before.first_token_id + len(before.keys), count=1)
        before.keys[0][:] = bytes(len(before.keys[0]))
        end_ns = before.next_key_at_ns
        after = KeyFile(
            before.group,
            before.policy,
            before.first_token_id + 1,
            [*before.keys[1:], *fresh.keys],
            None if end_ns is None or before.lifetime_ns is None else end_ns + before.lifetime_ns,
            before.lifetime_ns,
        )
        _write(file, after)
    emit(output, _data(after), lambda: _show(after))


@app.command("show")
def show_command(file: FileArgument, output: Output = OutputOption) -> None:
    """Check a key file and say what is in it, but for the keys."""
    with reported(output):
        found = read_key_file(file)
        found.erase()
    emit(output, _data(found), lambda: _show(found))


@app.command("fetch")
def fetch_command(
    file: FileArgument,
    group: Annotated[str, typer.Option("--group", help="security group id")],
    server: Annotated[str, typer.Option("--server", help="opc.tcp://HOST:PORT of the Security Key Server")],
    server_certificate: Annotated[Path, typer.Option("--server-certificate", help="which it must have")],
    certificate: Annotated[Path, typer.Option("--certificate", help="our own")],
    key: Annotated[Path, typer.Option("--key", help="its private key")],
    user: Annotated[str | None, typer.Option("--user", help="user name")] = None,
    password_file: Annotated[str | None, typer.Option("--password-file", help="of mode 0600")] = None,
    count: CountOption = 4,
    output: Output = OutputOption,
) -> None:
    """Ask a Security Key Server for the current keys of a group (GetSecurityKeys) and replace the file by them."""
    if (user is None) != (password_file is None):
        raise typer.BadParameter("--user and --password-file go together")
    import asyncio  # with the OPC UA stack, half a second: not for the other commands

    from fieldbus.opcua import PolicyChoice, UserCredential, load_identity
    from fieldbus.opcua.establish import Peer
    from fieldbus.opcua.securitykeys import KeyServer, get_security_keys

    with reported(output):
        credential = None if user is None or password_file is None else UserCredential(user, password_file)
        fetched = asyncio.run(
            get_security_keys(
                KeyServer(Peer(server, PolicyChoice.STRONGEST, credential), server_certificate),
                identity=load_identity(certificate, key),
                group=group,
                count=count,
                now_ns=time.time_ns(),
            )
        )
        _write(file, fetched)
    emit(output, _data(fetched), lambda: _show(fetched))


def _write(file: Path, contents: KeyFile) -> None:
    try:
        write_key_file(file, contents)
    finally:
        contents.erase()


def _whole_seconds(text: str) -> int:
    seconds = round(parse_duration(text, "--lifetime"))
    if not 1 <= seconds <= LIFETIME_S_MAX:
        raise typer.BadParameter("a lifetime of whole seconds")
    return seconds


def _data(contents: KeyFile) -> dict[str, Any]:
    tokens = range(contents.first_token_id, contents.first_token_id + len(contents.keys))
    ends = {str(token): contents.ends_ns(token) for token in tokens}
    return {
        "group": contents.group,
        "policy": next(name for name, policy in POLICIES.items() if policy is contents.policy),
        "tokens": list(tokens),
        "current": contents.current(time.time_ns()),
        "ends_ns": ends,
    }


def _show(contents: KeyFile) -> None:
    data = _data(contents)
    print(f"group {data['group']}, {data['policy']}")
    for token, end_ns in data["ends_ns"].items():
        when = "no end"
        if end_ns is not None:
            when = "until " + dt.datetime.fromtimestamp(end_ns // NS_PER_S, dt.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        current = ", current" if int(token) == data["current"] else ""
        print(f"token {token}: {when}{current}")
    if data["current"] is None:
        print("no key is valid now")
