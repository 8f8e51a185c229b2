"""Words of Threefry: a function of the module, of numbers or of the vectors at hand."""

from __future__ import annotations

from collections.abc import Sequence

from ocannl.codegen import Document
from ocannl.ir.threefry import PARITY, Inject, Mix, steps
from ocannl.ir.threefry import ROUNDS as PUBLISHED
from ocannl_backend_llvm.build import Builder

WORD = "i32"
ROUNDS = {f"threefry4x32_{rounds}": rounds for rounds in PUBLISHED}


def threefry(b: Builder, rounds: int, args: Sequence[str]) -> str:
    """One word, of four words of the key, four of the counter, and which word of the result."""
    type_ = b.type(WORD)
    name = f"ocannl-threefry4x32_{rounds}.{b.mangled(WORD)}"
    if not b.module.has(name):
        doc = Document()
        params = ["%k0", "%k1", "%k2", "%k3", "%c0", "%c1", "%c2", "%c3", "%lane"]
        given = ", ".join(f"{type_} {x}" for x in params)
        doc.line(f"define {type_} @{name}({given}) nounwind memory(none) {{")
        result = _word(b.at(doc), rounds, params[:4], params[4:8], params[8])
        doc.line(f"  ret {type_} {result}")
        doc.line("}")
        b.module.define(name, f"{doc.text()}\n")
    return b.let(f"call {type_} @{name}({', '.join(f'{type_} {b.operand(WORD, x)}' for x in args)})")


def _word(b: Builder, rounds: int, words: Sequence[str], counter: Sequence[str], lane: str) -> str:
    parity = str(PARITY)
    for word in words:
        parity = b.op("xor", WORD, word, parity)
    key, x = [*words, parity], list(counter)
    for step in steps(rounds):
        match step:
            case Mix(i, j, turn):
                x[i] = b.op("add", WORD, x[i], x[j])
                turned = b.intrinsic("fshl", WORD, x[j], x[j], str(turn))
                x[j] = b.op("xor", WORD, turned, x[i])
            case Inject(i, which, number):
                x[i] = b.op("add", WORD, x[i], key[which])
                if number:
                    x[i] = b.op("add", WORD, x[i], str(number))
    odd = b.test("icmp ne", WORD, b.op("and", WORD, lane, "1"), "0")
    high = b.test("icmp ne", WORD, b.op("and", WORD, lane, "2"), "0")
    return b.select(high, WORD, b.select(odd, WORD, x[3], x[2]), b.select(odd, WORD, x[1], x[0]))
