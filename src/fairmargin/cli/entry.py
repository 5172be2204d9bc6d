"""Running a command: every error becomes one line, every way to end has its exit status.

===  ==================================================================
0    done
1    a check failed (``--fail-under``)
2    an error
130  stopped by Ctrl-C
141  the reader of a pipe has closed it, as for any program in a shell
===  ==================================================================
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from fairmargin.cli.application import app, register_experiments
from fairmargin.cli.options import FLAGS
from fairmargin.cli.wording import in_options
from fairmargin.exceptions import EngineError
from fairmargin.formatting import clean

__all__ = ["run"]

ERROR, INTERRUPTED, CLOSED_PIPE = 2, 130, 141


def run(arguments: Sequence[str]) -> int:
    """Run a command and return the exit status; every error becomes one line."""
    arguments = list(arguments)
    debug = "--debug" in arguments
    arguments = [a for a in arguments if a != "--debug"] or ["--help"]
    with _interrupts() as interrupted:
        try:
            register_experiments(arguments)
            return _run(arguments)
        except (Exception, KeyboardInterrupt) as error:
            # An interrupt may show as another error: a half-imported extension module says ImportError.
            if interrupted or isinstance(error, KeyboardInterrupt):
                return _say("stopped", INTERRUPTED)
            if debug:
                raise
            return _say(_explain(error), ERROR)


def _run(arguments: list[str]) -> int:
    try:
        status = app(arguments, prog_name="fairmargin", standalone_mode=False, obj=arguments)
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):
        # typer and rich turn a closed pipe into SystemExit; nothing else here exits so.
        _abandon_output()
        return CLOSED_PIPE
    except OSError:
        _abandon_output()  # it may be the standard output itself that cannot be written
        raise
    if status == INTERRUPTED:  # typer has caught a Ctrl-C
        return _say("stopped", INTERRUPTED)
    return status if isinstance(status, int) else 0


def _abandon_output() -> None:
    """Keep Python from complaining at its exit about output that nobody takes."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(nowhere, stream.fileno())


@contextmanager
def _interrupts() -> Iterator[list[int]]:
    """Note every Ctrl-C in the list given, before it becomes an exception."""
    seen: list[int] = []

    def note(number: int, frame: Any) -> None:
        seen.append(number)
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():  # signals are the main thread's
        yield seen
        return
    before = signal.signal(signal.SIGINT, note)
    try:
        yield seen
    finally:
        signal.signal(signal.SIGINT, before)


def _say(message: str, status: int) -> int:
    with suppress(OSError):  # the standard error may be closed, too
        print(f"fairmargin: {clean(message)}", file=sys.stderr)
    return status


def _explain(error: BaseException) -> str:
    """Return one line on what went wrong and what to do."""
    if hasattr(error, "format_message"):  # mistakes in the arguments, found by typer
        return f"{error.format_message()} (see fairmargin --help)"
    if type(error).__name__ == "Abort":  # what typer makes of an end of input
        return "the input ended early"
    if isinstance(error, ModuleNotFoundError):
        return f'the package {error.name!r} is missing; pip install "fairmargin[cli]"'
    if isinstance(error, MemoryError):
        return "there is not enough memory for these data; write them as Parquet and give --engine local"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or 'the output'}: {error.strerror}"
    if isinstance(error, ValueError | OSError | ImportError | EngineError):
        return _with_option(in_options(str(error)), getattr(error, "field", None), getattr(error, "suggestion", None))
    return f"unexpected {type(error).__name__}: {error} (run again with --debug and report it)"


def _with_option(message: str, field: str | None, suggestion: str | None) -> str:
    """Add the option that sets the parameter which an error of the library is about."""
    flag = None if field is None else FLAGS.get(field)
    if flag is None:
        return message
    if suggestion is not None:
        value = "tab" if suggestion == "\t" else shlex.quote(suggestion)
        return f"{message} Try {flag} {value}."
    return f"{message[:-1]} (option {flag})." if message.endswith(".") else f"{message} (option {flag})"
