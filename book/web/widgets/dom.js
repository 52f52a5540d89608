// Elements of the page. All text becomes text nodes, so nothing that a reader types is ever markup.
const SVG = "http://www.w3.org/2000/svg";

/** An HTML element: attributes, listeners as `onclick` and the like, children. */
export const make = (tag, attributes, ...children) => filled(document.createElement(tag), attributes, children);

/** An SVG element. */
export const draw = (tag, attributes, ...children) => filled(document.createElementNS(SVG, tag), attributes, children);

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (name.startsWith("aria-")) element.setAttribute(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.flat(2).filter((child) => child != null));
  return element;
}

let count = 0;

/** A name that no other element has. */
export const unique = (name) => `${name}-${++count}`;

/** One of several, as radio buttons in a row: options are [value, label]. */
export function choice(legend, options, value, onchange) {
  const name = unique("choice");
  const buttons = options.map(([option, label]) => {
    const input = make("input", { type: "radio", name, value: option, onchange: () => onchange(option) });
    input.checked = option === value;
    return make("label", {}, input, make("span", {}, label));
  });
  return make("fieldset", { class: "choice" }, make("legend", {}, legend), make("div", {}, buttons));
}

/** A box to tick. */
export function tick(label, checked, onchange) {
  const input = make("input", { type: "checkbox", onchange: () => onchange(input.checked) });
  input.checked = checked;
  return make("label", { class: "tick" }, input, make("span", {}, label));
}

/** A slider whose value stands beside it. `told` writes the value; `set(value)` moves it without a call. */
export function slider(label, { min, max, step = 1, value, told = String }, oninput) {
  const id = unique("slider");
  const output = make("output", { for: id }, told(value));
  const input = make("input", { id, type: "range", min, max, step, value, "aria-valuetext": told(value) });
  const tellValue = () => {
    output.textContent = told(input.valueAsNumber);
    input.setAttribute("aria-valuetext", output.textContent);
  };
  input.addEventListener("input", () => (tellValue(), oninput(input.valueAsNumber)));
  const box = make("div", { class: "slider" }, make("label", { for: id }, label), input, output);
  return Object.assign(box, { set: (value) => ((input.value = value), tellValue()) });
}

/** A drop-down list in a line of text: options are [value, label]. */
export function pick(label, options, value, onchange) {
  const chosen = (option) => String(option) === String(value);
  const select = make(
    "select",
    { "aria-label": label, onchange: () => onchange(select.value) },
    options.map(([option, text]) => make("option", { value: option, selected: chosen(option) }, text)),
  );
  return select;
}

export const button = (label, onclick, more) => make("button", { type: "button", onclick, ...more }, label);

/**
 * Where the focus goes when what had it in one of some places is drawn anew, disabled or gone: the function that comes
 * back hands it on, to what stands there now.
 */
export function holdFocus(...places) {
  const usable = (place) =>
    [...place.querySelectorAll("button, input, select, [tabindex='0']")].filter(
      (one) => !one.disabled && one.checkVisibility(),
    );
  const place = places.find((one) => one.contains(document.activeElement));
  const at = place ? usable(place).indexOf(document.activeElement) : -1;
  return () => {
    const now = place && usable(place);
    if (at >= 0 && !now.includes(document.activeElement)) (now[at] ?? now.at(-1))?.focus({ preventScroll: true });
  };
}

const ARROWS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

/** How many rows down and columns to the right an arrow key goes; nothing for other keys. */
export function arrow(event) {
  if (ARROWS[event.key]) event.preventDefault();
  return ARROWS[event.key];
}

/** What a screen reader says, and everybody can read, when something changed. */
export function teller() {
  const box = make("p", { class: "told", role: "status" });
  const tell = (text) => {
    if (box.textContent !== text) box.textContent = text;
  };
  return [box, tell];
}

/** A share in whole per cent; what is nearly nothing or nearly all is not rounded to it. */
export function percent(share) {
  if (share > 0 && share < 0.005) return "< 1%";
  return share < 1 && share > 0.995 ? "> 99%" : `${Math.round(100 * share)}%`;
}

/** A minus sign where there is one, and so many digits. */
export const fixed = (number, digits = 2) =>
  number === -Infinity
    ? "−∞"
    : number
        .toFixed(digits)
        .replace("-", "−")
        .replace(/^−(0\.?0*)$/, "$1");
