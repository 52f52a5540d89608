// The model in the page: loaded when a reader asks for it, once for all parts of a page.
import { InputError } from "../model/files.js";
import { Translator } from "../model/translation.js";
import { button, holdFocus, make } from "./dom.js";

const FOLDER = new URL("../models/embedded/", import.meta.url);
const CASE = new URL("../models/case/", import.meta.url);
let shared = null;
const others = new Map(); // of the case, by number
const listeners = new Set();

/** The shipped model; `progress` hears the share that has come. */
export function shipped(progress = () => {}) {
  listeners.add(progress);
  shared ??= load().catch((error) => {
    shared = null; // so that one can try again
    throw error;
  });
  return shared.finally(() => listeners.delete(progress));
}

async function load() {
  const translator = await Translator.load(FOLDER, (share) => listeners.forEach((listener) => listener(share)));
  const response = await fetch(new URL("means.json", FOLDER));
  translator.means = response.ok ? await response.json() : null;
  return translator;
}

/** One of the models of the case, by its number: the first is the shipped one, the others come when asked for. */
export function modelOfCase(number, first) {
  if (number === "1") return Promise.resolve(first);
  if (!others.has(number)) {
    const coming = first.withWeights(new URL(`base-${number}.safetensors`, CASE));
    others.set(number, coming);
    coming.catch(() => others.delete(number)); // so that one can try again
  }
  return others.get(number);
}

/** Something from the site as JSON. */
export async function json(name) {
  const response = await fetch(new URL(`../${name}`, import.meta.url));
  if (!response.ok) throw new InputError(`${name}: not found`);
  return response.json();
}

/**
 * A button that loads the model, with its progress; then `run(translator)` fills the place. It begins all that its
 * picture shows, and looks like that, unless `isMain` is false.
 */
export function whenAsked(place, label, run, isMain = true) {
  const bar = make("progress", { max: 1, value: 0, "aria-label": "loading the model", hidden: true });
  const problem = make("p", { class: "problem", role: "alert", hidden: true });
  const start = button(
    `${label} (loads 2.7 MB)`,
    async () => {
      const hand = holdFocus(place);
      start.disabled = true;
      bar.hidden = false;
      problem.hidden = true;
      try {
        const translator = await shipped((share) => (bar.value = share));
        place.replaceChildren();
        await run(translator);
        place.closest("figure")?.classList.add("live");
      } catch (error) {
        start.disabled = false;
        bar.hidden = true;
        problem.hidden = false;
        problem.textContent =
          error instanceof InputError ? error.message : `The model could not be loaded: ${error.message}`;
        place.replaceChildren(start, bar, problem);
      }
      hand();
    },
    { class: isMain ? "start" : null },
  );
  place.append(start, bar, problem);
  if (!isMain) return;
  // the picture shows buttons that are none: whoever clicks it means to begin
  const pictures = place.closest("figure")?.querySelectorAll(":scope > picture") ?? [];
  pictures.forEach((picture) => picture.addEventListener("click", () => start.click()));
}
