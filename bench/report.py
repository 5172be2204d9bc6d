"""From the findings of the sections to RESULTS.md and its plots."""

import json

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from findings import exponent

COLOURS = ("#2f5d8a", "#c8553d", "#4f8f5b", "#8b6bb1", "#c79a2b", "#6b6b6b")
VERDICT = {True: "yes", False: "**no**", None: "not measured"}


def write(cache, here, sections, quick):
    plots = here / ("plots-quick" if quick else "plots")
    plots.mkdir(exist_ok=True)
    found = {name: json.loads((cache / f"{name}.json").read_text()) for name in sections if _has(cache, name)}
    lines = [*_head(cache, found, sections, quick), *_claims(found, sections, quick)]
    for name in sections:
        lines += _section(name, found.get(name), plots)
    path = here / ("RESULTS.quick.md" if quick else "RESULTS.md")
    path.write_text("\n".join(lines).rstrip() + "\n")
    return path


def _has(cache, name):
    return (cache / f"{name}.json").exists()


def _head(cache, found, sections, quick):
    machine = json.loads((cache / "machine.json").read_text())
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    total = sum(f.get("seconds") or 0.0 for f in found.values())
    command = "make bench ARGS=--quick" if quick else "make bench"
    return [
        "# fairmargin beside its peers",
        "",
        f"Written by `{command}` in {total / 60:.1f} minutes. Ratios are measured side by side in one run",
        "on one machine; times are medians of runs in turn with each other. Absolute times are of this machine only.",
        "A section can be run again alone; the minutes are those of all sections added up.",
        "",
        f"- Machine: {machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB, "
        f"{machine['system']}; load before the run {machine['load_before']}.",
        f"- One thread for everybody (OMP_NUM_THREADS={machine['threads']}); BLAS: {machine['blas']}.",
        f"- Python {machine['python']}; {versions}.",
        *(["- This is the quick run: samples, few repetitions. Do not quote it."] if quick else []),
        "",
    ]


def _claims(found, sections, quick):
    claims = [c for f in found.values() for c in f.get("claims", [])]
    claims.append(_duration(found, sections, quick))
    kept, failed = (sum(c["holds"] is verdict for c in claims) for verdict in (True, False))
    rows = [(c["source"], c["asked"], c["measured"], VERDICT[c["holds"]]) for c in claims]
    return [
        f"## Claims: {kept} of {len(claims)} hold, {failed} do not, the others were not measured",
        "",
        *_table(("claim", "asked", "measured", "holds"), rows),
        "",
    ]


def _duration(found, sections, quick):
    """The sections' own times added up, where every one of them was run."""
    most = 3 if quick else 30
    minutes = sum(f.get("seconds") or 0.0 for f in found.values()) / 60
    complete = all(name in found for name in sections)
    what = "all sections of this file, " + ("quick run" if quick else "full run")
    measured = f"{minutes:.1f} minutes" if complete else "not all sections were run"
    return {
        "source": what,
        "asked": f"under {most} minutes",
        "measured": measured,
        "holds": minutes < most if complete else None,
    }


def _section(name, found, plots):
    if found is None:
        return [f"## {name}", "", "Not run.", ""]
    took = f"{found['seconds']:.0f} s" if found.get("seconds") else "unknown time"
    lines = [f"## {found['title']}", "", f"`python bench/run.py --only {name}`, {took}.", ""]
    if found["status"] != "done":
        lines += [f"**This section did not finish ({found['status']}); what it had found until then:**", ""]
    for block in found["blocks"]:
        lines += [*_block(block, plots), ""]
    return lines


def _block(block, plots):
    if "heading" in block:
        return [f"### {block['heading']}"]
    if "text" in block:
        return [block["text"]]
    if "plot" in block:
        file = draw(block, plots)
        return [f"![{block['title']}]({plots.name}/{file})"]
    note = ["", block["note"]] if block["note"] else []
    return [*_table(block["columns"], block["rows"]), *note]


def _table(columns, rows):
    cells = [[str("" if c is None else c).replace("|", "\\|") for c in row] for row in [columns, *rows]]
    line = ["| " + " | ".join(row) + " |" for row in cells]
    rule = "|" + "|".join("---" if j == 0 else "---:" for j in range(len(columns))) + "|"
    return [line[0], rule, *line[1:]]


def draw(block, plots):
    figure, axes = plt.subplots(figsize=(5.2, 3.4), layout="constrained")
    for colour, (label, (xs, ys)) in zip(COLOURS * 9, block["series"].items(), strict=False):
        if block["fitted"] and len(xs) >= 3:
            label = f"{label}: exponent {exponent(xs, ys):.2f}"
        axes.plot(xs, ys, "o-", color=colour, label=label, markersize=3.5, linewidth=1.2)
    if block["log"]:
        axes.set(xscale="log", yscale="log")
    axes.set(xlabel=block["x"], ylabel=block["y"])
    axes.set_title(block["title"], fontsize=9, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(True, color="#e4e4e4", linewidth=0.6)
    axes.legend(frameon=False, fontsize=7)
    figure.savefig(plots / f"{block['plot']}.png", dpi=90)
    plt.close(figure)
    return f"{block['plot']}.png"
