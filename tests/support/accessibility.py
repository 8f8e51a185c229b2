"""Checks of pages by axe-core, whose script several packages contain: the first one that is installed."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("axe_playwright_python", "axe_core_python", "axe_selenium_python")

VIOLATIONS = """
const ruleResults = async (document, rules) => {
  const options = { resultTypes: ["violations"], ...(rules && { runOnly: rules }) };
  const { violations, passes } = await document.defaultView.axe.run(document, options);
  const named = ({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => node.target).join(", ")}`;
  return { violations: violations.map(named), passes: passes.length };
};
const violations = async (document, rules) => (await ruleResults(document, rules)).violations;
"""
"""JavaScript that defines `violations(document, rules)`, which names the violated rules with some of their elements,
and `ruleResults(document, rules)`, which also counts the rules that elements pass; without `rules`, all are checked."""

FEWER_LINES = """
for (const list of document.querySelectorAll(".lines")) {
  const active = list.getAttribute("aria-activedescendant");
  for (const line of [...list.children].slice(100)) if (line.id !== active && !line.matches(".marked")) line.remove();
}
"""
"""JavaScript that removes lines of the explorer's columns, which are alike: axe-core takes milliseconds for each."""


def axe_source() -> str | None:
    """The script of axe-core; None if no package has it. The packages are not imported, as they need others."""
    for name in PACKAGES:
        spec = find_spec(name)
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            for path in sorted(Path(folder).rglob("axe.min.js")):
                return path.read_text(encoding="utf-8")
    return None
