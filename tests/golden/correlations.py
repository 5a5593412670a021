"""Writes correlations.txt: Pearson, Spearman, Kendall tau-b and tau-c by scipy, on samples with many ties and without
ties.

python tests/golden/correlations.py > tests/golden/correlations.txt

Lines: name, n, the values of x, the values of y, the four coefficients.
"""

import numpy as np
import scipy
from scipy.stats import kendalltau, pearsonr, spearmanr

assert np.__version__ == "2.4.6" and scipy.__version__ == "1.17.1"

rng = np.random.default_rng(3)
n = 60
grade = rng.integers(0, 6, n).astype(float)
cases = {
    "no_ties": (np.round(rng.standard_normal(n), 6), np.round(rng.standard_normal(n), 6)),
    "ties_in_both": (grade, np.clip(grade + rng.integers(-2, 3, n), 0, 4).astype(float)),
    "binary_score": ((grade + rng.standard_normal(n) > 3).astype(float), np.round(grade + rng.random(n), 1)),
    "falling": (grade, np.round(5 - grade + rng.standard_normal(n) / 4, 2)),
    "large_means": (1e6 + grade, np.round(1e6 + grade * rng.random(n), 3)),
    "two_values": (np.array([1.0, 2.0]), np.array([7.0, 3.0])),
}
for name, (x, y) in cases.items():
    numbers = [pearsonr(x, y)[0], spearmanr(x, y)[0], kendalltau(x, y)[0], kendalltau(x, y, variant="c")[0]]
    print(name, len(x), *(repr(float(v)) for v in (*x, *y, *numbers)))
