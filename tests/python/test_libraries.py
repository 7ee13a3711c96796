"""Arrays in the libraries that users bring them to: pandas, Matplotlib, einops, SciPy and scikit-learn."""

import os
import subprocess
import sys

import numpy as np
import pytest

import mlxc as mx


def test_pandas_takes_arrays_as_columns_tables_and_indices():
    pd = pytest.importorskip("pandas")
    x, table = mx.array([1.5, 2.5, 3.5]), mx.arange(6).reshape(2, 3)
    assert pd.Series(x).tolist() == [1.5, 2.5, 3.5] and pd.Series(x).dtype == np.float32
    assert pd.DataFrame(table).to_numpy().tolist() == table.tolist()
    frame = pd.DataFrame({"a": x, "b": mx.array([1, 2, 3])}, index=mx.array([7, 8, 9]))
    assert frame.dtypes.tolist() == [np.float32, np.int32] and frame.index.tolist() == [7, 8, 9]
    series = pd.Series([1.0, 2.0, 3.0], index=[5, 6, 7])
    for total in (series + x, x + series):
        assert isinstance(total, pd.Series) and total.tolist() == [2.5, 4.5, 6.5] and total.index.tolist() == [5, 6, 7]
    assert isinstance(x > series, pd.Series) and (x > series).tolist() == [True, True, True]
    assert mx.add(x, series).tolist() == [2.5, 4.5, 6.5]
    assert mx.array(frame[["a"]]).tolist() == [[1.5], [2.5], [3.5]] and mx.array(frame["b"]).dtype == mx.int32


def test_matplotlib_draws_arrays():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    x, image = mx.array([1.0, 2.0, 3.0]), mx.arange(12).reshape(3, 4)
    figure, axes = pyplot.subplots()
    (line,) = axes.plot(x, x**2)
    assert line.get_xydata().tolist() == [[1, 1], [2, 4], [3, 9]]
    assert axes.imshow(image).get_array().tolist() == image.tolist()
    assert axes.scatter(x, x, c=x).get_offsets().tolist() == [[1, 1], [2, 2], [3, 3]]
    assert axes.hist(x, bins=3)[0].tolist() == [1, 1, 1]
    assert [b.get_height() for b in axes.bar(x, x)] == [1, 2, 3]
    axes.fill_between(x, x, 2 * x)
    axes.errorbar(x, x, yerr=x)
    axes.contourf(image)
    axes.plot(x.astype(mx.bfloat16))
    figure.canvas.draw()
    pyplot.close(figure)


def test_einops_rearranges_arrays():
    array_api = pytest.importorskip("einops.array_api")
    m = mx.arange(6).reshape(2, 3)
    assert array_api.rearrange(m, "a b -> b a").tolist() == m.T.tolist()
    assert array_api.reduce(m.astype(mx.float32), "a b -> a", "mean").tolist() == [1, 4]
    assert array_api.repeat(m, "a b -> a b c", c=2).shape == (2, 3, 2)
    packed, shapes = array_api.pack([m, m], "* b")
    assert packed.shape == (4, 3) and [p.tolist() for p in array_api.unpack(packed, shapes, "* b")] == [m.tolist()] * 2


def run(code):
    """Runs a program with SciPy's array mode on, which is decided when SciPy is imported."""
    environment = os.environ | {"SCIPY_ARRAY_API": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], check=False, capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr


HEAD = """
import numpy as np
import mlxc as mx

def agree(function, *arrays):
    want = function(*arrays)
    got = function(*[mx.array(a) for a in arrays])
    for left, right in zip(want, got) if isinstance(want, tuple) else [(want, got)]:
        assert isinstance(right, mx.array), (function, type(right))
        np.testing.assert_allclose(np.asarray(right), left, rtol=1e-3, atol=1e-4)

rng = np.random.default_rng(0)
x = np.array([1, 2, 4, 8], np.float32)
m = rng.normal(size=(40, 4)).astype(np.float32)
"""


def test_scipy_computes_with_arrays_in_its_array_mode():
    run(HEAD + """
from scipy import cluster, differentiate, fft, integrate, ndimage, signal, special, stats
from scipy.spatial.transform import Rotation

for function in (stats.zscore, stats.skew, stats.kurtosis, stats.gmean, stats.rankdata, stats.entropy, stats.iqr,
                 special.logsumexp, special.softmax, special.gammaln, special.expit, special.ndtr, signal.detrend,
                 signal.hilbert, fft.fft, fft.rfft, fft.dct, integrate.trapezoid):
    agree(function, x)
agree(lambda a, b: tuple(stats.ttest_ind(a, b)), m[:, 0], m[:, 1])
agree(lambda a, b: stats.pearsonr(a, b).statistic, m[:, 0], m[:, 1])
agree(lambda a: cluster.vq.vq(a, a[:3, :]), m)
agree(cluster.hierarchy.linkage, m)
agree(lambda a: ndimage.gaussian_filter(a, 1.0), m)
agree(signal.convolve, x, x)
agree(signal.fftconvolve, x, x)
agree(fft.fftn, m)
agree(lambda v: Rotation.from_rotvec(v).as_matrix(), m[:, :3])
wide = mx.array([1.0, 2.0], dtype=mx.float64)
assert np.allclose(differentiate.derivative(lambda t: t**2, wide).df, [2, 4])
assert np.allclose(integrate.tanhsinh(lambda t: t**2, 0 * wide, wide).integral, [1 / 3, 8 / 3])
""")


def test_scikit_learn_dispatches_to_arrays():
    pytest.importorskip("sklearn")
    run(HEAD + """
import sklearn
from sklearn import metrics
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, StandardScaler

sklearn.set_config(array_api_dispatch=True)
labels = (m[:, 0] + m[:, 1] > 0).astype(np.int32)
target = m @ np.arange(4, dtype=np.float32)
for scaler in (MaxAbsScaler, MinMaxScaler, Normalizer, StandardScaler):
    agree(lambda a: scaler().fit_transform(a), m)
agree(lambda a, b: Ridge(solver="svd").fit(a, b).coef_, m, target)
agree(lambda a: abs(PCA(2, svd_solver="full").fit_transform(a)), m)
agree(lambda a, b: LinearDiscriminantAnalysis().fit(a, b).predict(a), m, labels)
agree(lambda a, b: make_pipeline(StandardScaler(), LinearDiscriminantAnalysis()).fit(a, b).predict_proba(a), m, labels)
agree(lambda a, b: tuple(train_test_split(a, b, random_state=0)), m, labels)
agree(metrics.pairwise.rbf_kernel, m, m)
agree(metrics.pairwise.euclidean_distances, m, m)
a, b, flipped = mx.array(m), mx.array(labels), np.roll(labels, 3)
for score in (metrics.accuracy_score, metrics.f1_score, metrics.balanced_accuracy_score):
    assert abs(score(b, mx.array(flipped)) - score(labels, flipped)) < 1e-6
assert abs(metrics.r2_score(mx.array(target), mx.array(target) + 0.5) - metrics.r2_score(target, target + 0.5)) < 1e-4
assert cross_val_score(LinearDiscriminantAnalysis(), a, b, cv=3).shape == (3,)
assert GaussianMixture(2, random_state=0, init_params="random").fit(a).predict(a).shape == (40,)
""")
