"""The commands. Each reads its options, hands the work to the library, and writes what came out."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairmargin.cli import inputs, partitioned
from fairmargin.cli.options import (
    Author,
    Balanced,
    Bins,
    Categorical,
    Data,
    Decimal,
    Delimiter,
    Demo,
    Encoding,
    Engine,
    EstimatorName,
    Exclude,
    Features,
    Gains,
    Header,
    HeldOut,
    Intersections,
    JsonFile,
    Kernel,
    MarkdownFile,
    MaxIter,
    MaxLevels,
    MaxSize,
    MergeSmall,
    MinFrequency,
    MinPeople,
    MissingSensitive,
    Names,
    NotionName,
    Numeric,
    Positive,
    Purpose,
    Quiet,
    Regularisation,
    ReportDate,
    Rule,
    Scale,
    Seed,
    Sensitive,
    SigningKey,
    Target,
    TestFile,
    TestShare,
    Title,
    ValueNames,
    Verbose,
)
from fairmargin.cli.outputs import Outputs, Steps, steps
from fairmargin.cli.wording import as_typed
from fairmargin.exceptions import DataError
from fairmargin.formatting import clean, people

if TYPE_CHECKING:
    import pandas as pd

    from fairmargin.tables import Study, TabularModel

__all__ = ["frontier", "predict", "train"]


def train(
    context: typer.Context,
    data: Data = None,
    demo: Demo = False,
    target: Target = None,
    positive: Positive = None,
    sensitive: Sensitive = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Model file to write (- for standard output).")
    ] = Path("model.json"),
    constraint: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ASK",
            help="none, covariance=0 (the default; or =20%, or =sex:0,race:0.1), penalty=100 (or =sex:100), "
            "p-rule=80, difference=0.05, loss=0.05, accuracy=1%, auc=1%, profit=1%, individual=0.5, nobody-loses "
            "(or =0.5). Given several times, all must hold.",
        ),
    ] = None,
    confidence: Annotated[
        float | None,
        typer.Option(metavar="F", help="With p-rule: test the rule on the people held out, with this confidence."),
    ] = None,
    estimator: EstimatorName = "logistic",
    regularisation: Regularisation = 1.0,
    kernel: Kernel = "rbf",
    balanced: Balanced = False,
    max_iter: MaxIter = None,
    features: Features = None,
    exclude: Exclude = None,
    categorical: Categorical = None,
    numeric: Numeric = None,
    bins: Bins = None,
    missing_sensitive: MissingSensitive = "group",
    notion: NotionName = "selection_rate",
    rule: Rule = "rest",
    min_people: MinPeople = 30,
    merge_small: MergeSmall = False,
    min_frequency: MinFrequency = 0.005,
    max_levels: MaxLevels = 50,
    scale: Scale = True,
    intersections: Intersections = False,
    test: TestFile = None,
    held_out: HeldOut = None,
    test_share: TestShare = 0.3,
    seed: Seed = 0,
    repeats: Annotated[
        int, typer.Option(metavar="N", min=0, help="Train on N further random splits, to see how much results vary.")
    ] = 0,
    value_names: ValueNames = None,
    gains: Gains = None,
    title: Title = None,
    purpose: Purpose = None,
    author: Author = None,
    date: ReportDate = None,
    sign_with: SigningKey = None,
    names: Names = None,
    header: Header = None,
    delimiter: Delimiter = None,
    decimal: Decimal = ".",
    encoding: Encoding = "utf-8",
    max_size: MaxSize = 4.0,
    engine: Engine = None,
    json_file: JsonFile = None,
    markdown_file: MarkdownFile = None,
    html_file: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write it as a web page.")] = None,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> None:
    """Train one fair classifier and write it as a JSON file."""
    recorded = inputs.recorded_options(context)
    files = {"json": json_file, "markdown": markdown_file, "html": html_file, "model": output, "held_out": held_out}
    outputs = Outputs(inputs.input_files(context.params), **files)
    with steps(quiet) as step:
        from fairmargin.tables.model_file import to_json
        from fairmargin.tables.specifications import make_estimator, parse_constraints, parse_gains
        from fairmargin.tables.study import method_of_rule

        class_weight = "balanced" if balanced else None
        worth, texts = parse_gains(gains), constraint or ["covariance=0"]
        asked: dict[str, Any] = {
            "confidence": confidence,
            "method": method_of_rule(rule),
            "min_people": min_people,
            "gains": worth,
            "notion": notion,
        }
        constraints = parse_constraints(texts, **asked)
        unfitted = make_estimator(
            estimator,
            constraints,
            C=regularisation,
            kernel=kernel,
            class_weight=class_weight,
            max_iter=max_iter,
        )
        step("reading")
        settings: dict[str, Any] = {"constraint": " and ".join(texts), "confidence": confidence}
        with as_typed(texts, constraints):
            if partitioned.is_partitioned(context.params):
                model, summary = partitioned.train(context.params, unfitted, settings, step, gains=worth)
            else:
                model, summary = _trained(context.params, unfitted, settings, outputs, step, gains=worth)
        step("writing")
        content = to_json(model)
        outputs.write("model", content)
    outputs.add_record(summary, recorded, content)
    outputs.write_summary(summary, quiet, verbose)
    outputs.say_where("model", quiet)


def _trained(
    options: Mapping[str, Any], estimator: Any, settings: dict[str, Any], outputs: Outputs, step: Steps, **more: Any
) -> tuple[TabularModel, dict[str, Any]]:
    """Train on a table in memory; return the model and its summary."""
    from fairmargin.tables import jobs
    from fairmargin.tables.explain import reasons_of_groups

    make_study = inputs.study_maker(options)
    study = make_study(options["seed"])
    step("training")
    model, summary = jobs.train(study, estimator, settings, **more)
    if options["repeats"]:
        step("other splits")
        summary["repeats"] = _repeated(make_study, estimator, options["seed"], options["repeats"], options["test"])
    summary["reasons"] = reasons_of_groups(model, study)
    _write_held_out(outputs, study)
    return model, summary


def _repeated(make_study: Any, estimator: Any, seed: int, repeats: int, test: Path | None) -> dict[str, Any]:
    """Train on the splits of the seeds that follow."""
    from fairmargin.tables.repeats import repeat_splits

    if test is not None:
        raise DataError("Give --repeats or --test, not both: a file of its own is not drawn at random.")
    return repeat_splits(make_study, estimator, range(seed + 1, seed + 1 + repeats))


def _write_held_out(outputs: Outputs, study: Study) -> None:
    """Write the rows of the people held out, where that was asked for."""
    if "held_out" not in outputs.paths:
        return
    from fairmargin.tables.spreadsheet import to_csv

    if not len(study.test):
        raise DataError("Nobody is held out whose rows could be written.", field="test_share")
    rows = study.test.frame.reset_index(drop=True)
    as_parquet = outputs.paths["held_out"].suffix.lower() in (".parquet", ".pq")
    outputs.write("held_out", _as_parquet(rows) if as_parquet else to_csv(rows, escape=True))


def predict(
    context: typer.Context,
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="File that train wrote.")],
    data: Annotated[list[str], typer.Argument(metavar="DATA", help="New people; sensitive columns are not needed.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="CSV or .parquet to write; - for standard output.")
    ] = Path("-"),
    keep: Annotated[
        list[str] | None, typer.Option(metavar="COL", help="Copy these columns to the output: a,b or several times.")
    ] = None,
    reasons: Annotated[
        int,
        typer.Option(metavar="N", min=0, help="Add the N columns that moved each decision most."),
    ] = 0,
    escape_formulas: Annotated[
        bool,
        typer.Option(
            "--escape-formulas/--no-escape-formulas",
            help="In CSV, put a quote before text that a spreadsheet would execute.",
        ),
    ] = True,
    names: Names = None,
    header: Header = None,
    delimiter: Delimiter = None,
    decimal: Decimal = ".",
    encoding: Encoding = "utf-8",
    max_size: MaxSize = 4.0,
    engine: Engine = None,
    quiet: Quiet = False,
) -> None:
    """Apply a model to new people: decision, score and probability for each row, in order."""
    outputs = Outputs(inputs.input_files(context.params), decisions=output)
    with steps(quiet) as step:
        step("reading")
        fitted = inputs.read_model(model)
        if partitioned.is_partitioned(context.params):
            decided = partitioned.predict(context.params, fitted, step)
            n, accepted, notes = decided.people, decided.accepted, fitted.encoder.notes_on(decided.different)
        else:
            n, accepted, notes = _decided(context.params, fitted, outputs, step)
    if not quiet:
        for line in (*notes, f"{people(n)}, {accepted:,} decided {fitted.labels[1]!r}"):
            print(clean(line), file=sys.stderr)


def _decided(
    options: Mapping[str, Any], fitted: TabularModel, outputs: Outputs, step: Steps
) -> tuple[int, int, list[str]]:
    """Decide on a table in memory; return the number of people, of those accepted, and notes."""
    from fairmargin.tables import find_column
    from fairmargin.tables.spreadsheet import to_csv

    table = inputs.read_table_file(Path(options["data"][0]), options)
    step("deciding")
    result = fitted.decide(table.frame)
    if options["reasons"]:
        result = result.join(fitted.reasons(table.frame, options["reasons"]))
    named = inputs.split_names(options["keep"] or [], list(table.frame.columns))
    for column in reversed(list(dict.fromkeys(find_column(table.frame, name) for name in named))):
        if column in result:
            raise DataError(f"The output has a column {column!r} already; rename that of the data to keep it.")
        result.insert(0, column, table.frame[column].to_numpy())
    notes = [*table.notes, *fitted.encoder.warnings(table.frame)]
    accepted = int((result["decision"] == fitted.labels[1]).sum())
    as_parquet = options["output"].suffix.lower() in (".parquet", ".pq")
    step("writing")
    outputs.write(
        "decisions", _as_parquet(result) if as_parquet else to_csv(result, escape=options["escape_formulas"])
    )
    return len(result), accepted, notes


def _as_parquet(frame: pd.DataFrame) -> bytes:
    buffer = BytesIO()
    frame.to_parquet(buffer, index=False)
    return buffer.getvalue()


def frontier(
    context: typer.Context,
    data: Data = None,
    demo: Demo = False,
    target: Target = None,
    positive: Positive = None,
    sensitive: Sensitive = None,
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Report to write (HTML; - for standard output); with --select, FILE.json is the proposed model.",
        ),
    ] = None,
    select: Annotated[
        str | None,
        typer.Option(metavar="ASK", help="What to propose: p-rule=80, loss=2%, accuracy=1%, auc=1%, profit=1%."),
    ] = None,
    refit: Annotated[
        bool, typer.Option("--refit", help="Train the proposed model that is written again, on everybody.")
    ] = False,
    points: Annotated[int, typer.Option(metavar="N", min=2, max=201, help="Points of the frontier.")] = 21,
    estimator: EstimatorName = "logistic",
    regularisation: Regularisation = 1.0,
    kernel: Kernel = "rbf",
    balanced: Balanced = False,
    max_iter: MaxIter = None,
    individual_loss: Annotated[
        float, typer.Option(metavar="F", min=0.0, help="For 'nobody is refused': how much a person's loss may grow.")
    ] = 2.0,
    features: Features = None,
    exclude: Exclude = None,
    categorical: Categorical = None,
    numeric: Numeric = None,
    bins: Bins = None,
    missing_sensitive: MissingSensitive = "group",
    notion: NotionName = "selection_rate",
    rule: Rule = "rest",
    min_people: MinPeople = 30,
    merge_small: MergeSmall = False,
    min_frequency: MinFrequency = 0.005,
    max_levels: MaxLevels = 50,
    scale: Scale = True,
    intersections: Intersections = False,
    test: TestFile = None,
    held_out: HeldOut = None,
    test_share: TestShare = 0.3,
    seed: Seed = 0,
    value_names: ValueNames = None,
    gains: Gains = None,
    title: Title = None,
    purpose: Purpose = None,
    author: Author = None,
    date: ReportDate = None,
    sign_with: SigningKey = None,
    names: Names = None,
    header: Header = None,
    delimiter: Delimiter = None,
    decimal: Decimal = ".",
    encoding: Encoding = "utf-8",
    max_size: MaxSize = 4.0,
    engine: Engine = None,
    json_file: JsonFile = None,
    markdown_file: MarkdownFile = None,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> None:
    """Trace accuracy against fairness and write an interactive report.

    One HTML file that opens from disk, needs no network and can be sent to a reviewer.
    """
    report, model_file = _reports_and_model(output or [], select)
    recorded = inputs.recorded_options(context)
    files = {"json": json_file, "markdown": markdown_file, "html": report, "model": model_file, "held_out": held_out}
    outputs = Outputs(inputs.input_files(context.params), **files)
    if refit and (model_file is None or test is not None):
        raise DataError("--refit is for a model that is written (-o model.json), without a file of --test people.")
    with steps(quiet) as step:
        from fairmargin.tables.model_file import to_json
        from fairmargin.tables.specifications import make_estimator, parse_gains, parse_selection

        selection = parse_selection(select or "p-rule=80", parse_gains(gains), notion=notion)
        class_weight = "balanced" if balanced else None
        unfitted = make_estimator(
            estimator,
            C=regularisation,
            kernel=kernel,
            class_weight=class_weight,
            max_iter=max_iter,
        )
        step("reading")
        if partitioned.is_partitioned(context.params):
            model, summary = partitioned.propose(context.params, unfitted, selection, step, refit=refit)
        else:
            model, summary = _proposed(context.params, unfitted, selection, outputs, step, refit=refit)
        step("writing")
        content = None if model_file is None else to_json(model)
    if content is not None:
        outputs.write("model", content)
    outputs.add_record(summary, recorded, content)
    outputs.write_summary(summary, quiet, verbose)
    outputs.say_where("html", quiet, "report")
    if content is not None:
        outputs.say_where("model", quiet)


def _proposed(
    options: Mapping[str, Any], estimator: Any, selection: Any, outputs: Outputs, step: Steps, *, refit: bool
) -> tuple[TabularModel, dict[str, Any]]:
    """Trace both frontiers of a table in memory; return the model proposed and the summary."""
    from fairmargin.tables import jobs

    make_study = inputs.study_maker(options)
    study = make_study(options["seed"])
    more: dict[str, Any] = {"n_points": options["points"], "individual_loss": options["individual_loss"]}
    model, summary = jobs.propose(study, estimator, selection, progress=step, **more)
    if refit:
        step("training on everybody")
        model = jobs.refit(model, make_study(options["seed"], test_share=0.0))
        summary["notes"].append(model.facts["notes"][-1])
    _write_held_out(outputs, study)
    return model, summary


def _reports_and_model(paths: list[Path], select: str | None) -> tuple[Path, Path | None]:
    """Return where the report goes, and the model, told by its name."""
    models = [path for path in paths if path.suffix.lower() == ".json"]
    reports = [path for path in paths if path not in models] or [Path("fairmargin-report.html")]
    if len(models) > 1 or len(reports) > 1:
        raise DataError("--output takes one report and one model (FILE.json) at most.")
    if models and select is None:
        raise DataError(f"Say which model to write to {models[0].name}: --select p-rule=80.")
    return reports[0], models[0] if models else None
