"""The command ``audit``: decisions screened for disparate impact, and held against an earlier audit."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairmargin.cli import inputs, partitioned
from fairmargin.cli.options import (
    Author,
    Bins,
    Data,
    Decimal,
    Delimiter,
    Demo,
    Encoding,
    Engine,
    Header,
    JsonFile,
    MarkdownFile,
    MaxSize,
    MergeSmall,
    MinPeople,
    MissingSensitive,
    Names,
    NotionName,
    Positive,
    Purpose,
    Quiet,
    ReportDate,
    Rule,
    Sensitive,
    SigningKey,
    Target,
    Title,
    ValueNames,
    Verbose,
)
from fairmargin.cli.outputs import Outputs, steps
from fairmargin.exceptions import DataError
from fairmargin.formatting import clean, ratio_beside, shorten

if TYPE_CHECKING:
    import pandas as pd

    from fairmargin.audit.profiles import Profile
    from fairmargin.cli.decisions import Decisions

__all__ = ["audit"]

_CHECK_FAILED = 1


def audit(
    context: typer.Context,
    data: Data = None,
    demo: Demo = False,
    target: Target = None,
    positive: Positive = None,
    sensitive: Sensitive = None,
    decision: Annotated[
        str | None, typer.Option(metavar="COL", help="Column of decisions to audit, instead of the labels.")
    ] = None,
    decision_positive: Annotated[
        str | None,
        typer.Option(metavar="VALUE", help="Favourable value of --decision, where it is not that of --positive."),
    ] = None,
    model: Annotated[Path | None, typer.Option(metavar="FILE", help="Audit the decisions of this model.")] = None,
    score: Annotated[
        str | None,
        typer.Option(metavar="COL", help="Column of scores; alone, who is above the median is audited."),
    ] = None,
    weights: Annotated[str | None, typer.Option(metavar="COL", help="Column of people's weights.")] = None,
    strata: Annotated[
        list[str] | None, typer.Option(metavar="COL", help="Compare groups within these strata, too (e.g. the job).")
    ] = None,
    reference: Annotated[
        list[str] | None, typer.Option(metavar="COL=GROUP", help="Compare with this group instead.")
    ] = None,
    intersections: Annotated[
        bool, typer.Option("--intersections", help="Compare combinations of groups, too.")
    ] = False,
    threshold: Annotated[float, typer.Option(metavar="P", help="Ratio in percent below which to point out.")] = 80.0,
    fail_under: Annotated[
        float | None,
        typer.Option(metavar="P", help="Exit with status 1 if a group's ratio, in percent, is lower (for CI)."),
    ] = None,
    baseline: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Earlier audit (--json): say what has drifted; exit with status 1 if a disparity has grown.",
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Tables that a rule or practice asks for: neutral, nyc-local-law-144, us-four-fifths, "
            "us-fair-lending, or a TOML file.",
        ),
    ] = None,
    notion: NotionName = "selection_rate",
    rule: Rule = "rest",
    min_people: MinPeople = 30,
    merge_small: MergeSmall = False,
    bins: Bins = None,
    missing_sensitive: MissingSensitive = "group",
    value_names: ValueNames = None,
    title: Title = None,
    purpose: Purpose = None,
    author: Author = None,
    date: ReportDate = None,
    sign_with: SigningKey = None,
    names: Names = None,
    header: Header = None,
    delimiter: Delimiter = None,
    decimal: Decimal = ".",
    encoding: Encoding = "utf-8",
    max_size: MaxSize = 4.0,
    engine: Engine = None,
    json_file: JsonFile = None,
    markdown_file: MarkdownFile = None,
    html_file: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write it as a web page.")] = None,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> int:
    """Screen decisions for disparate impact: group by group, with intervals and tests.

    Decisions come from a column (--decision), from a model (--model), or are the labels themselves. With --target
    beside one of the first two, error rates are compared as well, and --notion may name those that the verdict and
    --fail-under are about.
    """
    found = _profile_of(profile)
    options = context.params if found is None else _settled(context, found)
    recorded = inputs.recorded_options(context)
    inputs.check_percentage(threshold, "--threshold")
    inputs.check_percentage(fail_under, "--fail-under")
    outputs = Outputs(inputs.input_files(options), json=json_file, markdown=markdown_file, html=html_file)
    _check_notion(notion, options)
    with steps(quiet) as step:
        step("reading")
        if partitioned.is_partitioned(options):
            asked = partitioned.read_question(options, step)
        else:
            asked = inputs.read_question(options)
        earlier = None if baseline is None else _read_baseline(baseline)
        step("comparing groups")
        summary = _audited(asked, options, found)
        if earlier is not None:
            _add_drift(summary, earlier)
    outputs.add_record(summary, recorded)
    outputs.write_summary(summary, quiet, verbose)
    return max(_gate(summary, fail_under), _drift_gate(summary))


def _check_notion(name: str, options: Mapping[str, Any]) -> None:
    """Raise for a notion that is unknown, or that these options have no labels for."""
    from fairmargin.notions import get_notion
    from fairmargin.tables.specifications import check_notion

    check_notion(name)
    notion = get_notion(name)
    if not notion.needs_labels:
        return
    if options["profile"] is not None:
        raise DataError("A profile is about selection rates: leave out --notion or --profile.", field="notion")
    decided = [key for key in ("decision", "model", "score") if options[key] is not None]
    if not decided or (options["target"] is None and not options["demo"]):
        missing = "--decision COL or --model FILE" if not decided else "--target COL"
        raise DataError(
            f"The notion {name!r} holds decisions against labels, among {notion.people}: give {missing}, too.",
            field="notion",
        )


def _profile_of(name: str | None) -> Profile | None:
    if name is None:
        return None
    from fairmargin.audit.profiles import get_profile

    try:
        return get_profile(name)
    except ValueError as error:
        raise DataError(str(error), field="profile") from None


def _settled(context: typer.Context, profile: Profile) -> dict[str, Any]:
    """Return the options with the settings of a profile in place of defaults; what was given stays."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    given = {name for name, source in sources.items() if source is not None and source.name != "DEFAULT"}
    unknown = set(profile.settings) - {"rule", "threshold", "min_people", "intersections"}
    if unknown:
        raise DataError(f"The profile sets {sorted(unknown)[0]!r}, which is no setting of an audit.", field="profile")
    settled = context.params | {key: value for key, value in profile.settings.items() if key not in given}
    return settled | {"has_threshold": profile.threshold is not None or bool({"threshold", "fail_under"} & given)}


def _audited(asked: inputs.Question, options: Mapping[str, Any], profile: Profile | None = None) -> dict[str, Any]:
    """Audit what the options name; return its summary."""
    from fairmargin.audit import audit as run_audit
    from fairmargin.audit.profiles import apply_profile
    from fairmargin.cli.decisions import read_decisions
    from fairmargin.report import audit_summary
    from fairmargin.report.plain import plain
    from fairmargin.tables.groups import find_sensitive_columns, group_columns, people_with_values
    from fairmargin.tables.study import method_of_rule

    decided = read_decisions(asked, options)
    if options["notion"] != "selection_rate" and decided.labels is None:
        target = shorten(asked.target)
        held = "score" if options["score"] == asked.target and options["decision"] is None else "decisions"
        why = f"{target!r} holds the {held}: name the column of the labels with --target."
        if decided.columns[0] != asked.target:  # they were looked for in vain, which the last note says
            why = decided.notes[-1]
        raise DataError(f"The notion {options['notion']!r} needs labels. {why}", field="target")
    attributes = find_sensitive_columns(decided.frame, asked.sensitive, next(iter(decided.columns), None))
    known, left_out = people_with_values(decided.frame, attributes, options["missing_sensitive"], decided.counts)
    decided = decided.among(known)
    merge_under = options["min_people"] if options["merge_small"] else 0
    groups, said = group_columns(
        decided.frame,
        attributes,
        inputs.parse_bins(options["bins"]),
        options["missing_sensitive"],
        merge_under,
        names=inputs.read_value_names(options["value_names"]),
        counts=decided.counts,
    )
    result = run_audit(
        decided.positive,
        pos_label=True,
        method=method_of_rule(options["rule"]),
        scores=decided.scores,
        sensitive_features=groups,
        reference=inputs.parse_pairs(options["reference"], "--reference", attributes),
        intersections=options["intersections"],
        threshold=options["threshold"],
        min_people=options["min_people"],
        features=_proxy_candidates(decided, {*attributes, *decided.columns, asked.target}),
        counts=decided.counts,
        y_true=decided.labels,
        sample_weight=decided.weights,
        strata=decided.strata,
        notion=options["notion"],
    )
    made = {}
    if profile is not None:
        named = inputs.parse_pairs(options["reference"], "--reference", attributes)
        options_of_profile: dict[str, Any] = {"scores": decided.scores, "reference": named, "pos_label": True}
        made = {"profile": apply_profile(profile, decided.positive, sensitive_features=groups, **options_of_profile)}
    kept = ["decision", "score", "weights", "strata", "reference", "notion", "rule", "threshold", "min_people"]
    kept += ["merge_small", "intersections"]
    model, baseline = options["model"], options["baseline"]
    settings: dict[str, Any] = {"target": asked.target, "positive": decided.favourable, "sensitive": attributes}
    settings |= {"model": model and model.name, "baseline": baseline and baseline.name}
    settings["profile"] = None if profile is None else profile.name
    settings |= {name: options[name] for name in kept}
    summary = audit_summary(
        result,
        title=f"Audit of {decided.what}",
        what=decided.what,
        fingerprint=asked.table.fingerprint,
        settings=settings,
        notes=[
            *asked.table.notes,
            *decided.notes,
            *left_out,
            *said,
            *_not_searched(decided),
            *_not_in_profile(profile, options["threshold"]),
        ],
        unlimited_by=None if profile is None or options["has_threshold"] else f"The profile {profile.name}",
    )
    return summary | plain(made)


def _not_searched(decided: Decisions) -> list[str]:
    """Say what an audit by counts leaves out."""
    if decided.counts is None:
        return []
    return ["Proxies, discriminatory rules and comparisons of scores were left out: they need all rows in memory."]


def _not_in_profile(profile: Profile | None, threshold: float) -> list[str]:
    """Say that a threshold of the audit is none of a profile that has none."""
    if profile is None or profile.threshold is not None:
        return []
    return [f"Findings point out ratios below {threshold:g}%; the profile {profile.name} has no such threshold."]


def _proxy_candidates(decided: Decisions, not_features: set[str | None]) -> pd.DataFrame | None:
    """Return the columns that may tell of a sensitive attribute; infinite numbers, of no rank, count as missing."""
    import numpy as np

    if decided.counts is not None:  # of whom nothing else is known
        return None
    frame = decided.frame
    features = frame[[column for column in frame if column not in not_features]]
    return features.replace([np.inf, -np.inf], np.nan) if features.shape[1] else None


def _read_baseline(path: Path) -> dict[str, Any]:
    """Return the plain data of an earlier audit."""
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise DataError(f"There is no file {str(path)!r} to compare with.", field="baseline") from None
    except OSError as error:
        raise DataError(f"{str(path)!r} cannot be read: {error.strerror}.", field="baseline") from None
    except (ValueError, RecursionError):
        raise DataError(f"{path.name} is no JSON file; give what audit --json wrote.", field="baseline") from None
    if not isinstance(found, dict) or found.get("kind") != "audit":
        raise DataError(f"{path.name} is no audit; give what audit --json wrote.", field="baseline")
    return found


def _add_drift(summary: dict[str, Any], earlier: Mapping[str, Any]) -> None:
    """Compare with an earlier audit, and say where the two were not made alike."""
    from fairmargin.audit import audit_drift
    from fairmargin.report.plain import plain

    try:
        drift = audit_drift(earlier, summary)
    except ValueError as error:
        raise DataError(str(error), field="baseline") from None
    if not drift.groups:
        raise DataError("The earlier audit has no group in common with this one.", field="baseline")
    summary["drift"] = plain(drift.to_dict())
    settings = earlier.get("settings")
    before = settings.get("positive") if isinstance(settings, dict) else None
    favourable = summary["settings"]["positive"]
    if before is not None and before != favourable:
        summary["warnings"].append(
            f"The earlier audit was of the favourable decision {before!r}, this one is of {favourable!r}."
        )


def _gate(summary: dict[str, Any], fail_under: float | None) -> int:
    """Return the exit status that ``--fail-under`` asks for."""
    if fail_under is None:
        return 0
    from fairmargin.report.verdict import rate_in_words

    lowest = summary["audit"]["lowest"]
    if summary["audit"]["decides_alike"] == "accepts":
        print("fairmargin: everybody gets the positive decision, which keeps every rule", file=sys.stderr)
    if _never_happens(summary["audit"]):
        print(
            f"fairmargin: the {summary['audit']['rate']} is 0 in every group, which keeps every rule", file=sys.stderr
        )
        return 0
    if lowest is None or lowest["rule"] is None:
        failure = "no group has enough people to say; --fail-under cannot be decided"
    elif lowest["rule"] >= fail_under:
        return 0
    else:
        where = f"{lowest['attribute']} = {lowest['group']}"
        reached = ratio_beside(lowest["rule"], fail_under)
        rule = f"p%-rule{rate_in_words(summary['audit'])}"
        failure = f"the {rule} of {where} ({summary['audit']['compared']}) is {reached}, under {fail_under:g}%"
    print(f"fairmargin: {clean(failure)}", file=sys.stderr)
    return _CHECK_FAILED


def _never_happens(audit: Mapping[str, Any]) -> bool:
    """Whether groups are large enough to compare and have a rate of 0, as of errors that nobody meets."""
    groups = [group for attribute in audit["attributes"] for group in attribute["groups"]]
    large = [group for group in groups if group["people"] >= audit["min_people"]]
    return audit["decides_alike"] is None and len(large) > 1 and all(group["rate"] == 0 for group in groups)


def _drift_gate(summary: Mapping[str, Any]) -> int:
    """Return the exit status that ``--baseline`` asks for: 1 if a disparity has grown beyond chance."""
    worse = summary["drift"]["worse"] if "drift" in summary else []
    for group in worse:
        where = f"{group['attribute']} = {group['group']}"
        print(clean(f"fairmargin: since the earlier audit, {group['finding']}: {where}"), file=sys.stderr)
    return _CHECK_FAILED if worse else 0
