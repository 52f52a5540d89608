// A prepared change of a cell: what it asks before, and what it says after.
import { button, make } from "../widgets/dom.js";

/** A form for the guess; `run()` makes the change, shows what comes of it, and tells whether it came to its end. */
export function guess({ name, asks, options, right, why }, run) {
  const label = (option, place) =>
    make("label", {}, make("input", { type: "radio", name: "run-guess", value: place }), " ", option);
  const told = make("p", { role: "status", tabindex: -1 });
  const fields = make("fieldset", {}, make("legend", {}, asks), options.map(label));
  const start = button("Make the change", async () => {
    const chosen = fields.querySelector(":checked");
    if (!chosen) {
      told.textContent = "Guess first.";
      return;
    }
    fields.disabled = true;
    start.hidden = true;
    told.textContent = "";
    told.focus(); // which the button had
    if (!(await run())) {
      fields.disabled = start.hidden = false;
      told.textContent = "The change did not run to its end.";
      return;
    }
    const answer = Number(chosen.value) === right ? "You guessed it." : `You guessed: ${options[chosen.value]}`;
    told.textContent = `${answer} Look at the sentences above. ${why}`;
  });
  return make("form", { class: "run-guess", "aria-label": `Before you change it: ${name}` }, fields, start, told);
}
