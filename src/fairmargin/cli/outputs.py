"""Where a command writes: files that are checked before the work, the standard output, progress."""

from __future__ import annotations

import hashlib
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from fairmargin.atomic_write import as_bytes, check_writable, is_same_file, write_atomic
from fairmargin.cli.wording import in_options
from fairmargin.exceptions import DataError
from fairmargin.formatting import clean

__all__ = ["Outputs", "Steps", "steps"]

_STANDARD = "-"


class Outputs:
    """The files that a command writes, by kind; a path of ``-`` is the standard output.

    Parameters
    ----------
    inputs : paths that the command reads
        No output may be one of them, under whatever name.
    **paths : path or None
        What is written where.
    """

    def __init__(self, inputs: Iterable[Path | None], **paths: Path | None) -> None:
        self.paths = {kind: path for kind, path in paths.items() if path is not None}
        read = [path for path in inputs if path is not None]
        seen: list[Path] = []
        for path in self.paths.values():
            if str(path) != _STANDARD:
                check_writable(path)
                if is_same_file(path, read):
                    raise DataError(f"The output {str(path)!r} is also the input; give the output another name.")
            if path in seen or is_same_file(path, seen):
                raise DataError(f"Two outputs have the same file name, {str(path)!r}.")
            seen.append(path)

    @property
    def to_stdout(self) -> bool:
        """Whether the standard output is taken."""
        return any(str(path) == _STANDARD for path in self.paths.values())

    def write(self, kind: str, content: str | bytes) -> None:
        """Write one output."""
        path = self.paths[kind]
        if str(path) != _STANDARD:
            write_atomic(path, content)
        elif isinstance(content, str):
            sys.stdout.write(content.encode("utf-8", "backslashreplace").decode())
        else:
            sys.stdout.buffer.write(content)
            sys.stdout.buffer.flush()

    def add_record(
        self, summary: dict[str, Any], options: Mapping[str, Any], model: str | bytes | None = None
    ) -> None:
        """Add title, purpose, author, command and digests to a summary; its advice now names options."""
        from fairmargin.report import add_record

        summary["warnings"] = [in_options(text, summary["kind"]) for text in summary["warnings"]]
        content = as_bytes(model) if isinstance(model, str) else model
        add_record(
            summary,
            **{name: options.get(name) for name in ("title", "purpose", "author")},
            made=options.get("date"),
            command=" ".join(["fairmargin", *map(shlex.quote, options.get("command_line", ()))]),
            model_sha256=None if content is None else hashlib.sha256(content).hexdigest(),
            key=options.get("key"),
        )

    def write_summary(self, summary: dict[str, Any], quiet: bool, verbose: bool = False) -> None:
        """Write a summary in every form asked for, and print it unless the standard output is taken."""
        from fairmargin.report import to_html, to_json, to_markdown

        for kind, render in (("json", to_json), ("markdown", to_markdown), ("html", to_html)):
            if kind in self.paths:
                self.write(kind, render(summary))
        if not quiet and not self.to_stdout:
            from fairmargin.report.terminal import show

            where = "in the report" if "html" in self.paths else "with --html FILE"
            show(summary, verbose, rest_is=f"{where}, or with --verbose")

    def say_where(self, kind: str, quiet: bool, name: str | None = None) -> None:
        """Print where an output, called ``name``, was written."""
        path = self.paths[kind]
        if not quiet and str(path) != _STANDARD:
            print(clean(f"{name or kind}: {path}"), file=sys.stderr if self.to_stdout else sys.stdout)


class Steps(Protocol):
    """Called when a step begins and, within a long one, when a part of it is done."""

    def __call__(self, step: str, done: int = 0, total: int | None = None) -> None:
        """Show that ``step`` is running, and ``done`` of ``total`` parts of it are done."""


@contextmanager
def steps(quiet: bool) -> Iterator[Steps]:
    """Show on a terminal what is being done and for how long; stay silent elsewhere."""
    if quiet or not sys.stderr.isatty():
        yield lambda step, done=0, total=None: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=20), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("starting", total=None)
        yield lambda step, done=0, total=None: progress.update(task, description=step, completed=done, total=total)
