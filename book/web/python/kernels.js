// Loops over numbers for the small torch of the page: what PyTorch's kernels do, on typed arrays.
// A view is an array of numbers with a shape, a stride for each axis, and the place of its first number.

import { halves as table } from "../model/files.js";

const ARRAYS = {
  bool: Uint8Array,
  int32: Int32Array,
  int64: Float64Array, // whole numbers up to 2^53
  float32: Float32Array,
  float64: Float64Array,
};

const LARGEST = 2 ** 27; // of a tensor in a page

class View {
  constructor(kind, data, shape, strides, offset = 0) {
    Object.assign(this, { kind, data, shape, strides, offset });
  }
}

const product = (sizes) => sizes.reduce((a, b) => a * b, 1);

function stridesOf(shape) {
  const strides = new Array(shape.length);
  for (let axis = shape.length - 1, step = 1; axis >= 0; step *= shape[axis--]) strides[axis] = step;
  return strides;
}

/** A new view of zeros. */
export function zeros(kind, shape) {
  const count = product(shape);
  if (count > LARGEST) throw new RangeError(`${count} numbers`);
  return new View(kind, new ARRAYS[kind](count), shape, stridesOf(shape));
}

/** The same numbers, seen in another way: `axes` are the sizes, then the strides. */
export const view = (x, offset, ...axes) =>
  new View(x.kind, x.data, axes.slice(0, axes.length / 2), axes.slice(axes.length / 2), offset);

/** A view of numbers that Python hands over. */
export function holding(kind, numbers, ...shape) {
  const x = zeros(kind, shape);
  x.data.set(numbers);
  return x;
}

/** A new view of one number, again and again. */
export const constant = (kind, value, ...shape) => {
  const x = zeros(kind, shape);
  x.data.fill(fitting(kind)(value));
  return x;
};

/** Numbers of half precision, from their bits. */
export const halves = (bits) => Float32Array.from(bits, (each) => table()[each]);

/** Go through all rows of a shape: `visit` hears where the row of each operand begins. */
function eachRow(shape, strides, starts, visit) {
  if (shape.includes(0)) return;
  const at = [...starts];
  const place = new Array(shape.length).fill(0);
  for (;;) {
    visit(at);
    let axis = shape.length - 2;
    for (; axis >= 0; axis--) {
      at.forEach((_, i) => (at[i] += strides[i][axis]));
      if (++place[axis] < shape[axis]) break;
      at.forEach((_, i) => (at[i] -= strides[i][axis] * shape[axis]));
      place[axis] = 0;
    }
    if (axis < 0) return;
  }
}

/** The strides with which a view goes through a larger shape; an axis of size 1 stands still. */
function spread(x, shape) {
  const missing = shape.length - x.shape.length;
  return shape.map((_, axis) => (axis < missing || x.shape[axis - missing] === 1 ? 0 : x.strides[axis - missing]));
}

const common = (a, b) => {
  const [long, short] = a.length >= b.length ? [a, b] : [b, a];
  const missing = long.length - short.length;
  return long.map((size, axis) => (axis >= missing && size === 1 ? short[axis - missing] : size));
};

const isDense = (x) => {
  let step = 1;
  for (let axis = x.shape.length - 1; axis >= 0; step *= x.shape[axis--]) {
    if (x.shape[axis] !== 1 && x.strides[axis] !== step) return false;
  }
  return true;
};

const UNARY = {
  abs: Math.abs,
  acos: Math.acos,
  ceil: Math.ceil,
  copy: (x) => x,
  cos: Math.cos,
  erf,
  exp: Math.exp,
  floor: Math.floor,
  isfinite: (x) => +Number.isFinite(x),
  isinf: (x) => +(Math.abs(x) === Infinity),
  isnan: (x) => +Number.isNaN(x),
  log: Math.log,
  log1p: Math.log1p,
  log2: Math.log2,
  logical_not: (x) => +!x,
  neg: (x) => -x,
  nonzero: (x) => +(x !== 0),
  bitwise_not: (x) => -x - 1,
  reciprocal: (x) => 1 / x,
  relu: (x) => (x < 0 ? 0 : x),
  round: (x) => (Math.abs(x % 1) === 0.5 ? 2 * Math.round(x / 2) : Math.round(x)),
  rsqrt: (x) => 1 / Math.sqrt(x),
  sigmoid: (x) => 1 / (1 + Math.exp(-x)),
  sign: Math.sign,
  sin: Math.sin,
  sqrt: Math.sqrt,
  square: (x) => x * x,
  tan: Math.tan,
  tanh: Math.tanh,
  trunc: Math.trunc,
};

const BINARY = {
  add: (a, b) => a + b,
  sub: (a, b) => a - b,
  mul: (a, b) => a * b,
  div: (a, b) => a / b,
  floor_divide: (a, b) => Math.floor(a / b),
  remainder: (a, b) => a - b * Math.floor(a / b),
  pow: (a, b) => a ** b,
  eq: (a, b) => +(a === b),
  ne: (a, b) => +(a !== b),
  lt: (a, b) => +(a < b),
  le: (a, b) => +(a <= b),
  gt: (a, b) => +(a > b),
  ge: (a, b) => +(a >= b),
  bitwise_and: (a, b) => a & b,
  bitwise_or: (a, b) => a | b,
  bitwise_xor: (a, b) => a ^ b,
  maximum: (a, b) => (a > b || Number.isNaN(a) ? a : b),
  minimum: (a, b) => (a < b || Number.isNaN(a) ? a : b),
};

/** The error function, as exact as single precision: its series near 0, and a continued fraction beyond. */
function erf(x) {
  const size = Math.abs(x);
  if (size > 6) return Math.sign(x);
  if (size < 2.5) {
    let term = x;
    let sum = x;
    for (let n = 1; Math.abs(term) > 1e-17 * Math.abs(sum); n++) {
      term *= -(x * x) / n;
      sum += term / (2 * n + 1);
    }
    return (2 / Math.sqrt(Math.PI)) * sum;
  }
  let rest = 0;
  for (let n = 60; n > 0; n--) rest = n / 2 / (size + rest);
  return Math.sign(x) * (1 - Math.exp(-size * size) / (Math.sqrt(Math.PI) * (size + rest)));
}

// a loop for each kind of numbers and each operation, so that the engine makes a fast one of each
function loops(table, loop) {
  const ofKind = () => Object.fromEntries(Object.entries(table).map(([name, apply]) => [name, loop(apply)]));
  return Object.fromEntries(Object.keys(ARRAYS).map((kind) => [kind, ofKind()]));
}

const unaryLoops = loops(UNARY, (apply) => (out, at, x, start, step, count) => {
  for (let i = 0; i < count; i++) out[at + i] = apply(x[start + i * step]);
});

const binaryLoops = loops(BINARY, (apply) => (out, at, a, startA, stepA, b, startB, stepB, count) => {
  for (let i = 0; i < count; i++) out[at + i] = apply(a[startA + i * stepA], b[startB + i * stepB]);
});

/** One number from each: `name` of UNARY. */
export function unary(name, kind, x) {
  const result = zeros(kind, x.shape);
  const [loop, { data }] = [unaryLoops[kind][name], result];
  if (isDense(x)) {
    loop(data, 0, x.data, x.offset, 1, data.length);
    return result;
  }
  const [width, step] = [x.shape.at(-1) ?? 1, x.strides.at(-1) ?? 0];
  let at = 0;
  eachRow(x.shape, [x.strides], [x.offset], ([start]) => {
    loop(data, at, x.data, start, step, width);
    at += width;
  });
  return result;
}

const asView = (x) => (typeof x === "number" ? new View("", [x], [], []) : x);

/** One number from each two, after PyTorch's rules of broadcasting: `name` of BINARY. The other one may be a number. */
export function binary(name, kind, a, b) {
  [a, b] = [asView(a), asView(b)];
  const result = zeros(kind, common(a.shape, b.shape));
  const [loop, { shape, data }] = [binaryLoops[kind][name], result];
  const isWhole = (x) => isDense(x) && product(x.shape) === data.length;
  if (isWhole(a) && (b.shape.length === 0 || isWhole(b))) {
    loop(data, 0, a.data, a.offset, 1, b.data, b.offset, b.shape.length ? 1 : 0, data.length);
    return result;
  }
  const strides = [spread(a, shape), spread(b, shape)];
  const width = shape.at(-1) ?? 1;
  const [stepA, stepB] = strides.map((each) => each.at(-1) ?? 0);
  let at = 0;
  eachRow(shape, strides, [a.offset, b.offset], ([startA, startB]) => {
    loop(data, at, a.data, startA, stepA, b.data, startB, stepB, width);
    at += width;
  });
  return result;
}

/** a where `condition` is true, otherwise b. */
export function where(kind, condition, a, b) {
  [a, b] = [asView(a), asView(b)];
  const result = zeros(kind, common(common(condition.shape, a.shape), b.shape));
  const { shape, data } = result;
  const strides = [condition, a, b].map((each) => spread(each, shape));
  const steps = strides.map((each) => each.at(-1) ?? 0);
  const width = shape.at(-1) ?? 1;
  let at = 0;
  eachRow(shape, strides, [condition.offset, a.offset, b.offset], (starts) => {
    for (let i = 0; i < width; i++) {
      data[at++] = condition.data[starts[0] + i * steps[0]]
        ? a.data[starts[1] + i * steps[1]]
        : b.data[starts[2] + i * steps[2]];
    }
  });
  return result;
}

/** What becomes of a number that is written among others of a kind. */
const fitting = (kind) => (kind === "bool" ? (x) => +(x !== 0) : kind.startsWith("int") ? Math.trunc : (x) => x);

/** Write numbers into a view, in place. */
export function assign(x, y) {
  y = asView(y);
  if (y.data === x.data) y = unary("copy", y.kind, y); // they may overlap
  const strides = [x.strides, spread(y, x.shape)];
  const [stepX, stepY] = strides.map((each) => each.at(-1) ?? 0);
  const width = x.shape.at(-1) ?? 1;
  if (x.kind !== y.kind && !x.kind.startsWith("float")) {
    y = new View(x.kind, Array.from(y.data, fitting(x.kind)), y.shape, y.strides, y.offset);
  }
  eachRow(x.shape, strides, [x.offset, y.offset], ([startX, startY]) => {
    for (let i = 0; i < width; i++) x.data[startX + i * stepX] = y.data[startY + i * stepY];
  });
}

/** The numbers at some places of a view's array; and numbers written there. */
export function take(x, places) {
  const result = zeros(x.kind, places.shape);
  places.data.forEach((place, i) => (result.data[i] = x.data[place]));
  return result;
}

export function put(x, places, y) {
  const numbers = spreadOut(asView(y), places.shape);
  places.data.forEach((place, i) => (x.data[place] = numbers[i]));
}

const spreadOut = (x, shape) =>
  unary("copy", "float64", new View("float64", x.data, shape, spread(x, shape), x.offset)).data;

const REDUCTIONS = {
  sum: gathered(BINARY.add, 0),
  prod: gathered(BINARY.mul, 1),
  amax: gathered(BINARY.maximum, -Infinity),
  amin: gathered(BINARY.minimum, Infinity),
  any: (row) => +row.some(Boolean),
  all: (row) => +row.every(Boolean),
  argmax: (row) => best(row, (a, b) => a > b),
  argmin: (row) => best(row, (a, b) => a < b),
};

function gathered(apply, first) {
  return (row) => {
    let found = first;
    for (let i = 0; i < row.length; i++) found = apply(found, row[i]);
    return found;
  };
}

function best(row, isBetter) {
  let place = 0;
  for (let i = 1; i < row.length; i++) {
    if (!Number.isNaN(row[place]) && (isBetter(row[i], row[place]) || Number.isNaN(row[i]))) place = i;
  }
  return place;
}

/** Over the last axis, one number from each row: `name` of REDUCTIONS. */
export function reduce(name, kind, x) {
  const result = zeros(kind, x.shape.slice(0, -1));
  eachRowOf(x, (row, at) => (result.data[at] = REDUCTIONS[name](row)));
  return result;
}

/** `visit` hears each row over the last axis, as an array of its own, and its number. */
function eachRowOf(x, visit) {
  const [width, step] = [x.shape.at(-1), x.strides.at(-1)];
  const row = new Float64Array(width);
  const outer = [...x.shape.slice(0, -1), 1];
  let at = 0;
  eachRow(outer, [[...x.strides.slice(0, -1), 0]], [x.offset], ([start]) => {
    for (let i = 0; i < width; i++) row[i] = x.data[start + i * step];
    visit(row, at++);
  });
}

const ROWS = {
  softmax(row, out) {
    const largest = REDUCTIONS.amax(row);
    let sum = 0;
    for (let i = 0; i < row.length; i++) sum += out[i] = Math.exp(row[i] - largest);
    for (let i = 0; i < row.length; i++) out[i] /= sum;
  },
  log_softmax(row, out) {
    const largest = REDUCTIONS.amax(row);
    let sum = 0;
    for (let i = 0; i < row.length; i++) sum += Math.exp(row[i] - largest);
    for (let i = 0; i < row.length; i++) out[i] = row[i] - largest - Math.log(sum);
  },
  /** To a mean of 0 and a variance of 1. */
  normalized(row, out, eps) {
    const mean = REDUCTIONS.sum(row) / row.length;
    let variance = 0;
    for (let i = 0; i < row.length; i++) variance += (row[i] - mean) ** 2 / row.length;
    const scale = 1 / Math.sqrt(variance + eps);
    for (let i = 0; i < row.length; i++) out[i] = (row[i] - mean) * scale;
  },
  cumsum(row, out) {
    for (let i = 0, sum = 0; i < row.length; i++) out[i] = sum += row[i];
  },
  /** The places of the numbers from the smallest to the largest, equal ones as they stand; NaN is largest. */
  argsort(row, out) {
    const order = Array.from(row, (_, i) => i).sort((i, j) => compare(row[i], row[j]) || i - j);
    out.set(order);
  },
  argsort_down(row, out) {
    const order = Array.from(row, (_, i) => i).sort((i, j) => compare(row[j], row[i]) || i - j);
    out.set(order);
  },
};

const compare = (a, b) => Number.isNaN(a) - Number.isNaN(b) || (a < b ? -1 : a > b ? 1 : 0);

/** Over the last axis, a row from each row: `name` of ROWS, and what it needs besides. */
export function rows(name, kind, x, more) {
  const result = zeros(kind, x.shape);
  const width = x.shape.at(-1);
  const out = new Float64Array(width);
  eachRowOf(x, (row, at) => {
    ROWS[name](row, out, more);
    result.data.set(out, at * width);
  });
  return result;
}

/** The product of matrices: a (..., n, k), b (..., k, m), leading axes after the rules of broadcasting. */
export function matmul(kind, a, b) {
  if (b.shape.length === 2 && a.shape.length > 2) {
    if (!isDense(a)) a = unary("copy", kind, a); // one large product instead of many
    const { shape, data, offset } = a;
    const flat = new View(kind, data, [product(shape.slice(0, -1)), shape.at(-1)], [shape.at(-1), 1], offset);
    const { data: found } = matmul(kind, flat, b);
    const whole = [...shape.slice(0, -1), b.shape.at(-1)];
    return new View(kind, found, whole, stridesOf(whole), 0);
  }
  const [n, k] = a.shape.slice(-2);
  const m = b.shape.at(-1);
  const batch = common(a.shape.slice(0, -2), b.shape.slice(0, -2));
  const result = zeros(kind, [...batch, n, m]);
  if (!k) return result;
  if (a.strides.at(-1) !== 1) a = unary("copy", a.kind, a);
  // rows of b's transpose in one piece, so that each number is a dot product of two rows
  let turned = new View(
    b.kind,
    b.data,
    [...b.shape.slice(0, -2), m, k],
    [...b.strides.slice(0, -2), b.strides.at(-1), b.strides.at(-2)],
    b.offset,
  );
  if (turned.strides.at(-1) !== 1) turned = unary("copy", b.kind, turned);
  const strides = [a, turned].map((each) => [...spread(leading(each), batch), 0]);
  const [stepA, stepB] = [a.strides.at(-2), turned.strides.at(-2)];
  let at = 0;
  eachRow([...batch, 1], strides, [a.offset, turned.offset], ([startA, startB]) => {
    products[kind](a.data, startA, stepA, turned.data, startB, stepB, result.data, at, n, k, m);
    at += n * m;
  });
  return result;
}

const leading = ({ shape, strides }) => ({ shape: shape.slice(0, -2), strides: strides.slice(0, -2) });

/**
 * Dot products of n rows with m rows of k numbers, in squares of four by four as long as there are four rows: each
 * number that is read serves four times. A function for each kind of numbers, so that the engine makes a fast one of
 * each.
 */
const products = Object.fromEntries(
  Object.keys(ARRAYS).map((kind) => [
    kind,
    (a, startA, stepA, b, startB, stepB, out, at, n, k, m) => {
      let row = 0;
      for (; row + 4 <= n; row += 4) {
        const a0 = startA + row * stepA;
        const [a1, a2, a3] = [a0 + stepA, a0 + 2 * stepA, a0 + 3 * stepA];
        let column = 0;
        for (; column + 4 <= m; column += 4) {
          const b0 = startB + column * stepB;
          const [b1, b2, b3] = [b0 + stepB, b0 + 2 * stepB, b0 + 3 * stepB];
          // prettier-ignore
          let s00 = 0, s01 = 0, s02 = 0, s03 = 0, s10 = 0, s11 = 0, s12 = 0, s13 = 0;
          // prettier-ignore
          let s20 = 0, s21 = 0, s22 = 0, s23 = 0, s30 = 0, s31 = 0, s32 = 0, s33 = 0;
          // prettier-ignore
          for (let i = 0; i < k; i++) {
            const x0 = a[a0 + i], x1 = a[a1 + i], x2 = a[a2 + i], x3 = a[a3 + i];
            const y0 = b[b0 + i], y1 = b[b1 + i], y2 = b[b2 + i], y3 = b[b3 + i];
            s00 += x0 * y0; s01 += x0 * y1; s02 += x0 * y2; s03 += x0 * y3;
            s10 += x1 * y0; s11 += x1 * y1; s12 += x1 * y2; s13 += x1 * y3;
            s20 += x2 * y0; s21 += x2 * y1; s22 += x2 * y2; s23 += x2 * y3;
            s30 += x3 * y0; s31 += x3 * y1; s32 += x3 * y2; s33 += x3 * y3;
          }
          const to = at + row * m + column;
          four(out, to, s00, s01, s02, s03);
          four(out, to + m, s10, s11, s12, s13);
          four(out, to + 2 * m, s20, s21, s22, s23);
          four(out, to + 3 * m, s30, s31, s32, s33);
        }
        for (; column < m; column++) {
          for (let i = 0; i < 4; i++) {
            out[at + (row + i) * m + column] = dot(a, a0 + i * stepA, b, startB + column * stepB, k);
          }
        }
      }
      for (; row < n; row++) {
        const a0 = startA + row * stepA;
        let column = 0;
        for (; column + 4 <= m; column += 4) {
          const b0 = startB + column * stepB;
          const [b1, b2, b3] = [b0 + stepB, b0 + 2 * stepB, b0 + 3 * stepB];
          let [s0, s1, s2, s3] = [0, 0, 0, 0];
          for (let i = 0; i < k; i++) {
            const x = a[a0 + i];
            s0 += x * b[b0 + i];
            s1 += x * b[b1 + i];
            s2 += x * b[b2 + i];
            s3 += x * b[b3 + i];
          }
          four(out, at + row * m + column, s0, s1, s2, s3);
        }
        for (; column < m; column++) out[at + row * m + column] = dot(a, a0, b, startB + column * stepB, k);
      }
    },
  ]),
);

function four(out, to, s0, s1, s2, s3) {
  out[to] = s0;
  out[to + 1] = s1;
  out[to + 2] = s2;
  out[to + 3] = s3;
}

function dot(a, startA, b, startB, k) {
  let sum = 0;
  for (let i = 0; i < k; i++) sum += a[startA + i] * b[startB + i];
  return sum;
}

/** The numbers of a view in order, as one array; and its only number. */
export const list = (x) => unary("copy", x.kind === "float32" ? "float64" : x.kind, x).data;
export const item = (x) => x.data[x.offset];

/** The places of the numbers that are not zero, each as its number in the order of the view. */
export function places(x) {
  const found = [];
  list(x).forEach((value, i) => value && found.push(i));
  return Float64Array.from(found);
}

/** Random numbers as PyTorch draws them on a CPU: the Mersenne Twister of Matsumoto and Nishimura. */
export class Generator {
  constructor(seed) {
    this.seed(seed);
  }

  seed(seed) {
    this.words = new Uint32Array(624);
    this.words[0] = seed;
    for (let i = 1; i < 624; i++) {
      const last = this.words[i - 1];
      this.words[i] = Math.imul(1812433253, last ^ (last >>> 30)) + i;
    }
    this.at = 624;
    this.kept = null; // normal numbers come in twos
  }

  /** 32 random bits. */
  bits() {
    const { words } = this;
    if (this.at === 624) {
      for (let i = 0; i < 624; i++) {
        const bits = (words[i] & 0x80000000) | (words[(i + 1) % 624] & 0x7fffffff);
        words[i] = words[(i + 397) % 624] ^ (bits >>> 1) ^ (bits & 1 ? 0x9908b0df : 0);
      }
      this.at = 0;
    }
    let word = words[this.at++];
    word ^= word >>> 11;
    word ^= (word << 7) & 0x9d2c5680;
    word ^= (word << 15) & 0xefc60000;
    return (word ^ (word >>> 18)) >>> 0;
  }

  /** Evenly between 0 and 1, as finely as the kind of number allows. */
  even(kind) {
    if (kind === "float32") return (this.bits() & 0xffffff) / 2 ** 24;
    const high = this.bits() & 0x1fffff;
    return (high * 2 ** 32 + this.bits()) / 2 ** 53;
  }

  uniform(x) {
    for (let i = 0; i < x.data.length; i++) x.data[i] = this.even(x.kind);
    return x;
  }

  /** Box and Muller's normal numbers: sixteen at a time, or one by one where there are fewer. */
  normal(x) {
    const { data, kind } = x;
    if (data.length < 16) {
      for (let i = 0; i < data.length; i++) data[i] = this.one();
      return x;
    }
    this.uniform(x);
    const turn = (start) => {
      for (let i = start; i < start + 8; i++) {
        const radius = Math.sqrt(-2 * Math.log(1 - data[i]));
        const angle = 2 * Math.PI * data[i + 8];
        data[i] = radius * Math.cos(angle);
        data[i + 8] = radius * Math.sin(angle);
      }
    };
    for (let start = 0; start + 15 < data.length; start += 16) turn(start);
    if (data.length % 16) {
      for (let i = data.length - 16; i < data.length; i++) data[i] = this.even(kind);
      turn(data.length - 16);
    }
    return x;
  }

  one() {
    const { kept } = this;
    if (kept !== null) {
      this.kept = null;
      return kept;
    }
    const angle = 2 * Math.PI * this.even("float64");
    const radius = Math.sqrt(-2 * Math.log1p(-this.even("float64")));
    this.kept = radius * Math.sin(angle);
    return radius * Math.cos(angle);
  }

  /** Whole numbers from `low` to below `high`. */
  whole(x, low, high) {
    for (let i = 0; i < x.data.length; i++) x.data[i] = low + (this.bits() % (high - low));
    return x;
  }

  /** The numbers below the size of `x` in a random order. */
  order(x) {
    const { data } = x;
    data.forEach((_, i) => (data[i] = i));
    for (let i = 0; i < data.length - 1; i++) {
      const other = i + (this.bits() % (data.length - i));
      [data[i], data[other]] = [data[other], data[i]];
    }
    return x;
  }

  get state() {
    return [Array.from(this.words), this.at, this.kept];
  }

  set state([words, at, kept]) {
    Object.assign(this, { words: Uint32Array.from(words), at, kept });
  }
}
