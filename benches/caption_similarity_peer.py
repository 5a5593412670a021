"""CIDEr by pycocoevalcap on a sample of pairs; started by caption_similarity.rs.

The first argument is a file with a line per caption: number of its image, tab, caption in lower case. The document
frequencies of all images are computed first, without timing. Timed is only the loop of `CiderScorer.compute_cider`, on
1,000 captions with the captions of one image each as references. Prints the seconds, then a line per pair: image,
caption, value.
"""

import random
import sys
import time

from pycocoevalcap.cider.cider_scorer import CiderScorer, cook_refs, cook_test

PAIRS = 1000

images, captions = {}, []
for line in open(sys.argv[1], encoding="utf-8"):
    image, _, caption = line.rstrip("\n").partition("\t")
    images.setdefault(int(image), []).append(caption)
    captions.append(caption)
corpus = CiderScorer()
for references in images.values():
    corpus += (references[0], references)
corpus.compute_doc_freq()

draw = random.Random(1)
pairs = [(draw.choice(list(images)), draw.randrange(len(captions))) for _ in range(PAIRS)]
# Similar pairs too: a caption of the image itself.
first = {}
for number, caption in enumerate(captions):
    first.setdefault(caption, number)
pairs[::10] = [(image, first[images[image][0]]) for image, _ in pairs[::10]]


class Images(list):
    """List of references whose length is the number of images of the whole corpus, which the scorer uses as N."""

    def __len__(self):
        return len(images)


sample = CiderScorer()
sample.crefs = Images(cook_refs(images[image]) for image, _ in pairs)
sample.ctest = [cook_test(captions[caption]) for _, caption in pairs]
sample.document_frequency = corpus.document_frequency
clock = time.perf_counter()
values = sample.compute_cider()
print(time.perf_counter() - clock)
for (image, caption), value in zip(pairs, values):
    print(image, caption, repr(float(value)))
