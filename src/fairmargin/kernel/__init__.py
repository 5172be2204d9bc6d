"""Fair kernel machines: kernels become features, and the linear engine does the rest.

The problem, in the space H of the kernel with ``phi(x) = k(x, .)``, is

    min  1/2 |f|^2 + C sum_i s_i loss(y_i (f(x_i) + b))   subject to what the constraint asks.

It is solved over a span of functions (:mod:`fairmargin.kernel.span`): an orthonormal basis of the span gives features
``F`` (N, r) in which ``f`` is linear and has the norm of its coefficients, so that every loss and constraint works as
for linear classifiers. The span begins with the landmarks of a partial Cholesky factorisation
(:mod:`fairmargin.kernel.cholesky`) and is extended until the optimum over it is close to the optimum over the whole
of H (:mod:`fairmargin.kernel.refinement`).
"""

from fairmargin.exceptions import ApproximationWarning
from fairmargin.kernel.features import KernelFeatures
from fairmargin.kernel.svc import FairSVC

__all__ = ["ApproximationWarning", "FairSVC", "KernelFeatures"]

# The path under which the estimators are documented, saved and pickled, whatever file they are written in.
FairSVC.__module__ = KernelFeatures.__module__ = __name__
