/** Two changes, or words, that are one and the same. */
export const isSame = (one, other) => JSON.stringify(one) === JSON.stringify(other);
