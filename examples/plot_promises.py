"""
Fairness without refusing anybody who is approved today
=======================================================

A fairer model usually refuses some people whom the present one approves.
:class:`fairmargin.IndividualLossBound` promises that it does not: the covariance falls as far as the promises
allow, and the price is paid in further approvals.
"""

import matplotlib.pyplot as plt
import numpy as np

from fairmargin import FairLogisticRegression, IndividualLossBound, PRuleBound, p_rule
from fairmargin.datasets import make_linear_synthetic

X, y, z = make_linear_synthetic(2000, random_state=0)
models = {
    "today's model": FairLogisticRegression(constraint=None),
    "80%-rule": FairLogisticRegression(constraint=PRuleBound(80)),
    "nobody loses": FairLogisticRegression(constraint=IndividualLossBound(keep_positive="accepted")),
}
decided = {name: clf.fit(X, y, sensitive_features=z).predict(X) == 1 for name, clf in models.items()}
today = decided["today's model"]

# %%
# Who gains and who loses the favourable decision, compared with today's model:
changes = {}
for name, now in decided.items():
    changes[name] = (int(np.sum(now & ~today)), int(np.sum(today & ~now)))
    rule = p_rule(y, np.where(now, 1, -1), sensitive_features=z)
    print(
        f"{name:14} accuracy {np.mean(now == (y == 1)):.1%}  p%-rule {rule:3.0f}%  "
        f"newly approved {changes[name][0]:4d}  newly refused {changes[name][1]:4d}"
    )

fig, ax = plt.subplots(figsize=(6.4, 2.8), layout="constrained")
names = list(changes)
ax.barh(names, [gain for gain, _ in changes.values()], color="#0072B2", label="newly approved")
ax.barh(names, [-loss for _, loss in changes.values()], color="#D55E00", label="newly refused")
ax.axvline(0, color="#444444", linewidth=1)
ax.invert_yaxis()
ax.set_xlabel("people")
ax.legend()
