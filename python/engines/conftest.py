"""Fixtures: the example's files, what its sweep gives in one process, and a cluster of Slurm."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import memweir
import pytest

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "sweep"

# The grid of the example, which its files repeat.
GRID = {"cores": "1..4", "seed": range(1, 26)}

_START_TIMEOUT_S = 60


@pytest.fixture(scope="session")
def example() -> Path:
    """Directory of the example."""
    return EXAMPLE


@pytest.fixture(scope="session")
def whole() -> memweir.SimResult:
    """The sweep of the example in this process."""
    result = memweir.sim(EXAMPLE / "mix.toml", sweep=GRID)
    assert isinstance(result, memweir.SimResult)
    return result


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


_CONFIGURATION = """\
ClusterName=memweir
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={state}/munge/socket
CredType=cred/munge
SlurmctldPort={controller_port}
SlurmdPort={node_port}
StateSaveLocation={state}/controller
SlurmdSpoolDir={state}/node
SlurmctldPidFile={state}/controller.pid
SlurmdPidFile={state}/node.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
KillWait=5
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


@pytest.fixture(scope="session")
def slurm() -> Iterator[dict[str, str]]:
    """A cluster of Slurm on free ports of this machine; yields the environment of its commands."""
    for program in ("munged", "slurmctld", "slurmd", "sbatch"):
        if shutil.which(program) is None:
            if os.environ.get("CI") == "true":
                pytest.fail(f"{program} is not installed; scripts/setup.sh engines installs it")
            pytest.skip(f"{program} is not installed")
    state = Path(tempfile.mkdtemp(prefix="memweir-slurm-"))
    for name in ("munge", "controller", "node"):
        (state / name).mkdir(mode=0o700)
    key = state / "munge" / "key"
    key.write_bytes(secrets.token_bytes(1024))
    key.chmod(0o400)
    configuration = state / "slurm.conf"
    configuration.write_text(
        _CONFIGURATION.format(
            host=socket.gethostname().split(".")[0],
            state=state,
            controller_port=_free_port(),
            node_port=_free_port(),
        )
    )
    environment = {**os.environ, "SLURM_CONF": str(configuration)}
    munge = [
        *("munged", "--foreground", "--force", f"--key-file={key}"),
        *(f"--{kind}={state}/munge/{kind}" for kind in ("socket", "pid-file", "log-file")),
        f"--seed-file={state}/munge/seed",
    ]
    daemons: list[subprocess.Popen[bytes]] = []

    def start(command: list[str]) -> None:
        with (state / f"{command[0]}.log").open("wb") as log:
            daemons.append(
                subprocess.Popen(command, env=environment, stdout=log, stderr=log)
            )

    try:
        start(munge)
        _wait_for("munge", lambda: (state / "munge" / "socket").exists())
        start(["slurmctld", "-D", "-i"])
        start(["slurmd", "-D"])
        _wait_for("Slurm", lambda: b"idle" in _nodes(environment))
        yield environment
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
        for daemon in daemons:
            daemon.wait(timeout=30)
        shutil.rmtree(state)


def _nodes(environment: dict[str, str]) -> bytes:
    asked = subprocess.run(["sinfo", "-h"], env=environment, capture_output=True, check=False)
    return asked.stdout


def _wait_for(service: str, ready: Callable[[], bool]) -> None:
    end = time.monotonic() + _START_TIMEOUT_S
    while not ready():
        assert time.monotonic() < end, f"{service} does not start"
        time.sleep(0.2)
