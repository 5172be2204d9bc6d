"""Run the benchmarks and write RESULTS.md.

    python bench/run.py                    everything, under 30 minutes
    python bench/run.py --quick            a taste of everything, under 3 minutes (RESULTS.quick.md)
    python bench/run.py --only speed       one section anew, the others from the last run
    python bench/run.py --resume           only what the last run did not finish
    python bench/run.py --report           no measurement, only write RESULTS.md again

Each section is a process of its own with a budget of time: one that fails or is stopped is reported as such and
the others go on. Findings are kept in bench/cache.
"""

import argparse
import importlib
import json
import subprocess
import sys
import time
from pathlib import Path

import harness  # first: it sets the number of threads
from findings import Findings

HERE = Path(__file__).parent
SECTIONS = (
    "speed",
    "quality",
    "trees",
    "individual",
    "baselines",
    "frontier",
    "kernels",
    "large",
    "wide",
    "phases",
    "growth",
    "tenfold",
)
HARD = (1.25, 1.4)  # times its budget after which a section is stopped


def main():
    asked = parse()
    cache = HERE / "cache" / ("quick" if asked.quick else "full")
    if asked.section:
        measure(asked.section, cache / f"{asked.section}.json", asked.quick)
        return
    cache.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    if not asked.report:
        chosen = asked.only or [s for s in SECTIONS if not (asked.resume and is_done(cache / f"{s}.json"))]
        facts = cache / "machine.json"
        if not (facts.exists() and (asked.only or asked.resume)):
            facts.write_text(json.dumps(harness.machine(), indent=1))
        for name in chosen:
            run_section(name, cache, asked.quick)
        if not asked.only and not asked.resume:
            (cache / "total.json").write_text(json.dumps(time.perf_counter() - started))
    import report

    path = report.write(cache, HERE, SECTIONS, asked.quick)
    harness.log(f"{path.relative_to(HERE.parent)} written")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a taste of everything")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, help="run these sections anew")
    parser.add_argument("--resume", action="store_true", help="run what is not finished")
    parser.add_argument("--report", action="store_true", help="only write the results again")
    parser.add_argument("--section", choices=SECTIONS, help=argparse.SUPPRESS)
    return parser.parse_args()


def is_done(path):
    return path.exists() and json.loads(path.read_text())["status"] == "done"


def run_section(name, cache, quick):
    """Run one section in a process of its own, and note how it ended."""
    path = cache / f"{name}.json"
    path.unlink(missing_ok=True)
    try:
        limit = importlib.import_module(name).BUDGET[int(quick)]
    except Exception as error:
        path.write_text(json.dumps({"title": name, "blocks": [], "claims": [], "status": harness.shortly(error)}))
        return
    harness.log(f"{name} (budget {limit} s)")
    command = [sys.executable, str(HERE / "run.py"), "--section", name, *(["--quick"] if quick else [])]
    started = time.perf_counter()
    try:
        code = subprocess.run(command, timeout=HARD[quick] * limit).returncode
        ending = "" if code == 0 else f"ended with code {code}"
    except subprocess.TimeoutExpired:
        ending = f"stopped after {HARD[quick] * limit:.0f} s"
    found = json.loads(path.read_text()) if path.exists() else {"title": name, "blocks": [], "claims": []}
    if ending and not found.get("status", "").startswith("failed"):
        found["status"] = ending
    found["seconds"] = time.perf_counter() - started
    path.write_text(json.dumps(found, indent=1) + "\n")
    harness.log(f"{name}: {found['status']} after {found['seconds']:.0f} s")


def measure(name, path, quick):
    module = importlib.import_module(name)
    found = Findings(path, module.TITLE, quick)
    found.save()
    try:
        module.run(found, harness.Budget(module.BUDGET[int(quick)]))
        found.status = "done"
    except Exception as error:
        found.status = f"failed: {harness.shortly(error)}"
        harness.log(harness.describe(error))
    found.save()


if __name__ == "__main__":
    main()
