"""The example's sweep on each engine: as in one process, resumed after a death, nothing twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import duckdb
import memweir
import polars
import pytest
from conftest import EXAMPLE, GRID

_MIX = EXAMPLE / "mix.toml"
_POINTS = 100
_TIMEOUT_S = 300


def _command(engine: str, example: Path, out: Path) -> list[str]:
    script = [str(example / "executors.py"), engine, str(example / "mix.toml"), str(out)]
    if engine == "mpi":
        mpi = ["mpiexec", "--oversubscribe", "-n", "3"]
        as_root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        return [*mpi, *as_root, sys.executable, "-m", "mpi4py.futures", *script]
    return [sys.executable, *script]


def _environment() -> dict[str, str]:
    # Ray: no key of a cluster in the home directory, no usage reports.
    return {**os.environ, "RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}


def _ran(
    command: list[str], directory: Path, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a command in a directory to its end."""
    return subprocess.run(
        command,
        env=environment or _environment(),
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )


def _rows(out: Path) -> Counter[str]:
    """Returns the rows of each point in the files of a directory."""
    files = [str(path) for path in out.rglob("*.parquet")]
    if not files:
        return Counter()
    found = duckdb.sql(f"select point, count(*) from read_parquet({files}) group by point")
    return Counter(dict(found.fetchall()))


def _complete(out: Path, whole: memweir.SimResult) -> None:
    """Checks that a directory has every point once, with the results of one process."""
    rows = _rows(out)
    assert len(rows) == _POINTS and set(rows.values()) == {2}, "nothing twice, nothing lost"
    before = sorted(out.rglob("*"))
    swept = memweir.sweep(_MIX, GRID, out=out)
    assert swept.rows == whole.rows
    assert sorted(out.rglob("*")) == before, "nothing was left to run"


@pytest.mark.parametrize("engine", ["pool", "dask", "ray", "mpi"])
def test_an_executor_runs_a_sweep(
    engine: str, example: Path, tmp_path: Path, whole: memweir.SimResult
) -> None:
    done = _ran(_command(engine, example, tmp_path / "points"), tmp_path)
    assert done.returncode == 0, done.stderr
    assert "200 rows" in done.stdout
    assert len(list((tmp_path / "points").rglob("*.parquet"))) == 10
    _complete(tmp_path / "points", whole)


@pytest.mark.parametrize("engine", ["pool", "dask", "ray", "mpi"])
def test_a_killed_engine_goes_on(
    engine: str, example: Path, tmp_path: Path, whole: memweir.SimResult
) -> None:
    out = tmp_path / "points"
    command = _command(engine, example, out)
    process = subprocess.Popen(
        command,
        env=_environment(),
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    end = time.monotonic() + _TIMEOUT_S
    while not _rows(out) and process.poll() is None:
        assert time.monotonic() < end, "no point ends"
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    time.sleep(1)
    before = _rows(out)
    assert before
    _again(engine, example, out)
    _complete(out, whole)


# A part of the command line of each kind of worker.
_WORKERS = {"pool": "executors.py", "dask": "multiprocessing.spawn", "ray": "ray::"}


def _descendants(ancestor: int) -> list[int]:
    """Returns the processes below a process."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    found, left = [], [ancestor]
    while left:
        below = children.get(left.pop(), [])
        found += below
        left += below
    return found


def _workers(engine: str, script: int) -> list[int]:
    def is_worker(process: int) -> bool:
        with suppress(OSError):
            return _WORKERS[engine] in Path(f"/proc/{process}/cmdline").read_text()
        return False

    return sorted(filter(is_worker, _descendants(script)))


@pytest.mark.parametrize("engine", list(_WORKERS))
def test_a_worker_that_dies_costs_no_point(
    engine: str, example: Path, tmp_path: Path, whole: memweir.SimResult
) -> None:
    out = tmp_path / "points"
    process = subprocess.Popen(
        _command(engine, example, out),
        env=_environment(),
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    end = time.monotonic() + _TIMEOUT_S
    while not _rows(out):
        assert process.poll() is None and time.monotonic() < end, "no point ends"
        time.sleep(0.01)
    workers = _workers(engine, process.pid)
    assert workers
    os.kill(workers[0], signal.SIGKILL)
    # Some engines give the task to another worker, others end.
    if process.wait(_TIMEOUT_S) != 0:
        _again(engine, example, out)
    _complete(out, whole)


def _again(engine: str, example: Path, out: Path) -> None:
    again = _ran(_command(engine, example, out), out.parent)
    assert again.returncode == 0, again.stderr


@pytest.mark.parametrize("engine", ["pool", "dask", "ray", "mpi"])
def test_a_full_disk_costs_no_point(
    engine: str, example: Path, tmp_path: Path, whole: memweir.SimResult
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root mounts a small disk")
    out = tmp_path / "points"
    out.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=48k", "tmpfs", str(out)]
    subprocess.run(mount, check=True)
    try:
        full = _ran(_command(engine, example, out), tmp_path)
        assert full.returncode != 0, "there is room for all"
        assert "No space left" in full.stderr
        before = _rows(out)
        assert 0 < len(before) < _POINTS
        subprocess.run(["mount", "-o", "remount,size=64m", str(out)], check=True)
        _again(engine, example, out)
        _complete(out, whole)
    finally:
        subprocess.run(["umount", "--lazy", str(out)], check=True)


def test_hyperqueue_runs_shards(example: Path, tmp_path: Path, whole: memweir.SimResult) -> None:
    files = [example / "hyperqueue_shards.py", example / "mix.toml", tmp_path / "points"]
    for _ in range(2):
        done = _ran([sys.executable, *map(str, files), "8"], tmp_path)
        assert done.returncode == 0, done.stderr
        _complete(tmp_path / "points", whole)
    assert len(list((tmp_path / "points").rglob("*.parquet"))) == 8


def _submission(example: Path, *options: str) -> list[str]:
    files = [str(example / "sweep.sbatch"), str(example / "mix.toml")]
    return ["sbatch", "--wait", *options, *files, "points"]


def _sbatch(slurm: dict[str, str], example: Path, directory: Path, *options: str) -> int:
    """Submits the example's array, and returns its exit code when it has ended."""
    done = _ran(_submission(example, *options), directory, slurm)
    print(done.stdout, done.stderr)
    return done.returncode


def test_slurm_runs_an_array(
    slurm: dict[str, str], example: Path, tmp_path: Path, whole: memweir.SimResult
) -> None:
    assert _sbatch(slurm, example, tmp_path, "--array=1-4") == 0
    _complete(tmp_path / "points", whole)
    assert len(list((tmp_path / "points").rglob("*.parquet"))) == 4
    merged = memweir.command("sweep", "merge", tmp_path / "points")
    assert "100 of 100 points from 4 files" in merged


def test_a_failed_array_goes_on_with_another_number_of_tasks(
    slurm: dict[str, str], example: Path, tmp_path: Path, whole: memweir.SimResult
) -> None:
    # The third task of the first array never runs.
    assert _sbatch(slurm, example, tmp_path, "--array=1,2,4") == 0
    assert len(_rows(tmp_path / "points")) == 75
    assert _sbatch(slurm, example, tmp_path, "--array=1-2") == 0
    _complete(tmp_path / "points", whole)


def test_an_array_that_was_submitted_twice_is_merged_to_one(
    slurm: dict[str, str], example: Path, tmp_path: Path, whole: memweir.SimResult
) -> None:
    array = _submission(example, "--array=1-2")
    both = [subprocess.Popen(array, env=slurm, cwd=tmp_path) for _ in range(2)]
    assert [process.wait(_TIMEOUT_S) for process in both] == [0, 0]
    rows = _rows(tmp_path / "points")
    assert len(rows) == _POINTS and set(rows.values()) <= {2, 4}
    merged = memweir.command("sweep", "merge", tmp_path / "points")
    assert "100 of 100 points" in merged
    _complete(tmp_path / "points", whole)


def test_duckdb_and_polars_read_the_directory(tmp_path: Path, whole: memweir.SimResult) -> None:
    memweir.sweep(_MIX, GRID, out=tmp_path)
    pattern = str(tmp_path / "**" / "*.parquet")
    sums = "select scenario, count(*), sum(turnaround_s) from read_parquet($1) group by scenario"
    ((scenario, rows, total),) = duckdb.execute(sums, [pattern]).fetchall()
    assert tmp_path.joinpath(f"scenario={scenario}").is_dir()
    expected = sum(row["turnaround_s"] for row in whole.rows)
    assert rows == 200 and total == pytest.approx(expected)
    read = polars.read_parquet(pattern, hive_partitioning=True)
    assert (read.height, read["scenario"].unique().to_list()) == (200, [scenario])
