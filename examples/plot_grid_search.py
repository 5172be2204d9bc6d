"""
Choosing the penalty and the bound by cross-validation
======================================================

Parameters of a constraint are parameters of the estimator, so that scikit-learn's searches can vary them. Here
the search maximises accuracy among settings whose p%-rule is at least 70% on the people left out.
"""

import matplotlib.pyplot as plt
import numpy as np
import sklearn
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.model_selection import GridSearchCV

from fairmargin import CovarianceBound, FairLogisticRegression, p_rule
from fairmargin.datasets import make_linear_synthetic

# %%
# Metadata routing hands the sensitive features to ``fit`` and to the scorer.
X, y, z = make_linear_synthetic(2000, random_state=0)
settings = {"C": [0.01, 1.0], "constraint__c": [0.0, 0.1, 0.25, 0.5, 1.0]}


def best_with_rule(results):
    """Return the most accurate setting whose p%-rule is at least 70%."""
    good = results["mean_test_p_rule"] >= 70
    return int(np.argmax(np.where(good, results["mean_test_accuracy"], -1.0)))


with sklearn.config_context(enable_metadata_routing=True):
    rule = make_scorer(p_rule).set_score_request(sensitive_features=True)
    search = GridSearchCV(
        FairLogisticRegression(constraint=CovarianceBound(0.0)),
        settings,
        scoring={"accuracy": make_scorer(accuracy_score), "p_rule": rule},
        refit=best_with_rule,
        cv=3,
    )
    search.fit(X, y, sensitive_features=z)
print("chosen:", search.best_params_)

# %%
# Every setting, on people left out.
fig, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
for C, style in zip(settings["C"], ("o-", "s--"), strict=True):
    rows = np.array([p["C"] == C for p in search.cv_results_["params"]])
    ax.plot(
        search.cv_results_["mean_test_p_rule"][rows],
        100 * search.cv_results_["mean_test_accuracy"][rows],
        style,
        label=f"C = {C:g}",
    )
ax.axvline(70, color="#bbbbbb", zorder=0)
ax.set(xlabel="p%-rule in percent", ylabel="accuracy in percent")
ax.legend()
