"""Choose k people, or rank them, from any scores under bounds on the groups' shares.

**Sets.** Choose k people of the largest total score such that every group's number is within bounds: shares of the
k, or a p%-rule between selection rates. With one attribute whose groups are bounded one by one, the sets allowed are
the bases of a matroid, so that the greedy choice is exact: the best of every group up to its lower bound, then the
best of what is left below the upper bounds. It depends on the order of the scores alone. Several attributes, or
rates compared in pairs, are an integer linear program over the best k of every cell (combination of groups), solved
by HiGHS.

**Rankings.** Lower bounds at every prefix, ``n_g(j) >= floor(share_g j)``. Place by place, the best person is taken
after whom the bounds can still be kept. Every prefix of it has the largest total score that is possible at that
length, so that it is best for every discount that falls with the place (DCG among them).

Of equal scores the person who comes first in the data is preferred; between cells of an integer program the solver
decides, the same each time.

References: Celis, Straszak and Vishnoi, Ranking with fairness constraints, ICALP 2018; Edmonds, Matroids and the
greedy algorithm, 1971.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp

from fairmargin.decisions import RULES
from fairmargin.exceptions import InfeasibleError
from fairmargin.formatting import with_article
from fairmargin.inputs import check_container, check_same_order
from fairmargin.sensitive import encode_sensitive
from fairmargin.tolerances import HAIR
from fairmargin.validation import check_count, check_number

__all__ = ["Ranking", "Selection", "fair_ranking", "fair_top_k"]

Array = NDArray[np.float64]
Index = NDArray[np.intp]


@dataclass(frozen=True)
class _Groups:
    """One attribute: ``codes`` (n,) index ``categories``."""

    name: str
    categories: tuple[Any, ...]
    codes: Index

    @property
    def sizes(self) -> Index:
        """Number of people of each group, (G,)."""
        return np.bincount(self.codes, minlength=len(self.categories))


@dataclass(frozen=True)
class Selection:
    """The people chosen, and what the bounds cost.

    Attributes
    ----------
    chosen : (k,) of int
        Rows of the people chosen, the highest score first.
    total, unconstrained_total : float
        Sum of the scores of the people chosen, and of the k highest scores.
    promoted, displaced : ndarray of int
        Rows that are chosen and not among the k highest, and the other way round.
    table : pandas.DataFrame
        For every group: people, the number chosen, its share of the k, its selection rate, the numbers it is bounded
        by (nan in ``most`` and ``least`` where only rates in pairs are bounded) and the number among the k highest.
    """

    chosen: Index
    total: float
    unconstrained_total: float
    promoted: Index
    displaced: Index
    table: pd.DataFrame

    @property
    def price(self) -> float:
        """The score given up: ``unconstrained_total - total``."""
        return self.unconstrained_total - self.total


@dataclass(frozen=True)
class Ranking:
    """An order of people whose every prefix keeps the bounds.

    Attributes
    ----------
    order : (length,) of int
        Rows, the first place first.
    prices : (length,)
        Score given up by each prefix: the sum of its highest scores less the sum of its own.
    counts : pandas.DataFrame
        Number of people of every bounded group in each prefix; rows are lengths from 1.
    """

    order: Index
    prices: Array
    counts: pd.DataFrame


def fair_top_k(
    scores: Any,
    k: int,
    *,
    sensitive_features: Any,
    at_least: Mapping[str, Mapping[Any, float]] | None = None,
    at_most: Mapping[str, Mapping[Any, float]] | None = None,
    p_rule: float | None = None,
    method: str = "one_vs_rest",
) -> Selection:
    """Choose k people of the largest total score under bounds on the groups.

    Parameters
    ----------
    scores : array of shape (n,)
        Any scores; higher is better.
    k : int
        How many to choose.
    sensitive_features : array, series or frame of shape (n,) or (n, m)
        Groups; never numeric.
    at_least, at_most : mapping from attribute to mapping from group to share, optional
        Bounds on groups' shares of the k people, e.g. ``{"sex": {"Female": 0.4}}``. Numbers of people are rounded
        into the bound: 0.4 of 7 is at least 3 people, and at most 2.
    p_rule : float, optional
        In percent: selection rates of the groups of every attribute keep a p%-rule, as :func:`fairmargin.p_rule`
        measures it.
    method : {"one_vs_rest", "between_groups"}, default="one_vs_rest"
        What the p%-rule compares: each group with everybody else, or all pairs of groups.

    Returns
    -------
    Selection

    Raises
    ------
    InfeasibleError
        Where no k people keep the bounds; the message says why.

    See Also
    --------
    fair_ranking : Orders people such that every prefix is fair.

    Examples
    --------
    >>> chosen = fair_top_k([9, 8, 7, 3, 2, 1], 3, sensitive_features=list("mmmfff"),
    ...                     at_least={"sensitive": {"f": 0.3}})
    >>> chosen.chosen.tolist(), chosen.price
    ([0, 1, 3], 4.0)
    """
    values, attributes = _read(scores, sensitive_features)
    k = check_count(k, "k")
    if k > len(values):
        raise ValueError(f"k={k} people are to be chosen, but there are {len(values)}.")
    if method not in RULES:
        raise ValueError(f"method must be one of {', '.join(map(repr, RULES))}, got {method!r}.")
    asked = _check_shares(at_least, attributes, "at_least"), _check_shares(at_most, attributes, "at_most")
    ratio = None if p_rule is None else _check_percentage(p_rule) / 100.0
    limits = [_limits(a, k, *asked, ratio if method == "one_vs_rest" else None) for a in attributes]
    for attribute, (least, most) in zip(attributes, limits, strict=True):
        _check_alone(attribute, k, least, most)
    pairs = ratio if method == "between_groups" else None
    bounded = [j for j, limit in enumerate(limits) if _is_bounding(attributes[j], k, *limit)]
    if pairs is None and len(bounded) <= 1:
        j = bounded[0] if bounded else 0
        chosen = _greedy(values, attributes[j].codes, *limits[j], k)
    else:
        chosen = _program(values, attributes, limits, k, pairs)
    return _selection(values, chosen, attributes, limits, k)


def fair_ranking(
    scores: Any,
    *,
    sensitive_features: Any,
    at_least: Mapping[str, Mapping[Any, float]],
    length: int | None = None,
) -> Ranking:
    """Rank people by score such that every prefix has its share of the groups named.

    Parameters
    ----------
    scores : array of shape (n,)
        Any scores; higher is better.
    sensitive_features : array, series or frame of shape (n,) or (n, m)
    at_least : mapping from attribute to mapping from group to share
        Of one attribute: every prefix of ``j`` people has at least ``floor(share j)`` of the group, as long as there
        are people of it left.
    length : int, optional
        Number of places; everybody by default.

    Returns
    -------
    Ranking

    See Also
    --------
    fair_top_k : Chooses people without an order.

    Examples
    --------
    >>> half = {"sensitive": {"f": 0.5}}
    >>> ranking = fair_ranking([9, 8, 7, 3, 2, 1], sensitive_features=list("mmmfff"), at_least=half)
    >>> ranking.order.tolist()
    [0, 3, 1, 4, 2, 5]
    """
    values, attributes = _read(scores, sensitive_features)
    shares = _check_shares(at_least, attributes, "at_least")
    if len(shares) != 1:
        raise ValueError("A ranking takes bounds on the groups of one attribute; at_least must name exactly one.")
    attribute = next(a for a in attributes if a.name in shares)
    length = len(values) if length is None else check_count(length, "length")
    if length > len(values):
        raise ValueError(f"length={length} places are to be filled, but there are {len(values)} people.")
    wanted = np.array([shares[attribute.name].get(c, 0.0) for c in attribute.categories])
    if wanted.sum() > 1 + HAIR:
        raise InfeasibleError(
            f"The shares of {attribute.name!r} add up to {wanted.sum():.3g}, more than 1; no prefix can have them."
        )
    demands = np.floor(np.outer(np.arange(length + 1), wanted) + HAIR)
    demands = np.minimum(demands, attribute.sizes)
    order = _place(values, attribute.codes, demands)
    best = np.sort(values)[::-1][:length]
    counts = np.cumsum(attribute.codes[order][:, None] == np.arange(len(wanted)), axis=0)
    named = [c for c, share in zip(attribute.categories, wanted, strict=True) if share > 0]
    frame = pd.DataFrame(counts, index=np.arange(1, length + 1), columns=pd.Index(attribute.categories, name="group"))
    return Ranking(order, np.cumsum(best) - np.cumsum(values[order]), frame[named])


def _read(scores: Any, sensitive_features: Any) -> tuple[Array, list[_Groups]]:
    """Return scores and attributes, all of groups that are known."""
    check_container(scores, "scores")
    check_same_order(scores=scores, sensitive_features=sensitive_features)
    values = np.asarray(scores, dtype=float)
    if values.ndim != 1 or not len(values):
        raise ValueError(f"scores must hold one number per person, got an array of shape {values.shape}.")
    if not np.all(np.isfinite(values)):
        raise ValueError("scores has nan or infinite values; there is no order of them.")
    attributes = []
    for attribute in encode_sensitive(sensitive_features, len(values), groups=False).attributes:
        if attribute.codes is None:
            kind = "numeric" if attribute.is_numeric else "known as probabilities only"
            raise ValueError(f"The sensitive attribute {attribute.name!r} is {kind}; a selection needs groups.")
        attributes.append(_Groups(attribute.name, attribute.categories, attribute.codes))
    return values, attributes


def _check_shares(given: Any, attributes: list[_Groups], what: str) -> dict[str, dict[Any, float]]:
    """Return the shares asked for by attribute and group, checked."""
    if given is None:
        return {}
    by_name = {a.name: a for a in attributes}
    if not isinstance(given, Mapping) or not all(isinstance(v, Mapping) for v in given.values()):
        raise ValueError(f"{what} must map attributes to mappings from group to share, got {given!r}.")
    for name, groups in given.items():
        if name not in by_name:
            known = ", ".join(map(repr, by_name))
            raise ValueError(f"{what} names the attribute {name!r}; the known ones are {known}.")
        for group, share in groups.items():
            if group not in by_name[name].categories:
                known = ", ".join(map(repr, by_name[name].categories))
                raise ValueError(f"{what} names the group {group!r} of {name!r}; the known ones are {known}.")
            if not 0 <= check_number(share, f"{what} of {group!r}") <= 1:
                raise ValueError(f"{what} of {group!r} is a share between 0 and 1, got {share!r}.")
    return {name: dict(groups) for name, groups in given.items()}


def _check_percentage(p_rule: Any) -> float:
    value = check_number(p_rule, "p_rule")
    if not 0 <= value <= 100:
        raise ValueError(f"p_rule is in percent, between 0 and 100, got {p_rule!r}.")
    if 0 < value <= 1:
        raise ValueError(f"p_rule is in percent; did you mean {100 * value:g}?")
    return value


def _limits(
    attribute: _Groups, k: int, at_least: dict[str, Any], at_most: dict[str, Any], ratio: float | None
) -> tuple[Array, Array]:
    """Return the least and the largest number of every group, (G,) each."""
    sizes = attribute.sizes.astype(float)
    low, high = at_least.get(attribute.name, {}), at_most.get(attribute.name, {})
    least = np.array([np.ceil(low.get(c, 0.0) * k - HAIR) for c in attribute.categories])
    most = np.array([np.floor(high.get(c, 1.0) * k + HAIR) for c in attribute.categories])
    if ratio is not None and len(sizes) > 1:
        # n/s >= ratio (k - n)/(N - s), and the other way round: bounds on n alone.
        others = sizes.sum() - sizes
        least = np.maximum(least, np.ceil(ratio * k * sizes / (others + ratio * sizes) - HAIR))
        most = np.minimum(most, np.floor(k * sizes / (sizes + ratio * others) + HAIR))
    return least, np.minimum(most, sizes)


def _check_alone(attribute: _Groups, k: int, least: Array, most: Array) -> None:
    """Raise where the bounds on one attribute cannot be kept, and say which."""
    for category, low, high in zip(attribute.categories, least, most, strict=True):
        if low > high:
            raise InfeasibleError(
                f"Of {k} people at least {low:.0f} must have {attribute.name}={category!r}, and at most {high:.0f} "
                "can: lower the bound or choose another k."
            )
    if least.sum() > k:
        raise InfeasibleError(
            f"The lower bounds on the groups of {attribute.name!r} add up to {least.sum():.0f} people, more than "
            f"k={k}."
        )
    if most.sum() < k:
        raise InfeasibleError(
            f"The upper bounds on the groups of {attribute.name!r} add up to {most.sum():.0f} people, fewer than "
            f"k={k}."
        )


def _is_bounding(attribute: _Groups, k: int, least: Array, most: Array) -> bool:
    return bool(np.any(least > 0) or np.any(most < np.minimum(attribute.sizes, k)))


def _greedy(values: Array, codes: Index, least: Array, most: Array, k: int) -> Index:
    """Return the rows chosen: the best of every group up to its lower bound, then the best below the upper bounds."""
    order = np.argsort(-values, kind="stable")
    place = _places_within(codes[order])
    must = place < least[codes[order]]
    may = (place < most[codes[order]]) & ~must
    rest = np.flatnonzero(may)[: k - int(must.sum())]
    return order[np.sort(np.concatenate([np.flatnonzero(must), rest]))]


def _places_within(codes: Index) -> Index:
    """Return how many of the same code come before each entry."""
    order = np.argsort(codes, kind="stable")
    sizes = np.bincount(codes)
    places = np.empty(len(codes), dtype=np.intp)
    places[order] = np.arange(len(codes)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return places


def _program(
    values: Array, attributes: list[_Groups], limits: list[tuple[Array, Array]], k: int, ratio: float | None
) -> Index:
    """Return the rows chosen by an integer linear program over the best k of every cell."""
    crossed = np.column_stack([a.codes for a in attributes])
    cells = np.unique(crossed, axis=0, return_inverse=True)[1].ravel().astype(np.intp)
    order = np.argsort(-values, kind="stable")
    kept = order[_places_within(cells[order]) < k]
    rows, lower, upper = [np.ones(len(kept))], [float(k)], [float(k)]
    for attribute, (least, most) in zip(attributes, limits, strict=True):
        members = attribute.codes[kept] == np.arange(len(least))[:, None]
        rows += list(members.astype(float))
        lower, upper = [*lower, *least], [*upper, *most]
        if ratio is not None:
            sizes = attribute.sizes
            for g in range(len(least)):
                for h in range(len(least)):
                    if g != h:
                        rows.append(members[g] * sizes[h] - ratio * members[h] * sizes[g])
                        lower, upper = [*lower, -HAIR], [*upper, np.inf]
    # Scores of order one: HiGHS stops at absolute gaps.
    spread = max(float(np.ptp(values[kept])), np.finfo(float).tiny)
    found = milp(
        -(values[kept] - values[kept].min()) / spread,
        constraints=LinearConstraint(np.array(rows), np.array(lower), np.array(upper)),
        integrality=np.ones(len(kept)),
        bounds=Bounds(0, 1),
        options={"mip_rel_gap": 0.0},
    )
    if found.status == 2:
        raise InfeasibleError(
            f"No {k} people keep all bounds on {', '.join(repr(a.name) for a in attributes)} together; those on each "
            "attribute alone can be kept. Loosen one of them."
            if ratio is None or len(attributes) > 1
            else f"No {k} people of {attributes[0].name!r} keep {with_article(f'{100 * ratio:g}%-rule')} between all "
            "pairs of groups within the other bounds; choose another k, or a lower one."
        )
    if found.x is None:
        raise RuntimeError(f"HiGHS found no selection: {found.message}")
    # Only how many of each cell are chosen matters: the best of them are, the first in the data of equal ones.
    numbers = np.bincount(cells[kept], weights=np.round(found.x), minlength=cells.max() + 1)
    return kept[_places_within(cells[kept]) < numbers[cells[kept]]]


def _place(values: Array, codes: Index, demands: Array) -> Index:
    """Return the order in which people are placed, given the least number of each group by prefix, (length + 1,
    G)."""
    length, n_groups = len(demands) - 1, demands.shape[1]
    queues = [np.flatnonzero(codes == g)[np.argsort(-values[codes == g], kind="stable")] for g in range(n_groups)]
    taken = np.zeros(n_groups, dtype=np.intp)
    order = np.empty(length, dtype=np.intp)
    for j in range(length):
        # Places left before each later prefix, less those that its demands take: none spare binds the next place.
        missing = np.maximum(demands[j + 1 :] - taken, 0.0)
        is_tight = missing.sum(axis=1) >= np.arange(1, length - j + 1)
        allowed = np.ones(n_groups, dtype=bool)
        if np.any(is_tight):
            allowed = np.all(missing[is_tight] > 0, axis=0)
        heads = [(-values[q[t]], q[t], g) for g, (q, t) in enumerate(zip(queues, taken, strict=True)) if t < len(q)]
        _, row, g = min(head for head in heads if allowed[head[2]])
        order[j], taken[g] = row, taken[g] + 1
    return order


def _selection(
    values: Array, chosen: Index, attributes: list[_Groups], limits: list[tuple[Array, Array]], k: int
) -> Selection:
    """Return the people chosen with what is to be known of them."""
    best = np.argsort(-values, kind="stable")[:k]
    chosen = chosen[np.lexsort((chosen, -values[chosen]))]
    rows = []
    for attribute, (least, most) in zip(attributes, limits, strict=True):
        for g, category in enumerate(attribute.categories):
            people = int(np.sum(attribute.codes == g))
            number = int(np.sum(attribute.codes[chosen] == g))
            before = int(np.sum(attribute.codes[best] == g))
            rows.append(
                {
                    "attribute": attribute.name,
                    "group": category,
                    "people": people,
                    "chosen": number,
                    "share": number / k,
                    "rate": number / people,
                    "least": int(least[g]),
                    "most": int(most[g]),
                    "unconstrained": before,
                }
            )
    table = pd.DataFrame(rows).set_index(["attribute", "group"])
    promoted, displaced = np.setdiff1d(chosen, best), np.setdiff1d(best, chosen)
    return Selection(chosen, float(values[chosen].sum()), float(values[best].sum()), promoted, displaced, table)
