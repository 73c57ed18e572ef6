"""Our own types: what the appliance is beyond a DI device. Names and meanings are part of the interface: they stay.

NodeIds are strings, the path of names from the type on (``ApplianceType.Epoch.Number``), so that no table of numbers
has to be kept and a reader of a log sees what was meant.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from asyncua import ua

from sitsedge.server.model.declare import group, method, own_type, tables, variable, variables
from sitsedge.server.model.device_integration import DEVICE_TYPE, HEALTH_ALARMS, device_integration
from sitsedge.server.model.machines import COMPONENT_IDENTIFICATION, machines
from sitsedge.server.model.names import DI, SITS, SITS_EDITION, sits, sits_name
from sitsedge.server.model.parts import (
    COMMAND_REFUSED,
    LATENCY_TYPE,
    OPERATING_MODE,
    OUTPUT_TYPE,
    PROCESS_TYPE,
    PROOF_KIND,
    part_types,
)
from sitsedge.server.model.spec import (
    ARRAY,
    BOOLEAN,
    BYTE_STRING,
    DOUBLE,
    DURATION,
    FOLDER,
    GENERATES_EVENT,
    HAS_ADD_IN,
    HAS_COMPONENT,
    OPTIONAL,
    OPTIONAL_PLACEHOLDER,
    STRING,
    UINT32,
    UINT64,
    UTC_TIME,
    Argument,
    Link,
    Name,
    Node,
    Types,
    completed,
)
from sitsedge.server.model.standard import metadata

APPLIANCE_TYPE: Final = sits("ApplianceType")

VERIFIED: Final = (
    "True while the gate stands by every command it accepts now: it was decided on fresh inputs inside their "
    "limits, its outputs are the exact integer inference of the approved model on those inputs (zero-knowledge "
    "proof), the machine is enrolled and its TPM quoted an approved boot state, and nothing was replayed, late, "
    "reordered or removed from the record. It does NOT say that the model is right or that a sensor tells the "
    "truth. A simulated TPM (see Epoch/TpmSimulated) and a development proving key (see DevelopmentKeys) protect "
    "nothing."
)


def _general() -> list[Node]:
    return [
        *variables(
            "ApplianceType",
            ("Mode", OPERATING_MODE, "The gate's mode. The PLC's own AUTO/MAN wins always."),
            ("ModeCeiling", OPERATING_MODE, "The highest mode that can be reached without a new start."),
            ("ModeCeilingReason", STRING, "Why it cannot go higher; empty where AUTO can be reached."),
            ("Verified", BOOLEAN, VERIFIED),
            ("VerifiedReason", STRING, "Why it is not verified; empty where it is."),
            ("ProofPolicy", STRING, "What the gate demands: inline, deferred (the proof follows) or off."),
            ("OnHold", BOOLEAN, "Whether commands wait until people confirm a mode, after proofs were overdue."),
            ("ModuleDigest", STRING, "SHA-256 of the running module's manifest, lower-case hexadecimal."),
            ("DeploymentDigest", STRING, "SHA-256 of the deployment file of the newest epoch, lower-case hexadecimal."),
            ("CurveText", STRING, "Curve of the proofs: bn254 (about 100-bit security) or bls12-381."),
            ("DevelopmentKeys", BOOLEAN, "Whether nobody contributed to the proving key: such proofs show nothing."),
            ("Profile", STRING, "development or production."),
            ("PlcConnected", BOOLEAN, "Whether the gate reaches the PLC."),
            ("PlcAuto", BOOLEAN, "Whether the PLC itself is in AUTO."),
        ),
        variable(
            "ApplianceType.DeviceHealthDiagnostics",
            STRING,
            "All that is behind DeviceHealth now, in words.",
            rank=ARRAY,
        ),
        Node(
            sits("ApplianceType.Identification"),
            Name(DI, "Identification"),
            ua.NodeClass.Object,
            "Identification of the appliance as a part of a machine.",
            APPLIANCE_TYPE,
            HAS_ADD_IN,
            type=COMPONENT_IDENTIFICATION,
            rule=OPTIONAL,
        ),
    ]


def _epoch_and_clock() -> list[Node]:
    return [
        group("ApplianceType.Epoch", "The time for which one attestation of the machine counts."),
        *variables(
            "ApplianceType.Epoch",
            ("Number", UINT64, "Of the open epoch."),
            ("Opened", UTC_TIME, "When the gate opened it."),
            ("Expires", UTC_TIME, "When it ends."),
            ("AttestationMode", STRING, "tpm2, tpm2-resident, or none: then nobody can tell which machine signs."),
            ("AttestationPhase", STRING, "waiting, attested, overdue, ended or failed, as the gate says."),
            ("AttestationReason", STRING, "Why it is not attested; empty where it is."),
            ("AttestationFailures", UINT32, "Attempts at the next attestation that failed in a row."),
            ("AttestationError", STRING, "What the last attempt failed with; empty without one."),
            ("TpmKind", STRING, "hardware or swtpm."),
            (
                "TpmSimulated",
                BOOLEAN,
                "Whether the TPM is a simulated one: it shows the protocol and protects nothing.",
            ),
            ("BootPolicy", STRING, "Boot policy that the quoted boot state was approved by."),
            ("AkName", STRING, "Name of the attestation key, lower-case hexadecimal."),
        ),
        group("ApplianceType.Clock", "The clock that freshness is judged by."),
        *variables(
            "ApplianceType.Clock",
            ("Kind", STRING, "What disciplines it: free, ntp, ptp-sw or ptp-hw."),
            ("Hold", STRING, "locked, holdover or none."),
            ("ErrorBound", DURATION, "It is at most this far off (ms)."),
            ("Reason", STRING, "Why it is not better; empty where there is nothing to say."),
            ("DeltaE", DURATION, "P99 from a frame's receive stamp to its verdict (ms)."),
            ("WSync", DURATION, "Three times the longest round trip to the clock's master in the window (ms)."),
            ("RealTime", BOOLEAN, "Whether the loop runs with real-time priority."),
        ),
        group("ApplianceType.Latency", "How long the newest cycles took, in milliseconds, never compensated."),
        *(
            group(f"ApplianceType.Latency.{name}", meaning, kind=LATENCY_TYPE)
            for name, meaning in (
                ("FrameToVerdict", "From the receive stamp of a frame to the verdict on its freshness (Δe)."),
                ("Proof", "Making the proof."),
                ("Gate", "Everything the gate checks, the proof included."),
                ("Write", "Writing to the PLC and its acknowledgement."),
                ("EndToEnd", "From the frame's receive stamp to the PLC's acknowledgement."),
                ("Unattributed", "What is between the stages: end to end less the sum of all stages."),
            )
        ),
    ]


def _counters() -> list[Node]:
    counters = "ApplianceType.Counters"
    return [
        group(counters, "Since the start of the process that counts."),
        *variables(
            counters,
            ("Cycles", UINT64, "Frames that the loop began to work on."),
            ("Accepted", UINT64, "Commands that the gate accepted."),
            ("Refused", UINT64, "Commands that the gate refused."),
            (
                "CyclesRefused",
                UINT64,
                "Cycles that gave no accepted command: ended by the loop, or refused by the gate.",
            ),
            ("Missed", UINT64, "Frames without an accepted command, for any reason."),
            ("Superseded", UINT64, "Frames dropped for a newer one."),
            ("KernelDropped", UINT64, "Frames that the kernel dropped."),
            ("Unanswered", UINT64, "Commands that the gate never answered."),
            ("Late", UINT64, "Commands acknowledged after their deadline."),
            ("ProofsOwed", UINT64, "Accepted commands whose proof has not come yet."),
            ("ProofsReceived", UINT64, "Proofs that followed their commands."),
            ("ProofsLate", UINT64, "Proofs of those that came after their deadline."),
            ("OldestOwed", DURATION, "Age of the oldest owed proof (ms)."),
            ("GateLedgerSize", UINT64, "Records in the gate's ledger."),
            ("DeviceLedgerSize", UINT64, "Records in the device's ledger."),
        ),
        *tables(
            counters,
            ("RefusedByCode", "Refusals of the gate by code."),
            ("CyclesRefusedByReason", "Cycles without an accepted command by reason."),
            ("AlarmsByCode", "Alarms that the gate recorded by code."),
        ),
    ]


def _beside() -> list[Node]:
    """Groups of processes that not every deployment has."""
    bridge, prover = "ApplianceType.Bridge", "ApplianceType.Prover"
    return [
        group(bridge, "The bridge, where the inputs come through one.", rule=OPTIONAL),
        *variables(
            bridge,
            ("Connected", BOOLEAN, "Whether it has a connection to every source."),
            ("Forwarded", UINT64, "Samples that it passed on."),
            ("BadQuality", UINT64, "Samples of those whose quality was bad."),
        ),
        *tables(bridge, ("DroppedByReason", "Samples that it dropped by reason.")),
        group(prover, "The prover, where proofs follow their commands.", rule=OPTIONAL),
        *variables(
            prover,
            ("Made", UINT64, "Proofs that it made."),
            ("Failed", UINT64, "Proofs that it gave up."),
            ("Waiting", UINT64, "Commands whose proof it has to make."),
            ("KeepsUp", BOOLEAN, "Whether it proves faster than commands come, as measured at its start."),
        ),
    ]


def _last() -> list[Node]:
    command, refusal = "ApplianceType.LastCommand", "ApplianceType.LastRefusal"
    return [
        group(command, "The newest command. Record is the signed whole; the rest is read from it and its receipt."),
        *variables(
            command,
            ("Record", BYTE_STRING, "The command as it was signed (COSE_Sign1)."),
            ("Proof", BYTE_STRING, "Its proof; Bad_NoData while it is owed or where there is none."),
            ("ProofKind", PROOF_KIND, "What the command itself carries."),
            ("ProofVerified", BOOLEAN, "Whether the gate verified the proof before it accepted."),
            ("Receipt", BYTE_STRING, "The gate's signed receipt of it (COSE_Sign1)."),
            ("State", STRING, "What the plant showed: ok, not-applied, pending or not-written."),
            ("Epoch", UINT64, "Its epoch."),
            ("Sequence", UINT64, "Its number in the epoch."),
            ("Mode", OPERATING_MODE, "The mode it was decided in."),
            ("TimeQuality", STRING, "Quality of the deciding clock."),
            ("SourceTime", UTC_TIME, "When the inputs were taken."),
            ("DecidedTime", UTC_TIME, "When it was decided."),
            ("AcceptedTime", UTC_TIME, "When the gate accepted it."),
            ("WrittenTime", UTC_TIME, "When it was written; Bad_NoData where it was not."),
            ("ReadBackTime", UTC_TIME, "When the plant was read back; Bad_NoData while it was not."),
        ),
        group(f"{command}.Outputs", "What was commanded.", kind=FOLDER),
        Node(
            sits(f"{command}.Outputs.<Output>"),
            sits_name("<Output>"),
            ua.NodeClass.Variable,
            "One output of the module.",
            sits(f"{command}.Outputs"),
            HAS_COMPONENT,
            type=OUTPUT_TYPE,
            rule=OPTIONAL_PLACEHOLDER,
            data_type=DOUBLE,
        ),
        group(refusal, "The newest refusal."),
        *variables(
            refusal,
            ("Party", STRING, "Who refused: gate, or device (nothing was sent)."),
            ("Code", STRING, "The rule that was broken."),
            ("Found", STRING, "What was found."),
            ("Expected", STRING, "What was expected."),
            ("Time", UTC_TIME, "When."),
            ("Epoch", UINT64, "Epoch that the command claimed; 0 without one."),
            ("Sequence", UINT64, "Number that the command claimed; 0 without one."),
            ("Count", UINT64, "How many this record stands for."),
            ("Record", BYTE_STRING, "The signed record (COSE_Sign1)."),
        ),
    ]


def _folders() -> list[Node]:
    placeholder = group("ApplianceType.Processes.<Process>", "One process.", kind=PROCESS_TYPE)
    return [
        group("ApplianceType.Processes", "The processes of the appliance.", kind=FOLDER),
        Node(
            placeholder.id,
            placeholder.name,
            placeholder.kind,
            placeholder.description,
            placeholder.parent,
            placeholder.reference,
            type=PROCESS_TYPE,
            rule=OPTIONAL_PLACEHOLDER,
        ),
    ]


def _methods() -> list[Node]:
    epoch = Argument("Epoch", UINT64, "Epoch of the command.")
    sequence = Argument("Sequence", UINT64, "Number of the command in its epoch.")
    return [
        *method(
            "ApplianceType.FetchRecord",
            "One record of a ledger and what shows that it is in it. Changes nothing.",
            (
                Argument("Ledger", STRING, "gate or device."),
                Argument("Index", UINT64, "Position of the record, from 0."),
            ),
            (
                Argument("Record", BYTE_STRING, "The record as it lies in the ledger."),
                Argument("TreeSize", UINT64, "Size of the tree that the proof is for."),
                Argument("InclusionProof", BYTE_STRING, "Hashes from the record to the root (RFC 9162, 2.1.3).", ARRAY),
                Argument("Checkpoint", BYTE_STRING, "Signed checkpoint of that tree (C2SP tlog-checkpoint)."),
            ),
        ),
        *method(
            "ApplianceType.FetchProof",
            "The proof of one accepted command. Changes nothing.",
            (epoch, sequence),
            (
                Argument("ProofKind", PROOF_KIND, "Curve of the proof."),
                Argument("Proof", BYTE_STRING, "The proof, inline or as it followed."),
                Argument("Command", BYTE_STRING, "The command it belongs to, as it was signed (COSE_Sign1)."),
            ),
        ),
        *method(
            "ApplianceType.StepDown",
            "Asks the gate for a lower mode; that always works. A higher one is never granted here: it needs approval.",
            (
                Argument("Mode", OPERATING_MODE, "The mode to step down to."),
                Argument("Reason", STRING, "Why; it is recorded with the caller's name."),
            ),
            (
                Argument("Before", OPERATING_MODE, "The mode before."),
                Argument("After", OPERATING_MODE, "The mode now."),
            ),
        ),
    ]


def _metadata() -> list[Node]:
    names = (
        "NamespaceUri",
        "NamespaceVersion",
        "NamespacePublicationDate",
        "IsNamespaceSubset",
        "StaticNodeIdTypes",
        "StaticNumericNodeIdRange",
        "StaticStringNodeIdPattern",
    )
    return metadata(SITS_EDITION, sits(SITS), {name: sits(f"{SITS}.{name}") for name in names}, subset=False)


def appliance_types() -> list[Node]:
    """All nodes of our namespace, parents before children; DI and Machinery have to be there."""
    meaning = "An edge appliance whose every command is signed, proven and checked by a gate before it moves anything."
    nodes = [
        *_metadata(),
        *part_types(),
        replace(
            own_type("ApplianceType", DEVICE_TYPE, meaning),
            links=tuple(Link(GENERATES_EVENT, kind) for kind in (COMMAND_REFUSED, *HEALTH_ALARMS.values())),
        ),
        *_general(),
        *_epoch_and_clock(),
        *_counters(),
        *_beside(),
        *_last(),
        *_folders(),
        *_methods(),
    ]
    return list(completed(nodes, Types([*device_integration(), *machines(), *nodes])))
