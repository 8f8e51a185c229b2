"""States that are filled on a thread of their own while the routines that read them are compiled."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

from ocannl.base.errors import OcannlError
from ocannl.ir.assign import Comp, nodes
from ocannl.ir.tnode import Role, TNode
from ocannl.lang.core.literals import Constant

MIN_BYTES = 1 << 26  # of all states; the system takes a noticeable time to provide the pages of so much memory


@contextmanager
def filled_states(
    codes: Iterable[Comp], was_written: Callable[[TNode], bool], upload: Callable[[TNode], None]
) -> Iterator[None]:
    """Uploads the states that start with the same number in every cell, such as the moments of Adam, on another thread
    during the block, if they take much memory. What fails is left to the upload after the block, which raises errors.
    """
    states = [node for node in dict.fromkeys(node for code in codes for node in nodes(code)) if _is_filled(node)]
    missing = [node for node in states if not was_written(node)]
    if sum(math.prod(node.dims, start=node.precision.nbytes) for node in missing) < MIN_BYTES:
        yield
        return
    has_failed = threading.Event()

    def upload_missing() -> None:
        with suppress(OcannlError):
            for node in missing:
                if has_failed.is_set():
                    return
                upload(node)

    thread = threading.Thread(target=upload_missing, name="ocannl states", daemon=True)
    thread.start()
    try:
        yield
    except BaseException:
        has_failed.set()
        raise
    finally:
        thread.join()


def _is_filled(node: TNode) -> bool:
    return node.role is Role.STATE and isinstance(node.contents, Constant)
