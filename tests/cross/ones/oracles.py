"""Properties of all programs; each oracle returns a description of the failure, or an empty text."""

from __future__ import annotations

from ones.closed_shape_oracles import Oracle, follows_numpy, ignores_order, is_isolated
from ones.open_shape_oracles import asking_commits, ignores_order_of_open, is_isolated_with_open, is_minimal, leaves_fit
from ones.value_oracles import computes_numpy, counts_cells_once

CLOSED: tuple[Oracle, ...] = (follows_numpy, ignores_order, is_isolated)
OPEN: tuple[Oracle, ...] = (is_minimal, leaves_fit, ignores_order_of_open, asking_commits, is_isolated_with_open)
VALUES: tuple[Oracle, ...] = (computes_numpy, counts_cells_once)

__all__ = ["CLOSED", "OPEN", "VALUES", "Oracle"]
