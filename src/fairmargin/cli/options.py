"""Options that several commands share, and which parameter of the library each one sets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "FLAGS",
    "Author",
    "Balanced",
    "Bins",
    "Categorical",
    "Data",
    "Decimal",
    "Delimiter",
    "Demo",
    "Encoding",
    "Engine",
    "EstimatorName",
    "Exclude",
    "Features",
    "Gains",
    "Header",
    "HeldOut",
    "Intersections",
    "JsonFile",
    "Kernel",
    "MarkdownFile",
    "MaxIter",
    "MaxLevels",
    "MaxSize",
    "MergeSmall",
    "MinFrequency",
    "MinPeople",
    "MissingSensitive",
    "Names",
    "NotionName",
    "Numeric",
    "Positive",
    "Purpose",
    "Quiet",
    "Regularisation",
    "ReportDate",
    "Rule",
    "Scale",
    "Seed",
    "Sensitive",
    "SigningKey",
    "Target",
    "TestFile",
    "TestShare",
    "Title",
    "ValueNames",
]

# The option that sets each parameter: errors of the library name parameters, those of the command line options.
FLAGS = {
    "C": "--C",
    "baseline": "--baseline",
    "bins": "--bin",
    "categorical": "--categorical",
    "confidence": "--confidence",
    "constraint": "--constraint",
    "decimal": "--decimal",
    "decision": "--decision",
    "decision_positive": "--decision-positive",
    "delimiter": "--delimiter",
    "encoding": "--encoding",
    "engine": "--engine",
    "estimator": "--estimator",
    "exclude": "--exclude",
    "features": "--features",
    "gains": "--gains",
    "held_out": "--held-out",
    "max_bytes": "--max-size",
    "max_iter": "--max-iter",
    "max_levels": "--max-levels",
    "min_frequency": "--min-frequency",
    "missing_sensitive": "--missing-sensitive",
    "names": "--names",
    "notion": "--notion",
    "numeric": "--numeric",
    "positive": "--positive",
    "profile": "--profile",
    "repeats": "--repeats",
    "rule": "--rule",
    "score": "--score",
    "seed": "--seed",
    "select": "--select",
    "sensitive": "--sensitive",
    "sign_with": "--sign-with",
    "strata": "--strata",
    "target": "--target",
    "test": "--test",
    "test_share": "--test-share",
    "value_names": "--value-names",
    "weights": "--weights",
}

Data = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="DATA",
        help="CSV (.gz too) or Parquet; - for standard input. Several Parquet files, folders, patterns: in passes.",
    ),
]
Engine = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="NAME",
        help="Read Parquet in passes on local (threads), dask://HOST:8786 or spark://HOST:7077.",
    ),
]
Demo = Annotated[bool, typer.Option("--demo", help="Use the built-in, made-up credit data instead of DATA.")]
Target = Annotated[str | None, typer.Option("--target", "-t", metavar="COL", help="Column to predict.")]
Positive = Annotated[str | None, typer.Option("--positive", "-p", metavar="VALUE", help="Its favourable value.")]
Sensitive = Annotated[
    list[str] | None,
    typer.Option("--sensitive", "-s", metavar="COL", help="Sensitive column; repeat it, or use commas."),
]
Bins = Annotated[
    list[str] | None, typer.Option("--bin", metavar="COL=A,B", help="Cut a sensitive number at these limits.")
]
MissingSensitive = Annotated[
    str,
    typer.Option(
        metavar="group|error|drop", help="People with a missing sensitive value: a group, an error, or left out."
    ),
]
Rule = Annotated[
    str,
    typer.Option(
        "--rule",
        metavar="rest|highest",
        help="Compare groups with everybody else, or with the highest rate (stricter).",
    ),
]
NotionName = Annotated[
    str,
    typer.Option(
        "--notion",
        metavar="NAME",
        help="Rates to compare: selection_rate, true_positive_rate, false_positive_rate, false_negative_rate, "
        "error_rate, equalized_odds, or the name of another notion.",
    ),
]
MinPeople = Annotated[
    int, typer.Option("--min-people", metavar="N", min=1, help="Smaller groups are listed, but decide nothing.")
]
MergeSmall = Annotated[
    bool, typer.Option("--merge-small", help="Put groups under --min-people together, and with the next.")
]
MaxIter = Annotated[
    int | None, typer.Option("--max-iter", metavar="N", min=1, help="Iterations of the solver before it gives up.")
]
Names = Annotated[
    str | None,
    typer.Option(metavar="A,B,...|FILE", help="Column names of a file without header (UCI Adult is recognised)."),
]
Header = Annotated[
    bool | None,
    typer.Option("--header/--no-header", help="Whether the first line holds the names; inferred by default."),
]
Delimiter = Annotated[
    str | None, typer.Option(metavar="CHAR", help="Column delimiter (tab for a tab); inferred by default.")
]
Encoding = Annotated[str, typer.Option(metavar="NAME", help="Text encoding of the file.")]
MaxSize = Annotated[
    float,
    typer.Option(metavar="GB", min=0.0, help="Refuse a compressed file that holds more than this."),
]
Decimal = Annotated[str, typer.Option("--decimal", metavar=".|,", help="Decimal mark of numbers in CSV.")]
Categorical = Annotated[
    list[str] | None, typer.Option("--categorical", metavar="COL", help="Take this column as categories (codes).")
]
Numeric = Annotated[list[str] | None, typer.Option("--numeric", metavar="COL", help="Take this column as numbers.")]
Features = Annotated[list[str] | None, typer.Option(metavar="COL", help="Use only these columns as features.")]
Exclude = Annotated[list[str] | None, typer.Option("--exclude", "-x", metavar="COL", help="Not a feature.")]
MinFrequency = Annotated[
    float, typer.Option(metavar="F", help="Merge rarer levels: a share, or a number of people from 1.")
]
MaxLevels = Annotated[int, typer.Option(metavar="N", min=1, help="Largest number of levels kept per column.")]
Scale = Annotated[bool, typer.Option("--scale/--no-scale", help="Standardise numbers.")]
TestShare = Annotated[float, typer.Option(metavar="F", help="Share of the people who are held out.")]
TestFile = Annotated[
    Path | None,
    typer.Option("--test", metavar="FILE", help="People held out, in a file of their own (same columns)."),
]
HeldOut = Annotated[
    Path | None,
    typer.Option("--held-out", metavar="FILE", help="Write the rows of the people held out (CSV or .parquet)."),
]
Intersections = Annotated[
    bool, typer.Option("--intersections", help="Be fair to combinations of groups, too, and compare them.")
]
Seed = Annotated[int, typer.Option(metavar="N", help="Seed of the split.")]
EstimatorName = Annotated[
    str, typer.Option("--estimator", "-e", metavar="NAME", help="logistic, linear-svm, squared-hinge or svm.")
]
Regularisation = Annotated[float, typer.Option("--C", "-C", metavar="F", help="Weight of the loss; inf: no penalty.")]
Kernel = Annotated[str, typer.Option(metavar="NAME", help="Kernel of svm: rbf, poly, linear.")]
Balanced = Annotated[bool, typer.Option("--balanced", help="Weigh both classes alike.")]
JsonFile = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Write the summary as JSON (- for standard output).")
]
MarkdownFile = Annotated[
    Path | None, typer.Option("--markdown", metavar="FILE", help="Write it as Markdown (- for standard output).")
]
Title = Annotated[str | None, typer.Option("--title", metavar="TEXT", help="Title of the report.")]
Purpose = Annotated[str | None, typer.Option("--purpose", metavar="TEXT", help="What the model is for.")]
Author = Annotated[str | None, typer.Option("--author", metavar="NAME", help="Who made the report.")]
ReportDate = Annotated[str | None, typer.Option("--date", metavar="DATE", help="Its date; today by default.")]
SigningKey = Annotated[
    Path | None,
    typer.Option("--sign-with", metavar="FILE", help="Sign the run record with the key in this file (HMAC)."),
]
ValueNames = Annotated[
    Path | None,
    typer.Option("--value-names", metavar="FILE", help='Readable names of groups, JSON: {"SEX": {"1": "men"}}.'),
]
Gains = Annotated[
    str | None,
    typer.Option("--gains", metavar="tp=A,fp=B,...", help="What decisions are worth, for a bound on the profit."),
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print every table, not only what decides.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
