"""Writes over_seeds.txt: mean, sample standard deviation and t interval of values, and paired tests against a baseline,
by scipy.

python tests/golden/over_seeds.py > tests/golden/over_seeds.txt

Lines: name, the values, the baseline, then mean, deviation, both ends of the 95 % interval, the statistic and p-value of
the paired t-test, and the p-value of the randomisation test with all sign flips.
"""

import numpy as np
import scipy
from scipy.stats import permutation_test, t, ttest_rel

assert np.__version__ == "2.4.6" and scipy.__version__ == "1.17.1"

rng = np.random.default_rng(11)
cases = {
    "two_seeds": ([411.5, 414.9], [421.9, 421.0]),
    "three_seeds": ([235.2, 241.7, 230.4], [228.0, 239.1, 231.3]),
    "five_seeds": (np.round(rng.normal(290, 6, 5), 1), np.round(rng.normal(283, 6, 5), 1)),
    "ties": ([300.0, 301.0, 302.0, 303.0, 300.0, 301.0], [300.0, 300.0, 301.0, 305.0, 299.0, 301.0]),
    "ten_seeds": (np.round(rng.normal(290, 6, 10), 1), np.round(rng.normal(289, 6, 10), 1)),
    "large_mean": (np.round(1e9 + rng.normal(0, 1, 8), 3), np.round(1e9 + rng.normal(0.5, 1, 8), 3)),
}
for name, (values, baseline) in cases.items():
    values, baseline = np.array(values), np.array(baseline)
    n, deviation = len(values), values.std(ddof=1)
    interval = t.interval(0.95, n - 1, loc=values.mean(), scale=deviation / np.sqrt(n))
    paired = ttest_rel(values, baseline)
    flips = permutation_test((values - baseline,), np.mean, permutation_type="samples", n_resamples=np.inf)
    numbers = [values.mean(), deviation, *interval, paired.statistic, paired.pvalue, flips.pvalue]
    print(name, *(repr(float(v)) for v in (*values, *baseline, *numbers)))
