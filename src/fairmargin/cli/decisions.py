"""The decisions that ``audit`` is asked about, and what else the table tells of the same people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairmargin.cli.inputs import Question, read_model, split_names
from fairmargin.exceptions import DataError
from fairmargin.formatting import shorten

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Decisions", "read_decisions"]


@dataclass(frozen=True)
class Decisions:
    """Decisions to audit: who is positive, in words whose decisions they are, and what else is known.

    ``columns`` are those that have a part in the audit other than as a feature. ``labels`` are True, False and None
    where the label is not known; ``labels`` itself is None where there are no labels beside the decisions. ``counts``
    are the people that each row stands for, None where that is one.
    """

    frame: pd.DataFrame
    positive: Any
    what: str
    favourable: str
    columns: tuple[str, ...] = ()
    scores: Any = None
    labels: Any = None
    weights: Any = None
    strata: Any = None
    notes: tuple[str, ...] = ()
    counts: Any = None

    def among(self, kept: Any) -> Decisions:
        """Return the decisions on some of the people."""
        values: dict[str, Any] = {
            name: None if value is None else value[kept]
            for name, value in vars(self).items()
            if name in ("positive", "scores", "labels", "weights", "counts")
        }
        strata = None if self.strata is None else self.strata[kept].reset_index(drop=True)
        return replace(self, frame=self.frame[kept].reset_index(drop=True), strata=strata, **values)


def read_decisions(asked: Question, options: Mapping[str, Any]) -> Decisions:
    """Return the decisions to audit: those of a column, of a model, of a score, or the labels."""
    found = _audited(asked, options)
    if asked.target is not None and options["decision"] != asked.target and found.columns[:1] != (asked.target,):
        found = _with_labels(found, asked)
    if options["weights"] is not None:
        found = _with_weights(found, options["weights"])
    if options["strata"]:
        found = _with_strata(found, options["strata"])
    return found


def _audited(asked: Question, options: Mapping[str, Any]) -> Decisions:
    decision, model, score = options["decision"], options["model"], options["score"]
    if decision is not None and model is not None:
        raise DataError("Give --decision or --model, not both.")
    if score is not None and model is not None:
        raise DataError("Give --score or --model, not both: a model has its own scores.")
    if model is not None:
        return _of_model(asked, model)
    if decision is None and score is not None:
        return _of_score(asked, score)
    name = decision if decision is not None else asked.target
    if name is None:
        raise DataError("Say what to audit: --target COL, --decision COL, --score COL or --model FILE.")
    found = _of_column(asked, name, options)
    return found if score is None else _with_score(found, score)


def _of_model(asked: Question, model: Path) -> Decisions:
    fitted, frame = read_model(model), asked.table.frame
    what = f"the decisions of the model {model.name}"
    if asked.counts is not None:
        from fairmargin.streaming.auditing import MODEL_DECISION

        accepted = frame[MODEL_DECISION].to_numpy(dtype=bool)
        return Decisions(frame.drop(columns=MODEL_DECISION), accepted, what, fitted.labels[1], counts=asked.counts)
    scores = fitted.scores(frame)
    notes = tuple(fitted.encoder.warnings(frame))
    return Decisions(frame, scores >= 0, what, fitted.labels[1], scores=scores, notes=notes)


def _of_column(asked: Question, name: str, options: Mapping[str, Any]) -> Decisions:
    from fairmargin.tables import find_column, read_target

    frame, decision = asked.table.frame, options["decision"]
    field = "target" if decision is None else "decision"
    column = find_column(frame, name, f"{field} column", field=field)
    positive = options["decision_positive"] if decision is not None else None
    if positive is None:
        positive = _unless_plain(frame[column], asked.positive) if decision and asked.target else asked.positive
    named = "positive" if decision is None else "decision_positive"
    accepted, known, labels = read_target(frame[column], positive, field=field, positive_field=named)
    what = f"{'the decisions' if decision else 'the labels'} {column} = {labels[1]}"
    found = Decisions(frame, accepted, what, labels[1], (column,), counts=asked.counts)
    left_out = int((~known).sum() if asked.counts is None else asked.counts[~known].sum())
    if not left_out:
        return found
    note = f"{left_out:,} people without a value of {column!r} were left out."
    return replace(found.among(known), notes=(note,))


def _unless_plain(column: pd.Series, positive: str | None) -> str | None:
    """Return the favourable value unless it is that of another column and the values here speak for themselves."""
    from fairmargin.tables.target import is_plain_pair, occurs

    return None if positive is not None and not occurs(column, positive) and is_plain_pair(column) else positive


def _of_score(asked: Question, score: str) -> Decisions:
    import numpy as np

    from fairmargin.tables import find_column

    column = find_column(asked.table.frame, score, "score column", field="score")
    what = f"scores above the median of {column}"
    nobody = np.zeros(len(asked.table.frame), dtype=bool)
    found = _with_score(Decisions(asked.table.frame, nobody, what, "above the median"), column)
    return replace(found, positive=found.scores > np.median(found.scores))


def _with_score(found: Decisions, name: str) -> Decisions:
    import numpy as np

    column, values = _numbers(found.frame, name, "score")
    known = np.isfinite(values)
    found = replace(found, scores=values, columns=(*found.columns, column))
    if known.all():
        return found
    if not known.any():
        raise DataError(f"The score column {shorten(column)!r} holds no numbers.", field="score")
    note = f"{int((~known).sum()):,} people without a score were left out."
    return replace(found.among(known), notes=(*found.notes, note))


def _numbers(frame: pd.DataFrame, name: str, field: str) -> tuple[str, Any]:
    """Return the name of a column of numbers, and its values; nan where there is none."""
    import numpy as np

    from fairmargin.tables import find_column
    from fairmargin.tables.columns import is_number_column

    column = find_column(frame, name, f"{field} column", field=field)
    if not is_number_column(frame[column]):
        raise DataError(f"The column {shorten(column)!r} holds no numbers, which {field} must be.", field=field)
    return column, frame[column].to_numpy(dtype=float, na_value=np.nan)


def _with_weights(found: Decisions, name: str) -> Decisions:
    import numpy as np

    column, values = _numbers(found.frame, name, "weights")
    wrong = ~np.isfinite(values) | (values < 0)
    if wrong.any():
        raise DataError(
            f"{int(wrong.sum()):,} people have no weight, or one that is not a finite number of at least 0, in "
            f"{shorten(column)!r}.",
            field="weights",
        )
    return replace(found, weights=values, columns=(*found.columns, column))


def _with_strata(found: Decisions, names: list[str]) -> Decisions:
    from fairmargin.tables import find_column, group_column

    columns = [
        find_column(found.frame, name, "column of strata", field="strata")
        for name in split_names(names, list(found.frame.columns))
    ]
    strata, notes = {}, []
    for column in columns:
        strata[column], said = group_column(found.frame[column], max_groups=len(found.frame), counts=found.counts)
        notes += said
    import pandas as pd

    return replace(
        found,
        strata=pd.DataFrame(strata),
        columns=(*found.columns, *columns),
        notes=(*found.notes, *notes),
    )


def _with_labels(found: Decisions, asked: Question) -> Decisions:
    """Add the labels, by which the error rates of the decisions are known; say why where there are none."""
    from fairmargin.tables import find_column, read_target

    assert asked.target is not None
    column = find_column(found.frame, asked.target, "target column", field="target")
    found = replace(found, columns=(*found.columns, column))
    try:
        label, known, values = read_target(found.frame[column], _unless_plain(found.frame[column], asked.positive))
    except DataError as error:
        return replace(found, notes=(*found.notes, f"Error rates were left out: {error}"))
    labels = label.astype(object)
    labels[~known] = None
    note = f"Error rates are those against {column} = {values[1]}."
    return replace(found, labels=labels, notes=(*found.notes, note))
