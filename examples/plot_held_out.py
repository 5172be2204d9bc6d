"""
A rule that holds in training and fails elsewhere
=================================================

A p%-rule that is met on the people trained on is often broken for other people; "Does the rule hold for people not
seen yet?" has figures on real data. Asking for it with a ``confidence`` sets people aside and tests the rule on them.
"""

import matplotlib.pyplot as plt
import numpy as np

from fairmargin import FairLogisticRegression, NotCertifiedError, PRuleBound, p_rule
from fairmargin.datasets import make_linear_synthetic

# %%
# A large draw stands for the population; training sets of 2,000 people are drawn from the same distribution.
X_all, y_all, z_all = make_linear_synthetic(100_000, random_state=10_000)
plain, tested, refused = [], [], 0
for seed in range(20):
    X, y, z = make_linear_synthetic(2000, random_state=seed)
    clf = FairLogisticRegression(constraint=PRuleBound(80)).fit(X, y, sensitive_features=z)
    plain.append(p_rule(y_all, clf.predict(X_all), sensitive_features=z_all))
    try:
        clf = FairLogisticRegression(constraint=PRuleBound(80, confidence=0.95)).fit(X, y, sensitive_features=z)
        tested.append(p_rule(y_all, clf.predict(X_all), sensitive_features=z_all))
    except NotCertifiedError:
        refused += 1

# %%
# With a confidence, nothing is returned where the rule cannot be shown; what is returned keeps the rule, with room.
print(f"80%-rule in training:      below 80% in the population in {np.mean(np.array(plain) < 80):.0%} of 20 draws")
print(f"with 95% confidence:       {np.sum(np.array(tested) < 80)} broken, {refused} not certified, of 20")
fig, ax = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
for row, (values, colour) in enumerate(((plain, "#D55E00"), (tested, "#0072B2"))):
    ax.scatter(values, np.full(len(values), row) + np.linspace(-0.15, 0.15, len(values)), color=colour)
ax.axvline(80, color="#888888")
ax.set(yticks=[0, 1], yticklabels=["PRuleBound(80)", "PRuleBound(80,\nconfidence=0.95)"], ylim=(-0.5, 1.5))
ax.set_xlabel("p%-rule in the population, in percent")
