"""Deployment and gate files: schema, strict reading, errors with file, line and column."""

from sitsedge.config.deployment import Deployment, load_deployment
from sitsedge.config.gatefile import GateFile, load_gate_file
from sitsedge.config.source import ConfigError, ConfigFault, load_model

__all__ = [
    "ConfigError",
    "ConfigFault",
    "Deployment",
    "GateFile",
    "load_deployment",
    "load_gate_file",
    "load_model",
]
