"""One verdict on several rules: as good as that on the worst of them, with all of them named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fairmargin.report.verdict import FAILS, FAILS_MAYBE, NO_VERDICT, PASSES, PASSES_MAYBE

__all__ = ["combine"]

_FROM_WORST = (FAILS, FAILS_MAYBE, NO_VERDICT, PASSES_MAYBE, PASSES)
_BESIDE = {
    PASSES: "The {} holds.",
    PASSES_MAYBE: "The {} holds here, but not beyond doubt.",
    FAILS_MAYBE: "The {} does not hold here, which may be chance.",
    FAILS: "The {} does not hold.",
    NO_VERDICT: "There is no verdict on the {}.",
}


def combine(judged: Sequence[tuple[str, Mapping[str, Any]]]) -> dict[str, Any]:
    """Return the verdict on several rules that must all hold.

    Parameters
    ----------
    judged : sequence of (name, dict)
        What each is called, to follow "the", and the verdict on it alone. Of several as bad, the first leads.

    Returns
    -------
    dict
        As the verdict on the worst, with the others named in its ``headline``, the other sentences of all, and
        ``rules``, the verdicts one by one, each with its ``name``. One verdict is returned as it is.
    """
    if len(judged) == 1:
        return dict(judged[0][1])
    leading = min(judged, key=lambda one: _FROM_WORST.index(one[1]["status"]))[1]
    others = [_beside(name, found) for name, found in judged if not _is_said(found, leading)]
    left = _left_out([found["not_judged"] for _, found in judged])
    whom = _joined([(name, found["for_whom"].removesuffix(found["not_judged"]).rstrip()) for name, found in judged])
    return {
        **leading,
        "headline": " ".join([leading["headline"], *others]),
        "passes": _joined([(name, found["passes"]) for name, found in judged]),
        "sure": _joined([(name, found["sure"]) for name, found in judged]),
        "for_whom": f"{whom} {left}".strip(),
        "not_judged": left,
        "rules": [{"name": name, **found} for name, found in judged],
    }


def _is_said(found: Mapping[str, Any], leading: Mapping[str, Any]) -> bool:
    """Whether the leading headline says all of a verdict."""
    return found is leading or (found["status"] == NO_VERDICT and found["headline"] == leading["headline"])


def _left_out(texts: Sequence[str]) -> str:
    """Return the sentences on groups that are not judged, without those that another one repeats and explains."""
    said = dict.fromkeys(text for text in texts if text)
    return " ".join(t for t in said if not any(t != other and t[0].lower() + t[1:] in other for other in said))


def _beside(name: str, found: Mapping[str, Any]) -> str:
    """Return the verdict on one of several rules as a short sentence."""
    if found["status"] == PASSES and "confidence" in found:
        return f"The {name} holds with {100 * found['confidence']:.4g}% confidence."
    return _BESIDE[found["status"]].format(name)


def _joined(texts: Sequence[tuple[str, str]]) -> str:
    """Return sentences on several rules, each after its name; what is true of all of them alike only once."""
    said = [(name, text) for name, text in texts if text]
    if len({text for _, text in said}) <= 1 and len(said) in (0, len(texts)):
        return said[0][1] if said else ""
    return " ".join(f"{name[0].upper()}{name[1:]}: {text}" for name, text in said)
