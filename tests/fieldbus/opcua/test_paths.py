"""Browse paths with namespaces: text and back, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldbus.opcua import OpcUaError, PathElement, format_path, in_namespace, parse_path
from fieldbus.opcua.paths import ELEMENTS_MAX, NAME_CHARACTERS_MAX, PATH_CHARACTERS_MAX, URI_CHARACTERS_MAX

DI = "http://opcfoundation.org/UA/DI/"
TRICKY = st.text("ab&/;%=3B25ns u", min_size=1, max_size=12)
URIS = st.text("ab&/;%=3B25nsu:", min_size=1, max_size=12)
ELEMENTS = st.lists(
    st.builds(PathElement, TRICKY, st.none() | URIS).filter(
        lambda item: item.namespace_uri is not None or not item.name.startswith("nsu=")
    ),
    min_size=1,
    max_size=6,
)


@given(ELEMENTS)
def test_a_written_path_is_read_as_it_was_meant(elements: list[PathElement]) -> None:
    assert parse_path(format_path(elements)) == tuple(elements)


@given(st.text("nsu=;/&%3B5ab ", max_size=40))
def test_any_text_is_a_path_or_refused_and_reads_the_same_when_written_again(text: str) -> None:
    try:
        elements = parse_path(text)
    except OpcUaError:
        return
    assert parse_path(format_path(elements)) == elements


@pytest.mark.parametrize(
    ("text", "elements"),
    [
        ("Mill/Gap", [("Mill", None), ("Gap", None)]),
        (f"nsu={DI};DeviceSet/Drive/nsu={DI};Id", [("DeviceSet", DI), ("Drive", None), ("Id", DI)]),
        ("P&ID/a&/b/c&&", [("P&ID", None), ("a/b", None), ("c&", None)]),
        ("nsu=urn:x;nsu=y;z", [("nsu=y;z", "urn:x")]),
        ("nsu=urn:a%3Bb%25;Gap", [("Gap", "urn:a;b%")]),
        ("2:Gap/ns=2;Gap/a nsu=b", [("2:Gap", None), ("ns=2;Gap", None), ("a nsu=b", None)]),  # names, no indices
    ],
)
def test_what_is_a_namespace_and_what_a_name(text: str, elements: list[tuple[str, str | None]]) -> None:
    assert [(item.name, item.namespace_uri) for item in parse_path(text)] == elements


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty name"),
        ("Mill//Gap", "empty name"),
        ("Mill/", "empty name"),
        ("/Mill", "empty name"),
        ("nsu=urn:x;", "empty name"),
        ("nsu=urn:x/Gap", "no ';'"),
        ("nsu=;Gap", "the namespace ''"),
        ("nsu=urn:x y;Gap", "the namespace 'urn:x y'"),
        ("nsu=urn:x%20y;Gap", "a '%'"),
        ("nsu=urn:x%3by;Gap", "a '%'"),
        (f"nsu={'u' * (URI_CHARACTERS_MAX + 1)};Gap", "the namespace"),
        ("n" * (NAME_CHARACTERS_MAX + 1), f"{NAME_CHARACTERS_MAX + 1} characters"),
        ("/".join("a" * (ELEMENTS_MAX + 1)), f"more than {ELEMENTS_MAX} names"),
        ("a/" * PATH_CHARACTERS_MAX, "characters"),
    ],
)
def test_what_is_no_path_is_refused(text: str, words: str) -> None:
    with pytest.raises(OpcUaError, match=words) as caught:
        parse_path(text)
    assert caught.value.code == "browse-path"


def test_a_path_with_and_without_the_default_namespace_is_the_same() -> None:
    assert in_namespace(parse_path("Mill/nsu=urn:x;Gap"), "urn:m") == in_namespace(
        parse_path("nsu=urn:m;Mill/nsu=urn:x;Gap"), "urn:m"
    )
