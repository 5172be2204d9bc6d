"""All methods in one table: what each is called, where it comes from, what it can do, and how to make it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from fairmargin.baselines._capabilities import Capabilities
from fairmargin.baselines.dataset_constraints import DatasetConstraints
from fairmargin.baselines.disparate_impact_remover import RepairedClassifier
from fairmargin.baselines.fair_representations import FairRepresentations
from fairmargin.baselines.fairness_through_awareness import FairnessThroughAwareness
from fairmargin.baselines.latent_naive_bayes import LatentNaiveBayes
from fairmargin.baselines.massaging import Massaging
from fairmargin.baselines.modified_naive_bayes import ModifiedNaiveBayes
from fairmargin.baselines.preferential_sampling import PreferentialSampling
from fairmargin.baselines.prejudice_remover import PrejudiceRemover
from fairmargin.baselines.reweighing import Reweighing
from fairmargin.baselines.search_fair import SearchFair
from fairmargin.baselines.situation_testing import SituationTestingCorrection
from fairmargin.baselines.two_naive_bayes import TwoNaiveBayes

__all__ = ["METHODS", "TABLE_COLUMNS", "Method", "capabilities"]

# The columns of the paper's Table 1, and what each is called in `Capabilities`.
TABLE_COLUMNS = {
    "Disparate treatment": "avoids_disparate_treatment",
    "Disparate impact": "avoids_disparate_impact",
    "Business necessity": "business_necessity",
    "Polyvalent attributes": "polyvalent",
    "Multiple attributes": "multiple",
    "Classifiers": "classifiers",
}


@dataclass(frozen=True)
class Method:
    """A method of the package.

    Attributes
    ----------
    key : str
        A short name, as on the command line.
    title, reference : str
        What it is called, and who published it when.
    estimator : type
    capabilities : Capabilities
    make : callable
        ``make(base)`` returns an unfitted classifier; ``base`` is wrapped by the methods that wrap one.
    dial : str or None
        The parameter that trades accuracy for fairness, if there is one,
    settings : tuple of float
        and values of it, from the least to the most fair.
    takes_categories : bool
        Whether ``fit`` makes more of a frame with categories than of a matrix of indicators.
    """

    key: str
    title: str
    reference: str
    estimator: type
    capabilities: Capabilities
    make: Callable[[Any], Any]
    dial: str | None = None
    settings: tuple[float, ...] = ()
    takes_categories: bool = False


def _method(key: str, title: str, reference: str, estimator: type, make: Callable[[Any], Any], **more: Any) -> Method:
    declared = more.pop("capabilities", None) or estimator.capabilities  # type: ignore[attr-defined]
    return Method(key, title, reference, estimator, declared, make, **more)


_STRENGTHS = {"dial": "strength", "settings": (0.25, 0.5, 0.75, 1.0)}
_PARITY = {"dial": "parity", "settings": (0.1, 0.3, 1.0)}

METHODS: tuple[Method, ...] = (
    _method("massaging", "Massaging", "Kamiran and Calders (2009)", Massaging, Massaging, **_STRENGTHS),
    _method("reweighing", "Reweighing", "Kamiran and Calders (2012)", Reweighing, Reweighing, **_STRENGTHS),
    _method(
        "preferential-sampling",
        "Preferential sampling",
        "Kamiran and Calders (2010)",
        PreferentialSampling,
        PreferentialSampling,
        **_STRENGTHS,
    ),
    _method(
        "modified-nb",
        "Modified naive Bayes",
        "Calders and Verwer (2010)",
        ModifiedNaiveBayes,
        lambda base: ModifiedNaiveBayes(),
        takes_categories=True,
    ),
    _method(
        "two-nb",
        "Two naive Bayes",
        "Calders and Verwer (2010)",
        TwoNaiveBayes,
        lambda base: TwoNaiveBayes(),
        takes_categories=True,
    ),
    _method(
        "latent-nb",
        "Latent naive Bayes",
        "Calders and Verwer (2010)",
        LatentNaiveBayes,
        lambda base: LatentNaiveBayes(),
        takes_categories=True,
    ),
    _method(
        "situation-testing",
        "Situation testing",
        "Luong et al. (2011)",
        SituationTestingCorrection,
        SituationTestingCorrection,
        dial="t",
        settings=(0.5, 0.3, 0.1),
        takes_categories=True,
    ),
    _method(
        "prejudice-remover",
        "Prejudice remover",
        "Kamishima et al. (2011)",
        PrejudiceRemover,
        lambda base: PrejudiceRemover(),
        dial="eta",
        settings=(1.0, 5.0, 15.0, 30.0, 100.0),
    ),
    _method(
        "awareness",
        "Fairness through awareness",
        "Dwork et al. (2012)",
        FairnessThroughAwareness,
        FairnessThroughAwareness,
        dial="scale",
        settings=(1.0, 0.7, 0.5),
    ),
    _method(
        "fair-representations",
        "Fair representations",
        "Zemel et al. (2013)",
        FairRepresentations,
        lambda base: FairRepresentations(random_state=0),
        **_PARITY,
    ),
    _method(
        "fair-representations-by-group",
        "Fair representations, weights by group",
        "Zemel et al. (2013)",
        FairRepresentations,
        lambda base: FairRepresentations(group_weights=True, random_state=0),
        capabilities=FairRepresentations.capabilities_with_group_weights,
        **_PARITY,
    ),
    _method(
        "disparate-impact-remover",
        "Disparate impact remover",
        "Feldman et al. (2015)",
        RepairedClassifier,
        RepairedClassifier,
        dial="repair",
        settings=(0.25, 0.5, 0.75, 1.0),
    ),
    _method(
        "dataset-constraints",
        "Dataset constraints",
        "Goh et al. (2016)",
        DatasetConstraints,
        lambda base: DatasetConstraints(tol=1e-3),  # on Adult 7 rounds instead of 10, and the same accuracy
        dial="p",
        settings=(50.0, 80.0, 95.0),
    ),
    _method(
        "search-fair",
        "SearchFair",
        "Lohaus et al. (2020)",
        SearchFair,
        lambda base: SearchFair(),
        dial="difference",
        settings=(0.1, 0.05, 0.0),
    ),
)


def capabilities() -> pd.DataFrame:
    """Return what every method of `fairmargin.baselines` declares, in the columns of the paper's Table 1.

    Returns
    -------
    DataFrame
        A row per method, indexed by its title: ``Reference``, ``Class``, the columns of Table 1,
        ``Needs z to decide``, and ``Extensions``: those of the columns that this package adds to the method.

    Examples
    --------
    >>> table = capabilities()
    >>> table.loc["Two naive Bayes", "Needs z to decide"]
    True
    >>> table.loc["Massaging", "Extensions"]
    'Polyvalent attributes, Multiple attributes'
    """
    rows = [
        {
            "Method": method.title,
            "Reference": method.reference,
            "Class": method.estimator.__name__,
            **{title: getattr(method.capabilities, name) for title, name in TABLE_COLUMNS.items()},
            "Needs z to decide": method.capabilities.needs_z_at_prediction,
            "Extensions": ", ".join(t for t, name in TABLE_COLUMNS.items() if name in method.capabilities.extensions),
        }
        for method in METHODS
    ]
    return pd.DataFrame(rows).set_index("Method").astype({"Needs z to decide": object})
