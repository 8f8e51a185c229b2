"""The errors of the framework, one leaf for each remedy.

OcannlError
├── EinsumSyntaxError      a spec that cannot be read            correct the text under the caret
├── ShapeError             sizes or axes that disagree           change one of the two named facts
├── DtypeError             a type that cannot be used here       convert, or choose another
├── DataError              values that cannot be taken           correct the data
├── CodeError              a statement out of place              move or spell it as the message says
├── UninitializedError     a node that nothing has written       run or set what the message names
├── MergeBufferError       a merge buffer nobody fills           create the transfer first
├── PluginError            a package of operations is broken    repair or remove the named distribution
├── ConfigError            a setting that does not exist or fit  correct the named source
├── CheckpointError        a file that does not match            see the listed differences
├── VerifyError            an ill-formed program                 a defect of a pass or a backend: report it
└── BackendError
    ├── UnknownBackend         nobody has heard of the name      pick one of those listed
    ├── BackendNotInstalled    known, but not installed          run the quoted pip command
    ├── BackendImportError     installed, but its import fails   repair or remove the named distribution
    ├── BackendApiMismatch     built for another API             upgrade the named distribution
    ├── BackendUnavailable     works, but not on this machine    see what its probe found
    ├── DuplicateBackend       two distributions claim a name    uninstall one of the two
    ├── CompileError           the target's compiler failed      see its output and the kept source
    ├── OutOfMemory            a device has no room              free nodes, or use smaller ones
    ├── DeviceLost             a device stopped working          go on in a new process
    └── Unsupported            a capability that is not claimed  use another backend or operation
"""

from __future__ import annotations


class OcannlError(Exception):
    """Anything this framework refuses to do, in words a user can act on."""


class EinsumSyntaxError(OcannlError):
    """A spec that cannot be read; the message shows it with a caret under the mistake."""


class ShapeError(OcannlError):
    """Axes or sizes that disagree, with the two facts, where each came from, and a way out."""


class DtypeError(OcannlError):
    """A data type that does not exist or cannot be used in this place."""


class DataError(OcannlError, ValueError):
    """Values that cannot become a tensor: ragged, mixed, empty where that has no meaning, too large."""


class CodeError(OcannlError):
    """A statement in a place where it has no meaning; the message gives the right spelling."""


class UninitializedError(OcannlError):
    """A node is read that nothing has written in its context."""


class MergeBufferError(OcannlError):
    """A merge buffer is read that no transfer fills."""


class PluginError(OcannlError):
    """The operations of an installed package cannot be used; the others can."""


class ConfigError(OcannlError):
    """A setting that does not exist, or a value that does not fit it."""


class CheckpointError(OcannlError):
    """A file of parameters that is damaged or does not match what it is loaded into."""


class VerifyError(OcannlError):
    """A program that breaks the rules of its stage: a defect of a pass, never of user code."""


class BackendError(OcannlError):
    """Something about a backend."""


class UnknownBackend(BackendError):
    """No distribution, installed or known, provides a backend of this name."""


class BackendNotInstalled(BackendError):
    """The backend is known; its distribution is not installed."""


class BackendImportError(BackendError):
    """The distribution of the backend is installed, and importing it fails."""


class BackendApiMismatch(BackendError):
    """The backend was built for another version of the plugin interface."""


class BackendUnavailable(BackendError):
    """The backend can be imported and says that it cannot work on this machine."""


class DuplicateBackend(BackendError):
    """Two installed distributions provide a backend of the same name."""


class CompileError(BackendError):
    """The compiler of the target refused generated code."""


class OutOfMemory(BackendError, MemoryError):
    """A device cannot hold what a routine or a transfer needs."""


class DeviceLost(BackendError):
    """A device cannot be used by this process any more; what it held is lost."""


class Unsupported(BackendError):
    """The backend does not claim the capability that the message names."""
