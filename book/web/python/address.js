// Edits in the address, so that a question can be sent: #run- and, packed, the texts of cells.
const MOST = 200_000; // bytes of all texts

async function through(bytes, stream, most = Infinity) {
  const parts = [];
  let count = 0;
  for (const reader = new Blob([bytes]).stream().pipeThrough(stream).getReader(); ;) {
    const { done, value } = await reader.read();
    if (done) return new Uint8Array(await new Blob(parts).arrayBuffer());
    parts.push(value);
    if ((count += value.length) > most) throw new Error("too long");
  }
}

/** The hash for texts of cells ({id: text}); "" where there are none, null where they are too long for an address. */
export async function toHash(texts) {
  if (!Object.keys(texts).length) return "";
  const given = new TextEncoder().encode(JSON.stringify(texts));
  if (given.length > MOST) return null;
  const bytes = await through(given, new CompressionStream("deflate-raw"));
  const letters = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
  return `#run-${letters.replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "")}`;
}

/** The texts of an address, of cells with these ids; null where it cannot be read. */
export async function fromHash(hash, ids) {
  try {
    const letters = atob(
      hash
        .replace(/^#run-/, "")
        .replace(/-/g, "+")
        .replace(/_/g, "/"),
    );
    const packed = Uint8Array.from(letters, (letter) => letter.charCodeAt(0));
    const bytes = await through(packed, new DecompressionStream("deflate-raw"), MOST);
    const texts = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
    const all = Object.entries(texts);
    if (!all.length || !all.every(([id, text]) => ids.includes(id) && typeof text === "string")) return null;
    return Object.fromEntries(all);
  } catch {
    return null;
  }
}
