// Sentences with their right translation: a part of the grammar of chapter 50, put together in the page.
import { make, pick } from "./dom.js";

const capital = (text) => text[0].toUpperCase() + text.slice(1);
const filled = (text, parts) => text.replace(/\{(\d)\}/g, (_, number) => parts[number]);

/** What can be chosen, and what follows from it. A choice is { frame, subject, object, conjunction, tense, adjective }. */
export class Sentences {
  constructor(parts) {
    Object.assign(this, parts);
  }

  /** A choice made possible: whatever does not fit any more becomes the first that does. */
  settle(choice) {
    const frame = this.frames[choice.frame];
    const kept = (value, options) => (options.includes(value) ? value : options[0]);
    const subject = kept(choice.subject, frame.subjects);
    const gender = (noun) => this.nouns[noun].gender;
    const objects = frame.objects.filter((noun) => gender(noun) !== gender(subject));
    if (!objects.length)
      return this.settle({
        ...choice,
        subject: frame.subjects.find((noun) => frame.objects.some((other) => gender(other) !== gender(noun))),
      });
    return {
      ...choice,
      subject,
      object: kept(choice.object, objects),
      adjective: kept(choice.adjective, frame.adjectives.flat()),
      objects,
    };
  }

  /** English and German. */
  text({ frame, subject, object, conjunction, tense, adjective }) {
    const { forms, adjectives } = this.frames[frame];
    const [english, german] = forms[`${conjunction} ${tense}`];
    const [one, other] = [this.nouns[subject], this.nouns[object]];
    const meant = adjectives[0].includes(adjective) ? one : other;
    const words = [capital(one.german[0]), other.german[1], this.pronouns[meant.gender], this.adjectives[adjective]];
    return {
      source: filled(english, [`The ${one.english}`, `the ${other.english}`, "it", adjective]),
      target: filled(german, words),
    };
  }

  /** The same sentence with an adjective of the other noun. */
  twin(choice, adjective = null) {
    const [own, other] = this.frames[choice.frame].adjectives;
    const options = own.includes(choice.adjective) ? other : own;
    return { ...choice, adjective: options.includes(adjective) ? adjective : options[0] };
  }

  /** The choice that gives this English sentence, or null. */
  find(source) {
    for (const [frame, { subjects, objects, adjectives, forms }] of this.frames.entries()) {
      for (const form of Object.keys(forms)) {
        const [conjunction, tense] = form.split(" ");
        for (const subject of subjects.filter((noun) => source.startsWith(`The ${this.nouns[noun].english} `))) {
          for (const object of objects.filter((noun) => this.nouns[noun].gender !== this.nouns[subject].gender)) {
            for (const adjective of adjectives.flat()) {
              const choice = { frame, subject, object, conjunction, tense, adjective };
              if (this.text(choice).source === source) return choice;
            }
          }
        }
      }
    }
    return null;
  }

  /** What stands between subject and object, for every frame; equal ones are told apart by a subject. */
  verbs({ conjunction, tense }) {
    const labels = this.frames.map(({ forms }) => {
      const [, before, after] = forms[`${conjunction} ${tense}`][0].match(
        /^\{0\} (.*)\{1\} ?(.*?)(?:because|although)/,
      );
      return (before + (after ? `… ${after}` : "")).trim();
    });
    return labels.map((label, i) => {
      const twice = labels.filter((other) => other === label).length > 1;
      return [i, twice ? `${label} (${this.nouns[this.frames[i].subjects[0]].english})` : label];
    });
  }
}

/** The sentence as a line with lists to choose from. `onchange` gets a settled choice. */
export function chips(sentences, choice, onchange) {
  const settled = sentences.settle(choice);
  const frame = sentences.frames[settled.frame];
  const change = (part) => onchange(sentences.settle({ ...settled, ...part }));
  const nouns = (names) =>
    names.map((name) => [name, sentences.nouns[name].english]).sort((a, b) => a[1].localeCompare(b[1]));
  const [english] = frame.forms[`${settled.conjunction} ${settled.tense}`];
  const after = english.slice(english.indexOf("{2}") + 3, english.indexOf("{3}"));
  const rest = english.slice(english.indexOf("{1}") + 3, english.indexOf(settled.conjunction));
  return make(
    "p",
    { class: "chips" },
    "The ",
    pick("who does it", nouns(frame.subjects), settled.subject, (subject) => change({ subject })),
    " ",
    pick("what it does", sentences.verbs(settled), settled.frame, (number) => change({ frame: Number(number) })),
    " the ",
    pick("to what", nouns(settled.objects), settled.object, (object) => change({ object })),
    rest,
    pick(
      "because or although",
      [
        ["because", "because"],
        ["although", "although"],
      ],
      settled.conjunction,
      (conjunction) => change({ conjunction }),
    ),
    ` it${after}`,
    pick(
      "adjective",
      frame.adjectives.flat().map((word) => [word, word]),
      settled.adjective,
      (adjective) => change({ adjective }),
    ),
    ". ",
    pick(
      "past or present",
      [
        ["past", "past"],
        ["present", "present"],
      ],
      settled.tense,
      (tense) => change({ tense }),
    ),
  );
}
