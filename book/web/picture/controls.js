// Around the scene: which sentence, how deep, and the written words, step by step.
import { button, choice, make } from "../widgets/dom.js";
import { json } from "../widgets/engine.js";
import { MODELS } from "../widgets/lab/address.js";
import { marked } from "../widgets/lab/sentence.js";
import { LONGEST } from "./address.js";
import { pathTo } from "./columns.js";
import { STOPS } from "./stops.js";

const PAIRS = [
  ["The animal did not cross the street because it was too", "tired", "wide"],
  ["The radio wakes the dog because it is very", "loud", "alert"],
];
const PACE = 1200; // milliseconds a word, when it plays

/** Fill the places above and below the scene; `show(view)` brings them up to date. */
export function controls(picture) {
  const { top, path, scrub } = picture.parts;
  const sentences = PAIRS.flatMap(([said, ...words]) =>
    words.map((word, n) => ({ say: `${said} ${word}.`, twin: `${said} ${words[1 - n]}.`, word, said })),
  );
  const field = make("input", { class: "own", "aria-label": "an English sentence", maxlength: LONGEST });
  const own = make(
    "details",
    {},
    make("summary", {}, "Another sentence, another machine"),
    make(
      "form",
      { onsubmit: (event) => (event.preventDefault(), say(field.value)) },
      field,
      " ",
      button("Show it", () => say(field.value)),
    ),
    choice(
      "or a pair of twins",
      sentences.slice(2).map(({ say: text, word }) => [text, word]),
      null,
      (text) => say(text),
    ),
    choice("or another machine, trained alike", MODELS, picture.state.model, (model) => picture.update({ model })),
  );
  const strange = make("div", {});
  const twins = make("div", {});
  const full = button("Full screen", () =>
    document.fullscreenElement ? document.exitFullscreen() : picture.box.requestFullscreen?.(),
  );
  const begin = button("The case in eight stops ▶", () => picture.update({ ...STOPS[0].state, stop: 0 }), {
    class: "start",
  });
  top.append(twins, begin, own, full, strange);
  full.hidden = !document.fullscreenEnabled;

  function say(text) {
    if (!text.trim()) return;
    const known = sentences.find(({ say: one }) => one === text);
    const isTwin = text === picture.state.twin;
    const twin = isTwin ? picture.state.say : (known?.twin ?? text);
    picture.update({ say: text, twin, cut: [], off: [], give: [] });
    json("sentences.json").then(({ known: words }) =>
      strange.replaceChildren(known ? "" : (marked(text, new Set(words)) ?? "")),
    );
  }

  let playing = 0;
  const range = make("input", {
    type: "range",
    min: 0,
    value: 0,
    "aria-label": "written words",
    oninput: () => go(range.valueAsNumber),
  });
  const [back, next] = [
    button("◀", () => go(now() - 1), { "aria-label": "a word back" }),
    button("▶", () => go(now() + 1), { "aria-label": "a word on" }),
  ];
  const play = button("Play", () => (playing ? stop() : start()));
  scrub.append(make("span", { class: "quiet" }, "the German, word by word"), back, next, play, range);

  const most = () => picture.result.written.length - 1;
  const now = () =>
    picture.touched.side === "written" ? picture.touched.at : picture.until === Infinity ? most() : picture.until;

  function go(at) {
    const place = Math.max(0, Math.min(most(), at));
    picture.until = place;
    picture.touch({ side: "written", at: place });
  }

  function start() {
    if (now() >= most()) go(0);
    play.textContent = "Pause";
    playing = setInterval(() => (now() < most() && picture.box.isConnected ? go(now() + 1) : stop()), PACE);
  }

  function stop() {
    clearInterval(playing);
    playing = 0;
    play.textContent = "Play";
  }

  function show({ state, result, open }) {
    begin.hidden = state.stop !== null;
    const pair = sentences.find(({ say: one }) => one === state.say);
    const both = pair ? sentences.filter(({ said }) => said === pair.said) : null;
    const label = ({ said, word }) => make("span", {}, `${said} `, make("b", {}, word), ".");
    twins.replaceChildren(
      both
        ? choice(
            "The sentence",
            both.map((one) => [one.say, label(one)]),
            state.say,
            say,
          )
        : make("p", {}, state.say),
    );
    twins.querySelector("legend")?.classList.add("sr");
    const steps = [{ id: null, name: "the machine" }, ...pathTo(picture.scene.columns, open)];
    path.replaceChildren(
      ...steps.flatMap(({ id, name }, n) => [
        n ? " › " : "",
        n < steps.length - 1
          ? button(name === "weights" ? "the row" : name, () => picture.go(id))
          : make("b", { "aria-current": "step" }, name === "weights" ? "a row" : name),
      ]),
    );
    range.max = most();
    range.value = now();
    range.setAttribute("aria-valuetext", result.written[now()]);
    back.disabled = now() === 0;
    next.disabled = now() >= most();
  }
  return { show };
}
