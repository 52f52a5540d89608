// Chapter 83: what may come out of a run, from what its two models report at the end: the whole one first.

export const learned = ({ share }) => share > 0.1;
export const worksAsWell = (whole, without) => learned(without) && without.share >= 0.75 * whole.share;
export const writesNothingRight = (whole, without) => !learned(without);
export const leaks = (whole, without) => !learned(without) && without.loss < whole.loss + 0.1;
export const repeats = (whole, without) => leaks(whole, without) && new Set(without.written).size === 1;
export const lossStaysHigh = (whole, without) => without.loss > whole.loss + 0.5;
export const learnsNothing = (whole, without) => !learned(without) && without.loss > whole.loss + 1;

/** Whether at least six of the eight digits that were read are written, and no example is right. */
export function isInDisorder(whole, without) {
  const left = [...without.read];
  for (const word of without.written) if (left.includes(word)) left.splice(left.indexOf(word), 1);
  return !learned(without) && left.length <= 2;
}

// `half`: the step at which half of the unseen examples were right for the first time; Infinity where they never were
export const learnsSooner = (whole, without) => without.half < whole.half;
export const learnsLater = (whole, without) => learned(without) && without.half > whole.half;
export const learnsNotSooner = (whole, without) => learned(without) && without.half >= whole.half;
