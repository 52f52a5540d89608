// The buttons of cells that can run in the page. All else comes when one is pressed, or with an address that has edits.
const cells = [...document.querySelectorAll(".cell.runs")];
let notebook = null;

function open() {
  notebook ??= import("./notebook.js").then(({ Notebook }) => Notebook.open(cells));
  notebook.catch(() => (notebook = null)); // so that one can try again
  return notebook;
}

async function press(action, cell, ...more) {
  const told = cell.querySelector(".run-told");
  cell.toggleAttribute("data-busy", true);
  try {
    await (await open())[action](cell.id.replace(/^cell-/, ""), ...more);
  } catch (error) {
    told.textContent = `This cell cannot run now: ${error.message}`;
  }
  cell.toggleAttribute("data-busy", false);
}

function button(label, action, cell) {
  const made = Object.assign(document.createElement("button"), {
    type: "button",
    textContent: label,
    className: action,
  });
  made.setAttribute("aria-label", `${label}: cell ${cell.id.replace(/^cell-/, "")}`);
  made.addEventListener("click", () => press(action, cell));
  return made;
}

for (const cell of cells) {
  const bar = Object.assign(document.createElement("div"), { className: "run-bar" });
  const told = Object.assign(document.createElement("span"), { className: "run-told" });
  told.setAttribute("role", "status");
  bar.append(button("Run", "run", cell), button("Edit", "edit", cell), told);
  cell.querySelector(".cell_input").append(bar);
  for (const offer of cell.querySelectorAll("[data-change]")) {
    offer.addEventListener("click", () => press("offer", cell, Number(offer.dataset.change)));
  }
  cell.classList.add("ready");
}
const arrive = () => location.hash.startsWith("#run-") && open().then((opened) => opened.arrive(), console.warn);
window.addEventListener("hashchange", arrive);
arrive();
