"""Words of texts and their pairs, by operations that every TensorFlow serves."""

from __future__ import annotations

import tensorflow as tf

_NO_WORD = r"[^\p{L}\p{M}\p{N}]+"
_UNSPACED = r"([\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}])"
"""Characters of scripts that put no spaces between words: each is a word here, and a pair is often a real one."""


def words_and_pairs(texts: tf.Tensor, max_words: int) -> tf.RaggedTensor:
    """Splits texts into words in lower case, and adds pairs of neighboring words.

    Args:
        texts: strings in UTF-8, shape [total_items].
        max_words: words of a text that are read, the first ones.

    Returns:
        Ragged strings [total_items, (num_words)]: the words, then the pairs, with a space between the two.

    Example:
        >>> words_and_pairs(tf.constant(["Größe: XL!", ""]), 10).to_list()[1]
        []
    """
    lower = tf.strings.lower(texts, encoding="utf-8")
    spaced = tf.strings.regex_replace(tf.strings.regex_replace(lower, _NO_WORD, " "), _UNSPACED, r" \1 ")
    words = tf.strings.split(spaced)[:, :max_words]
    found: tf.RaggedTensor = tf.strings.ngrams(words, ngram_width=(1, 2), separator=" ")
    return found
