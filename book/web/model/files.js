// Files of a model folder, checked before anything is made of them. As annotated/base/files.py.

/** Something the user gave cannot be used. The message is one line: what, where, and what to do. */
export class InputError extends Error {}

const MAX_BYTES = 512 * 2 ** 20; // a page should not try more
const WIDTHS = { F16: 2, BF16: 2, F32: 4 };

/** The content of a JSON file. `bytes` is a Uint8Array, `name` what to call it in a message. */
export function readJson(bytes, name) {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch (error) {
    throw new InputError(`${name}: not a JSON file`);
  }
}

/**
 * What a safetensors file has: for each name { dtype, shape, bytes }, checked against the file's length. No number is
 * read yet. The file: eight bytes with the length of a header, the header in JSON, then the numbers.
 */
export function describeTensors(bytes, name = "model.safetensors") {
  if (bytes.length > MAX_BYTES) throw new InputError(`${name}: larger than ${MAX_BYTES / 2 ** 20} MiB`);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const length = bytes.length < 8 ? NaN : Number(view.getBigUint64(0, true));
  if (!(length <= bytes.length - 8)) throw new InputError(`${name}: not a safetensors file, or cut`);
  const header = readJson(bytes.subarray(8, 8 + length), `${name}, header`);
  const data = bytes.subarray(8 + length);
  const tensors = {};
  for (const [key, about] of Object.entries(header ?? {})) {
    if (key !== "__metadata__") tensors[key] = describeTensor(key, about, data, name);
  }
  return tensors;
}

function describeTensor(key, about, data, name) {
  const { dtype, shape, data_offsets: offsets } = about ?? {};
  if (!Object.hasOwn(WIDTHS, dtype))
    throw new InputError(`${name}: ${key} has the type ${dtype}; F16, BF16 and F32 can be read`);
  const whole = (value) => Number.isInteger(value) && value >= 0;
  if (!Array.isArray(shape) || !shape.every(whole) || !Array.isArray(offsets) || !offsets.every(whole)) {
    throw new InputError(`${name}: ${key} is not described as a tensor`);
  }
  const [start, end] = offsets;
  const count = shape.reduce((product, size) => product * size, 1);
  if (end > data.length || end - start !== count * WIDTHS[dtype]) {
    throw new InputError(`${name}: ${key} should have ${count} numbers; the file is cut or was changed`);
  }
  return { dtype, shape, bytes: data.subarray(start, end) };
}

/** The numbers of described tensors, each { shape, values } with values as float32. */
export function readTensors(described) {
  return Object.fromEntries(
    Object.entries(described).map(([key, { dtype, shape, bytes }]) => [key, { shape, values: toFloats(bytes, dtype) }]),
  );
}

/** Numbers of 16 or 32 bits as float32. */
function toFloats(bytes, dtype) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const values = new Float32Array(bytes.length / WIDTHS[dtype]);
  const half = dtype === "F16" ? halves() : null;
  const bits = new DataView(new ArrayBuffer(4));
  for (let i = 0; i < values.length; i++) {
    if (half) values[i] = half[view.getUint16(2 * i, true)];
    else if (dtype === "F32") values[i] = view.getFloat32(4 * i, true);
    else {
      bits.setUint32(0, view.getUint16(2 * i, true) * 65536); // bfloat16 is the upper half of float32
      values[i] = bits.getFloat32(0);
    }
  }
  return values;
}

let table = null;

/** The value of each of the 65,536 numbers of half precision. */
export function halves() {
  if (table) return table;
  table = new Float32Array(65536);
  for (let i = 0; i < 65536; i++) {
    const sign = i & 0x8000 ? -1 : 1;
    const exponent = (i >> 10) & 31;
    const fraction = (i & 1023) / 1024;
    if (exponent === 0) table[i] = sign * fraction * 2 ** -14;
    else if (exponent === 31) table[i] = fraction ? NaN : sign * Infinity;
    else table[i] = sign * (1 + fraction) * 2 ** (exponent - 15);
  }
  return table;
}
