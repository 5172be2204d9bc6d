"""Models as plain JSON files: :func:`save` and :func:`load`."""

from fairmargin.tables.model_file import FORMAT_VERSION, ModelFileError, load, save

__all__ = ["FORMAT_VERSION", "ModelFileError", "load", "save"]
