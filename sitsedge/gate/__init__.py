"""``sits-gate``: verifies every command and is the only process that can write to the PLC."""
