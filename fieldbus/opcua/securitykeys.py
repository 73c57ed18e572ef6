"""Asking a Security Key Server (OPC 10000-14, 8.3.2): GetSecurityKeys over an encrypted channel → a key file.

One call and an end: what asks again, a timer or a script, is none of our business, and the loop that uses the keys
talks to nobody. The library gives the keys in bytes that cannot be overwritten, so this belongs in a process that ends.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asyncua import ua

from fieldbus.opcua.certificates import Identity
from fieldbus.opcua.connection import Target
from fieldbus.opcua.errors import OpcUaError
from fieldbus.opcua.establish import Peer, shut
from fieldbus.opcua.failures import PEER_ERRORS, status_error, transport_error
from fieldbus.opcua.policies import ReconnectPolicy
from fieldbus.uadp import KeyFile, SecurityPolicy
from fieldbus.uadp.keyfile import LIFETIME_S_MAX, NS_PER_S
from fieldbus.uadp.keys import TOKEN_ID_MAX, TOKENS_MAX

PUBLISH_SUBSCRIBE = ua.NodeId(14443, 0)
GET_SECURITY_KEYS = ua.NodeId(15215, 0)
MS_PER_S = 1_000


@dataclass(frozen=True, slots=True)
class KeyServer:
    """Where keys are asked for: ``peer``, and the certificate it must have."""

    peer: Peer
    certificate: Path


async def get_security_keys(
    server: KeyServer, *, identity: Identity, group: str, count: int, now_ns: int, deadline_s: float = 10.0
) -> KeyFile:
    """The current key of ``group`` and those after it, ``count`` of them at most.

    Raises OpcUaError as connecting does, the server's refusal by its StatusCode, or ``key-server`` for an answer that
    is none.
    """
    if not 1 <= count <= TOKENS_MAX:
        raise ValueError(f"{count} keys; 1 to {TOKENS_MAX}")
    url = server.peer.url
    target = Target(server.peer, (server.certificate,), "", {}, ReconnectPolicy(), deadline_s)
    client = await target.establish(identity, on_lost=lambda: None)
    try:
        async with asyncio.timeout(deadline_s):
            arguments = [
                ua.Variant(group, ua.VariantType.String),
                ua.Variant(0, ua.VariantType.UInt32),  # from the current key on
                ua.Variant(count, ua.VariantType.UInt32),
            ]
            answer = await client.get_node(PUBLISH_SUBSCRIBE).call_method(GET_SECURITY_KEYS, *arguments)
    except ua.UaStatusCodeError as error:
        raise status_error(int(error.code), doing=f"asking for the keys of {group}") from error
    except PEER_ERRORS as error:
        raise transport_error(error, doing="asking for keys", url=url) from error
    finally:
        await shut(client)
    return key_file_of(answer, group=group, now_ns=now_ns)


def key_file_of(answer: Any, *, group: str, now_ns: int) -> KeyFile:
    """The output arguments of GetSecurityKeys as a key file. Raises OpcUaError ``key-server``; shows no key.

    Output arguments: SecurityPolicyUri, FirstTokenId, Keys, TimeToNextKey and KeyLifetime (ms).
    """
    if not isinstance(answer, list | tuple) or len(answer) != 5:
        raise _wrong("another number of output arguments", "5")
    uri, first, keys, left_ms, lifetime_ms = answer
    policy = next((policy for policy in SecurityPolicy if policy.uri == uri), None)
    if policy is None:
        raise _wrong(f"the policy {str(uri)[:100]!r}", " or ".join(policy.uri for policy in SecurityPolicy))
    if not isinstance(keys, list | tuple) or not 1 <= len(keys) <= TOKENS_MAX:
        raise _wrong("no list of keys", f"1 to {TOKENS_MAX} keys")
    if not all(isinstance(key, bytes) and len(key) == policy.key_data_bytes for key in keys):
        raise _wrong("a key of another size", f"{policy.key_data_bytes} bytes each")
    if not isinstance(first, int) or isinstance(first, bool) or not 1 <= first <= TOKEN_ID_MAX - len(keys):
        raise _wrong("another first token id", f"1 … {TOKEN_ID_MAX}")
    if not (_duration(left_ms) and _duration(lifetime_ms)) or left_ms > lifetime_ms or lifetime_ms < MS_PER_S:
        raise _wrong("unusual times", f"0 ≤ TimeToNextKey ≤ KeyLifetime, of 1 s to {LIFETIME_S_MAX} s")
    end_s = (now_ns + round(left_ms * 1e6)) // NS_PER_S
    lifetime_s = int(lifetime_ms / MS_PER_S)
    return KeyFile(group, policy, first, list(map(bytearray, keys)), end_s * NS_PER_S, lifetime_s * NS_PER_S)


def _duration(value: object) -> bool:
    return isinstance(value, float) and math.isfinite(value) and 0 <= value <= LIFETIME_S_MAX * MS_PER_S


def _wrong(found: str, expected: str) -> OpcUaError:
    return OpcUaError("key-server", found=found, expected=expected, hint="that is no Security Key Server of UADP")
