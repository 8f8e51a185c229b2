from dataclasses import asdict, replace

import pytest

from ocannl.ir.cpu import COMMON_CPU, cpu_from_tree

TREE = asdict(replace(COMMON_CPU, line_crossing_cycles=0.5))


def test_a_tree_describes_a_processor():
    assert asdict(cpu_from_tree(TREE)) == TREE


def test_the_key_of_a_processor_holds_all_numbers():
    text = COMMON_CPU.canonical()
    assert "l2.size_bytes=1048576" in text and "loads_per_cycle=" in text
    assert text != replace(COMMON_CPU, loads_per_cycle=3).canonical()


@pytest.mark.parametrize(("tree", "message"), [
    ([], "expected l1, l2"),
    ({**TREE, "l4": 1}, "expected l1, l2"),
    ({**TREE, "l1": {"size_bytes": 1}}, "expected l1.size_bytes, l1.associativity"),
    ({**TREE, "l1": {**TREE["l1"], "associativity": 0}}, "`l1.associativity` must be a positive number, not 0"),
    ({**TREE, "megahertz": "fast"}, "`megahertz` must be a positive number, not 'fast'"),
    ({**TREE, "megahertz": float("nan")}, "`megahertz` must be a positive number, not nan"),
    ({**TREE, "megahertz": True}, "`megahertz` must be a positive number, not True"),
])  # fmt: skip
def test_other_trees_are_refused(tree, message):
    with pytest.raises(ValueError, match="^" + message):
        cpu_from_tree(tree)
