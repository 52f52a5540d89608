// Which gender the German pronoun gets: er, sie or es.
import { best } from "../model/decoding.js";
import { bars } from "./words.js";
import { percent } from "./dom.js";

export const GENDERS = ["er", "sie", "es"];

/** The tokens of er, sie and es, or null if the vocabulary does not have them as single pieces. */
export function genderTokens(tokenizer) {
  const ids = GENDERS.map((word) => tokenizer.ids.get(`▁${word}`));
  return ids.includes(undefined) ? null : ids;
}

/** Where an output has its last pronoun that begins after a comma; else its last one; -1 where there is none. */
export function pronounAt(tokenizer, tokens) {
  const genders = genderTokens(tokenizer) ?? [];
  const comma = tokenizer.ids.get(",");
  const places = [...tokens.keys()].filter((i) => genders.includes(tokens[i]));
  const behind = places.filter((i) => tokens.slice(0, i).includes(comma));
  return behind.at(-1) ?? places.at(-1) ?? -1;
}

/** The chances of er, sie and es from the log-probabilities of a step. */
export const chances = (tokenizer, scores) => genderTokens(tokenizer).map((token) => Math.exp(scores[token]));

/** Bars for the three; ticks where they were before. */
export function genderBars(now, before = null) {
  return bars(
    GENDERS.map((label, i) => ({ label, share: now[i], before: before?.[i], strong: now[i] === Math.max(...now) })),
    percent,
  );
}

/** The likeliest tokens of a step as rows for `bars`. */
export const likeliest = (scores, count = 5) =>
  best(scores, count).map(({ token, score }) => ({ token, share: Math.exp(score) }));
