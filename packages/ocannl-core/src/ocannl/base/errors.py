"""The errors of the framework, one leaf for each remedy.

OcannlError
├── EinsumSyntaxError      a spec with a syntax error            correct the text under the caret
├── ShapeError             sizes or axes that disagree           change one of the two named facts
├── DtypeError             a type that cannot be used here       convert, or choose another
├── DataError              values that cannot be taken           correct the data
├── CodeError              a misplaced statement                 move or spell it as the message says
│   ├── ArgumentError      an argument that does not fit         give the argument that the message names
│   ├── UnknownName        a name that does not exist            write the name in the message
│   └── UnknownParameter   a path that no parameter has          write one of the listed paths
├── UninitializedError     a node without a value                run or set what the message names
├── MergeBufferError       a merge buffer without a transfer     create the transfer first
├── HostCallError          a Python function that failed         see its error, and correct its operands
├── PluginError            a package of operations is broken    repair or remove the named distribution
├── UnsupportedInterpreter Python without its lock              set the variable that the message names
├── ConfigError            a setting that does not exist or fit  correct the named source
├── CheckpointError        a file that does not match            see the listed differences
├── VerifyError            a pass or its result is wrong         a defect of ocannl: report it
├── TransportError
│   ├── UnknownTransport       an unknown name                   choose one of the listed names
│   ├── TransportNotInstalled  known, but not installed          run the quoted pip command
│   ├── TransportImportError   installed, but broken             repair or remove the named distribution
│   ├── TransportApiMismatch   built for another API             upgrade the named distribution
│   ├── TransportUnavailable   works, but not on this machine    see what its probe found
│   ├── DuplicateTransport     two distributions claim a name    uninstall one of the two
│   ├── ProgramMismatch        processes with other programs     start all with the same script and inputs
│   └── ProcessEnded           a process left before the others  let all execute the same exchanges
└── BackendError
    ├── UnknownBackend         an unknown name                   choose one of the listed names
    ├── BackendNotInstalled    known, but not installed          run the quoted pip command
    ├── BackendImportError     installed, but broken             repair or remove the named distribution
    ├── BackendApiMismatch     built for another API             upgrade the named distribution
    ├── BackendUnavailable     works, but not on this machine    see what its probe found
    ├── DuplicateBackend       two distributions claim a name    uninstall one of the two
    ├── CompileError           the target's compiler failed      see its output and the kept source
    ├── OutOfMemory            device memory is exhausted        free nodes, or use smaller ones
    ├── DeviceLost             a device stopped working          continue in a new process
    └── Unsupported            a capability not provided         use another backend or operation

DefectWarning is a `UserWarning`: a pass or a backend failed, and the routine was compiled without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class OcannlError(Exception):
    """Base class of all errors of the framework. Messages state the facts and a remedy."""


class EinsumSyntaxError(OcannlError):
    """A syntax error in a spec; the message shows the spec with a caret under the mistake."""


class ShapeError(OcannlError):
    """Axes or sizes that disagree; the message names both facts, their origins and a remedy."""


class DtypeError(OcannlError):
    """A data type that does not exist or cannot be used in this place."""


class DataError(OcannlError, ValueError):
    """Values that cannot become a tensor: ragged, of mixed types, empty without a meaning, or too large."""


class CodeError(OcannlError):
    """A statement in a place where it has no meaning; the message gives the right spelling."""


class ArgumentError(CodeError, TypeError):
    """Arguments that do not fit a function: an unknown keyword, a missing argument, or a value of another type."""


class UnknownName(CodeError, AttributeError):
    """A name that a module or an object does not have, or that cannot be assigned. The end of the message is computed
    when it is read, since most of these errors come from `hasattr`."""

    def __init__(self, message: str, answer: Callable[[], str] = str) -> None:
        super().__init__(message)
        self._message, self._answer = message, answer

    def __str__(self) -> str:
        return self._message + self._answer()


class UnknownParameter(CodeError, KeyError):
    """A path that no parameter of an expression has."""

    __str__ = Exception.__str__


class UninitializedError(OcannlError):
    """A node is read before any code has written it in the context."""


class MergeBufferError(OcannlError):
    """A merge buffer is read without a transfer into it."""


class HostCallError(OcannlError):
    """A Python function that a routine calls has failed."""


class UnsupportedInterpreter(OcannlError, ImportError):
    """The package is imported by a Python without the global interpreter lock."""


class PluginError(OcannlError):
    """The operations or settings of an installed package cannot be used; the others can."""


class ConfigError(OcannlError):
    """A setting that does not exist, or a value that does not fit it."""


class CheckpointError(OcannlError):
    """A file of parameters that is damaged or does not match what it is loaded into."""


class VerifyError(OcannlError):
    """A pass that failed, or a program that breaks the rules of its stage: a defect of ocannl, never of user code."""


class DefectWarning(UserWarning):
    """A pass or a backend has failed, and a routine was compiled without it: a defect of ocannl, never of user code."""


class TransportError(OcannlError):
    """Something about the communication between processes."""


class UnknownTransport(TransportError):
    """No distribution, installed or known, provides a transport of this name."""


class TransportNotInstalled(TransportError):
    """The transport is known; its distribution is not installed."""


class TransportImportError(TransportError):
    """The distribution of the transport is installed, and it is broken: its import, its probe or a call fails."""


class TransportApiMismatch(TransportError):
    """The transport was built for another version of the plugin interface."""


class TransportUnavailable(TransportError):
    """The transport can be imported and says that it cannot work on this machine."""


class DuplicateTransport(TransportError):
    """Two installed distributions provide a transport of the same name."""


class ProgramMismatch(TransportError):
    """The processes of a world do not execute the same program; the message shows both."""


class ProcessEnded(TransportError):
    """A process of a world has ended while this process waits for it."""


class BackendError(OcannlError):
    """Something about a backend."""


class UnknownBackend(BackendError):
    """No distribution, installed or known, provides a backend of this name."""


class BackendNotInstalled(BackendError):
    """The backend is known; its distribution is not installed."""


class BackendImportError(BackendError):
    """The distribution of the backend is installed, and it is broken: its import, its probe or a call fails."""


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
