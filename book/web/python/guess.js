// A prepared change of a cell: what it asks before, and what it says after.
import { button, make } from "../widgets/dom.js";

/** A form for the guess; `run()` makes the change and shows what comes of it. */
export function guess({ name, asks, options, right, why }, run) {
  const label = (option, place) =>
    make("label", {}, make("input", { type: "radio", name: "run-guess", value: place }), " ", option);
  const told = make("p", { role: "status" });
  const fields = make("fieldset", {}, make("legend", {}, asks), options.map(label));
  const start = button("Make the change", async () => {
    const chosen = fields.querySelector(":checked");
    if (!chosen) {
      told.textContent = "Guess first.";
      return;
    }
    fields.disabled = true;
    start.remove();
    told.textContent = "";
    await run();
    const answer = Number(chosen.value) === right ? "You guessed it." : `You guessed: ${options[chosen.value]}`;
    told.textContent = `${answer} Look at the sentences above. ${why}`;
  });
  return make("form", { class: "run-guess", "aria-label": `Before you change it: ${name}` }, fields, start, told);
}
