"""Models as files: bit for bit the same after a round trip, nothing executed, damage named in one line."""

import contextlib
import json
import os
import random
import stat
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from fairmargin import (
    CertifiedClassifier,
    CovarianceBound,
    FairLinearSVC,
    FairLogisticRegression,
    FairMarginClassifier,
    FairTreeClassifier,
    IndividualLossBound,
    LossBound,
    PRuleBound,
    io,
)
from fairmargin.atomic_write import check_writable, is_same_file, write_atomic
from fairmargin.datasets import make_linear_synthetic
from fairmargin.datasets.demo import make_credit_demo
from fairmargin.exceptions import UnwritableError
from fairmargin.kernel import FairSVC
from fairmargin.tables import DataError, TabularModel, prepare, table_of_frame

X, y, z = make_linear_synthetic(400, random_state=0)
z = pd.Series(np.where(z == 1, "b", "a"), name="group")


def fitted(estimator, labels=y):
    return estimator.fit(X, labels, sensitive_features=z)


@pytest.fixture(scope="module")
def table_model():
    study = prepare(table_of_frame(make_credit_demo(800), "demo"), target="repaid", positive="yes", sensitive=["sex"])
    clf = FairLogisticRegression().fit(study.train.X, study.train.y, sensitive_features=study.train.sensitive)
    facts = {"seed": 0, "nested": {"a": [1.5, None]}}
    return TabularModel(clf, study.encoder, study.target, study.labels, study.sensitive, facts)


ESTIMATORS = {
    "unconstrained": FairLogisticRegression(constraint=None),
    "class for its defaults": FairLogisticRegression(),
    "no penalty": FairLogisticRegression(C=np.inf, constraint=CovarianceBound(0.5)),
    "by attribute": FairLogisticRegression(constraint=CovarianceBound({"group": {"b": 0.1}})),
    "loss": FairLogisticRegression(constraint=LossBound(0.02)),
    "individual": FairLogisticRegression(constraint=IndividualLossBound(0.5, keep_positive="accepted")),
    "individual each": FairLogisticRegression(constraint=IndividualLossBound(np.full(400, 0.5))),
    "rule": FairLogisticRegression(constraint=PRuleBound(70)),
    "hinge": FairLinearSVC(constraint=CovarianceBound(0.2, relative=True)),
    "squared hinge": FairLinearSVC(loss="squared_hinge", class_weight={-1: 1.0, 1: 2.0}),
    "smoothed hinge": FairMarginClassifier("smoothed_hinge"),
    "kernel": FairSVC(constraint=CovarianceBound(0.1), max_rank=40, approximation_tol=0.5),
    "kernel refined": FairSVC(kernel="poly", degree=2, coef0=1.0, constraint=None),
}


@pytest.mark.filterwarnings("ignore::fairmargin.exceptions.CovarianceWarning")
@pytest.mark.filterwarnings("ignore::fairmargin.exceptions.ApproximationWarning")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_round_trip_is_bit_for_bit(name, tmp_path):
    clf = fitted(ESTIMATORS[name])
    io.save(clf, tmp_path / "model.json")
    again = io.load(tmp_path / "model.json")
    assert type(again) is type(clf)
    np.testing.assert_array_equal(again.decision_function(X), clf.decision_function(X))
    np.testing.assert_array_equal(again.predict(X), clf.predict(X))
    assert again.certificate_ == clf.certificate_
    pd.testing.assert_series_equal(again.covariance_, clf.covariance_, check_names=False)
    assert repr(again.get_params()) == repr(clf.get_params())
    io.save(again, tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "model.json").read_bytes()


@pytest.mark.parametrize(
    "labels", [np.where(y > 0, "ja", "nein"), y > 0, y.astype(float)], ids=["text", "bool", "float"]
)
@pytest.mark.filterwarnings("ignore::fairmargin.exceptions.FavourableClassWarning")
def test_labels_of_any_kind_survive(labels, tmp_path):
    clf = fitted(FairLogisticRegression(), labels)
    io.save(clf, tmp_path / "model.json")
    again = io.load(tmp_path / "model.json")
    assert again.classes_.dtype.kind == clf.classes_.dtype.kind
    np.testing.assert_array_equal(again.predict(X), clf.predict(X))


@pytest.mark.filterwarnings("ignore::fairmargin.exceptions.ApproximationWarning")
def test_feature_names_and_sparse_support_vectors_survive(tmp_path):
    frame = pd.DataFrame(X, columns=["höhe", "<b>"])
    clf = FairLogisticRegression().fit(frame, y, sensitive_features=z)
    io.save(clf, tmp_path / "model.json")
    np.testing.assert_array_equal(io.load(tmp_path / "model.json").predict(frame), clf.predict(frame))
    sparse = FairSVC(constraint=None, max_rank=30, approximation_tol=0.9).fit(sp.csr_matrix(X), y)
    io.save(sparse, tmp_path / "sparse.json")
    again = io.load(tmp_path / "sparse.json")
    np.testing.assert_array_equal(
        again.decision_function(sp.csr_matrix(X)), sparse.decision_function(sp.csr_matrix(X))
    )


def test_a_table_model_decides_as_before(table_model, tmp_path):
    people = make_credit_demo(300, random_state=1)
    io.save(table_model, tmp_path / "model.json")
    again = io.load(tmp_path / "model.json")
    pd.testing.assert_frame_equal(again.decide(people), table_model.decide(people), check_exact=True)
    assert again.encoder == table_model.encoder
    assert again.facts == table_model.facts
    # Sensitive columns and the target are not needed, nor is the order of columns.
    without = people.drop(columns=["sex", "repaid"]).iloc[:, ::-1]
    np.testing.assert_array_equal(again.scores(without), table_model.scores(people))


def test_the_file_is_plain_json(table_model, tmp_path):
    io.save(table_model, tmp_path / "model.json")
    plain = json.loads((tmp_path / "model.json").read_text())
    assert plain["format"] == "fairmargin-model"
    assert plain["format_version"] == 1
    assert plain["table"]["labels"] == ["no", "yes"]
    assert plain["estimator"]["class"] == "FairLogisticRegression"


def test_what_cannot_be_saved_is_named(tmp_path):
    from sklearn.linear_model import LogisticRegression

    with pytest.raises(io.ModelFileError, match="LogisticRegression cannot be saved"):
        io.save(LogisticRegression(), tmp_path / "model.json")
    for other in (FairTreeClassifier(), CertifiedClassifier(FairLogisticRegression())):
        name = type(other).__name__
        with pytest.raises(io.ModelFileError, match=f"{name} cannot be saved as JSON, only .* Use skops.io.dump"):
            io.save(other, tmp_path / "model.json")
        assert name in io.save.__doc__  # which also says so
    with pytest.raises(io.ModelFileError, match="not fitted"):
        io.save(FairLogisticRegression(), tmp_path / "model.json")
    custom = fitted(FairSVC(kernel=lambda a, b: a @ b.T, constraint=None))
    with pytest.raises(io.ModelFileError, match="function in it cannot be saved"):
        io.save(custom, tmp_path / "model.json")
    assert list(tmp_path.iterdir()) == []


def damaged(change):
    def make(plain):
        change(plain)
        return json.dumps(plain)

    return make


DAMAGES = {
    "empty": (lambda plain: "", "is empty"),
    "blank": (lambda plain: " \n", "is empty"),
    "cut off": (lambda plain: json.dumps(plain)[:-40], "not a whole JSON file"),
    "no object": (lambda plain: "[1]", "not a model of fairmargin"),
    "another format": (damaged(lambda p: p.update(format="x")), "not a model of fairmargin"),
    "newer": (damaged(lambda p: p.update(format_version=2)), "newer fairmargin .model format 2"),
    "no version": (damaged(lambda p: p.pop("format_version")), "format version is None"),
    "another class": (damaged(lambda p: p["estimator"].update({"class": "os.system"})), "does not know, 'os.system'"),
    "no estimator": (damaged(lambda p: p.pop("estimator")), "lacks 'estimator'"),
    "coefficients gone": (damaged(lambda p: p["estimator"]["fitted"].pop("coef_")), "is damaged"),
    "too few": (damaged(lambda p: p["estimator"]["fitted"]["coef_"]["$array"][0].pop()), "where 2 are needed"),
    "not a number": (
        damaged(lambda p: p["estimator"]["fitted"]["coef_"].update({"$array": [[{"$number": "nan"}, 1.0]]})),
        "not a finite number",
    ),
    "dunder": (damaged(lambda p: p["estimator"]["fitted"].update({"__class__": 1})), "fitted attribute '__class__'"),
    "method": (damaged(lambda p: p["estimator"]["fitted"].update({"fit": 1})), "fitted attribute 'fit'"),
    "unknown mark": (damaged(lambda p: p["estimator"]["fitted"].update({"n_iter_": {"$call": "x"}})), "unknown mark"),
    "unknown parameter": (damaged(lambda p: p["estimator"]["parameters"].update({"evil": 1})), "is damaged"),
    "unknown loss": (damaged(lambda p: p["estimator"]["parameters"].update({"loss": "magic"})), "is damaged"),
    "a constraint that is none of its own": (
        damaged(
            lambda p: p["estimator"]["parameters"].update(
                constraint={"$constraint": "Several", "fields": {"constraints": []}}
            )
        ),
        "unknown constraint 'Several'",
    ),
    "another constraint": (
        damaged(lambda p: p["estimator"]["parameters"].update(constraint={"$constraint": "os.system"})),
        "unknown constraint 'os.system'",
    ),
    "another record": (
        damaged(lambda p: p["estimator"]["fitted"].update(x_={"$record": "os.system", "fields": {}})),
        "unknown record 'os.system'",
    ),
    "one class": (damaged(lambda p: p["estimator"]["fitted"]["classes_"].update({"$array": [1, 1]})), "two classes"),
    "no width": (damaged(lambda p: p["estimator"]["fitted"].update(n_features_in_="2")), "number of features is '2'"),
    "words": (
        damaged(lambda p: coefficients(p).update({"$array": [["1", "2"]], "kind": "U"})),
        "not a finite number",
    ),
    "nested twice over": (lambda plain: "[" * 100_000, "nested too deeply"),
    "nested in an attribute": (
        lambda plain: json.dumps(plain).replace('"n_iter_"', f'"x_": {"[" * 600}{"]" * 600}, "n_iter_"'),
        "nested too deeply",
    ),
    "endless digits": (lambda plain: '{"format": ' + "9" * 5000 + "}", "is damaged"),
    "whole number beyond floats": (
        damaged(lambda p: coefficients(p).update({"$array": [[10**400, 1]]})),
        "is damaged",
    ),
    "whole number beyond integers": (
        damaged(lambda p: coefficients(p).update({"$array": [[10**30, 1]], "kind": "i"})),
        "is damaged",
    ),
    "number beyond floats": (
        lambda plain: json.dumps(plain).replace('"n_iter_"', '"x_": 1e999, "n_iter_"'),
        "the number 1e999 is too large",
    ),
    "bare nan": (
        lambda plain: json.dumps(plain).replace('"n_iter_"', '"x_": NaN, "n_iter_"'),
        "it has the number NaN",
    ),
    "a name twice": (
        lambda plain: json.dumps(plain).replace('"n_iter_"', '"n_iter_": 1, "n_iter_"'),
        "it has the name 'n_iter_' twice",
    ),
}


def coefficients(plain):
    return plain["estimator"]["fitted"]["coef_"]


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_one_clear_line(name, tmp_path):
    path = tmp_path / "model.json"
    io.save(fitted(FairLogisticRegression(constraint=None)), path)
    make, message = DAMAGES[name]
    path.write_text(make(json.loads(path.read_text())))
    with pytest.raises(io.ModelFileError, match=message) as caught:
        io.load(path)
    assert "\n" not in str(caught.value)


def encoded(plain, name):
    return next(row for row in plain["table"]["encoder"]["columns"] if row["name"] == name)


TABLE_DAMAGES = {
    "scale infinite": (lambda p: encoded(p, "age").update(scale={"$number": "inf"}), "scale of 'age'"),
    "scale negative": (lambda p: encoded(p, "age").update(scale=-1), "scale of 'age' must be positive, got -1"),
    "scale zero": (lambda p: encoded(p, "age").update(scale=0), "scale of 'age' must be positive"),
    "scale true": (lambda p: encoded(p, "age").update(scale=True), "scale of 'age' must be a finite number"),
    "scale a word": (lambda p: encoded(p, "age").update(scale="1"), "scale of 'age' must be a finite number"),
    "median gone": (lambda p: encoded(p, "age").update(median=None), "median of 'age' must be a finite number"),
    "mean beyond floats": (lambda p: encoded(p, "age").update(mean=10**400), "is damaged"),
    "levels twice": (lambda p: encoded(p, "housing")["levels"].append("owned"), "levels of 'housing' must be diff"),
    "levels no texts": (lambda p: encoded(p, "housing").update(levels=[1, 2]), "levels of 'housing' must be diff"),
    "levels gone": (lambda p: encoded(p, "housing").update(levels=[]), "levels of 'housing' must be diff"),
    "a column twice": (lambda p: p["table"]["encoder"]["columns"].append(encoded(p, "age")), "the same name"),
    "a name of no text": (lambda p: encoded(p, "age").update(name=5), "a column's name must be text"),
    "another kind": (lambda p: encoded(p, "age").update(kind="magic"), "unknown kind of column 'magic'"),
    "one label": (lambda p: p["table"].update(labels=["yes", "yes"]), "two different texts"),
    "three labels": (lambda p: p["table"].update(labels=["yes", "no", "maybe"]), "two different texts"),
    "labels in one word": (lambda p: p["table"].update(labels="no"), "are not texts"),
    "no target": (lambda p: p["table"].update(target=3), "are not texts"),
}


@pytest.mark.parametrize("name", TABLE_DAMAGES)
def test_damage_of_an_encoding_is_one_clear_line(name, table_model, tmp_path):
    change, message = TABLE_DAMAGES[name]
    io.save(table_model, tmp_path / "model.json")
    plain = json.loads((tmp_path / "model.json").read_text())
    change(plain)
    (tmp_path / "model.json").write_text(json.dumps(plain))
    with pytest.raises(io.ModelFileError, match=message) as caught:
        io.load(tmp_path / "model.json")
    assert "\n" not in str(caught.value)


@pytest.mark.filterwarnings("ignore::fairmargin.exceptions.ApproximationWarning")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: p["kernel"].update(gamma={"$number": "nan"}), "a parameter of its kernel"),
        (lambda p: p["kernel"].update(function="os.system"), "unknown kernel"),
        (lambda p: p["fitted"]["support_vectors_"]["$sparse"]["indices"]["$array"].__setitem__(0, 10**6), "damaged"),
        (lambda p: p["fitted"]["support_vectors_"]["$sparse"]["data"].update({"$array": []}), "damaged"),
    ],
    ids=["gamma", "function", "index out of bounds", "no data"],
)
def test_damage_of_a_kernel_is_one_clear_line(change, message, tmp_path):
    sparse = FairSVC(constraint=None, max_rank=30, approximation_tol=0.9).fit(sp.csr_matrix(X), y)
    io.save(sparse, tmp_path / "model.json")
    plain = json.loads((tmp_path / "model.json").read_text())
    change(plain["estimator"])
    (tmp_path / "model.json").write_text(json.dumps(plain))
    with pytest.raises(io.ModelFileError, match=message):
        io.load(tmp_path / "model.json")


JUNK = [
    *(None, True, 0, -1, 1e300, 10**400, "", "x", [], {}, [[]], ["a", "b", "c"]),
    *({"$number": "nan"}, {"$number": "x"}, {"$tuple": 3}, {"$sparse": {}}, {"$pairs": [[[1], 2]]}),
    *({"$array": [1, [2]], "kind": "f"}, {"$series": [1], "index": [], "names": []}),
    *({"$record": "Certificate", "fields": {}}, {"$constraint": "LossBound", "fields": {"gamma": -1}}),
]


def places(node, above=()):
    """Yield every place in plain data, of lists the first few."""
    entries = node.items() if isinstance(node, dict) else enumerate(node[:3]) if isinstance(node, list) else ()
    for key, value in entries:
        yield (*above, key)
        yield from places(value, (*above, key))


@pytest.mark.filterwarnings("ignore::fairmargin.exceptions.ApproximationWarning")
@pytest.mark.filterwarnings("ignore:overflow encountered")
@pytest.mark.filterwarnings("ignore:invalid value encountered")
@pytest.mark.parametrize("kernel", [False, True])
def test_any_change_of_a_model_is_refused_or_harmless(kernel, table_model, tmp_path):
    people, path = make_credit_demo(50, random_state=1), tmp_path / "model.json"
    model = table_model
    if kernel:
        table = table_of_frame(make_credit_demo(300), "demo")
        study = prepare(table, target="repaid", positive="yes", sensitive=["sex"])
        clf = FairSVC(max_rank=20, approximation_tol=0.9)
        clf.fit(study.train.X, study.train.y, sensitive_features=study.train.sensitive)
        model = TabularModel(clf, study.encoder, study.target, study.labels, study.sensitive)
    io.save(model, path)
    plain = json.loads(path.read_text())
    refused = 0
    for at in places(plain):
        rng = random.Random(str(at))
        changed = json.loads(json.dumps(plain))
        node = changed
        for key in at[:-1]:
            node = node[key]
        if rng.random() < 0.3:
            del node[at[-1]]
        else:
            node[at[-1]] = rng.choice(JUNK)
        path.write_text(json.dumps(changed))
        try:
            again = io.load(path)
        except io.ModelFileError:
            refused += 1
            continue
        if isinstance(again, TabularModel):
            with contextlib.suppress(DataError):
                assert np.isfinite(again.decide(people)["score"]).all(), at
    assert refused > 50


def test_missing_folder_or_binary_file(tmp_path):
    with pytest.raises(io.ModelFileError, match="no model file"):
        io.load(tmp_path / "nothing.json")
    with pytest.raises(io.ModelFileError, match="is a folder"):
        io.load(tmp_path)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(io.ModelFileError, match="no JSON text"):
        io.load(tmp_path / "binary")
    with pytest.raises(io.ModelFileError, match="cannot be read"):
        io.load("a\0b")
    with pytest.raises(io.ModelFileError, match="cannot be read"):
        io.load("x" * 5000)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "model.json"
    path.write_text("old")

    def full_disk(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(UnwritableError, match="No space left"):
        write_atomic(path, "new")
    assert [p.name for p in tmp_path.iterdir()] == ["model.json"]
    assert path.read_text() == "old"

    def interrupted(handle):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_atomic(path, "new")
    assert [p.name for p in tmp_path.iterdir()] == ["model.json"]
    assert path.read_text() == "old"


def test_what_is_no_regular_file_is_never_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    handle = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    check_writable(tmp_path / "pipe")
    write_atomic(tmp_path / "pipe", "content")
    assert os.read(handle, 100) == b"content"
    os.close(handle)
    assert stat.S_ISFIFO(os.lstat(tmp_path / "pipe").st_mode)
    check_writable(os.devnull)
    assert [p.name for p in tmp_path.iterdir()] == ["pipe"]


def test_the_same_file_under_another_name(tmp_path):
    path = tmp_path / "a"
    path.write_text("")
    (tmp_path / "soft").symlink_to(path)
    os.link(path, tmp_path / "hard")
    (tmp_path / "dangling").symlink_to(tmp_path / "new")
    for name in ("a", "soft", "hard"):
        assert is_same_file(tmp_path / name, [path])
    assert is_same_file(tmp_path / "dangling", [tmp_path / "new"])
    assert not is_same_file(tmp_path / "new", [path])
    assert not is_same_file(os.devnull, [os.devnull])  # nothing in it could be lost


def test_permissions_and_links_are_kept(tmp_path):
    path, link = tmp_path / "model.json", tmp_path / "link.json"
    write_atomic(path, "a")
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask
    path.chmod(0o640)
    link.symlink_to(path)
    write_atomic(link, "b")
    assert link.is_symlink()
    assert path.read_text() == "b"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_place_that_cannot_be_written_is_refused_at_once(tmp_path, monkeypatch):
    with pytest.raises(UnwritableError, match="does not exist"):
        check_writable(tmp_path / "no" / "model.json")
    with pytest.raises(UnwritableError, match="is a folder"):
        check_writable(tmp_path)
    check_writable(tmp_path / "model.json")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "protected").write_text("")
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # for root, nothing is read-only
    with pytest.raises(UnwritableError, match="is read-only"):
        check_writable(tmp_path / "protected")
    monkeypatch.undo()
    if os.geteuid() != 0:  # permissions do not stop root
        tmp_path.chmod(0o500)
        with pytest.raises(UnwritableError, match="Nothing can be written"):
            check_writable(tmp_path / "model.json")
        tmp_path.chmod(0o700)


def test_a_model_of_a_table_is_told_in_a_line(table_model):
    said = repr(replace(table_model, facts={"notes": ["x" * 10_000]}))
    assert len(said) < 400
    assert "repaid = yes" in said
    assert said.endswith("fair to sex)")
