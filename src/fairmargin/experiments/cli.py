"""The commands ``fairmargin reproduce`` and ``fairmargin compare``."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from fairmargin.cli.options import (
    Bins,
    Data,
    Delimiter,
    Demo,
    Encoding,
    Exclude,
    Features,
    Header,
    MaxSize,
    MissingSensitive,
    Names,
    Positive,
    Sensitive,
    Target,
    TestShare,
)

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to an application."""
    app.command(
        epilog="Examples:\n\n"
        "fairmargin reproduce --quick\n\n"
        "fairmargin reproduce fig2a fig4 --jobs 4\n\n"
        "fairmargin reproduce appendix --out my-results"
    )(reproduce)
    app.command(
        epilog="Examples:\n\n"
        "fairmargin compare --demo\n\n"
        "fairmargin compare people.csv -t repaid -p yes -s sex -x origin\n\n"
        "fairmargin compare --dataset adult -s sex --out adult --jobs 2\n\n"
        "fairmargin compare people.csv -t repaid -p yes -s sex -x origin --method reweighing --splits 3"
    )(compare)


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
    run.choose(names or [])  # a wrong name raises before anything is begun
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


def compare(
    context: typer.Context,
    data: Data = None,
    demo: Demo = False,
    dataset: Annotated[
        str | None, typer.Option(metavar="adult|bank|compas", help="A data set of the package instead of DATA.")
    ] = None,
    target: Target = None,
    positive: Positive = None,
    sensitive: Sensitive = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Only these methods (none, covariance, p-rule, massaging, ...); repeat it."
        ),
    ] = None,
    splits: Annotated[int, typer.Option(metavar="N", min=1, help="Number of random splits.")] = 5,
    test_share: TestShare = 0.3,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the results; work found there is kept.")] = Path(
        "comparison"
    ),
    jobs: Annotated[int, typer.Option(metavar="N", min=1, help="Processes.")] = min(2, os.cpu_count() or 1),
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget the work found there.")] = False,
    features: Features = None,
    exclude: Exclude = None,
    bins: Bins = None,
    missing_sensitive: MissingSensitive = "group",
    names: Names = None,
    header: Header = None,
    delimiter: Delimiter = None,
    encoding: Encoding = "utf-8",
    max_size: MaxSize = 4.0,
) -> None:
    """Run every method that fits the data on repeated splits: one table and one picture.

    Stop it at any point: the same command goes on where it was.
    """
    from fairmargin.experiments.comparison import compare as run_comparison
    from fairmargin.experiments.method_runs import choose_methods

    choose_methods(method)  # a wrong name raises before anything is begun
    question = _package_data(dataset, sensitive, context.params) if dataset else _table_data(context.params)
    with _progress() as (done, _):
        shown = None if done is None else lambda k, n, title: done(k, n, ", ".join(title.split(", ")[:3]))
        found = run_comparison(
            **question,
            methods=method,
            n_splits=splits,
            test_share=test_share,
            out=out,
            jobs=jobs,
            fresh=fresh,
            done=shown,
        )
    _show_comparison(found)
    typer.echo(f"table: {out / 'table.csv'}")
    typer.echo(f"picture: {out / 'comparison.png'}")


def _package_data(dataset: str, sensitive: list[str] | None, options: Any) -> dict[str, Any]:
    """Return a data set of the package, encoded as in the paper, with the sensitive attributes asked for."""
    from fairmargin import datasets
    from fairmargin.exceptions import DataError

    loaders = {"adult": datasets.load_adult, "bank": datasets.load_bank, "compas": datasets.load_compas}
    if dataset not in loaders:
        raise DataError(f"There is no data set {dataset!r}; there are {', '.join(loaders)}.")
    if options["data"] or options["demo"]:
        raise DataError("Give DATA, --demo or --dataset, not several of them.")
    plain, encoded = loaders[dataset](), loaders[dataset](encoded=True)
    asked = [name for given in sensitive or [] for name in given.split(",")] or list(plain.sensitive_features)[:1]
    unknown = [name for name in asked if name not in plain.sensitive_features]
    if unknown:
        known = ", ".join(plain.sensitive_features)
        raise DataError(f"{dataset} has no sensitive attribute {unknown[0]!r}; it has {known}.", field="sensitive")
    return {
        "X": plain.data,
        "y": plain.target,
        "sensitive_features": plain.sensitive_features[asked],
        "matrix": encoded.data.to_numpy(),
    }


def _table_data(options: dict[str, Any]) -> dict[str, Any]:
    """Return the features, labels and groups of the table that the options name."""
    from fairmargin.cli import inputs

    encoding = {"min_frequency": 0.005, "max_levels": 50, "scale": True, "test_share": 0.0, "seed": 0}
    study = inputs.read_study({**options, **encoding})
    people = study.train
    return {
        "X": people.frame[study.settings["features"]].reset_index(drop=True),
        "y": people.y,
        "sensitive_features": people.sensitive,
    }


def _show_comparison(found: Any) -> None:
    """Print the table, as wide as the terminal, and what was left out."""
    from rich.console import Console
    from rich.table import Table

    shown = found.shown
    if not sys.stdout.isatty():
        typer.echo(found.to_markdown(), nl=False)
    else:
        table = Table(box=None)
        for column in shown:
            table.add_column(column, justify="left" if column in ("Method", "Setting") else "right")
        for row in shown.itertuples(index=False):
            table.add_row(*map(str, row))
        Console().print(table)
    for title, why in found.skipped.items():
        typer.echo(f"left out: {title} ({why})")
    for _, row in found.table[found.table["error"] != ""].iterrows():
        typer.echo(f"failed: {row['method']}: {row['error']}")


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
