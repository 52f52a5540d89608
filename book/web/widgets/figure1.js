// Chapter 39: step through Figure 1 with what the trained model really computes.
import { softmax } from "../model/matrices.js";
import { button, fixed, holdFocus, make, teller } from "./dom.js";
import { whenAsked } from "./engine.js";
import { likeliest } from "./genders.js";
import { thumbnail } from "./grid.js";
import { bars, shown } from "./words.js";

export const waits = true;
const SENTENCE = "The animal did not cross the street because it was too tired.";

/**
 * All steps of a forward pass, in the order of Figure 1 from below: { side, part, layer, tokens, rows } with a vector
 * for each token, at attentions also { heads }, their weights.
 */
export function passes(translator, source, target) {
  const { model, tokenizer } = translator;
  const words = { encoder: source, decoder: target };
  const steps = [];
  const note = (side, part, layer, rows, more) => {
    steps.push({ side, part, layer, rows, tokens: words[side].map((id) => shown(tokenizer, id)), ...more });
    return rows;
  };
  const attention = (side, part, layer, module, ...inputs) => {
    let heads = null;
    module.edits.push((what, now) => (what === "weights" ? (heads = now) : now));
    const rows = module.forward(...inputs);
    module.edits.pop();
    return note(side, part, layer, rows, { heads });
  };

  function stack(side, embedding, positions, layers, memory) {
    let x = note(side, "embedding", null, embedding.forward(words[side]));
    x = note(side, "positions", null, positions.forward(x));
    layers.forEach((layer, n) => {
      const frame = (around, part, sublayer) => (x = note(side, `add & norm ${part}`, n, around.forward(x, sublayer)));
      const mask = side === "decoder" ? (query, key) => key <= query : null;
      frame(layer.aroundSelfAttention, "1", (y) =>
        attention(side, "self-attention", n, layer.selfAttention, y, y, mask),
      );
      if (memory)
        frame(layer.aroundCrossAttention, "2", (y) =>
          attention(side, "cross-attention", n, layer.crossAttention, y, memory),
        );
      frame(layer.aroundFeedForward, memory ? "3" : "2", (y) =>
        note(side, "feed-forward", n, layer.feedForward.forward(y)),
      );
    });
    return model[side].finish(x);
  }
  const memory = stack("encoder", model.sourceEmbedding, model.sourcePositions, model.encoder.layers, null);
  const top = stack("decoder", model.targetEmbedding, model.targetPositions, model.decoder.layers, memory);
  const logits = model.output.forward(top);
  note("decoder", "linear & softmax", null, logits.map(softmax), { last: true });
  return steps;
}

const SAYS = {
  embedding: "Each token's row of the embedding matrix, times the square root of d_model. Equal words have equal rows.",
  positions: "The sinusoids are added, and equal words differ from now on.",
  "self-attention": {
    encoder: "Every word looks at all words of the source.",
    decoder: "Every word looks at itself and at what was written before.",
  },
  "cross-attention": "Every word of the output looks at the encoder's last vectors.",
  "feed-forward": "Each vector goes through the same two matrices by itself. No word sees another.",
  "add & norm": "What came out is added to what went in, and each vector is brought to mean 0 and variance 1.",
  "linear & softmax":
    "The last vector is compared with every row of the embedding matrix. The softmax makes probabilities of it.",
};

export function mount(place) {
  whenAsked(place, "Step through Figure 1", (translator) => {
    const { model, tokenizer } = translator;
    const { tokens } = translator.translate(SENTENCE);
    const steps = passes(translator, translator.tokenize(SENTENCE), [model.config.start_id, ...tokens.slice(0, 8)]);
    let at = 0;
    const [told, tell] = teller();
    const [title, picture] = [
      make("h3", {}),
      make("div", { class: "scrolls", tabindex: 0, role: "group", "aria-label": "what this step computes" }),
    ];
    const [back, next] = [button("◀ back", () => show(at - 1)), button("next ▶", () => show(at + 1))];
    const turn = make("div", { class: "beside" }, back, next);
    const map = make(
      "div",
      { class: "map" },
      ["encoder", "decoder"].map((side) =>
        make(
          "ol",
          { class: side, "aria-label": side },
          steps.map((step, i) =>
            step.side === side
              ? make(
                  "li",
                  {},
                  button(nameOf(step, ""), () => show(i), { "data-step": i }),
                )
              : null,
          ),
        ),
      ),
    );

    function show(i) {
      at = Math.max(0, Math.min(steps.length - 1, i));
      const hand = holdFocus(turn);
      back.disabled = at === 0;
      next.disabled = at === steps.length - 1;
      hand();
      const step = steps[at];
      map.querySelectorAll("button").forEach((one) => {
        if (Number(one.dataset.step) === at) one.setAttribute("aria-current", "step");
        else one.removeAttribute("aria-current");
      });
      title.textContent = `${at + 1} of ${steps.length}: ${step.side}, ${nameOf(step)}`;
      picture.replaceChildren(...pictureOf(step, tokenizer));
      const says = SAYS[step.part.replace(/ \d$/, "")];
      tell(`${says[step.side] ?? says} ${step.rows.length} by ${step.rows[0].length.toLocaleString("en")} numbers.`);
    }
    place.append(
      make("p", {}, `${SENTENCE} The decoder has read: ${tokenizer.toText(tokens.slice(0, 8))}`),
      turn,
      make("div", { class: "stepper" }, map, make("div", {}, title, told, picture)),
    );
    show(0);
  });
}

const nameOf = ({ part, layer }, word = "layer ") =>
  part.replace(/ \d$/, "") + (layer === null ? "" : `, ${word}${layer + 1}`);

function pictureOf(step, tokenizer) {
  if (step.last) {
    const scores = Float64Array.from(step.rows.at(-1), Math.log);
    return [
      make("p", {}, `Behind "${step.tokens.at(-1)}" come next:`),
      bars(likeliest(scores).map(({ token, share }) => ({ label: shown(tokenizer, token), share }))),
    ];
  }
  const heads =
    step.heads &&
    make(
      "div",
      { class: "beside" },
      step.heads.map((head, h) => make("figure", {}, thumbnail(head), make("small", {}, `head ${h + 1}`))),
    );
  const caption = make(
    "p",
    { class: "quiet" },
    `Vectors, a row for each token; blue below zero, orange above. The first three numbers of "${step.tokens[0]}": ${[...step.rows[0].slice(0, 3)].map((number) => fixed(number)).join(", ")}.`,
  );
  return [heads, heatMap(step.rows, step.tokens), caption].filter(Boolean);
}

/** Rows of numbers as colours: transparent at zero, so that it suits both themes. */
function heatMap(rows, tokens) {
  const [height, width] = [rows.length, rows[0].length];
  const canvas = make("canvas", { width, height, role: "img", "aria-label": `${height} vectors of ${width} numbers` });
  const image = new ImageData(width, height);
  const largest = Math.max(...rows.map((row) => row.reduce((most, value) => Math.max(most, Math.abs(value)), 0)));
  rows.forEach((row, y) =>
    row.forEach((value, x) => {
      const colour = value < 0 ? [2, 98, 224] : [216, 92, 8];
      image.data.set([...colour, 255 * Math.sqrt(Math.abs(value) / largest)], 4 * (y * width + x));
    }),
  );
  canvas.getContext("2d").putImageData(image, 0, 0);
  return make(
    "div",
    { class: "heat" },
    make(
      "ol",
      {},
      tokens.map((token) => make("li", {}, token)),
    ),
    canvas,
  );
}
