"""Writes word vectors with gensim, in each of the published formats.

    python tests/golden/word_vectors.py tests/golden/word_vectors
"""

import sys

import gensim
import numpy as np
from gensim.models import KeyedVectors

assert gensim.__version__ == "4.4.0", gensim.__version__

WORDS = ["the", ",", "Dog", "dog", "new_york", "1", "café", "b'a", "Zebra", "zEBRA"]
WIDTH = 5

vectors = KeyedVectors(WIDTH)
# Value j of word i: (17 i + 3 j - 40) / 7 in f32.
i, j = np.mgrid[: len(WORDS), :WIDTH]
vectors.add_vectors(WORDS, ((17 * i + 3 * j - 40) / np.float64(7)).astype(np.float32))
vectors.save_word2vec_format(sys.argv[1] + ".bin", binary=True, sort_attr=None)
vectors.save_word2vec_format(sys.argv[1] + ".vec", binary=False, sort_attr=None)
vectors.save_word2vec_format(sys.argv[1] + ".txt", binary=False, sort_attr=None, write_header=False)
