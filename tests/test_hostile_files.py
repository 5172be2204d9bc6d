"""Files and streams as a hostile or careless user gives them: nothing is damaged, nothing passes silently."""

import gzip
import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fairmargin.cli import run
from fairmargin.datasets.demo import make_credit_demo
from waiting import until

COMMAND = [sys.executable, "-m", "fairmargin"]
ASK = ["-t", "repaid", "-p", "yes", "-s", "sex"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    path = tmp_path_factory.mktemp("trained")
    make_credit_demo(600).to_csv(path / "people.csv", index=False)
    assert run(["train", str(path / "people.csv"), *ASK, "-q", "-o", str(path / "model.json")]) == 0
    return path / "model.json"


@pytest.fixture
def folder(tmp_path, monkeypatch, trained):
    """An empty working folder with the demo's people and a model in it."""
    monkeypatch.chdir(tmp_path)
    make_credit_demo(600).to_csv("people.csv", index=False)
    Path("model.json").write_bytes(trained.read_bytes())
    return tmp_path


def assert_refused(arguments, message, capsys, status=2):
    """Run a command that must end with one line that holds ``message``."""
    assert run(arguments) == status, arguments
    out, err = capsys.readouterr()
    assert message in err, err
    assert (out, err.count("\n")) == ("", 1)
    assert "unexpected" not in err


# ------------------------------------------------------------------------------------------ what is written over


def test_a_named_pipe_is_written_into(folder):
    os.mkfifo("pipe")
    received = []
    reader = threading.Thread(target=lambda: received.append(Path("pipe").read_bytes()), daemon=True)
    reader.start()
    assert run(["train", "people.csv", *ASK, "-q", "-o", "pipe"]) == 0
    assert stat.S_ISFIFO(os.lstat("pipe").st_mode)
    reader.join(timeout=120)
    assert json.loads(received[0])["format"] == "fairmargin-model"


def test_a_device_is_written_into(folder):
    try:
        os.mknod("null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))  # another /dev/null
        Path("null").write_bytes(b"")
    except OSError:
        pytest.skip("only root can make a device, and not everywhere")
    outputs = ["-o", "null", "--json", "summary.json"]
    assert run(["train", "people.csv", *ASK, "-q", *outputs]) == 0
    assert run(["predict", "model.json", "people.csv", "-q", "-o", "null"]) == 0
    assert stat.S_ISCHR(os.lstat("null").st_mode)


def test_the_standard_output_by_its_name(folder):
    with open("redirected.json", "wb") as file:
        arguments = [*COMMAND, "train", "people.csv", *ASK, "-q", "-o", "/dev/stdout"]
        assert subprocess.run(arguments, stdout=file, check=False).returncode == 0
    assert json.loads(Path("redirected.json").read_text())["format"] == "fairmargin-model"


@pytest.mark.parametrize("link", [None, os.symlink, os.link], ids=["name", "symbolic link", "hard link"])
def test_no_input_is_overwritten(link, folder, capsys):
    Path("names.txt").write_text("\n".join(pd.read_csv("people.csv").columns))
    pd.read_csv("people.csv").to_csv("bare.csv", index=False, header=False)
    commands = [
        ("people.csv", ["predict", "model.json", "people.csv", "-o"]),
        ("model.json", ["predict", "model.json", "people.csv", "-o"]),
        ("people.csv", ["train", "people.csv", *ASK, "-o"]),
        ("people.csv", ["train", "people.csv", *ASK, "-o", "new.json", "--json"]),
        ("people.csv", ["frontier", "people.csv", *ASK, "-o"]),
        ("people.csv", ["audit", "people.csv", *ASK, "--html"]),
        ("model.json", ["audit", "people.csv", "-s", "sex", "--model", "model.json", "--markdown"]),
        ("names.txt", ["audit", "bare.csv", *ASK, "--names", "names.txt", "--json"]),
    ]
    for file, arguments in commands:
        before = Path(file).read_bytes()
        name = file
        if link is not None:
            name = "link"
            link(file, name)
        assert_refused([*arguments, name], "is also the input", capsys)
        assert Path(file).read_bytes() == before
        if link is not None:
            os.unlink(name)


def test_two_outputs_are_not_one_file(folder, capsys):
    os.symlink("a.json", "b.json")
    Path("a.json").write_text("")
    assert_refused(["train", "people.csv", *ASK, "-o", "a.json", "--json", "b.json"], "same file name", capsys)
    assert_refused(["audit", "people.csv", *ASK, "--json", "-", "--markdown", "-"], "same file name", capsys)
    assert_refused(["audit", "people.csv", *ASK, "--json", "x" * 300], "File name too long", capsys)


# ------------------------------------------------------------------------------------------------ damaged tables


def ragged(change, line, lines=None):
    """Return the text of a table in which one line is changed."""
    rows = lines or make_credit_demo(100).to_csv(index=False).splitlines()
    rows = list(rows)
    rows[line - 1] = change(rows[line - 1])
    return "\n".join(rows) + "\n"


def quoted():
    return ["a,sex,repaid", *['"x ""1"",\ny",man,yes', "2,woman,no"] * 10]


RAGGED = {
    "first row": (ragged(lambda row: row + ",x", 2), "Line 2 of ragged.csv has 13 fields where the first has 12"),
    "empty field": (ragged(lambda row: row + ",", 2), "Line 2 of ragged.csv has 13 fields"),
    "every row": (
        "a,sex,repaid\n" + "1,man,yes,3\n2,woman,no,4\n" * 9,
        "Line 2 of ragged.csv has 4 fields where the first has 3",
    ),
    "in the middle": (ragged(lambda row: row + ",x", 51), "Line 51 of ragged.csv has 13 fields"),
    "two more": (ragged(lambda row: row + ",x,y", 51), "Line 51 of ragged.csv has 14 fields"),
    "one less": (ragged(lambda row: row.rsplit(",", 1)[0], 101), "Line 101 of ragged.csv has 11 fields"),
    "quotes": (ragged(lambda row: row + ",x", 5, quoted()), "Line 7 of ragged.csv has 4 fields"),
    "comment": ("|a comment\n" + ragged(lambda row: row + ",x", 3), "Line 4 of ragged.csv has 13 fields"),
    "windows": (ragged(lambda row: row + ",x", 3).replace("\n", "\r\n"), "Line 3 of ragged.csv has 13 fields"),
    "old mac": (ragged(lambda row: row + ",x", 3).replace("\n", "\r"), "Line 3 of ragged.csv has 13 fields"),
    "open quote": (ragged(lambda row: '"' + row, 3), "ragged.csv"),
}


@pytest.mark.parametrize("name", RAGGED)
def test_rows_of_another_width_are_an_error(name, folder, capsys):
    text, message = RAGGED[name]
    Path("ragged.csv").write_bytes(text.encode())
    for command in (["audit", "ragged.csv", *ASK], ["train", "ragged.csv", *ASK]):
        assert_refused(command, message, capsys)


def test_rows_of_the_same_width_are_read_whatever_they_hold(folder, capsys):
    Path("quoted.csv").write_text("\n".join(quoted()) + "\n\n  \n")
    assert run(["audit", "quoted.csv", *ASK, "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["audit"]["people"] == 20
    wide = pd.DataFrame(np.ones((40, 12_000)), columns=[f"a_long_name_{k}" for k in range(12_000)])
    wide.insert(5000, "sex", ["man", "woman"] * 20)
    wide.insert(11_000, "repaid", (["yes"] * 11 + ["no"] * 9) * 2)
    wide.to_csv("wide.csv", index=False)
    assert run(["train", "wide.csv", *ASK, "--features", "a_long_name_7", "-q"]) == 2
    assert "constant" in capsys.readouterr().err  # and not that a column is missing


def test_a_compressed_file_has_a_limit(folder, capsys):
    with gzip.open("bomb.csv.gz", "wb") as file:
        file.write(b"sex,repaid\n" + b"man,yes\nwoman,no\n" * 1_000_000)
    assert os.path.getsize("bomb.csv.gz") < 100_000
    assert_refused(["audit", "bomb.csv.gz", *ASK, "--max-size", "0.01"], "more than 10,000,000 bytes", capsys)
    people = pd.DataFrame({"sex": np.resize(["man", "woman"], 500_000), "repaid": np.resize(["yes", "no"], 500_000)})
    people.to_parquet("bomb.parquet")
    assert os.path.getsize("bomb.parquet") < 200_000
    assert_refused(["audit", "bomb.parquet", *ASK, "--max-size", "0.001"], "(option --max-size)", capsys)
    assert run(["audit", "bomb.parquet", *ASK, "-q"]) == 0
    assert_refused(["audit", "people.csv", *ASK, "--max-size", "0"], "--max-size", capsys)


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="no /dev/zero")
def test_a_file_without_end_is_an_error(folder, capsys):
    assert_refused(["audit", "/dev/zero", *ASK, "--max-size", "0.001"], "more than 1,000,000 bytes", capsys)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (gzip.compress(make_credit_demo(100).to_csv().encode())[:-200], "truncated gzip file"),
        (gzip.compress(make_credit_demo(100).to_csv().encode())[:12], "truncated gzip file"),
        (gzip.compress(b"a,b\n1,2\n" * 100)[:30] + b"garbage" * 50, "damaged gzip file"),
        (gzip.compress(b"a,b\n1,2\n") + b"garbage", "damaged gzip file"),
        (gzip.compress(b""), "is empty"),
    ],
    ids=["cut", "header only", "garbage inside", "garbage after", "nothing"],
)
def test_a_damaged_gzip_file_is_an_error_of_the_data(content, message, folder):
    Path("people.csv.gz").write_bytes(content)
    done = subprocess.run([*COMMAND, "audit", "people.csv.gz", *ASK], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert message in done.stderr


def test_encodings(folder, capsys):
    text = Path("people.csv").read_text()
    Path("wide.csv").write_bytes(text.encode("utf-16"))
    assert_refused(
        ["audit", "wide.csv", *ASK], "is not utf-8 text; give its encoding. Try --encoding utf-16.", capsys
    )
    assert run(["audit", "wide.csv", *ASK, "--encoding", "utf-16", "-q"]) == 0
    assert_refused(["audit", "people.csv", *ASK, "--encoding", "klingon"], "no text encoding 'klingon'", capsys)
    assert_refused(["audit", "people.csv", *ASK, "--encoding", "base64"], "no text encoding 'base64'", capsys)
    Path("nul.csv").write_text(text[:9000] + "\0" + text[9000:])
    assert_refused(["audit", "nul.csv", *ASK], "neither a text file nor Parquet", capsys)
    Path("late.csv").write_bytes(text.encode() * 4 + b"\xe4\n")
    assert_refused(["audit", "late.csv", *ASK], "late.csv", capsys)
    Path("tabs.csv").write_text(text.replace(",", "\t"))
    assert_refused(["audit", "tabs.csv", *ASK, "--delimiter", ","], "Try --delimiter tab.", capsys)
    for delimiter in ("tab", "\\t", "\t"):
        assert run(["audit", "tabs.csv", *ASK, "--delimiter", delimiter, "-q"]) == 0


def test_columns_that_parquet_can_hold(folder, capsys):
    people = pd.read_csv("people.csv")
    people["list"], people["record"] = [[1, 2]] * 600, [{"a": 1}] * 600
    people["when"], people["bytes"] = pd.Timestamp("2020-01-01"), b"x"
    people.set_index("sex").to_parquet("people.parquet")
    for command in (["audit"], ["train", "-o", "new.json"]):
        assert run([*command, "people.parquet", *ASK]) == 0
        assert "'list' holds lists or records and was left out" in capsys.readouterr().out


@pytest.mark.parametrize("value", ["1e308", "-1e308", "1e400", "-inf", "9" * 400, "18446744073709551616"])
def test_huge_numbers(value, folder, capsys):
    people = pd.read_csv("people.csv", dtype={"income": object})
    people.loc[:2, "income"] = [value, "-1e308", "5"]
    people.to_csv("huge.csv", index=False)
    assert run(["audit", "huge.csv", *ASK]) == 0
    assert capsys.readouterr().err == ""
    assert run(["train", "huge.csv", *ASK, "-o", "huge.json"]) == 0
    assert run(["predict", "huge.json", "huge.csv", "-q", "-o", "decisions.csv"]) == 0
    assert np.isfinite(pd.read_csv("decisions.csv")["score"]).all()


def test_a_number_too_large_for_the_model_is_named(folder, capsys):
    people = pd.read_csv("people.csv", dtype={"income": object})
    people.loc[7, "income"] = "1.7e308"
    people.to_csv("huge.csv", index=False)
    model = json.loads(Path("model.json").read_text())
    row = next(row for row in model["table"]["encoder"]["columns"] if row["name"] == "income")
    row["scale"] = 1e-9
    Path("narrow.json").write_text(json.dumps(model))
    assert_refused(["predict", "narrow.json", "huge.csv", "-o", "out.csv"], "'income' has 1.7e+308 in row 8", capsys)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["audit", "people.csv", *ASK, "-s", "sex"], "named twice (option --sensitive)"),
        (["audit", "people.csv", *ASK, "-s", "repaid"], "cannot be the target and sensitive at once"),
        (["audit", "people.csv", *ASK, "--reference", "zzz=3"], "--reference names 'zzz'"),
        (["audit", "people.csv", *ASK, "--names", "a,a,b,c,d,e,f,g,h,i,j,k"], "'a' is given to two columns"),
        (["audit", "people.csv", "-t", "repaid", "-p", "yes", "-s", "age", "--bin", "age=nan"], "finite ones only"),
        (["audit", "people.csv", *ASK, "--bin", "sex=1", "--bin", "sex=2"], "given twice for 'sex'"),
        (["audit", "people.csv", *ASK, "--delimiter", "é"], "one ASCII character"),
        (["audit", "x" * 5000, *ASK], "cannot be read: File name too long"),
        (["audit", "people.csv/x", *ASK], "Not a directory"),
        (["train", "people.csv", *ASK, "--seed", "-1"], "must be zero or positive, got -1 (option --seed)"),
        (["train", "people.csv", *ASK, "--min-frequency", "nan"], "zero or positive, got nan"),
        (["train", "people.csv", *ASK, "--C", "nan"], "C must be positive, got nan (option --C)"),
        (["train", "people.csv", *ASK, "--constraint", "covariance=sex:0,race"], "'race' is not a number"),
        (["train", "people.csv", *ASK, "--constraint", "loss="], "'' is not a number"),
    ],
)
def test_requests_that_make_no_sense(arguments, message, folder, capsys):
    assert_refused(arguments, message, capsys)


def test_a_column_that_gives_the_attribute_away_is_named(folder, capsys):
    pd.read_csv("people.csv").assign(title=lambda d: d["sex"].map({"man": "Mr", "woman": "Ms"})).to_csv("t.csv")
    assert_refused(["train", "t.csv", *ASK], "Leave the column out. Try --exclude title.", capsys)
    assert run(["train", "t.csv", *ASK, "--exclude", "title", "-q"]) == 0


# --------------------------------------------------------------------------------------------------- gates, text


@pytest.mark.parametrize("value", ["0.8", "1", "nan", "inf", "-5", "101"])
def test_a_gate_takes_percentages_only(value, folder, capsys):
    for flag in ("--fail-under", "--threshold"):
        assert_refused(["audit", "people.csv", *ASK, flag, value], f"{flag} ", capsys)
    assert run(["audit", "people.csv", *ASK, "--fail-under", "0", "-q"]) == 0
    assert run(["audit", "people.csv", *ASK, "--fail-under", "100", "-q"]) == 1


FORMULAS = ["=cmd|' /C calc'!A0", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "+5", "-3.5", "5", "plain", "a=b", ""]


def test_no_text_becomes_a_formula(folder, capsys):
    people = make_credit_demo(600).assign(note=(FORMULAS * 50)[:600], **{"=HYPERLINK(1)": 1})
    people["repaid"] = people["repaid"].map({"yes": "@yes", "no": "-no"})
    people.to_csv("people.csv", index=False, quoting=1)
    ask = ["-t", "repaid", "-p", "@yes", "-s", "sex", "-x", "note,=HYPERLINK(1)", "-q", "-o", "m.json"]
    assert run(["train", "people.csv", *ask]) == 0
    keep = ["--keep", "note", "--keep", "=HYPERLINK(1)"]
    assert run(["predict", "m.json", "people.csv", *keep, "-o", "safe.csv"]) == 0
    assert "decided '@yes'" in capsys.readouterr().err  # the count is of the decisions, not of what is written
    safe = pd.read_csv("safe.csv", dtype=str, keep_default_na=False)
    assert safe["note"].head(12).tolist() == [
        *("'=cmd|' /C calc'!A0", "'+1+1", "'-1+1", "'@SUM(A1)", "'\t=1", "'\r=1"),
        *("+5", "-3.5", "5", "plain", "a=b", ""),
    ]
    assert set(safe["decision"]) == {"'@yes", "'-no"}
    assert safe.columns.tolist() == ["note", "'=HYPERLINK(1)", "decision", "score", "probability"]
    assert (safe["score"].astype(float) < 0).any()  # numbers stay numbers
    assert run(["predict", "m.json", "people.csv", *keep, "-o", "raw.csv", "--no-escape-formulas"]) == 0
    raw = pd.read_csv("raw.csv", dtype=str, keep_default_na=False)
    assert raw["note"].head(12).tolist() == FORMULAS
    assert run(["predict", "m.json", "people.csv", *keep, "-o", "out.parquet"]) == 0
    assert set(pd.read_parquet("out.parquet")["decision"]) == {"@yes", "-no"}


# ----------------------------------------------------------------------------------------------------- streams


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ["audit", "people.csv", *ASK],
        ["audit", "people.csv", *ASK, "--json", "-"],
        ["predict", "model.json", "people.csv", "-q"],
        ["train", "people.csv", *ASK, "-q", "-o", "-"],
        ["--help"],
    ],
    ids=["table", "json", "csv", "model", "help"],
)
def test_a_closed_pipe_ends_quietly_with_its_own_status(arguments, folder):
    read, write = os.pipe()
    os.close(read)  # before anything can be written
    done = subprocess.run([*COMMAND, *arguments], stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b"")


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_a_full_disk_behind_the_standard_output_is_an_error(folder):
    for arguments in (["audit", "people.csv", *ASK], ["predict", "model.json", "people.csv", "-q"]):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([*COMMAND, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        assert done.returncode == 2
        assert done.stderr == "fairmargin: the output: No space left on device\n"


@pytest.mark.slow
def test_streams_that_are_closed_or_cannot_show_everything(folder):
    audit = " ".join([*COMMAND, "audit", "people.csv", *ASK])
    for redirection in (">&-", "2>&-", ">&- 2>&-"):
        assert (
            subprocess.run(["sh", "-c", f"{audit} {redirection}"], capture_output=True, check=False).returncode == 0
        )
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(audit.split(), env=environment, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"\\u2013" in done.stdout


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not have such names")
def test_a_name_that_is_not_utf8(folder):
    name = b"caf\xe9.csv"
    with open(name, "wb") as file:
        file.write(Path("people.csv").read_bytes())
    outputs = [b"-o", b"m.json", b"--json", b"-"]
    arguments = [*(part.encode() for part in (*COMMAND, "train")), name, *(part.encode() for part in ASK), *outputs]
    done = subprocess.run(arguments, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["data"]["source"] == "caf\udce9.csv"
    assert run(["predict", "m.json", "people.csv", "-q", "-o", "out.csv"]) == 0


def test_titles_that_tell_the_sex(folder, capsys):
    """Everybody with a title is of one sex, although no indicator of a title is that of the sex."""
    people = pd.read_csv("people.csv")
    man = people["sex"] == people["sex"][0]
    odd = np.arange(len(people)) % 2 == 1
    people["title"] = np.where(man, np.where(odd, "Sir", "Mr"), np.where(odd, "Mrs", "Miss"))
    people.to_csv("titles.csv", index=False)
    assert_refused(["train", "titles.csv", *ASK, "-o", "m.json"], "The categories of 'title' tell the sens", capsys)
    assert run(["train", "titles.csv", *ASK, "-q", "-o", "m.json", "--exclude", "title"]) == 0


# -------------------------------------------------------------------------------------------- workers and Ctrl-C


WORK = '''
import os, sys
from pathlib import Path

from fairmargin.experiments._work import Store, Unit, run_units


def compute(number):
    """Say which process this is, and compute for minutes without a pause that Python would notice."""
    Path(f"worker-{number}.partial").write_text(str(os.getpid()))
    os.rename(f"worker-{number}.partial", f"worker-{number}")
    pow(7, 10**8)
    return []


if __name__ == "__main__":
    try:
        run_units([Unit(compute, {"number": k}) for k in range(4)], Store("units"), jobs=2)
    except KeyboardInterrupt:
        os._exit(130)
'''


@pytest.mark.skipif(sys.platform == "win32", reason="no process groups")
def test_ctrl_c_ends_the_workers_of_an_experiment(tmp_path):
    (tmp_path / "work.py").write_text(WORK)
    process = subprocess.Popen(
        [sys.executable, "work.py"], cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    workers = [tmp_path / "worker-0", tmp_path / "worker-1"]
    until(lambda: all(path.exists() for path in workers) or process.poll() is not None)
    pids = [int(path.read_text()) for path in workers]
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    assert process.wait(timeout=120) == 130
    try:
        assert [pid for pid in pids if is_running(pid)] == []
    finally:
        for pid in pids:
            if is_running(pid):
                os.kill(pid, signal.SIGKILL)
    assert process.stderr.read() == ""
    process.stderr.close()
    assert sorted(path.name for path in tmp_path.glob("worker-*")) == ["worker-0", "worker-1"]


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="no /proc to find workers in")
def test_ctrl_c_stops_the_command_reproduce(tmp_path):
    process = subprocess.Popen(
        [*COMMAND, "reproduce", "fig2a", "--jobs", "2", "--out", str(tmp_path)],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    until(lambda: len(workers_of(process.pid)) == 2 or process.poll() is not None)
    time.sleep(1.0)
    workers = workers_of(process.pid)
    assert len(workers) == 2
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(timeout=120) == 130
    assert [pid for pid in workers if is_running(pid)] == []
    assert process.stderr.read() == "fairmargin: stopped\n"
    process.stderr.close()


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:  # ended just now, or no /proc
        return not Path("/proc/self/stat").exists()
    return status.rsplit(")", 1)[1].split()[0] != "Z"


def workers_of(parent):
    """Return the worker processes of a pool."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            state = (path / "stat").read_text().rsplit(")", 1)[1].split()
            command = (path / "cmdline").read_bytes()
        except OSError:
            continue
        if int(state[1]) == parent and b"multiprocessing.spawn" in command:
            found.append(int(path.name))
    return found
