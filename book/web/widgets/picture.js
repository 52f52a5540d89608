// The picture in which a sentence goes through the whole machine: book/web/picture.
import { fromHash } from "../picture/address.js";
import { button, holdFocus, make } from "./dom.js";

export const waits = true;

/** A button that loads the model, with its progress; then the picture. */
export function mount(place) {
  const bar = make("progress", { max: 1, value: 0, "aria-label": "loading the model", hidden: true });
  const problem = make("p", { class: "problem", role: "alert", hidden: true });
  const asked = fromHash(location.hash);
  const start = button(`${asked ? "Open this place of the picture" : "Touch the picture"} (loads 2.7 MB)`, open, {
    class: "start",
  });
  place.append(start, bar, problem);
  if (asked) place.closest("figure").scrollIntoView();

  async function open() {
    const hand = holdFocus(place);
    start.disabled = true;
    bar.hidden = false;
    problem.hidden = true;
    try {
      document.head.append(
        make("link", { rel: "stylesheet", href: new URL("../picture/picture.css", import.meta.url) }),
      );
      const { picture } = await import("../picture/picture.js");
      await picture(place, { state: fromHash(location.hash), progress: (share) => (bar.value = share) });
      place.closest("figure")?.classList.add("live");
    } catch (error) {
      start.disabled = false;
      bar.hidden = true;
      problem.hidden = false;
      problem.textContent = `The model could not be loaded: ${error.message}`;
    }
    hand();
  }
}
