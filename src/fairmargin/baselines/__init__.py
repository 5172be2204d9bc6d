"""The methods that the paper compares with or builds on, as scikit-learn classifiers.

================================  =============================  =================================  ==================
class                             method                         applies to                         z needed to decide
================================  =============================  =================================  ==================
`Massaging`                       Kamiran and Calders (2009)     any score-based classifier         no
`PreferentialSampling`            Kamiran and Calders (2010)     any score-based classifier         no
`Reweighing`                      Kamiran and Calders (2012)     any that takes sample weights      no
`ModifiedNaiveBayes`              Calders and Verwer (2010)      naive Bayes                        **yes**
`TwoNaiveBayes`                   Calders and Verwer (2010)      naive Bayes                        **yes**
`LatentNaiveBayes`                Calders and Verwer (2010)      naive Bayes                        no
`SituationTestingCorrection`      Luong et al. (2011)            any classifier                     no
`PrejudiceRemover`                Kamishima et al. (2011)        logistic regression                **yes**
`FairnessThroughAwareness`        Dwork et al. (2012)            randomised decisions               no
`FairRepresentations`             Zemel et al. (2013)            prototypes, log loss               with group weights
`RepairedClassifier`              Feldman et al. (2015)          any classifier                     **yes**
`DatasetConstraints`              Goh et al. (2016)              linear, ramp loss                  no
`SearchFair`                      Lohaus et al. (2020)           linear, convex losses              no
================================  =============================  =================================  ==================

`SituationTesting` finds the people who are treated worse than similar others, `DisparateImpactRemover` repairs
features, and `certify_disparate_impact` asks whether features tell of z at all. PS-LR and PS-SVM of the paper are
``PreferentialSampling(LogisticRegression())`` and ``PreferentialSampling(LinearSVC())``, R-LR is
``PrejudiceRemover()``. Each class says what it can do in its attribute ``capabilities``; :func:`capabilities` returns
all of them in the columns of the paper's Table 1.
"""

from fairmargin.baselines._capabilities import Capabilities
from fairmargin.baselines.dataset_constraints import DatasetConstraints
from fairmargin.baselines.disparate_impact_certificate import DisparateImpactCertificate, certify_disparate_impact
from fairmargin.baselines.disparate_impact_remover import DisparateImpactRemover, RepairedClassifier
from fairmargin.baselines.fair_representations import FairRepresentations
from fairmargin.baselines.fairness_through_awareness import FairnessThroughAwareness, solve_lipschitz_program
from fairmargin.baselines.latent_naive_bayes import LatentNaiveBayes
from fairmargin.baselines.massaging import Massaging
from fairmargin.baselines.modified_naive_bayes import ModifiedNaiveBayes
from fairmargin.baselines.preferential_sampling import PreferentialSampling
from fairmargin.baselines.prejudice_remover import PrejudiceRemover
from fairmargin.baselines.registry import METHODS, Method, capabilities
from fairmargin.baselines.reweighing import Reweighing
from fairmargin.baselines.search_fair import SearchFair
from fairmargin.baselines.situation_testing import SituationTesting, SituationTestingCorrection
from fairmargin.baselines.two_naive_bayes import TwoNaiveBayes

__all__ = [
    "METHODS",
    "Capabilities",
    "DatasetConstraints",
    "DisparateImpactCertificate",
    "DisparateImpactRemover",
    "FairRepresentations",
    "FairnessThroughAwareness",
    "LatentNaiveBayes",
    "Massaging",
    "Method",
    "ModifiedNaiveBayes",
    "PreferentialSampling",
    "PrejudiceRemover",
    "RepairedClassifier",
    "Reweighing",
    "SearchFair",
    "SituationTesting",
    "SituationTestingCorrection",
    "TwoNaiveBayes",
    "capabilities",
    "certify_disparate_impact",
    "solve_lipschitz_program",
]
