"""The classes of this package that a saved model may hold, by name, for formats that ask what to trust."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module

from sklearn.base import BaseEstimator

__all__ = ["package_subclasses", "trusted_types"]

# What fitted estimators hold beside constraints, losses and notions.
_RECORDS = (
    "fairmargin.diagnostics.Movement",
    "fairmargin.formulations.necessity.Necessity",
    "fairmargin.formulations.several.record.ConstraintRecord",
    "fairmargin.frontier.Asked",
    "fairmargin.guarantee.record.GroupRecord",
    "fairmargin.guarantee.record.Guarantee",
    "fairmargin.kernel.matrix.Kernel",
    "fairmargin.problem.Certificate",
    "fairmargin.trees.forest.Forest",
    "numpy.dtype",  # of a fitted SimpleImputer or OrdinalEncoder before the classifier
)
# Ensembles of FairTreeClassifier and LeafFeatures. Each library reads its own model; none of them holds code.
_ENSEMBLES = (
    "catboost.core.CatBoostClassifier",
    "collections.OrderedDict",  # scores that LightGBM keeps
    "lightgbm.basic.Booster",
    "lightgbm.sklearn.LGBMClassifier",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.tree._tree.Tree",
    "xgboost.core.Booster",
    "xgboost.sklearn.XGBClassifier",
)


def trusted_types() -> list[str]:
    """Return the names of the classes that a fitted model of this package may hold.

    ``skops.io.load`` constructs only what its caller trusts. The list has the estimators, constraints, losses,
    notions and records of this package, the tree ensembles that ``FairTreeClassifier`` takes, and what scikit-learn's
    imputers and encoders hold. Loading them runs no code from the file. A damaged or hostile ensemble is read by its
    own library, whose readers may crash; leave its names out if you do not load trees.

    Returns
    -------
    list of str

    Notes
    -----
    ``skops.io.get_untrusted_types`` names what a file needs beyond this list, for instance your own transformers.

    Examples
    --------
    >>> from fairmargin.io import trusted_types
    >>> "fairmargin.linear.FairLogisticRegression" in trusted_types()
    True
    """
    return sorted({*_RECORDS, *_ENSEMBLES, *map(_name, _estimators()), *map(_name, _described())})


def _name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _estimators() -> Iterator[type]:
    """Yield the public estimators."""
    package = import_module("fairmargin")
    for name in package.__all__:
        value = getattr(package, name)
        if inspect.isclass(value) and issubclass(value, BaseEstimator):
            yield value


def _described() -> Iterator[type]:
    """Yield the constraints, losses and notions of the package."""
    import_module("fairmargin.formulations")  # and with it every constraint
    for module, root in (("constraints", "Constraint"), ("losses", "Loss"), ("notions", "Notion")):
        yield from package_subclasses(getattr(import_module(f"fairmargin.{module}"), root))


def package_subclasses(root: type) -> Iterator[type]:
    """Yield the subclasses of a class that this package defines, not those that others have added."""
    cls: type
    for cls in root.__subclasses__():
        if cls.__module__.startswith("fairmargin."):
            yield cls
        yield from package_subclasses(cls)
