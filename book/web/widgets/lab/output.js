// What comes out: before and after, the five likeliest tokens at each step, the chances of er, sie and es.
import { button, make, percent } from "../dom.js";
import { genderBars, likeliest } from "../genders.js";
import { bars, shown } from "../words.js";

/** The result in short, and step by step. `onbegin(tokens)` hears how the translation has to begin. */
export function outputPanel(translator, onbegin) {
  const { tokenizer } = translator;
  const [lines, genders, tokens, step] = [
    make("div", {}),
    make("div", {}),
    make("div", { class: "tokens", role: "group", "aria-label": "tokens of the translation" }),
    make("div", {}),
  ];
  const begin = make("input", { class: "line", spellcheck: "false", lang: "de" });
  begin.addEventListener("change", () => onbegin(begin.value.trim() ? tokenizer.toIds(begin.value) : []));
  const short = make("div", {}, lines, genders);
  const long = make(
    "div",
    {},
    tokens,
    step,
    make("p", {}, make("label", {}, "The translation has to begin with ", begin)),
  );
  let at = null;

  function showStep(result, i) {
    at = i;
    const { after, steps } = result;
    tokens.querySelectorAll("button").forEach((one, n) => one.setAttribute("aria-pressed", n === i));
    const rows = likeliest(steps[i]);
    const taken = after.tokens[i];
    if (!rows.some(({ token }) => token === taken)) rows.push({ token: taken, share: Math.exp(steps[i][taken]) });
    const prefix = after.tokens.slice(0, i);
    const list = bars(
      rows.map(({ token, share }) => ({ label: shown(tokenizer, token), share, strong: token === taken })),
      percent,
    );
    [...list.children].forEach((item, n) => {
      const { token } = rows[n];
      item.append(
        token === taken
          ? make("span", {}, "taken")
          : button("take this", () => onbegin([...prefix, token]), {
              "aria-label": `take this: ${shown(tokenizer, token)}`,
            }),
      );
    });
    list.classList.add("chosen");
    step.replaceChildren(
      make("p", {}, `Behind "${tokenizer.toText(prefix) || "the start symbol"}" the likeliest are`),
      list,
    );
  }

  function show(result, state, right) {
    const { before, after, touched } = result;
    const judged = (text) =>
      right === null
        ? null
        : make(
            "span",
            { class: text === right ? "right" : "wrong" },
            text === right ? " ✓ right" : " ✗ not the right one",
          );
    lines.replaceChildren(
      ...(touched ? [make("p", { class: "quiet" }, "before: ", before.text, judged(before.text))] : []),
      make("p", { class: "translation" }, touched ? "after: " : "", make("b", {}, after.text), judged(after.text)),
    );
    begin.value = state.begin.length ? tokenizer.toText(state.begin) : "";
    tokens.replaceChildren(
      ...after.tokens.map((id, i) =>
        button(shown(tokenizer, id), () => showStep(result, i), { class: i < state.begin.length ? "forced" : null }),
      ),
    );
    at ??= result.genders?.prefix.length ?? 0;
    showStep(result, Math.min(at, after.tokens.length - 1));
    genders.replaceChildren(
      ...(result.genders
        ? [
            make("p", { class: "quiet" }, `next behind "${tokenizer.toText(result.genders.prefix)}"`),
            genderBars(result.genders.after, touched ? result.genders.before : null),
          ]
        : []),
    );
  }
  return { short, long, show };
}
