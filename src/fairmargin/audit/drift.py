"""An audit against an earlier one: which rates and which disparities have changed beyond chance.

For every group of both audits two hypotheses are tested exactly, each with at most the error probability asked for,
whatever the number of people:

- its *rate* is what it was (Fisher's exact test), and
- its *disparity* is what it was: the odds ratio of the group against everybody else (Zelen's exact test,
  :func:`fairmargin.odds_statistics.equal_odds_p_value`). If everybody's odds move alike, no disparity has drifted.

P-values are corrected for the number of groups that are judged, rates and disparities each by themselves. The two
audits must be of different people; people who are in both make the tests too cautious.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from fairmargin.odds_statistics import TwoByTwo, equal_odds_p_value, odds_ratio
from fairmargin.rate_statistics import adjusted, whole_counts

__all__ = ["Drift", "DriftedGroup", "audit_drift"]

WIDER = "the disparity has grown, beyond chance"
NARROWER = "the disparity has shrunk, beyond chance"
RATE = "the rate has changed beyond chance, the disparity may not have"
NOTHING = "no drift found"
TOO_FEW = "too few people to say"


@dataclass(frozen=True)
class DriftedGroup:
    """One group in both audits.

    Attributes
    ----------
    attribute, group : str
    people_before, people : int
    rate_before, rate : float
    ratio_before, ratio : float or None
        Percent of the rate of everybody else; None where that is zero.
    odds_ratio_before, odds_ratio : float or None
        Odds against those of everybody else; None where they are infinite or 0/0.
    p_rate, p_disparity : float or None
        P-values of the two tests, corrected for the number of groups that are judged.
    finding : str
    worse : bool
        Whether the disparity has grown beyond chance.
    """

    attribute: str
    group: str
    people_before: int
    people: int
    rate_before: float
    rate: float
    ratio_before: float | None
    ratio: float | None
    odds_ratio_before: float | None
    odds_ratio: float | None
    p_rate: float | None = None
    p_disparity: float | None = None
    finding: str = NOTHING
    worse: bool = False


@dataclass(frozen=True)
class Drift:
    """What has changed since an earlier audit.

    Attributes
    ----------
    groups : tuple of DriftedGroup
        The groups of both audits.
    only_before, only_now : tuple of str
        Groups of one audit only, as ``attribute = group``.
    confidence : float
    """

    groups: tuple[DriftedGroup, ...]
    only_before: tuple[str, ...]
    only_now: tuple[str, ...]
    confidence: float

    @property
    def worse(self) -> tuple[DriftedGroup, ...]:
        """The groups whose disparity has grown beyond chance."""
        return tuple(g for g in self.groups if g.worse)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {**asdict(self), "worse": [asdict(g) for g in self.worse]}


@dataclass(frozen=True)
class _Counted:
    """A group's counts, and those of everybody else of its attribute."""

    people: int
    rate: float
    rate_of_rest: float
    table: TwoByTwo


def audit_drift(
    before: Mapping[str, Any], now: Mapping[str, Any], *, confidence: float = 0.95, correction: str = "holm"
) -> Drift:
    """Compare two audits.

    Parameters
    ----------
    before, now : dict
        Plain data of audits: :meth:`fairmargin.audit.Audit.to_dict`, or what ``fairmargin audit --json`` wrote. Both
        must be of one notion of fairness.
    confidence : float, default=0.95
    correction : str, default="holm"
        Any method of ``statsmodels.stats.multitest.multipletests``.

    Examples
    --------
    >>> from fairmargin.audit import audit
    >>> sex = ["man"] * 100 + ["woman"] * 100
    >>> before = audit([1, 1, 0, 0] * 50, sensitive_features=sex).to_dict()
    >>> now = audit([1, 1, 0, 0] * 25 + [1, 0, 0, 0] * 25, sensitive_features=sex).to_dict()
    >>> [(g.group, g.finding) for g in audit_drift(before, now).worse]
    [('man', 'the disparity has grown, beyond chance'), ('woman', 'the disparity has grown, beyond chance')]
    """
    _check_same_notion(before, now)
    earlier, later = _counted(before), _counted(now)
    least = max(int(_audit_of(plain).get("min_people", 1)) for plain in (before, now))
    both = [key for key in later if key in earlier]
    rows = [_row(key, earlier[key], later[key]) for key in both]
    judged = [_judged(earlier[key], later[key], least) for key in both]
    tests = [_tests(earlier[key], later[key]) for key in both]
    rates = _corrected([t[0] for t in tests], judged, correction)
    disparities = _corrected_once(both, [t[1] for t in tests], judged, correction)
    concluded = [
        _concluded(replace(row, p_rate=p, p_disparity=q), said, 1.0 - confidence)
        for row, p, q, said in zip(rows, rates, disparities, judged, strict=True)
    ]
    return Drift(
        tuple(concluded),
        tuple(f"{a} = {g}" for a, g in earlier if (a, g) not in later),
        tuple(f"{a} = {g}" for a, g in later if (a, g) not in earlier),
        float(confidence),
    )


def _audit_of(plain: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the audit of a summary, or the audit itself; raise if it is neither."""
    found = plain.get("audit", plain) if isinstance(plain, Mapping) else None
    if not isinstance(found, Mapping) or "attributes" not in found:
        raise ValueError("This is no audit: give what Audit.to_dict returns, or the JSON summary of an audit.")
    return found


def _check_same_notion(before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise for audits that compare different rates."""
    first, second = (_audit_of(plain).get("notion", "selection_rate") for plain in (before, now))
    if first != second:
        raise ValueError(
            f"The earlier audit compares {first!r} and the later one {second!r}; audit both with the same notion."
        )


def _counted(plain: Mapping[str, Any]) -> dict[tuple[str, str], _Counted]:
    """Return the counts of every group of every attribute."""
    try:
        return {
            (str(row["name"]), str(group["group"])): _against_rest(
                group, [g for g in row["groups"] if g is not group]
            )
            for row in _audit_of(plain)["attributes"]
            for group in row["groups"]
        }
    except (KeyError, TypeError, ZeroDivisionError) as error:
        raise ValueError(f"This audit is damaged: {error!r} in its groups.") from None


def _against_rest(group: Mapping[str, Any], groups: Sequence[Mapping[str, Any]]) -> _Counted:
    _, people, rate = _worth([group])
    _, people_of_rest, rate_of_rest = _worth([g for g in groups if g is not group])
    table = (*whole_counts(rate * people, people), *whole_counts(rate_of_rest * people_of_rest, people_of_rest))
    return _Counted(int(group["people"]), rate, rate_of_rest, table)


def _worth(groups: Sequence[Mapping[str, Any]]) -> tuple[float, float, float]:
    """Return weight, effective people and rate of several groups together."""
    weights = [float(g.get("weight") or g["people"]) for g in groups]
    people = [float(g.get("effective_people") or g["people"]) for g in groups]
    total = sum(weights)
    squares = sum(w**2 / n for w, n in zip(weights, people, strict=True))
    rate = sum(w * float(g["rate"]) for w, g in zip(weights, groups, strict=True)) / total
    return total, total**2 / squares, min(max(rate, 0.0), 1.0)


def _row(key: tuple[str, str], before: _Counted, now: _Counted) -> DriftedGroup:
    ratios = [100.0 * c.rate / c.rate_of_rest if c.rate_of_rest > 0 else None for c in (before, now)]
    odds = [_finite(odds_ratio(*c.table)) for c in (before, now)]
    people, rates = (before.people, now.people), (before.rate, now.rate)
    return DriftedGroup(key[0], key[1], *people, *rates, ratios[0], ratios[1], odds[0], odds[1])


def _finite(value: float | None) -> float | None:
    return None if value is None or value == float("inf") else value


def _judged(before: _Counted, now: _Counted, least: int) -> bool:
    return min(before.table[1], before.table[3], now.table[1], now.table[3]) >= least


def _tests(before: _Counted, now: _Counted) -> tuple[float, float | None]:
    from scipy.stats import fisher_exact

    (k, n), (l, m) = before.table[:2], now.table[:2]
    return float(fisher_exact([[k, n - k], [l, m - l]]).pvalue), equal_odds_p_value(before.table, now.table)


def _corrected(p_values: list[Any], judged: list[bool], correction: str) -> list[float | None]:
    """Correct the p-values that are judged; None for the others."""
    used = [judge and p is not None for p, judge in zip(p_values, judged, strict=True)]
    found = iter(adjusted([p for p, use in zip(p_values, used, strict=True) if use], correction))
    return [next(found) if use else None for use in used]


def _corrected_once(
    keys: list[tuple[str, str]], p_values: list[Any], judged: list[bool], correction: str
) -> list[float | None]:
    """Correct p-values, of which the two of a pair of groups, each the rest of the other, are one."""
    sizes = Counter(attribute for attribute, _ in keys)
    names = [key[:1] if sizes[key[0]] == 2 else key for key in keys]
    first = [names.index(name) for name in names]
    used = [judge and k == at for k, (judge, at) in enumerate(zip(judged, first, strict=True))]
    corrected = _corrected(p_values, used, correction)
    return [corrected[at] if judge else None for at, judge in zip(first, judged, strict=True)]


def _concluded(row: DriftedGroup, judged: bool, alpha: float) -> DriftedGroup:
    if not judged:
        return replace(row, finding=TOO_FEW)
    if row.p_disparity is not None and row.p_disparity < alpha:
        worse = _distance(row.odds_ratio) > _distance(row.odds_ratio_before)
        return replace(row, finding=WIDER if worse else NARROWER, worse=worse)
    return replace(row, finding=RATE if row.p_rate is not None and row.p_rate < alpha else NOTHING)


def _distance(odds: float | None) -> float:
    """Return how far odds are from 1 in their logarithm; infinite or zero odds are infinitely far."""
    return abs(math.log(odds)) if odds else math.inf
