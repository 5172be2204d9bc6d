"""What was tested on people not used in training, and in which words it may be said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fairmargin.notions import NOTIONS, get_notion

__all__ = ["GroupRecord", "Guarantee", "name_positive"]

_LIMITS = "Not covered: other populations, later years, groups not listed."


@dataclass(frozen=True)
class GroupRecord:
    """People of one group on whom a classifier was tested, and how many of them it accepts.

    ``rate`` is the weighted share of those accepted, where people have weights that differ; otherwise None. Of a
    notion that counts other decisions (errors), ``accepted`` is their number; ``among`` is the condition under which
    people count, where there are several.
    """

    attribute: str
    group: str
    people: int
    accepted: int
    rate: float | None = None
    among: str = ""


@dataclass(frozen=True)
class Guarantee:
    """A p%-rule for people not seen yet.

    With probability at least ``confidence`` over the draw of the people tested (independent draws within groups,
    untouched in training unless cross-fitted), either nothing is returned or the rule of every listed group is at
    least ``p`` in the population they were drawn from. Only ``p`` is covered: the rates on the people tested are
    those of a selected classifier.

    Attributes
    ----------
    p : float
        In percent.
    confidence : float
    kind : {"exact", "asymptotic", "cross-fitted"}
        Whether the statement holds for every number of people, or approximately for many, as with
        ``"cross-fitted"``: there those tested also trained the classifier, and were decided in the test by others
        like it, each trained without the people it decided.
    method : {"one_vs_rest", "between_groups"}
        How groups are compared, as in :func:`fairmargin.p_rule`.
    notion : str
        Which people count when groups are compared.
    people : int
        Number of people tested, of all groups; if cross-fitted, they trained the classifier, too.
    groups : tuple of GroupRecord
    candidates : int
        Number of classifiers tested, one after the other, up to the first that failed.
    seed : int or None
        That drew the people set aside; None where the caller did.
    positive : str or None
        The label of the positive decision; None where it is 1 or True.

    See Also
    --------
    certify : Returns one.

    Examples
    --------
    >>> groups = (GroupRecord("sex", "f", 500, 200), GroupRecord("sex", "m", 500, 210))
    >>> Guarantee(80.0, 0.95, "exact", "one_vs_rest", "selection_rate", 1000, groups).statement[:73]
    'Tested on 1,000 people not used in training: with 95% confidence people w'
    """

    p: float
    confidence: float
    kind: str
    method: str
    notion: str
    people: int
    groups: tuple[GroupRecord, ...]
    candidates: int = 1
    seed: int | None = None
    positive: str | None = None

    def __str__(self) -> str:
        return self.statement

    @property
    def statement(self) -> str:
        """The guarantee in words for readers."""
        how = "" if self.kind == "exact" else " (by a method that is exact only for many people)"
        whom = "" if self.positive is None else f", accepting being the decision {self.positive!r}"
        sure = f"with {100 * self.confidence:.4g}% confidence"
        return f"Tested {self._tested_on()}{how}{whom}: {sure} {self._compared()}. {_LIMITS}"

    def _tested_on(self) -> str:
        if self.kind != "cross-fitted":
            return f"on {self.people:,} people not used in training"
        return (
            f"by cross-fitting on the {self.people:,} people used in training, each decided by a similar classifier "
            "trained without them"
        )

    def _compared(self) -> str:
        parts = []
        for name in dict.fromkeys(g.attribute for g in self.groups):
            groups = list(dict.fromkeys(g.group for g in self.groups if g.attribute == name))
            rate = f"{self._event()} at least {self.p:g}% as often as"
            if len(groups) == 2:
                parts.append(f"people with {name} = {groups[0]} {rate} those with {groups[1]}")
            else:
                listed = ", ".join(groups)
                whom = "each other" if self.method == "between_groups" else "everybody else"
                parts.append(f"people of each {name} ({listed}) {rate} {whom}")
        among = list(dict.fromkeys(g.among for g in self.groups if g.among))
        within = f" (each among {', '.join(among)})" if among else ""
        return "; ".join(f"{part}, and conversely" for part in parts) + within

    def _event(self) -> str:
        """What happens to people, in words."""
        event = get_notion(self.notion).event if self.notion in NOTIONS else ""
        return event or f"count by {self.notion.replace('_', ' ')}"


def name_positive(label: Any) -> str | None:
    """Return the label of the positive decision in words; None for 1 and True, which need none."""
    return None if not isinstance(label, str) and label == 1 else str(label)
