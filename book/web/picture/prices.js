// What lines cost: asked of the worker, kept, and written wherever a line stands.
import { matters, priced } from "./drawing.js";
import { lineId } from "./lines.js";

const WAIT = 80; // milliseconds before it is asked: what is pointed at may change at once
const SOON = ["cross", "decoder", "encoder"]; // in this order: without the encoder a price is found sooner

export class Prices {
  /** `box` is the place where lines stand. */
  constructor(engine, box) {
    Object.assign(this, { engine, box, result: null, found: new Map(), come: [], pending: 0 });
  }

  of(line) {
    return this.found.get(lineId(line)) ?? null;
  }

  /** Ask for all lines of a result that have no price yet; `lines()` says which there are when it is time. */
  ask(result, lines) {
    if (result !== this.result) Object.assign(this, { result, found: new Map() });
    clearTimeout(this.pending);
    this.pending = setTimeout(() => {
      const wanted = lines().filter((line) => !this.of(line));
      wanted.sort((a, b) => SOON.indexOf(a.kind) - SOON.indexOf(b.kind));
      if (wanted.length) this.engine.ask("costs", wanted, (answer) => result === this.result && this.take(...answer));
    }, WAIT);
  }

  /** A price has come; it is written with others, once a frame. */
  take(line, price) {
    this.found.set(lineId(line), price);
    if (!this.come.length) requestAnimationFrame(() => this.come.splice(0).forEach(([id, one]) => this.write(id, one)));
    this.come.push([lineId(line), price]);
  }

  write(id, price) {
    for (const one of this.box.querySelectorAll(`[data-price="${id}"]`)) {
      one.textContent = priced(price, this);
      one.closest(".label")?.classList.toggle("matters", matters(price, this));
      one.classList.toggle("turns", price.isOther);
    }
    for (const one of this.box.querySelectorAll(`path[data-line="${id}"]`))
      one.classList.toggle("turns", price.isOther);
  }
}
