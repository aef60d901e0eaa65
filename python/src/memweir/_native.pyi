"""Types of the native module (`crates/python`)."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from memweir._scenario import Scenario

__version__: str

def sim(
    scenario: Scenario,
    policies: Sequence[tuple[str, object]],
    threads: int | None,
    progress: Callable[[int, int], object] | None,
) -> str: ...
def points(scenario: Scenario, policies: Sequence[tuple[str, object]]) -> int: ...
def begin(
    scenario: Scenario,
    policies: Sequence[tuple[str, object]],
    versions: Sequence[str],
    out: str,
    resume: bool,
) -> tuple[Path, int, list[int]]: ...
def run_points(
    scenario: Scenario,
    policies: Sequence[tuple[str, object]],
    versions: Sequence[str],
    points: Sequence[int],
    file: tuple[Path, str] | None,
    stop: StopRequest,
) -> list[str]: ...
def reports(scenario: Scenario, partition: Path) -> tuple[list[str], list[str]]: ...
def toml_document(json: str) -> str: ...
def toml_value(json: str) -> str: ...

class StopRequest:
    """A request to stop simulations on other threads of this process."""

    def make(self) -> None:
        """Makes the request: simulations that watch it end at their next event."""

class Candidate:
    """A job that may run in the next quantum."""

    @property
    def job(self) -> int:
        """Number of the job."""

    @property
    def cores(self) -> int:
        """Cores that it occupies while it runs; at least one."""

    @property
    def demand(self) -> float:
        """Predicted bandwidth of the job in the next quantum, in bytes per second."""

    @property
    def demand_per_core(self) -> float:
        """The same for each of its cores."""

    @property
    def expected_time_s(self) -> float | None:
        """Estimated execution time in seconds, if known."""

    @property
    def traffic(self) -> list[tuple[float, float]]:
        """The demand by medium: pairs of reads and writes, the local DRAM first."""

    @property
    def executed_s(self) -> float:
        """CPU time in seconds that it has used so far."""

    @property
    def progress_s(self) -> float:
        """Completed work, as the time in seconds that it would have taken alone."""

    @property
    def age_s(self) -> float:
        """Time in seconds since it was submitted."""

    @property
    def priority(self) -> int:
        """Its priority: each step doubles the worth of a second of its progress."""

class View:
    """The state of the machine when a quantum is about to start."""

    @property
    def quantum(self) -> int:
        """Number of quanta that have begun; a call within a quantum counts that one, too."""

    @property
    def cores(self) -> int:
        """Free cores beside the jobs that run in any case. May be zero."""

    @property
    def committed(self) -> float:
        """Predicted bandwidth of the jobs that run in any case, in bytes per second."""

    @property
    def running(self) -> tuple[Candidate, ...]:
        """The jobs that run in any case: the head of the run queue, or those that run on."""

    @property
    def queue(self) -> tuple[Candidate, ...]:
        """The waiting jobs in the order of the run queue."""

    @property
    def peak(self) -> float | None:
        """Peak bandwidth of the memory bus in bytes per second, if known."""

    @property
    def saturation(self) -> float | None:
        """Bandwidth from which the bus counts as saturated, if known."""

    @property
    def highest_observed(self) -> float:
        """The highest bandwidth of the system in any quantum so far."""

    @property
    def ideal_average(self) -> float | None:
        """Ideal average bandwidth of the rest of the batch (iabw eq. 10), if known."""

    def speeds(self, jobs: Sequence[Candidate]) -> list[float]:
        """Predicts the speed of each job if these run together, over its speed alone (0 to 1)."""

class Program:
    """A program that is about to get colors, as it ran alone."""

    @property
    def mpki(self) -> float | None:
        """Misses of the last-level cache per 1,000 instructions."""

    @property
    def row_buffer_locality(self) -> float | None:
        """Share of the misses that find their row open."""

    @property
    def bank_parallelism(self) -> float | None:
        """Mean number of banks that are busy for it while at least one is."""

    @property
    def bandwidth(self) -> float | None:
        """Its bandwidth."""

    @property
    def banks(self) -> int:
        """Banks beyond which it is no faster: 8 where it hardly misses, else 16."""

class ColorSupply:
    """The colors that can be handed out."""

    @property
    def colors(self) -> list[int]:
        """The colors, in ascending order."""

    @property
    def cache_parts(self) -> list[int]:
        """Part of the cache that each of them is in."""

    @property
    def banks_per_color(self) -> int:
        """Number of banks of one color."""

class Setup:
    """The machine and the batch that a policy is about to schedule."""

    @property
    def cores(self) -> int:
        """Cores that the batch may use."""

    @property
    def quantum_s(self) -> float:
        """Length of a quantum in seconds."""

    @property
    def peak(self) -> float | None:
        """Peak bandwidth of the memory bus in bytes per second, if known."""

    @property
    def media(self) -> list[str]:
        """Names of the media whose traffic is told apart, the local DRAM first."""

    @property
    def medium_peaks(self) -> list[float | None]:
        """Peak bandwidth of each of them in bytes per second, if known."""

    @property
    def seed(self) -> int:
        """Seed of the run, for policies that draw random numbers."""

class ServedPolicy:
    """The policy of one run of the command, which asks in lines of JSON."""

    def __init__(self, name: str, object: object, setup: str) -> None: ...
    def answer(self, question: str) -> str:
        """Answers a line with a line."""

    @staticmethod
    def failure(error: str) -> str:
        """Returns the answer of a policy that has failed."""

class AddressMap:
    """The functions by which a memory controller chooses channel, rank, bank, row and column."""

    def __new__(cls, text: str, name: str) -> AddressMap: ...
    def __eq__(self, other: object) -> bool:
        """Returns true for a map of the same name, source and functions."""

    def __hash__(self) -> int: ...
    @staticmethod
    def parse(text: str, name: str) -> AddressMap:
        """Reads a map from the text of a map file; `name` is its name in refusals."""

    @property
    def name(self) -> str:
        """Name of the map."""

    @property
    def bits(self) -> int:
        """Number of address bits."""

    @property
    def functions(self) -> list[tuple[str, list[int]]]:
        """The bank functions: role and address bits."""

    def colors(self, page_bytes: int = 4096) -> int:
        """Returns the number of colors that pages of this size can have."""

    def color_of(self, addresses: Sequence[int], page_bytes: int = 4096) -> list[int]:
        """Returns the color of the page at each of these physical addresses."""

    def decode(self, addresses: Sequence[int]) -> list[dict[str, Any]]:
        """Returns channel, rank, bank, row and column of each address, as far as known."""
