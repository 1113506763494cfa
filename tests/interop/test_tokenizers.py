"""Our byte-level BPE gives the ids that `tokenizers` gives, on tokenizers of the kinds that are in use."""

import json

import pytest
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")

PRETOKENIZERS = {
    "gpt2": lambda: pre_tokenizers.ByteLevel(add_prefix_space=False),
    "gpt2-prefix": lambda: pre_tokenizers.ByteLevel(add_prefix_space=True),
    "smollm": lambda: pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                               pre_tokenizers.ByteLevel(add_prefix_space=False)]),
    "llama3": lambda: pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
                                               pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]),
}

TEXTS = [
    "",
    " ",
    "the river",
    "  the  river   runs\n\n\tpast 1234567 mills, don't it?  ",
    "THE RIVER'S they'LL we've",
    "Ünïcödé, naïve café — 日本語の文章 и русский текст 🙂👍🏽",
    "a\u00a0b\u2003c\u3000d e\u0301 x\u200by",
    "x=1;y[2]+=3.14e-10 # comment\r\n\r\nif (a&&b) {}",
    "<|end|>the river<|end|> <|user|>  runs",
    "  <|pad|>  mills",
    "½ ² Ⅷ ٣ १२३",
]


@pytest.fixture(scope="session", params=PRETOKENIZERS)
def trained(request, tmp_path_factory, corpus):
    tokenizer = Tokenizer(models.BPE(ignore_merges=request.param == "llama3"))
    tokenizer.pre_tokenizer = PRETOKENIZERS[request.param]()
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=600, special_tokens=["<|end|>", "<|user|>"], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(corpus.read_text().splitlines(keepends=True) + TEXTS * 20, trainer)
    tokenizer.add_special_tokens([AddedToken("<|pad|>", lstrip=True, rstrip=True)])
    folder = tmp_path_factory.mktemp("tokenizer")
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder / "tokenizer.json", tokenizer


def test_ids_and_texts_equal_those_of_tokenizers(trained, tributary, tmp_path):
    path, tokenizer = trained
    (tmp_path / "texts.json").write_text(json.dumps(TEXTS))
    done = tributary("inspect-tokens", path, tmp_path / "texts.json")
    assert done.returncode == 0, done.stderr
    ours = json.loads(done.stdout)
    for text, result in zip(TEXTS, ours):
        theirs = tokenizer.encode(text, add_special_tokens=False).ids
        assert result["ids"] == theirs, repr(text)
        assert result["text"] == tokenizer.decode(theirs, skip_special_tokens=False), repr(text)
