"""The Threefry random number generator (Salmon et al. 2011), as a helper function of scalars or vectors."""

from __future__ import annotations

from collections.abc import Sequence

from ocannl.codegen import Document
from ocannl.ir.threefry import PARITY, Inject, Mix, steps
from ocannl.ir.threefry import ROUNDS as ROUND_COUNTS
from ocannl_backend_llvm.builder import Builder

WORD = "i32"
ROUNDS = {f"threefry4x32_{rounds}": rounds for rounds in ROUND_COUNTS}


def threefry(b: Builder, rounds: int, args: Sequence[str]) -> str:
    """Emits a call that returns one output word; `args` are four key words, four counter words and the lane."""
    type_ = b.type(WORD)
    name = f"ocannl-threefry4x32_{rounds}.{b.mangled(WORD)}"
    if not b.module.has(name):
        doc = Document()
        params = ["%k0", "%k1", "%k2", "%k3", "%c0", "%c1", "%c2", "%c3", "%lane"]
        declared = ", ".join(f"{type_} {x}" for x in params)
        doc.line(f"define {type_} @{name}({declared}) nounwind memory(none) {{")
        result = _emit_rounds(b.at(doc), rounds, params[:4], params[4:8], params[8])
        doc.line(f"  ret {type_} {result}")
        doc.line("}")
        b.module.define(name, f"{doc.text()}\n")
    return b.assign(f"call {type_} @{name}({', '.join(f'{type_} {b.operand(WORD, x)}' for x in args)})")


def _emit_rounds(b: Builder, rounds: int, key_words: Sequence[str], counter: Sequence[str], lane: str) -> str:
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
    is_odd = b.test("icmp ne", WORD, b.op("and", WORD, lane, "1"), "0")
    is_high = b.test("icmp ne", WORD, b.op("and", WORD, lane, "2"), "0")
    return b.select(is_high, WORD, b.select(is_odd, WORD, x[3], x[2]), b.select(is_odd, WORD, x[1], x[0]))
