"""The application: its commands, their examples and what it says without one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module, util
from typing import Annotated, Any

import typer

from fairmargin.cli.audit_command import audit
from fairmargin.cli.commands import frontier, predict, train

__all__ = ["app", "register_experiments"]

app = typer.Typer(
    name="fairmargin",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Fair classification: audit decisions, trace accuracy against fairness, train and apply fair models.",
    epilog="Start with:  **fairmargin frontier --demo**   (made-up data, a full report in seconds)",
)

_EXAMPLES: dict[Callable[..., Any], tuple[str, ...]] = {
    audit: (
        "fairmargin audit people.csv --target repaid --positive yes --sensitive sex --sensitive origin",
        "fairmargin audit people.csv -t repaid -p yes -s sex --decision approved --fail-under 80",
        "fairmargin audit people.parquet -t repaid -p yes -s sex --model model.json --json audit.json",
        "fairmargin audit people.csv -t repaid -p yes -s sex --decision approved --strata branch --weights weight",
        "fairmargin audit june.csv -s sex --decision approved --baseline may.json",
    ),
    train: (
        "fairmargin train people.csv -t repaid -p yes -s sex,origin --constraint p-rule=80 -o model.json",
        "fairmargin train people.csv -t repaid -p yes -s sex,origin --constraint covariance=0 --min-frequency 20",
        "fairmargin train people.csv -t repaid -p yes -s sex,origin --constraint loss=0.02 --estimator linear-svm",
        "fairmargin train people.csv -t repaid -p yes -s sex,origin --constraint p-rule=80 --html report.html",
        "fairmargin train 'data/*.parquet' -t repaid -p yes -s sex,origin --engine dask://scheduler:8786",
    ),
    predict: (
        "fairmargin predict model.json new.csv -o decisions.csv",
        "fairmargin predict model.json new.parquet --keep id -o decisions.parquet",
    ),
    frontier: (
        "fairmargin frontier --demo",
        "fairmargin frontier people.csv -t repaid -p yes -s sex,origin -o report.html",
        "fairmargin frontier people.csv -t repaid -p yes -s sex,origin --select p-rule=85 -o out.html -o model.json",
        "fairmargin frontier adult.data -t income -p '>50K' -s sex,race --exclude fnlwgt",
    ),
}
for _command, _lines in _EXAMPLES.items():
    app.command(epilog="\n\n".join(("Examples:", *_lines)))(_command)


@app.callback(invoke_without_command=True)
def _main(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error (anywhere).")] = False,
) -> None:
    if version:
        from fairmargin import __version__

        typer.echo(f"fairmargin {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def register_experiments(arguments: Sequence[str]) -> None:
    """Add the commands of ``fairmargin.experiments``, if it is installed; imported for them and for help only."""
    own = {command.__name__ for command in _EXAMPLES}
    if (arguments and arguments[0] in own) or hasattr(app, "_experiments"):
        return
    try:
        found = util.find_spec("fairmargin.experiments.cli")
    except ModuleNotFoundError:
        return
    if found is not None:
        import_module("fairmargin.experiments.cli").register(app)
        app._experiments = True  # type: ignore[attr-defined]
