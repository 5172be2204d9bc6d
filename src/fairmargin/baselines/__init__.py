"""The methods that the paper compares with, as scikit-learn classifiers for one binary sensitive attribute.

======================  ===============================  ==============================  ==================
class                   method                           applies to                      z needed to decide
======================  ===============================  ==============================  ==================
`PreferentialSampling`  Kamiran and Calders (2010)       any score-based classifier      no
`Reweighing`            Kamiran and Calders (2012)       any that takes sample weights   no
`PrejudiceRemover`      Kamishima et al. (2011)          logistic regression             **yes**
======================  ===============================  ==============================  ==================

PS-LR and PS-SVM are ``PreferentialSampling(LogisticRegression())`` and ``PreferentialSampling(LinearSVC())``,
R-LR is ``PrejudiceRemover()``. Each class says what it can do in its attribute ``capabilities``, in the
columns of the paper's Table 1.
"""

from fairmargin.baselines._common import Capabilities
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
from fairmargin.baselines.reweighing import Reweighing
from fairmargin.baselines.search_fair import SearchFair
from fairmargin.baselines.situation_testing import SituationTesting, SituationTestingCorrection
from fairmargin.baselines.two_naive_bayes import TwoNaiveBayes

__all__ = [
    "Capabilities",
    "DatasetConstraints",
    "DisparateImpactCertificate",
    "DisparateImpactRemover",
    "FairRepresentations",
    "FairnessThroughAwareness",
    "LatentNaiveBayes",
    "Massaging",
    "ModifiedNaiveBayes",
    "PreferentialSampling",
    "PrejudiceRemover",
    "RepairedClassifier",
    "Reweighing",
    "SearchFair",
    "SituationTesting",
    "SituationTestingCorrection",
    "TwoNaiveBayes",
    "certify_disparate_impact",
    "solve_lipschitz_program",
]
