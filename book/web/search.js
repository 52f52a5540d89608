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

const inOrder = (read) => [...read].sort().join(" "); // "equation of attention" is the attention equation

/** How many letters must be put in, left out, changed or swapped with the next, to make one word of another. */
function apart(one, other) {
  let [before, last] = [[], [...Array(other.length + 1).keys()]];
  for (let i = 1; i <= one.length; i++) {
    const row = [i];
    for (let j = 1; j <= other.length; j++) {
      const same = one[i - 1] === other[j - 1];
      row[j] = Math.min(last[j] + 1, row[j - 1] + 1, last[j - 1] + !same);
      if (one[i - 1] === other[j - 2] && one[i - 2] === other[j - 1]) row[j] = Math.min(row[j], before[j - 2] + 1);
    }
    [before, last] = [last, row];
  }
  return last.at(-1);
}

/** A query with its slips of the pen mended: a word that no text has becomes the nearest one, the commonest of these. */
function speller({ same, sections }) {
  const count = new Map();
  const texts = sections.map(({ title, text, words }) => `${title} ${text} ${words.join(" ")}`);
  for (const word of words([...texts, ...same.flat()].join(" "))) count.set(word, (count.get(word) ?? 0) + 1);
  const stems = new Set([...count.keys()].map(stemmed));
  const mended = (word) => {
    const most = word.length > 7 ? 2 : word.length > 4 ? 1 : 0;
    if (!most || stems.has(stemmed(word))) return word;
    let [best, least] = [word, most + 1];
    for (const [other, often] of count) {
      if (Math.abs(other.length - word.length) > most || other[0] !== word[0]) continue;
      const far = apart(word, other) - often / 1e9;
      if (far < least) [best, least] = [other, far];
    }
    return best;
  };
  return (query) => query.replace(/[\p{L}\p{N}_]+/gu, (word) => mended(word.toLowerCase()));
}

globalThis.bookSearch = ({ same, sections }, Search = globalThis.MiniSearch) => {
  const [read, mend] = [reader(same), speller({ same, sections })];
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
      const key = inOrder(read(phrase));
      whole.set(key, (whole.get(key) ?? new Set()).add(section.id));
    }

  const find = (query) => {
    const asked = read(mend(query));
    const telling = asked.filter((word) => !STOP.has(word));
    const terms = telling.length ? telling : asked;
    const exact = [asked, terms].map((some) => whole.get(inOrder(some)) ?? new Set());
    const options = {
      boost: { words: 5, title: 4, page: 1.5, text: 1 },
      prefix: (term) => term.length > 3,
      weights: { prefix: 0.3 },
      boostDocument: (id) => known.get(id).weight * (exact[0].has(id) ? 6 : exact[1].has(id) ? 3 : 1),
    };
    const found = index.search(terms.join(" "), { ...options, tokenize: (text) => text.split(" ") });
    const worth = ({ score, queryTerms }) => score * (queryTerms.length / terms.length) ** 2; // all words before some
    return found.sort((one, other) => worth(other) - worth(one)).map(({ id }) => known.get(id));
  };
  return Object.assign(find, { mend });
};

/** A text in pieces, each with whether it is a word that was asked for, in whatever form. */
function pieces(text, query) {
  const asked = new Set(
    words(query)
      .filter((word) => !STOP.has(word))
      .map(stemmed),
  );
  return text.split(/([\p{L}\p{N}_]+)/u).map((piece) => [piece, asked.has(stemmed(piece.toLowerCase()))]);
}

/** Some words of a text around the first that was asked for. */
function excerpt(text, query) {
  const parts = pieces(text, query);
  const first = parts.findIndex(([, isAsked]) => isAsked);
  const before = parts.slice(0, Math.max(0, first)).map(([piece]) => piece);
  const from = Math.max(0, text.lastIndexOf(" ", before.join("").length - 60) + 1);
  return `${from ? "… " : ""}${text.length > from + 200 ? `${text.slice(from, from + 200).replace(/\S*$/, "")}…` : text.slice(from)}`;
}

function showResults() {
  const place = document.getElementById("search-results");
  const typed = new URLSearchParams(location.search).get("q") ?? "";
  if (!place || !typed.trim()) return;
  for (const input of document.querySelectorAll("form.bd-search input[name=q]")) input.value = typed;
  const make = (tag, text, more = {}) => Object.assign(document.createElement(tag), { textContent: text, ...more });
  const find = globalThis.bookSearch(globalThis.SECTIONS);
  const [every, query] = [find(typed), find.mend(typed)];
  const marked = (tag, text, more) => {
    const all = pieces(text, query).map(([piece, isAsked]) => (isAsked ? make("mark", piece) : piece));
    const box = make(tag, "", more);
    box.append(...all);
    return box;
  };
  const list = make("ol", "", { className: "found" });
  const status = make("p", "", { role: "status" });
  const box = make("input", "", { type: "checkbox" });
  const label = make("label", "");
  label.append(box, " only the evening");
  const itemOf = (section) => {
    const [page, anchor] = section.id.split("#");
    const item = make("li", "");
    item.append(marked("a", section.title, { href: section.top ? `${page}.html` : `${page}.html#${anchor}` }));
    if (!section.top) item.append(make("span", section.page, { className: "where" }));
    item.append(marked("p", excerpt(section.text, query)));
    return item;
  };
  const show = () => {
    const found = every.filter(({ evening }) => evening || !box.checked);
    const count = found.length > 30 ? "The best 30 of" : "";
    const said = query.toLowerCase() === typed.toLowerCase() ? "" : `, for “${query}”`;
    status.textContent = found.length
      ? `${count} ${found.length} sections${said}`.trim()
      : "No section has these words.";
    list.replaceChildren(...found.slice(0, 30).map(itemOf));
  };
  box.addEventListener("change", show);
  show();
  place.replaceChildren(label, status, list);
}

if (globalThis.document) showResults();
