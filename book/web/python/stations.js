// Chapter 84: the stations of `annotated learn`, written and judged in the page.
import { button, make } from "../widgets/dom.js";
import { editor } from "./editor.js";
import { describe } from "./fetching.js";
import { Ended, Python } from "./python.js";

const KEPT = "annotated-stations"; // the attempt, in the browser's store
const HEADER = /^(?=# ---- Station )/m;
const FILE = "my_transformer.py";
const NOT_HERE = ["loss", "step"]; // as in stations_here.py

const kept = () => {
  try {
    return JSON.parse(localStorage.getItem(KEPT)) ?? {};
  } catch {
    return {}; // no store, or not what was put there
  }
};

class Stations {
  constructor(place) {
    const nothing = { text: "", record: null, shown: 0, stations: [], hunts: {}, lines: [], isPending: false };
    Object.assign(this, { place, python: null, first: true }, nothing, kept());
    const label = this.text ? "Go on in the page" : "Begin in the page";
    this.start = button(label, () => this.begin(), { class: "start" });
    this.told = make("p", { class: "run-told", role: "status" });
    this.progress = make("progress", { max: 1, value: 0, "aria-label": "loading Python", hidden: true });
    place.append(make("div", { class: "run-bar" }, this.start, this.progress), this.told);
  }

  async begin() {
    this.start.disabled = true;
    document.head.append(make("link", { rel: "stylesheet", href: new URL("running.css", import.meta.url) }));
    try {
      const { parts } = await describe("84_build_it_yourself");
      this.whole = parts.reduce((sum, { bytes }) => sum + bytes, 0);
      this.python = new Python(parts);
      if (!this.text) await this.look();
      this.build();
      if (this.isPending)
        this.say("When your file was looked at last, this did not come to an end. Mend it, and save.");
      else if (this.first) await this.saved();
    } catch (error) {
      this.start.disabled = false;
      this.told.textContent = `The stations cannot begin here: ${error.message}`;
    }
  }

  /** What the command does at each save. */
  async look() {
    this.progress.hidden = false;
    await this.python.start((come) => {
      this.progress.value = come / this.whole;
      this.told.textContent =
        come < this.whole ? `${(this.whole / 1e6).toFixed(1)} MB are fetched, once.` : "Python begins.";
    });
    this.progress.hidden = true;
    this.told.textContent = "Your file is looked at.";
    this.keep({ isPending: true });
    const found = await this.python.ask("look", [this.text, this.record, this.first]);
    Object.assign(this, found, { first: false, isPending: false });
    this.told.textContent = "";
    this.keep();
  }

  keep(more = {}) {
    const { text, record, shown, stations, hunts } = this;
    try {
      localStorage.setItem(KEPT, JSON.stringify({ text, record, shown, stations, hunts, ...more }));
    } catch {
      this.told.textContent = "This browser keeps nothing: download your file before you leave.";
    }
  }

  /** The part of the file that belongs to a station. */
  section(number) {
    return (this.text.split(HEADER)[number + 1] ?? "").replace(/^.*\n/, "").trimEnd(); // without its header
  }

  write(number, text) {
    const parts = this.text.split(HEADER);
    const [header] = parts[number + 1].split("\n");
    parts[number + 1] = `${header}\n${text.replaceAll("# ---- Station ", "# Station ").trimEnd()}\n\n\n`;
    this.text = parts.join("");
    this.keep();
  }

  build() {
    this.tabs = make("div", { class: "station-tabs", role: "group", "aria-label": "Stations" });
    this.lead = make("p", { class: "run-note" }); // where the field stands in the file, for the lines of messages
    this.field = make("div", {});
    this.said = make("pre", {
      class: "station-said",
      role: "log",
      tabindex: 0,
      "aria-label": "what annotated learn says",
    });
    this.hunt = make("div", {});
    this.save = button("Save, and let it be looked at", () => this.saved(), { class: "start" });
    this.stop = button("Stop", () => this.python.end(), { hidden: true });
    const files = button(`Download ${FILE}`, () => this.download(FILE, this.text));
    const record = button("and its record: the command needs both", () =>
      this.download("my_transformer.json", JSON.stringify(this.record)),
    );
    const fresh = button("Begin all anew", () => this.anew());
    const bar = make("div", { class: "run-bar" }, this.save, this.stop, this.told, files, record, fresh);
    addEventListener("storage", ({ key }) => {
      if (key !== KEPT) return;
      this.lock(true);
      this.told.textContent = "The stations go on in another tab. Reload this one to see what was written there.";
    });
    const head = make("pre", { tabindex: 0 }, this.text.split(HEADER)[0].trimEnd());
    const above = make("details", {}, make("summary", {}, "What stands above all stations"), head);
    this.place.replaceChildren(this.tabs, this.said, above, this.lead, this.field, this.hunt, bar);
    this.show(Math.max(this.shown, this.here()));
    this.tell();
  }

  /** The number of the first station that is not done. */
  here() {
    const open = this.stations.findIndex(([, state]) => state !== "done" && state !== "passed over");
    return open < 0 ? this.stations.length - 1 : open;
  }

  show(number) {
    this.shown = number;
    const tabs = this.stations.map(([name, state], n) =>
      button(`${n} ${name}${state ? ` (${state})` : ""}`, () => this.show(n), { "aria-pressed": n === number }),
    );
    this.tabs.replaceChildren(...tabs);
    if (this.edit?.field.value.trimEnd() !== this.section(number) || !this.edit.isConnected) this.renew(number);
    const line =
      this.text
        .split(HEADER)
        .slice(0, number + 1)
        .join("")
        .split("\n").length + 1;
    this.lead.textContent = `The first line of this field is line ${line} of ${FILE}.`;
    const name = `hunt_${number}.py`;
    const hunt = this.hunts[name];
    const lines = hunt?.split("\n").map((line, n) => `${String(n + 1).padStart(3)}  ${line}`);
    const summary = make("summary", {}, `${name}, a stranger's file with one mistake`);
    this.hunt.replaceChildren(
      ...(hunt ? [make("details", {}, summary, make("pre", { tabindex: 0 }, lines.join("\n")))] : []),
    );
  }

  /** A field for the text of a station. */
  renew(number) {
    this.edit = editor(`station ${number} in ${FILE}`, this.section(number), {
      onchange: (text) => this.write(number, text),
      onrun: () => this.saved(),
      onleave: () => {},
    });
    this.edit.field.wrap = "soft"; // its comments are the task
    this.lock(false);
    this.field.replaceChildren(this.edit);
  }

  /** No typing while a file is looked at, nor in a station that the page does not have. */
  lock(isBusy) {
    this.save.disabled = isBusy;
    this.edit.field.readOnly = isBusy || NOT_HERE.includes(this.stations[this.shown]?.[0]);
  }

  async saved() {
    if (this.save.disabled) return;
    this.lock(true);
    this.stop.hidden = false;
    const before = this.here();
    try {
      await this.look();
      this.show(this.here() > before ? this.here() : this.shown);
      this.tell();
    } catch (error) {
      const isStopped = error instanceof Ended && error.message === "stopped";
      this.say(
        isStopped
          ? "Stopped. Nothing of your file is lost; look for a loop that does not end."
          : `Python ended: ${error.message}`,
      );
    }
    this.lock(false);
    this.stop.hidden = true;
  }

  tell() {
    this.say(this.lines.join("\n").trim());
  }

  say(text) {
    this.said.textContent = text;
    this.said.scrollTop = 0;
  }

  download(name, text) {
    const url = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
    make("a", { href: url, download: name }).click();
    URL.revokeObjectURL(url);
  }

  async anew() {
    if (!confirm("All that you wrote in the stations here is thrown away. Begin anew?")) return;
    Object.assign(this, { text: "", record: null, shown: 0, first: true });
    await this.saved();
    this.show(0);
  }
}

new Stations(document.querySelector("#stations-here"));
