"""From the arguments of ``fit`` to checked training data."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, check_consistent_length, validate_data

from fairmargin.caller import warn
from fairmargin.categories import categorical_columns
from fairmargin.coded_matrix import CodedMatrix
from fairmargin.disparate_treatment import check_disparate_treatment, refuse_recodings
from fairmargin.exceptions import FavourableClassWarning
from fairmargin.inputs import check_container, check_no_missing
from fairmargin.sensitive import Attribute, Sensitive, encode_sensitive

__all__ = [
    "ONE_AT_A_TIME",
    "People",
    "TrainingData",
    "check_count",
    "check_flag",
    "check_number",
    "check_share",
    "check_two_groups",
    "class_factors",
    "favourable_class",
    "validate_features",
    "validate_people",
    "validate_training",
    "validate_weights",
]

Array = NDArray[np.float64]

_PLAIN_LABELS = ([0, 1], [-1, 1], [False, True])  # whose later one is favourable without a word


@dataclass(frozen=True)
class TrainingData:
    """Checked data of the people with a positive weight.

    ``X`` (N, d) dense or CSR; ``y`` (N,) of -1 and +1, +1 for ``classes[1]``; ``people_weight`` (N,) are the
    sample weights, which define means and covariances; ``loss_weight`` (N,) have the class weights in them.
    ``kept`` (N,) indexes the rows that the user gave, of which there were ``n_given``. ``strata``, if there are any,
    are what groups are compared within.
    """

    X: Any
    y: Array
    classes: NDArray[Any]
    people_weight: Array
    loss_weight: Array
    sensitive: Sensitive | None
    kept: NDArray[np.intp]
    n_given: int
    strata: Attribute | None = None

    def take(self, rows: NDArray[np.intp], class_weight: Any) -> TrainingData:
        """Return the data of some of the people, who must be of both classes and of two groups at least."""
        sensitive = None if self.sensitive is None else self.sensitive.take(rows)
        y, weight = self.y[rows], self.people_weight[rows]
        _check_two_classes(y, self.classes)
        check_two_groups(sensitive)
        loss_weight = weight * class_factors(class_weight, self.classes, y, weight)
        return TrainingData(
            _safe_indexing(self.X, rows),
            y,
            self.classes,
            weight,
            loss_weight,
            sensitive,
            self.kept[rows],
            self.n_given,
            None if self.strata is None else self.strata.take(rows),
        )


# Checks and conversions of scikit-learn and pandas set warning filters, which belong to the whole process, for as
# long as they run. Two at once could restore each other's: what calls them does so under this lock.
ONE_AT_A_TIME = threading.RLock()


def validate_features(estimator: Any, X: Any, *, reset: bool = False) -> Any:
    """Return the features of people to decide on: checked, as an array or a CSR matrix of floats.

    ``reset`` is for the first look at data, which fixes the number and names of columns.
    """
    if not isinstance(X, list | tuple):  # of these scikit-learn says more
        check_container(X, "X")
    if isinstance(X, CodedMatrix):
        return _validate_codes(estimator, X, reset)
    with ONE_AT_A_TIME, _text_named(estimator, X):
        X = validate_data(estimator, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=reset)
    return _in_canonical_form(X) if sp.issparse(X) else X


@contextmanager
def _text_named(estimator: Any, X: Any) -> Iterator[None]:
    """Refuse columns of text and categories in a frame, even of numbers: as such they would have an order and a size.

    Elsewhere, say what to do where numbers cannot be made of text.
    """
    where = categorical_columns(X)
    if where:
        columns = f"{', '.join(map(repr, where[:5]))}{', ...' if len(where) > 5 else ''}"
        raise ValueError(
            f"X holds text or categories in {columns}. {_recipe(estimator)} Where they are numbers, convert the "
            "columns with astype(float)."
        )
    try:
        yield
    except ValueError as error:
        if "could not convert string" not in str(error):
            raise
        raise ValueError(f"X holds text: {error}. {_recipe(estimator)}") from None


def _recipe(estimator: Any) -> str:
    name = type(estimator).__name__
    return (
        f"Make categories indicators first: make_pipeline(CategoryEncoder(), {name}()) takes frames (CategoryEncoder "
        f"is in fairmargin; sensitive_features of fit become {name.lower()}__sensitive_features), scikit-learn's "
        "OneHotEncoder arrays as well, and fairmargin.tables.prepare whole tables."
    )


def _validate_codes(estimator: Any, X: CodedMatrix, reset: bool) -> Any:
    """Return a matrix with categorical columns, written out for an estimator that does not take codes."""
    if not getattr(estimator, "takes_codes", False):
        return validate_features(estimator, X.toarray(), reset=reset)
    if not np.all(np.isfinite(X.numbers)):
        raise ValueError("X contains NaN or infinity among its columns of numbers; impute or remove these rows.")
    if reset:
        estimator.n_features_in_ = X.shape[1]
        if hasattr(estimator, "feature_names_in_"):  # of an earlier fit
            del estimator.feature_names_in_
    elif X.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"X has {X.shape[1]} features, but {type(estimator).__name__} is expecting {estimator.n_features_in_} "
            "features as input."
        )
    return X


def _validate_both(estimator: Any, X: Any, y: Any) -> tuple[Any, Any]:
    """Return features and labels of the same length, checked."""
    with ONE_AT_A_TIME, _text_named(estimator, X):
        if not isinstance(X, CodedMatrix):
            return validate_data(estimator, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], order=None)
        y = validate_data(estimator, y=y)
        X = validate_features(estimator, X, reset=True)
        check_consistent_length(X, y)
        return X, y


def validate_weights(sample_weight: Any, like: Any) -> Array:
    """Return non-negative sample weights (N,), one per row of ``like``; ones for None."""
    with ONE_AT_A_TIME:
        weight = _check_sample_weight(sample_weight, like, dtype=np.float64, ensure_non_negative=True)
    with np.errstate(over="ignore"):
        if np.isinf(weight.sum()):
            raise ValueError("The sum of sample_weight is beyond the range of float64; make the weights smaller.")
    return weight


def validate_training(
    estimator: Any,
    X: Any,
    y: Any,
    sensitive_features: Any,
    sample_weight: Any,
    *,
    class_weight: Any = None,
    needs_sensitive: bool,
) -> TrainingData:
    """Check all arguments of ``fit`` and return them as training data."""
    people = validate_people(
        estimator, X, y, sensitive_features, sample_weight, needs_sensitive=needs_sensitive, read=_binary_labels
    )
    classes, signed = people.y
    classes, signed = _favourable(classes, signed, getattr(estimator, "pos_label", None), ask=needs_sensitive)
    if len(people.kept) < people.n_given:
        signed = signed[people.kept]
        _check_two_classes(signed, classes)
    weight = people.weight
    loss_weight = weight * class_factors(class_weight, classes, signed, weight)
    return TrainingData(people.X, signed, classes, weight, loss_weight, people.sensitive, people.kept, people.n_given)


@dataclass(frozen=True)
class People:
    """The people with a positive weight, before their targets have a meaning.

    ``X`` (N, d) dense, CSR or coded; ``y`` what the reader of the targets returned, for all people given; ``weight``
    (N,); ``kept`` (N,) indexes the rows that the user gave, of which there were ``n_given``.
    """

    X: Any
    y: Any
    weight: Array
    sensitive: Sensitive | None
    kept: NDArray[np.intp]
    n_given: int


def validate_people(
    estimator: Any,
    X: Any,
    y: Any,
    sensitive_features: Any,
    sample_weight: Any,
    *,
    needs_sensitive: bool,
    read: Callable[[NDArray[Any]], Any],
) -> People:
    """Check the arguments of ``fit`` whatever the targets are; ``read`` checks and converts these."""
    if needs_sensitive and sensitive_features is None:
        raise ValueError(
            f"{type(estimator).__name__} with the constraint {estimator._constraint()!r} needs "
            "sensitive_features in fit; give them by name (the third argument of fit is sample_weight), or set "
            "constraint=None for an unconstrained fit."
        )
    _check_as_given(X, y, sample_weight)
    names = _column_names(X)
    sources = getattr(X, "sources", ())
    X, y = _validate_both(estimator, X, y)
    if sp.issparse(X):
        X = _in_canonical_form(X)
    target = read(y)
    n = X.shape[0]
    weight = validate_weights(sample_weight, X)
    kept = np.flatnonzero(weight > 0) if sample_weight is not None else np.arange(n)
    if len(kept) == 0:
        raise ValueError("Every sample weight is zero: there is nobody to learn from.")
    sensitive = None
    if sensitive_features is not None:
        with ONE_AT_A_TIME:
            sensitive = encode_sensitive(sensitive_features, n)
        check_disparate_treatment(X, names, sensitive, sources)
    if len(kept) < n:
        X, weight = X[kept], weight[kept]
        sensitive = None if sensitive is None else sensitive.take(kept)
        check_two_groups(sensitive)
    if sensitive is not None:
        refuse_recodings(getattr(X, "categorical_columns", tuple)(), sensitive)
    return People(X, target, weight, sensitive, kept, n)


def _check_as_given(X: Any, y: Any, sample_weight: Any) -> None:
    """Raise for containers that no array can be made of, and for missing labels."""
    check_container(X, "X")
    if y is not None:  # scikit-learn has a good message for that
        check_container(y, "y")
        check_no_missing(y, "y")
    if sample_weight is not None and not isinstance(sample_weight, Real):
        check_container(sample_weight, "sample_weight")


def _in_canonical_form(X: Any) -> Any:
    """Return a CSR matrix with every entry stored once and in order: what was given, if it is that already.

    Indices beyond its columns, as damaged files have them, raise: products would follow them out of the array.
    """
    ends = X.indptr
    columns = X.indices[: ends[-1]]
    is_whole = len(ends) == X.shape[0] + 1 and ends[0] == 0 and ends[-1] <= min(len(X.indices), len(X.data))
    if not is_whole or np.any(ends[1:] < ends[:-1]):
        raise ValueError("X is a damaged sparse matrix: its rows do not follow each other.")
    if len(columns) and not (columns.min() >= 0 and columns.max() < X.shape[1]):
        raise ValueError(
            f"X is a damaged sparse matrix: it has entries in columns {columns.min()} to {columns.max()}, of "
            f"{X.shape[1]} columns."
        )
    if X.has_canonical_format:
        return X
    X = X.copy()
    X.sum_duplicates()
    return X


def _column_names(X: Any) -> list[str]:
    columns = getattr(X, "columns", getattr(X, "names", None))
    return [] if columns is None else [str(c) for c in columns]


def _binary_labels(y: Any) -> tuple[NDArray[Any], Array]:
    if y.dtype.kind in "biuf":
        classes = np.array([y.min(), y.max()], dtype=y.dtype)
        upper = y == classes[1]
        if classes[0] < classes[1] and np.all(classes == np.rint(classes)) and np.all(upper | (y == classes[0])):
            return classes, 2.0 * upper - 1.0  # plainly in order
    with ONE_AT_A_TIME:
        check_classification_targets(y)
        kind = type_of_target(y, input_name="y")
    classes, codes = np.unique(y, return_inverse=True)
    if kind != "binary" or len(classes) > 2:
        raise ValueError(
            f"Only binary classification is supported. The type of the target is {kind}: it has "
            f"{len(classes)} classes. For several classes there are FairMultinomialLogisticRegression and, for any "
            "other classifier, FairOneVsRestClassifier; to predict a number there is FairRegressor."
        )
    signed = np.where(codes == 1, 1.0, -1.0)
    if len(classes) < 2:
        raise ValueError(
            f"y has only one class ({classes.tolist()[0]!r}); a classifier needs two classes to learn from."
        )
    return classes, signed


def _favourable(classes: NDArray[Any], signed: Array, pos_label: Any, *, ask: bool) -> tuple[NDArray[Any], Array]:
    """Put the favourable class second; where none is named and ``ask``, warn unless the labels tell which it is."""
    positive = favourable_class(classes, pos_label, ask=ask)
    return (classes, signed) if positive == classes[1] else (classes[::-1], -signed)


def favourable_class(classes: NDArray[Any], pos_label: Any, *, ask: bool = True) -> Any:
    """Return ``pos_label``, which must be among the classes, or the second of the two.

    Where none is named and ``ask``, a ``FavourableClassWarning`` is given unless the labels tell which it is.
    """
    labels = classes.tolist()
    if pos_label is None:
        if ask and labels not in _PLAIN_LABELS:
            negative, positive = labels
            warn(
                f"{positive!r} is taken as the favourable class and {negative!r} as the other, as they are sorted; "
                "name the favourable class with pos_label.",
                FavourableClassWarning,
            )
        return classes[1]
    if pos_label not in labels:
        known = " and ".join(map(repr, labels))
        raise ValueError(f"pos_label={pos_label!r} is not among the labels of y, which are {known}.")
    return pos_label


def _check_two_classes(signed: Array, classes: NDArray[Any]) -> None:
    if abs(signed.sum()) == len(signed):
        only = classes[1] if signed[0] > 0 else classes[0]
        raise ValueError(f"All people with a positive weight are of one class ({only!r}); two classes are needed.")


def check_two_groups(sensitive: Sensitive | None) -> None:
    """Raise if a sensitive attribute does not vary."""
    for attribute in () if sensitive is None else sensitive.attributes:
        if not np.any(np.ptp(attribute.columns(), axis=0)):
            raise ValueError(
                f"All people with a positive weight are in only one group of the sensitive attribute "
                f"{attribute.name!r}: there is nothing to be fair between."
            )


def class_factors(class_weight: Any, classes: NDArray[Any], signed: Array, weight: Array) -> Array:
    """Return the factor on the loss of each person (N,), or of each class where that is what the arrays are about."""
    if class_weight is None:
        return np.ones_like(signed)
    if isinstance(class_weight, str) and class_weight == "balanced":  # by weight: copies count as their weight does
        up = float(weight[signed > 0].sum())
        total = float(weight.sum())
        return np.where(signed > 0, total / (2.0 * up), total / (2.0 * (total - up)))
    if not isinstance(class_weight, Mapping):
        raise ValueError(
            f"class_weight must be None, 'balanced' or a mapping from class to factor, got {class_weight!r}."
        )
    labels = classes[(signed > 0).astype(int)]
    factors = compute_class_weight(class_weight, classes=classes, y=labels)
    if np.any(factors <= 0) or not np.all(np.isfinite(factors)):
        raise ValueError(f"class_weight must be positive for both classes, got {class_weight!r}.")
    return np.where(signed > 0, factors[1], factors[0])


def check_flag(value: Any, name: str) -> bool:
    """Return True or False; raise for anything else, such as a text that would count as true."""
    if not isinstance(value, bool | np.bool_) and not (isinstance(value, Integral) and value in (0, 1)):
        raise ValueError(f"{name} must be True or False, got {value!r}.")
    return bool(value)


def check_count(value: Any, name: str) -> int:
    """Return a positive whole number; raise for anything else."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ValueError(f"{name} must be a positive whole number, got {value!r}.")
    return int(value)


def check_share(value: Any, name: str) -> float:
    """Return a number between 0 and 1; raise for anything else."""
    if not isinstance(value, Real) or not 0 <= float(value) <= 1:
        raise ValueError(f"{name} must be a number between 0 and 1, got {value!r}.")
    return float(value)


def check_number(value: Any, name: str, *, positive: bool = False, allow_inf: bool = False) -> float:
    """Return ``value`` as a float; raise if it is not a number within the stated range."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ValueError(f"{name} must be a number, got {value!r}.")
    number = float(value)
    if np.isnan(number) or (np.isinf(number) and not allow_inf):
        raise ValueError(f"{name} must be finite, got {value!r}.")
    if positive and number <= 0:
        raise ValueError(f"{name} must be positive, got {value!r}.")
    return number
