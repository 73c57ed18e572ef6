"""SLMP (MC protocol 3E, 4E) of MELSEC CPUs."""
