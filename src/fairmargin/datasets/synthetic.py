"""The paper's synthetic data: two features, a label, and one sensitive attribute correlated with the label.

Features are drawn given the label from ``p(x | y)``. The sensitive attribute is then drawn given the
*rotated* features
``x' = x R``, with ``R`` the matrix ``[cos phi, -sin phi; sin phi, cos phi]``::

    P(z = 1) = p(x' | y = +1) / (p(x' | y = +1) + p(x' | y = -1)).

The closer ``phi`` is to 0, the more the attribute is correlated with it. The paper's text rotates the other way
(``x' = R x``); multiplying on the right gives the shares that the authors report for their experiments, 70%
of z = 1 and 33% of z = 0 in the positive class at ``phi = pi/4``, so it is what is done here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.utils import check_random_state

__all__ = ["make_linear_synthetic", "make_nonlinear_synthetic"]


@dataclass(frozen=True)
class _Gaussian:
    """A two-dimensional normal distribution, held as mean and Cholesky factor of its covariance."""

    mean: np.ndarray
    factor: np.ndarray

    @classmethod
    def of(cls, mean: Sequence[float], covariance: Any) -> _Gaussian:
        return cls(np.asarray(mean, dtype=np.float64), np.linalg.cholesky(np.asarray(covariance, dtype=np.float64)))

    def sample(self, noise: np.ndarray) -> np.ndarray:
        """Turn standard normal ``noise`` (n, 2) into draws (n, 2)."""
        return self.mean + noise @ self.factor.T

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """Log-density at ``x`` (n, 2), up to the constant -log(2 pi) that all share."""
        residual = np.linalg.solve(self.factor, (x - self.mean).T)
        return -0.5 * (residual**2).sum(axis=0) - np.log(np.diag(self.factor)).sum()


Mixture = Sequence[_Gaussian]
"""Distributions of equal weight."""

POSITIVE = _Gaussian.of([2, 2], [[5, 1], [1, 5]])
NEGATIVE = _Gaussian.of([-2, -2], [[10, 1], [1, 3]])


def make_linear_synthetic(
    n_samples: int = 4000, phi: float = math.pi / 4, random_state: Any = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw the paper's linear synthetic data (Section 4.1).

    Labels are uniform; ``x | y=+1 ~ N([2, 2], [5 1; 1 5])`` and ``x | y=-1 ~ N([-2, -2], [10 1; 1 3])``.

    Parameters
    ----------
    n_samples : int
        Number of people.
    phi : float
        Rotation in radians; the closer to 0, the stronger the correlation of attribute and label.
    random_state : int, RandomState instance or None
        An int makes the draw repeatable.

    Returns
    -------
    X : ndarray (n_samples, 2)
    y : ndarray (n_samples,) in {-1, +1}
    z : ndarray (n_samples,) in {0, 1}
    """
    return _draw([POSITIVE], [NEGATIVE], n_samples, phi, random_state)


def make_nonlinear_synthetic(
    n_samples: int = 4000,
    phi: float = math.pi / 4,
    random_state: Any = None,
    *,
    covariance: Any = ((4.0, 2.0), (2.0, 5.0)),
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw the paper's non-linear synthetic data (appendix): each class is a mixture of two Gaussians.

    ``x | y=+1`` is ``N([2, 2], [5 1; 1 5])`` or ``N([-2, -2], [10 1; 1 3])``, ``x | y=-1`` is ``N([4, -4],
    covariance)`` or ``N([-4, 6], [6 2; 2 3])``, each with probability one half. The sensitive attribute is
    drawn from the densities of the mixtures.

    Parameters
    ----------
    n_samples, phi, random_state
        As in :func:`make_linear_synthetic`.
    covariance : array-like (2, 2), symmetric and positive definite
        Covariance of the component at (4, -4). The paper prints ``[4 4; 2 5]``, which is not symmetric and so
        no covariance; the default takes its lower triangle.

    Returns
    -------
    X : ndarray (n_samples, 2)
    y : ndarray (n_samples,) in {-1, +1}
    z : ndarray (n_samples,) in {0, 1}
    """
    negative = [_Gaussian.of([4, -4], _checked(covariance)), _Gaussian.of([-4, 6], [[6, 2], [2, 3]])]
    return _draw([POSITIVE, NEGATIVE], negative, n_samples, phi, random_state)


def _checked(covariance: Any) -> np.ndarray:
    matrix = np.asarray(covariance, dtype=np.float64)
    if matrix.shape != (2, 2) or not np.array_equal(matrix, matrix.T) or np.linalg.eigvalsh(matrix).min() <= 0:
        raise ValueError(f"covariance must be a symmetric positive definite 2 x 2 matrix, got {covariance!r}")
    return matrix


def _draw(
    positive: Mixture, negative: Mixture, n_samples: int, phi: float, random_state: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    if n_samples < 1:
        raise ValueError(f"n_samples must be at least 1, got {n_samples}")
    if not math.isfinite(phi):
        raise ValueError(f"phi must be a finite angle in radians, got {phi}")
    rng = check_random_state(random_state)
    y = 2 * rng.randint(2, size=n_samples) - 1
    component = rng.randint(len(positive), size=n_samples)
    noise = rng.standard_normal((n_samples, 2))
    X = np.empty((n_samples, 2))
    for label, mixture in ((1, positive), (-1, negative)):
        for k, gaussian in enumerate(mixture):
            rows = (y == label) & (component == k)
            X[rows] = gaussian.sample(noise[rows])
    log_odds = _log_density(positive, X @ _rotation(phi)) - _log_density(negative, X @ _rotation(phi))
    z = (rng.uniform(size=n_samples) < expit(log_odds)).astype(np.int64)
    return X, y, z


def _rotation(phi: float) -> np.ndarray:
    return np.array([[math.cos(phi), -math.sin(phi)], [math.sin(phi), math.cos(phi)]])


def _log_density(mixture: Mixture, x: np.ndarray) -> np.ndarray:
    """Log-density of a mixture at ``x`` (n, 2), up to the constants that both classes share."""
    return np.logaddexp.reduce([gaussian.log_density(x) for gaussian in mixture], axis=0)
