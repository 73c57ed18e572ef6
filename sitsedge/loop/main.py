"""``sitsd``: reads its files, takes its scheduling, runs the loop until it is told to stop."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from pathlib import Path

from attest.errors import AttestError
from fieldbus.errors import FieldbusError
from sitsedge.config import ConfigError, Deployment, load_deployment
from sitsedge.config.deployment import deployment_digest
from sitsedge.errors import SitsError
from sitsedge.loop.app import Loop
from sitsedge.loop.epoch import TPM_DEADLINE_S, AttestationSetup
from sitsedge.loop.resident import ResidentSigner
from sitsedge.modules import Bundle, ModuleStore, PublisherTrust
from sitsedge.modules.profile import require_ceremony_keys
from sitsedge.supervisor.sealfiles import MODES, RESIDENT, read_approvals, seal_authority
from sitsedge.supervisor.state import StateDir, state_dir_of
from sitsedge.telemetry import prepare_process

log = logging.getLogger("sitsedge.loop")


def _attestation(arguments: argparse.Namespace, config: Path, state: StateDir, bundle: Bundle) -> AttestationSetup:
    deployment = load_deployment(config)
    tpm = arguments.attestation_mode != "none"
    resident = arguments.attestation_mode == RESIDENT
    authority = seal_authority(state) if resident else None
    return AttestationSetup(
        mode=arguments.attestation_mode,
        device_id=deployment.device_id,
        gate_id=deployment.gate_id,
        module_digest=bundle.digest,
        deployment_digest=deployment_digest(config),
        gate_socket=arguments.gate_socket or state.gate_socket,
        ledger=state.device_ledger,
        tcti=arguments.tcti if tpm else None,
        record=(state.trust / "device-record.cbor").read_bytes() if tpm else b"",
        event_log=state.event_log,
        ima=tpm and deployment.attestation.ima,
        application_pcr=deployment.attestation.application_pcr if tpm else None,
        restarting=state.tpm_restarting,
        seal_authority=authority,
        signer=None if authority is None else _signer(arguments.tcti, authority, deployment, state),
    )


def _signer(tcti: str, authority: bytes, deployment: Deployment, state: StateDir) -> ResidentSigner:
    return ResidentSigner(
        tcti,
        authority=authority,
        approvals=read_approvals(state),
        deadline_s=deployment.cycle.deadline_ms / 1000,
        tpm_deadline_s=TPM_DEADLINE_S,
    )


def main(argv: list[str] | None = None) -> int:
    """Exit codes: 0 stopped as asked, 1 failed while running, 2 wrong configuration."""
    parser = argparse.ArgumentParser(prog="sitsd", description="the control loop: frame, inference, proof, command")
    parser.add_argument("--config", type=Path, required=True, help="deployment file")
    parser.add_argument("--state-dir", type=Path, help="state folder")
    parser.add_argument("--attestation-mode", choices=MODES, default="tpm2")
    parser.add_argument("--tcti", default="device:/dev/tpmrm0", help="where the TPM is")
    parser.add_argument("--gate-socket", type=Path, help="the gate's packet socket (default: in the state folder)")
    arguments = parser.parse_args(argv)
    os.environ.setdefault("TSS2_LOG", "all+none")
    try:
        deployment = load_deployment(arguments.config)
        state = state_dir_of(deployment, arguments.state_dir)
        state.create()
        granted = prepare_process(
            "sitsd",
            state.logs,
            lock_memory=deployment.profile == "production",
            fifo_priority=deployment.cycle.fifo_priority,
        )
        trust = PublisherTrust.from_files(sorted(state.trust.glob("publisher*.pub")))
        bundle = ModuleStore(state.modules, trust).load_active()
        require_ceremony_keys(deployment.profile, bundle.config)
        attestation = _attestation(arguments, arguments.config, state, bundle)
        Loop(arguments.config, state, attestation, bundle, realtime=granted.realtime).run()
    except ConfigError as error:
        log.error("%s", error)
        sys.stderr.write(f"{error}\n")
        return 2
    except (SitsError, AttestError, FieldbusError, OSError) as error:
        log.error("%s", error)
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
