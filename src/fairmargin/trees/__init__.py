"""Fair tree ensembles: leaves as features, and their values learned under fairness constraints."""

from __future__ import annotations

from fairmargin.trees.classifier import FairTreeClassifier
from fairmargin.trees.features import LeafFeatures

__all__ = ["FairTreeClassifier", "LeafFeatures"]
