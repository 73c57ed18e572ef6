"""Reads a YAML file into a pydantic model and says where every fault is.

The file is composed into nodes (YAML 1.2, safe schema) and converted by hand, so that each key and value keeps
its position; anchors, aliases, custom tags and duplicate keys are refused because a person reading the file
could miss what they do.
"""

from __future__ import annotations

import io
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import BaseModel, Field, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from sitsedge.errors import SitsError

FILE_BYTES_MAX = 256 * 1024  # a deployment is a few KiB; anything larger is a mistake or an attack
DEPTH_MAX = 16
ITEMS_SHOWN = 8  # of a list in a message

Model = TypeVar("Model", bound=BaseModel)
VersionOne = Annotated[int, Field(ge=1, le=1)]
"""``version: 1`` of a file; a ``Literal`` would take ``true`` for 1."""
Plain = None | bool | int | float | str | list["Plain"] | dict[str, "Plain"]
Position = tuple[int, int]
Path_ = tuple[str | int, ...]

_TAG = "tag:yaml.org,2002:"


@dataclass(frozen=True, slots=True)
class ConfigFault:
    """One fault in one file; ``line`` and ``column`` count from 1."""

    file: str
    line: int
    column: int
    where: str
    found: str
    expected: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.where}: got {self.found}, expected {self.expected}"


class ConfigError(SitsError):
    """A configuration that cannot be used; ``faults`` lists everything wrong with it, not only the first."""

    def __init__(self, faults: list[ConfigFault], hint: str = "correct the file; nothing was started") -> None:
        self.faults = faults
        super().__init__("config", found="; ".join(map(str, faults)), expected="a valid configuration file", hint=hint)

    def __str__(self) -> str:
        return "\n".join(map(str, self.faults))


class _Tree:
    """Plain data plus the position of each key and value in the file."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.positions: dict[Path_, Position] = {}
        self.faults: list[ConfigFault] = []

    def fault(self, node: Node, where: Path_, found: str, expected: str) -> None:
        line, column = _mark(node)
        self.faults.append(ConfigFault(self.file, line, column, dotted(where), found, expected))

    def convert(self, node: Node, path: Path_, depth: int = 0) -> Plain:
        self.positions[path] = _mark(node)
        if depth > DEPTH_MAX:
            self.fault(node, path, f"nesting deeper than {DEPTH_MAX}", "a flat configuration")
            return None
        if node.anchor is not None:
            # Not entered: an alias repeats what its anchor holds, and ten of them in each other fill any memory.
            self.fault(node, path, f"the anchor &{node.anchor}", "plain values, without anchors or aliases")
            return None
        if isinstance(node, MappingNode):
            return self._mapping(node, path, depth)
        if isinstance(node, SequenceNode):
            return [self.convert(item, (*path, i), depth + 1) for i, item in enumerate(node.value)]
        assert isinstance(node, ScalarNode)
        return self._scalar(node, path)

    def _mapping(self, node: MappingNode, path: Path_, depth: int) -> dict[str, Plain]:
        result: dict[str, Plain] = {}
        for key_node, value_node in node.value:
            key = str(key_node.value)
            if key in result:
                self.fault(key_node, (*path, key), "the key a second time", "each key once")
                continue
            result[key] = self.convert(value_node, (*path, key), depth + 1)
            self.positions[(*path, key, "")] = _mark(key_node)
        return result

    def _scalar(self, node: ScalarNode, path: Path_) -> Plain:
        text = str(node.value)
        kind = str(node.tag).removeprefix(_TAG)
        try:
            if kind == "null":
                return None
            if kind == "bool":
                return text.lower() == "true"
            if kind == "int":
                return int(text.replace("_", ""), 0)
            if kind == "float":
                return float(text.replace("_", "").replace(".inf", "inf").replace(".nan", "nan").replace(".NaN", "nan"))
        except ValueError:
            self.fault(node, path, repr(text), f"a value of type {kind}")
            return None
        if kind in ("str", "timestamp"):
            return text
        self.fault(node, path, f"the tag {node.tag}", "plain values")
        return None


def _mark(node: Node) -> Position:
    return int(node.start_mark.line) + 1, int(node.start_mark.column) + 1


def dotted(path: Path_) -> str:
    """``("inputs", 0, "range")`` → ``inputs[0].range``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else (f".{part}" if text else str(part))
    return text or "(file)"


def read_text(path: Path) -> str:
    """The file's text; :class:`ConfigError` when it is missing, too large, unreadable or not UTF-8."""

    def refuse(found: str, expected: str) -> ConfigError:
        return ConfigError([ConfigFault(str(path), 1, 1, "(file)", found, expected)])

    try:
        # A device or a pipe has no size to ask for, and no end.
        if not stat.S_ISREG(path.stat().st_mode):
            raise refuse("no regular file", "a readable YAML file")
        with path.open("rb") as stream:
            data = stream.read(FILE_BYTES_MAX + 1)
        if len(data) > FILE_BYTES_MAX:
            raise refuse(f"more than {FILE_BYTES_MAX} bytes", f"at most {FILE_BYTES_MAX} bytes")
        return io.TextIOWrapper(io.BytesIO(data), encoding="utf-8").read()
    except FileNotFoundError:
        raise refuse("no such file", "a readable YAML file") from None
    except OSError as error:
        raise refuse(error.strerror or type(error).__name__, "a readable YAML file") from None
    except UnicodeDecodeError as error:
        raise refuse(f"a byte that is not UTF-8 at offset {error.start}", "UTF-8 text") from None


def load_model(path: Path, model: type[Model]) -> Model:
    """Read ``path`` as ``model``.

    Raises :class:`ConfigError` listing every fault with file, line and column, in the order of the file.
    """
    tree = _Tree(str(path))
    data = _compose(read_text(path), tree)
    if tree.faults:
        raise ConfigError(tree.faults)
    try:
        return model.model_validate(data)
    except ValidationError as error:
        faults = [_fault_of(item, tree) for item in error.errors(include_url=False)]
        raise ConfigError(sorted(faults, key=lambda fault: (fault.line, fault.column))) from None


def _compose(text: str, tree: _Tree) -> Plain:
    try:
        node = YAML(typ="safe", pure=True).compose(text)
    except RecursionError:
        fault = ConfigFault(tree.file, 1, 1, "(file)", "brackets nested beyond any use", "a flat configuration")
        raise ConfigError([fault]) from None
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        problem = getattr(error, "problem", None) or "not YAML"
        raise ConfigError([ConfigFault(tree.file, line, column, "(file)", problem, "valid YAML 1.2")]) from None
    if not isinstance(node, MappingNode):
        raise ConfigError([ConfigFault(tree.file, 1, 1, "(file)", "no keys", "a mapping of keys to values")])
    return tree.convert(node, ())


def _fault_of(item: object, tree: _Tree) -> ConfigFault:
    assert isinstance(item, dict)
    kind, message, value = str(item["type"]), str(item["msg"]), item.get("input")
    path = _strip_tags(tuple(item["loc"]), tree, missing=kind == "missing")
    if kind == "extra_forbidden":
        position = tree.positions.get((*path, "")) or _nearest(path, tree)
        return ConfigFault(tree.file, *position, dotted(path), f"the unknown key {path[-1]!r}", "a known key")
    if kind == "missing":
        return ConfigFault(tree.file, *_nearest(path[:-1], tree), dotted(path), "nothing", "this key to be present")
    found = _found(value)
    context = item.get("ctx", {})
    if kind == "value_error":
        expected = message.removeprefix("Value error, ")
    elif kind in ("too_short", "too_long"):
        bound = f"at least {context['min_length']}" if kind == "too_short" else f"at most {context['max_length']}"
        found, expected = f"{context['actual_length']} entries", f"{bound}"
    elif kind == "union_tag_invalid":
        # Pydantic reports the mapping; the fault is in the key that says which kind it is.
        key = str(context["discriminator"]).strip("'")
        path, found, expected = (*path, key), repr(context["tag"]), f"one of {context['expected_tags']}"
    else:
        expected = message.removeprefix("Input should be ")
    return ConfigFault(tree.file, *_nearest(path, tree), dotted(path), found, expected)


def _found(value: object) -> str:
    """A value as it is shown in a fault: short lists as they are, mappings by their keys."""
    if isinstance(value, str | int | float | bool | None):
        return repr(value)
    if isinstance(value, list | tuple) and all(isinstance(item, str | int | float | bool | None) for item in value):
        shown = list(value[:ITEMS_SHOWN])
        return "[" + ", ".join(map(repr, shown)) + (", …]" if len(value) > ITEMS_SHOWN else "]")
    return "a value that does not fit" if isinstance(value, dict | list) else type(value).__name__


def _strip_tags(loc: Path_, tree: _Tree, *, missing: bool) -> Path_:
    """Pydantic adds the tag of a discriminated union to the location; the file has no such level.

    ``missing``: the last part is a key that the file lacks.
    """
    path: Path_ = ()
    for index, part in enumerate(loc):
        last = missing and index == len(loc) - 1
        if (*path, part) in tree.positions or last:
            path = (*path, part)
    return path


def positions_of(path: Path) -> dict[Path_, Position]:
    """Position of every value in a valid YAML file, by its path of keys and indices."""
    tree = _Tree(str(path))
    _compose(read_text(path), tree)
    return tree.positions


def _nearest(path: Path_, tree: _Tree) -> Position:
    while path not in tree.positions and path:
        path = path[:-1]
    return tree.positions.get(path, (1, 1))
