"""The wheel in an empty environment: no compiler, no package but its own, no root."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

# The wheel of the tests, or that of `make wheel` in nightly runs.
WHEELS = os.environ.get("MEMWEIR_WHEELS", "target/python/dev-wheels")


@pytest.fixture(scope="module")
def wheel() -> Path:
    """The wheel that `python/wheel.sh` has built."""
    root = Path(__file__).resolve().parents[2]
    (found,) = (root / WHEELS).glob("memweir-*.whl")
    return found


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel alone."""
    directory = tmp_path_factory.mktemp("empty")
    subprocess.run([sys.executable, "-m", "venv", directory], check=True)
    install = [f"{directory}/bin/pip", "install", "--quiet", "--no-index", str(wheel)]
    subprocess.run(install, check=True)
    return directory


def run(environment: Path, *command: str) -> str:
    """Runs a program of the environment where PATH holds it, QEMU and nothing else."""
    tools = environment / "tools"
    tools.mkdir(exist_ok=True)
    qemu = shutil.which("qemu-x86_64")
    if qemu is not None and not (tools / "qemu-x86_64").exists():
        (tools / "qemu-x86_64").symlink_to(qemu)
    done = subprocess.run(
        [environment / "bin" / command[0], *command[1:]],
        env={"PATH": f"{environment / 'bin'}:{tools}", "HOME": str(environment)},
        cwd=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_one_wheel_serves_all_versions(wheel: Path) -> None:
    assert "-cp39-abi3-" in wheel.name and wheel.name.endswith("x86_64.whl")
    with zipfile.ZipFile(wheel) as opened:
        names = opened.namelist()
        (metadata,) = (name for name in names if name.endswith("METADATA"))
        required = [
            line
            for line in opened.read(metadata).decode().splitlines()
            if line.startswith("Requires-Dist:") and "extra ==" not in line
        ]
    assert required == []
    assert "memweir/py.typed" in names and "memweir/_native.pyi" in names


def test_the_command_simulates_and_profiles(environment: Path) -> None:
    assert run(environment, "memweir", "--version").startswith("memweir ")
    (environment / "mix.toml").write_text(run(environment, "memweir", "sim", "--example"))
    shown = run(environment, "memweir", "sim", "mix.toml", "--set", "repetitions=1")
    assert "ideal-average" in shown
    profiled = run(
        environment, "memweir", "profile", "--meter", "software", "--no-store", "--", "/bin/true"
    )
    assert "software" in profiled


CODE = """
import memweir, sys
result = memweir.sim("mix.toml", {"repetitions": 1})
assert len(result.rows) == 3
profile = memweir.profile(["/bin/true"], meter="software", no_store=True)
assert profile.rows
for call in (result.to_arrow, result.to_pandas, result.to_polars, result.plot):
    try:
        call()
    except memweir.MissingPackageError as error:
        assert "pip install 'memweir[" in str(error), error
    else:
        raise AssertionError(call)
assert not {"numpy", "pandas", "polars", "pyarrow", "matplotlib", "tqdm"} & set(sys.modules)
"""


def test_the_package_needs_no_other(environment: Path) -> None:
    (environment / "mix.toml").write_text(run(environment, "memweir", "sim", "--example"))
    run(environment, "python", "-c", CODE)


def test_the_command_starts_without_a_variable(environment: Path) -> None:
    code = "from memweir import _command; print(_command.path())"
    path = run(environment, "python", "-c", code).strip()
    assert os.path.samefile(path, environment / "bin/memweir")
