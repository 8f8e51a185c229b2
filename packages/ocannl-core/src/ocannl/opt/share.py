"""Which loops several threads share."""

from __future__ import annotations

from dataclasses import replace

from ocannl.ir.loops import For, Mode, Proc, Stmt
from ocannl.ir.touch import are_independent, touches
from ocannl.ir.work import iterations, work_of
from ocannl.opt.nest import same

WORTH = 200_000  # of work in a nest: threads that are awake take over in a hundredth of that time
CLAIM = 50_000  # of work that a thread takes at a time, at least
WRITTEN = 8  # of work in writing a cell of memory: vectors add many numbers in the time that it takes to put one away
CLAIMS = 128  # that a loop is divided into, at most: long ones go through memory in long stretches


def share(proc: Proc, worth: int = WORTH, claim: int = CLAIM) -> Proc:
    """Lets threads claim iterations of a long nest's outermost loop, where these have nothing to do with each other.
    Here it is long from 200 on, and a claim is of 120 at least:

        proc step                         proc step
          x : f32[6,2]  in                  x : f32[6,2]  in
          y : f32[6,2]  out                 y : f32[6,2]  out
          for i in 0..6:                    for i in 0..6 claimed by 2:
            for j in 0..2:        ==>         for j in 0..2:
              y[i, j] = tanh(x[i, j])           y[i, j] = tanh(x[i, j])

    How much a thread takes at a time depends on the program alone, and no sum is divided: results are the same whatever
    the number of threads.
    """
    body = tuple([_shared(stmt, worth, claim) for stmt in proc.body])
    return proc if same(body, proc.body) else replace(proc, body=body)


def _shared(stmt: Stmt, worth: int, claim: int) -> Stmt:
    if not isinstance(stmt, For) or stmt.mode is not Mode.SERIAL:
        return stmt
    if stmt.step != 1 or stmt.lo.constant is None or stmt.hi.constant is None:
        return stmt
    amount, count = work_of(stmt, WRITTEN), iterations(stmt)
    if amount < worth or count < 2 or not are_independent(touches(stmt.body), stmt.sym, (), sums=False):
        return replace(stmt, claimed=0) if stmt.claimed else stmt
    return replace(stmt, claimed=max(1, min(max(claim * count // amount, count // CLAIMS), count // 2)))
