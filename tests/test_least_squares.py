"""Least squares of any rank, and where LAPACK's default does not converge."""

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st

from fairmargin import FairSVC
from fairmargin.least_squares import least_norm_solution

pytestmark = pytest.mark.numerical


@given(
    st.integers(0, 2**31),
    st.integers(1, 12),
    st.integers(1, 12),
    st.integers(0, 12),
    st.sampled_from([(), (0,), (3,)]),
)
def test_the_pseudoinverse(seed, m, n, rank, more):
    rng = np.random.default_rng(seed)
    rank = min(rank, m, n)
    u, v = (np.linalg.qr(rng.normal(size=(k, k)))[0][:, :rank] for k in (m, n))
    sizes = rng.uniform(0.1, 1.0, rank)
    right = rng.normal(size=(m, *more))
    found = least_norm_solution(u * sizes @ v.T, right)
    np.testing.assert_allclose(found, v / sizes @ (u.T @ right), rtol=0, atol=1e-12)


def test_no_singular_values_are_needed(monkeypatch):
    """With two threads an SVD of the conditions at the corner did not converge, and the error reached the user."""

    by_singular_values = {None, "gelsd", "gelss"}
    solve = scipy.linalg.lstsq

    def unlucky(*args, lapack_driver=None, **more):
        if lapack_driver in by_singular_values:
            raise np.linalg.LinAlgError("SVD did not converge in Linear Least Squares")
        return solve(*args, lapack_driver=lapack_driver, **more)

    monkeypatch.setattr(scipy.linalg, "lstsq", unlucky)
    rng = np.random.default_rng(0)
    X, z = rng.normal(size=(120, 3)), rng.integers(0, 2, 120)
    y = (X[:, 0] + z + rng.normal(size=120) > 0.5).astype(int)
    clf = FairSVC(gamma=5.0).fit(np.round(X), y, sensitive_features=z)
    assert clf.certificate_.status == "solved"
