// The text of a cell as a plain field that looks like the cell.
import { make, unique } from "../widgets/dom.js";

const KEYS = "Tab indents; Escape, then Tab, leaves the cell. Shift and Enter run it.";

/** A field with a text: `onchange(text)` at each change, `onrun` at Shift+Enter and Ctrl+Enter, `onleave` at its end. */
export function editor(label, text, { onchange, onrun, onleave }) {
  const id = unique("run-keys");
  let leaves = false; // after Escape, Tab goes on to the next element
  const field = make("textarea", {
    "aria-label": label,
    "aria-describedby": id,
    spellcheck: "false",
    autocapitalize: "off",
    autocomplete: "off",
    wrap: "off",
    oninput: () => (fit(), onchange(field.value)),
    onfocus: () => (leaves = false),
    onblur: onleave,
    onkeydown: (event) => press(event),
  });
  const fit = () => (field.rows = field.value.split("\n").length);

  function press(event) {
    const { key, shiftKey, ctrlKey, metaKey } = event;
    if (key === "Enter" && (shiftKey || ctrlKey || metaKey)) onrun();
    else if (key === "Enter") insert(`\n${/^ */.exec(lineBefore())[0]}${/:\s*$/.test(lineBefore()) ? "    " : ""}`);
    else if (key === "Tab" && !leaves && !shiftKey) insert(" ".repeat(4 - (lineBefore().length % 4)));
    else {
      leaves = key === "Escape" || (leaves && key === "Shift");
      return;
    }
    event.preventDefault();
  }

  const lineBefore = () => field.value.slice(0, field.selectionStart).split("\n").at(-1);
  const insert = (typed) => document.execCommand("insertText", false, typed); // so that it can be undone

  field.value = text;
  fit();
  const box = make("div", { class: "run-editor" }, field, make("p", { id, class: "run-keys" }, KEYS));
  return Object.assign(box, { field, set: (other) => ((field.value = other), fit()) });
}
