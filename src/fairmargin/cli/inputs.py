"""What a command reads: the table, the question put to it, the decisions to audit, a model."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairmargin.exceptions import DataError
from fairmargin.missing_file import describe_missing

if TYPE_CHECKING:
    from fairmargin.tables import Study, Table, TabularModel

__all__ = [
    "Question",
    "check_percentage",
    "input_files",
    "max_bytes",
    "parse_bins",
    "parse_pairs",
    "read_model",
    "read_question",
    "read_study",
    "read_table_file",
    "read_value_names",
    "recorded_options",
    "split_names",
    "study_maker",
]

_GIGABYTE = 1_000_000_000
_TAB = ("\\t", "tab")
_KEY_BYTES = 16  # of a key that cannot be guessed


@dataclass(frozen=True)
class Question:
    """A table, and which of its columns the user asks about."""

    table: Table
    target: str | None
    positive: str | None
    sensitive: list[str]

    @property
    def counts(self) -> Any:
        """How many people each row of the table stands for; None where that is one."""
        return getattr(self.table, "counts", None)


def input_files(options: Mapping[str, Any]) -> list[Path | None]:
    """Return the files that the options of a command name as input; raise at once for one that is not there."""
    from fairmargin.cli.partitioned import files_of

    data = files_of(options.get("data") or [])
    for what, path in (("model file", options.get("model")), *(("file", p) for p in (*data, options.get("test")))):
        if path is not None and str(path) != "-" and _is_missing(path):
            raise DataError(describe_missing(path, what))
    return [
        *data,
        *(options.get(name) for name in ("model", "test", "baseline", "value_names", "sign_with")),
        *(Path(n) for n in (options.get("names"),) if n),
    ]


def _is_missing(path: Path) -> bool:
    try:
        os.stat(path)
    except FileNotFoundError:
        return True
    except (OSError, ValueError):  # whoever reads the file says what is wrong with it
        return False
    return False


def read_table_file(path: Path, options: Mapping[str, Any]) -> Table:
    """Read a table as the options say."""
    from fairmargin.tables import read_table

    delimiter = options["delimiter"]
    return read_table(
        path,
        names=options["names"],
        header=options["header"],
        delimiter="\t" if delimiter in _TAB else delimiter,
        encoding=options["encoding"],
        max_bytes=max_bytes(options),
        decimal=options.get("decimal", "."),
    )


def max_bytes(options: Mapping[str, Any]) -> int:
    """Return the size that a compressed file may have once it is read."""
    gigabytes = options["max_size"]
    if not 0 < gigabytes < 1e9:
        raise DataError(f"--max-size takes a positive number of gigabytes, got {gigabytes}.")
    return int(gigabytes * _GIGABYTE)


def read_question(options: Mapping[str, Any]) -> Question:
    """Read the data; the demo answers what the options leave open."""
    target, positive, sensitive = (options[name] for name in ("target", "positive", "sensitive"))
    if options["demo"]:
        if options["data"]:
            raise DataError("Give DATA or --demo, not both.")
        table = _demo_table()
        target, positive, sensitive = target or "repaid", positive or "yes", sensitive or ["sex", "origin"]
    elif not options["data"]:
        raise DataError("Name a data file, or try --demo.")
    else:
        table = read_table_file(_one_file(options["data"]), options)
    columns = split_names(sensitive or [], list(table.frame.columns))
    if not columns:
        raise DataError("Name at least one sensitive column: --sensitive COL.")
    return Question(table, target, positive, columns)


def _one_file(data: Any) -> Path:
    return Path(data if isinstance(data, str | Path) else data[0])


def _demo_table() -> Table:
    from fairmargin.datasets.demo import make_credit_demo
    from fairmargin.tables import table_of_frame

    note = "These data are made up for demonstration: nobody in them exists."
    return table_of_frame(make_credit_demo(), "built-in demo (made-up credit data)", [note])


def split_names(given: list[str], columns: list[str]) -> list[str]:
    """Take "a,b" for two columns unless there is a column of that name."""
    names: list[str] = []
    for name in given:
        names += [name] if name in columns else [part.strip() for part in name.split(",") if part.strip()]
    return names


def read_study(options: Mapping[str, Any]) -> Study:
    """Read, encode and split the data that the options of ``train`` and ``frontier`` name."""
    return study_maker(options)(options["seed"])


def study_maker(options: Mapping[str, Any]) -> Callable[..., Study]:
    """Read the data; return a function from a seed (and options of ``prepare``) to the study with that split."""
    asked = read_question(options)
    if asked.target is None:
        raise DataError("Name the column to predict: --target COL.")
    columns = list(asked.table.frame.columns)
    encoding = ["missing_sensitive", "min_frequency", "max_levels", "scale", "test_share", "seed"]
    encoding += ["rule", "min_people", "merge_small", "intersections"]
    encoding.remove("seed")
    test = options.get("test")
    return partial(
        _prepared,
        asked.table,
        test=None if test is None else read_table_file(test, options),
        target=asked.target,
        positive=asked.positive,
        sensitive=asked.sensitive,
        features=split_names(options["features"], columns) if options["features"] else None,
        exclude=split_names(options["exclude"] or [], columns),
        bins=parse_bins(options["bins"]),
        categorical=split_names(options.get("categorical") or [], columns),
        numeric=split_names(options.get("numeric") or [], columns),
        stratify=options.get("confidence") is None,
        value_names=read_value_names(options.get("value_names")),
        **{name: options[name] for name in encoding if name in options},
    )


def read_value_names(path: Path | None) -> dict[str, dict[str, str]]:
    """Return readable names of groups, by column and value, from a JSON file."""
    if path is None:
        return {}
    try:
        found = json.loads(path.read_bytes())
    except OSError as error:
        raise DataError(f"{str(path)!r} cannot be read: {error.strerror}.", field="value_names") from None
    except (ValueError, RecursionError):
        raise DataError(f"{path.name} is no JSON file.", field="value_names") from None
    named = isinstance(found, dict) and all(isinstance(names, dict) for names in found.values())
    if not named or not all(isinstance(name, str) for names in found.values() for name in names.values()):
        raise DataError(
            f'{path.name} must be an object of objects of texts, such as {{"SEX": {{"1": "men", "2": "women"}}}}.',
            field="value_names",
        )
    return found


def _prepared(table: Table, seed: int, **options: Any) -> Study:
    from fairmargin.tables import prepare

    return prepare(table, seed=seed, **options)


def read_model(path: Path) -> TabularModel:
    """Read a model that can be applied to a table."""
    from fairmargin import io
    from fairmargin.tables import TabularModel

    model = io.load(path)
    if not isinstance(model, TabularModel):
        raise DataError(f"{path.name} holds a classifier without the encoding of a table; use it from Python.")
    return model


def recorded_options(context: Any) -> dict[str, Any]:
    """Return the options of a command with the words that it was called with, and the key to sign with."""
    key = context.params["sign_with"]
    return {**context.params, "command_line": context.obj or (), "key": None if key is None else _read_key(key)}


def _read_key(path: Path) -> bytes:
    try:
        key = path.read_bytes().strip()
    except OSError as error:
        raise DataError(f"The key {str(path)!r} cannot be read: {error.strerror}.", field="sign_with") from None
    if len(key) < _KEY_BYTES:
        raise DataError(f"The key in {path.name} is shorter than {_KEY_BYTES} bytes.", field="sign_with")
    return key


def parse_pairs(given: list[str] | None, flag: str, columns: Sequence[str] | None = None) -> dict[str, str]:
    """Return what an option of the form COL=VALUE says; ``columns`` are those that it may name."""
    pairs: dict[str, str] = {}
    for text in given or []:
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise DataError(f"{flag} takes COL=VALUE, got {text!r}.")
        if columns is not None and name not in columns:
            raise DataError(f"{flag} names {name!r}, which is no sensitive column.")
        if name in pairs:
            raise DataError(f"{flag} is given twice for {name!r}.")
        pairs[name] = value
    return pairs


def parse_bins(given: list[str] | None) -> dict[str, list[float]]:
    """Return the limits that ``--bin`` gives, by column."""
    result = {}
    for name, limits in parse_pairs(given, "--bin").items():
        try:
            result[name] = [float(limit) for limit in limits.split(",")]
        except ValueError:
            raise DataError(f"--bin takes COL=NUMBER,NUMBER,..., got {name}={limits}.") from None
    return result


def check_percentage(value: float | None, flag: str) -> None:
    """Raise unless an option is a percentage; a share such as 0.8 is taken for a mistake."""
    if value is None:
        return
    if 0 < value <= 1:
        raise DataError(f"{flag} is a percentage and {value:g} is next to nothing; did you mean {100 * value:g}?")
    if not 0 <= value <= 100:  # nan too
        raise DataError(f"{flag} must be a percentage from 0 to 100, got {value:g}.")
