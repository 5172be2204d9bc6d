"""Solve a cvxpy problem as a reference, or leave the case out: its failure is not the library's."""

import warnings

import cvxpy as cp
import hypothesis
import pytest

LOOSER = {"tol_gap_abs": 1e-8, "tol_gap_rel": 1e-8, "tol_feas": 1e-8, "max_iter": 500}


def solve_reference(problem, **settings):
    """Solve with Clarabel; where it fails once more with wider tolerances, and else leave the case out."""
    for attempt in (settings, LOOSER):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "Solution may be inaccurate": the status says that too
            try:
                problem.solve("CLARABEL", **attempt)
            except cp.error.SolverError:
                continue
        if problem.status == cp.OPTIMAL:
            return
    leave_out(f"Clarabel ended {problem.status!r}")


def leave_out(reason):
    """End a test of a case without a reference: Hypothesis draws another one, other tests are skipped."""
    if hypothesis.currently_in_test_context():
        hypothesis.event(f"no reference: {reason}")
        hypothesis.assume(False)
    pytest.skip(reason)
