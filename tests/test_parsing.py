"""Trees as translations, bracket F1, entity tags and compressed sentences (chapter 63; section 6.3, table 4)."""

import os
import zipfile
from collections import Counter
from pathlib import Path

import pytest
import torch
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from annotated.base.files import InputError, read_json
from annotated.decoding import Hypothesis
from annotated.model import Transformer, TransformerConfig
from annotated.parsing import (
    PUNCTUATION,
    Parse,
    Tree,
    bracket_f1,
    count_words,
    labelled_brackets,
    linearise,
    parse_brackets,
    parse_outcome,
    read_tree,
    read_trees,
)
from annotated.search.translation import Translator
from annotated.search.trees import PARSING_SEARCH, TreeRules, transduce, tree_symbols, write_trees
from annotated.text.grammar.splits import corpus_fingerprint, embedded_split
from annotated.text.tokenization import train_tokenizer
from annotated.text.treebank import (
    TREEBANK_SPLITS,
    clean_tree,
    read_treebank,
    task_corpus,
    treebank_corpus,
    treebank_path,
)
from tools import experiments

ROOT = Path(__file__).parents[1]
PARSER = ROOT / "data" / "models" / "parser"
PAPER = yaml.safe_load((ROOT / "data" / "paper.yml").read_text(encoding="utf-8"))
TEXT = "(S (NP (DT The) (NN dog)) (VP (VBD saw) (NP (PRP it))) (. .))"
TREE = read_tree(TEXT)
LABELS = ("S", "NP", "VP", "PP", "SBAR", "ADVP", "PRT")
TAGS = ("NN", "VB", "DT", ",", ".", "``", "-LRB-")

leaves = st.builds(lambda tag, word: Tree(tag, word=word), st.sampled_from(TAGS), st.sampled_from("abcde"))
trees = st.recursive(
    st.builds(lambda label, leaf: Tree(label, (leaf,)), st.sampled_from(LABELS), leaves),
    lambda inner: st.builds(
        lambda label, parts: Tree(label, tuple(parts)), st.sampled_from(LABELS), st.lists(inner | leaves, min_size=1)
    ),
    max_leaves=12,
)


# Trees and text


def test_trees_are_read_as_they_are_written():
    assert str(TREE) == TEXT
    assert TREE.words() == ["The", "dog", "saw", "it", "."]
    assert [leaf.label for leaf in TREE.leaves()] == ["DT", "NN", "VBD", "PRP", "."]
    assert read_trees(f"\n( {TEXT} )\n\n( {TEXT} )") == [Tree("", (TREE,))] * 2


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("(S (NN a)", "9"),
        ("(S (NN a)))", "position 10"),
        ("(S (NN a b))", "position 10"),
        ("(S ())", "position 4"),
        ("(S dog (NN a))", "position 13"),
        ("(NN a) (NN b)", "2"),
        ("", "0"),
        ("(NN a) b", "8"),
    ],
)
def test_malformed_gold_trees_are_refused(text: str, named: str):
    with pytest.raises(InputError, match=rf"\b{named}\b"):
        read_tree(text)


def test_linearised_trees_have_no_words():
    assert linearise(TREE) == "(S (NP DT NN ) (VP VBD (NP PRP ) ) . )"
    assert linearise(TREE, copied=True) == "(S (NP The dog ) (VP saw (NP it ) ) . )"
    assert count_words(TREE) == 4  # without punctuation
    assert count_words(read_tree("(NP (`` ``) (NP (NNP Anna) (POS 's)) (NN cat) ('' ''))")) == 2


@pytest.mark.slow
@given(trees)
def test_what_was_written_gives_the_tree_again(tree: Tree):
    """With its words, or without them, where they are put back."""
    assert read_tree(str(tree)) == tree
    assert parse_brackets(linearise(tree), tree.words()) == Parse(tree)
    copied = parse_brackets(linearise(tree, copied=True), tree.words())
    assert copied.tree.words() == tree.words()
    assert not copied.problems


# Malformed output


@pytest.mark.parametrize(
    ("output", "tree", "problems"),
    [
        ("(S (NP DT NN ) (VP VBD (NP PRP ) ) .", TEXT, {"open bracket"}),
        ("(S (NP DT NN ) (VP VBD (NP PRP ) ) . ) )", TEXT, {"surplus bracket"}),
        ("(S (NP DT NN ) (VP VBD (PP ) (NP PRP ) ) . )", TEXT, {"empty constituent"}),
        ("(NP DT NN ) VBD PRP .", "(TOP (NP (DT The) (NN dog)) (VBD saw) (PRP it) (. .))", {"no single root"}),
        ("DT NN VBD PRP .", "(TOP (DT The) (NN dog) (VBD saw) (PRP it) (. .))", {"no single root"}),
        ("( DT NN VBD PRP . )", "( (DT The) (NN dog) (VBD saw) (PRP it) (. .))", {"no label"}),
        ("(S (NP DT NN ) (VP VBD ) . )", None, {"number of words"}),
        ("", None, {"number of words"}),
        (") (S DT NN VBD PRP .", "(S (DT The) (NN dog) (VBD saw) (PRP it) (. .))", {"surplus bracket", "open bracket"}),
    ],
)  # fmt: skip
def test_malformed_outputs_are_repaired_and_named(output: str, tree: str | None, problems: set[str]):
    parse = parse_brackets(output, TREE.words())
    assert parse.problems == problems
    assert (None if parse.tree is None else str(parse.tree)) == tree


@given(st.lists(st.sampled_from(["(S", "(NP", "(", ")", "NN", "x"]), max_size=12))
def test_any_output_can_be_parsed_and_scored(tokens: list[str]):
    parse = parse_brackets(" ".join(tokens), TREE.words())
    assert (parse.tree is None) == ("number of words" in parse.problems)
    assert parse.tree is None or parse.tree.words() == TREE.words()
    scores = bracket_f1([TREE], [parse])
    assert 0 <= scores.f1 <= 100
    assert scores.malformed == bool(parse.problems)


# EVALB's rules


def test_brackets_are_labels_and_spans_without_punctuation():
    assert labelled_brackets(TREE) == Counter([("S", 0, 4), ("NP", 0, 2), ("VP", 2, 4), ("NP", 3, 4)])
    inner = read_tree("(TOP (S (`` ``) (NP (NN a)) (, ,) (NP (NP (NN b)))  (PRN (: -)) (PRT (RP up)) ('' '')))")
    assert labelled_brackets(inner) == Counter(
        {("S", 0, 3): 1, ("NP", 0, 1): 1, ("NP", 1, 2): 2, ("ADVP", 2, 3): 1}
    )  # TOP and what is punctuation only are not there, PRT is ADVP, and equal brackets count as often as they stand


def test_bracket_f1_by_hand():
    flat = read_tree("(S (DT The) (NN dog) (VP (VBD saw) (PRP it)) (. .))")
    scores = bracket_f1([TREE], [Parse(flat)])
    assert (scores.precision, scores.recall, scores.exact) == (100, 50, 0)
    assert scores.f1 == pytest.approx(100 * 2 * 2 / (4 + 2))  # 2 right / (gold + found)
    wrong = read_tree(TEXT.replace("(. .)", "(NN .)"))  # gold tags say what is punctuation
    assert bracket_f1([TREE], [Parse(wrong)]).f1 == 100
    half = bracket_f1([TREE, TREE], [Parse(TREE), Parse(None, frozenset({"number of words"}))])
    assert (half.precision, half.recall, half.malformed, half.sentences) == (100, 50, 1, 2)
    assert half.exact == 0.5
    nothing = bracket_f1([TREE], [Parse(None)])
    assert (nothing.precision, nothing.recall, nothing.f1) == (0, 0, 0)
    for sides in (([TREE], []), ([], [])):
        with pytest.raises(ValueError):
            bracket_f1(*sides)


def pyevalb_counts(gold: Tree, found: Tree) -> tuple[int, int, int]:
    """Gold, found and right brackets of two trees by PYEVALB, which leaves nothing out and compares sets."""
    from PYEVALB.parser import create_from_bracket_string
    from PYEVALB.scorer import Scorer

    result = Scorer().score_trees(*(create_from_bracket_string(str(tree)) for tree in (gold, found)))
    return result.gold_brackets, result.test_brackets, result.matched_brackets


def without(tree: Tree, places: set[int]) -> Tree | None:
    """The tree without the words at some places, what is left empty, and brackets repeated over the same words."""
    count = iter(range(10**6))

    def visit(node: Tree, above: tuple[str, ...] = ()) -> list[Tree]:
        if node.word:
            return [] if next(count) in places else [node]
        label = "ADVP" if node.label == "PRT" else node.label
        inside = [part for child in node.children for part in visit(child)]
        if len(inside) == 1 and label in chain(inside[0]):
            return inside
        return [Tree(label, tuple(inside))] if inside else []

    parts = visit(tree)
    return parts[0] if parts else None


def chain(tree: Tree) -> list[str]:
    """The labels of all constituents over the same words."""
    return [] if tree.word else [tree.label, *(chain(tree.children[0]) if len(tree.children) == 1 else [])]


def check_against_pyevalb(gold: Tree, found: Tree) -> None:
    skipped = {i for i, leaf in enumerate(gold.leaves()) if leaf.label in PUNCTUATION}
    plain = without(gold, skipped), without(found, skipped)
    if plain[0] is None or any(side.word for side in plain):
        return  # PYEVALB divides by the number of brackets
    outcome = parse_outcome(gold, Parse(found))
    ours = parse_outcome(plain[0], Parse(plain[1]))
    assert pyevalb_counts(*plain) == (ours.gold.total(), ours.found.total(), (ours.gold & ours.found).total())
    assert set(ours.gold) == set(outcome.gold)  # what `without` left out was punctuation and repetitions
    assert set(ours.found) == set(outcome.found)


def rebracketed(tree: Tree, data) -> Tree:
    """Another tree over the same words: some constituents are dissolved, some get another label."""
    if tree.word:
        return tree
    parts: list[Tree] = []
    for child in tree.children:
        inner = rebracketed(child, data)
        parts += inner.children if not inner.word and data.draw(st.integers(0, 3)) == 0 else [inner]
    label = data.draw(st.sampled_from(LABELS)) if data.draw(st.integers(0, 3)) == 0 else tree.label
    return Tree(label, tuple(parts))


@pytest.mark.slow
@settings(deadline=None, max_examples=100)
@given(trees, st.data())
def test_brackets_are_counted_as_pyevalb_counts_them(gold: Tree, data):
    check_against_pyevalb(gold, rebracketed(gold, data))


# The treebank, made up and, where it is, real


def test_treebank_trees_are_cleaned():
    raw = "( (S (NP-SBJ-1 (-NONE- *) ) (ADVP|PRT (RP up)) (NP-TMP=2 (NN day) (SBAR (-NONE- 0) (S (-NONE- *T*)))) ) )"
    assert str(clean_tree(read_tree(raw))) == "(S (ADVP (RP up)) (NP (NN day)))"
    assert str(clean_tree(read_tree("(NP (-LRB- -LCB-) (NN a))"))) == "(NP (-LRB- -LCB-) (NN a))"
    assert str(clean_tree(read_tree("( (S (NN a)) (. .))"))) == "(TOP (S (NN a)) (. .))"
    assert clean_tree(read_tree("( (S (-NONE- *)))")) is None


def small_treebank(path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(1, 200):
            text = f"( (S (NP-SBJ (NN n{number}) ) (VP (VB v)) (. .)) )\n( (S (-NONE- *)) )\n"
            archive.writestr(f"treebank/combined/wsj_{number:04}.mrg", text)
    return path


def test_the_treebank_is_divided_by_document(tmp_path: Path):
    corpus = treebank_corpus(small_treebank(tmp_path / "treebank.zip"), copied=False)
    sizes = {split: len(corpus.split(split)) for split in corpus.loaders}
    assert sizes == {"train": 159, "valid": 20, "test": 20}
    assert corpus.split("test")[0].source == "n180 v ."
    assert corpus.split("test")[0].target == "(S (NP NN ) (VP VB ) . )"
    copied = treebank_corpus(tmp_path / "treebank.zip")
    assert copied.split("test")[0].target == "(S (NP n180 ) (VP v ) . )"
    assert not set(TREEBANK_SPLITS["train"]) & set(TREEBANK_SPLITS["test"])


def test_a_missing_treebank_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ANNOTATED_DATA", str(tmp_path))
    with pytest.raises(InputError, match=str(treebank_path())):
        treebank_corpus().split("test")
    (tmp_path / "ptb_sample").mkdir()
    treebank_path().write_bytes(b"no archive")
    with pytest.raises(InputError, match=str(treebank_path())):
        treebank_corpus().split("test")
    monkeypatch.delenv("ANNOTATED_DATA")
    assert treebank_path().is_relative_to(Path.home())


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("ANNOTATED_DATA"), reason="ANNOTATED_DATA is not set: no treebank to read")
def test_the_real_treebank_has_its_sentences():
    trees = {split: read_treebank(treebank_path(), documents) for split, documents in TREEBANK_SPLITS.items()}
    assert sum(map(len, trees.values())) == 3914
    assert min(map(len, trees.values())) > 200
    for tree in trees["test"]:
        if not any("_" in word for word in tree.words()):
            assert parse_brackets(linearise(tree), tree.words()) == Parse(tree)


# Search and model


def test_the_papers_search_is_used(monkeypatch: pytest.MonkeyPatch):
    """C-6.3-f: beam 21, alpha 0.3, at most 300 tokens more than the input."""
    paper = PAPER["training"]["parsing"]["decoding"]
    assert {
        "beam_size": paper["beam_size"],
        "length_penalty": paper["length_penalty"],
        "extra": paper["extra_length"],
    } == PARSING_SEARCH
    asked = []

    def search(model: Transformer, source: torch.Tensor, **options) -> list[list[Hypothesis]]:
        asked.append(options)
        return [[Hypothesis([3], 0.0, 0.0)] for _ in source]

    monkeypatch.setattr("annotated.search.translation.beam_search", search)
    assert transduce(small_translator(), ["a b", "c"]) == ["", ""]
    assert transduce(small_translator(), ["a"], beam_size=4) == [""]
    assert [options["beam_size"] for options in asked] == [21, 4]
    assert {options["extra"] for options in asked} == {300}


def small_translator() -> Translator:
    tokenizer = train_tokenizer(["a b c (S XX )"] * 3, 270)
    config = TransformerConfig(len(tokenizer), d_model=16, d_ff=16, num_heads=2, num_layers=1, max_length=64)
    torch.manual_seed(0)
    return Translator(Transformer(config), tokenizer)


@pytest.mark.slow
def test_outputs_come_in_the_order_of_the_inputs():
    translator = small_translator()
    texts = ["a b c a b", "a", "c b", "", "a a a a a a"]
    together = transduce(translator, texts, beam_size=2, extra=5, max_tokens=16)
    assert together == [transduce(translator, [text], beam_size=2, extra=5)[0] for text in texts]


def test_the_papers_parser_has_four_layers_of_1024():
    """C-6.3-b, C-6.3-d: sizes as in section 6.3, the rest as in base."""
    facts = PAPER["training"]["parsing"]
    sizes = {"num_layers": facts["model"]["N"], "d_model": facts["model"]["d_model"]}
    with torch.device("meta"):
        model = Transformer(TransformerConfig.base(facts["wsj"]["vocabulary"], **sizes))
    assert (model.config.num_layers, model.config.d_model) == (4, 1024)
    assert (model.config.num_heads, model.config.d_ff, model.target_embedding.weight.shape[0]) == (8, 2048, 16000)


# A beam that writes only trees


@pytest.fixture(scope="module")
def parser() -> Translator:
    return Translator.load(PARSER, "cpu")


def rules_for(parser: Translator, tree: Tree, copied: bool, limit: int) -> TreeRules:
    labels, tags = tree_symbols([tree, read_tree("(SBAR (S (SINV (NNS a) (NN b) (VBD c))))")])
    leaves = [{leaf.word} if copied else tags for leaf in tree.leaves()]
    return TreeRules(parser.tokenizer, labels, leaves, limit)


@pytest.mark.slow
@pytest.mark.parametrize("copied", [False, True])
@settings(deadline=None, max_examples=40)
@given(tree=trees)
def test_every_tree_can_be_written(parser: Translator, tree: Tree, copied: bool):
    """C-6.3-a: the rules forbid no tree that has room."""
    pieces = [*parser.tokenizer.to_ids(linearise(tree, copied)), parser.tokenizer.eos_id]
    rules = rules_for(parser, tree, copied, len(pieces) + 8 * len(tree.leaves()))
    for place, piece in enumerate(pieces):
        assert piece in rules.allowed(pieces[:place])


@pytest.mark.slow
@pytest.mark.parametrize("copied", [False, True])
@settings(deadline=None, max_examples=40)
@given(tree=trees, data=st.data())
def test_whatever_is_written_is_a_tree(parser: Translator, tree: Tree, copied: bool, data):
    """C-6.3-a: any choice among what is allowed ends in time as one tree with each word once."""
    rules = rules_for(parser, tree, copied, 8 * len(tree.leaves()) + data.draw(st.integers(8, 100)))
    chance, pieces = data.draw(st.randoms(use_true_random=False)), []
    while parser.tokenizer.eos_id not in pieces:
        pieces.append(chance.choice(sorted(rules.allowed(pieces))))
    assert len(pieces) <= rules.limit
    parse = parse_brackets(parser.tokenizer.to_text(pieces), tree.words())
    assert not parse.problems
    assert parse.tree.words() == tree.words()
    if copied:
        assert [leaf.label for leaf in parse.tree.leaves()] == tree.words()


def test_a_word_to_be_copied_has_the_probability_of_any_word(parser: Translator):
    """Brackets keep their probabilities; a word has that of all words together, and its other pieces are certain."""
    tree = read_tree("(S (NP (NN Krokodile)) (VP (VBD slept)))")
    rules, tokenizer = rules_for(parser, tree, True, 60), parser.tokenizer
    scores = torch.randn(len(tokenizer), generator=torch.Generator().manual_seed(0)).log_softmax(dim=0)
    begun, word = tokenizer.to_ids("(S (NP"), tokenizer.to_ids("Krokodile")
    assert len(word) > 2
    found = rules.rescore(begun, scores)
    openings = {symbol[0] for symbol in rules.opens}
    assert all(found[opening] == scores[opening] for opening in openings)
    words = [i for i in range(len(tokenizer)) if tokenizer.processor.id_to_piece(i)[0] == "▁"]
    brackets = {rules.close[0], *openings}
    everything = scores[[i for i in words if i not in brackets]].exp().sum()
    assert found[word[0]].exp().item() == pytest.approx(everything.item(), rel=1e-5)
    assert set(found.isfinite().nonzero().flatten().tolist()) == rules.allowed(begun)
    inside = rules.rescore([*begun, word[0]], scores)
    assert inside[word[1]] == 0.0
    assert inside.isfinite().sum() == 1
    after = rules.rescore([*begun, *word], scores)
    assert after[rules.close[0]] == scores[rules.close[0]]
    tags = rules_for(parser, tree, False, 60).rescore(begun, scores)
    assert all(tags[i] == scores[i] for i in tags.isfinite().nonzero().flatten())


def test_a_tree_that_does_not_fit_is_refused(parser: Translator):
    with pytest.raises(ValueError, match="5 words fits in 6 pieces"):
        rules_for(parser, TREE, True, 6)


@pytest.mark.slow
def test_the_shipped_parser_writes_only_trees(parser: Translator):
    """C-6.3-a: under the rules each output is a tree, also of sentences longer than any in training."""
    pairs = task_corpus("parsing").split("long")[:2]
    gold = [read_tree(pair.tree) for pair in pairs]
    labels, tags = tree_symbols(map(read_tree, (pair.tree for pair in embedded_split("valid"))))
    texts, sentences = [pair.source for pair in pairs], [tree.words() for tree in gold]
    found = write_trees(parser, texts, sentences, labels, tags, beam_size=2)
    assert not any(parse_brackets(text, tree.words()).problems for text, tree in zip(found, gold, strict=True))


# The task


def test_a_task_changes_only_the_target():
    pairs = task_corpus("parsing", 3).split("test")
    assert [pair.source for pair in pairs] == [pair.source for pair in embedded_split("test")[:3]]
    assert pairs[0].target == linearise(read_tree(pairs[0].tree))
    with pytest.raises(InputError, match="'summary'"):
        task_corpus("summary")


# The record and the shipped parser

RUNS = ROOT / "data" / "runs"


def scores_of(name: str) -> dict[str, dict]:
    """The recorded scores of an experiment, by row and seed."""
    return {path.stem: read_json(path)["scores"] for path in sorted((RUNS / name).glob("*-[0-9]*.json"))}


@pytest.mark.parametrize("name", ["treebank", "treebank-pilot"])
def test_the_record_holds_no_treebank_sentence(name: str):
    assert {path.suffix for path in (RUNS / name).iterdir()} == {".json", ".yml"}
    numbers = {"precision", "recall", "f1", "exact", "malformed", "sentences", "seconds", "problems", "by_sentence"}
    for unit in scores_of(name).values():
        for scores in unit.values():
            assert scores.keys() == numbers
            assert all(isinstance(value, int | bool) for row in scores["by_sentence"] for value in row)
            assert sum(row[4] for row in scores["by_sentence"]) == scores["malformed"]
            assert sum(row[5] for row in scores["by_sentence"]) == scores["problems"].get("number of words", 0)


@pytest.mark.parametrize("name", ["treebank", "tasks"])
def test_under_rules_nothing_is_malformed_and_more_is_right(name: str):
    """C-6.3-a: the output obeys strict rules, and a search can hold a model to them."""
    held = 0
    for unit in scores_of(name).values():
        for search in unit:
            if search.endswith("-rules"):
                free = unit[search.removesuffix("-rules")]
                assert unit[search]["malformed"] == 0 < free["malformed"]
                assert unit[search]["f1"] > free["f1"]
                held += 1
    assert held >= 8


def test_few_settings_were_tried_on_the_development_part():
    """C-6.3-e: dropout, width, tags or words; all else is the same in the trials and in the final runs."""
    pilot, final = (experiments.load_plan(name) for name in ("treebank-pilot", "treebank"))
    assert len(pilot["rows"]) <= 5
    assert {key for row in pilot["rows"] for key in row} == {"id", "model", "copied"}
    assert {key for row in pilot["rows"] for key in row["model"]} == {"dropout", "d_model", "d_ff"}
    assert all(search["split"] == "valid" for search in pilot["searches"])
    assert pilot["model"] == final["model"]
    assert pilot["training"] | {"max_steps": final["training"]["max_steps"]} == final["training"]
    assert final["training"]["label_smoothing"] == 0.1  # as in base
    tried = {name: scores["valid-4-rules"]["f1"] for name, scores in scores_of("treebank-pilot").items()}
    assert max(tried, key=tried.get) == "dropout-0.1-101"


@pytest.mark.slow
def test_the_shipped_parser_is_the_recorded_one(parser: Translator):
    assert parser.notes["corpus_version"] == corpus_fingerprint()
    recorded = (RUNS / "tasks" / "parsing-1-test-21.txt").read_text(encoding="utf-8").splitlines()[:8]
    outputs = transduce(parser, [pair.source for pair in embedded_split("test")[: len(recorded)]])
    assert sum(a == b for a, b in zip(outputs, recorded, strict=True)) >= len(recorded) - 1


@pytest.mark.slow
def test_recorded_scores_are_those_of_the_recorded_outputs():
    for search, scores in scores_of("tasks")["parsing-1"].items():
        outputs = (RUNS / "tasks" / f"parsing-1-{search}.txt").read_text(encoding="utf-8").splitlines()
        gold = [read_tree(pair.tree) for pair in embedded_split(search.split("-")[0])[: len(outputs)]]
        found = bracket_f1(gold, [parse_brackets(o, tree.words()) for o, tree in zip(outputs, gold, strict=True)])
        assert found.f1 == pytest.approx(scores["f1"])
        assert found.malformed == scores["malformed"]
