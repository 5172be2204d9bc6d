"""
Two sensitive attributes and their intersections
================================================

A classifier can be fair to women and to people from abroad and still be unfair to women from abroad.
``sensitive_features`` takes several columns, and ``cross_groups`` adds a column of crossed groups to them.
"""

import matplotlib.pyplot as plt
from sklearn.pipeline import make_pipeline

from fairmargin import CategoryEncoder, FairLogisticRegression, PRuleBound, cross_groups, positive_rates
from fairmargin.datasets import make_credit_demo

people = make_credit_demo(6000).dropna()
groups = cross_groups(people[["sex", "origin"]])
y = (people["repaid"] == "yes").astype(int)
X = people.drop(columns=["repaid", "sex", "origin"])
asked = {
    "no constraint": None,
    "80%-rule for sex": ["sex"],
    "80%-rule for sex and origin": ["sex", "origin"],
    "80%-rule for all crossed groups": ["sex × origin"],
}

# %%
# Crossed groups are an attribute like any other.
fig, axes = plt.subplots(1, 4, figsize=(11, 3.4), layout="constrained", sharey=True)
for ax, (name, columns) in zip(axes, asked.items(), strict=True):
    clf = FairLogisticRegression(constraint=None if columns is None else PRuleBound(80))
    model = make_pipeline(CategoryEncoder(), clf)
    given = {} if columns is None else {"fairlogisticregression__sensitive_features": groups[columns]}
    decided = model.fit(X, y, **given).predict(X)
    rates = positive_rates(y, decided, sensitive_features=groups[["sex × origin"]])
    print(f"\n{name}: accuracy {model.score(X, y):.1%}")
    print(rates[["people", "rate", "ratio"]].round(3).to_string())
    ax.barh([category for _, category in rates.index], 100 * rates["rate"], color="#0072B2")
    ax.set(title=name, xlabel="approved, in percent")
    ax.title.set_size(9)
