"""Fork safety of late imports."""

from __future__ import annotations

import os
import threading

import_lock = threading.RLock()
"""Held during late imports, and by `fork`: a child process would deadlock on import locks held by other threads."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=import_lock.acquire, after_in_parent=import_lock.release, after_in_child=import_lock.release
    )
