// A matrix is an array of rows, each a Float32Array: one row for each token. What PyTorch brings along in Python.

/** x W^T + b for each row of x: nn.Linear, whose weight has the shape [outputs, inputs]. */
export function linear(x, { weight, bias }) {
  const [outputs, inputs] = weight.shape;
  const { values } = weight;
  return x.map((row) => {
    const result = new Float32Array(outputs);
    for (let o = 0; o < outputs; o++) {
      result[o] = dotAt(row, values, o * inputs, inputs) + (bias ? bias.values[o] : 0);
    }
    return result;
  });
}

/** The dot product of a row and `size` numbers from `start` on, as four sums side by side, which is faster. */
function dotAt(row, values, start, size) {
  let a = 0,
    b = 0,
    c = 0,
    d = 0;
  let i = 0;
  for (; i + 3 < size; i += 4) {
    a += row[i] * values[start + i];
    b += row[i + 1] * values[start + i + 1];
    c += row[i + 2] * values[start + i + 2];
    d += row[i + 3] * values[start + i + 3];
  }
  for (; i < size; i++) a += row[i] * values[start + i];
  return a + b + c + d;
}

/** The dot product of two rows. */
export const dot = (a, b) => dotAt(a, b, 0, a.length);

/** The sum of two matrices of one shape. */
export const add = (x, y) => x.map((row, r) => row.map((value, c) => value + y[r][c]));

/** Weights of each row of `weights` times the rows of `values`. */
export function blend(weights, values) {
  return weights.map((row) => {
    const result = new Float32Array(values[0].length);
    row.forEach((weight, key) => {
      for (let c = 0; c < result.length; c++) result[c] += weight * values[key][c];
    });
    return result;
  });
}

/** e to each number, divided by their sum; minus infinity becomes 0, and a row of nothing else a row of zeros. */
export function softmax(row) {
  const largest = row.reduce((a, b) => Math.max(a, b), -Infinity);
  if (largest === -Infinity) return new Float32Array(row.length);
  const powers = Float64Array.from(row, (value) => Math.exp(value - largest));
  const sum = powers.reduce((a, b) => a + b, 0);
  return Float32Array.from(powers, (power) => power / sum);
}

/** The natural logarithm of the softmax, exact also where the softmax is nearly 0. */
export function logSoftmax(row) {
  let largest = -Infinity;
  for (const value of row) if (value > largest) largest = value;
  let sum = 0;
  for (let i = 0; i < row.length; i++) sum += Math.exp(row[i] - largest);
  const shift = largest + Math.log(sum);
  const result = new Float64Array(row.length);
  for (let i = 0; i < row.length; i++) result[i] = row[i] - shift;
  return result;
}
