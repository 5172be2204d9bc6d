"""What is built can be installed: versions agree, extras are named, and a wheel runs the README in an empty place."""

import os
import pkgutil
import re
import subprocess
import sys
import tomllib
import venv
import warnings
from pathlib import Path

import pytest

import fairmargin
from fairmargin import TrivialClassifierWarning, p_rule

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def readme_examples():
    """Return the examples of the README in Python, in their order."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def readme_example():
    """Return the first example of the README."""
    return readme_examples()[0]


def test_the_version_is_in_one_place():
    assert PROJECT["dynamic"] == ["version"]
    assert f'version: "{fairmargin.__version__}"' in (ROOT / "packaging/conda/recipe.yaml").read_text()
    assert f"## {fairmargin.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_conda_recipe_has_the_same_dependencies():
    recipe = (ROOT / "packaging/conda/recipe.yaml").read_text()
    run = recipe.split("  run:\n")[1].split("\n\n")[0]
    assert {line.strip("- ").replace(" ", "") for line in run.splitlines()} == {
        *PROJECT["dependencies"],
        f"python{PROJECT['requires-python']}",
    }


def test_extras_are_named_by_purpose():
    extras = PROJECT["optional-dependencies"]
    assert {"plot", "data", "cli", "trees", "dask", "spark", "onnx", "docs"} <= set(extras)
    assert all(
        re.search(r"[>\[]", dependency)
        for extra in extras.values()
        for dependency in extra
        if "stubs" not in dependency
    )


def test_the_readme_names_both_commands():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make demo" in text
    assert "make test" in text
    lines = [line for line in text.splitlines() if line.startswith(("- [", "fairmargin "))]
    assert len(lines) == len(set(lines))


def test_links_of_the_markdown_files_lead_somewhere():
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        if "gallery" in page.parts or "_build" in page.parts:
            continue
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
            generated = "gallery/" in target or re.match(r"[a-z]+:", target)
            assert generated or (page.parent / target).exists(), f"{page.relative_to(ROOT)}: {target}"


@pytest.mark.slow
def test_the_readme_example_gives_what_the_readme_says(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    known = {}
    for example in readme_examples():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TrivialClassifierWarning)
            exec(compile(example, "README.md", "exec"), known)
    assert 80.0 in known["frontier"].table_["level"].tolist()
    decided = known["fair"].predict(known["X"])
    assert p_rule(known["y"], decided, sensitive_features=known["sex"], pos_label="yes") >= 80.0
    assert (tmp_path / "frontier.png").stat().st_size > 0
    free, fair, tested = capsys.readouterr().out.splitlines()
    assert free == "accuracy 75.5%, p%-rule 65%"
    assert fair == "accuracy 75.5%, p%-rule 80%"
    assert "with 95% confidence" in tested


@pytest.mark.heavy
def test_wheel_and_sdist_are_sound_and_the_wheel_runs_in_an_empty_environment(tmp_path):
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}

    def run(*command, **more):
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=clean, **more)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run(sys.executable, "-m", "build", "--outdir", tmp_path / "dist", ROOT)
    built = sorted(path.name for path in (tmp_path / "dist").iterdir())
    assert built == [
        f"fairmargin-{fairmargin.__version__}-py3-none-any.whl",
        f"fairmargin-{fairmargin.__version__}.tar.gz",
    ]
    run(sys.executable, "-m", "twine", "check", "--strict", *(tmp_path / "dist" / name for name in built))
    venv.create(tmp_path / "empty", with_pip=True)
    python = tmp_path / "empty" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", tmp_path / "dist" / built[0])
    assert "matplotlib" not in run(python, "-m", "pip", "list")
    (tmp_path / "example.py").write_text(readme_example())
    said = run(python, "example.py", cwd=tmp_path).splitlines()
    assert said == ["accuracy 75.5%, p%-rule 65%", "accuracy 75.5%, p%-rule 80%"]
    help_text = subprocess.run(
        [python, "-m", "fairmargin", "--help"], capture_output=True, text=True, check=False, env=clean
    )
    assert "cli" in help_text.stdout + help_text.stderr  # without the extra: an error that names it


def test_modules_are_known_after_a_plain_import():
    """The documentation says `fairmargin.io.save`, and `import fairmargin` alone must be enough for that."""
    modules = [m.name for m in pkgutil.iter_modules(fairmargin.__path__) if not m.name.startswith("_")]
    assert {"audit", "io", "multiclass", "partitioned", "tables"} <= set(modules) <= set(dir(fairmargin))
    code = "import fairmargin, sys\nfor name in sys.argv[1:]: print(getattr(fairmargin, name).__name__)"
    command = [sys.executable, "-W", "error", "-c", code, *modules]
    told = subprocess.run(command, check=True, capture_output=True, text=True)
    assert told.stdout.split() == [f"fairmargin.{name}" for name in modules]
