"""Discriminatory classification rules: groups, in contexts of one or two features, that are refused more often.

A rule ``A, B -> refused`` has a sensitive value A and a context B, e.g. ``sex = Female, job = clerk``. Its *extended
lift* compares it with the context alone::

    elift = conf(A, B -> refused) / conf(B -> refused),

and the rule is alpha-discriminatory, *directly*, if that is at least alpha. A rule ``D, B -> refused`` without a
sensitive value discriminates *indirectly* if the features D, in context B, tell of A: with ``gamma`` its confidence,
``delta = conf(B -> refused)``, ``b1 = conf(A, B -> D)`` and ``b2 = conf(D, B -> A)``, the extended lift of
``A, B -> refused`` is at least ::

    elb = (b1 / b2) (b2 + gamma - 1) / delta        (0 where that is negative).

Pedreschi, D., Ruggieri, S. and Turini, F. (2008), Discrimination-aware data mining.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import chi2, hypergeom

from fairmargin.inputs import check_container, check_same_order
from fairmargin.membership import Membership, probabilities_refused
from fairmargin.sensitive import read_columns

__all__ = ["DiscriminationRule", "extended_lift", "extended_lift_bound", "find_discrimination_rules"]

Array = NDArray[np.float64]

_BINS = 5  # of a number with many values
_LEVELS = 20  # most frequent values kept apart per column
_CHANCE = 0.01  # probability that chance alone puts any rule on the list


@dataclass(frozen=True)
class DiscriminationRule:
    """A rule by which a group is refused more often than its context.

    Attributes
    ----------
    kind : {"direct", "indirect"}
    attribute, group : str
        The sensitive value A.
    context : tuple of str
        The items of B, such as ``"job = clerk"``; empty for everybody.
    proxy : tuple of str
        Of an indirect rule, the items of D; empty for a direct one.
    people : int
        Number of people to whom the rule applies: with A and B, or with D and B.
    confidence : float
        Share of these who are refused.
    context_confidence : float
        Share of the people of the context who are refused.
    lift : float
        The extended lift of a direct rule, its lower bound of an indirect one.
    """

    kind: str
    attribute: str
    group: str
    context: tuple[str, ...]
    proxy: tuple[str, ...]
    people: int
    confidence: float
    context_confidence: float
    lift: float


def extended_lift(confidence: Any, context_confidence: Any) -> Any:
    """Return ``conf(A, B -> refused) / conf(B -> refused)``; 0 where nobody of the context is refused."""
    confidence, context = np.broadcast_arrays(np.asarray(confidence, float), np.asarray(context_confidence, float))
    return np.divide(confidence, context, out=np.zeros(context.shape), where=context > 0)


def extended_lift_bound(gamma: Any, delta: Any, b1: Any, b2: Any) -> Any:
    """Return the lower bound ``(b1 / b2) (b2 + gamma - 1) / delta`` of an extended lift, at least 0."""
    gamma, delta, b1, b2 = np.broadcast_arrays(*(np.asarray(v, dtype=float) for v in (gamma, delta, b1, b2)))
    known = (b2 > 0) & (delta > 0)
    top = b1 * (b2 + gamma - 1.0)
    return np.maximum(np.divide(top, b2 * delta, out=np.zeros(gamma.shape), where=known), 0.0)


def find_discrimination_rules(
    features: pd.DataFrame,
    sensitive_features: Any,
    positive: Any,
    *,
    alpha: float = 1.25,
    min_people: int = 30,
    most: int = 50,
) -> list[DiscriminationRule]:
    """List the rules of extended lift of at least ``alpha``, the highest first.

    Contexts have no, one or two items; the proxy D of an indirect rule is one item in a context of one. A rule of two
    items is listed only if its lift exceeds those of its parts. Differences that chance may well have made are
    left out: were refusals independent of everything else, any rule would be listed with a probability of at most 1%,
    by Fisher's exact test with Bonferroni's correction for all combinations of groups and items.

    Parameters
    ----------
    features : DataFrame of n rows
        Numbers are cut into fifths; of other columns the 20 most frequent values are kept apart.
    sensitive_features : array, series or frame of n rows
    positive : array (n,) of bool
        Who gets the positive decision.
    alpha : float, default=1.25
        Least extended lift.
    min_people : int, default=30
        Rules for fewer people, or in contexts with fewer others, are left out.
    most : int, default=50
        Longest list per kind of rule.
    """
    check_container(positive, "positive")
    check_same_order(features=features, sensitive_features=sensitive_features, positive=positive)
    refused = ~np.asarray(positive, dtype=bool).ravel()
    columns = [_Column.of(str(name), features[name]) for name in features]
    attributes = [_groups(name, values) for name, values in read_columns(sensitive_features)]
    level = _CHANCE / max(_count_tests(columns, attributes), 1)
    found: list[DiscriminationRule] = []
    for groups in attributes:
        found += _Search(groups.name, groups, refused, alpha, min_people, level).run(columns)
    ordered = sorted(found, key=lambda r: (-r.lift, r.attribute, r.group, r.context, r.proxy))
    kinds = ([rule for rule in ordered if rule.kind == kind][:most] for kind in ("direct", "indirect"))
    return [rule for rules in kinds for rule in rules]


@dataclass(frozen=True)
class _Column:
    """A column as codes (n,) of its items, and the items in words."""

    name: str
    codes: NDArray[np.intp]
    values: tuple[str, ...]

    @classmethod
    def of(cls, name: str, column: pd.Series) -> _Column:
        column = column.reset_index(drop=True)
        if pd.api.types.is_bool_dtype(column) or not pd.api.types.is_numeric_dtype(column):
            text = column.astype(object).where(column.notna(), "(missing)").astype(str)
        elif column.nunique() > 2 * _BINS:
            with np.errstate(over="ignore"):  # limits beyond 1e305 overflow where pandas rounds them for their names
                text = pd.qcut(column, _BINS, duplicates="drop").astype(object)
            text = text.where(column.notna(), "(missing)").astype(str)
        else:
            text = column.map(lambda v: f"{v:g}", na_action="ignore").astype(object).fillna("(missing)")
        common = text.value_counts().index[:_LEVELS]
        codes, values = pd.factorize(text.where(text.isin(common), "(other)"), sort=True)
        return cls(name, codes.astype(np.intp), tuple(map(str, values)))

    def item(self, code: int) -> str:
        return f"{self.name} = {self.values[code]}"


def _groups(name: str, values: Any) -> _Column:
    """Return a sensitive attribute as a column; one that is known as probabilities only raises."""
    if isinstance(values, Membership):
        raise probabilities_refused(name, "a search for discriminatory rules")
    return _Column.of(name, values.astype(object))


def _count_tests(columns: list[_Column], attributes: list[_Column]) -> int:
    """Return how many rules are looked at: per group, one for everybody, one per item, three per pair of items.

    The three are a direct rule in the context of both, and indirect ones with either of them as the proxy.
    """
    pairs = sum(len(a.values) * len(b.values) for a, b in combinations(columns, 2))
    contexts = 1 + sum(len(column.values) for column in columns) + 3 * pairs
    return contexts * sum(len(groups.values) for groups in attributes)


@dataclass(frozen=True)
class _Search:
    """The search for one attribute; rules are listed that chance makes with a probability of at most ``level``."""

    name: str
    groups: _Column
    refused: NDArray[np.bool_]
    alpha: float
    min_people: int
    level: float

    def run(self, columns: list[_Column]) -> list[DiscriminationRule]:
        everybody = _Column("", np.zeros(len(self.refused), dtype=np.intp), ("",))
        found = list(self._direct((everybody,)))
        for column in columns:
            found += self._direct((column,))
        singles = {(rule.group, rule.context): rule.lift for rule in found}
        for pair in combinations(columns, 2):
            for rule in self._direct(pair):
                parts = [(), *((item,) for item in rule.context)]
                if all(rule.lift > singles.get((rule.group, part), 0.0) for part in parts):
                    found.append(rule)
            found += self._indirect(*pair)
            found += self._indirect(*pair[::-1])
        return found

    def _counts(self, columns: tuple[_Column, ...]) -> Array:
        """Return the number of people by items, group and refusal, (m_1, ..., G, 2)."""
        shape = (*(len(c.values) for c in columns), len(self.groups.values), 2)
        codes = np.ravel_multi_index(
            (*(c.codes for c in columns), self.groups.codes, self.refused.astype(np.intp)), shape
        )
        return np.bincount(codes, minlength=int(np.prod(shape))).reshape(shape).astype(float)

    def _confirm(self, keep: NDArray[np.bool_], *counts: Array) -> NDArray[np.bool_]:
        """Return which of the rules kept so far are too frequent for chance.

        The chi-square statistic sorts out most of them cheaply (its tail has two sides, hence the factor 2); as it is
        too generous to small counts, Fisher's exact test decides about the others.
        """
        enough = float(chi2.isf(min(2.0 * self.level, 1.0), 1))
        confirmed = keep & (_chi_square(*counts) >= enough)
        refused, people, all_refused, all_people = (np.broadcast_to(c, keep.shape)[confirmed] for c in counts)
        confirmed[confirmed] = hypergeom.sf(refused - 1, all_people, all_refused, people) <= self.level
        return confirmed

    def _direct(self, context: tuple[_Column, ...]) -> Iterator[DiscriminationRule]:
        counts = self._counts(context)
        people, refused = counts.sum(axis=-1), counts[..., 1]
        context_people, context_refused = people.sum(axis=-1, keepdims=True), refused.sum(axis=-1, keepdims=True)
        confidence, base = _divide(refused, people), _divide(context_refused, context_people)
        lift = extended_lift(confidence, base)
        keep = (lift >= self.alpha) & (people >= self.min_people) & (context_people - people >= self.min_people)
        for place in np.argwhere(self._confirm(keep, refused, people, context_refused, context_people)):
            *items, group = place.tolist()
            words = tuple(c.item(i) for c, i in zip(context, items, strict=True) if c.name)
            at = tuple(place)
            yield DiscriminationRule(
                "direct",
                self.name,
                self.groups.values[group],
                words,
                (),
                int(people[at]),
                float(confidence[at]),
                float(base[at[:-1]][0]),
                float(lift[at]),
            )

    def _indirect(self, context: _Column, proxy: _Column) -> Iterator[DiscriminationRule]:
        counts = self._counts((context, proxy))
        people, refused = counts.sum(axis=(2, 3))[..., None], counts[..., 1].sum(axis=2)[..., None]
        all_people, all_refused = (part.sum(axis=1, keepdims=True) for part in (people, refused))
        both = counts.sum(axis=3)  # by B, D and A
        gamma, delta = _divide(refused, people), _divide(all_refused, all_people)
        lift = extended_lift_bound(
            gamma, delta, _divide(both, both.sum(axis=1, keepdims=True)), _divide(both, people)
        )
        keep = (lift >= self.alpha) & (people >= self.min_people) & (all_people - people >= self.min_people)
        for b, d, group in np.argwhere(self._confirm(keep, refused, people, all_refused, all_people)).tolist():
            yield DiscriminationRule(
                "indirect",
                self.name,
                self.groups.values[group],
                (context.item(b),),
                (proxy.item(d),),
                int(people[b, d, 0]),
                float(gamma[b, d, 0]),
                float(delta[b, 0, 0]),
                float(lift[b, d, group]),
            )


def _divide(a: Array, b: Array) -> Array:
    a, b = np.broadcast_arrays(a, b)
    return np.divide(a, b, out=np.zeros(b.shape), where=b > 0)


def _chi_square(refused: Array, people: Array, all_refused: Array, all_people: Array) -> Array:
    """Return the chi-square statistic of the refusals of some people against those of the rest of all."""
    others, other_refused = all_people - people, all_refused - refused
    pooled = _divide(all_refused, all_people)
    difference = _divide(refused, people) - _divide(other_refused, others)
    variance = pooled * (1.0 - pooled) * (_divide(np.ones(1), people) + _divide(np.ones(1), others))
    return _divide(difference**2, variance)
