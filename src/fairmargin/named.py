"""What losses and notions share: value objects known by name, which others may add."""

from __future__ import annotations

from typing import Generic, TypeVar

__all__ = ["Named", "Registry"]

T = TypeVar("T", bound="Named")


class Named:
    """An immutable object with a name, equal to another of its class with the same parameters."""

    name: str = ""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), tuple(sorted(vars(self).items()))))


class Registry(Generic[T]):
    """Classes by name, each of which can be made without arguments."""

    def __init__(self) -> None:
        self._kinds: dict[str, type[T]] = {}

    def register(self, kind: type[T]) -> type[T]:
        """Make a class known under its ``name``; a class decorator."""
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
