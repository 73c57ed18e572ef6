"""From one datagram to one trusted sample: decode, order, freshness, quality."""

from __future__ import annotations

import time
from pathlib import Path

from fieldbus.clock import (
    ClockQuality,
    DeltaE,
    FreshnessCheck,
    FreshnessPolicy,
    Hold,
    PtpPolicy,
    PtpWatch,
    TimeQualityKind,
    time_quality,
)
from fieldbus.net import EthernetReceiver, FrameReceiver, ReceivedFrame, UdpReceiver
from fieldbus.uadp import (
    BuiltinType,
    DataSetLayout,
    DataSetSample,
    FieldEncoding,
    KeepAlive,
    LayoutReader,
    PublisherId,
    PublisherIdType,
    SecureReader,
    SecurityError,
    SequenceTracker,
    UadpError,
)
from sitsedge.config import Deployment
from sitsedge.config.sources import UadpEthernetSource, UadpPublisher, UadpSource
from sitsedge.loop.budget import CycleRefused

#: What ``sits-bridge`` sends on loopback; nothing but the bridge and this loop reads it.
BRIDGE_PUBLISHER_ID = 1
BRIDGE_WRITER_GROUP_ID = 1
BRIDGE_DATA_SET_WRITER_ID = 1
ENCODINGS = {"variant": FieldEncoding.VARIANT, "data-value": FieldEncoding.DATA_VALUE, "raw": FieldEncoding.RAW}
FORGED = "frame-"
"""How the codes of frames begin that nobody knows the sender of."""


def layout_of(deployment: Deployment) -> DataSetLayout:
    """The one DataSet this deployment accepts, fields in the declared order; from the bridge every one is a Double."""
    source = deployment.source
    if not isinstance(source, UadpPublisher):
        fields = tuple((name, BuiltinType.DOUBLE) for name in deployment.field_names)
        bridge = PublisherId(PublisherIdType.UINT16, BRIDGE_PUBLISHER_ID)
        return DataSetLayout(bridge, BRIDGE_WRITER_GROUP_ID, BRIDGE_DATA_SET_WRITER_ID, fields)
    form, version = source.message, source.message.config_version
    return DataSetLayout(
        publisher_of(source),
        source.writer_group_id,
        source.data_set_writer_id,
        tuple((field.name, BuiltinType[field.type.upper()]) for field in source.fields),
        encoding=ENCODINGS[form.encoding],
        config_version=None if version is None else (version.major, version.minor),
        group_version=form.group_version,
        fixed=form.fixed,
        receive_time=form.source_time == "receive",
    )


def picked_of(deployment: Deployment) -> tuple[int, ...] | None:
    """Which fields of the DataSet the model takes, in its order; None: all of them as they come."""
    source = deployment.source
    if not isinstance(source, UadpPublisher):
        return None
    wire = [field.name for field in source.fields]
    picked = tuple(wire.index(name) for name in deployment.field_names)
    return None if picked == tuple(range(len(wire))) else picked


def publisher_of(source: UadpPublisher) -> PublisherId:
    """The PublisherId that the messages must carry, of the declared type."""
    named = source.publisher_id
    if isinstance(named, int):
        return PublisherId(PublisherIdType.UINT16, named)
    return PublisherId(PublisherIdType[named.type.upper()], named.value)


def open_receiver(deployment: Deployment) -> FrameReceiver:
    """The socket that the deployment's frames come in at. Raises NetError."""
    source = deployment.source
    if isinstance(source, UadpEthernetSource):
        senders = None if source.sources is None else frozenset(source.sources)
        return EthernetReceiver(source.interface, group=source.group, vlan_id=source.vlan_id, sources=senders)
    if isinstance(source, UadpSource):
        multicast = int(source.address.split(".")[0]) in range(224, 240)
        if multicast:
            return UdpReceiver(
                "0.0.0.0",  # noqa: S104 - the group decides
                source.port,
                group=source.address,
                interface=source.interface,
                sources=source.sources,
            )
        return UdpReceiver(source.address, source.port, sources=source.sources)
    return UdpReceiver("127.0.0.1", source.bridge_port, sources=["127.0.0.1"])


def watch_of(deployment: Deployment, folder: Path | None = None) -> PtpWatch | None:
    """The watch over PTP that the deployment asks for, started; None where it asks for none. ``folder`` for its socket,
    which ptp4l must see.

    Its thread inherits the caller's scheduling: one of lower priority could be put aside while it holds the
    interpreter's lock, and the loop would wait for it.
    """
    ptp = deployment.timing.ptp
    if ptp is None:
        return None
    policy = PtpPolicy(
        error_us_max=ptp.error_us_max,
        holdover_s_max=ptp.holdover_s_max,
        drift_ppm_max=ptp.drift_ppm_max,
        sync_silence_s_max=ptp.sync_silence_s_max,
        free_running=ptp.free_running,
        grandmasters=None if ptp.grandmasters is None else frozenset(map(bytes.fromhex, ptp.grandmasters)),
    )
    return PtpWatch(ptp.socket, policy, domain=ptp.domain, folder=folder)


class Ingest:
    """Decoding and the clock check, with the state each needs between two frames."""

    def __init__(
        self, deployment: Deployment, watch: PtpWatch | None = None, *, security: SecureReader | None = None
    ) -> None:
        """``watch`` stays the caller's to close; without it the kernel's own account of the clock counts. ``security``
        opens the messages of a publisher whose source demands it."""
        assert (security is not None) == (getattr(deployment.source, "security", None) is not None)
        timing = deployment.timing
        self._watch = watch
        self._w_sync_ms_max = None if timing.ptp is None else timing.ptp.w_sync_ms_max
        self.delta_e = DeltaE()
        self._reader = LayoutReader(layout_of(deployment), security=security)
        self._picked = picked_of(deployment)
        self._tracker = SequenceTracker()
        self._missed = 0
        self._missed_shown = 0  # by a keep-alive, until the next message counts them
        self.clock = self._ask()
        self._freshness = FreshnessCheck(
            FreshnessPolicy(
                age_ms_max=timing.source_age_ms_max,
                future_ms_max=timing.future_ms_max,
                time_quality_min=TimeQualityKind.from_label(timing.time_quality_min),
            ),
            time_quality=self.quality,
        )

    @property
    def quality(self) -> TimeQualityKind:
        """What the clock was last found to be."""
        return self.clock.kind

    def refresh_quality(self) -> None:
        """Take over what the watch last found, or ask the kernel again; a few microseconds."""
        self.clock = self._ask()
        self._freshness.update_time_quality(self.quality)

    def _ask(self) -> ClockQuality:
        if self._watch is not None:
            return self._watch.quality()
        kernel = time_quality()
        return ClockQuality(kernel.kind, Hold.NONE, kernel.max_error_ns, kernel.tai_offset_s)

    def measures(self) -> dict[str, object]:
        """Plain data for the snapshot: the clock's state, messages missed by their numbers (superseded ones too), Δe
        and, with a watch, W_sync (ns; None: not measured)."""
        figures = self.delta_e.figures()
        data: dict[str, object] = {
            "clock": {
                "kind": self.clock.kind.label,
                "hold": self.clock.hold.value,
                "error_ns_max": self.clock.error_ns_max,
                "tai_offset_s": self.clock.tai_offset_s,
                "reason": self.clock.reason,
            },
            "missed_numbers": self._missed + self._missed_shown,
            "delta_e": {name: getattr(figures, name) for name in figures.__slots__},
        }
        if self._watch is not None:
            data["w_sync_ns"] = self._watch.path_rtt.w_sync_ns(time.monotonic_ns())
        return data

    def _measure(self, frame: ReceivedFrame, *, stepped: bool = False) -> None:
        self.delta_e.add(frame.t_rx_ns, time.time_ns(), stepped=stepped, stamped=frame.stamp != "user")

    def decode(self, frame: ReceivedFrame) -> DataSetSample:
        """Raises :class:`CycleRefused` ``frame`` naming the codec's own code, or, for what the publisher's keys do not
        let in, ``frame-`` and that code (``frame-unsecured``, ``frame-signature``, ``frame-nonce-replayed``, …)."""
        try:
            sample = self._reader.read(frame.data, t_rx_ns=frame.t_rx_ns)
        except KeepAlive as alive:
            self._measure(frame)
            self._missed_shown = 0 if alive.sequence is None else self._tracker.lost_before(alive.sequence)
            found = f"keep-alive: {self._missed_shown} messages lost before it"
            raise CycleRefused("frame", found=found, expected="values") from alive
        except SecurityError as error:
            # Not measured: whoever sends forgeries would choose what the quick refusals do to Δe.
            raise CycleRefused(
                FORGED + error.code, found=error.found, expected=error.expected, hint=error.hint
            ) from error
        except UadpError as error:
            self._measure(frame)
            raise CycleRefused("frame", found=f"{error.code}: {error.found}", expected=error.expected) from error
        return sample if self._picked is None else _pick(sample, self._picked)

    def check_clock(self, sample: DataSetSample, frame: ReceivedFrame) -> None:
        """Raises :class:`CycleRefused` with the clock check's code, ``w-sync``, ``w-sync-empty`` or ``bad-quality``."""
        verdict = self._tracker.update(sample.sequence)
        self._missed, self._missed_shown = self._missed + verdict.missed, 0
        fault = self._freshness.check(
            verdict.extended,
            sample.t_source_ns,
            frame.t_rx_ns,
            time.time_ns(),
            now_mono_ns=time.monotonic_ns(),
        )
        self._measure(frame, stepped=fault is not None and fault.code == "clock-step")
        if fault is not None:
            raise CycleRefused(fault.code, found=fault.found, expected=fault.expected)
        if self._watch is not None and self._w_sync_ms_max is not None:
            apart = self._watch.path_rtt.check(time.monotonic_ns(), ms_max=self._w_sync_ms_max)
            if apart is not None:
                raise CycleRefused(apart.code, found=apart.found, expected=apart.expected)
        if not sample.good:
            raise CycleRefused("bad-quality", found=f"status 0x{sample.status:08x}", expected="good quality")


def _pick(sample: DataSetSample, places: tuple[int, ...]) -> DataSetSample:
    """The sample of some fields; what is bad about the others stays bad."""
    values, states = sample.values, sample.field_status
    return DataSetSample(
        sample.sequence,
        sample.t_source_ns,
        tuple([values[place] for place in places]),
        sample.status,
        tuple([states[place] for place in places]),
    )
