"""
The whole trade-off between accuracy and fairness
=================================================

:class:`fairmargin.FairnessFrontier` trains a classifier at every level of fairness for the price of a few fits,
so that the choice can be made with the figures on the table.
"""

import matplotlib.pyplot as plt
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from fairmargin import CategoryEncoder, FairLogisticRegression, FairnessFrontier
from fairmargin.datasets import make_credit_demo

people = make_credit_demo(6000).dropna()
people["repaid"] = (people["repaid"] == "yes").astype(int)
train, test = train_test_split(people, test_size=0.5, random_state=0)
features = [name for name in people.columns if name not in ("repaid", "sex", "origin")]

# %%
# Levels of the p%-rule, from that of the unconstrained classifier up to 100%. ``eval_set`` adds figures on
# held-out people.
pipeline = make_pipeline(CategoryEncoder(), FairLogisticRegression())
frontier = FairnessFrontier(pipeline, which="p_rule", n_points=11, levels=[80])
frontier.fit(
    train[features],
    train["repaid"],
    sensitive_features=train["sex"],
    eval_set=(test[features], test["repaid"], test["sex"]),
)
print(frontier.table_[["level", "train_accuracy", "train_p_rule", "test_accuracy", "test_p_rule"]].round(3))

# %%
# Training decisions keep every level. On people not trained on, the rule scatters around it.
fig, ax = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
for name, style in (("train", "o-"), ("test", "s--")):
    ax.plot(frontier.table_[f"{name}_p_rule"], 100 * frontier.table_[f"{name}_accuracy"], style, label=name)
ax.set(xlabel="p%-rule in percent", ylabel="accuracy in percent")
ax.legend()

# %%
# ``select`` returns the classifier of a point.
chosen = frontier.select(p_rule=80)
print(f"p%-rule {chosen[-1].p_rule_:.1f}% in training, found on the {chosen[-1].path_} path")
