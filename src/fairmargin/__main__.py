"""The command ``fairmargin``, also ``python -m fairmargin``: starts fast, and says in one line what is missing."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line and return its exit status: 0, 1 (a check failed), 2 (an error), 130 (Ctrl-C)."""
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
