// Text to token ids and back: chapter 51 of the book, section 5.1 of the paper. As annotated/text/tokenization.py.
import { InputError } from "./files.js";
import { Normalizer, characterLength, decode } from "./normalization.js";
import { KINDS, readSentencePiece } from "./sentencepiece.js";

// what Python's strip() takes away
const BLANK = /^[\t-\r\x1c- \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]*$/;

/** Byte-pair encoding with the pieces of a tokenizer.model. Ids 0 to 3 are pad, unk, bos and eos. */
export class Tokenizer {
  constructor(bytes, name = "tokenizer.model") {
    const { pieces, normalizer } = readSentencePiece(bytes, name);
    this.pieces = pieces;
    this.normalizer = new Normalizer(normalizer);
    const special = [KINDS.control, KINDS.unknown, KINDS.control, KINDS.control];
    if (!special.every((kind, i) => pieces[i]?.kind === kind)) {
      throw new InputError(`${name}: pad, unk, bos and eos are needed at 0, 1, 2 and 3`);
    }
    [this.padId, this.unkId, this.bosId, this.eosId] = [0, 1, 2, 3];
    this.ids = new Map();
    this.bytes = new Array(256).fill(this.unkId); // the piece of each byte
    pieces.forEach(({ piece, kind }, id) => {
      if (kind === KINDS.normal || kind === KINDS.userDefined) this.ids.set(piece, id);
      if (kind === KINDS.byte) this.bytes[parseInt(piece.slice(3, 5), 16)] = id;
    });
  }

  get size() {
    return this.pieces.length;
  }

  /** Token ids of a text, without eos. A character that no piece has becomes the pieces of its bytes. */
  toIds(text) {
    if (BLANK.test(text)) return [];
    return this.split(text).flatMap((piece) => {
      const id = this.ids.get(piece);
      return id === undefined ? [...new TextEncoder().encode(piece)].map((byte) => this.bytes[byte]) : [id];
    });
  }

  /** The pieces of a text. Neighbours are joined, those with the best score first, of equals the leftmost. */
  split(text) {
    const normalised = this.normalizer.normalize(text);
    const symbols = [];
    for (let at = 0; at < normalised.length;) {
      const length = characterLength(normalised, at) || 1;
      symbols.push({ text: decode(normalised.subarray(at, at + length)) });
      at += length;
    }
    symbols.forEach((symbol, i) =>
      Object.assign(symbol, { place: i, left: symbols[i - 1] ?? null, right: symbols[i + 1] ?? null }),
    );
    const queue = new Queue((a, b) => a.score - b.score || b.left.place - a.left.place);
    const offer = (left, right) => {
      const id = left && right && this.ids.get(left.text + right.text);
      if (id !== undefined && id !== null)
        queue.push({ left, right, text: left.text + right.text, score: this.pieces[id].score });
    };
    for (const symbol of symbols) offer(symbol, symbol.right);
    for (let pair = queue.pop(); pair; pair = queue.pop()) {
      const { left, right, text: joined } = pair;
      if (!left.text || !right.text || left.text + right.text !== joined) continue; // one of them was joined before
      left.text = joined;
      right.text = "";
      left.right = right.right;
      if (left.right) left.right.left = left;
      offer(left.left, left);
      offer(left, left.right);
    }
    return symbols.filter((symbol) => symbol.text).map((symbol) => symbol.text);
  }

  /** The text of token ids. Special tokens are left out, bytes joined to characters, the space at the beginning dropped. */
  toText(ids) {
    const bytes = [];
    let begun = false; // whether the space before the first word has been dropped
    for (const id of ids) {
      const { piece, kind } = this.pieces[id];
      if (kind === KINDS.byte) bytes.push(parseInt(piece.slice(3, 5), 16));
      else if (kind === KINDS.unknown) bytes.push(...new TextEncoder().encode(" \u2047 "));
      else if (kind !== KINDS.control) {
        const drop = !begun && !bytes.length && piece.startsWith("▁");
        begun ||= drop && !this.normalizer.removeExtraWhitespaces;
        bytes.push(...new TextEncoder().encode(drop ? piece.slice(1) : piece));
      }
    }
    return decode(Uint8Array.from(bytes)).replaceAll("▁", " ");
  }
}

/** A heap: `pop` gives what is greatest by `compare`. */
class Queue {
  constructor(compare) {
    Object.assign(this, { compare, items: [] });
  }

  push(item) {
    const { items } = this;
    let at = items.push(item) - 1;
    while (at && this.compare(items[(at - 1) >> 1], item) < 0) {
      items[at] = items[(at - 1) >> 1];
      at = (at - 1) >> 1;
    }
    items[at] = item;
  }

  pop() {
    const { items } = this;
    const first = items[0];
    const last = items.pop();
    if (!items.length) return first;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child + 1 < items.length && this.compare(items[child + 1], items[child]) > 0) child++;
      if (child >= items.length || this.compare(last, items[child]) >= 0) break;
      items[at] = items[child];
      at = child;
    }
    items[at] = last;
    return first;
  }
}
