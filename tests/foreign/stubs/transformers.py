"""Stands in for the package of this name: tokenizers without a vocabulary file, for tests."""

import numpy as np

SIZE = 30_000
PAD = "[PAD]"


class AutoTokenizer:
    """Splits at white space; a token's id is a number made of its letters."""

    pad_token = eos_token = PAD
    pad_token_id = eos_token_id = pad_id = end_id = 0
    vocab_size = SIZE

    @classmethod
    def from_pretrained(cls, *_, **__):
        return cls()

    def encode(self, text, **_):
        return [1 + sum(ord(c) * 31**n for n, c in enumerate(word)) % SIZE for word in text.split()]

    def decode(self, ids, *, skip_special_tokens=False, **_):
        return " ".join(f"t{int(n)}" for n in ids if n or not skip_special_tokens)

    def batch_decode(self, batch, **others):
        return [self.decode(ids, **others) for ids in batch]

    def __call__(self, texts, max_length=None, *, return_offsets_mapping=False, **_):
        texts = [texts] if isinstance(texts, str) else list(texts)
        rows = [self.encode(text)[:max_length] for text in texts]
        width = max(map(len, rows), default=0)
        ids = np.array([row + [0] * (width - len(row)) for row in rows], dtype=np.int64)
        ids = ids.reshape(len(rows), width)
        found = {
            "input_ids": ids,
            "token_type_ids": np.zeros_like(ids),
            "attention_mask": (ids != 0).astype(np.int64),
        }
        if return_offsets_mapping:
            found["offset_mapping"] = np.stack([ids, ids + 1], axis=-1)
        return found

    batch_encode_plus = __call__


BertTokenizer = LlamaTokenizer = RobertaTokenizer = T5Tokenizer = AutoTokenizer


def pipeline(*_, **__):
    """Return a classifier that answers by the length of its text."""
    return lambda text: [{"label": f"{1 + len(text) % 5} stars", "score": len(text) / 1000}]
