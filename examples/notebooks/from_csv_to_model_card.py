# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # From a CSV file to a model card
# This notebook takes a table of loan applicants through every step: look at the groups, train with a rule, read the
# certificate, test the rule on other people, and write a model card. Open it with jupytext
# (`jupytext --to ipynb from_csv_to_model_card.py`) or run it as a script. Replace the first cell with your own file.

# %%
import pandas as pd
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from fairmargin import (
    CategoryEncoder,
    FairLogisticRegression,
    FairnessFrontier,
    NotCertifiedError,
    PRuleBound,
    certify,
    io,
    model_card,
    p_rule,
    positive_rates,
)
from fairmargin.datasets import make_credit_demo

make_credit_demo(6000).to_csv("applicants.csv", index=False)
people = pd.read_csv("applicants.csv").dropna()
people.head()

# %% [markdown]
# ## Who may decide what
# `repaid` is to be predicted. `sex` and `origin` are sensitive: they are used in training and never to decide.
# A third of the people is set aside, to test the finished model.

# %%
features = [name for name in people.columns if name not in ("repaid", "sex", "origin")]
train, aside = train_test_split(people, test_size=1 / 3, random_state=0)


def fit(constraint):
    model = make_pipeline(CategoryEncoder(), FairLogisticRegression(constraint=constraint, pos_label="yes"))
    return model.fit(train[features], train["repaid"], fairlogisticregression__sensitive_features=train["sex"])


def rule_of(model, table):
    decided = model.predict(table[features])
    return p_rule(table["repaid"], decided, sensitive_features=table["sex"], pos_label="yes")


# %% [markdown]
# ## Without a constraint
# The p%-rule is the lower approval rate as a percentage of the higher one.

# %%
free = fit(None)
print(f"accuracy {free.score(aside[features], aside['repaid']):.3f}, p%-rule {rule_of(free, aside):.0f}")
decisions = free.predict(aside[features])
print(
    positive_rates(aside["repaid"], decisions, sensitive_features=aside["sex"], pos_label="yes")[["people", "rate"]]
)

# %% [markdown]
# ## What does fairness cost?
# The last level, 100%, is out of reach here: `fit` warns that refusing everybody is all that was found for it.

# %%
frontier = FairnessFrontier(free, which="p_rule", n_points=4, levels=[80, 90])
frontier.fit(train[features], train["repaid"], sensitive_features=train["sex"])
print(frontier.table_[["level", "train_accuracy", "train_p_rule"]].round(3))

# %% [markdown]
# ## Train with a rule, and aim a little higher
# A rule that is just met in training is missed by about half of all other samples. With 90 in training there is room
# for an 80%-rule elsewhere.

# %%
fair = fit(PRuleBound(90))
print(f"accuracy {fair.score(aside[features], aside['repaid']):.3f}, p%-rule {rule_of(fair, aside):.0f}")

# %% [markdown]
# ## Read the certificate
# `gap` compares the training objective with a lower bound for *all* classifiers, fair or not. It bounds what the rule
# costs. `path_certificate_` proves that the point of the search is optimal for its own problem.

# %%
classifier = fair[-1]
proof = classifier.certificate_
print(f"{proof.status}: the rule costs at most {proof.gap:.1%} of the objective")
print(f"proof of the point on the path '{classifier.path_}': {classifier.path_certificate_}")

# %% [markdown]
# ## Does the rule hold for other people?
# `certify` tests a finished model on people it has not seen, with an exact test. Where they are too few to show the
# rule, the error says how many it would take.

# %%
try:
    guarantee = certify(fair, aside[features], sensitive_features=aside["sex"], p=75, confidence=0.9, pos_label="yes")
    print(guarantee.statement)
except NotCertifiedError as error:
    print(error)

# %% [markdown]
# ## Keep the model and its card

# %%
io.save(fair, "model.json")
assert (io.load("model.json").predict(aside[features]) == fair.predict(aside[features])).all()
card = model_card(fair, aside[features], aside["repaid"], sensitive_features=aside["sex"])
print(card[:600])
