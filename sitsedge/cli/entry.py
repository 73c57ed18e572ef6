"""The ``sitsctl`` script: small, so that Ctrl-C while the rest is being imported is an interruption and not a crash."""

from __future__ import annotations

import io
import os
import sys

INTERRUPTED = 130


def main() -> None:
    """Run the command line; text that a terminal cannot show is replaced, never an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        from sitsedge.cli.main import main as run

        run()
    except KeyboardInterrupt:
        _leave(INTERRUPTED)
    except SystemExit as end:
        if end.code == INTERRUPTED:
            _leave(INTERRUPTED)
        raise
    except BrokenPipeError:
        sys.stderr.close()  # the reader has gone; there is nobody to tell
        sys.exit(0)


def _leave(code: int) -> None:
    """End with this code. Python would end itself by SIGINT where the interrupt once passed through ``exec``."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
