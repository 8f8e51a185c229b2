"""Nothing public answers junk with an exception from the inside, a crash or an endless loop."""

from __future__ import annotations

import os
import traceback
import warnings

import pytest
from junk_calls import calls
from time_limit import time_limit

import ocannl as oc

COUNT = int(os.environ.get("OCANNL_TEST_JUNK", "20000"))
FIRST = int(os.environ.get("OCANNL_TEST_FIRST", "0"))
CALLS = 1000  # of one test
SECONDS = 10


@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT // CALLS))
def test_junk_raises_errors_of_the_framework_only(seed: int, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    failures = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for call, random in calls(seed, CALLS):
            try:
                with time_limit(SECONDS):
                    call.run(random)
            except oc.OcannlError as error:
                if len(str(error)) <= 10:
                    failures.append(f"{call}\n    the message says nothing: {error}")
            except Exception as error:
                frame = traceback.extract_tb(error.__traceback__)[-1]
                location = f"{os.path.basename(frame.filename)}:{frame.lineno}"
                failures.append(f"{call}\n    {type(error).__name__}: {str(error)[:100]} at {location}")
    assert not failures, f"{len(failures)} calls\n" + "\n".join(failures)
