"""Small pictures as SVG inside of HTML: sparklines in notebooks and charts in reports.

Colours are classes of a style sheet, or the colour of the text around, so light and dark pages both have them. All
text is escaped.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from .arrays import Array

_LEFT = 62
_RIGHT = 14
_TOP = 10
_BOTTOM = 42
_CHARACTER = 6.2  # pixels of one on average


def number(value: Any) -> str:
    """A number as people read it.

    Examples
    --------
    >>> number(1234567.0), number(0.000123456), number(12.0), number(float("nan"))
    ('1,234,567', '0.0001235', '12', '-')
    """
    if not math.isfinite(value):
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 or float(value).is_integer() else f"{value:.4g}"


class Safe(str):
    """Text that is HTML already."""


def sparkline(heights: Any, alt: str, width: int = 110, height: int = 22) -> Safe:
    """Bars in a line of text, such as a histogram.

    Examples
    --------
    >>> sparkline([1, 2], "sizes", width=20, height=10).count("<rect")
    2
    """
    values = np.asarray(heights, float)
    most = float(values.max(initial=0)) or 1.0
    step = width / max(len(values), 1)
    bars = "".join(
        f'<rect x="{i * step:.1f}" y="{height - tall:.1f}" width="{max(step - 0.6, 0.6):.1f}" height="{tall:.1f}"/>'
        for i, tall in enumerate(np.where(values > 0, np.maximum(height * values / most, 1.0), 0.0))
    )
    return Safe(
        f'<svg class="spark" role="img" aria-label="{escape(alt)}" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" fill="currentColor"><title>{escape(alt)}</title>{bars}</svg>'
    )


def html_table(header: Sequence[str], rows: Sequence[Sequence[str]], title: str = "", note: str = "") -> str:
    """A table for notebooks: first column to the left, numbers to the right; all text but :class:`Safe` is escaped.

    Examples
    --------
    >>> html_table(["a"], [["<b>"]]).count("&lt;b&gt;")
    1
    """

    def row(kind: str, cells: Sequence[str]) -> str:
        parts = [
            f'<{kind} style="text-align: {"right" if j else "left"}">{each if isinstance(each, Safe) else escape(each)}'
            f"</{kind}>"
            for j, each in enumerate(cells)
        ]
        return f"<tr>{''.join(parts)}</tr>"

    above, below = (f"<p>{escape(text)}</p>" if text else "" for text in (title, note))
    body = "".join(row("td", cells) for cells in rows)
    return f"{above}<table><thead>{row('th', header)}</thead><tbody>{body}</tbody></table>{below}"


def ticks(low: float, high: float, n: int = 5) -> list[float]:
    """About n round numbers between two.

    Examples
    --------
    >>> ticks(0.3, 9.7)
    [2.0, 4.0, 6.0, 8.0]
    """
    span = high - low
    if not (span > 0 and math.isfinite(span)):
        return [low]
    raw = span / n
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(unit * times for times in (1, 2, 2.5, 5, 10) if unit * times >= raw * 0.999)
    return [float(round(k * step, 12)) for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


class Chart:
    """A chart with two axes, to which parts are added one by one.

    Parameters
    ----------
    alt : str
        What the picture shows, for those who can't see it.
    xlim, ylim : pair of float
        Ends of the axes.
    xlabel, ylabel : str
        What they are.
    width, height : int
        In pixels, to which the page may give another size.
    rows : sequence of str, optional
        Names along the vertical axis, of 0, 1, ... from top to bottom, in place of numbers.

    Examples
    --------
    >>> chart = Chart("two points", (0, 1), (0, 1), "x", "y")
    >>> chart.points([0.2, 0.4], [0.3, 0.5], "a")
    >>> str(chart).count("<circle")
    2
    """

    def __init__(
        self,
        alt: str,
        xlim: tuple[float, float],
        ylim: tuple[float, float],
        xlabel: str = "",
        ylabel: str = "",
        *,
        width: int = 460,
        height: int = 300,
        rows: Sequence[str] | None = None,
    ) -> None:
        self.alt = alt
        self.xlim = _spread(xlim)
        self.width = width
        self.ylim = _spread(ylim) if rows is None else (len(rows) - 0.5, -0.5)
        self.left = _LEFT if rows is None else min(int(20 + _CHARACTER * max(map(len, rows), default=0)), width // 2)
        self.height = height if rows is None else 26 * len(rows) + _TOP + _BOTTOM
        self._parts = [self._axes(xlabel, ylabel, rows)]

    def _x(self, x: Any) -> Array:
        low, high = self.xlim
        return np.asarray(self.left + (np.asarray(x, float) - low) / (high - low) * (self.width - self.left - _RIGHT))

    def _y(self, y: Any) -> Array:
        low, high = self.ylim
        inside = self.height - _TOP - _BOTTOM
        return np.asarray(self.height - _BOTTOM - (np.asarray(y, float) - low) / (high - low) * inside)

    def _axes(self, xlabel: str, ylabel: str, rows: Sequence[str] | None) -> str:
        bottom = self.height - _BOTTOM
        right = self.width - _RIGHT
        parts = [f'<path class="axis" d="M{self.left},{_TOP}V{bottom}H{right}"/>']
        for value in ticks(*self.xlim):
            x = float(self._x(value))
            parts.append(f'<path class="grid" d="M{x:.1f},{_TOP}V{bottom}"/>')
            parts.append(f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{number(value)}</text>')
        for value, name in _named(self.ylim, rows):
            y = float(self._y(value))
            text = name if len(name) * _CHARACTER < self.left else f"{name[: int(self.left / _CHARACTER) - 3]}..."
            parts.append(f'<text x="{self.left - 6}" y="{y + 4:.1f}" text-anchor="end">{escape(text)}</text>')
        middle = (self.left + right) / 2
        parts.append(f'<text x="{middle:.0f}" y="{self.height - 6}" text-anchor="middle">{escape(xlabel)}</text>')
        if ylabel:
            at = f"translate(13,{(_TOP + bottom) / 2:.0f}) rotate(-90)"
            parts.append(f'<text transform="{at}" text-anchor="middle">{escape(ylabel)}</text>')
        return "".join(parts)

    def points(self, x: Any, y: Any, kind: Any = "", titles: Sequence[str] | None = None, r: float = 3.5) -> None:
        """Circles, of one class of the style sheet or of one for each; titles show when the mouse is over them."""
        kinds = [kind] * len(x) if isinstance(kind, str) else kind
        says = [""] * len(x) if titles is None else [f"<title>{escape(each)}</title>" for each in titles]
        self._parts += [
            f'<circle cx="{a:.1f}" cy="{b:.1f}" r="{r:g}" class="{escape(each)}"'
            + (f">{said}</circle>" if said else "/>")
            for a, b, each, said in zip(self._x(x), self._y(y), kinds, says, strict=True)
        ]

    def line(self, x: Any, y: Any, kind: str = "line") -> None:
        """A line through points."""
        places = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(self._x(x), self._y(y), strict=True))
        self._parts.append(f'<polyline class="{kind}" points="{places}"/>')

    def segments(self, x0: Any, y0: Any, x1: Any, y1: Any, kind: str = "whisker") -> None:
        """Straight lines, one for each quadruple."""
        ends = zip(self._x(x0), self._y(y0), self._x(x1), self._y(y1), strict=True)
        path = "".join(f"M{a:.1f},{b:.1f}L{c:.1f},{d:.1f}" for a, b, c, d in ends)
        self._parts.append(f'<path class="{kind}" d="{path}"/>')

    def bar(self, left: float, right: float, low: float, high: float, kind: str = "bar", title: str = "") -> None:
        """A filled rectangle."""
        a, c = sorted(self._x([left, right]))
        b, d = sorted(self._y([low, high]))
        said = f"<title>{escape(title)}</title>" if title else ""
        size = f'width="{max(c - a, 0.5):.1f}" height="{max(d - b, 0.5):.1f}"'
        self._parts.append(f'<rect class="{kind}" x="{a:.1f}" y="{b:.1f}" {size}>{said}</rect>')

    def text(self, x: float, y: float, words: str, anchor: str = "start", kind: str = "") -> None:
        """Words beside a place, on its right unless they end there."""
        a = float(self._x(x)) + (-5 if anchor == "end" else 5)
        b = float(self._y(y)) + 4
        style = f' class="{kind}"' if kind else ""
        self._parts.append(f'<text{style} x="{a:.1f}" y="{b:.1f}" text-anchor="{anchor}">{escape(words)}</text>')

    def __str__(self) -> str:
        alt = escape(self.alt)
        head = f'<svg class="chart" role="img" aria-label="{alt}" viewBox="0 0 {self.width} {self.height}">'
        return f"{head}{''.join(self._parts)}</svg>"

    __html__ = __str__  # what template engines take for safe


def _named(limits: tuple[float, float], rows: Sequence[str] | None) -> list[tuple[float, str]]:
    """Places along the vertical axis, and what stands there."""
    if rows is None:
        return [(value, number(value)) for value in ticks(*limits)]
    return [(float(k), name) for k, name in enumerate(rows)]


def _spread(limits: tuple[float, float]) -> tuple[float, float]:
    """Limits that are not the same."""
    low, high = (float(each) for each in limits)
    return (low, high) if high > low else (low - 0.5, low + 0.5)


def padded(*values: Any) -> tuple[float, float]:
    """Where an axis of values begins and ends.

    Examples
    --------
    >>> padded([0.0, 10.0], [float("nan")])
    (-0.4, 10.4)
    """
    found = np.concatenate([np.ravel(np.asarray(each, float)) for each in values])
    found = found[np.isfinite(found)]
    if not len(found):
        return 0.0, 1.0
    margin = 0.04 * float(np.ptp(found))
    return float(found.min()) - margin, float(found.max()) + margin
