"""evaluate and search beside numpy."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pyarrow
import pytest

import pairloom

RNG = np.random.default_rng(7)


def unit(rows, width=16):
    vectors = RNG.standard_normal((rows, width)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


IMAGES, CAPTIONS = unit(40), unit(200)
IMAGE_OF = np.repeat(np.arange(40), 5)


def recalls(images, captions, image_of):
    """R@1, R@5, R@10 of both directions, by a stable sort."""
    scores = images.astype(np.float64) @ captions.T.astype(np.float64)
    i2t = [min(np.flatnonzero(image_of[np.argsort(-row, kind="stable")] == image)) for image, row in enumerate(scores)]
    t2i = [np.flatnonzero(np.argsort(-row, kind="stable") == image_of[c])[0] for c, row in enumerate(scores.T)]
    return [100 * np.mean(np.array(ranks) < k) for ranks in (i2t, t2i) for k in (1, 5, 10)], np.array(i2t) + 1


def test_recalls_are_those_of_numpy():
    expected, ranks = recalls(IMAGES, CAPTIONS, IMAGE_OF)
    result = pairloom.evaluate(IMAGES, CAPTIONS, captions_per_image=5)
    got = [result[f"{side}_r{k}"] for side in ("i2t", "t2i") for k in (1, 5, 10)]
    assert got == pytest.approx(expected) and result["rsum"] == pytest.approx(sum(expected))
    assert (result.ranks("i2t") == ranks).all()
    assert f"rsum {sum(expected):.1f}" in repr(result) and "<table>" in result._repr_html_()


def test_ranks_are_of_one_pool_and_a_method():
    images = unit(5000, 4)
    folds = pairloom.evaluate(images, images, protocols=["five_fold"])
    with pytest.raises(ValueError, match="expected one pool"):
        folds.ranks("i2t")
    with pytest.raises(ValueError, match="got method 1, expected 0 to 0"):
        pairloom.evaluate(IMAGES, CAPTIONS).ranks("t2i", method=1)


def test_captions_may_be_in_any_order():
    order = RNG.permutation(200)
    expected, _ = recalls(IMAGES, CAPTIONS, IMAGE_OF)
    result = pairloom.evaluate(IMAGES, CAPTIONS[order], image_of_caption=IMAGE_OF[order])
    assert result["rsum"] == pytest.approx(sum(expected))


@pytest.mark.parametrize("form", ["float64", "float16", "fortran", "strided", "big_endian", "read_only", "arrow", "chunks"])
def test_any_form_of_an_array_has_the_same_result(form):
    images = IMAGES.astype(np.float16).astype(np.float32) if form == "float16" else IMAGES
    wide = np.zeros((40, 32), dtype=np.float32)
    wide[:, ::2] = images
    frozen = images.copy()
    frozen.flags.writeable = False
    column = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(images.ravel()), 16)
    given = {
        "float64": images.astype(np.float64),
        "float16": images.astype(np.float16),
        "fortran": np.asfortranarray(images),
        "strided": wide[:, ::2],
        "big_endian": images.astype(">f4"),
        "read_only": frozen,
        "arrow": column,
        "chunks": pyarrow.chunked_array([column[:10], column[10:]]),
    }[form]
    expected, ranks = recalls(images, CAPTIONS, IMAGE_OF)
    result = pairloom.evaluate(given, CAPTIONS)
    assert result["rsum"] == pytest.approx(sum(expected)) and (result.ranks("i2t") == ranks).all()


def test_tables_are_read_by_arrow():
    result = pairloom.evaluate(IMAGES, CAPTIONS, methods=["nns", {"csls": {"k": 5}}])
    summary = pyarrow.table(result.summary)
    assert summary["method"].to_pylist() == ["nns", "csls"]
    # 40 images and 200 captions, by two methods.
    rankings = pyarrow.table(result.rankings)
    assert len(result.rankings) == 2 * 240 == rankings.num_rows and min(rankings["rank"].to_pylist()) == 1
    assert set(result.hubs.column_names) >= {"item_id", "n10"}


def test_a_difference_is_tested():
    worse = IMAGES + 0.5 * unit(40)
    worse /= np.linalg.norm(worse, axis=1, keepdims=True)
    first, second = pairloom.evaluate(IMAGES, IMAGES), pairloom.evaluate(worse, IMAGES)
    (found,) = first.compare(second)
    assert found.difference == pytest.approx(first["rsum"] - second["rsum"])
    assert found.interval[0] <= found.difference <= found.interval[1] and 0 < found.p_value <= 1


def test_lists_are_those_of_numpy():
    items, scores = pairloom.search(CAPTIONS, IMAGES, k=7)
    products = CAPTIONS.astype(np.float64) @ IMAGES.T.astype(np.float64)
    assert (items == np.argsort(-products, axis=1, kind="stable")[:, :7]).all()
    assert np.allclose(scores, np.take_along_axis(products, items, 1), atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((IMAGES[0], CAPTIONS), r"shape \(16,\), expected \(vectors, width\)"),
        ((IMAGES[:, :8] / np.linalg.norm(IMAGES[:, :8], axis=1, keepdims=True), CAPTIONS), "`captions` has vectors of width 16, expected 8"),
        ((2 * IMAGES, CAPTIONS), r"row 0: got a vector of length 2.0000, expected 1"),
        ((np.where(np.arange(16) == 3, np.nan, IMAGES).astype(np.float32), CAPTIONS), "got NaN at 3"),
        ((IMAGES[:0], CAPTIONS), "200 captions of 0 images"),
        ((IMAGES, CAPTIONS[:199]), "199 captions of 40 images, 4 an image"),
        ((np.array([["a"]]), CAPTIONS), "expected numbers"),
        (("images", CAPTIONS), r"shape \(\)"),
    ],
)
def test_wrong_inputs_are_exceptions(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        pairloom.evaluate(*arguments)


def test_wrong_settings_are_exceptions():
    for settings, message in [
        ({"methods": ["cslss"]}, "unknown variant `cslss`"),
        ({"cutoffs": (5, 1)}, "cut-offs"),
        ({"protocols": ["five_fold"]}, "exactly 5000 images"),
        ({"image_of_caption": [0]}, "images of 1 captions, expected 200"),
        ({"image_of_caption": [-1] * 200}, "from 0 on"),
        ({"methods": ["qb_norm"]}, "bank"),
    ]:
        with pytest.raises(ValueError, match=message):
            pairloom.evaluate(IMAGES, CAPTIONS, **settings)


def test_ctrl_c_ends_a_call():
    code = """
import numpy as np, pairloom
images = np.random.default_rng(0).standard_normal((20000, 512)).astype(np.float32)
print("ready", flush=True)
try:
    while True:
        pairloom.evaluate(images, images, normalize=True, threads=1)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60)[0] == "interrupted\n"


def test_threads_and_a_fork_have_the_same_result():
    expected = pairloom.evaluate(IMAGES, CAPTIONS)["rsum"]
    got = []
    threads = [threading.Thread(target=lambda: got.append(pairloom.evaluate(IMAGES, CAPTIONS)["rsum"])) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert got == [expected] * 4
    child = os.fork()
    if child == 0:
        os._exit(0 if pairloom.evaluate(IMAGES, CAPTIONS)["rsum"] == expected else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_progress_is_reported():
    seen = []
    images = unit(3000, 256)
    pairloom.evaluate(images, images, methods=["nns", "csls", "sinkhorn"], progress=lambda done, total: seen.append((done, total)))
    assert seen and all(done <= total for done, total in seen)

    def stop(done, total):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        pairloom.evaluate(images, images, methods=["nns", "csls", "sinkhorn"], progress=stop)
