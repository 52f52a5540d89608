// SentencePiece's normalisation of text, with the map that the model file brings: NFKC and more, which String.normalize
// does not equal. The map is a trie of bytes in Darts' double array, followed by replacements that end with a zero.

const encoder = new TextEncoder();
const SPACE = 0x20;
const MARK = [0xe2, 0x96, 0x81]; // "▁", what SentencePiece writes for a space
const UNKNOWN = [0xef, 0xbf, 0xbd]; // "\uFFFD", in the place of bytes that are no character

export class Normalizer {
  /** `map` is the field precompiled_charsmap, as bytes; the flags are fields of the same name. */
  constructor({
    map = new Uint8Array(),
    addDummyPrefix = true,
    removeExtraWhitespaces = true,
    escapeWhitespaces = true,
  } = {}) {
    Object.assign(this, { addDummyPrefix, removeExtraWhitespaces, escapeWhitespaces });
    const view = new DataView(map.buffer, map.byteOffset, map.byteLength);
    const size = map.length ? view.getUint32(0, true) : 0;
    this.units = Uint32Array.from({ length: size / 4 }, (_, i) => view.getUint32(4 + 4 * i, true));
    this.replacements = map.subarray(4 + size);
  }

  /** The text as normalised bytes in UTF-8, with "▁" for spaces. */
  normalize(text) {
    const input = encoder.encode(text);
    const output = [];
    const space = this.escapeWhitespaces ? MARK : [SPACE];
    let at = 0;
    const next = () => this.prefix(input, at);
    const isSpace = ({ bytes }) => bytes.length === 1 && bytes[0] === SPACE;
    if (this.removeExtraWhitespaces) {
      for (let first = at < input.length && next(); first && isSpace(first); first = at < input.length && next())
        at += first.length;
    }
    if (at >= input.length) return new Uint8Array();
    if (this.addDummyPrefix) output.push(...space);
    let afterSpace = this.removeExtraWhitespaces;
    while (at < input.length) {
      const { bytes, length } = next();
      at += length;
      let from = 0;
      while (afterSpace && bytes[from] === SPACE) from++;
      for (let i = from; i < bytes.length; i++) {
        if (bytes[i] === SPACE) output.push(...space);
        else output.push(bytes[i]);
      }
      if (from < bytes.length) afterSpace = bytes[bytes.length - 1] === SPACE;
      if (!this.removeExtraWhitespaces) afterSpace = false;
    }
    if (this.removeExtraWhitespaces) {
      while (space.every((byte, i) => output[output.length - space.length + i] === byte)) output.length -= space.length;
    }
    return Uint8Array.from(output);
  }

  /** What the longest known prefix at a place is replaced by, and its length; else the character that stands there. */
  prefix(input, at) {
    const found = this.longest(input, at);
    if (found) return found;
    const length = characterLength(input, at);
    if (!length) return { bytes: UNKNOWN, length: 1 };
    return { bytes: input.subarray(at, at + length), length };
  }

  longest(input, at) {
    const { units } = this;
    if (!units.length) return null;
    let found = null;
    let node = offset(units[0]);
    for (let i = at; i < input.length; i++) {
      node ^= input[i];
      const unit = units[node];
      if (unit === undefined || (unit & 0x800000ff) >>> 0 !== input[i]) break;
      node ^= offset(unit);
      if ((unit >>> 8) & 1) found = { value: units[node] & 0x7fffffff, length: i + 1 - at };
    }
    return found && { bytes: this.replacement(found.value), length: found.length };
  }

  replacement(start) {
    return this.replacements.subarray(start, this.replacements.indexOf(0, start));
  }
}

const offset = (unit) => ((unit >>> 10) << ((unit & 0x200) >>> 6)) >>> 0;

/** How many bytes the character at a place has; 0 where the bytes are none. */
export function characterLength(bytes, at) {
  const first = bytes[at];
  if (first < 0x80) return 1;
  const length =
    first >= 0xc2 && first < 0xe0 ? 2 : first >= 0xe0 && first < 0xf0 ? 3 : first >= 0xf0 && first < 0xf5 ? 4 : 0;
  let code = first & (0x7f >> length);
  for (let i = 1; i < length; i++) {
    if ((bytes[at + i] & 0xc0) !== 0x80) return 0;
    code = code * 64 + (bytes[at + i] & 0x3f);
  }
  const shortest = [0, 0, 0x80, 0x800, 0x10000][length];
  return code < shortest || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ? 0 : length;
}

/** Bytes as text, with a mark in the place of each byte that belongs to no character. */
export function decode(bytes) {
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  let text = "";
  for (let at = 0, from = 0; at <= bytes.length;) {
    const length = at < bytes.length ? characterLength(bytes, at) : 0;
    if (length) {
      at += length;
      continue;
    }
    text += decoder.decode(bytes.subarray(from, at)) + (at < bytes.length ? "\uFFFD" : "");
    from = ++at;
  }
  return text;
}
