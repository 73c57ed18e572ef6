"""The demonstration: the main job for a minute, and twelve attacks on the running system."""
