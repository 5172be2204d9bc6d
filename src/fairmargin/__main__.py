"""The command ``fairmargin``, also ``python -m fairmargin``; a missing package is reported in one line."""

from __future__ import annotations

import os
import sys


def main() -> int:
    """Run the command line and return its exit status; see :mod:`fairmargin.cli.entry`."""
    _prepare_streams()
    status = _run()
    if status == 130:
        # Python remembers some interrupts that were handled, and would end by its own signal instead.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(130)
    return status


def _prepare_streams() -> None:
    """Make the standard streams usable, whatever they are: closed, or in an encoding that lacks a character."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            # It stays open as long as the process runs, as a standard stream does.
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _run() -> int:
    try:
        try:
            from fairmargin.cli import run
        except ModuleNotFoundError as error:
            if (error.name or "").split(".")[0] not in ("typer", "rich", "click"):
                raise
            print('fairmargin: the command line is not installed; pip install "fairmargin[cli]"', file=sys.stderr)
            return 2
        return run(sys.argv[1:])
    except KeyboardInterrupt:
        print("fairmargin: stopped", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
