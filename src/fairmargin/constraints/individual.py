"""Promises to people, under which the covariance is minimised."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmargin.constraints.base import Constraint, check_gamma
from fairmargin.named_people import as_mask, in_groups
from fairmargin.notions import Notion, get_notion
from fairmargin.sensitive import Sensitive

__all__ = ["IndividualLossBound"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class IndividualLossBound(Constraint):
    """Minimise the covariance while keeping promises to individuals ("nobody approved today may be refused").

    Minimises the decision boundary covariance (of several columns the largest, each relative to the unconstrained
    classifier's) subject to ``loss_i <= (1 + gamma_i) loss_i*`` for every person, where ``loss_i*`` is the person's
    loss under the unconstrained classifier, and to ``f(x_i) >= 0`` for those who must keep their positive decision.
    The penalty ``1/2 ||w||^2`` is bounded in the same way; otherwise, a few people with extreme scores could reduce
    the covariance without any change of other decisions. Among the classifiers that attain the least covariance, the
    one with the least loss is returned.

    Parameters
    ----------
    gamma : float or array of shape (n,)
        How much each person's loss may grow; ``inf`` for no bound. The penalty may grow by the largest finite value;
        if there is none, it is not bounded.
    keep_positive : None, "accepted", mapping, bool mask or indices, default=None
        Who may not be refused: nobody; everybody whom the unconstrained classifier accepts; of those, the ones
        in a group (``{"sex": "Male"}`` or ``{"race": ["Black", "Other"]}``); or the people given, all of whom the
        unconstrained classifier must accept. To accept is to decide for ``classes_[1]``, the estimator's
        ``pos_label``.
    notion : str or Notion, default="selection_rate"
        Whose covariance is minimised: which people count when groups are compared; see :mod:`fairmargin.notions`. In
        a list, other constraints have a notion of their own.

    See Also
    --------
    LossBound : A bound on the total loss instead of each person's.

    Examples
    --------
    >>> IndividualLossBound(keep_positive="accepted")
    IndividualLossBound(gamma=inf, keep_positive='accepted')
    """

    gamma: Any = np.inf
    keep_positive: Any = None
    notion: str | Notion = field(default="selection_rate", kw_only=True)

    def __post_init__(self) -> None:
        get_notion(self.notion)
        for gamma in np.atleast_1d(np.asarray(self.gamma, dtype=object)).ravel():
            check_gamma(gamma, allow_inf=True)
        if isinstance(self.keep_positive, str) and self.keep_positive != "accepted":
            raise ValueError(
                "keep_positive must be None, 'accepted', a mapping from attribute to category, a mask or indices, "
                f"got {self.keep_positive!r}."
            )

    def gammas(self, n_given: int) -> Array:
        """Return ``gamma_i`` of each of the people given to ``fit``."""
        gamma = np.asarray(self.gamma, dtype=float)
        if gamma.ndim == 0:
            return np.full(n_given, float(gamma))
        if gamma.shape != (n_given,):
            raise ValueError(f"gamma has shape {gamma.shape}, but there are {n_given} people in X.")
        return gamma

    def kept(self, sensitive: Sensitive, accepted: NDArray[np.bool_], rows: NDArray[np.intp], n_given: int) -> Any:
        """Return the mask (of the people trained on) of those who must keep their positive decision.

        ``accepted`` is the unconstrained classifier's decision on them, ``rows`` their place among those given.
        """
        asked = self.keep_positive
        if asked is None:
            return np.zeros(len(rows), dtype=bool)
        if isinstance(asked, str):
            return accepted.copy()
        if isinstance(asked, Mapping):
            return accepted & in_groups(sensitive, asked, "keep_positive")
        mask = as_mask(asked, n_given, "keep_positive")[rows]
        refused = int(np.sum(mask & ~accepted))
        if refused:
            raise ValueError(
                f"keep_positive names {refused} people whom the unconstrained classifier refuses today; they have "
                "no positive decision to keep. Name only people it accepts."
            )
        return mask
