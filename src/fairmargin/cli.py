"""The command line: audit, train, predict, frontier.

Options are read here and handed to :mod:`fairmargin.tabular`, :mod:`fairmargin.workflow` and
:mod:`fairmargin.report`, which are imported when a command runs and not before. Results go to the standard output,
progress and errors to the standard error; an error is one line, with exit status 2.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module, util
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from fairmargin.text import clean

if TYPE_CHECKING:
    import pandas as pd

    from fairmargin.tabular import Study, Table, TabularModel

__all__ = ["app", "run"]

app = typer.Typer(
    name="fairmargin",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Fair classification: audit decisions, trace accuracy against fairness, train and apply fair models.",
    epilog="Start with:  **fairmargin frontier --demo**   (made-up data, a full report in seconds)",
)

# What several commands share.
Data = Annotated[Path | None, typer.Argument(metavar="DATA", help="CSV (any delimiter, .gz too) or Parquet file.")]
Demo = Annotated[bool, typer.Option("--demo", help="Use the built-in, made-up credit data instead of DATA.")]
Target = Annotated[str | None, typer.Option("--target", "-t", metavar="COL", help="Column to predict.")]
Positive = Annotated[str | None, typer.Option("--positive", "-p", metavar="VALUE", help="Its favourable value.")]
Sensitive = Annotated[
    list[str] | None,
    typer.Option("--sensitive", "-s", metavar="COL", help="Sensitive column; repeat it, or use commas."),
]
Bins = Annotated[
    list[str] | None, typer.Option("--bin", metavar="COL=A,B", help="Cut a sensitive number at these limits.")
]
MissingSensitive = Annotated[
    str, typer.Option(metavar="group|error", help="What people without a sensitive value are.")
]
Names = Annotated[
    str | None,
    typer.Option(metavar="A,B,...|FILE", help="Column names of a file without header (UCI Adult is recognised)."),
]
Header = Annotated[
    bool | None,
    typer.Option("--header/--no-header", help="Whether the first line has the names; found out by default."),
]
Delimiter = Annotated[str | None, typer.Option(metavar="CHAR", help="Column delimiter; found out by default.")]
Encoding = Annotated[str, typer.Option(metavar="NAME", help="Text encoding of the file.")]
Features = Annotated[list[str] | None, typer.Option(metavar="COL", help="Use only these columns as features.")]
Exclude = Annotated[list[str] | None, typer.Option("--exclude", "-x", metavar="COL", help="Not a feature.")]
MinFrequency = Annotated[
    float, typer.Option(metavar="F", help="Rarer levels are put together: a share, or people from 1.")
]
MaxLevels = Annotated[int, typer.Option(metavar="N", min=1, help="Levels of a column that are kept at most.")]
Scale = Annotated[bool, typer.Option("--scale/--no-scale", help="Standardise numbers.")]
TestShare = Annotated[float, typer.Option(metavar="F", help="Share of the people who are held out.")]
Seed = Annotated[int, typer.Option(metavar="N", help="Seed of the split.")]
EstimatorName = Annotated[
    str, typer.Option("--estimator", "-e", metavar="NAME", help="logistic, linear-svm, squared-hinge or svm.")
]
Regularisation = Annotated[float, typer.Option("--C", "-C", metavar="F", help="Weight of the loss; inf: no penalty.")]
Kernel = Annotated[str, typer.Option(metavar="NAME", help="Kernel of svm: rbf, poly, linear.")]
JsonFile = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Write the summary as JSON (- for standard output).")
]
MarkdownFile = Annotated[
    Path | None, typer.Option("--markdown", metavar="FILE", help="Write it as Markdown (- for standard output).")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]


class Failure(Exception):
    """A mistake that one line explains."""


def run(arguments: Sequence[str]) -> int:
    """Run a command and return the exit status; every error becomes one line."""
    arguments = list(arguments)
    debug = "--debug" in arguments
    arguments = [a for a in arguments if a != "--debug"] or ["--help"]
    with _interrupts() as interrupted:
        try:
            _register_experiments(arguments)
            return _run(arguments)
        except (Exception, KeyboardInterrupt) as error:
            # An interrupt may show as another error: a half-imported extension module says ImportError.
            if interrupted or type(error).__name__ in ("KeyboardInterrupt", "Abort"):
                return _say("stopped", 130)
            if debug:
                raise
            return _say(_explain(error), 2)


def _run(arguments: list[str]) -> int:
    try:
        status = app(arguments, prog_name="fairmargin", standalone_mode=False)
        sys.stdout.flush()
        if status == 130:  # typer has caught a Ctrl-C
            return _say("stopped", 130)
        return status if isinstance(status, int) else 0
    except BrokenPipeError:
        # Whoever read our output has seen enough; keep Python from complaining at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


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
    print(f"fairmargin: {clean(message)}", file=sys.stderr)
    return status


def _explain(error: BaseException) -> str:
    """Return one line on what went wrong and what to do."""
    if hasattr(error, "format_message"):  # mistakes in the arguments, found by typer
        return f"{error.format_message()} (see fairmargin --help)"
    if isinstance(error, ModuleNotFoundError):
        return f'the package {error.name!r} is missing; pip install "fairmargin[cli]"'
    if isinstance(error, MemoryError):
        return "there is not enough memory for these data"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or 'a file'}: {error.strerror}"
    if isinstance(error, Failure | ValueError | OSError | ImportError):
        return str(error)
    return f"unexpected {type(error).__name__}: {error} (run again with --debug and report it)"


def _register_experiments(arguments: Sequence[str]) -> None:
    """Add the commands of ``fairmargin.experiments``, if it has any; imported for them and for help only."""
    if (arguments and arguments[0] in ("audit", "train", "predict", "frontier")) or hasattr(app, "_experiments"):
        return
    try:
        found = util.find_spec("fairmargin.experiments.cli")
    except ModuleNotFoundError:
        return
    if found is not None:
        import_module("fairmargin.experiments.cli").register(app)
        app._experiments = True  # type: ignore[attr-defined]


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


@app.command(
    epilog="Examples:\n\n"
    "fairmargin audit people.csv --target repaid --positive yes --sensitive sex --sensitive origin\n\n"
    "fairmargin audit people.csv -t repaid -p yes -s sex --decision approved --fail-under 80\n\n"
    "fairmargin audit people.parquet -t repaid -p yes -s sex --model model.json --json audit.json"
)
def audit(
    data: Data = None,
    demo: Demo = False,
    target: Target = None,
    positive: Positive = None,
    sensitive: Sensitive = None,
    decision: Annotated[
        str | None, typer.Option(metavar="COL", help="Column of decisions to audit, instead of the labels.")
    ] = None,
    model: Annotated[Path | None, typer.Option(metavar="FILE", help="Audit the decisions of this model.")] = None,
    reference: Annotated[
        list[str] | None, typer.Option(metavar="COL=GROUP", help="Compare with this group, not the highest rate.")
    ] = None,
    intersections: Annotated[
        bool, typer.Option("--intersections", help="Compare combinations of groups, too.")
    ] = False,
    threshold: Annotated[float, typer.Option(metavar="P", help="Ratio in percent below which to point out.")] = 80.0,
    fail_under: Annotated[
        float | None, typer.Option(metavar="P", help="Exit with status 1 if a group's ratio is lower (for CI).")
    ] = None,
    min_people: Annotated[int, typer.Option(metavar="N", min=1, help="Conclude nothing about smaller groups.")] = 30,
    bins: Bins = None,
    missing_sensitive: MissingSensitive = "group",
    names: Names = None,
    header: Header = None,
    delimiter: Delimiter = None,
    encoding: Encoding = "utf-8",
    json_file: JsonFile = None,
    markdown_file: MarkdownFile = None,
    html_file: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write it as a web page.")] = None,
    quiet: Quiet = False,
) -> int:
    """Screen decisions for disparate impact: group by group, with intervals and tests.

    Decisions come from a column (--decision), from a model (--model), or are the labels themselves.
    """
    outputs = _check_outputs(json_file, markdown_file, html_file)
    with _steps(quiet) as step:
        from fairmargin.audit import audit as run_audit
        from fairmargin.report import audit_summary, to_html

        step("reading")
        table, question = _table(data, demo, target, positive, sensitive, names, header, delimiter, encoding)
        decided = _decisions(table, question, decision, model)
        step("comparing groups")
        frame, notes = decided.frame, [*table.notes, *decided.notes]
        groups, said = _groups(frame, question["sensitive"], bins, missing_sensitive)
        features = frame.drop(columns=[c for c in (*question["sensitive"], decided.column) if c in frame])
        features = features.drop(columns=[c for c in (question["target"],) if c in features])
        result = run_audit(
            decided.positive,
            pos_label=True,
            scores=decided.scores,
            sensitive_features=groups,
            reference=_pairs(reference, "--reference"),
            intersections=intersections,
            threshold=threshold,
            min_people=min_people,
            features=features if features.shape[1] else None,
        )
        settings = {**question, "decision": decision, "model": model and model.name, "reference": reference}
        settings |= {"threshold": threshold, "min_people": min_people, "intersections": intersections}
        summary = audit_summary(
            result,
            title=f"Audit of {decided.what}",
            what=decided.what,
            fingerprint=table.fingerprint,
            settings=settings,
            notes=[*notes, *said],
        )
    _write(summary, outputs, quiet, html=to_html)
    return _gate(summary, fail_under)


@app.command(
    epilog="Examples:\n\n"
    "fairmargin train people.csv -t repaid -p yes -s sex --constraint p-rule=80 -o model.json\n\n"
    "fairmargin train people.csv -t repaid -p yes -s sex,origin --constraint covariance=0 --min-frequency 20\n\n"
    "fairmargin train people.csv -t repaid -p yes -s sex --constraint loss=0.02 --estimator linear-svm"
)
def train(
    context: typer.Context,
    data: Data = None,
    demo: Demo = False,
    target: Target = None,
    positive: Positive = None,
    sensitive: Sensitive = None,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Model file to write.")] = Path(
        "model.json"
    ),
    constraint: Annotated[
        str,
        typer.Option(
            metavar="ASK",
            help="none, covariance=0 (or =20%, or =sex:0,race:0.1), p-rule=80, loss=0.05, individual=0.5, "
            "nobody-loses (or =0.5).",
        ),
    ] = "covariance=0",
    estimator: EstimatorName = "logistic",
    regularisation: Regularisation = 1.0,
    kernel: Kernel = "rbf",
    balanced: Annotated[bool, typer.Option("--balanced", help="Weigh both classes alike.")] = False,
    features: Features = None,
    exclude: Exclude = None,
    bins: Bins = None,
    missing_sensitive: MissingSensitive = "group",
    min_frequency: MinFrequency = 0.005,
    max_levels: MaxLevels = 50,
    scale: Scale = True,
    test_share: TestShare = 0.3,
    seed: Seed = 0,
    names: Names = None,
    header: Header = None,
    delimiter: Delimiter = None,
    encoding: Encoding = "utf-8",
    json_file: JsonFile = None,
    markdown_file: MarkdownFile = None,
    quiet: Quiet = False,
) -> None:
    """Train one fair classifier and write it as a JSON file."""
    outputs = _check_outputs(json_file, markdown_file, None, output)
    with _steps(quiet) as step:
        from fairmargin import io, workflow

        asked = workflow.parse_constraint(constraint)
        class_weight = "balanced" if balanced else None
        unfitted = workflow.make_estimator(
            estimator, asked, C=regularisation, kernel=kernel, class_weight=class_weight
        )
        step("reading")
        study = _study(context.params)
        step("training")
        model, summary = workflow.train(study, unfitted, {"constraint": constraint})
        step("writing")
        io.save(model, output)
    _write(summary, outputs, quiet)
    _done(quiet, outputs, f"model: {output}")


@app.command(
    epilog="Examples:\n\n"
    "fairmargin predict model.json new.csv -o decisions.csv\n\n"
    "fairmargin predict model.json new.parquet --keep id -o decisions.parquet"
)
def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="File that train wrote.")],
    data: Annotated[Path, typer.Argument(metavar="DATA", help="New people; sensitive columns are not needed.")],
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="CSV or .parquet to write; - for standard output.")
    ] = "-",
    keep: Annotated[list[str] | None, typer.Option(metavar="COL", help="Copy this column to the output.")] = None,
    names: Names = None,
    header: Header = None,
    delimiter: Delimiter = None,
    encoding: Encoding = "utf-8",
    quiet: Quiet = False,
) -> None:
    """Apply a model to new people: decision, score and probability for each row, in order."""
    if output != "-":
        _check_outputs(None, None, None, Path(output))
    with _steps(quiet) as step:
        from fairmargin import tabular
        from fairmargin.files import write_atomic

        step("reading")
        fitted = _load_model(model)
        table = tabular.read_table(data, names=names, header=header, delimiter=delimiter, encoding=encoding)
        step("deciding")
        result = fitted.decide(table.frame)
        for name in reversed(keep or []):
            column = tabular.find_column(table.frame, name)
            if column in result:
                raise Failure(f"The output has a column {column!r} already; rename that of the data to keep it.")
            result.insert(0, column, table.frame[column].to_numpy())
        notes = [*table.notes, *fitted.encoder.warnings(table.frame)]
        content = _as_parquet(result) if output.endswith((".parquet", ".pq")) else result.to_csv(index=False).encode()
        if output != "-":
            write_atomic(output, content)
    if output == "-":
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    if not quiet:
        accepted = int((result["decision"] == fitted.labels[1]).sum())
        for line in (*notes, f"{len(result):,} people, {accepted:,} decided {fitted.labels[1]!r}"):
            print(clean(line), file=sys.stderr)


@app.command(
    epilog="Examples:\n\n"
    "fairmargin frontier --demo\n\n"
    "fairmargin frontier people.csv -t repaid -p yes -s sex -o report.html\n\n"
    "fairmargin frontier adult.data -t income -p '>50K' -s sex,race --exclude fnlwgt"
)
def frontier(
    context: typer.Context,
    data: Data = None,
    demo: Demo = False,
    target: Target = None,
    positive: Positive = None,
    sensitive: Sensitive = None,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Report to write (HTML).")] = Path(
        "fairmargin-report.html"
    ),
    points: Annotated[int, typer.Option(metavar="N", min=2, max=201, help="Points of the frontier.")] = 21,
    estimator: EstimatorName = "logistic",
    regularisation: Regularisation = 1.0,
    kernel: Kernel = "rbf",
    balanced: Annotated[bool, typer.Option("--balanced", help="Weigh both classes alike.")] = False,
    individual_loss: Annotated[
        float, typer.Option(metavar="F", min=0.0, help="For 'nobody is refused': how much a person's loss may grow.")
    ] = 2.0,
    features: Features = None,
    exclude: Exclude = None,
    bins: Bins = None,
    missing_sensitive: MissingSensitive = "group",
    min_frequency: MinFrequency = 0.005,
    max_levels: MaxLevels = 50,
    scale: Scale = True,
    test_share: TestShare = 0.3,
    seed: Seed = 0,
    names: Names = None,
    header: Header = None,
    delimiter: Delimiter = None,
    encoding: Encoding = "utf-8",
    json_file: JsonFile = None,
    markdown_file: MarkdownFile = None,
    quiet: Quiet = False,
) -> None:
    """Trace accuracy against fairness and write an interactive report.

    One HTML file that opens from disk, needs no network and can be sent to a reviewer.
    """
    outputs = _check_outputs(json_file, markdown_file, output)
    with _steps(quiet) as step:
        from fairmargin import workflow
        from fairmargin.report import to_html

        class_weight = "balanced" if balanced else None
        unfitted = workflow.make_estimator(estimator, C=regularisation, kernel=kernel, class_weight=class_weight)
        step("reading")
        study = _study(context.params)
        summary = workflow.trace(study, unfitted, n_points=points, individual_loss=individual_loss, progress=step)
        step("writing")
    _write(summary, outputs, quiet, html=to_html)
    _done(quiet, outputs, f"report: {output}")


@dataclass(frozen=True)
class _Decided:
    """Decisions to audit: who is positive, the scores if there are any, and in words whose decisions they are."""

    frame: pd.DataFrame
    positive: Any
    what: str
    scores: Any = None
    column: str | None = None
    notes: tuple[str, ...] = ()


def _decisions(table: Table, question: dict[str, Any], decision: str | None, model: Path | None) -> _Decided:
    """Find out which decisions to audit: a column's, a model's, or the labels."""
    from fairmargin.tabular import find_column, read_target

    frame, positive = table.frame, question["positive"]
    if decision is not None and model is not None:
        raise Failure("Give --decision or --model, not both.")
    if model is not None:
        fitted = _load_model(model)
        scores = fitted.scores(frame)
        notes = tuple(fitted.encoder.warnings(frame))
        return _Decided(frame, scores >= 0, f"the decisions of the model {model.name}", scores, notes=notes)
    name = decision if decision is not None else question["target"]
    if name is None:
        raise Failure("Say what to audit: --target COL, --decision COL or --model FILE.")
    column = find_column(frame, name, "decision column" if decision else "target column")
    accepted, known, labels = read_target(frame[column], positive)
    left_out = int((~known).sum())
    said = (f"{left_out:,} people without a value of {column!r} were left out.",) if left_out else ()
    what = f"{'the decisions' if decision else 'the labels'} {column} = {labels[1]}"
    return _Decided(frame[known].reset_index(drop=True), accepted[known], what, column=column, notes=said)


def _table(
    data: Path | None,
    demo: bool,
    target: str | None,
    positive: str | None,
    sensitive: list[str] | None,
    names: str | None,
    header: bool | None,
    delimiter: str | None,
    encoding: str,
) -> tuple[Table, dict[str, Any]]:
    """Read the data, and complete the question from what the demo knows."""
    from fairmargin.tabular import read_table

    if demo:
        if data is not None:
            raise Failure("Give DATA or --demo, not both.")
        table = _demo_table()
        target, positive, sensitive = target or "repaid", positive or "yes", sensitive or ["sex", "origin"]
    elif data is None:
        raise Failure("Name a data file, or try --demo.")
    else:
        table = read_table(data, names=names, header=header, delimiter=delimiter, encoding=encoding)
    columns = _split_names(sensitive or [], list(table.frame.columns))
    if not columns:
        raise Failure("Name at least one sensitive column: --sensitive COL.")
    return table, {"target": target, "positive": positive, "sensitive": columns}


def _demo_table() -> Table:
    from fairmargin.datasets.demo import make_credit_demo
    from fairmargin.tabular import table_of_frame

    note = "These data are made up for demonstration: nobody in them exists."
    return table_of_frame(make_credit_demo(), "built-in demo (made-up credit data)", [note])


def _split_names(given: list[str], columns: list[str]) -> list[str]:
    """Take "a,b" for two columns unless there is a column of that name."""
    names: list[str] = []
    for name in given:
        names += [name] if name in columns else [part.strip() for part in name.split(",") if part.strip()]
    return names


def _study(options: dict[str, Any]) -> Study:
    """Read, encode and split the data that the options of ``train`` and ``frontier`` name."""
    from fairmargin.tabular import prepare

    reading = ("data", "demo", "target", "positive", "sensitive", "names", "header", "delimiter", "encoding")
    table, question = _table(**{name: options[name] for name in reading})
    if question["target"] is None:
        raise Failure("Name the column to predict: --target COL.")
    columns = list(table.frame.columns)
    encoding = ("missing_sensitive", "min_frequency", "max_levels", "scale", "test_share", "seed")
    return prepare(
        table,
        **question,
        features=_split_names(options["features"], columns) if options["features"] else None,
        exclude=_split_names(options["exclude"] or [], columns),
        bins=_bins(options["bins"]),
        **{name: options[name] for name in encoding},
    )


def _groups(frame: pd.DataFrame, sensitive: list[str], bins: list[str] | None, missing: str) -> Any:
    from fairmargin.tabular import find_column, group_columns

    names = [find_column(frame, name, "sensitive column") for name in sensitive]
    return group_columns(frame, names, _bins(bins), missing)


def _pairs(given: list[str] | None, option: str) -> dict[str, str]:
    pairs = {}
    for text in given or []:
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise Failure(f"{option} takes COL=VALUE, got {text!r}.")
        pairs[name] = value
    return pairs


def _bins(given: list[str] | None) -> dict[str, list[float]]:
    result = {}
    for name, limits in _pairs(given, "--bin").items():
        try:
            result[name] = [float(limit) for limit in limits.split(",")]
        except ValueError:
            raise Failure(f"--bin takes COL=NUMBER,NUMBER,..., got {name}={limits}.") from None
    return result


def _load_model(path: Path) -> TabularModel:
    from fairmargin import io
    from fairmargin.tabular import TabularModel

    model = io.load(path)
    if not isinstance(model, TabularModel):
        raise Failure(f"{path.name} holds a classifier without the encoding of a table; use it from Python.")
    return model


def _as_parquet(frame: pd.DataFrame) -> bytes:
    buffer = BytesIO()
    frame.to_parquet(buffer, index=False)
    return buffer.getvalue()


@dataclass(frozen=True)
class _Outputs:
    """Where to write what; a path of ``-`` is the standard output."""

    json: Path | None
    markdown: Path | None
    html: Path | None

    @property
    def to_stdout(self) -> bool:
        """Whether the standard output is taken."""
        return any(path is not None and str(path) == "-" for path in (self.json, self.markdown))


def _check_outputs(json: Path | None, markdown: Path | None, html: Path | None, *others: Path) -> _Outputs:
    """Refuse at once what could not be written after long work."""
    from fairmargin.files import check_writable

    paths = [path for path in (json, markdown, html, *others) if path is not None and str(path) != "-"]
    for path in paths:
        check_writable(path)
    if len({path.absolute() for path in paths}) < len(paths):
        raise Failure("Two outputs have the same file name.")
    return _Outputs(json, markdown, html)


def _write(
    summary: dict[str, Any],
    outputs: _Outputs,
    quiet: bool,
    html: Callable[[dict[str, Any]], str] | None = None,
) -> None:
    """Write the files asked for, and print the summary unless the standard output is taken."""
    from fairmargin.files import write_atomic
    from fairmargin.report import to_json, to_markdown

    renderers = ((outputs.json, to_json), (outputs.markdown, to_markdown), (outputs.html, html))
    for path, render in renderers:
        if path is None or render is None:
            continue
        if str(path) == "-":
            sys.stdout.write(render(summary))
        else:
            write_atomic(path, render(summary))
    if not quiet and not outputs.to_stdout:
        from fairmargin.report.terminal import show

        show(summary)


def _done(quiet: bool, outputs: _Outputs, line: str) -> None:
    if not quiet:
        print(line, file=sys.stderr if outputs.to_stdout else sys.stdout)


def _gate(summary: dict[str, Any], fail_under: float | None) -> int:
    """Return the exit status that ``--fail-under`` asks for."""
    if fail_under is None:
        return 0
    lowest = summary["audit"]["lowest"]
    if lowest is None:
        return _say("no group has enough people to say; --fail-under cannot be decided", 1)
    if lowest["ratio"] < fail_under:
        where = f"{lowest['attribute']} = {lowest['group']}"
        return _say(f"the ratio of {where} is {lowest['ratio']:.1f}%, under {fail_under:g}%", 1)
    return 0


class Steps(Protocol):
    """Told which step begins and, within a long one, how much of it is done."""

    def __call__(self, step: str, done: int = 0, total: int | None = None) -> None:
        """Show that ``step`` is running, and ``done`` of ``total`` parts of it are done."""


@contextmanager
def _steps(quiet: bool) -> Iterator[Steps]:
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
