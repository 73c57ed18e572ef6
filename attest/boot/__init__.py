"""What booted: the firmware's event log, measured boot in software, and the policy that says what may boot."""
