"""What a fork must not cut in two: a child has none of the threads that would finish it."""

from __future__ import annotations

import os
import threading

undivided = threading.RLock()
"""Held while modules are imported late: a child would wait for their locks forever."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=undivided.acquire, after_in_parent=undivided.release, after_in_child=undivided.release
    )
