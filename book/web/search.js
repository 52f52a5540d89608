/* The search: sections of the book, found by their words, their titles, and the words that readers type for them
   (book/search.yml). Ways of writing one thing are read as one. `bookSearch(SECTIONS)` is a function from a query to
   sections, the best first; on the search page its answers are shown, all or those of the evening's chapters. */
"use strict";

const STOP = new Set(
  "a about an and are as be by can do does for from how i if in is of on or should that the this to use used using versus vs was what when where which why with you my".split(
    " ",
  ),
);
const NUMBERED = /\b(equation|eq|figure|fig|table|tab|footnote) ?\.? ?\(?(\d)\)?(?![\d.])/g;
const FULL = { eq: "equation", fig: "figure", tab: "table" };

/** Without plurals and endings of verbs, so that words of one stem are found by each other. */
function stemmed(word) {
  if (word.length < 5) return word.length > 3 && /[^s]s$/.test(word) ? word.slice(0, -1) : word;
  return word
    .replace(/(ss)es$/, "$1")
    .replace(/ies$/, "y")
    .replace(/([^s])s$/, "$1")
    .replace(/(?:ing|ed|er|ation|e)$/, "")
    .replace(/([^aeiouls])\1$/, "$1");
}

const words = (text) =>
  text
    .toLowerCase()
    .normalize("NFKC")
    .match(/[\p{L}\p{N}_]+/gu) ?? [];

/** A reader of texts: their words, with each of several ways of writing one thing as the first way, in one word. */
function reader(same) {
  const first = new Map(); // words -> one word
  let longest = 1;
  for (const [one, ...others] of same) {
    const name = words(one).join("_");
    for (const way of [one, ...others]) {
      first.set(words(way).join(" "), name);
      longest = Math.max(longest, words(way).length);
    }
  }
  return (text) => {
    const plain = text.toLowerCase().replace(NUMBERED, (_, what, number) => `${FULL[what] ?? what}${number}`);
    const found = words(plain);
    const read = [];
    for (let at = 0; at < found.length;) {
      let length = Math.min(longest, found.length - at);
      while (length > 0 && !first.has(found.slice(at, at + length).join(" "))) length--;
      read.push(length ? first.get(found.slice(at, at + length).join(" ")) : stemmed(found[at]));
      at += length || 1;
    }
    return read;
  };
}

globalThis.bookSearch = ({ same, sections }, Search = globalThis.MiniSearch) => {
  const read = reader(same);
  const index = new Search({
    fields: ["words", "title", "page", "text"],
    tokenize: (text) => read(text),
    processTerm: (term) => term,
    extractField: (section, field) => (field === "words" ? section.words.join(" , ") : section[field]),
    storeFields: [],
  });
  index.addAll(sections);
  const known = new Map(sections.map((section) => [section.id, section]));
  const whole = new Map(); // what readers type, word for word
  for (const section of sections)
    for (const phrase of section.words) {
      const key = read(phrase).join(" ");
      whole.set(key, (whole.get(key) ?? new Set()).add(section.id));
    }

  return (query) => {
    const asked = read(query);
    const telling = asked.filter((word) => !STOP.has(word));
    const terms = telling.length ? telling : asked;
    const exact = [asked, terms].map((some) => whole.get(some.join(" ")) ?? new Set());
    const options = {
      boost: { words: 5, title: 4, page: 1.5, text: 1 },
      prefix: (term) => term.length > 3,
      fuzzy: (term) => (term.length > 5 ? 0.2 : false),
      weights: { prefix: 0.3, fuzzy: 0.15 },
      boostDocument: (id) => known.get(id).weight * (exact[0].has(id) ? 6 : exact[1].has(id) ? 3 : 1),
    };
    const found = index.search(terms.join(" "), { ...options, tokenize: (text) => text.split(" ") });
    const worth = ({ score, queryTerms }) => score * (queryTerms.length / terms.length) ** 2; // all words before some
    return found.sort((one, other) => worth(other) - worth(one)).map(({ id }) => known.get(id));
  };
};

/** Some words of a text around the first that was asked for. */
function excerpt(text, query) {
  const at = words(query)
    .filter((word) => !STOP.has(word))
    .map((word) => text.toLowerCase().search(new RegExp(`\\b${word}`)))
    .filter((place) => place >= 0);
  const from = at.length ? Math.max(0, text.lastIndexOf(" ", Math.min(...at) - 60) + 1) : 0;
  return `${from ? "… " : ""}${text.length > from + 200 ? `${text.slice(from, from + 200).replace(/\S*$/, "")}…` : text.slice(from)}`;
}

function showResults() {
  const place = document.getElementById("search-results");
  const query = new URLSearchParams(location.search).get("q") ?? "";
  if (!place || !query.trim()) return;
  for (const input of document.querySelectorAll("form.bd-search input[name=q]")) input.value = query;
  const make = (tag, text, more = {}) => Object.assign(document.createElement(tag), { textContent: text, ...more });
  const every = globalThis.bookSearch(globalThis.SECTIONS)(query);
  const list = make("ol", "", { className: "found" });
  const status = make("p", "", { role: "status" });
  const box = make("input", "", { type: "checkbox" });
  const label = make("label", "");
  label.append(box, " only the evening");
  const itemOf = (section) => {
    const [page, anchor] = section.id.split("#");
    const item = make("li", "");
    item.append(make("a", section.title, { href: section.top ? `${page}.html` : `${page}.html#${anchor}` }));
    if (!section.top) item.append(make("span", section.page, { className: "where" }));
    item.append(make("p", excerpt(section.text, query)));
    return item;
  };
  const show = () => {
    const found = every.filter(({ evening }) => evening || !box.checked);
    const count = found.length > 30 ? "The best 30 of" : "";
    status.textContent = found.length ? `${count} ${found.length} sections`.trim() : "No section has these words.";
    list.replaceChildren(...found.slice(0, 30).map(itemOf));
  };
  box.addEventListener("change", show);
  show();
  place.replaceChildren(label, status, list);
}

if (globalThis.document) showResults();
