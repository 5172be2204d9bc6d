"""The data sets: every count of the paper's tables, cleaning by hand, and files that are damaged."""

import hashlib
import http.server
import io
import os
import signal
import subprocess
import sys
import threading
import time
import zipfile

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from fairmargin import datasets
from fairmargin.datasets import (
    DataFileError,
    _files,
    load_adult,
    load_bank,
    load_compas,
    make_linear_synthetic,
    make_nonlinear_synthetic,
)
from fairmargin.datasets._tables import encode

LOADERS = [getattr(datasets, name) for name in datasets.__all__ if name.startswith("load_")]


def counts(loaded, attribute):
    """Numbers of people by value of the attribute, as (unfavourable, favourable)."""
    table = pd.crosstab(loaded.sensitive_features[attribute], loaded.target)
    return {value: (int(row[0]), int(row[1])) for value, row in table.iterrows()}


# ------------------------------------------------------------------------------------------------------------
# The counts of the paper's tables
# ------------------------------------------------------------------------------------------------------------


@pytest.mark.data
def test_adult_has_the_papers_counts():
    adult = load_adult()
    assert adult.data.shape == (45_222, 11)
    assert adult.target.value_counts().to_dict() == {0: 34_014, 1: 11_208}
    assert counts(adult, "sex") == {"Female": (13_026, 1_669), "Male": (20_988, 9_539)}
    assert counts(adult, "race") == {
        "Amer-Indian-Eskimo": (382, 53),
        "Asian-Pac-Islander": (934, 369),
        "Black": (3_694, 534),
        "Other": (308, 45),
        "White": (28_696, 10_207),
    }


@pytest.mark.data
def test_bank_has_the_papers_counts():
    bank = load_bank()
    assert bank.data.shape == (41_188, 19)
    assert bank.target.value_counts().to_dict() == {0: 36_548, 1: 4_640}
    assert counts(bank, "age_group") == {"25 to 60": (35_240, 3_970), "under 25 or over 60": (1_308, 670)}
    inside = bank.age.between(25, 60)
    assert ((bank.sensitive_features["age_group"] == "25 to 60") == inside).all()


@pytest.mark.data
def test_compas_has_propublicas_counts():
    compas = load_compas()
    assert compas.data.shape == (6_172, 6)
    assert compas.target.value_counts().to_dict() == {1: 3_363, 0: 2_809}
    assert compas.target_names[1] == "no recidivism"
    assert counts(compas, "sex") == {"Female": (413, 762), "Male": (2_396, 2_601)}
    assert counts(compas, "race")["African-American"] == (1_661, 1_514)
    assert counts(compas, "race")["Caucasian"] == (822, 1_281)


# ------------------------------------------------------------------------------------------------------------
# What the loaders return
# ------------------------------------------------------------------------------------------------------------


@pytest.mark.data
@pytest.mark.parametrize("load", LOADERS)
def test_frames_have_numbers_and_categories_without_gaps(load):
    loaded = load()
    assert loaded.feature_names == list(loaded.data.columns)
    assert not loaded.data.isna().any(axis=None)
    assert not loaded.sensitive_features.isna().any(axis=None)
    assert set(loaded.data.columns).isdisjoint({*loaded.sensitive_features.columns, "fnlwgt"})
    for column in [*loaded.data.items(), *loaded.sensitive_features.items()]:
        dtype = column[1].dtype
        assert isinstance(dtype, pd.CategoricalDtype) or dtype.kind in "if"
        if isinstance(dtype, pd.CategoricalDtype):
            assert set(column[1].unique()) == set(dtype.categories)
    for part in (loaded.data, loaded.target, loaded.sensitive_features):
        assert part.index.equals(pd.RangeIndex(len(loaded.target)))
    assert f"{len(loaded.target):,} " in loaded.DESCR


@pytest.mark.data
@pytest.mark.parametrize(("load", "width", "rank"), [(load_adult, 45, 45), (load_bank, 52, 51), (load_compas, 6, 6)])
def test_encoded_matrix_is_ready_for_a_linear_classifier(load, width, rank):
    frame, loaded = load().data, load(encoded=True)
    X = loaded.data.to_numpy()
    assert X.shape == (len(frame), width)
    assert X.dtype == np.float64
    assert loaded.feature_names == list(loaded.data.columns)
    assert len(set(loaded.feature_names)) == width
    centred = X - X.mean(axis=0)
    assert np.linalg.matrix_rank(centred.T @ centred) == rank
    numbers = [name for name in frame.columns if frame[name].dtype.kind in "if"]
    assert np.allclose(loaded.data[numbers].mean(), 0, atol=1e-9)
    assert np.allclose(loaded.data[numbers].std(ddof=0), 1)
    indicators = loaded.data.drop(columns=numbers)
    assert set(np.unique(indicators)) == {0.0, 1.0}


@pytest.mark.data
def test_adult_is_merged_as_in_the_paper():
    data = load_adult().data
    assert list(data["native_country"].cat.categories) == ["Other", "United-States"]
    levels = data["education"].value_counts()
    assert levels["Below-9th"] == (data["education_num"] <= 4).sum()
    assert levels["9th-to-12th"] == data["education_num"].between(5, 8).sum()
    assert len(levels) == 10


@pytest.mark.data
def test_loading_adult_takes_well_under_a_second():
    def seconds():
        start = time.process_time()  # of this process only: others on the machine do not count
        load_adult(encoded=True)
        return time.process_time() - start

    assert min(seconds() for _ in range(5)) < 1


# ------------------------------------------------------------------------------------------------------------
# Cleaning, on files small enough to read
# ------------------------------------------------------------------------------------------------------------

ADULT = {
    "adult.data": b"""\
39, Private, 77516, Preschool, 1, Widowed, Sales, Own-child, White, Male, 2174, 0, 40, United-States, <=50K
50, Private, 83311, 11th, 7, Divorced, Sales, Husband, Black, Male, 0, 0, 13, Cuba, >50K
20, ?, 83311, 9th, 5, Divorced, Sales, Husband, Other, Male, 0, 0, 13, Cuba, >50K

""",
    "adult.test": b"""\
|1x3 Cross validator
25, Private, 226802, Masters, 14, Divorced, Sales, Wife, White, Female, 0, 0, 40, Peru, >50K.
38, Private, 89814, 7th-8th, 4, Divorced, Sales, Wife, White, Female, 0, 0, 50, United-States, <=50K.

""",
}


def test_adult_cleaned_by_hand(monkeypatch):
    monkeypatch.setattr(_files, "read", ADULT.__getitem__)
    adult = load_adult()
    assert adult.target.tolist() == [0, 1, 1, 0]
    assert adult.sensitive_features["sex"].tolist() == ["Male", "Male", "Female", "Female"]
    assert adult.data["education"].tolist() == ["Below-9th", "9th-to-12th", "Masters", "Below-9th"]
    assert adult.data["native_country"].tolist() == ["United-States", "Other", "Other", "United-States"]
    assert adult.sensitive_features["race"].cat.categories.tolist() == ["Black", "White"]
    assert adult.data["hours_per_week"].tolist() == [40, 13, 40, 50]


def test_encoding_by_hand():
    frame = pd.DataFrame({"n": [1, 3], "c": pd.Categorical(["b", "c"], ["a", "b", "c"]), "constant": [7.0, 7.0]})
    encoded = encode(frame)
    assert list(encoded.columns) == ["n", "c=b", "c=c", "constant"]
    assert encoded.to_numpy().tolist() == [[-1, 1, 0, 0], [1, 0, 1, 0]]


# ------------------------------------------------------------------------------------------------------------
# Synthetic data
# ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [make_linear_synthetic, make_nonlinear_synthetic])
def test_synthetic_shapes_and_repeatability(make):
    X, y, z = make(random_state=3)
    assert X.shape == (4000, 2)
    assert set(y) == {-1, 1}
    assert set(z) == {0, 1}
    for first, second in zip((X, y, z), make(random_state=3), strict=True):
        assert np.array_equal(first, second)
    assert not np.array_equal(X, make(random_state=4)[0])


@pytest.mark.parametrize(("phi", "shares"), [(np.pi / 4, (0.70, 0.33)), (np.pi / 8, (0.81, 0.23))])
def test_linear_synthetic_has_the_authors_shares(phi, shares):
    _, y, z = make_linear_synthetic(200_000, phi, random_state=0)
    assert np.mean(y == 1) == pytest.approx(0.5, abs=0.005)
    assert np.mean(y[z == 1] == 1) == pytest.approx(shares[0], abs=0.01)
    assert np.mean(y[z == 0] == 1) == pytest.approx(shares[1], abs=0.01)


def test_linear_synthetic_has_the_papers_moments():
    X, y, _ = make_linear_synthetic(200_000, random_state=1)
    for label, mean, covariance in ((1, [2, 2], [[5, 1], [1, 5]]), (-1, [-2, -2], [[10, 1], [1, 3]])):
        assert np.allclose(X[y == label].mean(axis=0), mean, atol=0.05)
        assert np.allclose(np.cov(X[y == label].T), covariance, atol=0.15)


def test_nonlinear_synthetic_has_the_mixtures_moments():
    X, y, _ = make_nonlinear_synthetic(400_000, random_state=1)
    # Covariance of an even mixture: the mean of the two, plus the outer product of half the gap of the means.
    half_gap = np.outer([4, -5], [4, -5])
    assert np.allclose(X[y == -1].mean(axis=0), [0, 1], atol=0.05)
    assert np.allclose(np.cov(X[y == -1].T), np.array([[5, 2], [2, 4]]) + half_gap, atol=0.2)
    assert np.allclose(X[y == 1].mean(axis=0), [0, 0], atol=0.05)


def density(parts):
    def evaluate(x):
        return np.mean([stats.multivariate_normal(mean, covariance).pdf(x) for mean, covariance in parts], axis=0)

    return evaluate


FIRST = ([2, 2], [[5, 1], [1, 5]])
SECOND = ([-2, -2], [[10, 1], [1, 3]])
MADE_OF = {
    make_linear_synthetic: ([FIRST], [SECOND]),
    make_nonlinear_synthetic: ([FIRST, SECOND], [([4, -4], [[4, 2], [2, 5]]), ([-4, 6], [[6, 2], [2, 3]])]),
}


@pytest.mark.parametrize("make", MADE_OF)
def test_sensitive_attribute_follows_the_rotated_densities(make):
    phi = 0.4
    X, _, z = make(200_000, phi, random_state=5)
    x1 = X @ np.array([[np.cos(phi), -np.sin(phi)], [np.sin(phi), np.cos(phi)]])
    positive, negative = (density(parts)(x1) for parts in MADE_OF[make])
    expected = positive / (positive + negative)
    for low in np.arange(0, 1, 0.2):
        rows = (expected >= low) & (expected < low + 0.2)
        assert z[rows].mean() == pytest.approx(expected[rows].mean(), abs=0.02)


def test_covariance_of_the_paper_is_refused_and_others_are_taken():
    with pytest.raises(ValueError, match="symmetric positive definite"):
        make_nonlinear_synthetic(10, covariance=[[4, 4], [2, 5]])
    with pytest.raises(ValueError, match="symmetric positive definite"):
        make_nonlinear_synthetic(10, covariance=[[1, 2], [2, 1]])
    X, _, _ = make_nonlinear_synthetic(10, random_state=0, covariance=[[4, 3], [3, 5]])
    assert X.shape == (10, 2)


def test_synthetic_arguments_are_checked():
    with pytest.raises(ValueError, match="n_samples"):
        make_linear_synthetic(0)
    with pytest.raises(ValueError, match="phi"):
        make_linear_synthetic(10, phi=np.nan)


# ------------------------------------------------------------------------------------------------------------
# Files: where they come from, and files that are not what they should be
# ------------------------------------------------------------------------------------------------------------

CONTENT = b"thirty-nine, State-gov\n" * 20_000
NAME = "adult.data"


def zipped(**members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


ARCHIVE = zipped(folder=CONTENT)
BODIES = {
    "/whole": CONTENT,
    "/truncated": CONTENT[: len(CONTENT) // 2],
    "/short-and-says-so": CONTENT[: len(CONTENT) // 2],
    "/corrupted": CONTENT[:-1] + b"X",
    "/stalls": CONTENT[: len(CONTENT) // 2],
    "/archive.zip": ARCHIVE,
    "/half.zip": ARCHIVE[: len(ARCHIVE) // 2],
    "/bitflip.zip": ARCHIVE[:60] + bytes([ARCHIVE[60] ^ 0xFF]) + ARCHIVE[61:],
    "/other.zip": zipped(another=CONTENT),
    "/empty": b"",
}


class Handler(http.server.BaseHTTPRequestHandler):
    stalled = threading.Event()
    released = threading.Event()
    requests: list[str] = []  # noqa: RUF012 (one server, one list)

    def do_GET(self):
        self.requests.append(self.path)
        body = BODIES.get(self.path)
        if body is None:
            self.send_error(404)
            return
        announced = len(CONTENT) if self.path in ("/truncated", "/stalls") else len(body)
        self.send_response(200)
        self.send_header("Content-Length", str(announced))
        self.end_headers()
        self.wfile.write(body)
        if self.path == "/stalls":
            self.stalled.set()
            self.released.wait(60)

    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def server():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        Handler.released.set()
        running.shutdown()
        thread.join()


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """A folder of the user's and a cache, both empty; loopback without a proxy."""
    own, cache = tmp_path / "own", tmp_path / "cache"
    own.mkdir()
    monkeypatch.setenv("FAIRMARGIN_DATA", str(own))
    monkeypatch.setenv("FAIRMARGIN_CACHE", str(cache))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    Handler.requests.clear()
    return own, cache


def publish(monkeypatch, url, member=None):
    file = _files.RemoteFile(NAME, hashlib.sha256(CONTENT).hexdigest(), url, member)
    monkeypatch.setitem(_files.FILES, NAME, file)


def test_file_is_downloaded_once_and_then_read_from_the_cache(server, folders, monkeypatch):
    _, cache = folders
    publish(monkeypatch, f"{server}/whole")
    assert not _files.is_available(NAME)
    assert _files.read(NAME) == CONTENT
    assert _files.read(NAME) == CONTENT
    assert Handler.requests == ["/whole"]
    assert [path.name for path in cache.iterdir()] == [NAME]


def test_folder_of_the_user_comes_before_the_cache(server, folders, monkeypatch):
    own, cache = folders
    publish(monkeypatch, f"{server}/whole")
    cache.mkdir()
    (cache / NAME).write_bytes(b"never looked at")
    (own / NAME).write_bytes(CONTENT)
    assert _files.read(NAME) == CONTENT
    assert Handler.requests == []


def test_file_inside_an_archive(server, folders, monkeypatch):
    publish(monkeypatch, f"{server}/archive.zip", member="folder")
    assert _files.read(NAME) == CONTENT


@pytest.mark.parametrize(
    ("path", "member"),
    [
        ("/truncated", None),
        ("/short-and-says-so", None),
        ("/corrupted", None),
        ("/empty", None),
        ("/absent", None),
        ("/half.zip", "folder"),
        ("/bitflip.zip", "folder"),
        ("/other.zip", "folder"),
        ("/corrupted", "folder"),
    ],
)
def test_bad_download_is_refused_by_name_and_nothing_is_kept(server, folders, monkeypatch, path, member):
    _, cache = folders
    publish(monkeypatch, server + path, member)
    with pytest.raises(DataFileError, match=rf"{NAME} .*{path}.*FAIRMARGIN_DATA"):
        _files.read(NAME)
    assert list(cache.iterdir()) == []
    publish(monkeypatch, f"{server}/whole")
    assert _files.read(NAME) == CONTENT


def test_nobody_answers(folders, monkeypatch):
    publish(monkeypatch, "http://127.0.0.1:9/whole")
    with pytest.raises(DataFileError, match="could not be downloaded"):
        _files.read(NAME)


@pytest.mark.parametrize("place", [0, 1], ids=["own folder", "cache"])
@pytest.mark.parametrize("damaged", [CONTENT[:-10], CONTENT[:-1] + b"X", b""], ids=["partial", "changed", "empty"])
def test_damaged_file_is_refused_by_name_and_left_alone(server, folders, monkeypatch, place, damaged):
    publish(monkeypatch, f"{server}/whole")
    path = folders[place] / NAME
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(damaged)
    with pytest.raises(DataFileError, match="damaged or incomplete") as caught:
        _files.read(NAME)
    assert str(path) in str(caught.value)
    assert ("Delete it", "Replace it")[place == 0] in str(caught.value)
    assert path.read_bytes() == damaged
    assert Handler.requests == []


def test_unwritable_cache_is_said(server, folders, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("FAIRMARGIN_CACHE", str(tmp_path / "file" / "cache"))
    publish(monkeypatch, f"{server}/whole")
    with pytest.raises(DataFileError, match="could not be downloaded"):
        _files.read(NAME)


def test_without_pooch_the_error_names_the_extra(server, folders, monkeypatch):
    publish(monkeypatch, f"{server}/whole")
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(ImportError, match=r'pip install "fairmargin\[data\]"'):
        _files.read(NAME)
    assert Handler.requests == []


KILLED_MIDWAY = """
import sys
from fairmargin.datasets import _files
_files.FILES["adult.data"] = _files.RemoteFile("adult.data", sys.argv[1], sys.argv[2])
_files.read("adult.data")
"""


def test_killed_midway_leaves_nothing_under_the_final_name(server, folders, monkeypatch):
    _, cache = folders
    checksum = hashlib.sha256(CONTENT).hexdigest()
    process = subprocess.Popen([sys.executable, "-c", KILLED_MIDWAY, checksum, f"{server}/stalls"])
    assert Handler.stalled.wait(60)
    # Wait until a part of the file is on the disk: that part must not be taken for the whole.
    deadline = time.monotonic() + 30
    while not any(path.stat().st_size for path in cache.rglob("received")) and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait(30) == -signal.SIGKILL
    Handler.released.set()
    assert any(path.stat().st_size for path in cache.rglob("received"))
    assert not (cache / NAME).exists()
    assert not _files.is_available(NAME)
    publish(monkeypatch, f"{server}/whole")
    assert _files.read(NAME) == CONTENT


def test_cache_has_a_usual_place(monkeypatch, tmp_path):
    monkeypatch.delenv("FAIRMARGIN_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert _files.cache_dir() == tmp_path / "fairmargin"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert _files.cache_dir() == tmp_path / ".cache" / "fairmargin"


def test_every_file_has_a_checksum_and_an_address():
    assert {"adult.data", "adult.test", "bank-additional-full.csv"} < set(_files.FILES)
    for name, file in _files.FILES.items():
        assert file.name == name
        assert len(file.sha256) == 64
        assert file.url.startswith("https://")
    assert set(datasets.__all__) <= set(dir(datasets))
