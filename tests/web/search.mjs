// Answers of the book's search: reads [query] as JSON from its input, writes for each the places that it finds.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const MiniSearch = createRequire(import.meta.url)("minisearch");
await import("../../book/web/search.js");
globalThis.eval(readFileSync(process.argv[2], "utf8"));
const find = globalThis.bookSearch(globalThis.SECTIONS, MiniSearch);
const answers = JSON.parse(readFileSync(0, "utf8")).map((query) =>
  find(query).map(({ id, top }) => (top ? id.split("#")[0] : id)),
);
console.log(JSON.stringify(answers));
