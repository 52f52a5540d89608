// The picture in which a sentence goes through the whole machine (book/web/picture): its still, perhaps after a guess, and
// then, when somebody touches it, the living one.
import { fromHash } from "../picture/address.js";
import { button, choice, holdFocus, make, teller } from "./dom.js";

export const waits = true;
const SAID = "The animal did not cross the street because it was too ";
const OTHER = { wide: "tired", tired: "wide" };
const MEANINGS = { es: "es, for the animal (das Tier)", sie: "sie, for the street (die Straße)" };

/** `picture` waits to be touched; of `picture-guess` the pronouns are guessed first. */
export function mount(place) {
  const figure = place.closest("figure");
  const stills = figure.querySelector(".see-stills");
  const begin = starter(place, figure);
  let adjective = "wide";
  const guesses = {};

  stills.addEventListener("click", (event) => {
    const word = event.target.closest("[data-side]");
    begin({ ...said(adjective), ...(word && { touched: { side: word.dataset.side, at: Number(word.dataset.at) } }) });
  });
  const switched = choice(
    "The sentence",
    Object.keys(OTHER).map((word) => [word, make("span", {}, SAID, make("b", {}, word), ".")]),
    adjective,
    (word) => ((adjective = word), show()),
  );
  switched.querySelector("legend").className = "sr";
  const question = make("div", {});
  const [told, tell] = teller();
  const start = button("Touch the picture (loads 2.7 MB)", () => begin(said(adjective)), { class: "start" });
  place.prepend(switched, question, told, start);
  show();

  function show() {
    stills.dataset.shown = adjective;
    const { pronoun, text } = stills.querySelector(`[data-adjective=${adjective}]`).dataset;
    if (!figure.id.endsWith("guess")) return;
    const guess = guesses[adjective];
    stills.classList.toggle("asked", guess === undefined);
    const asked = "German has different words for “it”. Which one will the machine write?";
    const chosen = (word) => ((guesses[adjective] = word), show());
    question.replaceChildren(choice(asked, Object.entries(MEANINGS), guess ?? null, chosen));
    tell(guess ? `${guess === pronoun ? "Right" : "Not this time"}: ${text}` : "");
  }
}

const said = (adjective) => ({ say: `${SAID}${adjective}.`, twin: `${SAID}${OTHER[adjective]}.` });

/** What loads the model and puts the living picture in the place, in a state. */
function starter(place, figure) {
  const bar = make("progress", { max: 1, value: 0, "aria-label": "loading the model", hidden: true });
  const problem = make("p", { class: "problem", role: "alert", hidden: true });
  place.append(bar, problem);
  let isBusy = false;

  async function begin(state) {
    if (isBusy) return;
    const hand = holdFocus(figure);
    isBusy = true;
    bar.hidden = false;
    problem.hidden = true;
    try {
      const { picture } = await import("../picture/picture.js");
      await picture(place, { state, progress: (share) => (bar.value = share) });
      figure.classList.add("live");
    } catch (error) {
      bar.hidden = true;
      isBusy = false;
      problem.hidden = false;
      problem.textContent = `The model could not be loaded: ${error.message}`;
    }
    hand();
  }
  const arrive = () => {
    const state = fromHash(location.hash);
    if (!state || figure.classList.contains("live")) return;
    figure.scrollIntoView();
    begin(state);
  };
  window.addEventListener("hashchange", arrive);
  arrive();
  return begin;
}
