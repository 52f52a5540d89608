// One picture, alive: a sentence goes through the whole machine. State, and what changes it; the scene draws it.
import { holdFocus, percent } from "../widgets/dom.js";
import { GENDERS } from "../widgets/genders.js";
import { fromHash, START, toHash } from "./address.js";
import { pathTo, placeOf } from "./columns.js";
import { controls } from "./controls.js";
import { Engine } from "./engine.js";
import { gestures } from "./gestures.js";
import { isSame } from "./same.js";
import { asCut, lineId, linesAt, PLACES } from "./lines.js";
import { fill, panels } from "./panels.js";
import { Prices } from "./prices.js";
import { Scene, TIME } from "./scene.js";
import { STOPS } from "./stops.js";

const PAUSE = 120; // milliseconds without a touch
const NARROW = 560; // pixels: below, a picture for a phone

/** A state with all its parts: that of its stop, where it has one. */
const whole = (state) => ({
  ...START,
  ...state,
  ...(state?.stop == null ? {} : STOPS[state.stop].state),
  stop: state?.stop ?? null,
});

/** The picture in a place; `state` where it begins. Resolves when it can be touched. */
export async function picture(place, { state = null, progress = () => {} } = {}) {
  const engine = new Engine();
  const shown = await engine.ask("look", whole(state), progress);
  return new Picture(place, engine, shown);
}

class Picture {
  constructor(place, engine, { state, result, config, notes }) {
    Object.assign(this, { engine, state, result });
    Object.assign(this, { wanted: null, pointed: null, hovered: null, until: Infinity });
    this.scene = new Scene(config);
    this.doors = [...Array(config.num_decoder_layers ?? config.num_layers).keys()];
    Object.assign(this, panels(this.scene.svg));
    this.frame = this.parts.frame;
    this.prices = new Prices(engine, this.box);
    place.replaceChildren(this.box);
    document.documentElement.dataset.picture = "alive";
    gestures(this.scene.svg, this.doing, () => document.fullscreenElement === this.box);
    this.controls = controls(this);
    this.note(notes);
    new ResizeObserver(() => this.width !== this.frame.clientWidth && this.draw()).observe(this.frame);
    this.draw();
    this.fill();
    this.ask();
    window.addEventListener("hashchange", () => {
      const asked = this.box.isConnected && fromHash(location.hash);
      if (asked && toHash(asked) !== toHash(this.state)) this.update(whole(asked));
    });
  }

  /** What can be done, from the scene and from what stands around it. */
  get doing() {
    return {
      open: (id, isKey = false) => this.open(id, isKey),
      out: () => this.out(),
      touch: (touched, isKey = false) => this.touch(touched, isKey),
      point: (word) => this.point(word),
      hover: (id) => this.hover(id),
      cut: (id) => this.cutLine(id),
      change: (name, one) => this.change(name, one),
      update: (part) => this.update(part),
      end: () => this.touch(this.state.touched),
    };
  }

  /** What is touched now: what is pointed at, else what was chosen. */
  get touched() {
    const { side, at } = this.pointed ?? this.state.touched;
    const most = (side === "source" ? this.result.source : this.result.written).length - 1;
    return { side, at: Math.max(0, Math.min(most, at)) };
  }

  view() {
    const { result, state, touched, until, doors } = this;
    const cost = (line) => this.prices.of(line);
    const width = this.frame.clientWidth || 700;
    return { result, state, touched, open: state.open, until, cost, doors, width, isNarrow: width < NARROW };
  }

  /** Draw the scene in `time` ms, and after it what stands around, unless something is only pointed at. */
  draw(time = 0, isPointing = false) {
    const view = this.view();
    this.width = view.width;
    const isStill = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const hand = this.scene.holdFocus();
    this.scene.show(view, isStill ? 0 : time);
    hand();
    if (isPointing) return;
    clearTimeout(this.filling); // the next frames belong to the scene
    this.filling = setTimeout(() => this.fill(), isStill ? 0 : time + PAUSE);
  }

  fill() {
    const { story, done, words, path } = this.parts;
    const hand = holdFocus(story, done, words, path);
    this.controls.show(this.view());
    fill(this.parts, this.view(), this.doing);
    hand();
  }

  /** Make a change, or undo it. */
  change(name, one) {
    const made = (this.wanted ?? this.state)[name]; // also those that the model still looks at
    const others = made.filter((other) => !isSame(one, other));
    const isNew = others.length === made.length;
    this.update({ [name]: isNew ? [...others, one] : others });
  }

  cutLine(id) {
    const line = this.lines().find((one) => lineId(one) === id);
    if (line) this.change("cut", asCut(line));
  }

  /** Another state, which the model has to look at. */
  async update(part) {
    const asked = this.state;
    const { cut, off, give } = this.wanted ?? asked;
    const wanted = { ...asked, cut, off, give, stop: null, ...part };
    this.wanted = wanted;
    const before = this.result.text;
    let found;
    try {
      found = await this.engine.ask("look", wanted);
    } catch (error) {
      if (this.wanted === wanted) this.wanted = null;
      this.tell(`It cannot be computed: ${error.message}`);
      return;
    }
    if (this.wanted !== wanted) return; // meanwhile something else is wanted
    const { result, notes } = found;
    const { open, touched } = this.state;
    const settled = this.state === asked ? found.state : { ...found.state, open, touched, stop: null }; // touched meanwhile
    Object.assign(this, { state: settled, result, wanted: null, until: Infinity, pointed: null });
    this.note(notes);
    this.write();
    this.ask();
    this.draw(TIME);
    this.fill();
    if (settled.stop !== null) this.box.scrollIntoView({ block: "start" });
    const { genders } = result;
    const shares = genders ? ` ${GENDERS.map((word, n) => `${word} ${percent(genders.after[n])}`).join(", ")}.` : "";
    this.tell(`${result.text === before ? "It still writes" : "It writes now"}: ${result.text}${shares}`);
  }

  open(id, isKey) {
    const next =
      id === this.state.open || pathTo(this.scene.columns, this.state.open).some((one) => one.id === id)
        ? this.scene.around(id)
        : id;
    this.go(next, isKey);
  }

  out() {
    if (!this.state.open) return false;
    this.go(this.scene.around(this.state.open));
    return true;
  }

  go(open, isKey = false) {
    this.state = { ...this.state, open, stop: null };
    this.write();
    this.draw(TIME);
    this.ask();
    this.tell(
      open
        ? pathTo(this.scene.columns, open)
            .map(({ name }) => name)
            .join(", ")
        : "the whole machine",
    );
    if (isKey) this.scene.focusOn(`[data-open="${open ?? this.scene.columns[1].id}"]`);
  }

  touch(touched, isKey = false) {
    this.pointed = null;
    this.state = { ...this.state, touched, stop: null };
    this.state.touched = this.touched;
    this.write(PAUSE);
    this.draw();
    this.ask();
    const { side, at } = this.touched;
    if (isKey) this.scene.focusOn(`[data-side="${side}"][data-at="${at}"][tabindex="0"]`);
  }

  point(word) {
    if (isSame(word, this.pointed)) return;
    this.pointed = word;
    cancelAnimationFrame(this.pointing); // many words may be passed in one frame
    this.pointing = requestAnimationFrame(() => this.draw(0, true));
    this.ask();
  }

  hover(id) {
    if (id === this.hovered) return;
    this.hovered = id;
    this.scene.light(id);
  }

  /** All lines that are drawn or listed. */
  lines() {
    const listed = PLACES.flatMap((place) => linesAt(this.result, place, this.touched, placeOf(this.state.open).head));
    const all = new Map([...this.scene.lines(), ...listed].map((line) => [lineId(line), line]));
    return [...all.values()];
  }

  ask() {
    this.prices.ask(this.result, () => this.lines());
  }

  note(notes) {
    this.parts.notes.hidden = !notes.length;
    this.parts.notes.textContent = notes.join(" ");
  }

  /** The state into the address, in `wait` ms: who scrubs passes many. */
  write(wait = 0) {
    clearTimeout(this.writing);
    const now = () => history.replaceState(null, "", toHash(this.state));
    if (wait) this.writing = setTimeout(now, wait);
    else now();
  }
}
