"""Data larger than memory on the command line: Parquet files, folders and patterns, read in passes by an engine."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairmargin.atomic_write import open_atomic
from fairmargin.cli import inputs
from fairmargin.cli.options import FLAGS
from fairmargin.cli.outputs import Steps
from fairmargin.exceptions import DataError

if TYPE_CHECKING:
    from fairmargin.partitioned.contract import Engine, Source
    from fairmargin.streaming.deciding import Decided
    from fairmargin.streaming.question import StreamedQuestion
    from fairmargin.tables import TabularModel

__all__ = ["files_of", "is_partitioned", "predict", "propose", "read_question", "train"]

# What each pass is for, in the words of the progress bar.
_PASSES = {
    "groups": "counting groups",
    "scan": "learning the encoding",
    "evaluate": "Newton step",
    "near": "people near the margin",
    "worst": "promises to people",
    "rates": "counting decisions",
    "decisions": "counting decisions",
    "decide": "deciding",
    "held out": "drawing people held out",
}
_IN_MEMORY = 0.5  # share of the computer's memory that a table may take; training needs about as much again


def is_partitioned(options: Mapping[str, Any]) -> bool:
    """Whether data are read in passes: an engine is named, they are several files, or too large for memory."""
    given = _given(options)
    if options.get("engine") is not None:
        if not given:
            raise DataError("An engine reads Parquet files; name some, without --demo.", field="engine")
        return True
    return len(given) > 1 or any(_is_several(text) or _is_too_large(text, options) for text in given)


def _given(options: Mapping[str, Any]) -> list[str]:
    return [str(text) for text in options.get("data") or []]


def _is_several(text: str) -> bool:
    if "://" in text or os.path.isdir(text):
        return True
    return any(mark in text for mark in "*?[") and not os.path.exists(text)


def _is_too_large(text: str, options: Mapping[str, Any]) -> bool:
    """Whether a Parquet file is too large to be read at once while each of its row groups is not."""
    try:
        with open(text, "rb") as file:
            if not os.path.isfile(text) or file.read(4) != b"PAR1":
                return False
            from pyarrow import parquet

            metadata = parquet.read_metadata(text)
    except Exception:  # whoever reads the file will say what is wrong
        return False
    width = 8 * metadata.num_columns  # bytes per row in memory, at least
    largest = max((metadata.row_group(k).num_rows for k in range(metadata.num_row_groups)), default=0)
    limit = min(inputs.max_bytes(options), _IN_MEMORY * _memory())
    return bool(width * largest <= limit < width * metadata.num_rows)


def _memory() -> float:
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):  # not on every system
        return float("inf")


def files_of(texts: Sequence[str | Path]) -> list[Path]:
    """Return the files that paths, folders and patterns stand for, as far as they are on this computer."""
    found: list[Path] = []
    for text in map(str, texts):
        if os.path.isdir(text):
            found += [path for path in Path(text).rglob("*") if path.is_file()]
        elif _is_several(text):
            found += [Path(path) for path in glob.glob(text, recursive=True)]
        else:
            found.append(Path(text))
    return found


@contextmanager
def _opened(options: Mapping[str, Any], needs_memory: Sequence[str] = ()) -> Iterator[tuple[Source, Engine]]:
    """Open the source and the engine, which is closed at the end, after an error and Ctrl-C too."""
    from fairmargin.partitioned.engines import engine_for
    from fairmargin.partitioned.sources.parquet import ParquetSource

    for name in needs_memory:
        if options.get(name):
            raise DataError(
                f"{FLAGS[name]} needs all rows in memory: leave it out, or give one file and no --engine."
            )
    source = ParquetSource(_given(options))
    engine = engine_for(options.get("engine"))
    try:
        yield source, engine
    finally:
        engine.close()


def _name(options: Mapping[str, Any]) -> str:
    """Return the name of the data for reports: that of the file, or what was given."""
    given = _given(options)
    name = given[0] if _is_several(given[0]) else os.path.basename(given[0])
    return name if len(given) == 1 else f"{name} and {len(given) - 1} more"


def _report(step: Steps) -> Callable[[str, int, int], None]:
    """Return a function that shows passes by number, name and partition."""
    number, last = 0, ("", 0)

    def report(name: str, done: int, total: int) -> None:
        nonlocal number, last
        number += name != last[0] or done <= last[1]
        last = name, done
        step(f"pass {number}, {_PASSES.get(name, name)}: {done:,} of {total:,} parts", done, total)

    return report


def _of_pass(step: Steps, name: str) -> Callable[[int, int], None]:
    report = _report(step)
    return lambda done, total: report(name, done, total)


def train(
    options: Mapping[str, Any], estimator: Any, settings: dict[str, Any], step: Steps, **more: Any
) -> tuple[TabularModel, dict[str, Any]]:
    """Train a classifier in passes; return the model and its summary."""
    from fairmargin.streaming import jobs

    with _asked(options, estimator, step) as ask:
        return jobs.train(ask(), estimator, settings, **more)


def propose(
    options: Mapping[str, Any], estimator: Any, selection: Any, step: Steps, *, refit: bool
) -> tuple[TabularModel, dict[str, Any]]:
    """Trace both frontiers in passes; return the model proposed, perhaps trained again, and the summary."""
    from fairmargin.streaming import jobs

    more: dict[str, Any] = {"n_points": options["points"], "individual_loss": options["individual_loss"]}
    with _asked(options, estimator, step) as ask:
        model, summary = jobs.propose(ask(), estimator, selection, progress=step, **more)
        if refit:
            step("training on everybody")
            model = jobs.refit(model, ask(test_share=0.0))
            summary["notes"].append(model.facts["notes"][-1])
        return model, summary


@contextmanager
def _asked(options: Mapping[str, Any], estimator: Any, step: Steps) -> Iterator[Callable[..., StreamedQuestion]]:
    """Open the data; yield a function that puts the question of the options to them, some of which may be changed."""
    from fairmargin.partitioned.sources.parquet import ParquetSource
    from fairmargin.streaming.question import ask

    _check_in_passes(options, estimator)
    if options["target"] is None:
        raise DataError("Name the column to predict: --target COL.")
    if not options["sensitive"]:
        raise DataError("Name at least one sensitive column: --sensitive COL.")
    if not options["scale"]:
        raise DataError("Data read in passes are always standardised: leave out --no-scale.")
    with _opened(options, ("repeats", "held_out", "numeric")) as (source, engine):
        columns = list(source.schema.names)
        kept = ["positive", "missing_sensitive", "intersections", "min_frequency", "max_levels", "test_share", "seed"]
        kept += ["rule", "min_people", "merge_small"]
        yield lambda **changed: ask(
            source,
            engine,
            name=_name(options),
            target=options["target"],
            sensitive=inputs.split_names(options["sensitive"], columns),
            features=inputs.split_names(options["features"], columns) if options["features"] else None,
            exclude=inputs.split_names(options["exclude"] or [], columns),
            bins=inputs.parse_bins(options["bins"]),
            categorical=inputs.split_names(options["categorical"] or [], columns),
            test=None if options["test"] is None else ParquetSource(options["test"]),
            names=inputs.read_value_names(options["value_names"]),
            progress=_report(step),
            **({name: options[name] for name in kept} | changed),
        )


def _check_in_passes(options: Mapping[str, Any], estimator: Any) -> None:
    """Raise, before data are read, for a classifier or a constraint that passes cannot train."""
    from fairmargin.partitioned.training import check_estimator

    try:
        check_estimator(estimator)
    except TypeError:
        raise DataError(
            f"The estimator {options['estimator']!r} needs all rows in memory: choose logistic, linear-svm or "
            "squared-hinge, or give one file and no --engine.",
            field="estimator",
        ) from None
    except ValueError:
        field, named = "constraint", _needing_all_rows(options, estimator)
        said = f"The constraint {named[0]!r} needs all rows in memory: choose another"
        if options.get("confidence") is not None:
            field, said = "confidence", "A confidence needs all rows in memory: leave it out"
        elif len(named) > 1:
            said = f"The constraints {' and '.join(map(repr, named))} need all rows in memory: leave them out"
        elif len(options["constraint"]) > 1:
            said = f"The constraint {named[0]!r} needs all rows in memory: leave it out"
        raise DataError(f"{said}, or give one file and no --engine.", field=field) from None


def _needing_all_rows(options: Mapping[str, Any], estimator: Any) -> list[str]:
    """Return the constraints, as typed, that passes cannot train; all of them where only the list is at fault."""
    from fairmargin.partitioned.training import needs_sums_only
    from fairmargin.several import as_constraint

    texts = options.get("constraint") or []
    asked = estimator.constraint if len(texts) > 1 else [estimator.constraint]
    pairs = zip(texts, asked, strict=True)
    return [text for text, one in pairs if not needs_sums_only(as_constraint(one))] or list(texts)


def predict(options: Mapping[str, Any], model: TabularModel, step: Steps) -> Decided:
    """Decide on everybody and write the decisions as they come."""
    from fairmargin.streaming.deciding import decide, table_writer

    output: Path = options["output"]
    with _opened(options) as (source, engine):
        named = inputs.split_names(options["keep"] or [], list(source.schema.names))
        keep = list(dict.fromkeys(_find(source, name, "column") for name in named))
        numbers = range(1, 1 + min(options["reasons"], len(model.encoder.columns)))
        reasons = (f"{word}_{k}" for word in ("reason", "contribution") for k in numbers)
        written = {"decision", "score", "probability", *reasons}
        taken = [name for name in keep if name in written]
        if taken:
            raise DataError(f"The output has a column {taken[0]!r} already; rename that of the data to keep it.")
        as_parquet = output.suffix.lower() in (".parquet", ".pq")
        with (
            _stream(output) as stream,
            table_writer(stream, as_parquet=as_parquet, escape=options["escape_formulas"]) as write,
        ):
            more: dict[str, Any] = {"keep": keep, "n_reasons": options["reasons"]}
            return decide(source, engine, model, write, progress=_of_pass(step, "decide"), **more)


@contextmanager
def _stream(output: Path) -> Iterator[Any]:
    if str(output) == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with open_atomic(output) as stream:
        yield stream


def _find(source: Source, name: str, role: str, field: str | None = None) -> str:
    import pandas as pd

    from fairmargin.tables import find_column

    return find_column(pd.DataFrame(columns=list(source.schema.names)), name, role, field=field)


def read_question(options: Mapping[str, Any], step: Steps) -> inputs.Question:
    """Count the people that an audit is about by everything it looks at."""
    from fairmargin.streaming.auditing import counted_table

    with _opened(options, ("score", "weights", "profile")) as (source, engine):
        names = list(source.schema.names)
        sensitive = inputs.split_names(options["sensitive"] or [], names)
        if not sensitive:
            raise DataError("Name at least one sensitive column: --sensitive COL.")
        columns = [_find(source, name, "sensitive column", "sensitive") for name in sensitive]
        for field in ("decision", "target"):
            columns += [] if options[field] is None else [_find(source, options[field], f"{field} column", field)]
        strata = inputs.split_names(options["strata"] or [], names)
        columns += [_find(source, name, "column of strata", "strata") for name in strata]
        model = None if options["model"] is None else inputs.read_model(options["model"])
        for column in [] if model is None else model.encoder.columns:
            _find(source, column.name, "feature")
        table = counted_table(
            source,
            engine,
            _name(options),
            list(dict.fromkeys(columns)),
            bins=inputs.parse_bins(options["bins"]),
            model=model,
            progress=_of_pass(step, "decisions"),
        )
    return inputs.Question(table, options["target"], options["positive"], sensitive)
