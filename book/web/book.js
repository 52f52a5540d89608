/* What scrolls sideways can be reached from the keyboard, and only that. */
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

async function start() {
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
