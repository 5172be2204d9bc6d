"""Models as plain JSON files: :func:`save` and :func:`load`; and the types that skops must trust."""

from fairmargin.tables.model_file import FORMAT_VERSION, ModelFileError, load, save
from fairmargin.trusted_types import trusted_types

__all__ = ["FORMAT_VERSION", "ModelFileError", "load", "save", "trusted_types"]
