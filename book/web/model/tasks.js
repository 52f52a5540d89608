// What the models of chapter 83 learn: digits backwards, and a pronoun.

export const [START, END] = [2, 3];
const FIRST = 4; // the id of the first word

/** Eight digits, to be written backwards. */
export const digits = {
  name: "digits",
  words: [..."0123456789"],
  example: [[..."31415926"], [..."62951413"]],
  draw(random) {
    const source = Array.from({ length: 8 }, () => String(random.below(10)));
    return [source, [...source].reverse()];
  },
};

const ANIMALS = {
  animal: ["das", "Tier", "es"],
  dog: ["der", "Hund", "er"],
  cat: ["die", "Katze", "sie"],
  horse: ["das", "Pferd", "es"],
  bear: ["der", "Bär", "er"],
  goose: ["die", "Gans", "sie"],
};
const PLACES = {
  street: ["die", "Straße", "sie"],
  river: ["den", "Fluss", "er"],
  field: ["das", "Feld", "es"],
  bridge: ["die", "Brücke", "sie"],
  bog: ["den", "Sumpf", "er"],
  lake: ["das", "Meer", "es"],
};
const OF_ANIMALS = { tired: "müde", hungry: "hungrig", old: "alt" };
const OF_PLACES = { wide: "breit", long: "lang", deep: "tief" };

/** A sentence of the book's grammar: what *it* means is in its last word. */
export const pronouns = {
  name: "pronouns",
  words: [
    ...new Set(
      [ANIMALS, PLACES]
        .flatMap((all) => Object.entries(all).flat(2))
        .concat(Object.entries({ ...OF_ANIMALS, ...OF_PLACES }).flat(), [
          "the",
          "did",
          "not",
          "cross",
          "because",
          "it",
          "was",
          "too",
          "überquerte",
          "nicht",
          "weil",
          "zu",
          "war",
        ]),
    ),
  ],
  get example() {
    return [sentence("animal", "street", "tired"), translation("animal", "street", "tired")];
  },
  draw(random) {
    const one = (all) => Object.keys(all)[random.below(Object.keys(all).length)];
    const [animal, place, isAnimal] = [one(ANIMALS), one(PLACES), random.below(2) === 0];
    const adjective = one(isAnimal ? OF_ANIMALS : OF_PLACES);
    return [sentence(animal, place, adjective), translation(animal, place, adjective)];
  },
};

const sentence = (animal, place, adjective) =>
  `the ${animal} did not cross the ${place} because it was too ${adjective}`.split(" ");

function translation(animal, place, adjective) {
  const [article, noun] = ANIMALS[animal];
  const [other, where] = PLACES[place];
  const pronoun = (adjective in OF_ANIMALS ? ANIMALS[animal] : PLACES[place])[2];
  return `${article} ${noun} überquerte ${other} ${where} nicht weil ${pronoun} zu ${{ ...OF_ANIMALS, ...OF_PLACES }[adjective]} war`.split(
    " ",
  );
}

const idsOf = (task, words) => words.map((word) => FIRST + task.words.indexOf(word));
const SYMBOLS = { [START]: "<s>", [END]: "</s>" };
export const wordsOf = (task, ids) => ids.map((id) => SYMBOLS[id] ?? task.words[id - FIRST] ?? "?");
export const sizeOf = (task) => FIRST + task.words.length;

/** A pair of words as ids; the target from the start symbol to the end. */
export const toPair = (task, [source, target]) => [idsOf(task, source), [START, ...idsOf(task, target), END]];

/** A pair that is drawn, as ids. */
export const pairOf = (task, random) => toPair(task, task.draw(random));

export const TASKS = { digits, pronouns };
