// Asks the parts of the page that need no page: reads tasks from standard input, writes the answers as JSON.
import { readFileSync } from "node:fs";

import * as breaking from "../../book/web/widgets/break/experiments.js";
import { verdict } from "../../book/web/widgets/break/verdict.js";
import { stages } from "../../book/web/widgets/equation.js";
import { START, fromHash, toHash } from "../../book/web/widgets/lab/address.js";
import { wordsOf } from "../../book/web/widgets/lab/sentence.js";
import { visibility } from "../../book/web/widgets/leak.js";
import { Sentences } from "../../book/web/widgets/sentences.js";
import { rate } from "../../book/web/widgets/warmup.js";

const plain = (value) => JSON.parse(JSON.stringify(value, (_, each) => (ArrayBuffer.isView(each) ? [...each] : each)));

const answer = {
  texts: ({ parts, choices }) => choices.map((choice) => new Sentences(parts).text(choice)),
  find: ({ parts, sources }) => sources.map((source) => new Sentences(parts).find(source)),
  settle: ({ parts, choices }) => choices.map((choice) => new Sentences(parts).settle(choice)),
  twins: ({ parts, choices }) => choices.map((choice) => new Sentences(parts).twin(choice)),
  verbs: ({ parts, choice }) => new Sentences(parts).verbs(choice),
  words: ({ text, known }) => wordsOf(text, new Set(known)),
  address: ({ state }) => [toHash({ ...START, ...state }), fromHash(toHash({ ...START, ...state }))],
  start: () => START,
  read: ({ hash }) => fromHash(hash),
  experiment: ({ parts, task, settings }) => {
    const wanted = { ...breaking.startOf(parts, task), ...settings };
    const hash = breaking.toHash(wanted);
    return [hash, wanted, breaking.fromHash(hash)];
  },
  experiments: ({ hashes }) => hashes.map((hash) => breaking.fromHash(hash)),
  verdict: ({ parts, task, settings, both, guess }) =>
    verdict({ ...breaking.startOf(parts, task), ...settings }, both, guess),
  row: ({ scores, visible, values, width }) => stages(scores, visible, values, width),
  leaks: ({ length, mask, shift }) =>
    visibility(length, mask, shift).map((row) => row.map(({ seen, leak }) => [seen, leak])),
  rates: ({ settings }) => settings.map((three) => rate(...three)),
};

const tasks = JSON.parse(readFileSync(0, "utf8"));
process.stdout.write(JSON.stringify(tasks.map(({ ask, ...task }) => plain(answer[ask](task)))));
