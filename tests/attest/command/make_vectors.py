"""Write the vectors: ``python -m tests.attest.command.make_vectors``. Running it again changes nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from attest.command import sign_command, sign_record
from tests.attest.command.cases import GATE, HONEST, JUDGE, MALFORMED, RULES, SESSION, Case, key
from tests.attest.command.samples import RECORDS

VECTORS = Path(__file__).with_name("vectors")


def golden() -> dict[str, dict[str, Any]]:
    vectors = {
        "command": {"bytes": sign_command(HONEST, SESSION).hex(), "ctx": HONEST.header.ctx().hex()},
        "gate-rules": {"bytes": RULES.encode().hex(), "digest": RULES.digest().hex()},
    }
    for record in RECORDS:
        vectors[record.KIND] = {"bytes": sign_record(record, key("gate")).hex()}
    for name, vector in vectors.items():
        public = SESSION.public if name == "command" else b"" if name == "gate-rules" else key("gate").public
        vector |= {"schema": "sits-golden-1", "comment": f"one honest {name}", "result": "valid"}
        vector |= {"format": name, "public": public.hex()}
    return vectors


def malformed(name: str, data: bytes) -> dict[str, Any]:
    return {
        "schema": "sits-malformed-1",
        "comment": name.replace("-", " "),
        "result": "invalid",
        "code": "malformed",
        "gate_id": GATE,
        "bytes": data.hex(),
    }


def judged(name: str, case: Case) -> dict[str, Any]:
    epoch = case.epoch
    return {
        "schema": "sits-judge-1",
        "comment": name.replace("-", " "),
        "result": "invalid",
        "code": case.code,
        "rules": case.rules.encode().hex(),
        "epoch": None
        if epoch is None
        else {
            "number": epoch.number,
            "device_id": epoch.device_id,
            "session_public": epoch.session_public.hex(),
            "module_digest": epoch.module_digest.hex(),
            "deployment_digest": epoch.deployment_digest.hex(),
            "expires_ns": epoch.expires_ns,
            **({"vk_digest": epoch.vk_digest.hex()} if epoch.vk_digest else {}),
        },
        "plant_outputs": case.plant,
        "accepted_before": [sign_command(command, SESSION).hex() for command in case.before],
        "now_ns": case.now_ns,
        "gate_mode": case.mode.name,
        "failed_check": case.failed_check,
        "explained": case.explained,
        "bytes": case.bytes().hex(),
    } | ({"withdrawn": case.withdrawn} if case.withdrawn else {})


def everything() -> dict[str, str]:
    """All vectors as file name → text."""
    vectors = {f"golden/{name}": vector for name, vector in golden().items()}
    vectors |= {f"malformed/{name}": malformed(name, data) for name, data in MALFORMED.items()}
    vectors |= {f"judge/{name}": judged(name, case) for name, case in JUDGE.items()}
    return {f"{name}.json": json.dumps(vector, indent=1) + "\n" for name, vector in vectors.items()}


def main() -> None:
    for name, text in everything().items():
        path = VECTORS / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
