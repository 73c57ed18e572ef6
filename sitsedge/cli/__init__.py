"""The command line: ``sitsctl``."""
