"""Fair classification with convex margin-based classifiers."""

__version__ = "0.1.0"
