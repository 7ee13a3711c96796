"""How far a result may be from its reference, in units in the last place of the result's dtype.

The unit is taken at the reference value, or at a larger `scale` where an op adds numbers of that size up and no
float arithmetic could do better. NaN, infinities and, where asked, the sign of zero must agree.
"""

from __future__ import annotations

import numpy as np

from .dtypes import Dtype, store, widen


def ulp(magnitude: np.ndarray, dtype: Dtype) -> np.ndarray:
    """Spacing of the dtype's numbers at the magnitude."""
    with np.errstate(invalid="ignore", over="ignore"):
        magnitude = np.minimum(magnitude, dtype.greatest).astype(np.longdouble)
        exponent = np.where(magnitude == 0, dtype.least_exponent, np.frexp(magnitude)[1] - 1)
        return np.ldexp(np.longdouble(1), np.maximum(exponent, dtype.least_exponent) - dtype.mantissa)


def find_mismatch(
    got: np.ndarray,
    dtype: Dtype,
    reference: np.ndarray,
    tolerance: float = 0.0,
    *,
    scale: np.ndarray | None = None,
    zero_sign: bool = False,
) -> str | None:
    """What is wrong with `got` (stored values of `dtype`) beside the wide reference, or None."""
    reference = np.asarray(reference)
    if got.shape != reference.shape:
        return f"shape {got.shape}, expected {reference.shape}"
    if not dtype.is_float:
        wrong = got != reference.astype(dtype.stored)
        return None if not wrong.any() else _describe(wrong, got, reference, None)
    values = widen(got, dtype)
    if dtype.kind == "c":
        wrong, error = _complex_errors(values, reference.astype(dtype.wide), dtype, tolerance, scale)
    else:
        wrong, error = _real_errors(values, reference.astype(dtype.wide), dtype, tolerance, scale)
        if zero_sign:
            zero = (values == 0) & (reference == 0)
            wrong |= zero & (np.signbit(values) != np.signbit(reference))
    return None if not wrong.any() else _describe(wrong, values, reference, error)


def _real_errors(values, reference, dtype, tolerance, scale):
    magnitude = np.abs(reference) if scale is None else np.maximum(np.abs(reference), np.abs(scale))
    unit = ulp(np.where(np.isfinite(magnitude), magnitude, 0), dtype)
    # What the dtype makes of the reference: beyond the greatest number that is infinity.
    rounded = widen(store(reference, dtype), dtype)
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(values - reference) / unit
        close = np.isfinite(values) & np.isfinite(reference) & (error <= np.maximum(tolerance, 0.5))
        near_greatest = np.abs(reference) >= dtype.greatest - tolerance * ulp(np.asarray(dtype.greatest), dtype)
    exact = values == rounded
    both_nan = np.isnan(values) & np.isnan(reference)
    overflow = np.isinf(values) & near_greatest & (np.sign(values) == np.sign(reference))
    if tolerance == 0:
        close = exact
    return ~(close | exact | both_nan | overflow), error


def _complex_errors(values, reference, dtype, tolerance, scale):
    """Complex numbers are compared as points: the error's modulus beside the value's."""
    magnitude = np.abs(reference) if scale is None else np.maximum(np.abs(reference), np.abs(scale))
    unit = ulp(np.where(np.isfinite(magnitude), magnitude, 0), dtype)
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(values - reference) / unit
        close = np.isfinite(values) & np.isfinite(reference) & (error <= 4 * np.maximum(tolerance, 0.25))
    if tolerance == 0:
        close = values == reference
    same = (values == reference) | (np.isnan(values) & np.isnan(reference))
    return ~(close | same), error


def _describe(wrong: np.ndarray, got: np.ndarray, reference: np.ndarray, error: np.ndarray | None) -> str:
    wrong = np.asarray(wrong)
    if error is None or not np.isfinite(error[wrong]).any():
        at = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
    else:
        at = np.unravel_index(int(np.argmax(np.where(wrong & np.isfinite(error), error, -1))), wrong.shape)
    where = tuple(int(i) for i in at)
    text = f"{int(wrong.sum())} of {wrong.size} wrong, worst at {where}: got {got[at]}, expected {reference[at]}"
    if error is not None and np.isfinite(error[at]):
        text += f" ({float(error[at]):.3g} ulp)"
    return text
