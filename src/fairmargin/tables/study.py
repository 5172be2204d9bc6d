"""One question put to one table: target, groups and features, encoded and split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairmargin.coded_matrix import CodedMatrix
from fairmargin.decisions import RULES
from fairmargin.disparate_treatment import refuse_recodings
from fairmargin.exceptions import DataError, DisparateTreatmentError
from fairmargin.formatting import shorten
from fairmargin.sensitive import encode_sensitive
from fairmargin.tables.columns import find_column
from fairmargin.tables.encoding import TableEncoder
from fairmargin.tables.groups import find_sensitive_columns, group_columns, people_with_values
from fairmargin.tables.joining import join_tables
from fairmargin.tables.reader import Table
from fairmargin.tables.target import read_target

__all__ = ["Part", "Study", "choose_features", "method_of_rule", "prepare"]

Array = NDArray[np.float64]

_SPLIT = 1  # key of the stream that splits are drawn from; any number that no other use of a seed has


@dataclass(frozen=True)
class Part:
    """The training part or the held-out part: matrix, target, groups, and the columns they come from."""

    X: Array | CodedMatrix
    y: NDArray[np.int64]
    sensitive: pd.DataFrame
    frame: pd.DataFrame

    def __len__(self) -> int:
        return len(self.y)


@dataclass(frozen=True)
class Study:
    """One question put to one table: encoded, grouped and split.

    ``labels`` are the texts of the negative and the positive value of the target; ``y`` is 1 for the second.
    ``method`` and ``min_people`` say how groups are compared, as in :func:`fairmargin.p_rule`.
    """

    train: Part
    test: Part
    encoder: TableEncoder
    target: str
    labels: tuple[str, str]
    sensitive: tuple[str, ...]
    fingerprint: dict[str, Any]
    settings: dict[str, Any]
    notes: tuple[str, ...]
    method: str = "one_vs_rest"
    min_people: int = 1
    warnings: tuple[str, ...] = ()

    @property
    def people(self) -> int:
        """Number of people in both parts."""
        return len(self.train) + len(self.test)


def prepare(
    table: Table,
    *,
    target: str,
    sensitive: Sequence[str],
    positive: str | None = None,
    features: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
    bins: Mapping[str, Sequence[float]] | None = None,
    missing_sensitive: str = "group",
    min_frequency: float = 0.005,
    max_levels: int = 50,
    scale: bool = True,
    test_share: float = 0.3,
    seed: int = 0,
    stratify: bool = True,
    rule: str = "rest",
    min_people: int = 30,
    merge_small: bool = False,
    categorical: Sequence[str] = (),
    numeric: Sequence[str] = (),
    test: Table | None = None,
    intersections: bool = False,
    value_names: Mapping[str, Mapping[str, str]] | None = None,
) -> Study:
    """Prepare a table for training: choose target, features and sensitive columns, split and encode.

    The encoding is learnt from the training part only. The split is stratified unless ``stratify`` is False: every
    combination of target and groups has its share among the people held out.

    Parameters
    ----------
    table : Table
    target, positive : str
        The column to predict and its favourable value.
    sensitive : list of str
        Columns that the classifier must be fair to; they are no features.
    features : list of str, optional
        By default all other columns, less ``exclude``.
    bins : mapping from column to limits, optional
        Where to cut sensitive numbers into groups.
    missing_sensitive : {"group", "error", "drop"}
        People with a missing sensitive value are a group of their own, an error, or left out.
    min_frequency, max_levels, scale, categorical, numeric
        As in :meth:`TableEncoder.fit`.
    test_share : float
        Share of the people who are held out; 0 for nobody.
    seed : int
    stratify : bool
        False where a rule is tested on the people held out: their draw must not depend on their labels.
    rule : {"rest", "highest"}
        Whether a p%-rule compares each group with everybody else or with the group of the highest rate.
    min_people : int
        Comparisons with fewer people on a side decide nothing.
    merge_small : bool
        Whether groups of fewer than ``min_people`` people are put together.
    test : Table, optional
        The people held out, with the same columns. Then everybody of ``table`` is trained on, and ``test_share`` has
        no effect.
    intersections : bool
        Whether the combinations of all sensitive columns are a further attribute.
    value_names : mapping from sensitive column to a mapping from value to name, optional
        Readable names of groups: ``{"SEX": {"1": "men", "2": "women"}}``.

    Raises
    ------
    DataError
        ``field`` names the parameter to change, where there is one.
    """
    method = method_of_rule(rule)
    frame = table.frame if test is None else join_tables(table, test)
    target = find_column(frame, target, "target column", field="target")
    sensitive = find_sensitive_columns(frame, sensitive, target)
    chosen = choose_features(frame, target, sensitive, features, exclude)
    y, known, labels = read_target(frame[target], positive)
    notes = list(table.notes)
    if not known.all():
        notes.append(f"{int((~known).sum()):,} people without a value of {shorten(target)!r} were left out.")
    kept, left_out = people_with_values(frame[known], sensitive, missing_sensitive)
    known = known.copy()
    known[known] = kept
    notes += left_out
    frame, y = frame[known].reset_index(drop=True), y[known]
    merge_under = min_people if merge_small else 0
    groups, said = group_columns(
        frame, sensitive, bins, missing_sensitive, merge_under, intersections=intersections, names=value_names
    )
    notes += said
    if test is None:
        train, held_out = _split(y, groups if stratify else groups.iloc[:, :0], test_share, seed)
    else:
        train, held_out = np.split(np.arange(len(y)), [int(known[: len(table.frame)].sum())])
        _check_both(train, held_out)
    encoder = TableEncoder.fit(
        frame.loc[train, chosen],
        min_frequency=min_frequency,
        max_levels=max_levels,
        scale=scale,
        categorical=_among(chosen, categorical, "categorical"),
        numeric=_among(chosen, numeric, "numeric"),
    )
    X = encoder.compact(frame)

    def part(rows: NDArray[np.intp]) -> Part:
        return Part(X[rows], y[rows].astype(np.int64), groups.iloc[rows].reset_index(drop=True), frame.iloc[rows])

    trained_on = part(train)
    _refuse_recodings(encoder, trained_on)
    settings = {
        "target": target,
        "positive": labels[1],
        "sensitive": list(sensitive),
        "features": chosen,
        "bins": {name: [float(e) for e in edges] for name, edges in (bins or {}).items()},
        "missing_sensitive": missing_sensitive,
        "min_frequency": min_frequency,
        "max_levels": max_levels,
        "scale": scale,
        "test_share": test_share,
        "seed": seed,
        "stratify": stratify,
        "rule": rule,
        "min_people": min_people,
        "merge_small": merge_small,
        "categorical": list(categorical),
        "numeric": list(numeric),
        "intersections": intersections,
        "value_names": {column: dict(names) for column, names in (value_names or {}).items()},
        "test": None if test is None else test.source,
    }
    return Study(
        trained_on,
        part(held_out),
        encoder,
        target,
        labels,
        tuple(sensitive),
        table.fingerprint if test is None else {**table.fingerprint, **_as_test(test)},
        settings,
        (*notes, *encoder.notes, *encoder.taken),
        method,
        min_people,
        encoder.suspects,
    )


def _as_test(test: Table) -> dict[str, Any]:
    """Return what identifies a separate table of people held out."""
    return {f"test_{key}": test.fingerprint[key] for key in ("source", "sha256", "rows")}


def _refuse_recodings(encoder: TableEncoder, people: Part) -> None:
    """Raise where the categories of a feature tell a sensitive column, as titles tell the sex."""
    try:
        sensitive = encode_sensitive(people.sensitive, len(people), groups=False)
        refuse_recodings(encoder.category_codes(people.X), sensitive)
    except DisparateTreatmentError as error:
        column = encoder.column_of(error.column)
        raise DataError(
            f"The categories of {shorten(column)!r} tell the sensitive attribute {error.attribute}: everybody in a "
            "category is of one group, so that deciding by it is disparate treatment. Leave the column out.",
            field="exclude",
            suggestion=column,
        ) from None


def _check_both(train: NDArray[np.intp], held_out: NDArray[np.intp]) -> None:
    if min(len(train), len(held_out)) == 0:
        raise DataError("Nobody with a known target is in one of the two tables.", field="test")


def _among(features: Sequence[str], names: Sequence[str], field: str) -> list[str]:
    """Return ``names``; raise if one of them is no feature."""
    for name in names:
        if name not in features:
            raise DataError(f"{shorten(name)!r} is to be {field}, but it is no feature.", field=field)
    return list(names)


def method_of_rule(rule: str) -> str:
    """Return the method, as in :func:`fairmargin.p_rule`, that a short name stands for."""
    methods = {short: method for method, (short, _) in RULES.items()}
    if rule not in methods:
        raise DataError(f"The rule compares with the 'rest' or the 'highest', not {shorten(rule)!r}.", field="rule")
    return methods[rule]


def choose_features(
    frame: pd.DataFrame, target: str, sensitive: Sequence[str], features: Sequence[str] | None, exclude: Sequence[str]
) -> list[str]:
    """Return the columns that are features: those named, or all that have no other part, less ``exclude``."""
    left_out = {find_column(frame, name, "column", field="exclude") for name in exclude}
    if features is None:
        chosen = [str(c) for c in frame.columns if c != target and c not in sensitive and c not in left_out]
    else:
        chosen = list(dict.fromkeys(find_column(frame, name, "feature", field="features") for name in features))
        for name in chosen:
            if name in sensitive or name == target:
                raise DataError(
                    f"The column {shorten(name)!r} cannot be a feature and the target or sensitive at once.",
                    field="features",
                )
        chosen = [name for name in chosen if name not in left_out]
    if not chosen:
        raise DataError("No column is left to be a feature.")
    return chosen


def _split(
    y: NDArray[np.bool_], groups: pd.DataFrame, test_share: float, seed: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Draw who is held out, within every combination of target and groups."""
    if not 0.0 <= test_share < 1.0:
        raise DataError(
            f"The share of people held out must be from 0 to less than 1, got {test_share}.", field="test_share"
        )
    if seed < 0:
        raise DataError(f"The seed must be zero or positive, got {seed}.", field="seed")
    n = len(y)
    if n < 10:
        raise DataError(f"There are only {n} people with a known target; at least 10 are needed.")
    if test_share == 0.0:
        return np.arange(n), np.arange(0)
    keys = np.zeros(n, dtype=np.intp)
    if groups.shape[1]:
        cells = pd.MultiIndex.from_arrays([*(groups[name] for name in groups), y])
        keys = pd.factorize(cells, sort=True)[0]
    # A stream of its own: numbers that the caller drew from default_rng(seed) must not tell who is held out.
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_SPLIT,)))
    # A random order within each cell, and every cell gives up the same share: those ranked lowest.
    order = np.lexsort((rng.random(n), keys))
    sizes = np.bincount(keys)
    start = np.cumsum(sizes) - sizes
    rank = np.empty(n)
    rank[order] = (np.arange(n) - np.repeat(start, sizes) + rng.random(len(sizes)).repeat(sizes)) / sizes.repeat(
        sizes
    )
    held_out = rank < test_share
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)
