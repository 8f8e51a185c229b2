"""The conformance kit: test classes for the requirements on backends and transports.

    pytest --pyargs ocannl.testing --ocannl-backend=NAME

or, in a test file of the plugin, area by area:

    class TestOperations(kit.Operations):
        backend = "mine"

Transports are tested in several processes, by `--ocannl-transport=NAME` or by `Communication`.

Capabilities that a backend claims must work; programs that need others must raise `Unsupported`, naming the capability.
"""

from ocannl.testing.kit.casts import Casts
from ocannl.testing.kit.claims import Claims
from ocannl.testing.kit.communication import Communication
from ocannl.testing.kit.contexts import Concurrency, Transfers
from ocannl.testing.kit.declaration import Declaration
from ocannl.testing.kit.layouts import Layouts
from ocannl.testing.kit.linking import Blobs, Linking
from ocannl.testing.kit.loops import Loops
from ocannl.testing.kit.memory import Memory
from ocannl.testing.kit.operations import Operations
from ocannl.testing.kit.programs import Programs
from ocannl.testing.kit.queues import Queues

__all__ = [
    "Blobs",
    "Casts",
    "Claims",
    "Communication",
    "Concurrency",
    "Declaration",
    "Layouts",
    "Linking",
    "Loops",
    "Memory",
    "Operations",
    "Programs",
    "Queues",
    "Transfers",
]
