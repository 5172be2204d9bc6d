"""The command line: audit, train, predict, frontier.

Heavy modules are imported when a command runs, so that help starts fast. Results go to the standard output, progress
and errors to the standard error; an error is one line.
"""

from __future__ import annotations

from fairmargin.cli.application import app
from fairmargin.cli.entry import run

__all__ = ["app", "run"]
