"""What a verdict is about: the rule that was asked for or, where none was, the usual one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fairmargin.constraints import CovarianceBound
from fairmargin.guarantee.record import Guarantee
from fairmargin.notions import Notion, get_notion
from fairmargin.report.difference_verdict import judge_differences
from fairmargin.report.verdict import judge, tested_verdict

__all__ = ["USUAL", "Asked"]

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
    """

    kind: str = "p-rule"
    value: float = USUAL
    notion: Notion = field(default_factory=lambda: get_notion("selection_rate"))
    bound: CovarianceBound | None = None
    requested: bool = True
    guarantee: Guarantee | None = None
    subject: str = "The proposed model"

    @property
    def threshold(self) -> float:
        """The ratio of rates, in percent, below which tables point a group out."""
        return self.value if self.kind == "p-rule" and self.value > 0 else USUAL

    def judge(self, audited: Mapping[str, Any], held_out: bool) -> dict[str, Any]:
        """Return the verdict on an audit (plain data) by the notion."""
        if self.kind == "difference":
            return judge_differences(audited, limit=self.value, held_out=held_out, subject=self.subject)
        requested = self.requested and self.kind == "p-rule"
        found = judge(audited, asked=self.value, held_out=held_out, requested=requested, subject=self.subject)
        return found if self.guarantee is None else tested_verdict(found, self.guarantee, self.subject)
