"""Browse paths as people write them: names joined by ``/``, each in a namespace of its own where it says so.

``Mill/Request/Gap`` has every name in the namespace the client is configured for. A name of another namespace carries
that namespace's URI, in the form that OPC 10000-6 gives to identifiers and names in text::

    nsu=http://opcfoundation.org/UA/DI/;DeviceSet/mill-edge-01/nsu=http://opcfoundation.org/UA/DI/;SerialNumber

* ``nsu=`` at the beginning of an element, and only there; the URI goes to the first ``;``, slashes included, and holds
  for this one element. In the URI ``;`` is written ``%3B`` and ``%`` is written ``%25``; nothing else is decoded.
* In a name ``&/`` stands for ``/`` and ``&&`` for ``&``; before anything else ``&`` is itself (``P&ID``). The escape
  character is that of relative paths (OPC 10000-4, A.2). What follows ``nsu=URI;`` is a name whatever it looks like, so
  a name that begins with ``nsu=`` is written with its namespace.
* Never by index: a server may number its namespaces anew with every start (OPC 10000-3, 8.2.2).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from fieldbus.opcua.errors import OpcUaError

PATH_CHARACTERS_MAX = 2_048
"""A path with a namespace at each of its names."""

ELEMENTS_MAX = 32
"""Names of one path: deeper than any companion specification nests, and one service call holds 250 paths."""

NAME_CHARACTERS_MAX = 512
"""A QualifiedName's name (OPC 10000-3, 8.3)."""

URI_CHARACTERS_MAX = 255
"""As long as the namespace of a deployment may be."""

PREFIX = "nsu="
_EXPECTED = "names joined by '/', such as Mill/Gap, or nsu=URI;Name where one is in another namespace"
_ESCAPE = re.compile("%(3B|25)?")
_DECODED = {"%3B": ";", "%25": "%"}


@dataclass(frozen=True, slots=True)
class PathElement:
    """One name on the way; ``namespace_uri`` None: in the configured namespace."""

    name: str
    namespace_uri: str | None = None


def parse_path(text: str) -> tuple[PathElement, ...]:
    """The elements of a browse path. Raises OpcUaError ``browse-path`` for anything that is none."""
    if len(text) > PATH_CHARACTERS_MAX:
        raise _wrong(f"{len(text)} characters", f"at most {PATH_CHARACTERS_MAX}")
    elements: list[PathElement] = []
    position = 0
    while position <= len(text):
        if len(elements) == ELEMENTS_MAX:
            raise _wrong(f"more than {ELEMENTS_MAX} names in {_shown(text)}", f"at most {ELEMENTS_MAX}")
        uri, position = _namespace(text, position)
        name, position = _name(text, position)
        elements.append(PathElement(name, uri))
    return tuple(elements)


def format_path(elements: Sequence[PathElement]) -> str:
    """The text that ``parse_path`` reads as ``elements``."""
    return "/".join(map(_format, elements))


def in_namespace(elements: Sequence[PathElement], namespace_uri: str) -> tuple[PathElement, ...]:
    """The same with every namespace said: two texts mean one path if this is equal."""
    return tuple(PathElement(item.name, item.namespace_uri or namespace_uri) for item in elements)


def _format(element: PathElement) -> str:
    name = element.name.replace("&", "&&").replace("/", "&/")
    if element.namespace_uri is None:
        return name
    return f"{PREFIX}{element.namespace_uri.replace('%', '%25').replace(';', '%3B')};{name}"


def _namespace(text: str, position: int) -> tuple[str | None, int]:
    """The URI at ``position``, if one is there, and where the name begins."""
    if not text.startswith(PREFIX, position):
        return None, position
    begin = position + len(PREFIX)
    end = text.find(";", begin)
    if end < 0:
        raise _wrong(f"no ';' after the namespace in {_shown(text)}", _EXPECTED)
    coded = text[begin:end]
    if any(match.group() == "%" for match in _ESCAPE.finditer(coded)):
        raise _wrong(f"a '%' in the namespace {_shown(coded)}", "%25 for '%' and %3B for ';', and no other escape")
    uri = _ESCAPE.sub(lambda match: _DECODED[match.group()], coded)
    if not 1 <= len(uri) <= URI_CHARACTERS_MAX or not uri.isprintable() or " " in uri:
        raise _wrong(f"the namespace {_shown(uri)}", f"a URI of 1 to {URI_CHARACTERS_MAX} characters, without spaces")
    return uri, end + 1


def _name(text: str, position: int) -> tuple[str, int]:
    """The name at ``position``, and where the next element begins: behind the text's end after the last."""
    letters: list[str] = []
    while position < len(text) and text[position] != "/":
        if text[position] == "&" and text[position + 1 : position + 2] in ("/", "&"):
            position += 1
        letters.append(text[position])
        position += 1
    if not 1 <= len(letters) <= NAME_CHARACTERS_MAX:
        found = f"a name of {len(letters)} characters" if letters else "an empty name"
        raise _wrong(f"{found} in {_shown(text)}", _EXPECTED)
    return "".join(letters), position + 1


def _shown(text: str) -> str:
    return repr(text if len(text) <= 120 else text[:119] + "…")


def _wrong(found: str, expected: str) -> OpcUaError:
    return OpcUaError("browse-path", found=found, expected=expected)
