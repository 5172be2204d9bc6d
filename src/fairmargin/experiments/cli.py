"""The command ``fairmargin reproduce``."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to an application."""
    app.command(
        epilog="Examples:\n\n"
        "fairmargin reproduce --quick\n\n"
        "fairmargin reproduce fig2a fig4 --jobs 4\n\n"
        "fairmargin reproduce appendix --out my-results"
    )(reproduce)


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAMES]...", help="fig1a, fig2, appendix, ...; all by default.", show_default=False),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer splits and points: all in under two minutes.")
    ] = False,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the results; work found there is kept.")] = Path(
        "results"
    ),
    jobs: Annotated[int, typer.Option(metavar="N", min=1, help="Processes.")] = min(2, os.cpu_count() or 1),
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget the work found there.")] = False,
    docs: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the document and its figures there, too.")
    ] = None,
) -> None:
    """Run the experiments of the paper: figures, numbers, and which of its claims hold.

    Stop it at any point: the same command goes on where it was.
    """
    from fairmargin.experiments import run

    begun = time.perf_counter()
    run.choose(names or [])  # a wrong name is said before anything is begun
    with _progress() as (done, say):
        report = run.reproduce(
            names or [], out=out, quick=quick, jobs=jobs, fresh=fresh, docs=docs, done=done, say=say
        )
    verdicts = [claim.verdict for claim in report.claims]
    counts = ", ".join(f"{verdicts.count(v)} {v}" for v in ("holds", "holds in part", "does not hold"))
    seconds = time.perf_counter() - begun
    typer.echo(f"units: {report.units}, of which {report.computed} were computed now ({seconds:.0f} s)")
    typer.echo(f"claims: {counts}")
    typer.echo(f"document: {report.document}")


@contextmanager
def _progress() -> Iterator[tuple[Any, Any]]:
    """Show a bar on a terminal; stay silent elsewhere."""
    if not sys.stderr.isatty():
        yield None, None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def done(finished: int, total: int, title: str) -> None:
            bar.update(task, completed=finished, total=total, description=title)

        yield done, lambda text: bar.update(task, description=text)
