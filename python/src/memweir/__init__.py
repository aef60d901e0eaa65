"""memweir: simulate, profile and schedule programs that share memory.

    import memweir

    result = memweir.sim("mix.toml", {"repetitions": 10}, policies=["os", "max-weight"])
    result.to_pandas()

`sim` and `page_sim` run in this process; `profile`, `run`, `emulate`, `reproduce` and `dram.replay`
run the bundled command. `memweir.policy` shows how to write a policy.
"""

from memweir import dram, maps, policy
from memweir._errors import (
    CommandError,
    Error,
    InputError,
    MachineError,
    MissingPackageError,
    PolicyError,
)
from memweir._machine import command, emulate, profile, reproduce, run
from memweir._native import __version__
from memweir._result import (
    BankResult,
    CommandResult,
    PageResult,
    ProfileResult,
    ReproductionResult,
    Result,
    RunResult,
    SimResult,
)
from memweir._simulate import page_sim, sim
from memweir._sweep import page_sweep, sweep

__all__ = [
    "BankResult",
    "CommandError",
    "CommandResult",
    "Error",
    "InputError",
    "MachineError",
    "MissingPackageError",
    "PageResult",
    "PolicyError",
    "ProfileResult",
    "ReproductionResult",
    "Result",
    "RunResult",
    "SimResult",
    "__version__",
    "command",
    "dram",
    "emulate",
    "maps",
    "page_sim",
    "page_sweep",
    "policy",
    "profile",
    "reproduce",
    "run",
    "sim",
    "sweep",
]
