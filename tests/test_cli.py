"""The command line: every command, every mistake in one line, exit statuses, start-up time, Ctrl-C."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fairmargin import io
from fairmargin.cli import run
from fairmargin.cli.options import FLAGS
from fairmargin.datasets.demo import make_credit_demo
from fairmargin.tables.specifications import parse_constraint, parse_constraints, parse_selection

COMMAND = [sys.executable, "-m", "fairmargin"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty working folder with the demo's people in it as files."""
    monkeypatch.chdir(tmp_path)
    people = make_credit_demo(600)
    people.to_csv("people.csv", index=False)
    people.to_parquet("people.parquet")
    return tmp_path


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    make_credit_demo(600).to_csv(path / "people.csv", index=False)
    arguments = ["-t", "repaid", "-p", "yes", "-s", "sex", "-x", "origin", "-q", "-o", str(path / "model.json")]
    assert run(["train", str(path / "people.csv"), *arguments]) == 0
    return path / "model.json"


def files(folder):
    return sorted(p.name for p in Path(folder).iterdir())


ASK = ["-t", "repaid", "-p", "yes", "-s", "sex"]


def test_constraints_that_contradict_each_other_are_named_as_typed(folder, capsys):
    asked = ["--constraint", "covariance=0", "--constraint", "loss=0.0001", "--constraint", "individual=1000%"]
    assert run(["train", "people.csv", *ASK, *asked, "-q", "-o", "m.json"]) == 2
    said = capsys.readouterr().err
    assert "--constraint covariance=0 and --constraint loss=0.0001 contradict each other" in said
    assert "Bound(" not in said


def test_audit_prints_writes_and_gates(folder, capsys):
    outputs = ["--json", "a.json", "--markdown", "a.md", "--html", "a.html"]
    assert run(["audit", "people.csv", *ASK, "-s", "origin", "--intersections", *outputs, "--verbose"]) == 0
    out, err = capsys.readouterr()
    assert "sex (compared with man)" in out
    assert "sex × origin" in out
    assert "hours_per_week" in out  # a proxy
    assert "complian" not in out.lower()
    assert err == ""
    summary = json.loads(Path("a.json").read_text())
    assert summary["kind"] == "audit"
    assert [a["name"] for a in summary["audit"]["attributes"]] == ["sex", "origin", "sex × origin"]
    assert "| woman |" in Path("a.md").read_text()
    assert "<script" not in Path("a.html").read_text()
    assert files(folder) == ["a.html", "a.json", "a.md", "people.csv", "people.parquet"]
    lowest = summary["audit"]["lowest"]["ratio"]
    assert run(["audit", "people.csv", *ASK, "--fail-under", f"{lowest - 1}", "-q"]) == 0
    assert run(["audit", "people.csv", *ASK, "--fail-under", "99.9", "-q"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(r"fairmargin: the p%-rule of sex = woman \(each group .*\) is [\d.]+%, under 99.9%\n", err)


def test_audit_of_decisions_and_of_a_model(folder, model, capsys):
    people = pd.read_csv("people.csv").assign(approved=lambda d: np.where(d["income"] > 2000, 1, 0))
    people.to_csv("decided.csv", index=False)
    assert run(["audit", "decided.csv", "-s", "sex", "--decision", "approved", "--json", "-"]) == 0
    own = json.loads(capsys.readouterr().out)
    assert own["audit"]["positives"] == int(people["approved"].sum())
    assert run(["audit", "people.csv", "-s", "sex", "--model", str(model), "--json", "-"]) == 0
    modelled = json.loads(capsys.readouterr().out)
    scores = io.load(model).scores(pd.read_csv("people.csv"))
    assert modelled["audit"]["positives"] == int((scores >= 0).sum())
    assert modelled["audit"]["attributes"][0]["covariance"][0]["group"] == "woman"


def test_audit_that_cannot_say_fails_its_gate(folder, capsys):
    make_credit_demo(40).to_csv("few.csv", index=False)
    assert run(["audit", "few.csv", *ASK, "--fail-under", "80", "-q", "--min-people", "100"]) == 1
    assert "no group has enough people" in capsys.readouterr().err


CONSTRAINTS = [
    "none",
    "covariance=0.1",
    "covariance=20%",
    "covariance=sex:0",
    "p-rule=80",
    "loss=2%",
    "individual=0.5",
]


@pytest.mark.parametrize("constraint", [*CONSTRAINTS, "nobody-loses=1"])
def test_train_and_predict(constraint, folder, capsys):
    arguments = ["--constraint", constraint, "-o", "model.json", "--json", "train.json", "--markdown", "train.md"]
    assert run(["train", "people.csv", *ASK, "-x", "origin", *arguments]) == 0
    out = capsys.readouterr().out
    assert "certificate: " in out
    assert out.endswith("model: model.json\n")
    summary = json.loads(Path("train.json").read_text())
    assert summary["settings"]["constraint"] == constraint
    assert summary["data"]["train_people"] + summary["data"]["test_people"] == 600
    people = pd.read_csv("people.csv").drop(columns=["sex", "origin", "repaid"])
    people.to_csv("new.csv", sep=";", index=False)
    assert run(["predict", "model.json", "new.csv", "-o", "decisions.csv", "--keep", "age,income"]) == 0
    decided = pd.read_csv("decisions.csv")
    assert decided.columns.tolist() == ["age", "income", "decision", "score", "probability"]
    model = io.load("model.json")
    np.testing.assert_array_equal(decided["score"], model.scores(people))
    assert set(decided["decision"]) <= {"yes", "no"}
    assert model.facts["data"]["sha256"] == summary["data"]["sha256"]


def test_a_column_to_keep_may_be_named_twice(folder):
    assert run(["train", "people.csv", *ASK, "-q", "-o", "model.json"]) == 0
    given = ["--keep", "sex,age,sex", "--keep", "age"]
    assert run(["predict", "model.json", "people.csv", "-o", "decisions.csv", "-q", *given]) == 0
    assert pd.read_csv("decisions.csv").columns.tolist()[:3] == ["sex", "age", "decision"]


@pytest.mark.parametrize(
    ("spaced", "plain"),
    [
        (" p-rule = 80 ", "p-rule=80"),
        ("difference =0.05", "difference=0.05"),
        ("covariance= sex:0, origin:0.1", "covariance=sex:0,origin:0.1"),
        ("covariance = 20%", "covariance=20%"),
        ("nobody-loses ", "nobody-loses"),
    ],
)
def test_spaces_around_a_constraint_do_not_matter(spaced, plain):
    assert repr(parse_constraint(spaced)) == repr(parse_constraint(plain))
    assert repr(parse_constraints([spaced, "loss = 5%"])) == repr(parse_constraints([plain, "loss=5%"]))


def test_spaces_around_a_rule_to_test_or_to_select_do_not_matter():
    asked = parse_constraints(["p-rule = 80", "loss = 5%"], confidence=0.9)
    assert asked == parse_constraints(["p-rule=80", "loss=5%"], confidence=0.9)
    assert parse_selection("p-rule = 85 %") == parse_selection("p-rule=85%")


@pytest.mark.parametrize("estimator", ["linear-svm", "squared-hinge", "svm"])
def test_other_estimators(estimator, folder, capsys):
    assert run(["train", "people.csv", *ASK, "-e", estimator, "-o", "model.json", "--C", "0.5"]) == 0
    capsys.readouterr()
    assert run(["predict", "model.json", "people.parquet", "-o", "out.parquet", "-q"]) == 0
    assert pd.read_parquet("out.parquet").columns.tolist() == ["decision", "score"]
    assert capsys.readouterr() == ("", "")


def test_train_twice_gives_the_same_bytes(folder):
    for name in ("a.json", "b.json"):
        assert run(["train", "people.csv", *ASK, "-q", "-o", name]) == 0
    assert Path("a.json").read_bytes() == Path("b.json").read_bytes()


def test_frontier_writes_every_form(folder, capsys):
    outputs = ["-o", "r.html", "--json", "r.json", "--markdown", "r.md"]
    assert run(["frontier", "people.csv", *ASK, "--points", "5", *outputs]) == 0
    assert capsys.readouterr().out.endswith("report: r.html\n")
    summary = json.loads(Path("r.json").read_text())
    assert [curve["key"] for curve in summary["curves"]] == ["rule", "covariance"]
    assert [p["factor"] for p in summary["curves"][1]["points"]] == [1.0, 0.75, 0.5, 0.25, 0.0]
    assert [a["key"] for a in summary["answers"]] == ["proposed", "loss2", "nobody"]
    assert "## Verdict" in Path("r.md").read_text()
    assert files(folder) == ["people.csv", "people.parquet", "r.html", "r.json", "r.md"]


def test_demo_needs_no_options(folder, capsys):
    assert run(["audit", "--demo"]) == 0
    assert "made up for demonstration" in capsys.readouterr().out
    assert run(["train", "--demo", "-o", "demo.json", "-q"]) == 0


def test_missing_values_are_imputed_and_said(folder, capsys):
    people = pd.read_csv("people.csv")
    people.loc[:20, "age"] = np.nan
    people.loc[:10, "housing"] = None
    people.loc[:5, "sex"] = None
    people.loc[590:, "repaid"] = None
    people.to_csv("gaps.csv", index=False, na_rep="?")
    assert run(["train", "gaps.csv", *ASK, "-o", "model.json", "--test-share", "0"]) == 0
    said = capsys.readouterr().out
    assert "'age' is missing for 21 people: the median" in said
    assert "'housing' is missing for 11 people: a level of their own" in said
    assert "'sex' is missing for 6 people: a group of their own" in said
    assert "10 people without a value of 'repaid' were left out" in said
    assert run(["predict", "model.json", "gaps.csv", "-o", "out.csv"]) == 0
    assert "'age' is missing for 21 people" in capsys.readouterr().err
    assert len(pd.read_csv("out.csv")) == 600
    assert run(["train", "gaps.csv", *ASK, "--missing-sensitive", "error", "-o", "no.json"]) == 2
    assert "'sex' is missing for 6 people" in capsys.readouterr().err
    assert not Path("no.json").exists()


def test_numbers_as_groups(folder, capsys):
    assert run(["audit", "people.csv", "-t", "repaid", "-p", "yes", "-s", "age", "--bin", "age=30,60"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in ("under 30", "30 to under 60", "60 and over"))
    assert run(["audit", "people.csv", "-t", "repaid", "-p", "yes", "-s", "age"]) == 0
    assert "cut into quarters" in capsys.readouterr().out


def spoilt(folder):
    """Files with everything that can be wrong with them."""
    people = pd.read_csv("people.csv")
    Path("empty.csv").write_text("")
    Path("header.csv").write_text("sex,repaid,age\n")
    people.assign(sex="woman").to_csv("one_group.csv", index=False)
    people.assign(repaid=np.resize(["yes", "no", "maybe"], 600)).to_csv("three.csv", index=False)
    people.assign(repaid="yes").to_csv("one_value.csv", index=False)
    people.head(5).to_csv("five.csv", index=False)
    Path("ragged.csv").write_text("sex,repaid,age\nman,yes,3\nman,no,4,5,6\n")
    Path("binary.csv").write_bytes(b"\x00\x01\x02" * 100)
    Path("latin.csv").write_bytes("sex,repaid,stra\xdfe\nmann,yes,\xe4\n".encode("latin-1"))
    Path("broken.parquet").write_bytes(b"PAR1 nothing else PAR1")
    Path("folder.csv").mkdir()


DATA_MISTAKES = [
    (["nothing.csv", *ASK], "There is no file 'nothing.csv'"),
    (["peoples.csv", *ASK], "did you mean 'people.csv'?"),
    (["folder.csv", *ASK], "has no Parquet files"),
    (["empty.csv", *ASK], "empty.csv is empty"),
    (["header.csv", *ASK], "header.csv has no rows of data"),
    (["people.csv", "-t", "repayed", "-p", "yes", "-s", "sex"], "no target column 'repayed'; did you mean 'repaid'?"),
    (["people.csv", "-t", "repaid", "-p", "yes", "-s", "Sex"], "no sensitive column 'Sex'; did you mean 'sex'?"),
    (["people.csv", "-t", "repaid", "-p", "yes", "-s", "zzz"], "no sensitive column 'zzz'; the columns are age, "),
    (["people.csv", "-t", "repaid", "-p", "yes"], "at least one sensitive column"),
    (["people.csv", "-t", "repaid", "-s", "sex"], "is the favourable one; it has 'no' and 'yes' (option --positive)"),
    (["people.csv", "-t", "repaid", "-p", "oui", "-s", "sex"], "'oui' does not occur in 'repaid'"),
    (["one_group.csv", *ASK], "'sex' has only one group ('woman')"),
    (["three.csv", *ASK], "'repaid' has 3 values ('maybe', 'no', 'yes'); exactly two are needed"),
    (["one_value.csv", *ASK], "'repaid' holds only 'yes'"),
    (["people.csv", *ASK, "--delimiter", ";"], "it looks comma-separated. Try --delimiter ,"),
    (["people.csv", *ASK, "--delimiter", "ab"], "must be one ASCII character"),
    (["people.csv", *ASK, "--names", "a,b"], "2 names are given, but people.csv has 12 columns (option --names)"),
    (["people.csv", *ASK, "--names", "zzz"], "'zzz' is none of these"),
    (["ragged.csv", *ASK], "Line 3 of ragged.csv has 5 fields where the first has 3"),
    (["binary.csv", *ASK], "neither a text file nor Parquet"),
    (["latin.csv", *ASK], "not utf-8 text; give its encoding. Try --encoding latin-1"),
    (["broken.parquet", *ASK], "damaged Parquet file"),
    (
        ["people.csv", *ASK, "--bin", "age=30"],
        "Limits are given for 'age', which is no sensitive column (option --bin)",
    ),
    (["people.csv", *ASK, "--bin", "sex=30"], "holds no numbers"),
    (["people.csv", *ASK, "--bin", "age"], "--bin takes COL=VALUE"),
    (["people.csv", *ASK, "--missing-sensitive", "maybe"], "not 'maybe' (option --missing-sensitive)"),
    (["people.csv", *ASK, "--nonsense"], "No such option"),
    (["people.csv", "--demo", *ASK], "DATA or --demo, not both"),
    ([*ASK], "Name a data file, or try --demo"),
]


@pytest.mark.parametrize("command", ["audit", "train", "frontier"])
def test_mistakes_in_the_data_are_one_line(command, folder, capsys):
    spoilt(folder)
    before = files(folder)
    for arguments, message in DATA_MISTAKES:
        assert run([command, *arguments]) == 2, arguments
        out, err = capsys.readouterr()
        assert out == ""
        assert message in err, (arguments, err)
        assert err.startswith("fairmargin: ")
        assert err.count("\n") == 1
        assert "Traceback" not in err
        assert files(folder) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["audit", "people.csv", "-s", "sex"], "Say what to audit"),
        (["audit", "people.csv", *ASK, "--reference", "sex=girl"], "'girl' is no group of 'sex'"),
        (["audit", "people.csv", *ASK, "--intersections"], "at least two sensitive attributes"),
        (["train", "people.csv", "-s", "sex"], "Name the column to predict"),
        (["train", "people.csv", *ASK, "--constraint", "magic"], "There is no constraint 'magic'"),
        (["train", "people.csv", *ASK, "--constraint", "p_rule=80"], "did you mean 'p-rule'?"),
        (["train", "people.csv", *ASK, "--constraint", "p-rule=0.8"], "did you mean 80?"),
        (["train", "people.csv", *ASK, "--constraint", "covariance=x"], "is not understood"),
        (["train", "people.csv", *ASK, "--constraint", "p-rule=80,nobody-loses"], "Give each constraint on its own"),
        (["train", "people.csv", *ASK, "-e", "forest"], "There is no estimator 'forest'"),
        (["train", "people.csv", *ASK, "--C", "-1"], "C must be positive"),
        (["train", "people.csv", *ASK, "--test-share", "1.5"], "from 0 to less than 1"),
        (["train", "people.csv", *ASK, "--features", "ages"], "no feature 'ages'; did you mean 'age'?"),
        (["train", "people.csv", *ASK, "--features", "sex"], "cannot be a feature and the target or sensitive"),
        (["train", "people.csv", *ASK, "-o", "no/model.json"], "The folder 'no' does not exist"),
        (["train", "people.csv", *ASK, "-o", "m.json", "--json", "m.json"], "same file name"),
        (["frontier", "people.csv", *ASK, "--points", "1"], "--points"),
        (["frontier", "people.csv", *ASK, "-o", "."], "is a folder"),
        (["predict", "nothing.json", "people.csv"], "no model file 'nothing.json'"),
        (["predict", "people.csv", "people.csv"], "is it a model of fairmargin?"),
        (["five"], "No such command 'five'"),
    ],
)
def test_mistakes_in_the_arguments_are_one_line(arguments, message, folder, capsys):
    before = files(folder)
    assert run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert err.count("\n") == 1
    assert files(folder) == before


def test_a_model_that_does_not_fit(model, folder, capsys):
    Path("zero.json").write_text("")
    Path("empty.csv").write_text("")
    newer = json.loads(model.read_text()) | {"format_version": 99}
    Path("newer.json").write_text(json.dumps(newer))
    pd.read_csv("people.csv").drop(columns="income").to_csv("less.csv", index=False)
    pd.read_csv("people.csv").assign(income="much").to_csv("words.csv", index=False)
    cases = [
        ("zero.json", "people.csv", "zero.json is empty"),
        ("newer.json", "people.csv", "newer fairmargin (model format 99"),
        (str(model), "nothing.csv", "There is no file 'nothing.csv'"),
        (str(model), "empty.csv", "empty.csv is empty"),
        (str(model), "less.csv", "There is no feature 'income'"),
        (str(model), "words.csv", "'income' should hold numbers, but row 1 has 'much'"),
    ]
    before = files(folder)
    for file, data, message in cases:
        for arguments in (["predict", file, data, "-o", "out.csv"], ["audit", data, "-s", "sex", "--model", file]):
            assert run(arguments) == 2
            out, err = capsys.readouterr()
            assert (out, err.count("\n")) == ("", 1)
            assert message in err
        assert files(folder) == before
    assert run(["predict", str(model), "people.csv", "--delimiter", ";", "-o", "out.csv"]) == 2
    assert "it looks comma-separated" in capsys.readouterr().err
    assert run(["predict", str(model), "people.csv", "-o", "no/out.csv"]) == 2
    assert "The folder 'no' does not exist" in capsys.readouterr().err
    assert run(["predict", str(model), "people.csv", "--keep", "nam", "-o", "out.csv"]) == 2
    assert "There is no column 'nam'" in capsys.readouterr().err
    assert files(folder) == before


def test_a_read_only_folder_is_refused_before_the_work(folder, capsys, monkeypatch):
    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    for command in (["train", "people.csv", *ASK], ["frontier", "people.csv", *ASK]):
        assert run(command) == 2
        assert "Nothing can be written to '.': Permission denied" in capsys.readouterr().err


def test_a_disk_that_fills_up_leaves_nothing_behind(folder, capsys, monkeypatch):
    before = files(folder)

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert run(["train", "people.csv", *ASK, "-q"]) == 2
    assert "No space left on device" in capsys.readouterr().err
    assert files(folder) == before


def test_debug_shows_the_traceback(folder):
    with pytest.raises(ValueError, match="no file"):
        run(["audit", "nothing.csv", *ASK, "--debug"])


def test_hostile_names_cannot_move_the_cursor(folder, capsys):
    people = pd.read_csv("people.csv").rename(columns={"sex": "\x1b[2J\u202esex", "age": "[red]age\n<script>"})
    people.to_csv("hostile.csv", index=False)
    assert run(["audit", "hostile.csv", "-t", "repaid", "-p", "yes", "-s", "\x1b[2J\u202esex"]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert run(["audit", "hostile.csv", "-t", "repaid", "-p", "yes", "-s", "\x1b[2J"]) == 2
    assert "\x1b" not in capsys.readouterr().err


def test_names_of_a_file_without_header(folder, capsys):
    people = pd.read_csv("people.csv")
    people.to_csv("bare.csv", index=False, header=False)
    Path("names.txt").write_text("".join(f"{name}: continuous.\n" for name in people.columns))
    for names in (",".join(people.columns), "names.txt"):
        assert run(["audit", "bare.csv", *ASK, "--names", names, "--json", "-"]) == 0
        assert json.loads(capsys.readouterr().out)["audit"]["people"] == 600
    assert run(["audit", "bare.csv", *ASK]) == 2
    assert "no header was found" in capsys.readouterr().err
    assert run(["audit", "bare.csv", "-t", "column_12", "-p", "yes", "-s", "column_10"]) == 0
    assert "called column_1 to column_12" in capsys.readouterr().out


def test_the_python_of_the_documentation_runs(folder):
    document = Path(__file__).parents[1] / "docs" / "cli.md"
    (code,) = re.findall(r"```python\n(.*?)```", document.read_text(), flags=re.DOTALL)
    pd.read_csv("people.csv").to_csv("new.csv", index=False)
    names = {}
    exec(code, names)
    assert Path("model.json").exists()
    assert names["summary"]["kind"] == "frontier"  # of the last of them, a proposal among all candidates


def test_every_option_that_an_error_may_name_exists(capsys):
    assert run(["train", "--help"]) == run(["audit", "--help"]) == run(["frontier", "--help"]) == 0
    described = capsys.readouterr().out
    assert [flag for flag in FLAGS.values() if flag not in described] == []


def test_help_and_version(capsys):
    for command in ([], ["audit"], ["train"], ["predict"], ["frontier"]):
        assert run([*command, "--help"]) == 0
        assert "fairmargin" in capsys.readouterr().out
    assert run([]) == 0
    assert "Usage" in capsys.readouterr().out
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("fairmargin ")


def test_help_starts_fast():
    code = "import sys, fairmargin.cli; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"numpy", "pandas", "scipy", "sklearn", "statsmodels", "plotly", "jinja2"} & set(modules)


def test_a_mistyped_name_is_found_before_anything_heavy_is_imported(tmp_path):
    calls = (
        ["train", "none.csv", "-t", "a", "-s", "b"],
        ["frontier", "none.csv", "-t", "a", "-s", "b"],
        ["audit", "none.csv", "-s", "b"],
        ["predict", "none.json", "none.csv"],
    )
    code = f"import sys; from fairmargin.cli import run\n[run(call) for call in {calls!r}]\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stderr.count("There is no") == len(calls)
    assert not {"numpy", "pandas", "sklearn", "scipy"} & set(done.stdout.split())


def test_without_typer_one_line_names_the_extra():
    code = "import sys; sys.modules['typer'] = None; from fairmargin.__main__ import main; sys.exit(main())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == 'fairmargin: the command line is not installed; pip install "fairmargin[cli]"\n'


def test_a_missing_package_is_named(folder, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "statsmodels.stats.proportion", None)
    assert run(["audit", "people.csv", *ASK]) == 2
    assert 'pip install "fairmargin[cli]"' in capsys.readouterr().err


FITS_FOR_EVER = """
import sys
from fairmargin import FairnessFrontier
from fairmargin.__main__ import main
fit = FairnessFrontier.fit
def again_and_again(*given, **named):
    print("fits", flush=True)
    while True:
        fit(*given, **named)
FairnessFrontier.fit = again_and_again
sys.exit(main())
"""


def test_ctrl_c_leaves_with_130_and_no_file(folder):
    before = files(folder)
    command = [sys.executable, "-c", FITS_FOR_EVER, "frontier", "--demo", "--points", "201"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "fits\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert err == "fairmargin: stopped\n"
    assert out == ""
    assert files(folder) == before


@pytest.mark.data
@pytest.mark.slow
def test_adult_end_to_end_from_the_raw_file(tmp_path):
    from fairmargin.datasets import _files

    (tmp_path / "adult.data").write_bytes(_files.read("adult.data"))
    ask = ["-t", "income", "-p", ">50K", "-s", "sex,race", "-x", "fnlwgt", "-o", "r.html", "--json", "r.json"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    subprocess.run(
        [*COMMAND, "frontier", "adult.data", *ask],
        cwd=tmp_path,
        env=environment,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    summary = json.loads((tmp_path / "r.json").read_text())
    exact = summary["curves"][1]["points"]
    assert len(exact) == 21
    assert summary["data"]["rows"] == 32561
    assert all(p["certificate"]["gap"] < 1e-8 for p in exact)
    assert "recognised as UCI Adult" in summary["notes"][0]
    assert all(a["details"] for a in summary["answers"])
