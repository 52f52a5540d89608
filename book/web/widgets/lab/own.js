// A model of the reader's own: three files, read in the page, which leave it nowhere.
import { InputError } from "../../model/files.js";
import { FILES, Translator } from "../../model/translation.js";
import { button, make } from "../dom.js";

const LARGEST = 512 * 2 ** 20; // bytes

/** The model of some files, of which those of a model folder are taken by their names. Throws InputError. */
export async function fromFiles(list) {
  const found = {};
  for (const name of FILES) {
    const file = [...list].find((one) => one.name === name);
    if (!file) throw new InputError(`${name} is missing: choose the folder that has ${FILES.join(", ")}`);
    if (file.size > LARGEST) throw new InputError(`${name}: larger than ${LARGEST / 2 ** 20} MiB`);
    found[name] = file;
  }
  const read = async (file) => new Uint8Array(await file.arrayBuffer());
  const bytes = {};
  for (const name of FILES) bytes[name] = await read(found[name]);
  return Translator.from(bytes);
}

/** All files that were dropped, also those of a dropped folder. */
async function dropped(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  const fileOf = (entry) => new Promise((resolve, reject) => entry.file(resolve, reject));
  const inside = (entry) => new Promise((resolve, reject) => entry.createReader().readEntries(resolve, reject));
  const files = [];
  for (const entry of entries) {
    const parts = entry.isDirectory ? await inside(entry) : [entry];
    for (const part of parts) if (part.isFile && FILES.includes(part.name)) files.push(await fileOf(part));
  }
  return files.length ? files : [...transfer.files];
}

/** `onmodel(translator, about)` hears of a model that was loaded, null that the book's is wanted again. */
export function ownPanel(onmodel) {
  const message = make("p", { role: "status" });
  const attempt = async (files) => {
    try {
      const translator = await fromFiles(await files);
      const { d_model: width, num_layers: layers } = translator.model.config;
      onmodel(
        translator,
        `Your own model: ${layers} layers of width ${width}, ${translator.tokenizer.size.toLocaleString("en")} tokens. It stays in this page.`,
      );
    } catch (error) {
      message.className = "problem";
      message.textContent = (
        error instanceof InputError ? error.message : `This could not be read: ${error.message}`
      ).slice(0, 300);
    }
  };
  const input = make("input", { type: "file", multiple: true, webkitdirectory: true, "aria-label": "a model folder" });
  input.addEventListener("change", () => attempt(input.files));
  const zone = make(
    "div",
    { class: "drop" },
    make(
      "p",
      {},
      "Choose a model folder of the package, or drop it here: ",
      FILES.join(", "),
      ". Nothing is sent anywhere.",
    ),
    input,
    button("the book's model again", () => onmodel(null, "The book's model.")),
  );
  zone.addEventListener("dragover", (event) => event.preventDefault());
  zone.addEventListener("drop", (event) => {
    event.preventDefault();
    attempt(dropped(event.dataTransfer));
  });
  return make("div", {}, zone, message);
}
