// A SentencePiece model file, read: a message of Protocol Buffers, of which these few fields matter here.
import { InputError } from "./files.js";

export const KINDS = { normal: 1, unknown: 2, control: 3, userDefined: 4, unused: 5, byte: 6 };

/** The fields of a message as [number, value]: whole numbers, or bytes. */
function* fields(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  const whole = () => {
    let value = 0;
    for (let shift = 1; ; shift *= 128) {
      if (at >= bytes.length) throw new RangeError("the message is cut");
      const byte = bytes[at++];
      value += (byte & 127) * shift;
      if (byte < 128) return value;
    }
  };
  while (at < bytes.length) {
    const key = whole();
    const kind = key & 7;
    if (kind === 0) yield [key >>> 3, whole()];
    else if (kind === 1) at += 8;
    else if (kind === 2) {
      const length = whole();
      if (at + length > bytes.length) throw new RangeError("the message is cut");
      yield [key >>> 3, bytes.subarray(at, (at += length))];
    } else if (kind === 5) {
      yield [key >>> 3, view.getFloat32(at, true)];
      at += 4;
    } else throw new RangeError(`a field of kind ${kind}`);
  }
}

const text = (bytes) => new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);

/** The pieces, each { piece, score, kind }, the kind of model, and how text is normalised. Throws InputError. */
export function readSentencePiece(bytes, name = "tokenizer.model") {
  const pieces = [];
  const normalizer = {};
  let type = 1;
  try {
    for (const [number, value] of fields(bytes)) {
      if (number === 1) {
        const piece = { piece: "", score: 0, kind: KINDS.normal };
        for (const [part, content] of fields(value)) {
          if (part === 1) piece.piece = text(content);
          if (part === 2) piece.score = content;
          if (part === 3) piece.kind = content;
        }
        pieces.push(piece);
      } else if (number === 2) {
        for (const [part, content] of fields(value)) if (part === 3) type = content;
      } else if (number === 3) {
        for (const [part, content] of fields(value)) {
          if (part === 2) normalizer.map = content;
          if (part === 3) normalizer.addDummyPrefix = Boolean(content);
          if (part === 4) normalizer.removeExtraWhitespaces = Boolean(content);
          if (part === 5) normalizer.escapeWhitespaces = Boolean(content);
        }
      }
    }
  } catch (error) {
    if (error instanceof RangeError) throw new InputError(`${name}: not a SentencePiece model, or cut`);
    throw error;
  }
  if (!pieces.length) throw new InputError(`${name}: not a SentencePiece model`);
  if (type !== 2) throw new InputError(`${name}: only byte-pair encoding can be read here`);
  return { pieces, normalizer };
}
