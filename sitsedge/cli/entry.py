"""The ``sitsctl`` script: small, so that Ctrl-C while the rest is being imported is an interruption and not a crash."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
from types import FrameType

INTERRUPTED = 130
AGAIN_S = 0.05
_IMPORT_SYSTEM = "<frozen importlib"


def main() -> None:
    """Run the command line; text that a terminal cannot show is replaced, never an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
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


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Ctrl-C in the middle of an import waits until it is over.

    A compiled module that is interrupted while it sets itself up fails with ``ImportError``, and may stay half made.
    """
    at = frame
    while at is not None:
        if at.f_code.co_filename.startswith(_IMPORT_SYSTEM):
            again = threading.Timer(AGAIN_S, os.kill, (os.getpid(), number))
            again.daemon = True
            again.start()
            return
        at = at.f_back
    raise KeyboardInterrupt


def _leave(code: int) -> None:
    """End with this code. Python would end itself by SIGINT where the interrupt once passed through ``exec``."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
