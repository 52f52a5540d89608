/* What scrolls sideways can be reached from the keyboard, and only that. The ledger shows the rows that one asks for. A
   section that stands in another chapter now is found there. */
"use strict";

const scrollers = ".bd-article .highlight pre, .bd-article .output pre, .bd-article div.math, " +
  ".bd-article .pst-scrollable-table-container, .bd-article .output.text_html, .bd-article div.cell_output";

function markScrollers() {
  for (const box of document.querySelectorAll(scrollers)) {
    if (box.scrollWidth > box.clientWidth) {
      box.tabIndex = 0;
    } else {
      box.removeAttribute("tabindex");
    }
  }
}

/* A button for each way in which a claim came out. Without this script the ledger shows all rows. */
function addLedgerFilters() {
  const table = document.querySelector("table.ledger:has(tr[class*='found-'])"); // other tables are drawn alike
  if (!table) {
    return;
  }
  const rows = [...table.tBodies[0].rows];
  const wayOf = row => [...row.classList].find(name => name.startsWith("found-")).slice("found-".length);
  const ways = ["holds", "in-part", "undecided", "contradicted-here", "built", "told", "out-of-reach-here"];
  const bar = document.createElement("div");
  bar.className = "ledger-filters";
  bar.setAttribute("role", "group");
  bar.setAttribute("aria-label", "Claims to show");
  const show = chosen => {
    rows.forEach(row => { row.hidden = chosen !== "all" && wayOf(row) !== chosen; });
    [...bar.children].forEach(button => button.setAttribute("aria-pressed", button.value === chosen));
  };
  for (const way of ["all", ...ways]) {
    const count = way === "all" ? rows.length : rows.filter(row => wayOf(row) === way).length;
    if (count > 0) {
      const button = Object.assign(document.createElement("button"), { type: "button", value: way });
      button.textContent = `${way.replaceAll("-", " ")} ${count}`;
      button.addEventListener("click", () => show(way));
      bar.append(button);
    }
  }
  (table.closest(".pst-scrollable-table-container") ?? table).before(bar);
  show("all");
}

function followMoved() {
  const link = document.querySelector("a.moved:target");
  if (link) {
    location.replace(link.href);
  }
}

async function start() {
  addLedgerFilters();
  followMoved();
  await window.MathJax?.startup?.promise;
  markScrollers();
  document.documentElement.dataset.ready = "true";
}

let pending = 0;
window.addEventListener("resize", () => {
  clearTimeout(pending);
  pending = setTimeout(markScrollers, 150);
});
document.addEventListener("toggle", markScrollers, true);
window.addEventListener("load", start);
window.addEventListener("hashchange", followMoved);
