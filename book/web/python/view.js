// One cell of the page that can run: its buttons, its editor, its output, and what is told about it.
import { button, make } from "../widgets/dom.js";
import { diff } from "./diff.js";
import { editor } from "./editor.js";
import { guess } from "./guess.js";
import { output } from "./output.js";
import { payoff } from "./payoff.js";

const FOREIGN = "This text came with the address and is not the book's. It runs only when you press its Run.";

export class View {
  /** `about` is what the page's description says of the cell; `notebook` is asked to run it and told of changes. */
  constructor(element, about, notebook) {
    Object.assign(this, { element, about, notebook, text: about.source, editor: null, live: null, panel: null });
    this.input = element.querySelector(".cell_input");
    this.code = this.input.querySelector("[class*='highlight-']");
    this.stored = element.querySelector(":scope > .cell_output");
    this.bar = element.querySelector(".run-bar");
    [this.runButton, this.editButton] = this.bar.querySelectorAll("button");
    this.told = this.bar.querySelector(".run-told");
    this.progress = make("progress", { max: 1, value: 0, "aria-label": "loading Python", hidden: true });
    const named = (label, action) =>
      button(label, action, { hidden: true, "aria-label": `${label}: cell ${about.id}` });
    this.resetButton = named("Reset", () => this.reset());
    this.linkButton = named("Copy link", () => this.copyLink());
    this.stopButton = named("Stop", () => notebook.stop());
    this.told.before(this.stopButton, this.resetButton, this.linkButton, this.progress);
    this.changes = make(
      "details",
      { class: "run-changes", hidden: true },
      make("summary", {}, "What differs from the book"),
    );
    this.changes.addEventListener("toggle", () => this.showChanges());
    this.bar.before(this.changes);
    this.note = make("p", { class: "run-note", hidden: true }, FOREIGN);
    element.prepend(this.note);
  }

  get isEdited() {
    return this.text !== this.about.source;
  }

  tell(text) {
    if (this.told.textContent !== text) this.told.textContent = text;
  }

  /** Show the text as a field; without `isFocused` the reader stays where he is. */
  edit(isFocused = true) {
    if (!this.editor) {
      this.editor = editor(`code of cell ${this.about.id}`, this.text, {
        onchange: (text) => this.change(text),
        onrun: () => this.notebook.run(this.about.id),
        onleave: () => this.isEdited || this.closeEditor(),
      });
      this.code.before(this.editor);
      this.code.hidden = this.editButton.hidden = true;
    }
    if (isFocused) this.editor.field.focus();
  }

  closeEditor() {
    this.editor?.remove();
    this.editor = null;
    this.code.hidden = this.editButton.hidden = false;
  }

  /** Another text: from the reader, or, where `isForeign`, from the address. */
  change(text, isForeign = false) {
    this.text = text;
    if (isForeign || !this.isEdited) {
      this.isForeign = isForeign; // until it is run, or reset
      this.note.hidden = !isForeign;
    }
    for (const one of [this.resetButton, this.linkButton, this.changes]) one.hidden = !this.isEdited;
    this.showChanges();
    if (isForeign) {
      this.edit(false);
      this.editor.set(text);
      this.changes.open = true;
    } else this.notebook.changed();
  }

  /** The lines that differ, each with the lines beside it. */
  showChanges() {
    if (!this.changes.open || !this.isEdited) return;
    const words = { "-": "taken away: ", "+": "added: ", " ": "" };
    const all = diff(this.about.source.split("\n"), this.text.split("\n"));
    const near = all.filter((_, place) => all.slice(Math.max(0, place - 1), place + 2).some(([sign]) => sign !== " "));
    const lines = near.map(([sign, line]) =>
      make(
        sign === "-" ? "del" : sign === "+" ? "ins" : "span",
        {},
        make("span", { class: "sr" }, words[sign]),
        `${sign} ${line}\n`,
      ),
    );
    this.changes.querySelector("pre")?.remove();
    this.changes.append(make("pre", { tabindex: "0", "aria-label": "changed lines" }, lines));
  }

  /** A prepared change: the reader guesses, sees it as a diff, runs it, and is told why. */
  offer(change) {
    this.guess?.remove();
    this.guess = guess(change, async () => {
      if (
        this.isEdited &&
        !this.isPrepared &&
        !confirm(`Your own changes of the cell ${this.about.id} give way. Go on?`)
      )
        return false;
      this.change(this.about.source.replace(change.from, () => change.to));
      this.edit(false);
      this.editor.set(this.text);
      this.changes.open = true;
      return (await this.notebook.run(this.about.id)) && this.isPrepared;
    });
    this.element.append(this.guess);
    this.guess.querySelector("input").focus();
  }

  /** Whether the text is what a prepared change makes of the book's. */
  get isPrepared() {
    const prepared = this.notebook.changes.filter(({ cell }) => cell === this.about.id);
    return prepared.some(({ from, to }) => this.text === this.about.source.replace(from, () => to));
  }

  /** The book's text and the stored output again. */
  reset() {
    this.change(this.about.source);
    this.closeEditor();
    for (const one of [this.live, this.panel, this.guess]) one?.remove();
    this.live = this.panel = this.guess = null;
    if (this.stored) this.stored.hidden = false;
    this.tell("The book's text and output again.");
    this.editButton.focus();
  }

  async copyLink() {
    if (!(await this.notebook.writeAddress())) return;
    try {
      await navigator.clipboard.writeText(location.href);
      this.tell("The link is copied.");
    } catch {
      this.tell("Copy the page's address: it holds the edits.");
    }
  }

  /** Whether something runs that this cell waits for: its Run becomes Stop. */
  busy(isBusy) {
    const had = document.activeElement;
    this.element.toggleAttribute("data-busy", isBusy);
    this.runButton.hidden = isBusy;
    this.stopButton.hidden = !isBusy;
    if (!isBusy) this.progress.hidden = true;
    if (isBusy && had === this.runButton) this.stopButton.focus();
    if (!isBusy && had === this.stopButton) this.runButton.focus();
  }

  /** A bar with what is fetched, of `whole` bytes. */
  loading(come, whole) {
    const millions = (bytes) => Math.round(bytes / 1e6);
    this.progress.hidden = false;
    this.progress.value = come / whole;
    const isAll = come >= whole;
    this.tell(
      isAll ? "Python begins." : `Python for this page is fetched, once: ${millions(come)} of ${millions(whole)} MB.`,
    );
  }

  /** A new output in the place of the one before. */
  begin() {
    this.panel?.remove();
    const live = output();
    (this.live ?? this.stored ?? this.input).after(live);
    this.live?.remove();
    if (this.stored) this.stored.hidden = true;
    return (this.live = live);
  }

  payoff(sentences) {
    this.panel = payoff(sentences);
    this.live.after(this.panel);
    return this.panel;
  }
}
