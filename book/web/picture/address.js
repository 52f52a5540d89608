// The state of the picture in the address: what is said, touched, open and changed.
import { escaped, START as LAB, unescaped } from "../widgets/lab/address.js";

export const START = {
  say: LAB.twin,
  twin: LAB.say,
  model: "1",
  open: null, // the column that fills the picture
  touched: { side: "written", at: 8 },
  cut: [],
  off: [],
  give: [],
  stop: null, // of the case, counted from 0
};

export const LONGEST = 300; // characters of a sentence
const MOST = 40; // changes
const KINDS = ["encoder", "decoder", "cross"];
const whole = (text) => (/^\d{1,3}$/.test(text) ? Number(text) : NaN);
const fits = (...numbers) => numbers.every((number) => !Number.isNaN(number));

const CODES = {
  cut: {
    write: ({ kind, layer, head, query, key }) => [kind, layer, head ?? "all", query, key],
    read: ([kind, layer, head, query, key]) => ({
      kind,
      layer: whole(layer),
      head: head === "all" ? null : whole(head),
      query: whole(query),
      key: whole(key),
    }),
    isRight: ({ kind, layer, head, query, key }) => KINDS.includes(kind) && fits(layer, head ?? 0, query, key),
  },
  off: {
    write: ({ kind, layer, head, query }) => [kind, layer, head, query ?? "all"],
    read: ([kind, layer, head, query]) => ({
      kind,
      layer: whole(layer),
      head: whole(head),
      query: query === "all" ? null : whole(query),
    }),
    isRight: ({ kind, layer, head, query }) => KINDS.includes(kind) && fits(layer, head, query ?? 0),
  },
  give: {
    write: ({ at, layer, key }) => [at, layer, key],
    read: ([at, layer, key]) => ({ at, layer: whole(layer), key: whole(key) }),
    isRight: ({ at, layer, key }) => ["door", "level"].includes(at) && fits(layer, key),
  },
};

/** Changes as text, one after the other. */
const written = (name, changes) => changes.map((one) => CODES[name].write(one).join(".")).join("_");

/** The address of a state; what is as at the start is left out. */
export function toHash(state) {
  if (state.stop !== null) return `#see-${escaped(`stop=${state.stop + 1}`)}`;
  const words = {
    say: state.say,
    twin: state.twin,
    model: state.model,
    open: state.open ?? "",
    touch: `${state.touched.side}.${state.touched.at}`,
  };
  const usual = {
    say: START.say,
    twin: START.twin,
    model: START.model,
    open: "",
    touch: `${START.touched.side}.${START.touched.at}`,
  };
  for (const name of Object.keys(CODES)) [words[name], usual[name]] = [written(name, state[name]), ""];
  const said = Object.entries(words).filter(([name, value]) => value !== usual[name]);
  return `#see-${escaped(String(new URLSearchParams(said)))}`;
}

/** What an address says, or null if it is none of the picture. What says nothing sensible is passed over. */
export function fromHash(hash) {
  if (!hash.startsWith("#see-")) return null;
  const words = new URLSearchParams(unescaped(hash.slice(5)));
  const text = (name) => (words.get(name) ?? START[name]).slice(0, LONGEST);
  const [side, at] = (words.get("touch") ?? "").split(".");
  const state = { ...START, say: text("say"), twin: text("twin"), open: words.get("open") || null };
  const stop = Number(words.get("stop"));
  if (Number.isInteger(stop) && stop >= 1 && stop <= 8) state.stop = stop - 1;
  if (["1", "2", "3"].includes(words.get("model"))) state.model = words.get("model");
  if (["source", "written"].includes(side) && fits(whole(at))) state.touched = { side, at: whole(at) };
  for (const [name, { read, isRight }] of Object.entries(CODES)) {
    const all = (words.get(name) ?? "").split("_").filter(Boolean).slice(0, MOST);
    state[name] = all.map((one) => read(one.split("."))).filter(isRight);
  }
  return state;
}
