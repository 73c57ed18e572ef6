"""A password from a terminal without echo, or from a file descriptor: memory that can be overwritten, never argv."""

from __future__ import annotations

import os
import termios
from typing import Final

from fieldbus.opcua.server.users import PASSWORD_BYTES_MAX, erase
from sitsedge.errors import SitsError

ROOM: Final = PASSWORD_BYTES_MAX + 2  # one byte too many is seen, and the end of the line


def from_descriptor(number: int) -> bytearray:
    """One line, or all there is; the caller erases it. Raises :class:`SitsError` ``password-input``."""
    secret = bytearray(ROOM)
    size = 0
    try:
        while size < ROOM and not secret[:size].endswith(b"\n"):
            read = os.readv(number, [memoryview(secret)[size:]])
            if read == 0:
                break
            size += read
    except OSError as error:
        erase(secret)
        raise SitsError(
            "password-input", found=f"descriptor {number}: {error.strerror}", expected="a descriptor to read from"
        ) from error
    line = secret[:size]
    erase(secret)
    return _without_end(line)


def from_terminal(prompt: str) -> bytearray:
    """Asked twice. Raises :class:`SitsError` ``password-input`` without a terminal or for two different answers."""
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise SitsError(
            "password-input",
            found="no terminal to ask at",
            expected="a terminal, or --password-fd",
            hint="sitsctl server users set NAME --role ROLE --password-fd 3 3<FILE",
        ) from error
    try:
        first, second = _ask(terminal, f"{prompt}: "), _ask(terminal, f"{prompt} again: ")
    finally:
        os.close(terminal)
    same = first == second
    erase(second)
    if not same:
        erase(first)
        raise SitsError("password-input", found="two different passwords", expected="the same one twice")
    return first


def _ask(terminal: int, prompt: str) -> bytearray:
    before = termios.tcgetattr(terminal)
    silent = [*before]
    silent[3] &= ~termios.ECHO  # lflag
    try:
        termios.tcsetattr(terminal, termios.TCSAFLUSH, silent)  # before the prompt: it throws away what was typed
        os.write(terminal, prompt.encode())
        return from_descriptor(terminal)
    finally:
        termios.tcsetattr(terminal, termios.TCSAFLUSH, before)
        os.write(terminal, b"\n")


def _without_end(line: bytearray) -> bytearray:
    while line and line[-1] in b"\r\n":
        del line[-1]
    return line
