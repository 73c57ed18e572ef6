"""The client of an OPC UA station and what it asks for, made from the station's keys."""

from __future__ import annotations

from pathlib import Path

from fieldbus.opcua import (
    ItemOptions,
    PolicyChoice,
    ReconnectPolicy,
    Renewal,
    SecureClient,
    SharedIdentity,
    SubscriptionOptions,
    Trigger,
    UserCredential,
    in_namespace,
    load_certificate,
    load_identity,
    parse_path,
)
from sitsedge.bridge.config import BridgeConfig
from sitsedge.config.stations import OpcUaStation, OpcUaTag

HAND_OVER_MAX = 8_192
"""Values held for a busy assembler; with 64 tags that is 128 samples, after which the oldest go and are counted."""

FIRST_WAIT_S = 0.2
TRIGGER = "(trigger)"
"""Name of a trigger that is no tag; no tag can be called so."""

_MS_PER_S = 1000.0


def trigger_name(station: OpcUaStation) -> str:
    """Name under which the trigger is subscribed: a tag's own where it is one, else ``TRIGGER``."""
    if station.trigger is None:
        return TRIGGER
    trigger = in_namespace(parse_path(station.trigger), station.namespace)
    same = (tag.name for tag in station.tags if in_namespace(parse_path(tag.path), station.namespace) == trigger)
    return next(same, TRIGGER)


def own_identity(config: BridgeConfig, base: Path, *, look_only: bool = False) -> SharedIdentity:
    """Who the bridge is towards every OPC UA station: one certificate, renewed when each of them trusts the next one.

    Raises CertificateError for files that cannot be used.
    """
    assert config.certificate is not None, "the bridge's configuration demands it"
    assert config.private_key is not None
    certificate = base / config.certificate
    if not any(isinstance(station, OpcUaStation) and station.renew for station in config.stations):
        return SharedIdentity(load_identity(certificate, base / config.private_key), None)
    renewal = Renewal(certificate.parent, certificate.stem)
    if look_only:
        return SharedIdentity(load_identity(certificate, base / config.private_key), renewal, look_only=True)
    return SharedIdentity(renewal.load(), renewal)  # a renewal that was cut off is finished first


def make_client(
    station: OpcUaStation, *, identity: SharedIdentity, base: Path, missing_ok: bool = False
) -> tuple[SecureClient, dict[str, str]]:
    """A client of the server, not connected, and what there is to subscribe to (name → browse path).

    Raises CertificateError for a pinned certificate that cannot be used.
    """
    assert station.server_certificate is not None, "the bridge's configuration demands it"
    server_certificate = base / station.server_certificate
    load_certificate(server_certificate)  # a missing pin is our own fault, not the server's
    paths = {tag.name: tag.path for tag in station.tags}
    if station.trigger is not None:
        paths[trigger_name(station)] = station.trigger
    max_s = station.reconnect_ms_max / _MS_PER_S
    client = SecureClient(
        station.endpoint,
        identity=identity,
        server_certificate=server_certificate,
        namespace_uri=station.namespace,
        tags=paths,
        deadline_s=station.deadline_ms / _MS_PER_S,
        policy=PolicyChoice(station.security_policy),
        user=_user(station, base),
        next_server_certificate=_beside(base, station.next_server_certificate),
        reconnect=ReconnectPolicy(first_s=min(FIRST_WAIT_S, max_s), max_s=max_s),
        missing_ok=missing_ok,
    )
    return client, paths


def subscription_options(station: OpcUaStation, *, source_age_ms_max: float) -> SubscriptionOptions:
    """What is asked of the server; its answer is held against ``source_age_ms_max``."""
    return SubscriptionOptions(
        publishing_ms=station.publishing_interval_ms,
        item_queue=station.item_queue,
        hand_over=HAND_OVER_MAX,
        trigger=Trigger(station.notify),
        items={tag.name: _item(tag) for tag in station.tags},
        latency_ms_max=source_age_ms_max,
    )


def _item(tag: OpcUaTag) -> ItemOptions:
    deadband = None if tag.deadband is None else tag.deadband.deadband()
    return ItemOptions(sampling_ms=tag.sampling_ms, queue=tag.queue, deadband=deadband)


def _user(station: OpcUaStation, base: Path) -> UserCredential | None:
    user = station.user
    if user is None:
        return None
    kept = user.password_file.startswith("credential:")
    return UserCredential(user.name, user.password_file if kept else str(base / user.password_file))


def _beside(base: Path, name: str | None) -> Path | None:
    return None if name is None else base / name
