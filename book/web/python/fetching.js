// What a Python in the page is made of: fetched at the first Run, kept in the browser's store where it has one.
const STORE = "annotated-python";

const openStore = async () => {
  try {
    return await caches.open(STORE); // in secure contexts only
  } catch {
    return null;
  }
};

async function answer(url, options) {
  const response = await fetch(url, options);
  if (!response.ok) throw new Error(`${url.pathname.split("/").pop()} is not there (${response.status})`);
  return response;
}

/** What is to know about a page: its cells, the sentences of the payoff, and the parts that are fetched at Run. */
export async function describe(page) {
  const url = new URL(`${page}.json`, import.meta.url);
  const store = await openStore();
  try {
    const response = await answer(url, { cache: "no-cache" });
    await store?.put(url, response.clone()).catch(() => {}); // no room
    return await response.json();
  } catch (error) {
    const kept = await store?.match(url);
    if (!kept) throw error;
    return kept.json();
  }
}

/** The bytes of parts, unpacked, by name, until `signal`; `got` hears of each piece how many bytes it has. */
export async function fetchParts(parts, got, signal) {
  const store = await openStore();
  const found = await Promise.all(parts.map(async (part) => [part.name, await fetchPart(store, part, got, signal)]));
  const wanted = new Set(parts.map(({ url }) => new URL(url, import.meta.url).href));
  for (const { url } of (await store?.keys()) ?? []) {
    const old = [...wanted].some((one) => one !== url && one.split("?")[0] === url.split("?")[0]);
    if (old) await store.delete(url); // of another version
  }
  return Object.fromEntries(found);
}

async function fetchPart(store, { name, url, size }, got, signal) {
  const address = new URL(url, import.meta.url);
  const kept = await store?.match(address);
  const counted = new TransformStream({
    transform(chunk, out) {
      got(chunk.length);
      out.enqueue(chunk);
    },
  });
  const { body } = kept ?? (await answer(address, { signal }));
  const bytes = new Uint8Array(await new Response(body.pipeThrough(counted)).arrayBuffer());
  const whole = await unpacked(bytes).catch(() => []);
  if (whole.length !== size) {
    await store?.delete(address);
    throw new Error(`${name} came cut, or as something else: press Run again`);
  }
  if (!kept) await store?.put(address, new Response(bytes)).catch(() => {}); // no room
  return whole;
}

/** Some hosts unpack what they send, so the first bytes tell. */
async function unpacked(bytes) {
  if (bytes[0] !== 0x1f || bytes[1] !== 0x8b) return bytes;
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Addresses of modules that need no network: each names those before it. `scripts` are [name, bytes], in order. */
export function link(scripts) {
  const made = {};
  for (const [name, bytes] of scripts) {
    const text = new TextDecoder().decode(bytes).replace(/(\bfrom\s*")(\.[^"]+)(?=")/g, (all, before, path) => {
      const other = new URL(path, `https://page.invalid/${name}`).pathname.slice(1);
      return other in made ? before + made[other] : all;
    });
    made[name] = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
  }
  return made;
}
