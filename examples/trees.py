"""A fair tree ensemble on Adult: the 80%-rule between the sexes, and what it costs beside a linear classifier.

Needs the data set (downloaded once, or FAIRMARGIN_DATA). The trees are those of scikit-learn's histogram boosting;
give any other ensemble, e.g. ``LGBMClassifier(n_estimators=60, num_leaves=15)``, in its place.

    python examples/trees.py
"""

from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split

from fairmargin import FairLogisticRegression, FairTreeClassifier, PRuleBound, p_rule
from fairmargin.datasets import load_adult


def main():
    frame, encoded = load_adult(), load_adult(encoded=True).data
    y, sex = frame.target, frame.sensitive_features["sex"]
    train, test = train_test_split(range(len(y)), test_size=0.3, random_state=0)
    boosting = HistGradientBoostingClassifier(
        max_iter=60, max_leaf_nodes=15, categorical_features="from_dtype", random_state=0
    )
    print(f"{'':28} {'accuracy':>9} {'p%-rule':>8}   (of people not trained on)")
    for name, model, X in (
        ("boosting, unconstrained", boosting, frame.data),
        ("linear, 80%-rule", FairLogisticRegression(constraint=PRuleBound(80)), encoded),
        ("trees, 80%-rule", FairTreeClassifier(boosting, constraint=PRuleBound(80)), frame.data),
    ):
        groups = {} if model is boosting else {"sensitive_features": sex.iloc[train]}
        model.fit(X.iloc[train], y.iloc[train], **groups)
        decided = model.predict(X.iloc[test])
        rule = p_rule(y.iloc[test], decided, sensitive_features=sex.iloc[test])
        print(f"{name:28} {(decided == y.iloc[test]).mean():9.2%} {rule:7.0f}%")
    proof = model.path_certificate_
    print(f"\nLeaf values: {model.coef_.size}, proved optimal at their price to a relative gap of {proof.gap:.0e}.")
    (exported,) = model.export()
    same = (exported.predict(frame.data.iloc[test]) == decided).all()
    print(f"Put back into the boosting model, they decide {'the same' if same else 'DIFFERENTLY'}.")


if __name__ == "__main__":
    main()
