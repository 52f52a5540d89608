// What a cell's run prints, in the place of the stored output.
import { make } from "../widgets/dom.js";

const FORBIDDEN = "script, iframe, object, embed, link, meta, base, form, style, foreignObject, animate, set";

/** Whether a style could load something, or lie over the page. */
const acts = (name, value) => /^style$/i.test(name) && /image-set|\\|position/i.test(value);

/** HTML that a cell returned, without anything that acts or asks another host. */
function harmless(html) {
  const body = new DOMParser().parseFromString(html, "text/html").body;
  body.querySelectorAll(FORBIDDEN).forEach((one) => one.remove());
  for (const one of body.querySelectorAll("*")) {
    for (const { name, value } of [...one.attributes]) {
      const leads = /^(xlink:)?href$/i.test(name) && !/^(?!\/\/)[\w./-]*(#[\w-]*)?$/.test(value);
      const loads =
        /^(src|srcset|action|formaction|background|poster|ping)$/i.test(name) && !/^data:image\//.test(value);
      if (leads || loads || /^on/i.test(name) || /url\s*\(/i.test(value) || acts(name, value))
        one.removeAttribute(name);
    }
  }
  return [...body.childNodes];
}

/** An empty output: `text`, `html` and `error` add to it. */
export function output() {
  const mark = make("p", { class: "run-mark" }, "run here");
  const box = make("div", { class: "cell_output docutils container run-output" }, mark);
  let lines = null; // where text goes on

  function text(more) {
    if (!lines) {
      lines = make("pre", {});
      box.append(make("div", { class: "output stream highlight-none" }, make("div", { class: "highlight" }, lines)));
      lines.append("");
    }
    lines.lastChild.appendData(more);
  }

  function html(source) {
    lines = null;
    box.append(make("div", { class: "output text_html" }, harmless(source)));
  }

  function error(found) {
    lines = null;
    box.append(make("div", { class: "run-error", role: "alert" }, describeError(found)));
  }

  function close() {
    if (box.children.length === 1) mark.textContent = "run here: it prints nothing";
    for (const one of box.querySelectorAll("pre, .text_html")) if (one.scrollWidth > one.clientWidth) one.tabIndex = 0;
  }

  return Object.assign(box, { text, html, error, close, stale: () => (mark.textContent = STALE) });
}

const STALE = "run here, before a cell above was changed: run it again";

/** An error: type and message, then the lines of cells that led to it. */
export function describeError({ step, type, message, lines, hint }) {
  const said = `${type}${message ? `: ${message}` : ""}`;
  const rows = lines.map(({ cell, number, text }) =>
    make("li", {}, make("a", { href: `#cell-${cell}` }, `cell ${cell}, line ${number}`), ": ", make("code", {}, text)),
  );
  return [
    make("p", {}, make("strong", {}, step ? `${step}: ${said}` : said)),
    rows.length ? make("ul", {}, rows) : null,
    hint ? make("p", {}, hint) : null,
  ];
}
