"""Formulas as MathML, which browsers draw by themselves: no script, no font and no network."""

from __future__ import annotations

from typing import Any

from latex2mathml.converter import convert


def inline(self: Any, node: Any) -> None:
    """Write a formula of a line of text."""
    self.body.append(convert(node.astext()))
    raise_skip()


def block(self: Any, node: Any) -> None:
    """Write a formula of its own; latex2mathml has no aligned lines outside of an environment."""
    text = node.astext().strip()
    if r"\\" in text or "&" in text:
        text = rf"\begin{{aligned}}{text}\end{{aligned}}"
    self.body.append(f'<div class="math">{convert(text, display="block")}</div>')
    raise_skip()


def raise_skip() -> None:
    """Tell docutils that the node is done."""
    from docutils.nodes import SkipNode

    raise SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Offer the renderer to Sphinx."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
