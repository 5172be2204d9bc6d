"""Figure 1: linear synthetic data; boundaries under fairness constraints (a), and with promises to people (b)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairmargin import CovarianceBound, FairLogisticRegression, IndividualLossBound, p_rule
from fairmargin.datasets import make_linear_synthetic
from fairmargin.experiments import style
from fairmargin.experiments._data import expected_warnings
from fairmargin.experiments._experiment import Experiment, Output, Plan, Results
from fairmargin.experiments._work import Unit
from fairmargin.experiments.claims import Claim, listed, verdict

__all__ = ["EXPERIMENTS", "PHIS", "scatter"]

PHIS = {"π/4": math.pi / 4, "π/8": math.pi / 8}
FACTORS = [0.5, 0.0]  # of the unconstrained covariance: two thresholds, the second lower
GAMMAS = [1000.0, math.inf]  # what the loss of those without a promise may grow by
SHOWN = 200  # people drawn


def boundaries(phi: str, split: int, what: str) -> list[dict[str, Any]]:
    """Fit the free classifier and two fair ones (``what``: covariance or promises) to one draw of the data."""
    X, y, z = make_linear_synthetic(phi=PHIS[phi], random_state=split)
    free = FairLogisticRegression(constraint=None).fit(X, y, sensitive_features=z)
    kept = (free.predict(X) == 1) & (z == 1)
    rows = [_row("free", math.nan, free, free, X, y, z, kept)]
    with expected_warnings():
        for value in FACTORS if what == "covariance" else GAMMAS:
            constraint = (
                CovarianceBound(value, relative=True)
                if what == "covariance"
                else IndividualLossBound(np.where(kept, np.inf, value), keep_positive=kept)
            )
            fair = FairLogisticRegression(constraint=constraint).fit(X, y, sensitive_features=z)
            rows.append(_row(what, value, fair, free, X, y, z, kept))
    return rows


def _row(
    kind: str,
    value: float,
    fair: FairLogisticRegression,
    free: FairLogisticRegression,
    X: NDArray[Any],
    y: NDArray[Any],
    z: NDArray[Any],
    kept: NDArray[np.bool_],
) -> dict[str, Any]:
    decisions, w = fair.predict(X), fair.coef_[0]
    normals = [classifier.coef_[0] / np.linalg.norm(classifier.coef_[0]) for classifier in (free, fair)]
    centre = X.mean(axis=0)
    offsets = [
        float(classifier.decision_function(centre[None])[0] / np.linalg.norm(classifier.coef_[0]))
        for classifier in (free, fair)
    ]
    return {
        "kind": kind,
        # JSON has no infinity; the word is read back by float().
        "value": str(value),
        "w1": w[0],
        "w2": w[1],
        "b": fair.intercept_[0],
        "rotation": math.degrees(math.acos(float(np.clip(normals[0] @ normals[1], -1, 1)))),
        # How far the boundary has moved, as seen from the middle of the data: positive if more are accepted.
        "shift": offsets[1] - offsets[0],
        "accuracy": 100.0 * float(np.mean(decisions == y)),
        "p_rule": p_rule(y, decisions, sensitive_features=z, zero_division=100.0),
        "covariance": float(np.asarray(fair.covariance_)[0]),
        "norm": float(np.linalg.norm(w)),
        "kept": int(kept.sum()),
        "kept_refused": int(np.sum(kept & (fair.decision_function(X) < -1e-8))),
        "accepted": 100.0 * float(np.mean(decisions == 1)),
    }


def _units(what: str) -> Any:
    def units(plan: Plan) -> list[Unit]:
        return [Unit(boundaries, {"phi": phi, "split": s, "what": what}) for phi in PHIS for s in plan.splits]

    return units


def scatter(ax: Any, X: NDArray[Any], y: NDArray[Any], z: NDArray[Any]) -> list[Any]:
    """Draw people: colour is the label, shape the sensitive attribute. Return handles for a legend."""
    handles = []
    for label, colour in ((1, style.GREEN), (-1, style.VERMILION)):
        for group, shape in ((1, "o"), (0, "x")):
            rows = (y == label) & (z == group)
            face = {"facecolors": "none"} if shape == "o" else {}
            drawn = {"edgecolors": colour} if shape == "o" else {"color": colour}
            title = f"z = {group}, y = {'+' if label > 0 else '−'}1"
            handles.append(
                ax.scatter(*X[rows].T, s=26, marker=shape, linewidths=1.1, alpha=0.65, label=title, **face, **drawn)
            )
    return handles


def _draw(table: pd.DataFrame, titles: dict[float, str]) -> Any:
    figure, axes = style.grid(1, 2, height=4.4)
    for ax, (phi, angle) in zip(axes[0], PHIS.items(), strict=True):
        X, y, z = (part[:SHOWN] for part in make_linear_synthetic(phi=angle, random_state=0))
        handles = scatter(ax, X, y, z)
        ax.set(xlim=(-11, 11), ylim=(-9, 9), xlabel="feature x₁ (no unit)", title=f"φ = {phi}")
        lines = table[(table["phi"] == phi) & (table["split"] == 0)]
        for (_, line), dashes in zip(lines.iterrows(), ("-", "--", ":"), strict=True):
            free = line["kind"] == "free"
            what = "unconstrained" if free else titles[float(line["value"])]
            title = f"{what}: accuracy {line['accuracy']:.0f}%, p%-rule {line['p_rule']:.0f}%"
            _line(ax, line, color=style.SKY if free else "black", linestyle=dashes, label=title, linewidth=2.6)
        ax.legend(handles=ax.get_lines(), loc="upper center", bbox_to_anchor=(0.5, -0.16), fontsize=11)
    axes[0, 0].set_ylabel("feature x₂ (no unit)")
    style.below(figure, handles)
    return figure


def _line(ax: Any, line: pd.Series, **options: Any) -> None:
    # Any point of the boundary and its direction; the axes cut off the rest.
    w = np.array([line["w1"], line["w2"]])
    point, along = -line["b"] * w / (w @ w), np.array([-w[1], w[0]]) / np.linalg.norm(w)
    ends = np.stack([point - 40 * along, point + 40 * along])
    ax.plot(*ends.T, scalex=False, scaley=False, **options)


def _values(table: pd.DataFrame, phi: str, value: float, column: str) -> NDArray[Any]:
    rows = table[(table["phi"] == phi) & (table["value"].map(float) == value)]
    return rows[column].to_numpy()


def _free(table: pd.DataFrame, phi: str, column: str) -> NDArray[Any]:
    return table[(table["phi"] == phi) & (table["kind"] == "free")][column].to_numpy()


def _make_a(results: Results) -> Output:
    table = results["boundaries"]
    loose, tight = FACTORS
    drawn = _draw(table, {loose: f"c = {loose:g} c*", tight: "c = 0"})
    return Output({"fig1a": drawn}, {"fig1a": table}, claims=[_rotates(table), _rotates_more(table), _costs(table)])


def _turns(table: pd.DataFrame) -> dict[tuple[str, float], NDArray[Any]]:
    return {(phi, a): _values(table, phi, a, "rotation") for phi in PHIS for a in FACTORS}


def _over(table: pd.DataFrame) -> str:
    return f" (means of {table['split'].nunique()} draws)"


def _rotates(table: pd.DataFrame) -> Claim:
    turn, (loose, tight) = _turns(table), FACTORS
    return Claim(
        9,
        "Sec. 4.1, Fig. 1a",
        "Fairness constraints rotate the boundary, the more the smaller the threshold c",
        listed(
            f"φ = {phi}: {turn[phi, loose].mean():.0f}° at c = {loose:g} c*, {turn[phi, tight].mean():.0f}° at c = 0"
            for phi in PHIS
        )
        + _over(table),
        verdict(np.all(turn[phi, tight] > turn[phi, loose]) for phi in PHIS),
    )


def _rotates_more(table: pd.DataFrame) -> Claim:
    turn, loose = _turns(table), FACTORS[0]
    less = turn["π/8", loose].mean() < turn["π/4", loose].mean()
    shrunk = {
        phi: 100.0 * float(np.mean(_values(table, phi, loose, "norm") / _free(table, phi, "norm"))) for phi in PHIS
    }
    return Claim(
        10,
        "Sec. 4.1, Fig. 1a",
        "The rotation is greater for the stronger correlation (φ = π/8 instead of π/4)",
        listed(
            f"at c = {a:g} c*: {turn['π/8', a].mean():.0f}° for π/8, {turn['π/4', a].mean():.0f}° for π/4"
            for a in FACTORS
        )
        + _over(table),
        verdict(np.all(turn["π/8", a] > turn["π/4", a]) for a in FACTORS),
        f"At c = 0 it is. At c = {loose:g} c* the stronger correlation rotates the boundary less: the "
        f"scores are made smaller instead (||w|| is {shrunk['π/8']:.0f}% of its unconstrained value at π/8, "
        f"{shrunk['π/4']:.0f}% at π/4), which cuts the covariance without touching any decision. The "
        "covariance is not scale-free: θ'x is a distance only up to ||θ||."
        if less
        else "",
    )


def _costs(table: pd.DataFrame) -> Claim:
    loose, tight = FACTORS
    fair = {(phi, a): _values(table, phi, a, "p_rule") for phi in PHIS for a in FACTORS}
    cost = {
        (phi, a): _free(table, phi, "accuracy") - _values(table, phi, a, "accuracy") for phi in PHIS for a in FACTORS
    }
    return Claim(
        11,
        "Sec. 4.1, Fig. 1a",
        "A smaller threshold is fairer and costs more accuracy",
        listed(
            f"φ = {phi}: p%-rule {_free(table, phi, 'p_rule').mean():.0f} → {fair[phi, loose].mean():.0f} → "
            f"{fair[phi, tight].mean():.0f}%, accuracy −{cost[phi, loose].mean():.1f} and "
            f"−{cost[phi, tight].mean():.1f} points"
            for phi in PHIS
        )
        + _over(table),
        verdict(
            np.all(fair[phi, tight] > fair[phi, loose]) and np.all(cost[phi, tight] > cost[phi, loose])
            for phi in PHIS
        ),
    )


def _make_b(results: Results) -> Output:
    table = results["boundaries"]
    titles = {GAMMAS[0]: f"γ = {GAMMAS[0]:g}", GAMMAS[1]: "γ = ∞"}
    fair = table[table["kind"] != "free"]
    refused, kept = int(fair["kept_refused"].sum()), int(fair["kept"].sum())
    moved = {phi: (_values(table, phi, math.inf, "rotation"), _values(table, phi, math.inf, "shift")) for phi in PHIS}
    bounded = {phi: _values(table, phi, GAMMAS[0], "rotation") for phi in PHIS}
    claims = [
        Claim(
            12,
            "Sec. 4.1, Fig. 1b",
            "People with z = 1 whom the unconstrained classifier accepts are not refused by the fair one",
            f"{refused} refusals among {kept:,} promises, over all draws and boundaries",
            verdict([refused == 0]),
        ),
        Claim(
            13,
            "Sec. 4.1, Fig. 1b",
            "With promises, boundaries are rotated and shifted versions of the unconstrained one",
            listed(
                f"φ = {phi}: rotated by {turn.mean():.0f}° and shifted by {shift.mean():.1f} (others unbounded), "
                f"rotated by {bounded[phi].mean():.1f}° at γ = {GAMMAS[0]:g}"
                for phi, (turn, shift) in moved.items()
            ),
            verdict(np.all(turn > 5) and np.all(shift > 0.5) for turn, shift in moved.values()),
        ),
    ]
    return Output({"fig1b": _draw(table, titles)}, {"fig1b": table}, claims=claims)


EXPERIMENTS = [
    Experiment(
        "fig1a",
        "Figure 1a: boundaries that maximise accuracy under fairness constraints, linear synthetic data",
        "4,000 people per draw, 200 of them shown; logistic regression. c* is the covariance of the unconstrained "
        "classifier. Figures are measured on the training data, as in the paper.",
        _units("covariance"),
        _make_a,
    ),
    Experiment(
        "fig1b",
        "Figure 1b: boundaries that maximise fairness and refuse nobody of z = 1 who is accepted today",
        "As figure 1a. The people with a promise keep a score of at least 0; the loss of each of the others may "
        "grow by its factor 1 + γ, or without bound (γ = ∞).",
        _units("promises"),
        _make_b,
    ),
]
