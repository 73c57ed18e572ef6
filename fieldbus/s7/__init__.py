"""S7 communication over ISO-on-TCP (port 102)."""
