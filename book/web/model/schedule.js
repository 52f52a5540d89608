// The learning rate: chapter 53 of the book, section 5.3 of the paper. As annotated/schedule.py.

/** Equation (3): it grows with each of the `warmupSteps` first steps, then it falls. Steps count from 1. */
export function learningRate(step, dModel, warmupSteps = 4000) {
  return dModel ** -0.5 * Math.min(step ** -0.5, step * warmupSteps ** -1.5);
}
