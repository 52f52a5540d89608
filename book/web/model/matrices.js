// A matrix is an array of rows: one row for each token. What PyTorch brings along in Python.
import { gradientOf, gradientOfTensor, record } from "./gradients.js";

/** The kind of array that a row is: single precision, unless somebody sets another. */
export const numbers = { Array: Float32Array };

/** x W^T + b for each row of x: nn.Linear, whose weight has the shape [outputs, inputs]. */
export function linear(x, { weight, bias }) {
  const [outputs, inputs] = weight.shape;
  const { values } = weight;
  const results = x.map((row) => {
    const result = new numbers.Array(outputs);
    for (let o = 0; o < outputs; o++) {
      result[o] = dotAt(row, values, o * inputs, inputs) + (bias ? bias.values[o] : 0);
    }
    return result;
  });
  record(() => linearBackward(x, weight, bias, results));
  return results;
}

/** Of y = x W^T + b: W's gradient is dy^T x, that of b the sum of dy, and x's is dy W. */
function linearBackward(x, weight, bias, results) {
  const [outputs, inputs] = weight.shape;
  const { values } = weight;
  const ofWeight = gradientOfTensor(weight);
  const ofBias = bias && gradientOfTensor(bias);
  x.forEach((row, r) => {
    const ofRow = gradientOf(row);
    const ofResult = gradientOf(results[r]);
    for (let o = 0; o < outputs; o++) {
      const gradient = ofResult[o];
      if (gradient === 0) continue;
      if (ofBias) ofBias[o] += gradient;
      increaseAt(ofWeight, o * inputs, row, 0, gradient, inputs);
      increaseAt(ofRow, 0, values, o * inputs, gradient, inputs);
    }
  });
}

/** Add `size` numbers from one place on, times a factor, to those from another place on; four at a time. */
function increaseAt(sums, at, more, from, factor, size) {
  let i = 0;
  for (; i + 3 < size; i += 4) {
    sums[at + i] += factor * more[from + i];
    sums[at + i + 1] += factor * more[from + i + 1];
    sums[at + i + 2] += factor * more[from + i + 2];
    sums[at + i + 3] += factor * more[from + i + 3];
  }
  for (; i < size; i++) sums[at + i] += factor * more[from + i];
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
export function add(x, y) {
  const results = x.map((row, r) => row.map((value, c) => value + y[r][c]));
  record(() =>
    results.forEach((result, r) => {
      increase(gradientOf(x[r]), gradientOf(result));
      increase(gradientOf(y[r]), gradientOf(result));
    }),
  );
  return results;
}

/** Add some numbers, times a factor, to others. */
export function increase(sums, more, factor = 1) {
  increaseAt(sums, 0, more, 0, factor, sums.length);
}

/** Weights of each row of `weights` times the rows of `values`. */
export function blend(weights, values) {
  const results = weights.map((row) => {
    const result = new numbers.Array(values[0].length);
    for (let key = 0; key < row.length; key++) if (row[key] !== 0) increase(result, values[key], row[key]);
    return result;
  });
  record(() =>
    weights.forEach((row, r) => {
      const ofResult = gradientOf(results[r]);
      const ofWeights = gradientOf(row);
      for (let key = 0; key < row.length; key++) {
        ofWeights[key] += dot(ofResult, values[key]);
        if (row[key] !== 0) increase(gradientOf(values[key]), ofResult, row[key]);
      }
    }),
  );
  return results;
}

/** e to each number, divided by their sum; minus infinity becomes 0, and a row of nothing else a row of zeros. */
export function softmax(row) {
  let largest = -Infinity;
  for (const value of row) if (value > largest) largest = value;
  const result = new numbers.Array(row.length);
  if (largest === -Infinity) return result;
  const powers = new Float64Array(row.length);
  let sum = 0;
  for (let i = 0; i < row.length; i++) sum += powers[i] = Math.exp(row[i] - largest);
  for (let i = 0; i < row.length; i++) result[i] = powers[i] / sum;
  return result;
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
