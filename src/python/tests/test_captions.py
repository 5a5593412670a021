"""Caption similarity beside pycocoevalcap, whose CIDEr needs no Java."""

import numpy as np
import pyarrow
import pytest
from pycocoevalcap.cider.cider import Cider

import pairloom
from pairloom import coco

REFERENCES = {
    1: ["a dog runs on the grass", "a brown dog is running", "the dog runs fast over grass"],
    2: ["two people ride a red bus", "a red bus with two people on it"],
    3: ["a man throws a frisbee to a dog", "a man plays with his dog on the beach"],
}
CANDIDATES = {1: ["a dog running on grass"], 2: ["people on a bus"], 3: ["a man and a dog on the beach"]}


def test_cider_d_is_that_of_pycocoevalcap():
    mean, scores = Cider().compute_score(REFERENCES, CANDIDATES)
    own_mean, own_scores = coco.Cider().compute_score(REFERENCES, CANDIDATES)
    assert own_scores == pytest.approx(scores, abs=1e-12) and own_mean == pytest.approx(mean, abs=1e-12)
    columns = [pyarrow.array(own) for own in REFERENCES.values()]
    given = pyarrow.array([own[0] for own in CANDIDATES.values()])
    assert pairloom.cider_d(given, columns, tokenizer="whitespace") == pytest.approx(scores, abs=1e-12)


def test_the_matrix_has_the_similarity_of_each_pair():
    captions = list(REFERENCES.values())
    matrix = pairloom.caption_similarity(captions, tokenizer="whitespace")
    assert matrix.shape == (3, 7)
    # A caption as candidate of each image: document frequencies are the same.
    expected = [Cider().compute_score(REFERENCES, {i: [captions[0][0]] for i in REFERENCES})[1]]
    assert matrix[:, 0] == pytest.approx(np.array(expected[0]), abs=1e-5)


def test_words_are_those_of_the_coco_evaluation():
    captions = {7: [{"caption": "A dog's ball, isn't it?"}]}
    assert coco.PTBTokenizer().tokenize(captions) == {7: ["a dog 's ball is n't it"]}


def test_spice_compares_objects_attributes_and_relations():
    (graph,) = pairloom.scene_graphs(["A brown dog sits on a wall ."])
    assert graph["objects"] == ["dog", "wall"] and graph["attributes"] == [("dog", "brown")]
    assert graph["relations"] == [("dog", "sit on", "wall")]
    # Two of the four tuples of the candidate's image: dog and wall, without brown and sit on. P = 1, R = 1/2, F = 2/3.
    (score,) = pairloom.spice(["A dog and a wall ."], [["A brown dog sits on a wall ."]])
    assert (score["precision"], score["recall"]) == (1.0, 0.5) and score["f"] == pytest.approx(2 / 3)
    assert score["color"] is not None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["a", 3], [["a"], ["b"]]), "got 3 at 1, expected a text"),
        (("a dog", [["a"]]), "got one text"),
        ((["a"], [["a"], ["b"]]), "got 1 candidates, expected 2"),
        ((["a"], [[]]), "image 0 has no references"),
    ],
)
def test_wrong_texts_are_exceptions(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        pairloom.cider_d(*arguments)
