"""The search for a less discriminatory alternative, on record: every candidate, the one proposed, and why not others.

Candidates are judged on the people trained on; those held out have no part in the choice, so that
measurements on them are of a classifier that they did not help to choose.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairmargin.formatting import percent, ratio_beside
from fairmargin.notions import get_notion

__all__ = ["Candidate", "Selection", "record_of"]

# What a bounded measure is called, and the key of its value in what is known of a candidate.
BOUNDED = {"loss": "training loss", "accuracy": "accuracy", "auc": "AUC", "profit": "mean gain"}
_MEASURED = ("accuracy", "auc", "ks", "p_rule", "p_rule_low", "p_rule_high", "smd", "gain")
_TIED = 1e-9  # measures that differ by less are equal up to rounding


@dataclass(frozen=True)
class Candidate:
    """A classifier that was looked at, or a question without an answer.

    Attributes
    ----------
    key : str
        By which it is known in a report.
    origin : {"rule", "covariance", "answer"}
        The frontier of the p%-rule, the exact frontier of least loss, or the answer to a question of its own.
    label : str
        What it is, in words.
    classifier : fitted classifier or None
    remark : str
        Describes the classifier or, where there is none, says why.
    facts : mapping
        Its place: ``level`` or ``factor``.
    row : row of a frontier's table, optional
    """

    key: str
    origin: str
    label: str
    classifier: Any
    remark: str = ""
    facts: Mapping[str, Any] | None = None
    row: Any = None


@dataclass(frozen=True)
class Selection:
    """Which candidate is proposed.

    ``kind="p-rule"``: the most accurate one that reaches a p%-rule of ``value`` percent. The other kinds: the one
    with the highest p%-rule whose training loss, accuracy, AUC or mean gain is within the share ``value`` of that of
    the unconstrained classifier (``"loss"``, ``"accuracy"``, ``"auc"``, ``"profit"``; the last with ``gains`` per
    decision, see :func:`fairmargin.decisions.mean_gain`). The p%-rule is that of the rates of ``notion``.
    """

    kind: str = "p-rule"
    value: float = 80.0
    gains: Mapping[str, float] | None = None
    notion: str = "selection_rate"

    def __post_init__(self) -> None:
        if self.kind not in ("p-rule", *BOUNDED):
            raise ValueError(f"kind must be 'p-rule', {', '.join(map(repr, BOUNDED))}, got {self.kind!r}.")
        get_notion(self.notion)
        if not math.isfinite(self.value) or self.value < 0 or (self.kind == "p-rule" and self.value > 100):
            raise ValueError(f"{self.kind} takes {self._takes}, got {self.value!r}.")
        if (self.kind == "profit") != (self.gains is not None):
            raise ValueError("A bound on the profit needs what decisions are worth (gains), and nothing else does.")

    @property
    def _takes(self) -> str:
        return "a percentage from 0 to 100" if self.kind == "p-rule" else "a share from 0 on"

    @property
    def words(self) -> str:
        """What is asked for."""
        if self.kind == "p-rule":
            least = f"{self._rule_words} of at least {self.value:g}%"
            return f"the most accurate candidate with a {least} on the people trained on"
        bounded = f"{BOUNDED[self.kind]} is at most {percent(self.value, 2)} worse than without a limit"
        return f"the candidate with the highest {self._rule_words} whose {bounded} on the people trained on"

    @property
    def _rule_words(self) -> str:
        if self.notion == "selection_rate":
            return "p%-rule"
        return f"p%-rule of the {get_notion(self.notion).rate}"

    @property
    def asked(self) -> float:
        """The p%-rule that the verdict is about."""
        return self.value if self.kind == "p-rule" else 80.0

    def choose(self, rows: Sequence[Mapping[str, Any]], free: Mapping[str, Any], people: int) -> int:
        """Return the index of the candidate to propose: of those allowed the best.

        Of equal ones that with the level asked for, if there is one, else the first. Where the unconstrained
        classifier is allowed and no less accurate than the best but for one standard error, it is proposed: what the
        search gained on the people trained on is then no more than chance gives to the best of many. Where none is
        allowed, the one with the highest p%-rule that does not decide the same for everybody. ``people`` is how many
        were trained on.
        """
        useful = [k for k, row in enumerate(rows) if row["train"]["decides_alike"] is None] or list(range(len(rows)))
        allowed = [k for k in useful if self.allows(rows[k], free)]
        if allowed:
            best = max(allowed, key=lambda k: (*self._merit(rows[k]), rows[k]["level"] == self.asked, -k))
            unlimited = [k for k in allowed if self.is_unlimited(rows[k])]
            as_good = [k for k in unlimited if _within_chance(rows[k], rows[best], people)]
            return as_good[0] if as_good else best
        return max(useful, key=lambda k: (_rule(rows[k]), -k))

    def is_unlimited(self, row: Mapping[str, Any]) -> bool:
        """Whether a candidate is the unconstrained classifier, and a rule is asked for that it may keep."""
        return self.kind == "p-rule" and row["factor"] == 1.0

    def describe(self, row: Mapping[str, Any]) -> str:
        """Return what is asked for and, where the unconstrained classifier is proposed, why."""
        if not self.is_unlimited(row) or not self.allows(row, row):
            return self.words
        return (
            f"the model without a limit, which reaches a {self._rule_words} of at least {self.value:g}% on the "
            "people trained on; no candidate that does is more accurate there by more than one standard error"
        )

    def allows(self, row: Mapping[str, Any], free: Mapping[str, Any]) -> bool:
        """Whether a candidate meets what is asked for."""
        if self.kind == "p-rule":
            return _rule(row) >= self.value
        return self._spent(row, free) <= self.value + _TIED

    def why_not(self, row: Mapping[str, Any], chosen: Mapping[str, Any], free: Mapping[str, Any]) -> str:
        """Return why a candidate is not the one chosen."""
        if row["train"]["decides_alike"] is not None:
            alike = f"{row['train']['decides_alike']} everybody"
            return alike if chosen["train"]["decides_alike"] is None else f"{alike}, as all that were found do"
        if not self.allows(row, free):
            if self.kind == "p-rule":
                return f"reaches {ratio_beside(_rule(row), self.value)}, not {self.value:g}%"
            spent, most = percent(self._spent(row, free), 2), percent(self.value, 2)
            return f"{BOUNDED[self.kind]} worse by {spent}, more than {most}"
        here, best = self._merit(row), self._merit(chosen)
        if _tied(here[0], best[0]) and _tied(here[1], best[1]):
            return "decides as well; one of equal ones is proposed"
        if self.kind == "p-rule" and here[0] > best[0]:
            return f"more accurate by less than a standard error: {percent(here[0], 2)} against {percent(best[0], 2)}"
        if self.kind == "p-rule" and not _tied(here[0], best[0]):
            return f"less accurate: {percent(here[0], 2)} against {percent(best[0], 2)}"
        if self.kind == "p-rule" and here[1] > best[1]:
            return "no more accurate than the model without a limit"
        if self.kind == "p-rule":
            return f"as accurate, with a lower p%-rule: {self._against(here[1], best[1])}"
        if not _tied(here[0], best[0]):
            return f"lower p%-rule: {self._against(here[0], best[0])}"
        return f"same p%-rule, less accurate: {percent(here[1], 2)} against {percent(best[1], 2)}"

    def _against(self, here: float, best: float) -> str:
        return f"{ratio_beside(here, self.asked, best)} against {ratio_beside(best, self.asked, here)}"

    def _merit(self, row: Mapping[str, Any]) -> tuple[float, float, float]:
        """Return what is to be highest, and what decides between equal ones; rounded so that rounding does not."""
        accuracy, rule = round(row["train"]["accuracy"], 12), round(_rule(row), 9)
        loss = -round(row["loss_increase"] or 0.0, 9)
        return (accuracy, rule, loss) if self.kind == "p-rule" else (rule, accuracy, loss)

    def _spent(self, row: Mapping[str, Any], free: Mapping[str, Any]) -> float:
        """Return how much worse the bounded measure is than without a constraint, as a share of it."""
        if self.kind == "loss":
            return float(row["loss_increase"])
        key = {"accuracy": "accuracy", "auc": "auc", "profit": "gain"}[self.kind]
        best, here = free["train"][key], row["train"][key]
        if best is None or here is None:
            return math.inf
        return (best - here) / abs(best) if best else float(here < best)


def _rule(row: Mapping[str, Any]) -> float:
    found = row["train"]["p_rule"]
    return -1.0 if found is None else float(found)


def _within_chance(row: Mapping[str, Any], best: Mapping[str, Any], people: int) -> bool:
    """Whether a candidate's training accuracy is within one standard error of the best one's."""
    accuracy = best["train"]["accuracy"]
    return bool(accuracy - row["train"]["accuracy"] <= math.sqrt(accuracy * (1.0 - accuracy) / people))


def _tied(a: float, b: float) -> bool:
    return abs(a - b) <= _TIED


def record_of(
    names: Sequence[Mapping[str, str]],
    rows: Sequence[Mapping[str, Any]],
    chosen: int,
    selection: Selection,
    free: Mapping[str, Any],
) -> list[dict[str, Any]]:
    """Return every candidate with its measures and, unless it is proposed, why not.

    ``names`` have ``key``, ``origin`` and ``label`` of each; ``rows`` what is known of it.
    """
    record = []
    for k, (name, row) in enumerate(zip(names, rows, strict=True)):
        train, test = row["train"], row["test"]
        same = k != chosen and _same(row, rows[chosen])
        why = "proposed" if k == chosen else "the same classifier as the one proposed" if same else ""
        record.append(
            {
                **name,
                "chosen": k == chosen,
                "train_accuracy": train["accuracy"],
                "train_p_rule": train["p_rule"],
                **{key: test[key] for key in _MEASURED},
                "loss_increase": row["loss_increase"],
                "proof": row["proof"]["label"],
                "why": why or selection.why_not(row, rows[chosen], free),
            }
        )
    return record


def _same(row: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    keys = ("accuracy", "p_rule", "auc", "gained", "lost")
    return row["certificate"] == other["certificate"] and all(row["train"][k] == other["train"][k] for k in keys)
