// Chapter 31: which position of the decoder can see its own answer, with the mask and the shift on or off.
import { make, teller, tick } from "./dom.js";

const ANSWERS = ["Das", "Tier", "war", "müde", ".", "end"];

/** For each position (row) and each input (column): may it look, and is that the word that it has to predict? */
export function visibility(length, mask, shift) {
  return Array.from({ length }, (_, query) =>
    Array.from({ length }, (_, key) => {
      const seen = !mask || key <= query;
      const word = shift ? key - 1 : key; // which answer stands in this input, -1 for the start symbol
      return { seen, leak: seen && word === query };
    }),
  );
}

export function mount(place) {
  let [mask, shift] = [true, true];
  const [told, tell] = teller();
  const table = make("table", { class: "leak" });

  function show() {
    const inputs = shift ? ["start", ...ANSWERS.slice(0, -1)] : ANSWERS;
    const cells = visibility(ANSWERS.length, mask, shift);
    const head = make(
      "tr",
      {},
      make("td", {}),
      inputs.map((word) => make("th", { scope: "col" }, word)),
      make("th", { scope: "col" }, "predicts"),
    );
    table.replaceChildren(
      make("caption", {}, "Rows are positions, columns what the decoder is fed."),
      make("thead", {}, head),
      make(
        "tbody",
        {},
        cells.map((row, i) =>
          make(
            "tr",
            {},
            make("th", { scope: "row" }, i + 1),
            row.map(({ seen, leak }) =>
              make(
                "td",
                { class: leak ? "leak" : seen ? "seen" : "hidden" },
                leak ? "answer!" : seen ? "sees" : make("span", { class: "sr" }, "hidden"),
              ),
            ),
            make("td", { class: "answer" }, ANSWERS[i]),
          ),
        ),
      ),
    );
    const leaks = cells.filter((row) => row.some(({ leak }) => leak)).length;
    const what = `Mask ${mask ? "on" : "off"}, shift ${shift ? "on" : "off"}: `;
    if (!leaks) tell(`${what}no position sees its answer. It has to be predicted.`);
    else
      tell(
        `${what}${leaks} of ${ANSWERS.length} positions see the word they are to predict. Training would teach the model to copy it, the loss would fall to nothing, and at translation, where no answer is fed, nothing would come out.`,
      );
  }
  place.append(
    make(
      "div",
      { class: "beside" },
      tick("mask: no looking to the right", mask, (value) => ((mask = value), show())),
      tick("shift: feed the start symbol, and each word one place later", shift, (value) => ((shift = value), show())),
    ),
    make("div", { class: "scrolls", tabindex: 0, role: "group", "aria-label": "what each position sees" }, table),
    told,
  );
  show();
}
