"""All experiments together: choose them, do their work, write figures, numbers, claims and the document."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import pandas as pd

from fairmargin.atomic_write import write_atomic
from fairmargin.experiments import appendix, fig1, fig2, fig3, fig4, style, tables
from fairmargin.experiments._experiment import Experiment, Output, Plan, collect
from fairmargin.experiments._work import Done, Store, run_units
from fairmargin.experiments.claims import Claim, claims_frame
from fairmargin.experiments.document import Section, write_document

__all__ = ["EXPERIMENTS", "Report", "choose", "reproduce"]

# In the order of the paper.
EXPERIMENTS: list[Experiment] = [
    *(e for e in tables.EXPERIMENTS if e.name == "table1"),
    *fig1.EXPERIMENTS,
    *fig2.EXPERIMENTS,
    *fig3.EXPERIMENTS,
    *fig4.EXPERIMENTS,
    *appendix.EXPERIMENTS,
    *(e for e in tables.EXPERIMENTS if e.name == "data"),
]
GROUPS = {
    "all": [e.name for e in EXPERIMENTS],
    "fig1": ["fig1a", "fig1b"],
    "fig2": ["fig2a", "fig2b", "fig2c"],
    "appendix": [e.name for e in appendix.EXPERIMENTS] + ["data"],
    "tables": ["table1", "data"],
}


@dataclass(frozen=True)
class Report:
    """What a run did: units in all and computed now, claims, and where things are."""

    units: int
    computed: int
    claims: Sequence[Claim]
    document: Path


def choose(names: Sequence[str]) -> list[Experiment]:
    """Return the experiments that names or names of groups stand for, in the order of the paper; none for all."""
    wanted: set[str] = set()
    known = {experiment.name for experiment in EXPERIMENTS}
    for name in names or ["all"]:
        if name not in known and name not in GROUPS:
            every = ", ".join([*(e.name for e in EXPERIMENTS), *GROUPS])
            raise ValueError(f"There is no experiment {name!r}; the known ones are {every}.")
        wanted.update(GROUPS.get(name, [name]))
    return [experiment for experiment in EXPERIMENTS if experiment.name in wanted]


def reproduce(
    names: Sequence[str] = (),
    *,
    out: str | Path = "results",
    quick: bool = False,
    jobs: int = 2,
    fresh: bool = False,
    docs: str | Path | None = None,
    done: Done | None = None,
    say: Callable[[str], None] | None = None,
) -> Report:
    """Run experiments of the paper.

    Parameters
    ----------
    names : sequence of str
        Experiments or groups of them, e.g. "fig2a", "fig2", "appendix"; none for all.
    out : path
        Where results go: ``units`` (finished work), ``figures`` (PNG and SVG), ``numbers`` (CSV), ``claims.csv`` and
        ``reproduction.md``. Work found there is not repeated.
    quick : bool
        Fewer splits and points.
    jobs : int
        Number of processes.
    fresh : bool
        Forget finished work first.
    docs : path, optional
        A folder that gets ``reproduction.md`` and the PNGs it shows, too; only for all experiments.
    done, say : callables, optional
        Told about every finished unit, and about every step.
    """
    chosen = choose(names)
    if docs is not None and len(chosen) < len(EXPERIMENTS):
        raise ValueError("The document is about all experiments; leave the names out to write it.")
    if jobs < 1:
        raise ValueError(f"jobs must be at least 1, got {jobs}.")
    plan, folder = Plan(quick), Path(out)
    store = Store(folder / "units")
    work = {experiment.name: experiment.units(plan) for experiment in chosen}
    units = {unit.file: unit for found in work.values() for unit in found}
    with store.locked():
        store.sweep()
        if fresh:
            store.clear()
        computed = run_units(units.values(), store, jobs=jobs, done=done)
        sections = []
        for experiment in chosen:
            if say is not None:
                say(f"drawing {experiment.name}")
            with style.styled():
                output = experiment.make(collect(work[experiment.name], store))
                _write(output, folder)
            sections.append(Section(experiment, output))
    claims = [claim for section in sections for claim in section.output.claims]
    write_atomic(folder / "claims.csv", claims_frame(claims).to_csv(index=False))
    document = write_document(sections, plan, folder, figures="figures")
    if docs is not None:
        _publish(sections, plan, folder, Path(docs))
    return Report(len(units), computed, claims, document)


def _write(output: Output, folder: Path) -> None:
    for part in ("figures", "numbers"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    for name, figure in output.figures.items():
        for kind, options in (("png", {"dpi": 120}), ("svg", {"metadata": {"Date": None}})):
            write_atomic(folder / "figures" / f"{name}.{kind}", _drawn(figure, kind, **options))
    for name, table in output.numbers.items():
        write_atomic(folder / "numbers" / f"{name}.csv", _csv(table))


def _drawn(figure: Any, kind: str, **options: Any) -> bytes:
    buffer = BytesIO()
    figure.savefig(buffer, format=kind, **options)
    return _small(buffer) if kind == "png" else buffer.getvalue()


def _small(buffer: BytesIO) -> bytes:
    """Return a PNG with 128 colours, which no eye tells apart here: a third of the size."""
    from PIL import Image

    small = BytesIO()
    Image.open(buffer).convert("RGB").quantize(128).save(small, format="png", optimize=True)
    return small.getvalue()


def _csv(table: pd.DataFrame) -> str:
    return table.to_csv(index=False, float_format="%.10g")


def _publish(sections: Sequence[Section], plan: Plan, folder: Path, docs: Path) -> None:
    """Copy the document and the figures it shows to the documentation."""
    (docs / "reproduction").mkdir(parents=True, exist_ok=True)
    for section in sections:
        for name in section.output.figures:
            content = (folder / "figures" / f"{name}.png").read_bytes()
            write_atomic(docs / "reproduction" / f"{name}.png", content)
    write_document(sections, plan, docs, figures="reproduction")
