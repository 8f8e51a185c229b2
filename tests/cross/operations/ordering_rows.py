"""Sorting and order statistics beside those of PyTorch."""

from __future__ import annotations

import numpy as np
from torch_row import NUMBERS, Row, torch

import ocannl as oc

KINDS = "float32 float64"
FLAT, COLUMN = "ij => i", "ij => j"
MATRICES = (((3, 5),), ((5, 1),), ((1, 4),))
EMPTY = (((0, 3),), ((3, 0),))
METHODS = ("linear", "lower", "higher", "nearest", "midpoint")


def torch_sort(x, axis, descending):
    return torch.sort(x, dim=axis, descending=descending, stable=True)


def torch_unique(x):
    distinct = torch.unique(x)
    return torch.cat([distinct, distinct[-1:].expand(9)])[:9]


ROWS = (
    *(Row(f"sort descending={descending}", lambda x, d=descending: oc.sort(x, FLAT, descending=d),
          lambda x, d=descending: torch_sort(x, 1, d)[0], MATRICES + EMPTY, NUMBERS)
      for descending in (False, True)),
    Row("sort of columns", lambda x: oc.sort(x, COLUMN), lambda x: torch_sort(x, 0, False)[0], MATRICES, KINDS),
    *(Row(f"argsort descending={descending}", lambda x, d=descending: oc.argsort(x, COLUMN, descending=d),
          lambda x, d=descending: torch_sort(x, 0, d)[1], MATRICES + EMPTY, NUMBERS, smooth=False)
      for descending in (False, True)),
    *(Row(f"topk largest={largest}", lambda x, n=largest: oc.topk(x, 2, COLUMN, largest=n)[0],
          lambda x, n=largest: torch_sort(x, 0, n)[0][:2], (((3, 5),), ((12, 1),)), NUMBERS)
      for largest in (False, True)),
    *(Row(f"topk ids largest={largest}", lambda x, n=largest: oc.topk(x, 2, COLUMN, largest=n)[1],
          lambda x, n=largest: torch_sort(x, 0, n)[1][:2], (((12, 3),), ((3, 5),)), NUMBERS, smooth=False)
      for largest in (False, True)),
    Row("kthvalue", lambda x: oc.kthvalue(x, 2, COLUMN), lambda x: torch_sort(x, 0, False)[0][1],
        (((3, 5),), ((4, 1),)), NUMBERS),
    Row("median", lambda x: oc.median(x, FLAT), lambda x: torch.quantile(x, 0.5, 1), (((3, 5),), ((3, 4),), ((2, 1),)),
        KINDS, but=None),
    *(Row(f"quantile {method}", lambda x, m=method: oc.quantile(x, 0.3, FLAT, method=m),
          lambda x, m=method: torch.quantile(x, 0.3, 1, interpolation=m), (((3, 5),), ((3, 4),), ((2, 1),)), KINDS,
          but=None)
      for method in METHODS),
    Row("quantile of several", lambda x: oc.quantile(x, [0.1, 0.5, 1.0], COLUMN),
        lambda x: torch.quantile(x, torch.tensor([0.1, 0.5, 1.0], dtype=x.dtype), 0), MATRICES, KINDS, but=None),
    Row("unique", lambda x: oc.unique(x.round(), 9), lambda x: torch_unique(x.round()), (((3, 5),),), KINDS,
        smooth=False, but=(np.nan,)),
)  # fmt: skip
