"""The machine code of object files as assembly, function by function."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO

import capstone
from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import Symbol, SymbolTableSection

MODES = {
    "x64": (capstone.CS_ARCH_X86, capstone.CS_MODE_64),
    "AArch64": (capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM),
    "RISC-V": (capstone.CS_ARCH_RISCV, capstone.CS_MODE_RISCV64 | capstone.CS_MODE_RISCVC),
}
"""The mode of the disassembler for each processor, by its name in pyelftools."""

MNEMONIC_WIDTH = 12


@dataclass(frozen=True, slots=True)
class MachineFunction:
    """A function with its instructions, one in a line. Addresses are offsets in its section."""

    name: str
    lines: list[str]


def functions_of(objects: Sequence[bytes]) -> Iterator[MachineFunction]:
    """Yields the functions of object files by address. Files in other formats than ELF, and those for processors that
    are not in `MODES`, have none."""
    for content in objects:
        try:
            yield from _functions(ELFFile(BytesIO(content)))
        except ELFError:
            continue


def _functions(elf: ELFFile) -> Iterator[MachineFunction]:
    mode = MODES.get(elf.get_machine_arch())
    table = elf.get_section_by_name(".symtab")
    if mode is None or not isinstance(table, SymbolTableSection):
        return
    disassembler = capstone.Cs(*mode)
    symbols = list(table.iter_symbols())
    references = _references(elf, symbols)
    sections: dict[int, tuple[int, bytes]] = {}
    defined = [s for s in symbols if s["st_info"]["type"] == "STT_FUNC" and s["st_size"]]
    for symbol in sorted(defined, key=lambda s: (s["st_shndx"], s["st_value"])):
        number, address = symbol["st_shndx"], symbol["st_value"]
        if number not in sections:
            section = elf.get_section(number)
            sections[number] = section["sh_addr"], section.data()
        first, data = sections[number]
        code = data[address - first : address - first + symbol["st_size"]]
        lines = []
        for start, size, mnemonic, operands in disassembler.disasm_lite(code, address):
            line = f"{start:6x}  {mnemonic:<{MNEMONIC_WIDTH}} {operands}"
            names = [references[number, byte] for byte in range(start, start + size) if (number, byte) in references]
            lines.append(f"{line}  ; {', '.join(names)}" if names else line.rstrip())
        yield MachineFunction(symbol.name, lines)


def _references(elf: ELFFile, symbols: Sequence[Symbol]) -> dict[tuple[int, int], str]:
    """The names of what the linker resolves, by the number of a section and the offset where the address is stored."""
    names: dict[tuple[int, int], str] = {}
    for section in elf.iter_sections():
        if isinstance(section, RelocationSection) and elf["e_type"] == "ET_REL":
            for relocation in section.iter_relocations():
                symbol = symbols[relocation["r_info_sym"]]
                name = symbol.name or elf.get_section(symbol["st_shndx"]).name
                names[section["sh_info"], relocation["r_offset"]] = name
    return names
