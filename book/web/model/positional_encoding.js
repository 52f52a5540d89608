// Positional encoding: chapter 35 of the book, section 3.5 of the paper. As annotated/positional_encoding.py.
import { gradientOf, share } from "./gradients.js";
import { numbers } from "./matrices.js";

/** PE(pos, 2i) = sin(pos / 10000^(2i / d_model)), PE(pos, 2i + 1) = cos of the same angle; or all sines, then all cosines. */
export function sinusoidalEncoding(position, dModel, interleaved = true) {
  const row = new numbers.Array(dModel);
  for (let i = 0; i < dModel / 2; i++) {
    const angle = position * 10000 ** ((-2 * i) / dModel);
    row[interleaved ? 2 * i : i] = Math.sin(angle);
    row[interleaved ? 2 * i + 1 : dModel / 2 + i] = Math.cos(angle);
  }
  return row;
}

/** Adds the sinusoids to embeddings. `offset` is 0 unless an intervention moves all positions. */
export class SinusoidalPositions {
  constructor(dModel, interleaved = true) {
    Object.assign(this, { dModel, interleaved, offset: 0 });
  }

  forward(x, start = 0) {
    return x.map((row, i) => {
      const waves = sinusoidalEncoding(this.offset + start + i, this.dModel, this.interleaved);
      const result = row.map((value, c) => value + waves[c]);
      share(result, () => gradientOf(row));
      return result;
    });
  }
}

/** Adds one learned vector for each position. */
export class LearnedPositions {
  constructor(weight) {
    Object.assign(this, { weight, offset: 0 });
  }

  forward(x, start = 0) {
    const [length, width] = this.weight.shape;
    return x.map((row, i) => {
      const position = this.offset + start + i;
      if (position >= length) throw new RangeError(`position ${position}, but learned ones for ${length}`);
      return row.map((value, c) => value + this.weight.values[position * width + c]);
    });
  }
}
