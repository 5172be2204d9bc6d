"""What a classifier's certificate proves, in words: decided here once, for every form of a report."""

from __future__ import annotations

from typing import Any

__all__ = ["OPTIMAL", "SEARCHED", "UNPROVED", "describe_proof"]

OPTIMAL = "optimal"
SEARCHED = "searched, not proved best"
UNPROVED = "not proved optimal"


def describe_proof(classifier: Any) -> dict[str, str]:
    """Return what is proved of a fitted classifier.

    A rule on decisions (``PRuleBound``) is searched for: ``path_certificate_`` then belongs to the convex problem on
    the search path that the classifier comes from, and ``certificate_`` bounds only what the rule costs.

    Returns
    -------
    dict
        ``verdict``: one of ``OPTIMAL``, ``SEARCHED`` and ``UNPROVED``; ``label``: the verdict with its number, for a
        table; ``text``: one or two sentences.
    """
    certificate = classifier.certificate_
    path = getattr(classifier, "path_certificate_", None)
    if path is not None:
        return _proof(SEARCHED, SEARCHED, _searched(certificate, path))
    gap = _scientific(certificate.gap)
    if certificate.status != "solved":
        text = (
            f"Not proved optimal: the solver ended with status “{certificate.status}”, a relative gap of {gap} and a "
            f"largest violation of {_scientific(certificate.violation)}."
        )
        return _proof(UNPROVED, f"{UNPROVED}, gap {gap}", text)
    kept = f"within {_scientific(certificate.violation)}" if certificate.violation > 0 else "exactly"
    # A kernel may be replaced by features that approximate it; the proof then speaks of these.
    among = "classifier" if getattr(classifier, "refined_", True) else "classifier on the kernel's approximation"
    text = (
        f"Proved optimal: no {among} that meets the same limits has a training objective lower by more than {gap} of "
        f"it; the limits are met {kept}."
    )
    return _proof(OPTIMAL, f"{OPTIMAL}, gap {gap}", text)


def _searched(certificate: Any, path: Any) -> str:
    if certificate.dual_bound > 0:
        cost = f"at most {certificate.objective / certificate.dual_bound - 1.0:.1%} above"
    else:
        cost = "not known to be near"
    solved = (
        f"was solved to a relative gap of {_scientific(path.gap)}"
        if path.status == "solved"
        else f"ended with status “{path.status}”"
    )
    return (
        "Found by a search, and not proved best: a rule on decisions is not convex. The training objective is "
        f"{cost} what any classifier, fair or not, can have; the problem on the search path {solved}."
    )


def _proof(verdict: str, label: str, text: str) -> dict[str, str]:
    return {"verdict": verdict, "label": label, "text": text}


def _scientific(value: float) -> str:
    return "0" if value == 0 else f"{value:.1e}"
