"""The experiments: units of work that survive a kill, claims, tables and the command.

The figures' numbers need the original data; what can go wrong around them is tested on synthetic data.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from fairmargin import CovarianceBound, IndividualLossBound, LossBound, baselines
from fairmargin.cli import app
from fairmargin.experiments import _work, claims, fig2, fig4, run, style, tables
from fairmargin.experiments._experiment import Plan, Results, collect
from fairmargin.experiments._work import Store, Unit, WorkError, run_units
from fairmargin.experiments.cli import register
from fairmargin.experiments.document import markdown_table

# ---------------------------------------------------------------------------------------------- units of work


def squares(upto, note="x"):
    return [{"i": i, "square": i * i} for i in range(upto)]


def fails(upto):
    raise ArithmeticError(f"cannot count to {upto}")


def counted(folder, number):
    """Leave a mark for every time that the unit is computed."""
    with open(Path(folder) / f"{number}.runs", "a") as file:
        file.write("x")
    return [{"number": number, "value": number / 7}]


CONSTANT = [1, 2]


def helper():
    return [x for x in CONSTANT if np.isfinite(x)]


def uses_helper():
    return [{"x": x} for x in helper()]


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "units")


def test_a_unit_is_computed_once(tmp_path, store):
    units = [Unit(counted, {"folder": str(tmp_path), "number": n}) for n in range(3)]
    seen = []
    assert run_units([*units, units[0]], store, done=lambda *told: seen.append(told)) == 3
    assert run_units(units, store) == 0
    assert [(tmp_path / f"{n}.runs").read_text() for n in range(3)] == ["x"] * 3
    assert [told[:2] for told in seen] == [(0, 3), (1, 3), (2, 3), (3, 3)]


def test_results_come_back_to_the_last_digit(tmp_path, store):
    unit = Unit(counted, {"folder": str(tmp_path), "number": 3})
    run_units([unit], store)
    assert store.read(unit) == [{"number": 3, "value": 3 / 7}]


def test_two_processes_give_what_one_gives(tmp_path):
    units = [Unit(squares, {"upto": n}) for n in (1, 4, 9)]
    one, two = Store(tmp_path / "one"), Store(tmp_path / "two")
    run_units(units, one, jobs=1)
    assert run_units(units, two, jobs=2) == 3
    assert [one.read(unit) for unit in units] == [two.read(unit) for unit in units]


@pytest.mark.parametrize("content", ["", '{"unit": {}, "rows"', '{"rows": []}', "[]", '{"unit": {}, "rows": [1]}'])
def test_a_damaged_file_is_computed_again(store, content):
    unit = Unit(squares, {"upto": 2})
    run_units([unit], store)
    store.path(unit).write_text(content)
    assert store.read(unit) is None
    assert run_units([unit], store) == 1
    assert store.read(unit) == squares(2)


def test_results_of_other_code_or_parameters_are_not_taken(store, monkeypatch):
    unit = Unit(squares, {"upto": 2})
    run_units([unit], store)
    assert store.read(Unit(squares, {"upto": 3})) is None
    monkeypatch.setattr(_work, "_fingerprint", lambda function: "other")
    assert store.read(unit) is None


def test_what_a_result_depends_on(monkeypatch):
    def needed():
        parts = {}
        _work._gather(uses_helper, parts)
        return parts

    before = needed()
    assert set(before) == {"uses_helper", "helper", "CONSTANT"}
    monkeypatch.setitem(globals(), "CONSTANT", [4, 5])
    assert needed() != before


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_unit_that_fails_stops_no_other(store, jobs):
    good, bad = Unit(squares, {"upto": 2}), Unit(fails, {"upto": 5}, cost=9.0)
    with pytest.raises(WorkError, match=r"1 of 2 units failed.*ArithmeticError: cannot count to 5"):
        run_units([bad, good], store, jobs=jobs)
    assert store.read(good) == squares(2)
    assert store.read(bad) is None


def test_files_of_killed_writers_are_swept_away(store):
    (store.folder / "squares").mkdir(parents=True)
    left = store.folder / "squares" / ".fairmargin-left"
    left.write_text("half")
    store.sweep()
    assert not left.exists()


def test_a_fresh_start_forgets(store):
    unit = Unit(squares, {"upto": 2})
    run_units([unit], store)
    store.clear()
    assert store.read(unit) is None


def test_two_runs_do_not_share_a_folder(store):
    pytest.importorskip("fcntl")
    with store.locked(), pytest.raises(WorkError, match="Another run"), Store(store.folder).locked():
        pass
    with store.locked():
        pass


def test_threads_are_as_before_after_a_run(store, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    run_units([Unit(squares, {"upto": 1})], store)
    assert os.environ["OMP_NUM_THREADS"] == "7"
    assert "MKL_NUM_THREADS" not in os.environ


def test_rows_carry_their_parameters(store):
    units = [Unit(squares, {"upto": n, "note": "a"}) for n in (1, 2)]
    run_units(units, store)
    table = collect(units, store)["squares"]
    assert table.to_dict("list") == {"upto": [1, 2, 2], "note": ["a"] * 3, "i": [0, 0, 1], "square": [0, 0, 1]}
    with pytest.raises(ValueError, match="not finished"):
        collect([Unit(squares, {"upto": 8})], store)


def test_means_are_over_splits():
    table = pd.DataFrame({"kind": ["b", "b", "a", "a"], "split": [0, 1, 0, 1], "value": [1.0, 3.0, 5.0, 6.0]})
    means = Results({"t": table}).mean("t", ["kind"])
    assert means.to_dict("list") == {"kind": ["b", "a"], "value": [2.0, 5.5]}


# ------------------------------------------------------------------------------------ killed and started again


def start(out, *options):
    command = [
        sys.executable,
        "-m",
        "fairmargin",
        "reproduce",
        "fig1",
        "--quick",
        "--out",
        str(out),
        *options,
    ]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def finish(process):
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert err == ""  # quiet when piped
    return out


def finished(out):
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in out.glob("units/*/*.json")}


def rows(files):
    return {path.name: json.loads(content)["rows"] for path, (_, content) in files.items()}


@pytest.mark.heavy
def test_killed_in_the_middle_it_goes_on_where_it_was(tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    told = finish(start(whole))
    total = len(finished(whole))
    assert f"units: {total}, of which {total} were computed now" in told

    process = start(broken)
    deadline = time.monotonic() + 120
    while len(finished(broken)) < 2:
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.002)
    # The parent alone: what it started must end by itself.
    process.kill()
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    wait_for_orphans(process.pid)
    kept = finished(broken)
    assert 2 <= len(kept) < total
    assert not (broken / "reproduction.md").exists()

    told = finish(start(broken))
    assert f"units: {total}, of which {total - len(kept)} were computed now" in told
    after = finished(broken)
    assert {path: after[path] for path in kept} == kept  # not a finished unit was touched
    assert rows(after) == rows(finished(whole))
    for name in ("claims.csv", "reproduction.md", "numbers/fig1a.csv", "figures/fig1a.png", "figures/fig1b.svg"):
        assert (broken / name).read_bytes() == (whole / name).read_bytes(), name
    again = run.reproduce(["fig1"], out=broken, quick=True, jobs=1)
    assert (again.units, again.computed) == (total, 0)


def wait_for_orphans(session):
    """Wait until nobody of a session (its leader's id) is left; sessions are told by /proc where there is one."""
    if not Path("/proc/self/stat").exists():
        time.sleep(5)
        return
    deadline = time.monotonic() + 60
    while any(session_of(path) == session for path in Path("/proc").glob("[0-9]*")):
        assert time.monotonic() < deadline, "workers outlived their parent"
        time.sleep(0.05)


def session_of(path):
    try:
        state, _, _, session = (path / "stat").read_text().rpartition(")")[2].split()[:4]
    except OSError:
        return None
    return None if state == "Z" else int(session)


# ------------------------------------------------------------------------------------------------------ claims


def test_verdicts():
    assert claims.verdict([True, np.True_]) == claims.HOLDS
    assert claims.verdict([True, False]) == claims.IN_PART
    assert claims.verdict(iter([False, False])) == claims.NOT


def test_levels_by_hand():
    curve = pd.DataFrame({"p": [20.0, 40.0, 60.0, 50.0], "a": [90.0, 80.0, 75.0, 10.0]})
    assert claims.at_level(curve, 50.0, x="p", y="a") == 77.5  # at the first crossing
    assert claims.at_level(curve, 20.0, x="p", y="a") == 90.0
    assert np.isnan(claims.at_level(curve, 61.0, x="p", y="a"))


@pytest.mark.parametrize(
    ("values", "slack", "rises", "falls"),
    [
        ([1, 2, 3], 0, True, False),
        ([1, 3, 2, 4], 0, False, False),
        ([1, 3, 2.8, 4], 0.5, True, False),
        ([3, 2, 1], 0, False, True),
        ([1, 1], 0, False, False),
    ],
)
def test_rising_and_falling(values, slack, rises, falls):
    assert claims.rises(values, slack) is rises
    assert claims.falls(values, slack) is falls


def test_claims_are_in_the_order_of_the_paper():
    made = [claims.Claim(n, "", "", "", claims.HOLDS) for n in (3, 1, 2)]
    assert claims.claims_frame(made)["number"].tolist() == [1, 2, 3]


# ------------------------------------------------------------------------------------------------------ tables


def test_every_row_of_table_1_is_declared_by_code():
    table = tables.capability_table()
    assert set(tables.PAPERS_MARKS) <= set(table["Method"])
    classes = {m.estimator.__name__ for m in baselines.METHODS}
    assert set(table["Declared by"][1:]) == classes
    shown = tables.compared_table()
    assert not shown.map(lambda cell: "from the paper" in str(cell)).any().any()
    assert len(shown) == len(baselines.METHODS) + 1


def test_where_table_1_differs_from_the_paper():
    shown = tables.compared_table()
    differing = {
        (row["Variant"], column)
        for _, row in shown.iterrows()
        for column in tables.COLUMNS
        if "paper:" in row[column]
    }
    treatment = ["Modified naive Bayes", "Two naive Bayes", "Fair representations, weights by group"]
    assert differing == {
        *((name, "Disparate treatment") for name in (*treatment, "Disparate impact remover")),
        ("Preferential sampling", "Polyvalent attributes"),
        ("Preferential sampling", "Multiple attributes"),
    }
    row = shown.set_index("Variant").loc["Preferential sampling"]
    assert row["Polyvalent attributes"] == "yes (an extension; paper: no)"


@pytest.mark.filterwarnings("ignore::fairmargin.TrivialClassifierWarning")  # it may refuse everybody here
def test_what_our_estimators_declare_is_true():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    y = (X[:, 0] + rng.normal(size=120) > 0).astype(int)
    people = pd.DataFrame({"a": rng.choice(list("xyz"), 120), "b": rng.choice(list("uv"), 120)})
    declared = tables.OURS
    for estimator in tables.ESTIMATORS:
        assert tables.needs_z(estimator) is declared.needs_z_at_prediction
        fitted = estimator(constraint=CovarianceBound(0.0)).fit(X, y, sensitive_features=people)
        assert declared.polyvalent
        assert declared.multiple
        assert set(fitted.covariance_.index.get_level_values(0)) == {"a", "b"}
        assert len(fitted.predict(X)) == 120
    assert declared.business_necessity
    for constraint in (LossBound(0.1), IndividualLossBound(0.5)):
        tables.ESTIMATORS[0](constraint=constraint).fit(X, y, sensitive_features=people[["b"]])


def test_markdown_of_a_table():
    table = pd.DataFrame({"who": ["a|b", "c"], "people": [20988, 3], "share": [0.5, 12.25]})
    assert markdown_table(table).splitlines() == [
        "| who | people | share |",
        "|---|---:|---:|",
        "| a\\|b | 20,988 | 0.5 |",
        "| c | 3 | 12.25 |",
    ]


# ------------------------------------------------------------------------------------------------- all together


def test_experiments_have_names_of_their_own_and_cover_the_paper():
    names = [experiment.name for experiment in run.EXPERIMENTS]
    assert len(set(names)) == len(names)
    assert {"table1", "fig1a", "fig1b", "fig2a", "fig2b", "fig2c", "fig3", "fig4", "figA1", "data"} <= set(names)
    for group, members in run.GROUPS.items():
        assert set(members) <= set(names), group
    assert [e.name for e in run.choose(["fig2", "fig1b", "fig2a"])] == ["fig1b", "fig2a", "fig2b", "fig2c"]
    assert run.choose([]) == run.EXPERIMENTS


def test_quick_does_less_of_everything():
    for experiment in run.EXPERIMENTS:
        quick, full = (len(experiment.units(Plan(quick))) for quick in (True, False))
        assert quick <= full
    assert len(Plan(quick=False).splits) == 5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"names": ["fig9"]}, "no experiment 'fig9'; the known ones are table1, fig1a"),
        ({"names": ["fig2"], "docs": "docs"}, "about all experiments"),
        ({"names": ["table1"], "jobs": 0}, "at least 1"),
    ],
)
def test_wrong_requests_are_refused_before_any_work(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        run.reproduce(out=tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_the_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if not hasattr(app, "_experiments"):
        register(app)
        app._experiments = True
    result = CliRunner().invoke(app, ["reproduce", "table1", "--out", "here"])
    assert result.exit_code == 0, result.output
    assert "claims: 3 holds, 0 holds in part, 0 does not hold" in result.output
    document = (tmp_path / "here" / "reproduction.md").read_text()
    assert (
        "| Kamishima et al. (2011) | Prejudice remover | no | yes | no | no | no | Logistic regression |" in document
    )
    assert "| 20 |" in document


def test_figures_leave_the_users_settings_alone():
    import matplotlib

    before = dict(matplotlib.rcParams)
    with style.styled():
        figure, axes = style.grid(1, 2)
        assert axes.shape == (1, 2)
        lines = axes[0, 0].plot([0, 1], [0, 1], label="a")
        style.below(figure, lines)
    assert dict(matplotlib.rcParams) == before
    colours = list(style.COLOURS.values())
    assert len(set(colours)) == 5  # the two methods of figure 4 take those of C-LR and C-SVM


@pytest.mark.data
@pytest.mark.slow
def test_figures_and_claims_on_the_original_data(tmp_path):
    report = run.reproduce(["data", "fig3"], out=tmp_path, quick=True, jobs=2)
    verdicts = {claim.number: claim.verdict for claim in report.claims}
    assert verdicts[36] == claims.HOLDS  # every count of the paper's tables
    assert verdicts[27] == claims.HOLDS
    assert (tmp_path / "figures" / "fig3.png").stat().st_size < 150_000
    assert (tmp_path / "figures" / "fig3.svg").read_text().startswith("<?xml")
    curve = pd.read_csv(tmp_path / "numbers" / "fig3.csv")
    assert curve.groupby("attributes")["factor"].agg(["max", "min"]).to_numpy().tolist() == [[1, 0], [1, 0]]


@pytest.mark.data
def test_a_frontier_of_figure_2():
    found = pd.DataFrame(fig2.frontier("bank", "C-LR", split=0, points=5))
    assert found["covariance"].is_monotonic_decreasing
    assert found["relative_loss"].iloc[[0, -1]].tolist() == pytest.approx([0, 1])
    assert found["gap"].max() < 1e-8
    assert found["train_p_rule"].iloc[0] == pytest.approx(
        100 * found["train_protected"].iloc[0] / found["train_non_protected"].iloc[0]
    )


@pytest.mark.data
def test_nobody_with_a_promise_is_refused_in_figure_4():
    (row,) = fig4.bounded("bank", "Fine-γ-LR", split=0, gamma=1.0)
    assert row["kept"] > 0
    assert row["kept_refused"] == 0
    assert 0 < row["covariance_share"] < 1
    (row,) = fig4.bounded("bank", "γ-LR", split=0, gamma=0.05)
    assert row["loss_increase"] == pytest.approx(0.05)
