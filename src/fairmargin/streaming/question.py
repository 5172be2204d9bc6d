"""One question put to a source: target, groups and split, as :func:`fairmargin.tables.prepare` puts it to a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from fairmargin.exceptions import DataError
from fairmargin.formatting import shorten
from fairmargin.partitioned.arrow import is_number_type
from fairmargin.partitioned.contract import Engine, Source
from fairmargin.partitioned.study import PartitionedStudy, Report
from fairmargin.partitioned.study import prepare as scan_source
from fairmargin.streaming.cells import PEOPLE, count_cells
from fairmargin.streaming.regrouping import Grouping, RegroupedSource, Split
from fairmargin.tables.columns import find_column, value_as_text
from fairmargin.tables.groups import find_sensitive_columns, group_columns, people_with_values
from fairmargin.tables.study import choose_features, method_of_rule
from fairmargin.tables.target import read_target

__all__ = ["StreamedQuestion", "ask"]


@dataclass(frozen=True)
class StreamedQuestion:
    """A question put to a source, after two passes: one that counts people by label and group, and the scan.

    Attributes
    ----------
    study : PartitionedStudy
        Of the people to be trained on.
    held_out : Source or None
        The people held out, with a known label: a side of the split, or a source of their own.
    labels : tuple of str
        The negative and the positive value of the target as text.
    positive : the positive value itself
    groups : DataFrame
        Named groups of every combination that was counted, as categories in order.
    people, positives : int
        Everybody with a known label, and those with the positive one.
    settings, fingerprint : dict
    notes : tuple of str
    method, min_people : how groups are compared
    """

    study: PartitionedStudy
    held_out: Source | None
    target: str
    labels: tuple[str, str]
    positive: Any
    sensitive: tuple[str, ...]
    groups: pd.DataFrame
    people: int
    positives: int
    settings: dict[str, Any]
    fingerprint: dict[str, Any]
    notes: tuple[str, ...]
    method: str
    min_people: int


def ask(
    source: Source,
    engine: Engine,
    *,
    name: str,
    target: str,
    sensitive: Sequence[str],
    positive: str | None = None,
    features: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
    bins: Mapping[str, Sequence[float]] | None = None,
    missing_sensitive: str = "group",
    min_frequency: float = 0.005,
    max_levels: int = 50,
    test_share: float = 0.3,
    seed: int = 0,
    rule: str = "rest",
    min_people: int = 30,
    merge_small: bool = False,
    categorical: Sequence[str] = (),
    test: Source | None = None,
    intersections: bool = False,
    names: Mapping[str, Mapping[str, str]] | None = None,
    progress: Report | None = None,
) -> StreamedQuestion:
    """Prepare a source for training; parameters as in :func:`fairmargin.tables.prepare`, and the name of the data.

    Who is held out is drawn row by row, not within each combination of target and groups.
    """
    columns = pd.DataFrame(columns=list(source.schema.names))
    target = find_column(columns, target, "target column", field="target")
    sensitive = find_sensitive_columns(columns, sensitive, target)
    chosen = choose_features(columns, target, sensitive, features, exclude)
    method = method_of_rule(rule)
    trained, tested = (None, None) if test is not None else _sides(test_share, seed)

    cells = [_counted(s, engine, [target, *sensitive], bins, progress) for s in (source, test) if s is not None]
    rows = int(cells[0][PEOPLE].sum())
    people, labels, notes = _known_people(
        pd.concat(cells, ignore_index=True), target, sensitive, positive, missing_sensitive
    )
    needed = (target, *(sensitive if missing_sensitive == "drop" else ()))
    groups, said = group_columns(
        people,
        sensitive,
        bins,
        missing_sensitive,
        min_people if merge_small else 0,
        intersections=intersections,
        names=names,
        counts=people[PEOPLE].to_numpy(),
    )
    made = _groupings(people, groups, sensitive, bins)
    is_positive = [value_as_text(v) == labels[1] for v in people[target]]
    value = people[target].to_numpy()[is_positive][0]
    study = scan_source(
        RegroupedSource(source, made, needed, trained, _numbers(source, chosen, categorical)),
        engine,
        target=target,
        sensitive=list(groups.columns),
        features=chosen,
        categorical=[*categorical],
        min_frequency=min_frequency,
        max_levels=max_levels,
        seed=seed,
        progress=progress,
    )
    study = replace(study, source=RegroupedSource(source, made, needed, trained))  # whose numbers are checked by now
    held_out = None if tested is None else RegroupedSource(source, made, needed, tested)
    if test is not None:
        held_out = RegroupedSource(test, made, needed)
    settings = {
        "target": target,
        "positive": labels[1],
        "sensitive": list(sensitive),
        "features": chosen,
        "bins": {name: [float(e) for e in edges] for name, edges in (bins or {}).items()},
        "missing_sensitive": missing_sensitive,
        "min_frequency": min_frequency,
        "max_levels": max_levels,
        "scale": True,
        "test_share": test_share,
        "seed": seed,
        "stratify": False,
        "rule": rule,
        "min_people": min_people,
        "merge_small": merge_small,
        "categorical": list(categorical),
        "numeric": [],
        "intersections": intersections,
    }
    fingerprint = {"source": name, "sha256": source.fingerprint, "rows": rows, "columns": len(source.schema.names)}
    return StreamedQuestion(
        study,
        held_out,
        target,
        labels,
        value.item() if hasattr(value, "item") else value,
        tuple(sensitive),
        groups,
        int(people[PEOPLE].sum()),
        int(people[PEOPLE][is_positive].sum()),
        settings,
        fingerprint,
        (*notes, *said, *study.encoder.notes),
        method,
        min_people,
    )


def _known_people(
    people: pd.DataFrame, target: str, sensitive: Sequence[str], positive: str | None, missing: str
) -> tuple[pd.DataFrame, tuple[str, str], list[str]]:
    """Return the counts of those who take part, both values of the target, and notes on who was left out."""
    _, known, labels = read_target(people[target], positive)
    notes = []
    if not known.all():
        without = int(people[PEOPLE][~known].sum())
        notes.append(f"{without:,} people without a value of {shorten(target)!r} were left out.")
    people = people[known].reset_index(drop=True)
    kept, left_out = people_with_values(people, sensitive, missing, people[PEOPLE].to_numpy())
    return people[kept].reset_index(drop=True), labels, [*notes, *left_out]


def _sides(test_share: float, seed: int) -> tuple[Split, Split] | tuple[None, None]:
    """Return the people to be trained on and those held out; None where everybody is trained on."""
    if not 0.0 <= test_share < 1.0:
        raise DataError(
            f"The share of people held out must be from 0 to less than 1, got {test_share}.", field="test_share"
        )
    if seed < 0:
        raise DataError(f"The seed must be zero or positive, got {seed}.", field="seed")
    return (Split(test_share, seed, False), Split(test_share, seed, True)) if test_share else (None, None)


def _numbers(source: Source, features: Sequence[str], categorical: Sequence[str]) -> list[str]:
    """Return the features that are taken as numbers."""
    return [f for f in features if is_number_type(source.schema.field(f).type) and f not in categorical]


def _counted(
    source: Source,
    engine: Engine,
    columns: list[str],
    bins: Mapping[str, Sequence[float]] | None,
    progress: Report | None,
) -> pd.DataFrame:
    report = None if progress is None else lambda done, total: progress("groups", done, total)
    return count_cells(source, engine, columns, bins, report)


def _groupings(
    people: pd.DataFrame,
    groups: pd.DataFrame,
    sensitive: Sequence[str],
    bins: Mapping[str, Sequence[float]] | None,
) -> list[Grouping]:
    """Return, for each column of groups, which values of the data belong to which of its groups."""
    limits = {name: tuple(sorted({float(v) for v in values})) for name, values in (bins or {}).items()}
    found = []
    for name in groups.columns:
        columns = (name,) if name in sensitive else tuple(sensitive)
        values = [[None if pd.isna(v) else v for v in people[column]] for column in columns]
        words = dict(zip(zip(*values, strict=True), map(str, groups[name]), strict=True))
        found.append(Grouping(name, columns, words, {c: limits[c] for c in columns if c in limits}))
    return found
