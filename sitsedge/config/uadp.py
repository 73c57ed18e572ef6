"""What a deployment says of a UADP publisher beyond where it is heard: its name, the form of its messages, its keys."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from sitsedge.config.strict import FieldName, Strict

OVERLAP_S_MAX = 3_600.0
UINT32_MAX, UINT64_MAX = 2**32 - 1, 2**64 - 1
PublisherIdKind = Literal["byte", "uint16", "uint32", "uint64", "string"]
FieldKind = Literal[
    "double", "float", "sbyte", "byte", "int16", "uint16", "int32", "uint32", "int64", "uint64"
]  # what a model's input can be
UnusedKind = FieldKind | Literal["boolean", "string", "datetime", "guid", "bytestring", "statuscode", "xmlelement"]
Encoding = Literal["variant", "data-value", "raw"]
UInt32 = Annotated[int, Field(ge=0, le=UINT32_MAX)]
_ID_MAX = {"byte": 0xFF, "uint16": 0xFFFF, "uint32": UINT32_MAX, "uint64": UINT64_MAX}


class NamedPublisher(Strict):
    """A PublisherId that is not a UInt16: its type is part of it (OPC 10000-14, 7.2.4.4.2)."""

    type: PublisherIdKind
    value: Annotated[int, Field(ge=0)] | Annotated[str, Field(min_length=1, max_length=128)]

    @model_validator(mode="after")
    def _fits(self) -> NamedPublisher:
        if self.type == "string":
            if not isinstance(self.value, str):
                raise ValueError("a text as the value of a string")
        elif not isinstance(self.value, int) or self.value > _ID_MAX[self.type]:
            raise ValueError(f"a whole number that fits {self.type}")
        return self


def _publisher_form(value: object) -> str:
    return "named" if isinstance(value, dict | NamedPublisher) else "number"


AnyPublisherId = Annotated[
    Annotated[int, Field(ge=0, le=0xFFFF), Tag("number")] | Annotated[NamedPublisher, Tag("named")],
    Discriminator(_publisher_form),
]
"""A UInt16, or a name of another type. Told apart before it is checked, so that a fault is one fault."""


class UnusedField(Strict):
    """A field of the DataSet that is on the wire and is no input: it must be there, of its type, and good."""

    name: FieldName
    type: UnusedKind
    unused: Literal[True]


class ConfigVersion(Strict):
    """ConfigurationVersion of the DataSetMetaData, as every message must carry it."""

    major: UInt32
    minor: UInt32


class MessageForm(Strict):
    """How the DataSet is written, where it is not an ordinary message of Variants.

    ``raw`` has no types on the wire, so something that changes with the layout must be in every message:
    ``config_version``, or the ``group_version`` of the group header. ``fixed``: no payload header
    (UADP-Periodic-Fixed). ``source_time: receive``: the publisher sends no times; then nothing shows how old a value
    is, and a recorded message looks new, so it needs ``security`` with counted nonces.
    """

    encoding: Encoding = "variant"
    config_version: ConfigVersion | None = None
    group_version: UInt32 | None = None
    fixed: bool = False
    source_time: Literal["message", "receive"] = "message"

    @model_validator(mode="after")
    def _told_apart(self) -> MessageForm:
        if self.encoding == "raw" and self.config_version is None and self.group_version is None:
            raise ValueError("'config_version' or 'group_version' with raw: nothing else shows that the layout changed")
        return self


class UadpSecurity(Strict):
    """Message security of the publisher (OPC 10000-14, 7.2.4.4.3) and where its keys are.

    ``keys``: a key file (format: ``fieldbus.uadp.keyfile``), relative to the state folder's ``keys``; ``credential``:
    the name of a systemd credential with the same contents. The file is read again when it is replaced; a key stays for
    ``overlap_s`` after its end. ``nonces: random`` for publishers that do not count them (open62541 1.5 does not).
    """

    mode: Literal["sign", "sign-encrypt"]
    policy: Literal["PubSub-Aes128-CTR", "PubSub-Aes256-CTR"]
    group: Annotated[str, Field(pattern=r"^[!-~]{1,128}$")]
    keys: Annotated[str, Field(min_length=1, max_length=255)] | None = None
    credential: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$")] | None = None
    nonces: Literal["counted", "random"] = "counted"
    overlap_s: Annotated[float, Field(ge=0, le=OVERLAP_S_MAX, allow_inf_nan=False)] = 10.0

    @model_validator(mode="after")
    def _one_place(self) -> UadpSecurity:
        if (self.keys is None) == (self.credential is None):
            raise ValueError("either 'keys' or 'credential'")
        return self
