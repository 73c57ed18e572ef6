"""Everything that must be true before a process starts: keys, certificates, module, TPM, enrolment, boot policy.

In the development profile what is missing is made here and said; a production profile only checks.
"""

from __future__ import annotations

import errno
import hashlib
import ipaddress
import logging
import shutil
import socket
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from attest import jsontext
from attest.boot import eventlog, measure
from attest.boot.policy import Mismatch, make_policy, parse_policy, reference_state
from attest.command import GateKey
from attest.evidence.builder import IMA_LIST
from attest.evidence.enrol import enrol_locally
from attest.ledger.anchors import write_anchors
from attest.proof import Curve
from attest.tpm import Swtpm, TpmChoice, TpmDevice, find_tcti
from fieldbus.opcua import CertificateError, Identity, TrustList, create_identity, load_certificate, load_identity
from sitsedge.config import Deployment, GateFile, load_deployment, load_gate_file
from sitsedge.config.consistency import check
from sitsedge.config.deployment import ReplayPlant, RollingMillPlant, deployment_digest
from sitsedge.config.plc import OpcUaPlc
from sitsedge.config.sources import Bridged, UadpSource
from sitsedge.config.stations import OpcUaStation
from sitsedge.errors import SitsError
from sitsedge.gate.plc.make import check_block
from sitsedge.gate.rules import gate_rules
from sitsedge.modules import Bundle, ModuleStore, PublisherTrust
from sitsedge.modules.profile import require_ceremony_keys, require_no_build
from sitsedge.supervisor.bridging import pinned_certificate
from sitsedge.supervisor.groupkeys import ensure_group_keys
from sitsedge.supervisor.keys import authority, ensure_key, signing_key
from sitsedge.supervisor.resident import prepare_resident
from sitsedge.supervisor.revision import check_revision
from sitsedge.supervisor.sealfiles import RESIDENT, seal_authority
from sitsedge.supervisor.serverpart import APPLIANCE, check_server_files
from sitsedge.supervisor.state import StateDir

NS_PER_S = 1_000_000_000
DAY_S = 86_400
BUILD_RECORD = ".built-from.json"
CLOCK_SLACK_S = 3600  # a policy begins this much earlier: the verifier's clock may be behind

log = logging.getLogger(__name__)
Say = Callable[[str], None]


@dataclass(slots=True)
class Prepared:
    """What a deployment starts with. ``swtpm`` is running where the TPM is simulated."""

    path: Path
    deployment: Deployment
    gate: GateFile
    state: StateDir
    bundle: Bundle
    deployment_digest: bytes
    attestation_mode: str
    tpm: TpmChoice | None
    swtpm: Swtpm | None
    gate_key: GateKey
    policy_public: bytes


def load_files(path: Path) -> tuple[Deployment, GateFile, Path]:
    """Both files, read and checked. Raises ``ConfigError``."""
    deployment = load_deployment(path)
    gate_path = path.parent / deployment.gate_file
    return deployment, load_gate_file(gate_path), gate_path


def check_mode(deployment: Deployment, attestation_mode: str) -> None:
    """``none`` is for development only. Raises :class:`SitsError` ``attestation-mode``."""
    if attestation_mode == "none" and deployment.profile != "development":
        raise SitsError(
            "attestation-mode",
            found="--attestation-mode none with a production profile",
            expected="tpm2",
            hint="without attestation nobody can tell which machine signed a command",
        )


def check_ports(deployment: Deployment, gate: GateFile) -> None:
    """The ports this deployment will listen on must be free, and each asked for once.

    Raises :class:`SitsError` ``port-in-use``, ``port-twice``, ``address-unknown`` (none of this machine's).
    """
    wanted: list[tuple[int, str, int]] = []
    if isinstance(deployment.source, UadpSource):
        if int(deployment.source.address.split(".")[0]) < 224:
            wanted.append((socket.SOCK_DGRAM, deployment.source.address, deployment.source.port))
    elif isinstance(deployment.source, Bridged):
        wanted.append((socket.SOCK_DGRAM, "127.0.0.1", deployment.source.bridge_port))
    if deployment.simulation is not None:
        endpoint = gate.plc.endpoint if gate.plc is not None else getattr(deployment.source, "endpoint", "")
        url = urlsplit(endpoint)
        if url.hostname and url.port:
            wanted.append((socket.SOCK_STREAM, url.hostname, url.port))
    if deployment.server is not None:
        wanted.append((socket.SOCK_STREAM, deployment.server.address, deployment.server.port))
    for number, (kind, address, port) in enumerate(wanted):
        name = "TCP" if kind == socket.SOCK_STREAM else "UDP"
        if any(_overlap((kind, address, port), other) for other in wanted[:number]):
            raise SitsError("port-twice", found=f"{name} port {port} for two things", expected="a port for each")
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, kind) as probe:
            if kind == socket.SOCK_STREAM:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address, port))
            except OSError as error:
                if error.errno == errno.EADDRNOTAVAIL:
                    raise SitsError(
                        "address-unknown",
                        found=f"{address}, which is no address of this machine",
                        expected="one of its own to listen at",
                        hint="correct the address in the file, or bring the network interface up",
                    ) from error
                raise SitsError(
                    "port-in-use",
                    found=f"{name} {address}:{port}: {error.strerror}",
                    expected="a free port",
                    hint="stop the other program (perhaps another deployment) or change the port in the file",
                ) from error


def _overlap(one: tuple[int, str, int], other: tuple[int, str, int]) -> bool:
    """Whether two sockets (kind, host, port) cannot both listen."""
    hosts = {"127.0.0.1" if host == "localhost" else host for host in (one[1], other[1])}
    return one[0] == other[0] and one[2] == other[2] and (len(hosts) == 1 or any(map(_everywhere, hosts)))


def _everywhere(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def prepare(
    path: Path,
    state: StateDir,
    attestation_mode: str,
    *,
    say: Say,
    bundle: Path | None = None,
    publisher: Path | None = None,
) -> Prepared:
    """Make or check everything; on return a simulated TPM, where one is used, is running and measured.

    Raises ``ConfigError``, ``SitsError``, ``AttestError`` or ``FieldbusError``; then nothing is left running.
    """
    deployment, gate, gate_path = load_files(path)
    check_mode(deployment, attestation_mode)
    check_ports(deployment, gate)
    state.create()
    ensure_group_keys(deployment, state, now_ns=time.time_ns())
    development = deployment.profile == "development"
    keys, trust = state.keys, state.trust
    authority(keys / "publisher.key", trust / "publisher.pub", development=development, what="publisher")
    policy_public, policy_key = authority(
        keys / "policy.key", trust / "policy.pub", development=development, what="boot policy"
    )
    gate_key = ensure_key(keys / "gate.key", trust / "gate.pub", may_create=development, what="gate")
    _certificates(deployment, gate, state, path.parent)
    check_server_files(deployment, path, state)
    if publisher is not None:
        PublisherTrust.from_files([publisher])  # a typed error for anything but a public key
        shutil.copyfile(publisher, trust / "publisher-added.pub")
    module = ensure_module(deployment, path, state, say=say, bundle=bundle)
    check(deployment, path, gate, gate_path, inputs=module.config.inputs, outputs=module.config.outputs)
    check_block(gate, gate_path, module.config.outputs)
    prepared = Prepared(
        path=path,
        deployment=deployment,
        gate=gate,
        state=state,
        bundle=module,
        deployment_digest=deployment_digest(path),
        attestation_mode=attestation_mode,
        tpm=None,
        swtpm=None,
        gate_key=gate_key,
        policy_public=policy_public,
    )
    try:
        if attestation_mode != "none":
            _trusted_boot(prepared, policy_key, say=say)
        _anchors(prepared)
    except BaseException:
        if prepared.swtpm is not None:
            prepared.swtpm.stop()
        raise
    return prepared


def _certificates(deployment: Deployment, gate: GateFile, state: StateDir, base: Path) -> None:
    """Application certificates of gate, bridge, PLC and operator; a development profile makes its own.

    An OPC UA server of the plant has its own; its certificate is pinned and must be there. So has its PLC: where only
    ``plc.der`` was installed, its key is nobody's business here.
    """
    names = []
    if isinstance(gate.plc, OpcUaPlc):
        pinned = (state.pki / "plc.der").exists() and not (state.pki / "plc.key.pem").exists()
        if pinned and not isinstance(deployment.simulation, RollingMillPlant):
            names += ["gate"]
            load_certificate(state.pki / "plc.der")
        else:
            names += ["gate", "plc", "operator"]
    stations = deployment.source.all_stations() if isinstance(deployment.source, Bridged) else ()
    servers = [station for station in stations if isinstance(station, OpcUaStation)]
    if servers:
        names += ["bridge"]
    if isinstance(deployment.simulation, ReplayPlant):
        names += ["server"]
    if deployment.server is not None:
        names.append(APPLIANCE)
    for name in names:
        identity = application_identity(deployment, state, name)
        folders = {
            "gate": ("plc-trusted", "plc-gate"),
            "operator": ("plc-trusted", "plc-operator"),
            "bridge": ("server-trusted",),
        }
        for folder in folders.get(name, ()):
            TrustList(state.pki / folder).add(identity.certificate)
    for station in servers:
        load_certificate(pinned_certificate(station, base, state.pki))


def application_identity(deployment: Deployment, state: StateDir, name: str) -> Identity:
    """Our certificate and key called ``name``; a development profile makes them. Raises CertificateError."""
    certificate, key = state.pki / f"{name}.der", state.pki / f"{name}.key.pem"
    if not certificate.exists() and not key.exists() and deployment.profile == "development":
        uri = f"urn:sits-edge:{deployment.name}:{name}"
        own = deployment.server if name == APPLIANCE else None
        hosts = ("127.0.0.1", "localhost") if own is None else own.host_names
        return create_identity(state.pki, name, application_uri=uri, hosts=hosts)
    try:
        return load_identity(certificate, key)
    except CertificateError as error:
        if error.code == "file-unreadable" and not error.hint:
            error.hint = f"a production profile makes no certificates: install {certificate} and {key.name} (0600)"
        raise


def ensure_module(
    deployment: Deployment, path: Path, state: StateDir, *, say: Say, bundle: Path | None = None
) -> Bundle:
    """The active module: imported from a bundle, or built from the ONNX file when its sources changed.

    Raises :class:`SitsError` ``module-missing`` when neither the file nor the caller names one.
    """
    trust = PublisherTrust.from_files(sorted(state.trust.glob("publisher*.pub")))
    store = ModuleStore(state.modules, trust)
    model, base = deployment.model, path.parent
    source = bundle or (base / model.bundle if model.bundle is not None else None)
    if source is not None:
        digest = store.import_bundle(source)
        require_ceremony_keys(deployment.profile, store.load(digest).config)
        return store.activate(digest)
    if model.onnx is None:
        raise SitsError(
            "module-missing",
            found="no model in the deployment file and no --bundle",
            expected="a module",
            hint="build one with sitsctl module build, then give --bundle and --publisher",
        )
    require_no_build(deployment.profile)
    from sitsedge.compiler import build  # only here is the compiler loaded

    assert model.calibration is not None
    assert model.limits is not None
    sources = [base / model.onnx, base / model.calibration, base / model.limits]
    stamp = {source.name: hashlib.sha256(source.read_bytes()).hexdigest() for source in sources}
    if model.curve is not None:
        stamp["curve"] = model.curve
    record = state.modules / BUILD_RECORD
    if record.exists() and store.active() is not None and jsontext.loads(record.read_text()) == stamp:
        return store.load_active()
    say(f"building the module from {model.onnx}: integer graph, WASM, circuit, keys, report")
    work = Path(tempfile.mkdtemp(prefix=".build-", dir=state.root))
    try:
        onnx, calibration, limits = sources
        publisher = signing_key(state.keys / "publisher.key")
        curve = Curve.named(model.curve or Curve.BN254.text)
        out = work / "bundle"
        result = build(onnx, calibration, limits, out, signer=publisher, name=deployment.name, curve=curve)
        built = store.activate(store.import_bundle(result.path))
    finally:
        shutil.rmtree(work, ignore_errors=True)
    record.write_text(jsontext.dumps(stamp))
    return built


def _trusted_boot(prepared: Prepared, policy_key: GateKey | None, *, say: Say) -> None:
    """TPM, measurement, enrolment and policy, in this order."""
    deployment, state = prepared.deployment, prepared.state
    rules = deployment.attestation
    prepared.tpm = find_tcti(rules.tpm, allow_simulated=rules.allow_simulated, state_dir=state.tpm)
    check_ima(deployment, prepared.tpm.kind)
    if prepared.tpm.kind == "swtpm":
        say("starting a simulated TPM (swtpm): it shows the protocol, it protects nothing")
        prepared.swtpm = Swtpm(state.tpm)
        prepared.swtpm.start()
        prepared.swtpm.export_ca(state.trust / "tpm-ca")
    state.tpm_restarting.unlink(missing_ok=True)  # of a supervisor that was killed meanwhile
    with TpmDevice(prepared.tpm.tcti) as tpm:
        check_revision(tpm, deployment)
        firmware = measure.read_firmware_log() if prepared.tpm.kind == "hardware" else None
        encoded = measure.measure_software(tpm, log_path=state.event_log, firmware_log=firmware)
        if not state.event_log.exists():
            state.event_log.write_bytes(encoded)
        measure_application(tpm, prepared)
        _enrol(tpm, prepared, policy_key, say=say)
        _boot_policy(tpm, eventlog.parse(encoded), prepared, policy_key, say=say)
        if prepared.attestation_mode == RESIDENT:
            prepare_resident(tpm, deployment, state, say=say)


def check_ima(deployment: Deployment, kind: str, *, listed: Path = IMA_LIST) -> None:
    """Where the deployment wants IMA's list, the kernel must keep one in this TPM. Raises :class:`SitsError`."""
    if not deployment.attestation.ima:
        return
    if kind != "hardware":
        raise SitsError(
            "attestation-ima",
            found="a simulated TPM",
            expected="the TPM that the kernel extends",
            hint="remove attestation.ima from the deployment file",
        )
    if not listed.exists():
        raise SitsError(
            "attestation-ima",
            found=f"no {listed}",
            expected="a kernel with IMA and a policy that measures",
            hint="boot with ima_policy=tcb, or remove attestation.ima from the deployment file",
        )


def measure_application(tpm: TpmDevice, prepared: Prepared) -> None:
    """Module and deployment into the PCR that the deployment chose, if it chose one. Raises ``TpmError``."""
    pcr = prepared.deployment.attestation.application_pcr
    if pcr is not None:
        tpm.measure_application(pcr, module_digest=prepared.bundle.digest, deployment_digest=prepared.deployment_digest)


def _enrol(tpm: TpmDevice, prepared: Prepared, policy_key: GateKey | None, *, say: Say) -> None:
    record = prepared.state.trust / "device-record.cbor"
    if record.exists():
        return
    if policy_key is None:
        raise SitsError(
            "not-enrolled",
            found="no device record",
            expected="an enrolled device",
            hint="run sitsctl attest enroll request, with the person who holds the policy key",
        )
    say("enrolling this device: EK certificate, credential activation, device record")
    roots = [path.read_bytes() for path in sorted((prepared.state.trust / "tpm-ca").glob("*.pem"))]
    data = enrol_locally(
        tpm,
        policy_signer=policy_key,
        ca_roots=roots,
        device_id=prepared.deployment.device_id,
        enrolled_by="development profile",
        now_ns=time.time_ns(),
    )
    record.write_bytes(data)


def _boot_policy(
    tpm: TpmDevice, events: eventlog.EventLog, prepared: Prepared, policy_key: GateKey | None, *, say: Say
) -> None:
    """Keep an existing policy; a development profile approves what it just measured when its software changed."""
    path = prepared.state.trust / "boot-policy.cose"
    values = tpm.read_pcrs(measure.QUOTED_PCRS)
    version = 1
    if path.exists():
        policy, _ = parse_policy(path.read_bytes())
        if policy_key is None or not isinstance(policy.match(values, events), Mismatch):
            return
        version = policy.version + 1
        say("this machine's software changed since the last approved boot: approving it again (development profile)")
    elif policy_key is None:
        raise SitsError(
            "no-boot-policy",
            found="no boot policy",
            expected="one signed by the plant",
            hint="sitsctl attest policy make",
        )
    now_ns = time.time_ns()
    state = reference_state("development reference boot", log=events, values=values, pcrs=measure.QUOTED_PCRS)
    policy = make_policy(
        name=f"{prepared.deployment.name}-boot",
        version=version,
        states=[state],
        not_before_ns=now_ns - CLOCK_SLACK_S * NS_PER_S,
        not_after_ns=now_ns + prepared.deployment.attestation.policy_days * DAY_S * NS_PER_S,
        tpm_kinds=["hardware", "swtpm"] if prepared.deployment.attestation.allow_simulated else ["hardware"],
    )
    path.write_bytes(policy.sign(policy_key))


def _anchors(prepared: Prepared) -> None:
    state, deployment = prepared.state, prepared.deployment
    tpm = prepared.attestation_mode != "none"
    write_anchors(
        state.anchors,
        profile=deployment.profile,
        gate_id=deployment.gate_id,
        device_id=deployment.device_id,
        gate_origin=deployment.gate_origin,
        device_origin=deployment.device_origin,
        gate_public=prepared.gate_key.public,
        policy_public=prepared.policy_public,
        module_digest=prepared.bundle.digest,
        deployment_digest=prepared.deployment_digest,
        rules=gate_rules(prepared.gate, deployment, prepared.bundle.config),
        verification_key=prepared.bundle.verification_key if prepared.gate.proof != "off" else None,
        development_key=prepared.bundle.config.proof.development,
        device_record=(state.trust / "device-record.cbor").read_bytes() if tpm else None,
        boot_policy=(state.trust / "boot-policy.cose").read_bytes() if tpm else None,
        seal_authority=seal_authority(state) if prepared.attestation_mode == RESIDENT else None,
    )
