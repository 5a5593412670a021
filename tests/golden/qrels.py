"""Writes judgements and runs in TREC's form, and measures of ranx, for tests of `qrels` and `pairloom trec`.

    python tests/golden/qrels.py

reads the vectors of 16 images with 3 captions each (embeddings_images.npy, embeddings_captions.npy) and writes into its
own folder:
  qrels_image_ids.npy (i4) and qrels_caption_ids.txt: identifiers of the rows, of which some are both an image and a
  caption;
  qrels_i2t.txt and qrels_t2i.txt: judgements of grades 0 to 2 for some queries;
  qrels_run_i2t.txt and qrels_run_t2i.txt: the ten best items of every query, as ranx saves a run;
  qrels.json: measures by ranx, for grades of at least 1 and of at least 2, in percent.
mAP@R is ranx's average precision of the first R items, query by query. ranx counts a query without a relevant item as 0;
such queries are left out here, as their measures are not defined.
"""

import importlib.metadata
import json
import pathlib

import numpy
import ranx

assert importlib.metadata.version("ranx") == "0.3.21" and numpy.__version__ == "2.4.6"

CAPTIONS, LISTED = 3, 10
folder = pathlib.Path(__file__).parent
random = numpy.random.default_rng(16)
images = numpy.load(folder / "embeddings_images.npy").astype("<f8")
captions = numpy.load(folder / "embeddings_captions.npy").astype("<f8")
images /= numpy.linalg.norm(images, axis=1, keepdims=True)
captions /= numpy.linalg.norm(captions, axis=1, keepdims=True)
image_ids = 2000 - 11 * numpy.arange(len(images))
caption_ids = 1900 + random.permutation(2 * len(captions))[: len(captions)]
numpy.save(folder / "qrels_image_ids.npy", image_ids.astype("<i4"))
numpy.savetxt(folder / "qrels_caption_ids.txt", caption_ids, fmt="%d")

scores = images @ captions.T
golden = {}
for direction, table, queries, items in (
    ("i2t", scores, image_ids, caption_ids),
    ("t2i", scores.T, caption_ids, image_ids),
):
    ordered = numpy.sort(table, axis=1)
    assert (ordered[:, 1:] - ordered[:, :-1]).min() > 2e-6, "scores that rounding could exchange"
    own = numpy.arange(48) // CAPTIONS == numpy.arange(16)[:, None]
    own = own if direction == "i2t" else own.T
    lines = []
    for i in random.permutation(len(queries))[: len(queries) * 3 // 4]:
        judged = set(numpy.flatnonzero(own[i])) | set(random.permutation(len(items))[: 1 + i % 7].tolist())
        for j in judged:
            grade = int(random.integers(0, 3)) if i % 5 else 0
            lines.append(f"{queries[i]} 0 {items[j]} {grade}")
    path = folder / f"qrels_{direction}.txt"
    path.write_text("\n".join(lines) + "\n")
    judgements = ranx.Qrels.from_file(str(path), kind="trec").to_dict()

    whole = {str(q): {str(d): float(s) for d, s in zip(items, row)} for q, row in zip(queries, table)}
    best = {q: dict(sorted(row.items(), key=lambda pair: -pair[1])[:LISTED]) for q, row in whole.items()}
    ranx.Run.from_dict(best, "made").save(str(folder / f"qrels_run_{direction}.txt"), kind="trec")

    golden[direction] = {}
    for level in (1, 2):
        relevant = {q: sum(grade >= level for grade in row.values()) for q, row in judgements.items()}
        kept = {q: {d: int(g) for d, g in row.items()} for q, row in judgements.items() if relevant[q] > 0}
        assert 0 < len(kept) < len(judgements) < len(queries), "some queries are not judged, some have no relevant item"
        qrels, run = ranx.Qrels.from_dict(kept), ranx.Run.from_dict({q: whole[q] for q in kept})
        names = {f"recall {k}": f"hit_rate@{k}" for k in (1, 5, 10)}
        names |= {f"set_recall {k}": f"recall@{k}" for k in (1, 5, 10)} | {"r_precision": "r-precision"}
        values = {name: 100.0 * float(ranx.evaluate(qrels, run, f"{of}-l{level}")) for name, of in names.items()}
        precisions = []
        for q in kept:
            one = ranx.Qrels.from_dict({q: kept[q]}), ranx.Run.from_dict({q: whole[q]})
            precisions.append(float(ranx.evaluate(*one, f"map@{relevant[q]}-l{level}")))
        values["map_at_r"] = 100.0 * float(numpy.mean(precisions))
        golden[direction][str(level)] = {**values, "n_queries": len(kept)}
(folder / "qrels.json").write_text(json.dumps(golden, indent=1) + "\n")
