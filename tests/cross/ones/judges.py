"""What is to hold of every program; each judge returns what is wrong in words, or nothing."""

from __future__ import annotations

from ones.closed_judges import Judge, follows_numpy, ignores_order, is_isolated
from ones.open_judges import asking_commits, ignores_order_of_open, is_isolated_with_open, is_least, leaves_fit
from ones.value_judges import computes_numpy, counts_cells_once

CLOSED: tuple[Judge, ...] = (follows_numpy, ignores_order, is_isolated)
OPEN: tuple[Judge, ...] = (is_least, leaves_fit, ignores_order_of_open, asking_commits, is_isolated_with_open)
VALUES: tuple[Judge, ...] = (computes_numpy, counts_cells_once)

__all__ = ["CLOSED", "OPEN", "VALUES", "Judge"]
