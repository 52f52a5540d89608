// The cells of a page and their one Python: what ran, what has to run first, and what the address holds.
import { fromHash, toHash } from "./address.js";
import { describe } from "./fetching.js";
import { Ended, Python } from "./python.js";
import { View } from "./view.js";
import { make } from "../widgets/dom.js";

const SHOWN = new Set(["text", "html"]); // what a cell may send to its output
const STRANGE = "The address holds changes of cells that cannot be read; the cells are the book's.";

export class Notebook {
  /** The notebook of this page, for the elements of its open cells. */
  static async open(elements) {
    document.head.append(make("link", { rel: "stylesheet", href: new URL("running.css", import.meta.url) }));
    const page = location.pathname
      .split("/")
      .pop()
      .replace(/\.html$/, "");
    return new Notebook(page, await describe(page), elements);
  }

  constructor(page, { cells, sentences, changes, parts }, elements) {
    Object.assign(this, {
      page,
      cells,
      sentences,
      changes,
      ran: new Map(),
      stale: new Set(),
      line: Promise.resolve(),
      stops: 0,
    });
    this.whole = parts.reduce((sum, { bytes }) => sum + bytes, 0);
    this.python = new Python(parts);
    const views = elements.map((element) => {
      const about = cells.find(({ id }) => `cell-${id}` === element.id);
      return [about.id, new View(element, about, this)];
    });
    this.views = new Map(views);
    this.pending = 0;
  }

  edit(id) {
    this.views.get(id).edit();
  }

  /** One of the changes that are prepared for a cell: first the guess. */
  offer(id, place) {
    const change = this.changes.filter(({ cell }) => cell === id)[place];
    this.views.get(id).offer(change);
  }

  textOf(cell) {
    return this.views.get(cell.id)?.text ?? cell.source;
  }

  /** Run a cell after those that are running, with the cells above that it needs; resolves to whether all came to its end. */
  run(id) {
    const [view, stops] = [this.views.get(id), this.stops];
    view.isForeign = false; // what comes from the address after this press waits for another
    view.busy(true);
    this.line = this.line.then(async () => {
      let isDone = false;
      try {
        if (stops === this.stops) isDone = await this.runWithAbove(id, view);
        else view.tell("Stopped.");
      } catch (error) {
        if (!(error instanceof Ended)) this.end();
        const stopped = error instanceof Ended && error.message === "stopped";
        view.tell(
          stopped
            ? "Stopped. What ran before is lost, and runs again when it is needed."
            : `Python ended: ${error.message}`,
        );
        view.live?.close();
      }
      view.busy(false);
      return isDone;
    });
    return this.line;
  }

  async runWithAbove(id, view) {
    view.tell("");
    await this.python.start((come) => view.loading(come, this.whole));
    view.progress.hidden = true;
    const order = await this.python.ask("plan", [this.state().slice(0, this.placeOf(id) + 1)]);
    const foreign = order.find((one) => one !== id && this.views.get(one)?.isForeign);
    if (foreign) {
      view.tell(`The cell ${foreign} above holds text from the address: run it first, or reset it.`);
      return false;
    }
    if (view.isForeign) {
      view.tell("Meanwhile another text came with the address: look at it, and press Run again.");
      return false;
    }
    for (const [place, one] of order.entries()) {
      const isLast = one === id;
      view.tell(isLast ? "" : `First the cells above: ${one} (${place + 1} of ${order.length - 1}).`);
      const error = await this.execute(one);
      if (error && !isLast && this.views.get(one)?.isEdited) {
        view.tell(`The cell ${one} above, which was changed, does not run: its error stands there.`);
        return false;
      }
    }
    const { about, isEdited, live } = view;
    if (live.querySelector(".run-error")) return false;
    return about.module && isEdited ? this.payOff(view) : true;
  }

  /** Run one cell. Its error, where it has one, is shown in its place; of a folded cell nothing is shown. */
  async execute(id) {
    const cell = this.cells[this.placeOf(id)];
    const [view, source, before] = [this.views.get(id), this.textOf(cell), this.ran.get(id)];
    const live = view?.begin();
    const given = { id, source, open: cell.open };
    const error = await this.python.ask("run", [given], (kind, value) => SHOWN.has(kind) && live?.[kind](value));
    if (error) live?.error(error);
    live?.close();
    this.stale.delete(id);
    if (error && source !== cell.source) this.ran.delete(id);
    else this.ran.set(id, source);
    if (before !== undefined && before !== source) await this.markStale(id, before);
    return error;
  }

  /** Cells below that took something from a cell whose text was another one. */
  async markStale(id, before) {
    for (const one of await this.python.ask("dependents", [this.state().slice(this.placeOf(id)), before])) {
      this.stale.add(one);
      this.views.get(one)?.live?.stale();
    }
  }

  /** What the shipped weights say in the reader's classes. */
  async payOff(view) {
    const edited = this.cells.filter((cell) => cell.module && this.textOf(cell) !== cell.source);
    const foreign = edited.find(({ id }) => this.views.get(id)?.isForeign);
    if (foreign) {
      view.tell(
        `The model is not tried: the cell ${foreign.id} holds text from the address. Run it first, or reset it.`,
      );
      return false;
    }
    const panel = view.payoff(this.sentences);
    const edits = Object.fromEntries(edited.map((cell) => [`${this.page}#${cell.id}`, this.textOf(cell)]));
    const sources = this.sentences.map(([english]) => english);
    const error = await this.python.ask("translations", [edits, sources], (kind, value) =>
      panel.answer(...JSON.parse(value)),
    );
    panel.end();
    if (error) panel.fail(error);
    return !error;
  }

  placeOf(id) {
    return this.cells.findIndex((cell) => cell.id === id);
  }

  state() {
    const ran = (cell) => this.ran.get(cell.id) === this.textOf(cell) && !this.stale.has(cell.id);
    return this.cells.map((cell) => ({ id: cell.id, source: this.textOf(cell), open: cell.open, ran: ran(cell) }));
  }

  stop() {
    this.stops++;
    this.end();
  }

  end() {
    this.python.end();
    this.ran.clear();
    this.stale.clear();
  }

  /** A reader's change: it goes into the address, a little later. */
  changed() {
    clearTimeout(this.pending);
    this.pending = setTimeout(() => this.writeAddress(), 400);
  }

  /** Resolves to what the address holds now; null where the changes are too long. */
  async writeAddress() {
    clearTimeout(this.pending);
    const edited = [...this.views.values()].filter((view) => view.isEdited);
    const hash = await toHash(Object.fromEntries(edited.map((view) => [view.about.id, view.text])));
    if (hash === null) for (const view of edited) view.tell("These changes are too long for the page's address.");
    if (hash || location.hash.startsWith("#run-")) {
      history.replaceState(null, "", hash || location.pathname + location.search);
    }
    return hash;
  }

  /** Show the texts of the address; none of them runs before the reader presses Run. */
  async arrive() {
    const texts = await fromHash(location.hash, [...this.views.keys()]);
    document.querySelector(".run-strange")?.remove();
    if (!texts) {
      document
        .querySelector(".bd-article h1")
        .after(make("p", { class: "run-note run-strange", role: "status" }, STRANGE));
      return;
    }
    for (const [id, view] of this.views) {
      if (texts[id] !== undefined && texts[id] !== view.text) view.change(texts[id], true);
    }
    const first = [...this.views].find(([id]) => id in texts);
    first[1].element.scrollIntoView();
  }
}
