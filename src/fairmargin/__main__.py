"""The command ``fairmargin``, also ``python -m fairmargin``: starts fast, and says in one line what is missing."""

from __future__ import annotations

import os
import sys


def main() -> int:
    """Run the command line and return its exit status: 0, 1 (a check failed), 2 (an error), 130 (Ctrl-C)."""
    status = _run()
    if status == 130:
        # Python remembers some interrupts that were handled, and would end by its own signal instead.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(130)
    return status


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
