// Pictures of something that happens in time: one frame at a time, with buttons. Without this script all are shown.
import { holdFocus, make } from "./widgets/dom.js";

for (const cell of document.querySelectorAll(".bd-article .tag_stepper")) {
  const frames = [...cell.querySelectorAll(".chart")];
  let at = 0;
  const show = (step) => {
    at = step;
    frames.forEach((frame, place) => frame.classList.toggle("passed", place !== at));
    const hand = holdFocus(buttons);
    back.disabled = at === 0;
    next.disabled = at === frames.length - 1;
    hand();
    count.textContent = `${at + 1} of ${frames.length}`;
    told.textContent = frames[at].querySelector("svg").getAttribute("aria-label");
  };
  const back = make("button", { type: "button", onclick: () => show(at - 1) }, "Back");
  const next = make("button", { type: "button", onclick: () => show(at + 1) }, "Next");
  const count = make("span", {});
  const told = make("span", { class: "sr", "aria-live": "polite" });
  const bar = { class: "stepper", role: "group", "aria-label": "Frames of the picture" };
  const buttons = make("div", bar, back, next, count, told);
  frames.at(-1).after(buttons);
  show(0);
}
