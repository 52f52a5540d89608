// Long tables: a line to filter their rows, and headings that sort them. Without this script they show all rows.
import { make } from "./widgets/dom.js";

const LONG = 15;
const order = new Intl.Collator("en", { numeric: true });

/** What a cell says, as a reader sees it; formulas are left out, since their letters are drawn. */
const told = (cell) => cell.textContent.replaceAll("−", "-").trim();
const number = (text) => Number.parseFloat(text.replaceAll(",", ""));

/** Two cells: empty ones last, numbers by their size, all else by its letters. */
function compare(one, other) {
  if (!one || !other) return Number(!one) - Number(!other);
  const [a, b] = [number(one), number(other)];
  return Number.isNaN(a) || Number.isNaN(b) ? order.compare(one, other) : a - b;
}

/** A heading becomes a button: the rows in the order of its column, then in the opposite one. */
function sortable(table, heading, column) {
  const sort = () => {
    const direction = heading.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
    const sign = direction === "ascending" ? 1 : -1;
    const rows = [...table.tBodies[0].rows].map((row) => [told(row.cells[column] ?? row), row]);
    rows.sort(([one], [other]) => (one && other ? sign * compare(one, other) : compare(one, other)));
    table.tBodies[0].append(...rows.map(([, row]) => row));
    for (const each of heading.parentElement.cells) each.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", direction);
  };
  const inside = heading.querySelector("p") ?? heading;
  inside.replaceChildren(make("button", { type: "button", class: "sorts", onclick: sort }, ...inside.childNodes));
}

/** A line above the table, beside which it says how many rows are left. */
function filterable(table) {
  const rows = [...table.tBodies[0].rows].map((row) => [told(row).toLowerCase(), row]);
  const count = make("output", { "aria-live": "polite" });
  const show = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const [text, row] of rows) row.classList.toggle("left-out", !words.every((word) => text.includes(word)));
    const left = rows.filter(([, row]) => !row.matches(".left-out")).length;
    count.textContent = words.length ? `${left} of ${rows.length} rows` : `${rows.length} rows`;
  };
  const input = make("input", { type: "search", oninput: show });
  const line = make("div", { class: "table-filter" }, make("label", {}, "Only rows with ", input), count);
  (table.closest(".pst-scrollable-table-container") ?? table).before(line);
  show();
}

for (const table of document.querySelectorAll(".bd-article table")) {
  if (!table.tHead || !table.tBodies.length || table.tBodies[0].rows.length < LONG) continue;
  [...table.tHead.rows[0].cells].forEach((heading, column) => told(heading) && sortable(table, heading, column));
  filterable(table);
}
