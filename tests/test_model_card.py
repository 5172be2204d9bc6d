"""Model cards: figures that were counted by hand, text that Markdown reads as text, and what is missing said."""

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fairmargin import (
    CertifiedClassifier,
    FairLogisticRegression,
    FairMultinomialLogisticRegression,
    FairRegressor,
    PRuleBound,
    model_card,
    p_rule,
)
from fairmargin.datasets import make_linear_synthetic

X, y, z = make_linear_synthetic(400, random_state=0)
sex = pd.DataFrame({"sex": np.where(z == 1, "m", "f")})


@pytest.fixture(scope="module")
def clf():
    return FairLogisticRegression().fit(X, y, sensitive_features=sex)


def cells(card, first):
    """Return the cells of the row of a table that begins with ``first``."""
    (row,) = [line for line in card.splitlines() if line.startswith(f"| {first} |")]
    return [cell.strip() for cell in row.strip("|").split("|")]


def test_figures_are_those_of_the_decisions(clf):
    card = model_card(clf, X, y, sensitive_features=sex)
    accepted, deserving, women = clf.predict(X) == 1, y == 1, sex["sex"] == "f"
    assert cells(card, "f")[1:] == [
        str(women.sum()),
        f"{accepted[women].mean():.1%}",
        f"{accepted[women & deserving].mean():.1%}",
        f"{accepted[women & ~deserving].mean():.1%}",
        f"{(accepted != deserving)[women].mean():.1%}",
    ]
    assert cells(card, "accuracy")[1] == f"{(accepted == deserving).mean():.1%}"
    assert cells(card, "p%-rule")[1] == f"{p_rule(y, clf.predict(X), sensitive_features=sex):.1f}%"
    assert cells(card, "relative gap")[1] == f"{clf.certificate_.gap:.1e}"
    assert "Not stated" in card
    assert "nothing is promised" in card


def test_weights_count(clf):
    weight = np.random.default_rng(0).integers(1, 4, len(y))
    repeated = np.repeat(np.arange(len(y)), weight)
    one = model_card(clf, X, y, sensitive_features=sex, sample_weight=weight)
    other = model_card(clf, X[repeated], y[repeated], sensitive_features=sex.iloc[repeated].reset_index(drop=True))
    for first in ("accuracy", "p%-rule", "positive rate"):
        assert cells(one, first) == cells(other, first)
    assert cells(one, "m")[2:] == cells(other, "m")[2:]


def test_texts_of_others_stay_text(clf):
    strange = sex.replace({"m": "m|<b>"})
    card = model_card(
        clf, X, y, sensitive_features=strange, title="a\n# b", intended_use="*all*", limits=["old | data"]
    )
    assert card.startswith("# a \\# b\n")
    assert "| m\\|&lt;b&gt; |" in card
    assert "\\*all\\*" in card
    assert "- old \\| data" in card


def test_guarantees_are_told():
    pipe = make_pipeline(StandardScaler(), FairLogisticRegression(constraint=PRuleBound(40, confidence=0.9)))
    certified = CertifiedClassifier(pipe).fit(X, y, sensitive_features=sex)
    card = model_card(certified, X, y, sensitive_features=sex)
    assert "Tested on 200 people not used in training" in card
    assert "PRuleBound(p=40" in card


def test_classifiers_of_others_have_no_proof():
    card = model_card(LogisticRegression().fit(X, y), X, y, sensitive_features=sex)
    assert "carries no certificate" in card


def test_bad_input(clf):
    with pytest.raises(ValueError, match="not a class of the model"):
        model_card(clf, X, np.where(y == 1, "yes", "no"), sensitive_features=sex)
    with pytest.raises(ValueError, match="method must be one of"):
        model_card(clf, X, y, sensitive_features=sex, method="other")
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model_card(clf, X, y[:10], sensitive_features=sex)
    with pytest.raises(ValueError, match="groups"):
        model_card(clf, X, y, sensitive_features=np.linspace(0.0, 1.0, len(y)))


def test_models_of_tables():
    from fairmargin.datasets.demo import make_credit_demo
    from fairmargin.tables import TabularModel, prepare, table_of_frame

    table = make_credit_demo(600)
    study = prepare(table_of_frame(table, "demo"), target="repaid", positive="yes", sensitive=["sex"])
    part = study.train
    fitted = FairLogisticRegression().fit(part.X, part.y, sensitive_features=part.sensitive)
    model = TabularModel(fitted, study.encoder, study.target, study.labels, study.sensitive)
    card = model_card(model, table, table["repaid"], sensitive_features=table[["sex"]])
    accepted, deserving = model.decide(table)["decision"] == "yes", table["repaid"] == "yes"
    assert cells(card, "accuracy")[1] == f"{(accepted == deserving).mean():.1%}"
    assert cells(card, "positive decision")[1] == "'yes'"
    assert cells(card, "features")[1] == f"{len(study.encoder.columns)} columns of the table"
    for group, rows in table.groupby("sex"):
        assert cells(card, group)[2] == f"{accepted[rows.index].mean():.1%}"
    with pytest.raises(ValueError, match="not a class of the model"):
        model_card(model, table, np.arange(len(table)), sensitive_features=table[["sex"]])


@pytest.mark.parametrize("model", [FairLogisticRegression(), make_pipeline(StandardScaler(), LogisticRegression())])
def test_models_must_be_fitted(model):
    with pytest.raises(NotFittedError):
        model_card(model, X, y, sensitive_features=sex)


@pytest.mark.parametrize("model", [FairMultinomialLogisticRegression(constraint=None), FairRegressor()])
def test_cards_are_about_two_classes(model):
    target = y + 2 * (X[:, 0] > 2)
    model.fit(X, target, sensitive_features=sex)
    with pytest.raises(ValueError, match="two classes, got Fair"):
        model_card(model, X, target, sensitive_features=sex)
