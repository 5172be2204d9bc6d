"""The hinge loss, exactly: three solvers for the problem that smooth methods cannot take.

``multipliers`` is the one in use: Newton's method on a rounded corner that sharpens, on the rows near the margin.
``interior_point`` and, without a penalty, ``linear_program`` take over where it does not reach the accuracy asked
for. ``vertex`` and ``intercept`` make the answer independent of how the iteration went.
"""

from fairmargin.solvers.hinge.intercept import centre_flat_intercept
from fairmargin.solvers.hinge.interior_point import solve_interior_point
from fairmargin.solvers.hinge.linear_program import solve_hinge_program
from fairmargin.solvers.hinge.multipliers import FIRST_WIDTH, solve_multipliers
from fairmargin.solvers.hinge.vertex import solve_active_set

__all__ = [
    "FIRST_WIDTH",
    "centre_flat_intercept",
    "solve_active_set",
    "solve_hinge_program",
    "solve_interior_point",
    "solve_multipliers",
]
