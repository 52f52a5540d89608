// Draws the picture without a browser: reads { folder, stills: [{ name, state, width, isNarrow }] }, writes { name: { svg, text, pronoun } }.
import { readFileSync } from "node:fs";
import { join } from "node:path";

import { costs, look } from "../web/picture/data.js";
import { START } from "../web/picture/address.js";
import { lineId } from "../web/picture/lines.js";
import { FILES, Translator } from "../web/model/translation.js";

const escaped = (text) => String(text).replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);

/** What the scene needs of an element, and its markup. */
class Element {
  constructor(tag) {
    Object.assign(this, { tag, attributes: new Map(), children: [], parent: null });
  }
  setAttribute(name, value) {
    this.attributes.set(name, value);
  }
  append(...children) {
    for (const child of children) if (child instanceof Element) child.parent = this;
    this.children.push(...children);
  }
  replaceWith(other) {
    other.parent = this.parent;
    this.parent.children[this.parent.children.indexOf(this)] = other;
  }
  replaceChildren(...children) {
    this.children = [];
    this.append(...children);
  }
  remove() {
    this.parent.children = this.parent.children.filter((child) => child !== this);
  }
  addEventListener() {}
  get viewBox() {
    const [, , width, height] = this.attributes.get("viewBox").split(" ").map(Number);
    return { baseVal: { width, height } };
  }
  get dataset() {
    return { side: this.attributes.get("data-side"), at: this.attributes.get("data-at") };
  }
  get classList() {
    const names = new Set((this.attributes.get("class") ?? "").split(" ").filter(Boolean));
    const toggle = (name, isOn) => {
      if (isOn) names.add(name);
      else names.delete(name);
      this.attributes.set("class", [...names].join(" "));
    };
    return { toggle };
  }
  get markup() {
    const kept = [...this.attributes].filter(([name]) => !/^(role|tabindex|aria-.*)$/.test(name)); // it cannot be used yet
    const attributes = kept.map(([name, value]) => ` ${name}="${escaped(value)}"`).join("");
    const inside = this.children.map((child) => child.markup ?? escaped(child)).join("");
    return `<${this.tag}${attributes}>${inside}</${this.tag}>`;
  }
}
globalThis.document = { createElementNS: (_, tag) => new Element(tag) };
globalThis.cancelAnimationFrame = () => {};
const { Scene } = await import("../web/picture/scene.js");

const { folder, stills } = JSON.parse(readFileSync(0, "utf8"));
const files = Object.fromEntries(FILES.map((name) => [name, new Uint8Array(readFileSync(join(folder, name)))]));
const translator = Translator.from(files);

function still({ state: given, width, isNarrow }) {
  const state = { ...START, ...given };
  const result = look(translator, state);
  const scene = new Scene(translator.model.config);
  const [price, known] = [costs(translator, state), new Map()];
  const view = { result, touched: state.touched, open: null, until: Infinity, width, isNarrow };
  scene.show({ ...view, cost: () => null });
  for (const line of scene.lines()) known.set(lineId(line), price(line));
  scene.show({ ...view, cost: (line) => known.get(lineId(line)) });
  return { svg: scene.svg.markup, text: result.text, pronoun: result.written[result.watch] };
}
process.stdout.write(JSON.stringify(Object.fromEntries(stills.map((one) => [one.name, still(one)]))));
