"""The Threefry random number generator (Salmon et al. 2011), as a helper function of scalars or vectors."""

from __future__ import annotations

from collections.abc import Sequence

from ocannl.codegen import Document
from ocannl.ir.threefry import PARITY, Inject, Mix, steps
from ocannl.ir.threefry import ROUNDS as ROUND_COUNTS
from ocannl_backend_llvm.builder import Builder

WORD = "i32"
RANDOM_BLOCK = "ocannl-threefry4x32"  # the helper functions that compute a block of four words
ROUNDS = {f"threefry4x32_{rounds}": rounds for rounds in ROUND_COUNTS}


def threefry(b: Builder, rounds: int, args: Sequence[str]) -> str:
    """Emits a call of the rounds, and returns one of the four words; `args` are four key words, four counter words and
    the lane. `parallel_codegen` merges the calls for several words of a block."""
    type_ = b.type(WORD)
    block = f"{{ {', '.join([type_] * 4)} }}"
    name = f"{RANDOM_BLOCK}_{rounds}.{b.mangled(WORD)}"
    if not b.module.has(name):
        doc = Document()
        params = ["%k0", "%k1", "%k2", "%k3", "%c0", "%c1", "%c2", "%c3"]
        declared = ", ".join(f"{type_} {x}" for x in params)
        doc.line(f"define {block} @{name}({declared}) nounwind memory(none) {{")
        inner = b.at(doc)
        returned = "undef"
        for number, word in enumerate(_emit_rounds(inner, rounds, params[:4], params[4:])):
            returned = inner.assign(f"insertvalue {block} {returned}, {type_} {word}, {number}")
        doc.line(f"  ret {block} {returned}")
        doc.line("}")
        b.module.define(name, f"{doc.text()}\n")
    *inputs, lane = [b.operand(WORD, x) for x in args]
    result = b.assign(f"call {block} @{name}({', '.join(f'{type_} {x}' for x in inputs)})")
    x = [b.assign(f"extractvalue {block} {result}, {number}") for number in range(4)]
    is_odd = b.test("icmp ne", WORD, b.op("and", WORD, lane, "1"), "0")
    is_high = b.test("icmp ne", WORD, b.op("and", WORD, lane, "2"), "0")
    return b.select(is_high, WORD, b.select(is_odd, WORD, x[3], x[2]), b.select(is_odd, WORD, x[1], x[0]))


def _emit_rounds(b: Builder, rounds: int, key_words: Sequence[str], counter: Sequence[str]) -> list[str]:
    parity = str(PARITY)
    for word in key_words:
        parity = b.op("xor", WORD, word, parity)
    key, x = [*key_words, parity], list(counter)
    for step in steps(rounds):
        match step:
            case Mix(i, j, rotation):
                x[i] = b.op("add", WORD, x[i], x[j])
                rotated = b.intrinsic("fshl", WORD, x[j], x[j], str(rotation))
                x[j] = b.op("xor", WORD, rotated, x[i])
            case Inject(i, key_word, number):
                x[i] = b.op("add", WORD, x[i], key[key_word])
                if number:
                    x[i] = b.op("add", WORD, x[i], str(number))
    return x
