"""Short positions lead to the file that they come from."""

from __future__ import annotations

from ocannl.base.source_positions import path_of, source_position


def test_files_of_the_same_name_are_distinguished_by_folders() -> None:
    paths = ["/srv/twins/twin_encoder.py", "/srv/other/twins/twin_encoder.py", "C:\\nets\\twin_encoder.py"]
    names = ["twin_encoder.py", "twins/twin_encoder.py", "nets/twin_encoder.py"]
    for line in (7, 7, 12):
        for path, name in zip(paths, names, strict=True):
            position = source_position(path, line)
            assert position == f"{name}:{line}" and path_of(position) == path


def test_a_path_that_is_the_end_of_another() -> None:
    assert source_position("/srv/decoder_only.py", 1) == "decoder_only.py:1"
    assert source_position("decoder_only.py", 1) == "decoder_only.py:1"


def test_texts_without_a_position() -> None:
    assert path_of("") is None and path_of("nowhere.py:3") is None
    assert source_position("<stdin>", 4) == "<stdin>:4" and path_of("<stdin>:4") == "<stdin>"
