"""The tables of "Coming from ..." are true: both columns run as written, and metrics give the same numbers."""

import ast
import functools
import inspect
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import LogisticRegression

import fairmargin
from fairmargin import FairLogisticRegression, FairnessFrontier, baselines, datasets
from fairmargin.constraints import Constraint

PAGES = Path(__file__).parents[1] / "docs" / "coming_from"
NAMES = ("fairlearn", "aif360", "scikit_lego", "authors_code")


def rows(page):
    """Return the pairs of code spans of a page's tables, one pair per row: left column, right column."""
    found = []
    for line in (PAGES / f"{page}.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("| ") and "`" in line:
            cells = re.sub(r"`[^`]*`", lambda span: span[0].replace("|", "\0"), line).strip("| ").split(" | ")
            if len(cells) == 2:  # tables with more columns show figures
                found.append(
                    tuple([span.replace("\0", "|") for span in re.findall(r"`([^`]*)`", cell)] for cell in cells)
                )
    return found


def blocks(page):
    """Return the code blocks of a page that are no doctests: before, after."""
    return re.findall(r"```python\n(?!>>>)(.*?)```", (PAGES / f"{page}.md").read_text(encoding="utf-8"), re.DOTALL)


RIGHT = [(page, span) for page in NAMES for _, spans in rows(page) for span in spans if "||w||" not in span]


def known():
    """Return the names that the pages use: made-up people, decisions on them, and what the packages export."""
    people = datasets.make_credit_demo(400, random_state=3).dropna().reset_index(drop=True)
    df = people[["income", "amount", "years_employed", "late_payments", "hours_per_week"]]
    df = (df - df.mean()) / df.std()
    df = df.assign(repaid=(people["repaid"] == "yes").astype(int), sex=(people["sex"] == "woman").astype(int))
    X, y, z = df.drop(columns=["repaid", "sex"]), df["repaid"], df["sex"]
    model = FairLogisticRegression(C=0.1, constraint=None).fit(X, y)
    frontier = FairnessFrontier(FairLogisticRegression(), which="p_rule", n_points=3, levels=[80])
    names = {name: getattr(fairmargin, name) for name in fairmargin.__all__}
    names |= {name: getattr(baselines, name) for name in baselines.__all__}
    names |= {name: getattr(datasets, name) for name in datasets.__all__}
    d = model.predict(X)
    return names | {
        "LogisticRegression": LogisticRegression, "np": np, "people": people.assign(age=np.arange(len(people)) % 7),
        "df": df, "X": X, "y": y, "z": z, "sex": z, "d": d, "y_pred": d, "s": people["housing"],
        "weights": np.linspace(0.5, 1.5, len(y)), "c": 0.1, "g": 0.5,
        "model": model, "clf": FairLogisticRegression().fit(X, y, sensitive_features={"s1": z}),
        "frontier": frontier.fit(X, y, sensitive_features=z), "audit": fairmargin.audit.audit,
    }  # fmt: skip


@functools.cache
def shared():
    from lightgbm import LGBMClassifier

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return known() | {"LGBMClassifier": LGBMClassifier}


def fit(estimator, **more):
    X, y, z = (shared()[name] for name in ("X", "y", "z"))
    attribute = {"sensitive_features": {"s1": z} if "s1" in repr(estimator) else z}
    return clone(estimator).fit(X, y, **(attribute | more))


def parameter(name):
    """Return where a name is a parameter: of the estimator, of its fit, or of neither."""
    if name in inspect.signature(FairLogisticRegression).parameters:
        return "estimator"
    return "fit" if name in inspect.signature(FairLogisticRegression.fit).parameters else None


def check_keyword(name, value):
    """Fit with one keyword given as the page says."""
    if parameter(name) == "estimator":
        return fit(FairLogisticRegression(**{name: value}))
    assert parameter(name) == "fit"
    return fit(FairLogisticRegression(), **{name: value})


def run(span):
    """Run one code span of a right-hand column and return what comes out: never None."""
    if span.startswith("fairmargin "):
        pytest.importorskip("typer")
        from typer.main import get_command

        from fairmargin.cli.application import app, register_experiments

        register_experiments(span.split()[1:])
        return get_command(app).commands[span.split()[1]]
    if keyword := re.fullmatch(r"(\w+)=(.+)", span):
        return check_keyword(keyword[1], eval(keyword[2], dict(shared())))
    if span.isidentifier() and parameter(span):
        return parameter(span)
    tree = ast.parse(span)
    if not isinstance(tree.body[0], ast.Expr):
        names = dict(shared())
        exec(compile(tree, span, "exec"), names)
        return names
    value = eval(span, dict(shared()))
    if isinstance(value, Constraint):
        return fit(FairLogisticRegression(constraint=value))
    if isinstance(value, BaseEstimator) and not hasattr(value, "classes_"):
        return fit(value)
    return value


@pytest.mark.parametrize(
    ("page", "span"), [pytest.param(*case, marks=pytest.mark.data if "load_" in case[1] else ()) for case in RIGHT]
)
def test_what_the_right_column_says_runs(page, span):
    if span in {"X", "fit", "1/2 ||w||²", "fairmargin.audit"}:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert run(span) is not None


@pytest.mark.parametrize("page", ["aif360", "scikit_lego", "authors_code"])
def test_the_code_after_the_switch_runs(page):
    names = dict(shared())
    exec(compile(blocks(page)[1], page, "exec"), names)
    assert isinstance(names.get("model", names["clf"]), FairLogisticRegression)


def peer_rows(page):
    """Return the first spans of both columns, of the rows that have a call on either side."""
    return [(left[0], right[0]) for left, right, *_ in rows(page) if left and right and "(" in left[0]]


@pytest.mark.slow
def test_fairlearns_column_runs_and_its_metrics_are_ours():
    import fairlearn.metrics
    import fairlearn.postprocessing
    import fairlearn.preprocessing
    import fairlearn.reductions

    modules = (fairlearn.metrics, fairlearn.reductions, fairlearn.postprocessing, fairlearn.preprocessing)
    names = {name: getattr(module, name) for module in modules for name in dir(module) if not name.startswith("_")}
    names = dict(shared()) | names | {"est": LogisticRegression()}
    reduction = names["ExponentiatedGradient"](names["est"], names["DemographicParity"](), max_iter=5)
    compared = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        names["mixture"] = reduction.fit(names["X"], names["y"], sensitive_features=names["z"])
        for left, right in peer_rows("fairlearn"):
            if left.startswith("est = "):
                continue
            theirs = eval(left, names)
            if isinstance(theirs, float):
                assert theirs == pytest.approx(run(right), abs=1e-12)
                compared += 1
            elif left.endswith(".by_group"):
                assert theirs.tolist() == pytest.approx(run(right).tolist(), abs=1e-12)
                compared += 1
    assert compared == 5


@pytest.mark.slow
def test_scikit_legos_column_runs_and_its_scores_are_ours():
    metrics = pytest.importorskip("sklego.metrics")
    from sklego import linear_model, preprocessing

    names = dict(shared())
    for module in (metrics, linear_model, preprocessing):
        names |= {name: getattr(module, name) for name in dir(module) if not name.startswith("_")}
    names["X_with_sex"] = names["df"].drop(columns="repaid")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(blocks("scikit_lego")[0], "before", "exec"), names)
        names["lego"] = names["model"]
        d = names["decisions"]
        for left, right in peer_rows("scikit_lego"):
            theirs = eval(left, names)
            if isinstance(theirs, BaseEstimator):
                theirs.fit(names["X_with_sex"], names["y"])
            else:
                assert theirs == pytest.approx(eval(right, dict(shared()) | {"d": d}), abs=1e-12)


def test_aif360s_metrics_are_ours():
    pytest.importorskip("aif360")
    from aif360.datasets import BinaryLabelDataset
    from aif360.metrics import ClassificationMetric

    names = dict(shared()) | {"BinaryLabelDataset": BinaryLabelDataset}
    data = eval(rows("aif360")[0][0][0], names)
    decided = data.copy()
    decided.labels = np.asarray(names["d"], float)[:, None]
    groups = {"privileged_groups": [{"sex": 0}], "unprivileged_groups": [{"sex": 1}]}
    names["metric"] = ClassificationMetric(data, decided, **groups)
    compared = [
        (abs(eval(left, names)), run(right)) for left, right in peer_rows("aif360") if left.startswith("metric.")
    ]
    ratio, parity, opportunity, odds = compared[:4]
    assert min(ratio[0], 1 / ratio[0]) == pytest.approx(ratio[1])
    for theirs, ours in (parity, opportunity):
        assert theirs == pytest.approx(ours)
    assert odds[0] <= odds[1] + 1e-12
    assert compared[4][0] == pytest.approx(compared[4][1]["rate"].iloc[0])
