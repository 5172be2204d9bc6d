"""The point of a polyhedron that is nearest to the origin, and its multipliers: a step under many rows.

    min 1/2 |x|^2   s.t.   G x >= h

is least distance programming. With ``u >= 0`` the minimiser of ``|E u - f|``, ``E = [G, h]'`` and ``f`` the last
unit vector, and ``r = E u - f``, the point is ``x = -r_1..n / r_{n+1}`` and its multipliers are ``-u / r_{n+1}``.
Orthogonal transformations of ``G`` itself replace products ``G G'``: where many rows meet in a vertex, as promises
to people do, half of the digits would be lost in these.

Reference: Lawson and Hanson, Solving Least Squares Problems, 1974, chapter 23.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from fairmargin.tolerances import ROUNDING

__all__ = ["nearest_point"]

Array = NDArray[np.float64]


def nearest_point(columns: Array, lower: Array, upper: Array) -> tuple[Array, Array] | None:
    """Return the shortest ``x`` (n,) with ``lower <= W' x <= upper``, and ``nu`` (K,) with ``x = -W nu``.

    Parameters
    ----------
    columns : (n, K)
        The matrix ``W``; a column of zeros cannot be moved and gets no multiplier.
    lower, upper : (K,)
        Infinite where there is no bound.

    Returns
    -------
    x, nu : ndarray or None
        None where no such point was found. ``nu_k`` is positive only at an upper bound, negative only at a lower one.
    """
    size = np.sqrt(np.einsum("ij,ij->j", columns, columns))
    below, above = (np.flatnonzero(np.isfinite(bound) & (size > 0)) for bound in (lower, upper))
    rows, side = np.concatenate([below, above]), np.repeat([1.0, -1.0], [len(below), len(above)])
    h = side * np.concatenate([lower[below], upper[above]]) / size[rows]
    nu = np.zeros(len(size))
    missed = float(np.max(h, initial=0.0))
    if missed == 0.0:
        return np.zeros(len(columns)), nu
    E = np.vstack([columns[:, rows] * (side / size[rows]), h / missed])
    f = np.append(np.zeros(len(columns)), 1.0)
    try:
        u = nnls(E, f)[0]
    except RuntimeError:  # too many changes of the active rows
        return None
    r = E @ u - f
    if not r[-1] < -ROUNDING:  # r_{n+1} = -1 / (1 + |x|^2), in units of what is missed: nothing satisfies all bounds
        return None
    unit = -missed / r[-1]
    np.add.at(nu, rows, -unit * side * u / size[rows])
    return unit * r[:-1], nu
