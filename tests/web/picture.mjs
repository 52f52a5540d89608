// What the picture shows: reads { folder, tasks: [{ state, lines }] }, writes [{ result, costs }] as JSON.
import { readFileSync } from "node:fs";
import { join } from "node:path";

import { FILES, Translator } from "../../book/web/model/translation.js";
import { fromHash, START, toHash } from "../../book/web/picture/address.js";
import { costs, look } from "../../book/web/picture/data.js";
import { lineId, linesAt, PLACES } from "../../book/web/picture/lines.js";
import { possible } from "../../book/web/picture/possible.js";

const { folder, tasks, hashes = [] } = JSON.parse(readFileSync(0, "utf8"));
const files = Object.fromEntries(FILES.map((name) => [name, new Uint8Array(readFileSync(join(folder, name)))]));
const translator = Translator.from(files);

const plain = (_, value) => (ArrayBuffer.isView(value) ? [...value] : value);
const answers = tasks.map(({ state: given, priced }) => {
  const { state } = possible(translator, { ...START, ...given });
  const result = look(translator, state);
  const places = PLACES.flatMap((place) => [null, 0, 3].map((head) => [place, head]));
  const lines = places.flatMap(([place, head]) => linesAt(result, place, state.touched, head));
  const price = costs(translator, state);
  const asked = lines.filter((_, n) => n % Math.ceil(lines.length / priced) === 0);
  return {
    result,
    lines,
    costs: asked.map((line) => ({ line, ...price(line) })),
    again: fromHash(toHash(state)),
    state,
  };
});
const arrived = hashes.map((hash) => {
  const found = fromHash(hash);
  if (!found) return null;
  const { state, notes } = possible(translator, found);
  return { state, notes, text: look(translator, state).text, ids: state.cut.map(lineId) };
});
process.stdout.write(JSON.stringify({ answers, arrived }, plain));
