"""What a verdict is about: the rules that were asked for or, where none was, the usual one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fairmargin.constraints import CovarianceBound, PRuleBound
from fairmargin.formulations.prule.rule import rates_in_words
from fairmargin.guarantee.record import Guarantee
from fairmargin.notions import Notion, get_notion
from fairmargin.report.difference_verdict import judge_differences
from fairmargin.report.verdict import judge, tested_verdict
from fairmargin.several import Several, as_constraint, judged_constraints, main_constraint, notion_of

__all__ = ["USUAL", "Asked", "asked_by"]

USUAL = 80.0  # the four-fifths rule, by which decisions are screened unless another rule was asked for


@dataclass(frozen=True)
class Asked:
    """What a verdict is about.

    Attributes
    ----------
    kind : {"p-rule", "difference", "covariance"}
    value : float
        The p%-rule in percent or the largest difference of rates, a share. Of a bound on covariances, the p%-rule
        that decisions are screened by beside it.
    notion : Notion
        Whose rates are compared; by default selection rates.
    bound : CovarianceBound, optional
        For "covariance".
    requested : bool
        Whether the model was trained for this rule; if not, it is only the usual one.
    guarantee : Guarantee, optional
        What was tested on the people held out, who thereby selected the model.
    subject : str
        What the model is called at the beginning of a sentence.
    beside : tuple of Asked
        What else was asked for in the same list, to be judged as well. Tables are about the first.
    alone : bool
        Whether it was the only constraint.
    selected : bool
        Whether the people held out chose the model by a test of another rule: then nothing is sure to hold.
    """

    kind: str = "p-rule"
    value: float = USUAL
    notion: Notion = field(default_factory=lambda: get_notion("selection_rate"))
    bound: CovarianceBound | None = None
    requested: bool = True
    guarantee: Guarantee | None = None
    subject: str = "The proposed model"
    beside: tuple[Asked, ...] = ()
    alone: bool = True
    selected: bool = False

    @property
    def rules(self) -> tuple[Asked, ...]:
        """All that is judged, this one first."""
        return self, *(replace(other, subject=self.subject) for other in self.beside)

    @property
    def name(self) -> str:
        """What it is called, to follow "the"."""
        rates = rates_in_words(self.notion)
        if self.kind == "difference":
            return f"limit of {100 * self.value:g} points on differences of {rates or 'selection rates'}"
        if self.bound is not None:
            return f"{_limit_of(self.bound)} on covariances{f' by {rates}' if rates else ''}"
        return f"{self.value:g}%-rule{f' of the {self.notion.rate}' if rates else ''}"

    @property
    def threshold(self) -> float:
        """The ratio of rates, in percent, below which tables point a group out."""
        return self.value if self.kind == "p-rule" and self.value > 0 else USUAL

    def judge(self, audited: Mapping[str, Any], held_out: bool) -> dict[str, Any]:
        """Return the verdict on an audit (plain data) by the notion."""
        said: dict[str, Any] = {"subject": self.subject, "selected": self.selected}
        if self.kind == "difference":
            return judge_differences(audited, limit=self.value, held_out=held_out, **said)
        requested = self.requested and self.kind == "p-rule"
        found = judge(audited, asked=self.value, held_out=held_out, requested=requested, **said)
        if self.guarantee is None:
            return found
        return tested_verdict(found, audited, self.guarantee, self.subject, alone=self.alone)


def asked_by(constraint: Any, tested: Guarantee | None = None) -> Asked:
    """Return what a verdict on a constraint, or on a list, is about, whatever the order of the list.

    Parameters
    ----------
    constraint : Constraint, list of Constraint, or None
    tested : Guarantee, optional
        What was tested on the people held out; the tested rule is the first one judged.
    """
    judged = judged_constraints(constraint)
    if not judged:
        return Asked(notion=notion_of(main_constraint(constraint)), requested=False)
    alone = not isinstance(as_constraint(constraint), Several)
    selected = tested is not None and tested.candidates > 1
    beside = tuple(replace(_one(other), selected=selected) for other in judged[1:])
    return replace(_one(judged[0]), guarantee=tested, beside=beside, alone=alone)


def _one(judged: PRuleBound | CovarianceBound) -> Asked:
    notion = get_notion(judged.notion)
    if isinstance(judged, CovarianceBound):
        return Asked("covariance", notion=notion, bound=judged)
    if judged.difference is not None:
        return Asked("difference", float(judged.difference), notion)
    assert judged.p is not None  # one of the two is given
    return Asked("p-rule", float(judged.p), notion)


def _limit_of(bound: CovarianceBound) -> str:
    if isinstance(bound.c, Mapping):
        share, unit = (100, "%") if bound.relative else (1, "")
        return "bound of " + ", ".join(f"{share * c:g}{unit} for {name}" for name, c in bound.c.items())
    return f"bound of {100 * bound.c:g}%" if bound.relative else f"bound of {bound.c:g}"
