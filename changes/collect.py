"""Move the fragments of changes into the change logs of their distributions; with `--check`, only judge their names."""

import datetime
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
PACKAGES = HERE.parent / "packages"
KINDS = ("added", "changed", "deprecated", "removed", "fixed")  # in the order of a release's sections
MARK = "<!-- releases -->\n"


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--check"]):
        print("usage: collect.py [--check]", file=sys.stderr)
        return 2
    fragments = sorted(path for path in HERE.glob("*/*") if path.suffix != ".pyc")
    complaints = [complaint for path in fragments if (complaint := judge(path))]
    if complaints:
        print("\n".join(complaints), file=sys.stderr)
        return 1
    if not arguments:
        for folder in sorted({path.parent for path in fragments}):
            release(folder.name, [path for path in fragments if path.parent == folder])
    return 0


def kind(path: Path) -> str:
    return path.name.split(".")[1]


def judge(path: Path) -> str | None:
    place = path.relative_to(HERE.parent)
    if not (PACKAGES / path.parent.name / "CHANGELOG.md").exists():
        return f"{place}: there is no distribution `{path.parent.name}`"
    match path.name.split("."):
        case [_, named, "md"] if named in KINDS:
            return None if path.read_text(encoding="utf-8").strip() else f"{place}: it says nothing"
    return f"{place}: the name is to be SLUG.KIND.md, KIND one of {', '.join(KINDS)}"


def release(distribution: str, fragments: list[Path]) -> None:
    """Write the fragments as the newest section of a change log, and remove them."""
    log = PACKAGES / distribution / "CHANGELOG.md"
    manifest = tomllib.loads((PACKAGES / distribution / "pyproject.toml").read_text(encoding="utf-8"))
    day = datetime.datetime.now(datetime.UTC).date().isoformat()
    lines = [f"## {manifest['project']['version']} ({day})", ""]
    for wanted in KINDS:
        texts = [path.read_text(encoding="utf-8").strip() for path in fragments if kind(path) == wanted]
        if texts:
            lines += [f"### {wanted.capitalize()}", "", *("- " + text.replace("\n", "\n  ") for text in texts), ""]
    head, mark, tail = log.read_text(encoding="utf-8").partition(MARK)
    if not mark:
        sys.exit(f"{log}: the line `{MARK.strip()}` is missing")
    log.write_text("\n".join([head + mark, *lines]) + tail, encoding="utf-8")
    for path in fragments:
        path.unlink()
    print(f"{log.relative_to(HERE.parent)}: {len(fragments)} changes")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
