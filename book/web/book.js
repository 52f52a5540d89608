/* What scrolls sideways can be reached from the keyboard, and only that. The ledger shows the rows that one asks for. A
   section that stands in another chapter now is found there. Parts that can be touched are loaded when they come near.
   On paper nothing is folded. */
"use strict";

const here = document.currentScript.src;

const scrollers =
  ".bd-article .highlight pre, .bd-article .output pre, .bd-article div.math, " +
  ".bd-article .pst-scrollable-table-container, .bd-article .output.text_html, .bd-article div.cell_output, " +
  ".bd-article .chart";

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
  const wayOf = (row) => [...row.classList].find((name) => name.startsWith("found-")).slice("found-".length);
  const ways = ["holds", "in-part", "undecided", "contradicted-here", "built", "told", "out-of-reach-here"];
  const bar = document.createElement("div");
  bar.className = "ledger-filters";
  bar.setAttribute("role", "group");
  bar.setAttribute("aria-label", "Claims to show");
  const show = (chosen) => {
    rows.forEach((row) => {
      row.hidden = chosen !== "all" && wayOf(row) !== chosen;
    });
    [...bar.children].forEach((button) => button.setAttribute("aria-pressed", button.value === chosen));
  };
  for (const way of ["all", ...ways]) {
    const count = way === "all" ? rows.length : rows.filter((row) => wayOf(row) === way).length;
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

function arrived(picture) {
  return picture.complete || new Promise((done) => Object.assign(picture, { onload: done, onerror: done }));
}

/* In the place of a picture what its module makes of it. The picture is left for print, and where no script may load. */
async function mountWidget(figure) {
  const [, name] = figure.id.split("-"); // widget-breaking-mask is made by breaking.js, too
  const place = document.createElement("div");
  place.className = "widget-live";
  figure.prepend(place);
  const shown = [...figure.querySelectorAll("picture img")].filter((picture) => picture.offsetHeight);
  await Promise.all(shown.map(arrived)); // first what is seen, then what can be touched
  try {
    const { mount, waits = false } = await import(new URL(`widgets/${name}.js`, here));
    if (!waits) {
      const heights = [...figure.querySelectorAll("picture img")].map((picture) => picture.offsetHeight);
      place.style.minHeight = `${Math.max(0, ...heights)}px`; // what is below stays where it is
    }
    figure.classList.toggle("live", !waits);
    await mount(place);
  } catch (error) {
    figure.classList.remove("live");
    place.textContent =
      location.protocol === "file:"
        ? "This picture can be touched where the pages come from a server: run python -m http.server in this folder, and open http://localhost:8000."
        : `This picture cannot be touched here: ${error.message}`;
  }
  figure.dataset.mounted = "true";
}

function mountWidgets() {
  const near = new IntersectionObserver(
    (entries) => {
      for (const { isIntersecting, target } of entries) {
        if (isIntersecting) {
          near.unobserve(target);
          mountWidget(target);
        }
      }
    },
    { rootMargin: "300px" },
  );
  document.querySelectorAll("figure.widget").forEach((figure) => near.observe(figure));
}

/* On paper nothing can be unfolded, and it is light: what is closed is printed open, in the light theme, and closed again. */
const unfolded = new Set();
let theme;

function prepare() {
  theme ??= document.documentElement.dataset.theme;
  document.documentElement.dataset.theme = "light";
  for (const box of document.querySelectorAll(".bd-article details:not([open])")) {
    box.open = true;
    unfolded.add(box);
  }
}

function putBack() {
  document.documentElement.dataset.theme = theme;
  theme = undefined;
  unfolded.forEach((box) => {
    box.open = false;
  });
  unfolded.clear();
}

/* What only some pages have. Where no module may load, all rows and all frames stay in sight. */
const PARTS = {
  tables: ".bd-article table tbody tr:nth-child(15)",
  steppers: ".bd-article .tag_stepper",
  "python/button": "html[data-runs] .cell.runs",
  "python/stations": "html[data-runs] #stations-here",
};

function loadParts() {
  const wanted = Object.keys(PARTS).filter((name) => document.querySelector(PARTS[name]));
  return Promise.allSettled(wanted.map((name) => import(new URL(`${name}.js`, here))));
}

/* The explanations that come up over links: their scripts wait until somebody points at a link, one for another. */
let tips;

function wantTips({ target }) {
  if (target.closest("a")) tips ??= loadTips();
}

async function loadTips() {
  for (const address of document.querySelector("meta[name=tips]")?.content.split(" ").filter(Boolean) ?? []) {
    await new Promise((done) => {
      document.head.append(
        Object.assign(document.createElement("script"), { src: address, onload: done, onerror: done }),
      );
    });
  }
  window.onload?.(); // where the page's own script has put what it does
  document.querySelectorAll(".bd-article a:hover").forEach((link) => link.dispatchEvent(new MouseEvent("mouseenter")));
  document.querySelectorAll(".bd-article a:focus").forEach((link) => link.dispatchEvent(new FocusEvent("focus")));
}

async function start() {
  addLedgerFilters();
  mountWidgets();
  followMoved();
  for (const kind of ["pointerover", "focusin"])
    document.querySelector(".bd-article")?.addEventListener(kind, wantTips);
  await loadParts();
  markScrollers();
  document.documentElement.dataset.ready = "true";
}

let pending = 0;
window.addEventListener("resize", () => {
  clearTimeout(pending);
  pending = setTimeout(markScrollers, 150);
});
document.addEventListener("toggle", markScrollers, true);
window.addEventListener("beforeprint", prepare);
window.addEventListener("afterprint", putBack);
window.addEventListener("load", start);
window.addEventListener("hashchange", followMoved);
