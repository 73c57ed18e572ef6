"""The two typed graphs of the compiler: float (after import) and integer (what every back end takes)."""
