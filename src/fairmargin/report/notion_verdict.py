"""The verdict on a rule that is about other rates than selection rates: true positive rates, error rates, ...

The decisions that the notion counts are audited among the people whom it counts; so intervals, findings and groups of
too few people are those of any other verdict. Under several conditions (equalised odds) the worst one decides, and
"fails" is corrected for the groups of all conditions together; "passes" needs no correction, since all must pass.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmargin.audit import audit
from fairmargin.notions import Condition, Notion
from fairmargin.report.asked import Asked
from fairmargin.report.plain import plain
from fairmargin.report.verdict import FAILS, FAILS_MAYBE, NO_VERDICT, PASSES, PASSES_MAYBE
from fairmargin.tables.study import Part, Study

__all__ = ["judge_notion"]

_WORST_FIRST = (FAILS, FAILS_MAYBE, NO_VERDICT, PASSES_MAYBE, PASSES)


def judge_notion(
    asked: Asked, accepted: NDArray[np.bool_], part: Part, study: Study, *, held_out: bool
) -> dict[str, Any]:
    """Return the verdict on decisions by the rates of a notion, as :func:`fairmargin.report.verdict.judge` does.

    Parameters
    ----------
    asked : Asked
        The rule, with its notion.
    accepted : bool array of shape (n,)
        Who gets the positive decision.
    part : Part of n people
    study : Study
        Which sides are compared, and how many people each needs.
    held_out : bool
        Whether the people were held out.
    """
    conditions = _notion_of(asked).conditions(np.where(part.y == 1, 1.0, -1.0))
    found = [_judge(asked, c, accepted, part, study, held_out, len(conditions)) for c in conditions]
    worst = min(found, key=lambda v: (_WORST_FIRST.index(v["status"]), v["margin"] or 0.0))
    groups = "The tables below compare selection rates, which this rule is not about."
    if len(found) == 1:
        return worst | {"for_whom": f"{worst['for_whom']} {groups}".strip()}
    said = " ".join(
        f"Among {c.people}: {v['for_whom'] or v['passes']}" for c, v in zip(conditions, found, strict=True)
    )
    return worst | {"below": [g for v in found for g in v["below"]], "for_whom": f"{said} {groups}"}


def _notion_of(asked: Asked) -> Notion:
    """Return the notion of a rule that has one."""
    assert asked.notion is not None
    return asked.notion


def _judge(
    asked: Asked,
    condition: Condition,
    accepted: NDArray[np.bool_],
    part: Part,
    study: Study,
    held_out: bool,
    conditions: int,
) -> dict[str, Any]:
    counts = condition.counts
    events = condition.events(accepted)[counts]
    of = f"rates among {condition.people}" if condition.name else _notion_of(asked).rate
    if len(events) == 0 or events.all() == events.any():
        return _without_contrast(of, events, asked)
    audited = audit(
        events.astype(int),
        sensitive_features=part.sensitive[counts],
        method=study.method,
        min_people=study.min_people,
    )
    words: dict[str, Any] = {"of": of, "counted": _counted(condition), "conditions": conditions}
    return asked.judge(plain(audited.to_dict()), held_out, **words)


def _counted(condition: Condition) -> str:
    """Return what happens to the people who are counted, in a word."""
    sign = condition.sign[condition.counts]
    if (sign > 0).all():
        return "accepted"
    return "refused" if (sign < 0).all() else "decided wrongly"


def _without_contrast(of: str, events: NDArray[np.bool_], asked: Asked) -> dict[str, Any]:
    """Return what can be said where the rate is 0% or 100% for everybody who counts, or nobody counts."""
    said = "Nobody counts for it." if len(events) == 0 else f"It is {100 if events.all() else 0}% in every group."
    return {
        "status": NO_VERDICT,
        "headline": f"No verdict. There is no {of} to tell groups apart by.",
        "passes": f"{said} That keeps every rule, and says nothing about fairness.",
        "sure": "There is nothing to be sure of.",
        "for_whom": "",
        **{"kind": asked.kind, "asked": asked.value, "requested": True},
        **{"p_rule": None, "low": None, "high": None, "margin": None, "below": []},
    }
