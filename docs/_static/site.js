"use strict";

/* Names for the sidebars and the tools, and headings for pages without one, which screen readers list. */
document.addEventListener("DOMContentLoaded", () => {
  document.querySelector(".sidebar-drawer")?.setAttribute("aria-label", "site");
  document.querySelector(".toc-drawer")?.setAttribute("aria-label", "page");
  const tools = document.querySelector(".content-icon-container");
  tools?.setAttribute("role", "navigation");
  tools?.setAttribute("aria-label", "tools");
  for (const table of document.querySelectorAll(".table-wrapper")) table.tabIndex = 0; // it scrolls by the keyboard
  const article = document.querySelector("article");
  if (article && !document.querySelector("h1"))
    article.prepend(Object.assign(document.createElement("h1"), { textContent: document.title.split(" - ")[0] }));
});
