"""Parquet sources: which files, which partitions, and what is refused."""

import os
import pickle
import shutil

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest
from pyarrow import parquet

from fairmargin.exceptions import DataError, DataFileError
from fairmargin.partitioned.sources import parquet as source_module
from fairmargin.partitioned.sources.parquet import ParquetSource


def table(n, seed=0):
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "age": rng.integers(18, 90, n),
            "income": rng.normal(size=n),
            "job": pa.array(rng.choice(["clerk", "nurse", "smith"], n)),
            "paid": rng.integers(0, 2, n).astype(bool),
        }
    )


@pytest.fixture
def folder(tmp_path):
    for k in range(3):
        parquet.write_table(table(1000 + k, k), tmp_path / f"part-{k}.parquet", row_group_size=400)
    (tmp_path / "_SUCCESS").write_text("")
    (tmp_path / ".part-0.parquet.crc").write_text("x")
    return tmp_path


@pytest.fixture
def no_grouping(monkeypatch):
    monkeypatch.setattr(source_module, "FEW_ROWS", 400)


def content(source, columns):
    return pa.concat_tables([p.load(columns) for p in source.partitions]).to_pandas()


def test_folder_pattern_files_and_list_are_the_same(folder):
    files = [folder / f"part-{k}.parquet" for k in range(3)]
    sources = [ParquetSource(folder), ParquetSource(str(folder / "*.parquet")), ParquetSource(files)]
    sources.append(ParquetSource(str(folder / "**" / "part-?.parquet")))
    assert len({s.fingerprint for s in sources}) == 1
    assert {s.rows for s in sources} == {3003}
    expected = pd.concat([parquet.read_table(f).to_pandas() for f in files], ignore_index=True)
    for source in sources:
        found = content(source, ["income", "job", "age"])
        assert list(found) == ["income", "job", "age"]
        assert found["age"].equals(expected["age"])
        assert (found["job"].astype(str) == expected["job"]).all()


@pytest.mark.usefixtures("no_grouping")
def test_partitions_are_row_groups(folder):
    source = ParquetSource(folder)
    assert [p.rows for p in source.partitions] == [400, 400, 200, 400, 400, 201, 400, 400, 202]
    assert source.partitions[4].place == "part-1.parquet, row group 1"
    expected = parquet.ParquetFile(folder / "part-1.parquet").read_row_group(1, ["age"])["age"]
    assert source.partitions[4].load(["age"])["age"].equals(expected)


def test_small_row_groups_are_read_together(folder, monkeypatch):
    monkeypatch.setattr(source_module, "FEW_ROWS", 1200)
    places = [(p.place, p.rows) for p in ParquetSource(folder).partitions]
    assert places == [
        ("part-0.parquet, row groups 0 to 2", 1000),
        ("part-1.parquet, row groups 0 to 2", 1001),
        ("part-2.parquet, row groups 0 to 2", 1002),
    ]
    monkeypatch.setattr(source_module, "FEW_ROWS", 1400)
    assert (
        ParquetSource(folder).partitions[0].place
        == "part-0.parquet, row groups 0 to 2, up to part-1.parquet, row group 0"
    )


def test_partition_is_small_and_travels(folder):
    partition = ParquetSource(folder).partitions[0]
    packed = pickle.dumps(partition)
    assert len(packed) < 2000
    assert pickle.loads(packed).load(["age"]).equals(partition.load(["age"]))


def test_text_of_any_kind_is_coded(tmp_path):
    words = ["b", "a", None, "b"]
    parquet.write_table(pa.table({"w": pa.array(words)}), tmp_path / "0.parquet")
    parquet.write_table(pa.table({"w": pa.array(words, pa.large_string())}), tmp_path / "1.parquet")
    pd.DataFrame({"w": pd.Categorical(words, ["a", "b", "c"], ordered=True)}).to_parquet(tmp_path / "2.parquet")
    polars.DataFrame({"w": words}).write_parquet(tmp_path / "3.parquet")
    polars.DataFrame({"w": words}, schema={"w": polars.Categorical}).write_parquet(
        tmp_path / "4.parquet", use_pyarrow=True
    )
    source = ParquetSource(tmp_path)
    kind = pa.dictionary(pa.int32(), pa.string())
    assert source.schema.field("w").type == kind
    loaded = source.partitions[0].load(["w"])
    assert loaded.schema.field("w").type == kind
    assert loaded["w"].to_pylist() == words * 5


def test_folders_name_columns(tmp_path):
    parquet.write_to_dataset(
        pa.table({"x": [1.0, 2.0, 3.0, 4.0], "year": [2023, 2023, 2024, None], "land": ["a b", "c", "a b", "c"]}),
        tmp_path,
        partition_cols=["year", "land"],
    )
    source = ParquetSource(tmp_path)
    assert source.schema.field("year").type == pa.int64()
    found = content(source, ["year", "x", "land"]).sort_values("x")
    assert found["year"].tolist()[:3] == [2023, 2023, 2024]
    assert found["year"].isna().tolist() == [False, False, False, True]
    assert found["land"].tolist() == ["a b", "c", "a b", "c"]
    assert content(source, ["year"]).shape == (4, 1)
    assert source.partitions[0].place.startswith("year=2023/land=a b/")


def test_an_index_is_no_column(tmp_path):
    pd.DataFrame({"x": [1.0, 2.0]}, index=[5, 3]).to_parquet(tmp_path / "a.parquet")
    pd.DataFrame({"x": [3.0]}, index=pd.Index([9], name="id")).to_parquet(tmp_path / "b.parquet")
    pd.DataFrame({"x": [4.0]}).to_parquet(tmp_path / "c.parquet")
    assert ParquetSource([tmp_path / "a.parquet", tmp_path / "c.parquet"]).schema.names == ["x"]
    assert ParquetSource(tmp_path / "b.parquet").schema.names == ["x", "id"]


def test_columns_in_another_order_are_fine(tmp_path):
    parquet.write_table(table(10), tmp_path / "0.parquet")
    parquet.write_table(table(10).select(["paid", "job", "income", "age"]), tmp_path / "1.parquet")
    assert content(ParquetSource(tmp_path), ["age", "paid"]).shape == (20, 2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.drop_columns("job"), r"a\.parquet has a column 'job' that b\.parquet does not have\."),
        (
            lambda t: t.append_column("new", t["age"]),
            r"b\.parquet has a column 'new' that a\.parquet does not have\.",
        ),
        (
            lambda t: t.set_column(0, "age", t["age"].cast(pa.float64())),
            r"Column 'age' is double in b\.parquet but int64 in a\.parquet; write it with the same type",
        ),
        (
            lambda t: t.set_column(0, "age", t["age"].cast(pa.string())),
            r"Column 'age' is text in b\.parquet but int64 in a\.parquet;",
        ),
    ],
)
def test_schemas_that_differ(tmp_path, change, message):
    parquet.write_table(table(10), tmp_path / "a.parquet")
    parquet.write_table(change(table(10)), tmp_path / "b.parquet")
    with pytest.raises(DataError, match=message):
        ParquetSource(tmp_path)


def test_file_that_changes_between_passes(folder):
    source = ParquetSource(folder)
    path = folder / "part-1.parquet"
    parquet.write_table(table(1001, 99), path, row_group_size=400)
    with pytest.raises(DataFileError, match=r"part-1\.parquet changed between passes: .*fit again"):
        content(source, ["age"])
    assert ParquetSource(folder).fingerprint != source.fingerprint
    path.unlink()
    with pytest.raises(DataFileError, match=r"part-1\.parquet was removed .* must not change between passes"):
        content(source, ["age"])


def test_values_that_change_under_the_same_footer(folder):
    path = folder / "part-0.parquet"
    parquet.write_table(table(1000), path, compression="none", use_dictionary=False, write_statistics=False)
    source = ParquetSource(folder)
    before = path.stat()
    with open(path, "r+b") as file:
        file.seek(200)
        file.write(b"\x01")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 10**9))
    assert ParquetSource(folder).fingerprint == source.fingerprint  # of the footers alone
    with pytest.raises(DataFileError, match="it was written to"):
        content(source, ["age"])


def test_fingerprint_is_of_the_content(folder, tmp_path_factory):
    copy = tmp_path_factory.mktemp("elsewhere")
    for k in range(3):
        shutil.copy(folder / f"part-{k}.parquet", copy / f"x{k}.parquet")
    assert ParquetSource(copy).fingerprint == ParquetSource(folder).fingerprint


def test_nothing_to_read(tmp_path):
    with pytest.raises(DataError, match="There is no file or folder"):
        ParquetSource(tmp_path / "nowhere")
    with pytest.raises(DataError, match="has no Parquet files"):
        ParquetSource(tmp_path)
    with pytest.raises(DataError, match=r"No file matches .*\*\.parquet"):
        ParquetSource(str(tmp_path / "*.parquet"))
    with pytest.raises(DataError, match="There are no files"):
        ParquetSource([])
    parquet.write_table(table(0), tmp_path / "0.parquet")
    with pytest.raises(DataError, match=r"0\.parquet has no rows of data"):
        ParquetSource(tmp_path)
    parquet.write_table(table(0), tmp_path / "1.parquet")
    with pytest.raises(DataError, match="The 2 files have no rows of data"):
        ParquetSource(tmp_path)


def test_files_that_are_not_parquet(tmp_path):
    path = tmp_path / "a.parquet"
    path.write_text("age,job\n1,clerk\n")
    with pytest.raises(DataError, match=r"a\.parquet is not a Parquet file, or its end is missing"):
        ParquetSource(path)
    parquet.write_table(table(1000), path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"a\.parquet is not a Parquet file, or its end is missing"):
        ParquetSource(path)
    damaged = bytearray(whole)
    start = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    damaged[start : start + 28] = b"\xff" * 28
    path.write_bytes(damaged)
    with pytest.raises(DataError, match=r"a\.parquet is a damaged Parquet file"):
        ParquetSource(path)


def test_damage_within_a_row_group_says_where(folder):
    path = folder / "part-0.parquet"
    damaged = bytearray(path.read_bytes())
    start = parquet.ParquetFile(path).metadata.row_group(1).column(1).data_page_offset
    damaged[start : start + 20] = bytes(20)
    path.write_bytes(damaged)
    with pytest.raises(DataFileError, match=r"part-0\.parquet, row groups 0 to 2 cannot be read"):
        ParquetSource(path).partitions[0].load(["income"])


def test_a_row_group_too_large_for_memory_is_no_damage(folder, monkeypatch):
    def too_much(*args, **kwargs):
        raise pa.ArrowMemoryError("malloc of size 67108864 failed")

    monkeypatch.setattr(parquet.ParquetFile, "read_row_groups", too_much)
    with pytest.raises(MemoryError):  # the engine says where, and what to do
        ParquetSource(folder).partitions[0].load(["income"])


def test_values_that_belie_their_checksum(tmp_path):
    """A wrong number is as readable as a right one: only checksums, where a file has them, show the damage."""
    path, values = tmp_path / "a.parquet", np.random.default_rng(0).normal(size=1000)
    how = {"write_page_checksum": True, "use_dictionary": False, "compression": "none"}
    parquet.write_table(pa.table({"x": values}), path, **how)
    damaged = path.read_bytes().replace(values[500].tobytes(), values[0].tobytes())
    path.write_bytes(damaged)
    assert parquet.read_table(path)["x"][500].as_py() == values[0]
    with pytest.raises(DataFileError, match=r"a\.parquet, row group 0 cannot be read.*CRC"):
        ParquetSource(path).partitions[0].load(["x"])


def test_column_that_does_not_exist(folder):
    with pytest.raises(DataError, match=r"part-0\.parquet has no column 'incom'; did you mean 'income'\?"):
        ParquetSource(folder).partitions[0].load(["incom"])


def test_folders_that_disagree(tmp_path):
    for name in ("year=2023", "month=1"):
        (tmp_path / name).mkdir()
        parquet.write_table(table(10), tmp_path / name / "0.parquet")
    with pytest.raises(DataError, match=r"The folders of year=2023/0.parquet name the columns \['year'\]"):
        ParquetSource(tmp_path)
    shutil.rmtree(tmp_path / "month=1")
    (tmp_path / "year=2023").rename(tmp_path / "age=3")
    with pytest.raises(DataError, match=r"has a column 'age', and its folder names one too"):
        ParquetSource(tmp_path)
