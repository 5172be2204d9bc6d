"""What a compared method can do, as it declares it."""

from __future__ import annotations

from dataclasses import dataclass, fields

__all__ = ["Capabilities"]


@dataclass(frozen=True)
class Capabilities:
    """What a method can do, in the columns of the paper's Table 1, and whether it needs z to decide.

    ``avoids_disparate_treatment`` and ``avoids_disparate_impact`` say which kinds of unfairness the method is
    made to avoid, ``business_necessity`` whether fairness can be had under a bound on the loss of accuracy,
    ``polyvalent`` whether an attribute may have more than two values, ``multiple`` whether there may be
    several attributes, ``classifiers`` what it can be applied to. ``extensions`` names those of the columns that
    this code adds to the method as published.
    """

    avoids_disparate_treatment: bool
    avoids_disparate_impact: bool
    business_necessity: bool
    polyvalent: bool
    multiple: bool
    classifiers: str
    needs_z_at_prediction: bool
    extensions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        known = {field.name for field in fields(self)}
        if not set(self.extensions) <= known:
            raise ValueError(f"extensions must name columns of the table, got {self.extensions!r}.")
