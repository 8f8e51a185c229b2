"""Short positions lead to the file that they come from."""

from __future__ import annotations

import copy
import pickle

from ocannl.base.source_positions import SourcePosition, line_of, path_of


def test_positions_are_named_after_the_file_alone() -> None:
    for path in ("/srv/encoder/model.py", "/srv/decoder/model.py", "C:\\nets\\model.py", "model.py"):
        position = SourcePosition(path, 7)
        assert f"{position}" == position == "model.py:7"
        assert path_of(position) == path and line_of(position) == 7


def test_positions_in_files_of_the_same_name_differ() -> None:
    encoder, decoder = SourcePosition("/srv/encoder/model.py", 7), SourcePosition("/srv/decoder/model.py", 7)
    assert encoder != decoder and len({encoder, decoder}) == 2
    assert encoder == SourcePosition("/srv/encoder/model.py", 7) != SourcePosition("/srv/encoder/model.py", 8)


def test_copies_keep_the_path() -> None:
    position = SourcePosition("/srv/model.py", 7)
    for other in (pickle.loads(pickle.dumps(position)), copy.deepcopy(position)):
        assert other == position and path_of(other) == "/srv/model.py"


def test_texts_without_a_file() -> None:
    assert path_of("") is None and path_of("nowhere.py:3") is None
    assert line_of("") == 0 and line_of("nowhere.py") == 0 and line_of("nowhere.py:3") == 3
    assert path_of(SourcePosition("<stdin>", 4)) == "<stdin>"
