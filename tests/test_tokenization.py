"""The tokenizer: one vocabulary for both languages, nothing unknown, nothing lost."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest
import sentencepiece

from annotated.base.files import InputError, write_together
from annotated.text.grammar.splits import embedded_split
from annotated.text.tokenization import (
    NORMALIZATIONS,
    PairTokenizer,
    Tokenizer,
    detokenize,
    load_tokenizer,
    tokenize,
    train_tokenizer,
)
from tests.scripts import strings

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return [text for pair in embedded_split("valid") for text in (pair.source, pair.target)]


@pytest.fixture(scope="module")
def tokenizer(texts: list[str]) -> Tokenizer:
    return train_tokenizer(texts, 800)


def sentencepiece_model(texts: list[str], vocab_size: int = 400, **options) -> bytes:
    model = io.BytesIO()
    train = sentencepiece.SentencePieceTrainer.train
    train(sentence_iterator=iter(texts), model_writer=model, vocab_size=vocab_size, minloglevel=3, **options)
    return model.getvalue()


def test_special_tokens_have_ids_0_to_3_and_bytes_follow(tokenizer: Tokenizer) -> None:
    piece = tokenizer.processor.id_to_piece
    assert [piece(i) for i in range(4)] == ["<pad>", "<unk>", "<s>", "</s>"]
    assert (tokenizer.pad_id, tokenizer.unk_id, tokenizer.bos_id, tokenizer.eos_id) == (0, 1, 2, 3)
    assert [piece(4 + i) for i in range(256)] == [f"<0x{i:02X}>" for i in range(256)]


def test_one_vocabulary_serves_both_languages(tokenizer: Tokenizer) -> None:
    """C-5.1-b: a name is the same piece in an English and in a German sentence, and frequent words are one piece."""
    english, german = tokenize(tokenizer, ["Anna does not sleep.", "Anna schläft nicht."])
    assert english[0] == german[0]
    assert tokenizer.processor.id_to_piece(english[0]) == "▁Anna"
    assert {"▁the", "▁die", "▁nicht", "▁not"} <= {tokenizer.processor.id_to_piece(i) for i in range(len(tokenizer))}


def test_training_is_deterministic_and_blank_lines_change_nothing(texts: list[str], tokenizer: Tokenizer) -> None:
    sentencepiece.set_random_generator_seed(99)
    assert train_tokenizer(["", *texts, "  "], 800).model == tokenizer.model


def test_a_very_long_line_is_not_left_out() -> None:
    """SentencePiece drops lines above 4,192 bytes unless it is told otherwise."""
    texts = ["short"] * 3 + ["zebra " * 2_000]
    learned = train_tokenizer(texts, 285)
    assert "▁zebra" in {learned.processor.id_to_piece(i) for i in range(len(learned))}


def test_eos_is_appended_once_and_left_out_of_the_text(tokenizer: Tokenizer) -> None:
    ids, *empty = tokenize(tokenizer, ["The dog sleeps.", "", "  "])
    assert ids[-1] == 3
    assert empty == [[3], [3]]
    assert all(i > 3 for i in ids[:-1])
    assert detokenize(tokenizer, [[2, *ids, 0, 0], [3], [], ids[:-1]]) == ["The dog sleeps.", "", "", "The dog sleeps."]


def test_round_trip_of_every_sentence(texts: list[str], tokenizer: Tokenizer) -> None:
    unseen = [text for pair in embedded_split("test") for text in (pair.source, pair.target)]
    assert detokenize(tokenizer, tokenize(tokenizer, texts)) == texts
    assert detokenize(tokenizer, tokenize(tokenizer, unseen)) == unseen


def test_bytes_carry_what_the_vocabulary_lacks(tokenizer: Tokenizer) -> None:
    for text in ("naïve café", "🙂🇩🇪", "Ωmega 漢字", "a\u00adb", "<s> & </s> [x] \\n"):
        (ids,) = tokenize(tokenizer, [text])
        assert tokenizer.unk_id not in ids
        assert not {tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id} & set(ids[:-1]), "text became a special token"
        assert detokenize(tokenizer, [ids]) == [text]
    (ids,) = tokenize(tokenizer, ["🙂"])
    assert [i - 4 for i in ids[1:-1]] == list("🙂".encode())


def test_half_a_character_is_refused(tokenizer: Tokenizer) -> None:
    """A surrogate on its own has no UTF-8; the text that has one is named, not SentencePiece's complaint."""
    pair = PairTokenizer((tokenizer.model, tokenizer.model), {"<pad>": 0, "<unk>": 1, "</s>": 2})
    for half in ("\ud800", "\udfff"):
        with pytest.raises(InputError, match=rf"text 3: U\+{ord(half):X}"):
            tokenize(tokenizer, ["The dog", "\U0001f642", f"a{half}b", half])
        with pytest.raises(InputError, match=rf"text 1: U\+{ord(half):X}"):
            tokenize(pair, [f">>de<< {half}"], target=True)
    with pytest.raises(TypeError):
        tokenize(tokenizer, ["The dog", None])


@pytest.mark.parametrize(("stored", "plain"), [("\ufb01ne", "fine"), ("\uff28\uff41us", "Haus"), ("Tu\u0308r", "Tür")])
@pytest.mark.parametrize("rule", ["nfkc", "nmt_nfkc"])
def test_what_looks_the_same_is_spelled_the_same(texts: list[str], rule: str, stored: str, plain: str) -> None:
    """NFKC: a ligature, wide letters and a letter with its dots apart get the ids of the plain spelling."""
    tokenizer = train_tokenizer(texts[:500], 400, rule)
    assert (tokenizer.normalization, tokenizer.exact) == (rule, False)
    assert stored != plain
    assert tokenizer.to_ids(stored) == tokenizer.to_ids(plain)
    assert tokenizer.to_text(tokenizer.to_ids(stored)) == plain


@pytest.mark.slow
@pytest.mark.parametrize("size", [400, "characters"])
def test_any_text_comes_back_as_it_was(texts: list[str], size: int | str) -> None:
    """5,000 strings of every script, joiners and directional marks among them: what is in a target can be written."""
    own = train_tokenizer([*texts[:500], "80 m²", "那只大猫看见那只老女孩，然后它睡觉！"], size)
    assert (own.normalization, own.exact) == ("identity", True)
    some = ["80 m²", "1½ Tassen", "10⁵", "…", "™", "می\u200cخواهم", "two  blanks", " at the ends ", "a\x00b"]
    assert [text for text in (*strings(5_000), *some) if own.to_text(own.to_ids(text)) != text] == []
    assert own.to_text(own.to_ids("a▁b")) == "a b"  # the one character that SentencePiece keeps for itself


def test_the_books_own_vocabulary_keeps_its_rule() -> None:
    shipped = load_tokenizer(ROOT / "data" / "models" / "embedded")
    assert (shipped.normalization, shipped.exact) == ("nmt_nfkc", False)
    assert shipped.to_text(shipped.to_ids("80  m²")) == "80 m2"


def test_a_vocabulary_of_characters_has_no_longer_pieces() -> None:
    texts = ["3 October 2017", "2017-10-03"]
    for rule in NORMALIZATIONS:
        own = train_tokenizer(texts, "characters", rule)
        assert len(own) == 4 + 256 + len(set("".join(texts)) - {" "}) + 1
        assert [own.piece(i) for i in own.to_ids("3 Oct")] == ["▁", "3", "▁", "O", "c", "t"]


def test_sizes_of_a_vocabulary_that_a_text_allows() -> None:
    """Four special tokens, 256 bytes and each character at least; and no more pieces than can be made."""
    assert len(train_tokenizer(["Hello world."], 290)) == 290
    assert len(train_tokenizer(["Hello world."], 30_000, at_most=True)) == 290
    assert len(train_tokenizer(["ab ba", "cab"], 264)) == 264
    for some, size, said in (
        (["Hello world."], 30_000, "at most 290"), (["ab ba", "cab"], 100, "at least 264"), (["Hello"], 0, "0 pieces"),
        ([], 300, "there is none"), (["", "  "], 300, "there is none"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=said):
            train_tokenizer(some, size)
    with pytest.raises(ValueError, match="'nfd'"):
        train_tokenizer(["Hello world."], 290, "nfd")


def test_a_file_that_is_no_tokenizer_is_named(texts: list[str], tmp_path: Path) -> None:
    """SentencePiece's own defaults have no padding and put unk first: batches would be padded with a word."""
    path = tmp_path / "tokenizer.model"
    named = re.escape(str(path))
    with pytest.raises(InputError, match=f"^{named}: "):
        load_tokenizer(tmp_path)
    for content in (b"", b"not a model at all", b"\x00\xff" * 50):
        path.write_bytes(content)
        with pytest.raises(InputError, match=f"^{named}: "):
            load_tokenizer(tmp_path)
    path.write_bytes(sentencepiece_model(texts))
    with pytest.raises(InputError, match=rf"^{named}: .*\(-1, 0, 1, 2\)"):
        load_tokenizer(tmp_path)
    path.unlink()
    path.mkdir()
    with pytest.raises(InputError, match=f"^{named}: "):
        load_tokenizer(tmp_path)


@pytest.fixture(scope="module")
def pair(texts: list[str]) -> PairTokenizer:
    """A model for each language, and one list of pieces: eos, unk, a language code, the pieces of both, pad."""
    models = tuple(sentencepiece_model(texts[side::2], 330) for side in (0, 1))
    pieces = ["</s>", "<unk>", ">>deu<<"]
    for model in models:
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        pieces += [processor.id_to_piece(i) for i in range(3, len(processor))]
    return PairTokenizer(models, {piece: i for i, piece in enumerate(dict.fromkeys([*pieces, "<pad>"]))})


def test_each_side_is_cut_by_its_own_model(pair: PairTokenizer, texts: list[str]) -> None:
    assert (pair.eos_id, pair.unk_id, pair.pad_id) == (0, 1, len(pair) - 1)
    german = [text for text in texts[1::2] if pair.unk_id not in tokenize(pair, [text], target=True)[0]]
    assert len(german) > len(texts) / 3
    assert detokenize(pair, tokenize(pair, german, target=True)) == german
    assert tokenize(pair, german) != tokenize(pair, german, target=True)


def test_a_language_code_is_one_token_at_the_start(pair: PairTokenizer) -> None:
    plain = tokenize(pair, ["The dog sleeps."])[0]
    assert tokenize(pair, [">>deu<< The dog sleeps."])[0] == [2, *plain]
    assert 2 not in tokenize(pair, ["The dog >>deu<< sleeps."])[0]
    assert tokenize(pair, [">>xyz<<"])[0] == [pair.unk_id, pair.eos_id]


def test_separate_lists_number_each_side(pair: PairTokenizer, texts: list[str]) -> None:
    backwards = {piece: len(pair) - 1 - i for piece, i in pair.vocabulary.items()}
    two = PairTokenizer(pair.models, pair.vocabulary, backwards)
    (source,), (target,) = tokenize(two, texts[:1]), tokenize(two, texts[1:2], target=True)
    assert source == tokenize(pair, texts[:1])[0]
    assert target[:-1] == [len(pair) - 1 - i for i in tokenize(pair, texts[1:2], target=True)[0][:-1]]
    assert detokenize(two, [target[:-1]]) == texts[1:2]


@pytest.mark.parametrize("separate", [False, True])
def test_a_pair_is_saved_and_read(pair: PairTokenizer, texts: list[str], tmp_path: Path, separate: bool) -> None:
    saved = PairTokenizer(pair.models, pair.vocabulary, dict(pair.vocabulary) if separate else None)
    write_together(tmp_path, saved.files())
    again = load_tokenizer(tmp_path)
    assert isinstance(again, PairTokenizer)
    assert again.files() == saved.files()
    assert tokenize(again, texts) == tokenize(pair, texts)


def lists(vocabulary: dict[str, int], special: tuple = ("<pad>", "<unk>", "</s>")) -> bytes:
    return json.dumps({"source": vocabulary, "target": None, "special": special}).encode()


def test_a_spoiled_pair(pair: PairTokenizer, tmp_path: Path) -> None:
    write_together(tmp_path, pair.files())
    for name, content, said in (
        ("vocabulary.json", b"text", ""), ("vocabulary.json", b"[" * 100_000, ""), ("vocabulary.json", b"[]", ""),
        ("vocabulary.json", lists({"a": 0}), "<pad>"),
        ("vocabulary.json", lists({"<pad>": 0, "<unk>": 2, "</s>": 3}), "no piece has the id 1.*0 to 2"),
        ("vocabulary.json", lists({"<pad>": 0, "<unk>": 1, "</s>": 1}), "two pieces have the id 1"),
        ("vocabulary.json", lists({"a": 0}, ("a", "b")), "'b'"),
        ("target.spm", b"text", ""), ("source.spm", None, ""),
    ):  # fmt: skip
        (tmp_path / name).unlink() if content is None else (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=f"^{re.escape(str(tmp_path / name))}: .*{said}"):
            load_tokenizer(tmp_path)
        write_together(tmp_path, pair.files())


def test_a_vocabulary_of_characters_has_every_character():
    """sentencepiece#1052's kind: it skips sentences with U+2585, and cuts out what spells a special token."""
    texts = ["x▅y Ω", "a <s> b", "c <0x41> d", "e\0f"] * 3
    tokenizer = train_tokenizer(texts, "characters")
    pieces = {tokenizer.piece(i) for i in range(len(tokenizer))}
    assert set("xyΩabcdef<s>0x41") <= pieces
    assert [piece for piece in pieces if len(piece) > 1 and not piece.startswith("<")] == []
    for text in texts:
        assert detokenize(tokenizer, tokenize(tokenizer, [text])) == [text]
