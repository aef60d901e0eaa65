"""Figures of docs/performance.md: their statistics, and their verdicts beside budgets.

`scripts/performance.py` is the command; evidence/performance/README.md explains the keys of a row.
"""

import csv
import dataclasses
import enum
import fnmatch
import functools
import math
import statistics

LEVEL = 0.95
# Statistics that can be held against a budget.
JUDGED = ("median", "p99", "most", "interval", "growth")


class Figure:
    """The measurements of a figure, in the unit of the table."""

    def __init__(self, values, scale=1.0):
        self.values = sorted(value * scale for value in values)

    def percentile(self, share):
        return self.values[round(share * (len(self.values) - 1))]

    count = property(lambda self: len(self.values))
    least = property(lambda self: self.values[0])
    median = property(lambda self: statistics.median(self.values))
    p99 = property(lambda self: self.percentile(0.99))
    most = property(lambda self: self.values[-1])
    usual = property(lambda self: self.estimate[0])
    low = property(lambda self: self.estimate[1])
    high = property(lambda self: self.estimate[2])

    @functools.cached_property
    def estimate(self):
        return hodges_lehmann(self.values, LEVEL)


def hodges_lehmann(differences, level):
    """The typical difference of pairs, and the ends of its interval of this confidence; they are
    infinite for too few pairs. Equals `memweir_core::metrics::hodges_lehmann`, which says more.

    >>> hodges_lehmann([1.0, 6.0, 2.0], 0.95)
    (2.75, -inf, inf)
    >>> hodges_lehmann([float(n) for n in range(10)], 0.95)
    (4.5, 2.0, 7.0)
    """
    count = len(differences)
    means = sorted((a + b) / 2 for n, a in enumerate(differences) for b in differences[n:])
    quantile = statistics.NormalDist().inv_cdf(0.5 + level / 2)
    deviation = math.sqrt(count * (count + 1) * (2 * count + 1) / 24)
    rank = math.floor(count * (count + 1) / 4 - 0.5 - quantile * deviation)
    low, high = (means[rank], means[-1 - rank]) if rank >= 0 else (-math.inf, math.inf)
    return statistics.median(means), low, high


def growth(rates):
    """Largest increase of the cost of an element from one rate to the next, over the first
    increase: at most 1 if sizes grow by a constant factor and the cost at most logarithmically.

    >>> growth([1 / 2, 1 / 3, 1 / 4])
    1.0
    >>> growth([1 / 2, 1 / 4, 1 / 8])
    2.0
    """
    costs = [1 / rate for rate in rates]
    first, *later = (after - before for before, after in zip(costs, costs[1:]))
    return max(later) / first if first > 0 else math.inf


class Verdict(enum.Enum):
    """A figure beside its budget."""

    REPORTED = "reported"
    KEPT = "kept"
    NOT_SHOWN = "not shown"
    KNOWN = "known miss"
    REGRESSION = "REGRESSION"
    MISSED = "MISSED"

    fails = property(lambda self: self in (Verdict.REGRESSION, Verdict.MISSED))
    misses = property(lambda self: self.fails or self is Verdict.KNOWN)


def verdict(low, high, limit, tolerated, shown=None):
    """The verdict of an interval that must not exceed the limit; `tolerated` is the ceiling of a
    known miss, or None. An interval that ends above `shown`, which is the limit if it is None,
    shows nothing. The ends of a figure without an interval are equal.

    >>> [verdict(*case).value for case in [(5, 6, 6, None), (5, 7, 6, None), (7, 8, 6, None)]]
    ['kept', 'not shown', 'MISSED']
    >>> [verdict(*case).value for case in [(5, 6, 6, 8), (5, 9, 6, 8), (7, 9, 6, 8), (9, 9, 6, 8)]]
    ['kept', 'not shown', 'known miss', 'REGRESSION']
    >>> verdict(math.nan, math.nan, 6, None).value
    'MISSED'
    >>> [verdict(*case, 0, None, 1).value for case in [(-1, 1), (-8, 9), (0.3, 0.9)]]
    ['kept', 'not shown', 'MISSED']
    """
    if low <= limit:
        return Verdict.KEPT if high <= (limit if shown is None else shown) else Verdict.NOT_SHOWN
    if tolerated is None:
        return Verdict.MISSED
    return Verdict.KNOWN if low <= tolerated else Verdict.REGRESSION


def worst(verdicts):
    """
    >>> worst([Verdict.KEPT, Verdict.KNOWN, Verdict.NOT_SHOWN])
    <Verdict.KNOWN: 'known miss'>
    """
    return max(verdicts, key=list(Verdict).index)


@dataclasses.dataclass
class Row:
    """A row of a table; the keys of tables.toml."""

    what: str
    bench: str
    figures: list
    measured: str
    scale: float = 1.0
    judged: str = "median"
    at_most: float | None = None
    at_least: float | None = None
    unit: str = ""
    shown: float | None = None
    budget: str | None = None
    tolerated: float | list | None = None
    reason: str | None = None

    def __post_init__(self):
        limits = [limit for limit in (self.at_most, self.at_least) if limit is not None]
        if len(limits) > 1 or (self.tolerated is not None and not (limits and self.reason)):
            raise ValueError("one of at_most and at_least; tolerated needs that and a reason")
        if self.judged not in JUDGED:
            raise ValueError(f"judged: `{self.judged}` is none of {', '.join(JUDGED)}")

    def limit(self):
        return self.at_most if self.at_least is None else self.at_least

    def budgeted(self, limit):
        """A limit as the table has it."""
        sign = "+" if self.judged == "interval" else ""
        return f"{limit:{sign},g}{self.unit}"

    def budget_cell(self):
        if self.budget is not None or self.limit() is None:
            return self.budget or ""
        return self.budgeted(self.limit())

    def tolerated_cell(self):
        each = self.tolerated if isinstance(self.tolerated, list) else [self.tolerated]
        return ", ".join(self.budgeted(limit) for limit in each if limit is not None)

    def measurements(self, rows):
        """The figures among the rows of its bench: None where one is missing."""
        matches = [[name for name in rows if fnmatch.fnmatch(name, f)] for f in self.figures]
        if not all(matches):
            return None
        return [Figure(rows[name], self.scale) for names in matches for name in names]

    def text(self, figures):
        """The measured cell, without the verdict. `{0.median:.1f}` in its template is the median
        of the first figure, `{all.most}` the largest of all medians."""
        medians = [figure.median for figure in figures]
        return self.measured.format(*figures, all=Figure(medians))

    def intervals(self, figures):
        if self.judged == "growth":
            return [(growth([figure.median for figure in figures]),) * 2]
        if self.judged == "interval":
            return [(figure.low, figure.high) for figure in figures]
        return [(getattr(figure, self.judged),) * 2 for figure in figures]

    def verdict(self, figures):
        if self.limit() is None:
            return Verdict.REPORTED
        intervals = self.intervals(figures)
        tolerated = self.tolerated
        if not isinstance(tolerated, list):
            tolerated = [tolerated] * len(intervals)
        if self.at_least is None:
            cases = [
                (*ends, self.at_most, most, self.shown) for ends, most in zip(intervals, tolerated)
            ]
        else:
            # Negative, a lower limit is an upper one.
            cases = [
                (-high, -low, -self.at_least, None if least is None else -least)
                for (low, high), least in zip(intervals, tolerated)
            ]
        return worst(verdict(*case) for case in cases)

    def cell(self, figures):
        """The measured cell as the page has it."""
        text, judged = self.text(figures), self.verdict(figures)
        if judged.misses:
            return f"**{text}**"
        return f"not shown: {text}" if judged is Verdict.NOT_SHOWN else text


def read(file):
    """The measurements of a file of rows, by figure."""
    figures = {}
    with open(file) as lines:
        for row in csv.DictReader(line for line in lines if not line.startswith("#")):
            figures.setdefault(row["figure"], []).append(float(row["value"]))
    return figures
