"""Brings a deployment up and down: state folder, keys, TPM, enrolment, module, processes."""
