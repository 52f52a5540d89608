// Gradients: what PyTorch's autograd brings along. While something is computed, each operation writes down how a
// gradient goes back through it; afterwards these notes are followed from the last to the first.

let notes = null; // while something is recorded

/** Write down a step back, if somebody is recording. */
export function record(step) {
  if (notes) notes.push(step);
}

/** The gradient of a row of numbers, zero at first. */
export function gradientOf(row) {
  return (row.gradient ??= new row.constructor(row.length));
}

/** The gradient of a tensor {values, shape} that is learned. */
export function gradientOfTensor(tensor) {
  return (tensor.gradient ??= new tensor.values.constructor(tensor.values.length));
}

/** A row whose gradient is `shared`: part of another's, because the row itself is part of another. */
export function share(row, shared) {
  if (notes) row.gradient = shared();
}

/** Compute something that ends with a loss, and add the gradients of all that it has used. */
export function backward(compute) {
  notes = [];
  try {
    const result = compute();
    const steps = notes;
    notes = null;
    for (let i = steps.length - 1; i >= 0; i--) steps[i]();
    return result;
  } finally {
    notes = null;
  }
}
