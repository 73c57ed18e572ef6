"""Measurements of the proof core on this machine: seeded control networks and the harness that times them."""
