// The scene: columns that move and stretch, rows that stay. Nothing is drawn that nobody sees.
import { draw } from "../widgets/dom.js";
import { columnsOf, layout, pathTo } from "./columns.js";
import { drawColumn } from "./column.js";
import { HEAD } from "./drawing.js";
import { linesAt, sourceOf } from "./lines.js";

export const TIME = 450; // milliseconds of a zoom
const LABEL = 54; // the least width of lines that have labels
const PAD = 5; // pixels between letters and the edge of their column
const eased = (t) => (t < 0.5 ? 4 * t ** 3 : 1 - (2 - 2 * t) ** 3 / 2);

export class Scene {
  /** `config` is the model's. */
  constructor(config) {
    this.columns = columnsOf(config);
    this.svg = draw("svg", { class: "scene", role: "group", "aria-label": "the machine" });
    this.bands = draw("g", { class: "bands" });
    this.parts = new Map(); // of columns that were drawn, by name
    this.svg.append(this.bands);
    Object.assign(this, { frame: 0, motion: null, places: null, now: null });
  }

  /** Draw a view: { result, touched, open, until, cost, width, isNarrow }. Columns go to new places in `time` ms. */
  show(view, time = 0) {
    const { result, width, isNarrow } = view;
    this.view = { ...view, pitch: isNarrow ? 25 : 28 };
    this.view.y = (row) => HEAD + this.view.pitch * (row + 0.5);
    const height = HEAD + this.view.pitch * Math.max(result.source.length, result.written.length) + 6;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.setAttribute("width", width);
    this.svg.setAttribute("height", height);
    const isElsewhere = this.places && this.open !== view.open;
    if (isElsewhere) this.motion = time ? { from: this.now, started: performance.now(), time } : null;
    this.open = view.open;
    this.places = layout(this.columns, view.open, width, isNarrow);
    this.view.isSliver = (id) => this.places.get(id).isSliver;
    this.fill();
    this.move();
  }

  /** Columns to their places, or on their way. */
  move() {
    cancelAnimationFrame(this.frame);
    const { from, started, time } = this.motion ?? {};
    const t = this.motion ? Math.min(1, (performance.now() - started) / time) : 1;
    if (this.motion && t === 1) {
      this.motion = null;
      this.fill(); // what has left is taken away
    }
    this.now = t < 1 ? this.between(from, eased(t)) : this.places;
    this.place(this.now);
    if (t < 1) this.frame = requestAnimationFrame(() => this.move());
  }

  /** Contents of all columns that are seen, or were before the motion. */
  fill() {
    for (const column of this.all()) {
      const [now, was] = [this.places.get(column.id), this.motion?.from.get(column.id)];
      const isDrawn = now.isSeen || was?.isSeen;
      const part = this.parts.get(column.id);
      if (!isDrawn) {
        part?.group.remove();
        this.parts.delete(column.id);
        continue;
      }
      const { isOpen, isSeen, isSliver, width } = now;
      const looks = [isOpen, isSeen, isSliver, Math.round(width), this.view.pitch].join();
      const isStill = isOpen || ["strip", "words"].includes(column.draws); // whatever is touched
      if (part && isStill && part.looks === looks && part.result === this.view.result) continue;
      const drawn = drawColumn(column, now, this.view, this.svg.viewBox.baseVal.height);
      if (part) part.group.replaceWith(drawn.group);
      else this.svg.append(drawn.group);
      this.parts.set(column.id, { ...drawn, looks, result: this.view.result });
    }
    this.mark();
    this.band();
  }

  /** The word that is touched, which keys can reach, and those that are not yet written. */
  mark() {
    const { side, at } = this.view.touched;
    for (const id of ["source", "read", "written"]) {
      for (const word of this.parts.get(id).words) {
        const isTouched = word.dataset.side === side && Number(word.dataset.at) === at;
        word.classList.toggle("touched", isTouched);
        word.classList.toggle("later", id !== "source" && Number(word.dataset.at) > this.view.until);
        word.setAttribute("tabindex", isTouched && id !== "read" ? 0 : -1);
      }
    }
  }

  /** All columns, parents before their children. */
  *all(columns = this.columns) {
    for (const column of columns) {
      yield column;
      yield* this.all(column.children ?? []);
    }
  }

  place(places) {
    for (const [id, { group, stretch, letters, places: count }] of this.parts) {
      const { x, width } = places.get(id);
      stretch.setAttribute("transform", `translate(${x} 0) scale(${Math.max(width, 0.01)} 1)`);
      for (const [share, one] of letters) {
        const inset = PAD * (1 - 2 * share); // letters keep away from the edge
        one.setAttribute("transform", `translate(${x + inset + share * width} 0)`);
      }
      group.classList.toggle("narrow", width < LABEL * count);
      group.classList.toggle("none", width < 1);
    }
  }

  between(before, t) {
    const mixed = new Map();
    for (const [id, { x, width }] of this.places) {
      const was = before.get(id) ?? { x, width };
      const mix = { x: was.x + t * (x - was.x), width: was.width + t * (width - was.width) };
      mixed.set(id, { ...mix, isSeen: was.isSeen });
    }
    return mixed;
  }

  /** The row of what is touched, across its side of the picture. */
  band() {
    const { touched, result, y, pitch, width } = this.view;
    const edge = this.places.get("read").x;
    const row = (side, at, name) => {
      const [x, end] = side === "source" ? [0, edge] : [edge, width];
      return draw("rect", { x, y: y(at) - pitch / 2, width: end - x, height: pitch - 2, class: name });
    };
    const bands = [row(touched.side, touched.at, "touched")];
    if (touched.side === "source") bands.push(row("written", result.watch, "watched"));
    else bands.push(row("source", sourceOf(result, touched), "watched"));
    this.bands.replaceChildren(...bands);
  }

  /** All lines that are drawn. */
  lines() {
    const { result, touched } = this.view;
    const isDrawn = ({ id, places, draws }) => {
      const { isSeen, isOpen, isSliver } = this.places.get(id);
      return isSeen && !isOpen && !isSliver && (places || draws === "cost");
    };
    return [...this.all()]
      .filter(isDrawn)
      .flatMap(({ places, at }) => (places ?? [at]).flatMap((place) => linesAt(result, place, touched, place.head)));
  }

  /** One line brought forward, all others back; none for null. */
  light(id) {
    this.svg.classList.toggle("lit", id !== null);
    this.svg.querySelectorAll(".lights").forEach((one) => one.classList.remove("lights"));
    if (id) this.svg.querySelectorAll(`[data-line="${id}"]`).forEach((one) => one.classList.add("lights"));
  }

  /** The focus, before everything is drawn anew, as a function that gives it back. */
  holdFocus() {
    const had = this.svg.contains(document.activeElement) ? document.activeElement.dataset : null;
    const name = had?.open
      ? `[data-open="${had.open}"]`
      : had?.side
        ? `[data-side="${had.side}"][data-at="${had.at}"]`
        : null;
    return () => name && this.focusOn(name);
  }

  focusOn(selector) {
    this.svg.querySelector(selector)?.focus({ preventScroll: true });
  }

  /** The name of the column around another one, or null. */
  around(id) {
    return pathTo(this.columns, id).at(-2)?.id ?? null;
  }
}
