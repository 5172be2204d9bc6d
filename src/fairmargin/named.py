"""What losses and notions share: value objects known by name, which others may add."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Generic, TypeVar

import numpy as np

__all__ = ["Named", "Registry", "import_modules"]

T = TypeVar("T", bound="Named")


class Named:
    """An immutable object with a name, equal to another of its class with the same parameters.

    Parameters are kept in attributes of their names.
    """

    name: str = ""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Named) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[type, tuple[tuple[str, Any], ...]]:
        """Return the class and the parameters, arrays by their contents."""
        parameters = sorted(vars(self).items())
        return type(self), tuple(
            (name, (value.shape, tuple(value.ravel().tolist())) if isinstance(value, np.ndarray) else value)
            for name, value in parameters
        )


class Registry(Generic[T]):
    """Classes by name, each of which can be made without arguments."""

    def __init__(self) -> None:
        self._kinds: dict[str, type[T]] = {}

    def register(self, kind: type[T]) -> type[T]:
        """Make a class known under its ``name``; a class decorator.

        A module may define its class anew; the name of another module's class is refused, as of a copied file.
        """
        known = self._kinds.setdefault(kind.name, kind)
        if known.__module__ != kind.__module__:
            raise ValueError(
                f"{kind.__module__}.{kind.__name__} has the name {kind.name!r}, which is that of "
                f"{known.__module__}.{known.__name__}; give it another."
            )
        self._kinds[kind.name] = kind
        return kind

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._kinds

    def has_kind(self, thing: object) -> bool:
        """Whether ``thing`` is an instance of exactly one of the classes."""
        return type(thing) in self._kinds.values()

    def make(self, name: str) -> T:
        """Return an object of the class called ``name``."""
        return self._kinds[name]()

    @property
    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(self._kinds)


def import_modules(package: str, path: Iterable[str]) -> None:
    """Import every module of a package, given by its name and ``__path__``, so that what they register is known."""
    for module in iter_modules(path):
        import_module(f"{package}.{module.name}")
