"""Measure passes, fits and peers on made data and write the table, by one command.

    python bench/partitioned_report.py FOLDER --millions 10 50 --peers 2.5 10 > bench/PARTITIONED.md
    python bench/partitioned_report.py FOLDER --millions 3 10 --measured-only > bench/PARTITIONED.md

Makes the data it lacks in FOLDER (about 90 bytes per row), runs every measurement in a process of its own and keeps
its figures there as JSON: what was measured already is not measured again. Remove the JSON files to start afresh.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TARGETS = {"gradient": 2.5, "hessian": 3.5, "scan": 3.0, "21 points": 7.0}
WORKERS, ROWS = 100, 1e9
MEASURED_ONLY = "--measured-only" in sys.argv  # leave out what is not measured yet


def measure(folder: Path, name: str, script: str, *arguments: str) -> dict[str, Any] | None:
    """Return figures measured before, or run the script; None where it failed."""
    file = folder / f"{name}.json"
    if not file.exists() and MEASURED_ONLY:
        return None
    if not file.exists():
        command = [sys.executable, str(HERE / script), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"{name}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
            return None
        file.write_text(done.stdout)
    return json.loads(file.read_text())


def data(folder: Path, millions: float) -> str:
    """Return the folder with that many million rows, made if need be."""
    directory = folder / f"d{millions:g}"
    if not directory.exists() and not MEASURED_ONLY:
        command = [sys.executable, str(HERE / "partitioned.py"), "make", str(directory)]
        subprocess.run([*command, "--rows", str(round(millions * 10**6))], check=True)
    return str(directory)


def passes_table(folder: Path, millions: list[int]) -> tuple[list[str], dict[str, Any] | None]:
    """Return the lines about single passes, and the figures that the estimate is made from."""
    lines = ["| rows | K | decoding, CPU s | " + " | ".join(f"{n} (target {t:g})" for n, t in TARGETS.items()) + " |"]
    lines.append("|" + "---|" * (3 + len(TARGETS)))
    kept = None
    for size in millions:
        for groups in (1, 5):
            found = measure(
                folder,
                f"passes_{size}_{groups}",
                "partitioned.py",
                "passes",
                data(folder, size),
                "--groups",
                str(groups),
            )
            if found is None:
                continue
            kept = kept or found
            ratios = " | ".join(f"{found[name]:.2f}" for name in TARGETS)
            lines.append(f"| {found['rows']:,} | {groups} | {found['decode_cpu']:.2f} | {ratios} |")
    return lines, kept


def fits_table(folder: Path, millions: list[int]) -> list[str]:
    """Return the lines about fits with c = 0."""
    lines = [
        "| rows | loss | K | passes | proved gap | scan, CPU s | fit, CPU s | peak memory, GB |",
        "|" + "---|" * 8,
    ]
    for size in millions:
        for loss in ("logistic", "hinge"):
            for groups in (1, 5):
                found = measure(
                    folder,
                    f"fit_{size}_{loss}_{groups}",
                    "partitioned.py",
                    "fit",
                    data(folder, size),
                    "--loss",
                    loss,
                    "--groups",
                    str(groups),
                )
                if found is None:
                    continue
                passes = " + ".join(f"{n} {name}" for name, n in found["passes"].items())
                lines.append(
                    f"| {found['rows']:,} | {loss} | {groups} | {passes} | {found['gap']:.1e} ({found['status']}) | "
                    f"{found['scan_cpu']:.1f} | {found['fit_cpu']:.1f} | {found['peak_gb']:.2f} |"
                )
    return lines


def same_table(folder: Path, millions: float) -> list[str]:
    """Return the lines about objectives beside those of the solver in memory."""
    lines = ["| rows | loss | difference, relative | proved gap | in memory |", "|" + "---|" * 5]
    for loss in ("logistic", "hinge"):
        found = measure(
            folder, f"same_{millions:g}_{loss}", "partitioned.py", "same", data(folder, millions), "--loss", loss
        )
        if found is not None:
            lines.append(
                f"| {found['rows']:,} | {loss} | {found['difference']:.1e} | {found['gap']:.1e} | "
                f"{found['gap_in_memory']:.1e} |"
            )
    return lines


def engines_table(folder: Path, millions: float) -> list[str]:
    """Return the lines about the same pass on threads, Dask and Spark."""
    found = measure(folder, f"engines_{millions:g}", "partitioned_engines.py", data(folder, millions))
    if found is None:
        return []
    lines = [
        f"{found['rows']:,} rows in {found['partitions']} row groups; the engines took turns.",
        "",
        "| engine | rows per second | of the local ones | CPU s | times local | peak memory of a worker, GB |",
        "|" + "---|" * 6,
    ]
    local = found["local"]
    for name in ("local", "dask", "spark"):
        seen = found[name]
        peak = ", ".join(f"{gb:.2f}" for gb in seen["workers_peak_gb"]) or "-"
        lines.append(
            f"| {name} | {seen['rows_per_second']:,.0f} | {seen['rows_per_second'] / local['rows_per_second']:.2f} | "
            f"{min(seen['cpu']):.1f} | {min(seen['cpu']) / min(local['cpu']):.2f} | {peak} |"
        )
    return [
        *lines,
        "",
        f"The sums of all three are {'' if found['same_digits'] else 'not '}the same to the last digit.",
    ]


def peers_table(folder: Path, millions: float) -> list[str]:
    """Return the lines about other trainers."""
    runs = {
        "fairmargin, certified": ("fairmargin",),
        "SGDClassifier.partial_fit, 1 epoch": ("sgd", "--epochs", "1"),
        "SGDClassifier.partial_fit, 3 epochs": ("sgd", "--epochs", "3"),
        "Vowpal Wabbit, 1 epoch": ("vw", "--epochs", "1"),
        "Vowpal Wabbit, 3 epochs": ("vw", "--epochs", "3"),
        "Spark ML LogisticRegression, 5 iterations": ("spark", "--iterations", "5"),
        "Spark ML LogisticRegression, 10 iterations": ("spark", "--iterations", "10"),
        "Spark ML LogisticRegression, 20 iterations": ("spark", "--iterations", "20"),
        "Spark ML LogisticRegression, tol=1e-6": ("spark",),
        "dask-ml LogisticRegression, lbfgs": ("dask",),
    }
    found = {
        name: measure(
            folder,
            f"peer_{millions:g}_{'_'.join(run)}",
            "partitioned_peers.py",
            run[0],
            data(folder, millions),
            *run[1:],
        )
        for name, run in runs.items()
    }
    ours = found["fairmargin, certified"]
    if ours is None:
        return []
    lines = ["| trainer | CPU s | times ours | loss per row | excess over ours |", "|---|---|---|---|---|"]
    for name, seen in found.items():
        if seen is not None:
            lines.append(
                f"| {name} | {seen['cpu']:.1f} | {seen['cpu'] / ours['cpu']:.1f} | {seen['loss']:.9f} | "
                f"{seen['loss'] / ours['loss'] - 1:.1e} |"
            )
    return lines


def estimate(found: dict[str, Any]) -> list[str]:
    """Return what the measured rates say about many rows on many workers."""
    per_row = found["decode_cpu"] / found["rows"]
    size, partitions = found["file_bytes"] / found["rows"] * ROWS, found["partitions"] / found["rows"] * ROWS
    lines = [
        f"Files: {size / 1e9:.0f} GB in {partitions:,.0f} row groups; each worker reads "
        f"{size / WORKERS / 1e9:.2f} GB per pass.",
        "",
        "| pass | seconds per worker | to the driver | to the workers | merging on the driver, s |",
        "|---|---|---|---|---|",
    ]
    for name in ("gradient", "hessian", "21 points"):
        travels = found[f"{name}, travels"]
        work = found[name] * per_row * ROWS / WORKERS
        lines.append(
            f"| {name} | {work:.1f} | {travels['result_bytes'] * partitions / 1e6:.0f} MB | "
            f"{travels['task_bytes'] * partitions / 1e6:.0f} MB | {travels['merge_seconds'] * partitions:.2f} |"
        )
    gradient = found["gradient"] * per_row * ROWS
    merging = found["gradient, travels"]["merge_seconds"] * partitions
    lines += [
        "",
        "The driver holds the sample, one set of sums and the results of the tasks under way, whatever the number of "
        f"rows. Merging is serial: it takes as long as the workers' share of a gradient pass at about "
        f"{gradient / max(merging, 1e-9):,.0f} workers, which is where more of them stop helping. Starting a task "
        "(about a millisecond on the scheduler) comes before that: "
        f"{partitions / 1000:.0f} s per pass for row groups of this size, so that larger row groups pay.",
    ]
    return lines


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--millions", type=int, nargs="+", default=[10])
    parser.add_argument("--peers", type=float, nargs="+", default=[2.5], metavar="MILLIONS")
    parser.add_argument("--engines", type=float, default=5, metavar="MILLIONS")
    parser.add_argument("--same", type=float, default=3, metavar="MILLIONS")
    parser.add_argument("--measured-only", action="store_true")
    parser.add_argument("--note", default="", help="how the figures came about, printed above them")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    single, kept = passes_table(given.folder, given.millions)
    print("# Data larger than memory: what passes, fits and peers cost\n")
    print(
        "Made by `python bench/partitioned_report.py`; CPU seconds of one thread, so that other load does not count."
    )
    print("Data: ten numbers and five categories (52 encoded columns with the intercept) in Parquet.\n")
    if given.note:
        print(f"{given.note}\n")
    print("## Passes, relative to decoding the same columns in the same run\n")
    print("\n".join(single))
    print("\n## Fits with c = 0, started from a sample of 1,000,000 rows, to a proved gap of 1e-9\n")
    print("\n".join(fits_table(given.folder, given.millions)))
    print("\n## Objectives beside those of the same fits in memory\n")
    print("\n".join(same_table(given.folder, given.same)))
    print("\n## One pass with gradient and Hessian on threads, Dask and Spark, two cores each\n")
    print("\n".join(engines_table(given.folder, given.engines) or ["Not measured yet."]))
    for millions in given.peers:
        print(f"\n## Unconstrained logistic regression beside other trainers, {millions:g} million rows\n")
        print("\n".join(peers_table(given.folder, millions) or ["Not measured yet."]))
    if kept is not None:
        print(f"\n## On paper: {ROWS:,.0f} rows on {WORKERS} workers of this speed\n")
        print("\n".join(estimate(kept)))


if __name__ == "__main__":
    main()
