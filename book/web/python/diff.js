// What differs between two lists, of lines or of words.

/** [sign, item] in order: " " in both, "-" in the first alone, "+" in the second alone. */
export function diff(before, after) {
  const longest = before.map(() => new Uint32Array(after.length + 1)).concat([new Uint32Array(after.length + 1)]);
  for (let i = before.length - 1; i >= 0; i--) {
    for (let j = after.length - 1; j >= 0; j--) {
      const same = before[i] === after[j];
      longest[i][j] = same ? longest[i + 1][j + 1] + 1 : Math.max(longest[i + 1][j], longest[i][j + 1]);
    }
  }
  const found = [];
  for (let [i, j] = [0, 0]; i < before.length || j < after.length;) {
    if (i < before.length && j < after.length && before[i] === after[j]) {
      found.push([" ", before[i++]]);
      j++;
    } else if (j === after.length || (i < before.length && longest[i + 1][j] >= longest[i][j + 1])) {
      found.push(["-", before[i++]]);
    } else {
      found.push(["+", after[j++]]);
    }
  }
  return found;
}
