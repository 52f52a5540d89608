// The case of chapter 80, told in the picture: eight stops, each a state of it.
import { button, make } from "../widgets/dom.js";
import { START } from "./address.js";

const [WIDE, TIRED] = [START.say, START.twin];
const tired = { ...START, say: TIRED, twin: WIDE };
const wide = { ...START, say: WIDE, twin: TIRED };
const touched = (side, at) => ({ touched: { side, at } });
const [IT, ES] = [touched("source", 8), touched("written", 8)];
const door2 = (key) => ({ cut: [{ kind: "cross", layer: 1, head: null, query: 8, key }] });

/** Each { name, text, proof, state }: `proof` is the cell of chapter 80 that counts it in many sentences. */
export const STOPS = [
  {
    name: "The question",
    text: "English comes in on the left, and German goes out on the right. For “it” German needs a gender: es is the animal, sie is the street. Only the last word, tired or wide, tells which one is meant. Follow the row of “it” from left to right: a line comes from each word that it hears.",
    proof: "famous",
    state: { ...tired, ...IT },
  },
  {
    name: "The picture that everybody prints",
    text: "This is one layer, opened. In head 1 a thick line leads from animal to it, and animal is right. It would be a fine answer. But look at the second number on the line. Without this line the machine still writes es, as surely as before.",
    proof: "where-it-looks",
    state: { ...tired, ...IT, open: "encoder.1" },
  },
  {
    name: "The sharpest head",
    text: "With wide, head 4 looks at street, and again that is right. But with tired it looks at the and street as well, although the animal is meant. This head looks for the nearer noun, whatever the adjective says.",
    proof: "antecedents",
    state: { ...wide, ...IT, open: "encoder.1" },
  },
  {
    name: "Ask from the other end",
    text: "Now we touch the German word. The decoder hears English by two doors, one in each of its layers. At the second door nearly everything that sie hears is “it”. And this line is red: without it another word is written.",
    proof: "whom",
    state: { ...wide, ...ES },
  },
  {
    name: "Cut it",
    text: "The line is cut, and the machine writes es for the street. So the decoder needs to hear “it”. But whom does it follow now? Look at the second door: the strongest line comes from The, the first word of the sentence.",
    proof: "witnesses",
    state: { ...wide, ...ES, ...door2(8) },
  },
  {
    name: "The keeper of the other gender",
    text: "In the sentence with tired we cut the line from The. Nearly half of the certainty goes. The first The has heard its noun, animal, and keeps its gender. When nobody objects, the decoder follows The. (Many lines are red now, because a small push is enough.)",
    proof: "writing",
    state: { ...tired, ...ES, ...door2(0) },
  },
  {
    name: "The verdict",
    text: "Everything is whole again, except for one thing. At the second door the decoder hears “it” from the sentence with wide. It writes sie, although every other word still says tired. So “it” does not only point at something. It has the verdict.",
    proof: "once",
    state: { ...tired, ...IT, give: [{ at: "door", layer: 1, key: 8 }] },
  },
  {
    name: "The answer",
    text: "In this machine “it” hears the adjective and brings the verdict, with the gender of the second noun; The brings that of the first. Two more machines were trained in the same way, and each of them found another way. A line shows where a word looks. What it is worth, only a cut or an exchange can tell, in many sentences.",
    proof: "verdict",
    state: { ...tired, ...ES },
  },
];

/** The stepper; `go(state)` shows a state, and `end` takes the stepper away. */
export function stepper(at, { go, end }) {
  const stop = STOPS[at];
  const to = (other) => go({ ...STOPS[other].state, stop: other });
  const proof = make("a", { href: `80_attention_visualizations.html#cell-${stop.proof}` }, "the cell that proves it");
  return [
    make("h2", {}, `${at + 1} of ${STOPS.length}: ${stop.name}`),
    make("p", {}, make("i", { lang: "en" }, stop.state.say)),
    make("p", {}, stop.text, " (", proof, ")"),
    make(
      "div",
      { class: "beside" },
      button("◀ back", () => to(at - 1), { disabled: at === 0 }),
      button("next ▶", () => to(at + 1), { disabled: at === STOPS.length - 1 }),
      button("look around", end),
    ),
  ];
}
