"""Results: the report of a call, and its rows as tables."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from memweir._errors import MissingPackageError

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Row = dict[str, Any]


class Result:
    """Result of a call.

    `report` is the whole result, in the form of the command's `--json`; `rows` is its table.
    """

    report: dict[str, Any]

    def __init__(self, report: dict[str, Any]) -> None:
        self.report = report

    @cached_property
    def rows(self) -> list[Row]:
        """The table of the result: one dict per row, all with the same keys."""
        return uniform(list(self._rows()))

    def _rows(self) -> Iterable[Row]:
        raise NotImplementedError

    def to_arrow(self) -> pyarrow.Table:
        """Returns the rows as a table of pyarrow."""
        try:
            import pyarrow
        except ImportError as error:
            raise MissingPackageError("pyarrow", "arrow") from error
        return pyarrow.Table.from_pylist(self.rows)

    def to_pandas(self) -> pandas.DataFrame:
        """Returns the rows as a data frame of pandas."""
        try:
            import pandas
        except ImportError as error:
            raise MissingPackageError("pandas", "pandas") from error
        return pandas.DataFrame(self.rows)

    def to_polars(self) -> polars.DataFrame:
        """Returns the rows as a data frame of polars."""
        try:
            import polars
        except ImportError as error:
            raise MissingPackageError("polars", "polars") from error
        return polars.DataFrame(self.rows, infer_schema_length=None)

    def plot(self) -> Figure:
        """Returns the result as a figure of matplotlib."""
        raise NotImplementedError(f"{type(self).__name__} has no figure")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self.rows)} rows>"


class SimResult(Result):
    """Result of `sim`: one row per run, and the comparison of the policies."""

    def _rows(self) -> Iterable[Row]:
        for point in self.report["points"]:
            for run in point["runs"]:
                slowdowns = [task["slowdown"] for task in run["tasks"]]
                row = scalars(run)
                row["slowdown_mean"] = sum(slowdowns) / len(slowdowns)
                row["slowdown_max"] = max(slowdowns)
                yield placed(point, {**row, **_queueing(run.get("queueing"))})

    @cached_property
    def policies(self) -> list[Row]:
        """One row per policy and point of the sweep: mean turnaround, gain, verdict."""
        rows = []
        for point in self.report["points"]:
            for policy in point["policies"]:
                difference = policy["difference"] or {}
                row = scalars({**policy, "difference": difference})
                row["difference_low_s"] = difference.get("low_s")
                row["difference_high_s"] = difference.get("high_s")
                rows.append(placed(point, row))
        return uniform(rows)

    def plot(self) -> Figure:
        """Returns the mean turnaround of each policy: bars, or a line over a swept key."""
        points = self.report["points"]
        swept = list(points[0]["at"])
        value = {
            (tuple(point["at"].values()), policy["policy"]): policy["mean_s"]
            for point in points
            for policy in point["policies"]
        }
        return lines_or_bars(swept, value, "turnaround (s)")


class BankResult(Result):
    """Result of `sim` at bank level: one row per partition and program, or per policy and job of a
    batch."""

    def _rows(self) -> Iterable[Row]:
        for point in self.report["points"]:
            for run in point.get("policies", []):
                for job in run["jobs"]:
                    yield placed(point, {**scalars(run), **job})
            for partition in point["partitions"]:
                for program, colors in zip(partition["programs"], partition["colors"]):
                    own = {"partition": partition["partition"], "colors": colors}
                    yield placed(point, {**own, **scalars(program)})

    def plot(self) -> Figure:
        """Returns the slowdown of each program under each partition, or the turnaround of a batch
        under each policy."""
        points = self.report["points"]
        turnaround = {
            (tuple(point["at"].values()), run["policy"]): 1e3 * run["turnaround_s"]
            for point in points
            for run in point.get("policies", [])
        }
        if turnaround:
            return lines_or_bars(list(points[0]["at"]), turnaround, "turnaround (ms)")
        value = {
            ((*point["at"].values(), program["program"]), partition["partition"]): program[
                "slowdown"
            ]
            for point in points
            for partition in point["partitions"]
            for program in partition["programs"]
            if program.get("slowdown") is not None
        }
        return lines_or_bars([*points[0]["at"], "program"], value, "slowdown")


class PageResult(Result):
    """Result of `page_sim`: one row per run."""

    def _rows(self) -> Iterable[Row]:
        for point in self.report["points"]:
            for swap in point["swaps"]:
                for repetition, run in enumerate(swap["runs"]):
                    own = {"swap": swap["swap"], "repetition": repetition}
                    yield placed(point, {**own, **scalars(run)})

    def plot(self) -> Figure:
        """Returns the mean delay of a switch on each swap area."""
        points = self.report["points"]
        value = {
            (tuple(point["at"].values()), swap["swap"]): swap["mean"]["switch_ms"] or 0.0
            for point in points
            for swap in point["swaps"]
        }
        return lines_or_bars(list(points[0]["at"]), value, "delay of a switch (ms)")


class CommandResult(Result):
    """Result of a call that ran the `memweir` command."""

    text: str
    """The command's own rendering."""
    exit_code: int
    """0, or 1 if a job failed or a check did."""

    def __init__(self, report: dict[str, Any], text: str, exit_code: int) -> None:
        super().__init__(report)
        self.text = text
        self.exit_code = exit_code

    def _rows(self) -> Iterable[Row]:
        yield scalars(self.report)

    def __str__(self) -> str:
        return self.text


class ProfileResult(CommandResult):
    """Result of `profile`: one row per interval of the program's CPU time."""

    def _rows(self) -> Iterable[Row]:
        return (scalars(interval) for interval in self.report["intervals"])

    def plot(self) -> Figure:
        """Returns the bandwidth along the program's CPU time."""
        times = [row["time_s"] for row in self.rows]
        rates = [row["bandwidth"] / 1e9 for row in self.rows]
        figure, axes = empty_figure()
        axes.plot(times, rates, drawstyle="steps-post")
        axes.set_xlabel("CPU time (s)")
        axes.set_ylabel("bandwidth (GB/s)")
        command = " ".join(self.report["command"])
        axes.set_title(textwrap.fill(command, _TITLE_WIDTH), fontsize="medium")
        return figure


class RunResult(CommandResult):
    """Result of `run`: one row per job, or per round and variant of a comparison."""

    def _rows(self) -> Iterable[Row]:
        if "runs" in self.report:
            for run in self.report["runs"]:
                yield {**scalars(run), **scalars(run["report"])}
        else:
            yield from (scalars(job) for job in self.report["jobs"])


class ReproductionResult(CommandResult):
    """Result of `reproduce`: one row per comparison with the paper."""

    directory: str
    """Directory of `report.html` and `results.json`."""

    def _rows(self) -> Iterable[Row]:
        return (scalars(comparison) for comparison in self.report["comparisons"])


# Characters that fit side by side below the bars of a figure, and in a line above them.
_LABELS_FIT = 50
_TITLE_WIDTH = 70

_QUEUEING_KEYS = ("wait", "response", "bounded_slowdown")


def _queueing(found: Mapping[str, Any] | None) -> Row:
    """Returns the columns of a run of a job log; None in all of them for another run."""
    row: Row = {}
    for name in _QUEUEING_KEYS:
        unit = "" if name == "bounded_slowdown" else "_s"
        for figure in ("mean", "p95"):
            distribution = found[name + unit] if found else {}
            row[f"{name}_{figure}{unit}"] = distribution.get(figure)
    row["utilization"] = found["utilization"] if found else None
    return row


def placed(point: Mapping[str, Any], row: Row) -> Row:
    """Returns a row of a point after the values of the swept keys.

    A swept key with the name of another column is called `at.KEY`, as in the files of `--out`.
    """
    at = {f"at.{key}" if key in row else key: value for key, value in point["at"].items()}
    return {**at, **row}


def scalars(values: Mapping[str, Any]) -> Row:
    """Returns the entries that are no lists and no dicts."""
    return {key: value for key, value in values.items() if not isinstance(value, (list, dict))}


def uniform(rows: list[Row]) -> list[Row]:
    """Gives all rows the same keys, and all values of a column one kind: text if any is one."""
    keys = list(dict.fromkeys(key for row in rows for key in row))
    texts = {
        key
        for key in keys
        if any(isinstance(row.get(key), str) for row in rows)
        and any(not isinstance(row.get(key), (str, type(None))) for row in rows)
    }

    def value(row: Row, key: str) -> Any:
        found = row.get(key)
        return str(found) if key in texts and found is not None else found

    return [{key: value(row, key) for key in keys} for row in rows]


def empty_figure() -> tuple[Figure, Axes]:
    """Returns an empty figure of matplotlib and its axes, apart from the state of pyplot."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingPackageError("matplotlib", "plot") from error
    figure = Figure(figsize=(7.0, 4.0), layout="constrained")
    return figure, figure.add_subplot()


def lines_or_bars(
    swept: Sequence[str], value: Mapping[tuple[tuple[Any, ...], str], float], label: str
) -> Figure:
    """Draws a value by the swept keys and a name: lines over one swept number, else bars."""
    figure, axes = empty_figure()
    places = list(dict.fromkeys(place for place, _ in value))
    names = list(dict.fromkeys(name for _, name in value))
    numbers = len(swept) == 1 and all(isinstance(place[0], (int, float)) for place in places)
    if numbers:
        for name in names:
            known = sorted(place for place in places if (place, name) in value)
            heights = [value[place, name] for place in known]
            axes.plot([place[0] for place in known], heights, marker="o", label=name)
        axes.set_xlabel(swept[0])
    elif places == [()]:
        axes.bar(names, [value[(), name] for name in names])
        _tilt_if_crowded(axes, names)
    else:
        width = 0.8 / len(names)
        for nth, name in enumerate(names):
            there = [at for at, place in enumerate(places) if (place, name) in value]
            heights = [value[places[at], name] for at in there]
            middles = [at + (nth + 0.5) * width - 0.4 for at in there]
            axes.bar(middles, heights, width, label=name)
        labels = [" ".join(map(str, place)) for place in places]
        axes.set_xticks(range(len(places)), labels)
        _tilt_if_crowded(axes, labels)
        axes.set_xlabel(", ".join(swept))
    if places != [()]:
        axes.legend()
    axes.set_ylabel(label)
    return figure


def _tilt_if_crowded(axes: Axes, labels: Sequence[str]) -> None:
    """Tilts the labels below bars if they do not fit side by side."""
    if sum(map(len, labels)) > _LABELS_FIT:
        for text in axes.get_xticklabels():
            text.set(rotation=30, horizontalalignment="right", rotation_mode="anchor")
