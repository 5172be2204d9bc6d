"""Misspelled arguments: an error that names the estimator called and the argument that was probably meant."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

__all__ = ["names_arguments"]

P = ParamSpec("P")
T = TypeVar("T")


def names_arguments(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], T]:
    """Decorate a method: an argument that it does not take raises a TypeError with the nearest that it does.

    Of a method that passes further arguments on, only required ones are recognised, where they are missing.
    """
    parameters = list(inspect.signature(method).parameters.values())[1:]
    known = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD]
    passes_on = len(known) < len(parameters)
    required = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]

    @wraps(method)
    def checked(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        meant = [name for name in required if name not in kwargs] if passes_on else known
        for name in (name for name in kwargs if name not in known):
            near = difflib.get_close_matches(name, meant, n=1)
            if near or not passes_on:
                hint = f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(known)}."
                raise TypeError(f"{type(self).__name__}.{method.__name__}() takes no argument {name!r}; {hint}")
        return method(self, *args, **kwargs)

    return checked
