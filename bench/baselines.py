"""The compared methods beside their reference implementations: AIF360 and EthicML, on the same people."""

import contextlib
import importlib
import logging
import resource
import warnings

import numpy as np
import pandas as pd
from findings import seconds, times
from harness import apart
from people import load, split
from sklearn.linear_model import LogisticRegression

from fairmargin import baselines

TITLE = "The methods of the paper's Table 1 beside AIF360 and EthicML"
BUDGET = (420, 60)
PATIENCE = (40, 8)  # seconds after which a fit is stopped
RUNS, ENOUGH = 7, 5.0  # fits at most, and seconds after which there is no further one
SIZE = (2000, 1000)  # people: some references take minutes for more
PEERS = ("aif360.algorithms.preprocessing", "aif360.algorithms.inprocessing", "ethicml.models")


def once(convert):
    """Convert the same people once; they hold arrays and have no hash."""
    kept = {}

    def converted(people):
        if id(people) not in kept:
            kept[id(people)] = convert(people), people
        return kept[id(people)][0]

    return converted


def run(found, budget):
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    train, _ = split(load("Adult").of("sex"), 0)
    train = train.take(np.arange(SIZE[int(found.quick)]))
    prepare(train)
    rows, slower = [], []
    for name, (ours, theirs) in works(train).items():
        mine = repeated(ours, budget, found.quick)
        for package, work in theirs.items():
            peer = repeated(work, budget, found.quick)
            if "seconds" in mine and "seconds" in peer and mine["seconds"] > peer["seconds"]:
                slower.append(f"{name} ({package})")
            rows.append((name, package, shown(mine), shown(peer), ratio(mine, peer)))
    found.text(
        f"Adult, sex, {len(train):,} people. Each fit in a process of its own, processor seconds, the fewest "
        "of up to seven runs. Where a "
        "method only prepares data, the same logistic regression is trained afterwards, except for EthicML's "
        "reweighting, which trains its own. Every implementation has its own defaults: for fair representations the "
        "objectives and the stopping rules differ, and the ratio compares what a user gets, not equal work."
    )
    found.table(("method", "peer", "here", "peer's time", "peer / here"), rows)
    measured = [row for row in rows if row[-1]]
    found.claim(
        "Speed",
        "no method is slower than its reference implementation",
        f"{len(measured)} pairs measured; slower here: {', '.join(slower) or 'none'}",
        not slower if measured else None,
    )


def prepare(people):
    """Import the peers and put the people into their containers before anything is timed."""
    for name in PEERS:
        with contextlib.suppress(Exception):  # one that is not there is reported by its first fit
            importlib.import_module(name)
    for convert in (aif_data, ethic_data):
        with contextlib.suppress(Exception):
            convert(people)


def processor_seconds(work):
    """Return the processor seconds of some work, with those of the processes that it starts and waits for."""

    def used():
        both = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        return sum(usage.ru_utime + usage.ru_stime for usage in both)

    before = used()
    work()
    return used() - before


def repeated(work, budget, quick):
    """Return the fewest processor seconds of several runs apart, or the error; slow ones are run once."""
    runs = []
    while not runs or (len(runs) < RUNS and sum(runs) < ENOUGH and budget.left > 0 and not quick):
        answer = apart(lambda: processor_seconds(work), PATIENCE[int(quick)])
        if "error" in answer:
            return answer
        runs.append(answer["value"])
    return {"seconds": min(runs)}


def shown(answer):
    return seconds(answer["seconds"]) if "seconds" in answer else answer["error"]


def ratio(mine, peer):
    both = "seconds" in mine and "seconds" in peer  # one that was stopped by the clock has no processor seconds
    return times(peer["seconds"] / mine["seconds"]) if both else ""


def works(people):
    X, y, z = people.X, people.y, people.z01.astype(int)
    base = LogisticRegression(solver="newton-cholesky")

    def ours(method):
        return lambda: method.fit(X, y, sensitive_features=z) and None

    b = baselines
    return {
        "reweighing": (
            ours(b.Reweighing(base)),
            {"AIF360": lambda: aif_reweighing(people, base), "EthicML": lambda: ethic_reweighting(people, base)},
        ),
        "massaging": (ours(b.Massaging(base)), {"EthicML": lambda: ethic_preparation(people, base, "Calders")}),
        "preferential sampling": (
            ours(b.PreferentialSampling(base)),
            {"EthicML": lambda: ethic_preparation(people, base, "Upsampler")},
        ),
        "disparate impact remover": (ours(b.RepairedClassifier(base)), {"AIF360": lambda: aif_remover(people, base)}),
        "prejudice remover": (ours(b.PrejudiceRemover(15.0)), {"AIF360": lambda: aif_prejudice_remover(people)}),
        "fair representations, 5 prototypes": (
            ours(b.FairRepresentations(5, random_state=0)),
            {"AIF360": lambda: aif_representations(people), "EthicML": lambda: ethic_zemel(people)},
        ),
    }


# --- AIF360


@once
def aif_data(people):
    from aif360.datasets import BinaryLabelDataset

    frame = pd.DataFrame(people.X, columns=[str(c) for c in range(people.X.shape[1])])
    frame = frame.assign(sex=people.z01, label=people.y.astype(float))
    return BinaryLabelDataset(df=frame, label_names=["label"], protected_attribute_names=["sex"])


GROUPS = {"unprivileged_groups": [{"sex": 0.0}], "privileged_groups": [{"sex": 1.0}]}


def aif_reweighing(people, base):
    from aif360.algorithms.preprocessing import Reweighing

    data = Reweighing(**GROUPS).fit_transform(aif_data(people))
    base.fit(people.X, people.y, sample_weight=data.instance_weights)


def aif_remover(people, base):
    from aif360.algorithms.preprocessing import DisparateImpactRemover

    data = DisparateImpactRemover(repair_level=1.0, sensitive_attribute="sex").fit_transform(aif_data(people))
    base.fit(data.features[:, :-1], people.y)


def aif_representations(people):
    from aif360.algorithms.preprocessing import LFR

    data = aif_data(people)
    LFR(**GROUPS, k=5, Ax=0.01, Ay=1.0, Az=50.0, verbose=0, seed=0).fit(data, maxiter=5000, maxfun=5000).transform(
        data
    )


def aif_prejudice_remover(people):
    from aif360.algorithms.inprocessing import PrejudiceRemover

    PrejudiceRemover(eta=15.0, sensitive_attr="sex", class_attr="label").fit(aif_data(people))


# --- EthicML


@once
def ethic_data(people):
    import ethicml as em

    x = pd.DataFrame(people.X, columns=[str(c) for c in range(people.X.shape[1])])
    return em.DataTuple.from_df(
        x=x, s=pd.Series(people.z01.astype(int), name="sex"), y=pd.Series(people.y.astype(int), name="label")
    )


def ethic_reweighting(people, base):
    from ethicml import models

    models.Reweighting(C=1.0).run(ethic_data(people), ethic_data(people).remove_y())


def ethic_preparation(people, base, name):
    from ethicml import models

    data = ethic_data(people)
    prepared, _ = getattr(models, name)().run(data, data.remove_y())
    base.fit(prepared.x.to_numpy(), prepared.y.to_numpy())


def ethic_zemel(people):
    import tempfile
    from pathlib import Path

    from ethicml import models

    data = ethic_data(people)
    with tempfile.TemporaryDirectory() as folder:
        models.Zemel(dir=Path(folder), clusters=5).run(data, data.remove_y())
